"""List scheduling of clusters: ops that exchange much data are merged before they are placed, so that they stay
together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.inputs_aside import scopes
from placewright.search.constructive.one_device import INPUT_ORDER

#: The time of a cluster is at most the time of all ops divided by one of these. The most successful values come first.
PARTS = (64, 128, 32, 256, 16, 96, 192, 48, 24, 512, 8, 384, 1024, 2048)


#: Yields names and placements of clusters, int32 [num clusters], for a problem whose ops are the clusters; the bool is
#: True where memory is scarce.
Placements = Callable[[_core.Problem, bool], Iterator[tuple[str, NDArray[np.int32]]]]


def _listed(small: _core.Problem, is_scarce: bool) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """Place clusters by earliest task first; by bottom level and in captured order, each cluster where it finishes
    first; and where memory is scarce, also where the peak stays least."""
    captured = np.arange(small.num_ops, dtype=np.int32)
    yield "earliest task", _core.earliest_task_first(small)[0]
    yield "bottom level", _core.list_schedule(small, _core.bottom_level_order(small), False)[0]
    yield "captured order", _core.list_schedule(small, captured, False)[0]
    if is_scarce:
        yield "least peak", _core.list_schedule(small, captured, True)[0]


@dataclass(frozen=True, kw_only=True)
class ClusterList(Baseline):
    """Places clusters of ops as if each were one op, then orders their ops on these devices: of the ops that can start,
    always the one of highest bottom level.

    Clusters grow from an op to its only successor or its only predecessor, the heaviest edges first, up to several caps
    on their time (the core's chain_clusters.hpp). Where memory is scarce, because it is the objective or a device could
    not hold everything at once, ops are also tried in captured order. The best of all is kept.

    Clustering before scheduling is Sarkar's scheme (Partitioning and Scheduling Parallel Programs, 1989); caps on the
    clusters' time are those of coarsening (Hendrickson and Leland 1995).

    sets_inputs_aside: True to do as `list` does; not needed where all bytes together decide the placement.
    parts: the time of a cluster is at most the time of all ops divided by one of these.
    """

    name: str = "cluster-list"
    placements: Placements = _listed
    sets_inputs_aside: bool = True
    parts: tuple[int, ...] = PARTS

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        # Memory is scarce where it is the objective, or some device could not hold everything at once.
        limits = [limit for limit in problem.memory_limits_bytes if limit is not None]
        is_scarce = problem.objective == "peak-memory" or (limits != [] and int(op_bytes(problem).sum()) > min(limits))
        seen = set[bytes]()
        for name, device_of in self._placed(problem, is_scarce):
            if device_of.tobytes() in seen:
                continue
            seen.add(device_of.tobytes())
            order = _core.dispatch_order(problem.core, device_of)
            yield Candidate(name=name, device_of=device_of, order=order)
            if is_scarce:
                captured = INPUT_ORDER.order(problem)
                yield Candidate(name=f"{name}, ops as captured", device_of=device_of, order=captured)

    def _placed(self, problem: Problem, is_scarce: bool) -> Iterator[tuple[str, NDArray[np.int32]]]:
        """Yield names and placements, int32 [num scheduled ops]."""
        total_ns = int(problem.time_ns[problem.lowered.graph_op].mean(axis=1).sum())
        seen = set[tuple[str, bytes]]()
        every_scope = list(islice(scopes(problem.core), None if self.sets_inputs_aside else 1))
        for part in self.parts:
            for scope in every_scope:
                order = np.arange(scope.core.num_ops, dtype=np.int32)
                cluster_of = _core.chain_clusters(scope.core, total_ns // part)
                if (scope.suffix, cluster_of.tobytes()) in seen:
                    continue
                seen.add((scope.suffix, cluster_of.tobytes()))
                small = _core.coarse_problem(scope.core, cluster_of)
                for rule, device_of_cluster in self.placements(small, is_scarce):
                    device_of = device_of_cluster[cluster_of]
                    yield f"{rule}, 1/{part}{scope.suffix}", scope.with_inputs(device_of, order)[0]


def op_bytes(problem: Problem) -> NDArray[np.int64]:
    """Sum up the bytes of each op's outputs and workspace, and of residents that it is the first to read: int64 [num
    scheduled ops]."""
    lowered = problem.lowered
    total = lowered.workspace_bytes.copy()
    np.add.at(total, lowered.producer, lowered.allocated_bytes)
    residents, first = np.unique(lowered.residents, return_index=True)
    np.add.at(total, lowered.resident_reader[first], lowered.resident_bytes[residents])
    return total


CLUSTER_LIST = ClusterList()


#: The share of its time by which a side of a split may be off, in [0, 1); by the longest op in any case.
IMBALANCE = 0.05
#: The most passes over all ops to improve a split; three or four are mostly enough.
MAX_PASSES = 20


def _parts(small: _core.Problem, is_scarce: bool) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """Partition for few bytes between devices of balanced times, as in `gp-dfs`."""
    yield "parts", _core.partition(small, IMBALANCE, MAX_PASSES)


CLUSTER_PARTITION = ClusterList(name="cluster-partition", placements=_parts, sets_inputs_aside=False)
