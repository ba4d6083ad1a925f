"""A graph whose names try to be markup."""

from placewright.graph import Graph
from placewright.importers.builder import GraphBuilder


def hostile_graph() -> Graph:
    graph = GraphBuilder("<b>net</b>")
    made = graph.add_tensor("<b>made</b>", size_bytes=10)
    weight = graph.add_tensor('"><b>weight', size_bytes=20, role="parameter")
    graph.add_op("<b>op</b>", "matmul", inputs=[weight], outputs=[made])
    return graph.build()
