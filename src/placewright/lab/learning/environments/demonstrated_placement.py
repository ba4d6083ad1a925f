"""Placements of clusters, simulated, and those of a search to imitate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placewright.lab.learning.environments.placement import SimulatedPlacement
from placewright.lab.learning.learned_list.clusters import Clusters
from placewright.lab.learning.learned_list.network import as_actions
from placewright.lab.learning.protocols import Demonstration
from placewright.search.auto import Auto
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun


@dataclass(frozen=True, kw_only=True, eq=False)
class DemonstratedPlacement(SimulatedPlacement):
    """observation: the clusters. evaluations: of `auto`, whose plan is imitated."""

    observation: Clusters
    evaluations: int

    @cached_property
    def demonstration(self) -> Demonstration:
        """The device where most of a cluster's time is spent in the plan, and clusters in the order of their last ops.

        A name of equal devices means nothing, nor does it here: devices that are equal and hold the same have the same
        features, so that whichever of them the plan takes, the same becomes likelier.
        """
        found = Auto().solve(self.problem, SearchRun(Budget(evaluations=self.evaluations))).solution
        ops = np.ascontiguousarray(found.order[found.order[:, 1] < 0, 0])
        device_of, order = self.observation.projected(self.problem, found.device_of, ops)
        return Demonstration(actions=as_actions(device_of, order), weight=1.0)
