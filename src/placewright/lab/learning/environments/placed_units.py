"""The reward of a policy's placements in the environment of learned placers: first come, first served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import placewright._core as _core
from placewright.guide import Guide, Placement
from placewright.lab.learning.environments.first_come import FAILING_SIGNAL, FirstComeEnvironment
from placewright.lab.learning.environments.placement import allowed_devices
from placewright.problem import Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacedUnits:
    """One problem to learn on. measured: with the best single device as its reference.

    root: rewards are minus the root of the objective over that of the reference, as for placers; otherwise minus the
    ratio itself. A placement that does not run gets minus the failing signal.
    """

    problem: Problem
    observation: Any
    measured: FirstComeEnvironment
    root: bool = True

    def rewards(self, guides: Sequence[Guide], seeds: Sequence[int] = ()) -> list[float]:
        """Return the reward of each placement. Seeds are not used."""
        placements = []
        for guide in guides:
            assert isinstance(guide, Placement)
            placements.append(allowed_devices(self.problem, guide.device_of))
        trials = self.measured.measure(np.stack(placements))
        costs = trials.cost if self.root else np.minimum(trials.ratio, FAILING_SIGNAL)
        return (-costs).tolist()


def measured_on_one_device(problem: Problem) -> FirstComeEnvironment:
    """Return an environment whose reference is the best single device that runs."""
    environment = FirstComeEnvironment(problem)
    alone = np.stack([_core.all_on(problem.core, device) for device in range(problem.machine.num_devices)])
    trials = environment.measure(alone)
    environment.reference = float(max(1, trials.objective[trials.best()]))
    return environment
