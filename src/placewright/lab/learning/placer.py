"""Placement by a policy that chooses devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import placewright._core as _core
from placewright.guide import Placement
from placewright.lab.learning.environments.placement import allowed_devices
from placewright.methods.policies import Policy
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Placer(Baseline):
    """A method in which the policy chooses each op's device; ops start as devices become free, and tensors move where
    that serves best.

    policy: one whose guide is a `Placement`.
    """

    policy: Policy | None = None
    name: str = "placer"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        if self.policy is None:
            raise InputError(f"solver '{self.name}' needs a policy that chooses devices: --policy FILE")
        self.policy.check(problem)
        placement = self.policy.guide(problem, self.policy.observe(problem, 0), 0)
        if not isinstance(placement, Placement):
            raise InputError(f"solver '{self.name}' does not take policy '{self.policy.name}': it chooses no devices")
        device_of = allowed_devices(problem, placement.device_of)
        yield Candidate(
            name=self.policy.title, device_of=device_of, order=_core.dispatch_order(problem.core, device_of)
        )
