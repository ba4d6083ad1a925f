"""Importers: each turns one source of computation graphs into a Graph."""

from __future__ import annotations

from placewright.importers.json_graph import save_graph
from placewright.importers.sources import load_graph, load_graphs

__all__ = ["load_graph", "load_graphs", "save_graph"]
