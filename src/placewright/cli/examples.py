"""`placewright examples`: the graphs that ship with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placewright.cli.options import Json

if TYPE_CHECKING:
    from placewright.graph import Graph


def list_examples(as_json: Json = False) -> int:
    """The graphs that ship with placewright, for use as example:NAME."""
    from placewright import examples
    from placewright.analysis.inspection import describe_metadata
    from placewright.cli.printing import print_json, print_parts
    from placewright.importers import load_graph
    from placewright.support.quantities import counted
    from placewright.terminal.tables import table

    graphs = {name: load_graph(f"example:{name}") for name in examples.names()}
    described = {name: (describe_metadata(graph.metadata), _inputs(graph)) for name, graph in graphs.items()}
    if as_json:
        facts = {
            name: {
                "num_ops": len(graphs[name].ops),
                "num_scheduled_ops": _num_scheduled(graphs[name]),
                "description": what,
                "inputs": inputs,
            }
            for name, (what, inputs) in described.items()
        }
        print_json({"schema_version": 1, "examples": facts})
        return 0
    rows = [
        [name, f"{len(graphs[name].ops):,}", f"{_num_scheduled(graphs[name]):,}", what, ", ".join(inputs)]
        for name, (what, inputs) in described.items()
    ]
    print_parts(table(["<example", "ops", "to schedule", "<what", "<inputs"], rows), "")
    print_parts(
        "to schedule: without views, which take no time and stand where their base stands",
        f"{counted(len(rows), 'example')}; use one as example:NAME, as in: placewright inspect example:{rows[0][0]}",
    )
    return 0


def _num_scheduled(graph: Graph) -> int:
    return sum(op.kind != "view" for op in graph.ops)


def _inputs(graph: Graph) -> list[str]:
    from placewright.analysis.inspection import graph_inputs

    return [
        f"{entry.dtype or 'unknown'}{list(entry.shape) if entry.shape is not None else ''}"
        for entry in graph_inputs(graph)
    ]
