"""List scheduling of clusters: what would be sent to and fro is put together first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright import _core
from placewright.problem import Problem
from placewright.search.baseline import Baseline, Candidate
from placewright.search.budget import Budget
from placewright.search.input_order import INPUT_ORDER

#: Of the time of all ops, one over these is the most a cluster takes. What did best most often comes first.
PARTS = (64, 128, 32, 256, 16, 96, 192, 48, 24, 512, 8, 384, 1024, 2048)


@dataclass(frozen=True, kw_only=True)
class ClusterList(Baseline):
    """Clusters of ops are scheduled as if each were one op, then their ops are ordered on the devices found, always the
    one of highest bottom level among those that can start.

    Clustering: from an op to its only successor or its only predecessor, the heaviest edges first, up to several caps
    on a cluster's time (the core's clusters.hpp). Scheduling: by earliest task first; by bottom level and in captured
    order, each cluster where it finishes first. Where memory is scarce, because it is the objective or one device
    cannot hold the captured order, clusters also go where the peak stays least, and ops are also tried in captured
    order. The best of all is kept.

    Clustering before scheduling is Sarkar's scheme (Partitioning and Scheduling Parallel Programs, 1989); caps on the
    clusters' time are those of coarsening (Hendrickson and Leland 1995).
    """

    name: str = "cluster-list"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        total_ns = int(problem.time_ns[problem.lowered.graph_op].mean(axis=1).sum())
        is_scarce = _memory_is_scarce(problem)
        seen = set[bytes]()
        for part in PARTS:
            small, cluster_of = _core.contracted(problem.core, total_ns // part)
            for rule, device_of_cluster in _placements(small, is_scarce):
                device_of = device_of_cluster[cluster_of]
                if device_of.tobytes() in seen:
                    continue
                seen.add(device_of.tobytes())
                order = _core.dispatch_order(problem.core, device_of)
                yield Candidate(name=f"{rule}, 1/{part}", device_of=device_of, order=order)
                if is_scarce:
                    captured = INPUT_ORDER.order(problem)
                    yield Candidate(name=f"{rule}, 1/{part}, ops as captured", device_of=device_of, order=captured)


def _memory_is_scarce(problem: Problem) -> bool:
    if problem.objective == "peak-memory":
        return True
    return INPUT_ORDER.solve(problem, Budget(evaluations=1), seed=0).metrics.bytes_over_limit > 0


def _placements(small: _core.Problem, is_scarce: bool) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """By name devices of the clusters, int32 [num clusters]."""
    captured = np.arange(small.num_ops, dtype=np.int32)
    yield "earliest task", _core.earliest_task_first(small)[0]
    yield "bottom level", _core.list_schedule(small, _core.bottom_level_order(small), False)[0]
    yield "captured order", _core.list_schedule(small, captured, False)[0]
    if is_scarce:
        yield "least peak", _core.list_schedule(small, captured, True)[0]
