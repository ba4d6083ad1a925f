"""Third-party files that tests compare with; they are not part of the repository."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from placewright.graph import Graph, Op, Tensor, in_topological_order
from placewright.importers.stg import parse_stg

#: Next to the repository, or where the environment variable says.
FOLDER = Path(os.environ.get("PLACEWRIGHT_REFERENCE_DATA", Path(__file__).parents[2] / "shared" / "data"))

#: Marks tests that read a file of the folder; they are left out if it does not exist.
needs_reference_data = pytest.mark.reference_data

STG = FOLDER / "stg50"
OLLA = FOLDER / "olla/known_answers.json"


@lru_cache(maxsize=200)
def task_graph(name: str) -> Graph:
    return parse_stg((STG / name).read_bytes(), name)


def certified_rows() -> Iterator[tuple[str, int, int]]:
    """Instance, processors and optimal makespan, of those where it is proven."""
    with (STG / "certified_makespans.csv").open() as file:
        for row in csv.DictReader(file):
            if row["status"] == "OPTIMAL":
                yield row["instance"], int(row["procs"]), int(row["lower_bound"])


def known_peaks() -> dict[str, tuple[Graph, int]]:
    """Graphs whose tensors each have one producer, with the proven least peak over tensors alone."""
    records: dict[str, dict[str, Any]] = json.loads(OLLA.read_text())
    return {
        name: (_graph(record), record["bruteforce_min_peak_edges_only"])
        for name, record in records.items()
        if record["bruteforce_min_peak_edges_only"] is not None
        and all(len(edge["src"]) == 1 for edge in record["edges"])
    }


def _graph(record: dict[str, Any]) -> Graph:
    """Nodes as ops, edges as tensors."""
    edges = record["edges"]
    ops = [
        Op(
            name=node,
            kind="other",
            inputs=tuple(index for index, edge in enumerate(edges) if node in edge["dst"]),
            outputs=tuple(index for index, edge in enumerate(edges) if node in edge["src"]),
        )
        for node in record["nodes"]
    ]
    tensors = tuple(Tensor(name=f"t{index}", size_bytes=edge["size"]) for index, edge in enumerate(edges))
    return Graph(name="olla", ops=tuple(in_topological_order(ops, tensors, "olla")), tensors=tensors)
