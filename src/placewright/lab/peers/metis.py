"""Placement by METIS (Karypis & Kumar 1998)."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from placewright.problem import Problem
from placewright.support.errors import MissingExtraError

#: Total weight of all vertices, and of all edges, in METIS, whose numbers may have 32 bits.
TOTAL_WEIGHT = 2**30


def metis_partition(problem: Problem, imbalance: float) -> NDArray[np.int32]:
    """Return the device of each scheduled op, int32 [num scheduled ops]: few bytes between devices, times in proportion
    to speed.

    METIS partitions graphs, not tensors with several readers, so bytes count once for each reader. It does not support
    forbidden devices either: an op placed on one moves to the first it may use. imbalance: share of a device's time by
    which it may exceed its own. Raises MissingExtraError without pymetis.
    """
    group, allowed = problem.groups
    first_ops, vertex_of = np.unique(group, return_inverse=True)
    own_time = problem.time_ns[problem.lowered.graph_op].astype(np.float64)
    num_parts = min(problem.machine.num_devices, len(first_ops))
    if num_parts == 1:
        part_of = np.zeros(len(first_ops), np.int64)
    else:
        time = np.bincount(vertex_of, own_time.mean(axis=1)).astype(np.float64)
        part_of = _partition(time, *_edges(problem, vertex_of), _shares(own_time, num_parts), imbalance)
    placed = [_nearest_allowed(int(part), int(mask)) for part, mask in zip(part_of, allowed[first_ops], strict=True)]
    return np.array(placed, np.int32)[vertex_of]


def _partition(
    time: NDArray[np.float64],
    begin: NDArray[np.int64],
    neighbours: NDArray[np.int64],
    edge_bytes: NDArray[np.float64],
    shares: Sequence[float],
    imbalance: float,
) -> NDArray[np.int64]:
    """Return the part of each vertex. begin, neighbours, edge_bytes: both directions of every edge, as CSR."""
    try:
        import pymetis
    except ImportError:
        raise MissingExtraError("pymetis", "metis", "partitioning with METIS") from None
    with _muted():
        parts = pymetis.part_graph(
            len(shares),
            pymetis.CSRAdjacency(begin.tolist(), neighbours.tolist()),
            vweights=_scaled(time, 0),
            eweights=_scaled(edge_bytes, 1),
            tpwgts=list(shares),
            recursive=True,
            options=pymetis.Options(ufactor=max(1, round(1000 * imbalance)), seed=0),
        ).vertex_part
    return np.array(parts, np.int64)


@contextmanager
def _muted() -> Iterator[None]:
    """Discard standard output in this context: METIS prints complaints about small graphs past Python, through C's own
    buffer."""
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    try:
        kept = os.dup(1)
    except OSError:  # closed: nothing can be printed
        yield
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
        flush(None)
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _shares(own_time: NDArray[np.float64], num_parts: int) -> list[float]:
    """Return the share of the time for each of the first devices: proportional to the inverse of the time all ops take
    there."""
    total = own_time.sum(axis=0)[:num_parts]
    speed = np.ones(num_parts) if (total == 0).any() else 1 / total
    return [float(share) for share in speed / speed.sum()]


def _edges(
    problem: Problem, vertex_of: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return pairs of vertices between which tensors pass, in both directions as CSR, with their bytes."""
    lowered = problem.lowered
    reader = vertex_of[lowered.reader]
    maker = vertex_of[lowered.producer[lowered.inputs]]
    apart = reader != maker
    size_bytes = np.tile(lowered.transfer_bytes[lowered.inputs][apart].astype(np.float64), 2)
    source = np.concatenate([reader[apart], maker[apart]])
    target = np.concatenate([maker[apart], reader[apart]])
    count = int(vertex_of.max()) + 1
    pairs, place = np.unique(source * count + target, return_inverse=True)
    begin = np.searchsorted(pairs, np.arange(count + 1) * count)
    edge_bytes = np.bincount(place, size_bytes, minlength=len(pairs)).astype(np.float64)
    return begin.astype(np.int64), (pairs % count).astype(np.int64), edge_bytes


def _scaled(weights: NDArray[np.float64], least: int) -> list[int]:
    total = weights.sum()
    scale = min(1.0, TOTAL_WEIGHT / total) if total > 0 else 1.0
    rounded = np.maximum(np.rint(weights * scale), least).astype(np.int64)
    return [1] * len(rounded) if not rounded.any() else [int(weight) for weight in rounded]


def _nearest_allowed(device: int, mask: int) -> int:
    """Return the device if the mask includes it, else the first that the mask includes."""
    return device if mask >> device & 1 else (mask & -mask).bit_length() - 1
