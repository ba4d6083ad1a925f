"""The clusters of a problem as a smaller problem, whose ops a learned list scheduler places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.inputs_aside import Scope, scopes


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """scope: the ops that are in clusters. cluster_of: int32 [num ops of the scope]. core: an op for each cluster."""

    scope: Scope
    cluster_of: NDArray[np.int32]
    core: _core.Problem

    def placement(self, device_of_cluster: NDArray[np.int32]) -> NDArray[np.int32]:
        """Device of every op of the problem, int32 [num ops]."""
        order = np.arange(self.scope.core.num_ops, dtype=np.int32)
        return self.scope.with_inputs(device_of_cluster[self.cluster_of], order)[0]

    def projected(
        self, problem: Problem, device_of: NDArray[np.int32], ops: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """A plan's device of every op and their order as device of each cluster and order of the clusters: where most
        of a cluster's time is spent, in the order of their last ops."""
        time = problem.time_ns[problem.lowered.graph_op][np.arange(len(device_of)), device_of]
        votes = np.zeros((self.core.num_ops, problem.machine.num_devices))
        np.add.at(votes, (self.cluster_of, device_of), time + 1.0)
        voted = votes.argmax(axis=1).astype(np.int32)[self.cluster_of]
        return _core.project(self.scope.core, self.core, self.cluster_of, voted, ops)


def clusters_of(problem: Problem, part: int) -> Clusters:
    """Clusters along chains, of at most 1/part of the time of all ops; inputs that share a device follow their
    readers."""
    *_, scope = scopes(problem.core)
    total_ns = int(problem.time_ns[problem.lowered.graph_op].mean(axis=1).sum())
    cluster_of = _core.chain_clusters(scope.core, total_ns // part)
    return Clusters(scope=scope, cluster_of=cluster_of, core=_core.coarse_problem(scope.core, cluster_of))
