"""List scheduling of clusters: what would be sent to and fro is put together first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright import _core
from placewright.problem import Problem
from placewright.search.baseline import Baseline, Candidate
from placewright.search.input_order import INPUT_ORDER

#: Of the time of all ops, one over these is the most a cluster takes. What did best most often comes first.
PARTS = (64, 128, 32, 256, 16, 96, 192, 48, 24, 512, 8, 384, 1024, 2048)


@dataclass(frozen=True, kw_only=True)
class ClusterList(Baseline):
    """Clusters of ops are scheduled as if each were one op, then their ops are ordered on the devices found, always the
    one of highest bottom level among those that can start.

    Clustering: from an op to its only successor or its only predecessor, the heaviest edges first, up to several caps
    on a cluster's time (the core's clusters.hpp). Scheduling: by earliest task first; by bottom level and in captured
    order, each cluster where it finishes first, or where the peak is least for that objective. Where memory is limited
    or the objective, the ops are tried in captured order too. The best of all is kept.

    Clustering before scheduling is Sarkar's scheme (Partitioning and Scheduling Parallel Programs, 1989); caps on the
    clusters' time are those of coarsening (Hendrickson and Leland 1995).
    """

    name: str = "cluster-list"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        total_ns = int(problem.time_ns[problem.lowered.graph_op].mean(axis=1).sum())
        seen = set[bytes]()
        for part in PARTS:
            small, cluster_of = _core.contracted(problem.core, total_ns // part)
            for rule, device_of_cluster in _placements(small, problem.objective == "peak-memory"):
                device_of = device_of_cluster[cluster_of]
                if device_of.tobytes() not in seen:
                    seen.add(device_of.tobytes())
                    yield from _ordered(f"{rule}, 1/{part}", problem, device_of)


def _placements(small: _core.Problem, by_memory: bool) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """By name devices of the clusters, int32 [num clusters]."""
    if not by_memory:
        yield "earliest task", _core.earliest_task_first(small)[0]
    yield "bottom level", _core.list_schedule(small, _core.bottom_level_order(small), by_memory)[0]
    yield "captured order", _core.list_schedule(small, np.arange(small.num_ops, dtype=np.int32), by_memory)[0]


def _ordered(name: str, problem: Problem, device_of: NDArray[np.int32]) -> Iterator[Candidate]:
    yield Candidate(name=name, device_of=device_of, order=_core.dispatch_order(problem.core, device_of))
    if problem.objective == "peak-memory" or any(limit is not None for limit in problem.memory_limits_bytes):
        yield Candidate(name=f"{name}, ops as captured", device_of=device_of, order=INPUT_ORDER.order(problem))
