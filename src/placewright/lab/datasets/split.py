"""Training, validation and test parts of a set of graphs (Paliwal et al. 2020, appendix A.1.2)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from placewright.graph import Graph

#: The part that each of five graphs of neighbouring size goes to. Fives alternate, so that neither validation nor test
#: has the larger graphs.
_FIVES = (("train", "valid", "train", "test", "train"), ("train", "test", "train", "valid", "train"))


@dataclass(frozen=True, kw_only=True)
class Split:
    """Three parts of a set, each sorted by number of ops, then name."""

    train: tuple[Graph, ...]
    valid: tuple[Graph, ...]
    test: tuple[Graph, ...]


def in_degrees(graph: Graph) -> tuple[int, ...]:
    """Return the in-degree sequence, by which the paper distinguishes topologies: for every op the number of different
    tensors it reads that an op produces, plus its control dependencies; ascending, so that the order of ops does not
    matter."""
    return tuple(
        sorted(sum(graph.producer_of[tensor] >= 0 for tensor in set(op.inputs)) + len(op.controls) for op in graph.ops)
    )


def topology_of(graph: Graph) -> str:
    """Return a digest of the in-degree sequence."""
    return hashlib.sha256(json.dumps(in_degrees(graph)).encode()).hexdigest()[:16]


def split_by_size(graphs: Sequence[Graph]) -> Split:
    """Sort by number of ops and divide every five neighbours 3-1-1, so that the parts have similar sizes."""
    parts: dict[str, list[Graph]] = {"train": [], "valid": [], "test": []}
    for place, graph in enumerate(sorted(graphs, key=lambda graph: (len(graph.ops), graph.name))):
        five, position = divmod(place, 5)
        parts[_FIVES[five % 2][position]].append(graph)
    return Split(**{name: tuple(part) for name, part in parts.items()})
