"""List scheduling by a learned score, as a method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import placewright._core as _core
from placewright.lab.learning.learned_list.policy import LearnedListPolicy
from placewright.methods.policy_file import read_policy
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.cluster_list import ClusterList
from placewright.search.constructive.one_device import INPUT_ORDER


@dataclass(frozen=True, kw_only=True)
class LearnedList(Baseline):
    """Clusters as in `cluster-list`, of the ready ones and their devices always the pair that a policy scores highest.
    Where memory may decide, each placement is tried once more with ops elsewhere that would exceed a limit.

    policy: None for the one that is shipped.
    """

    name: str = "learned-list"
    policy: LearnedListPolicy | None = None

    def policy_for(self, problem: Problem) -> LearnedListPolicy:
        """The one that is given, else the one that is shipped. Raises InputError where it is not for the problem."""
        policy = self.policy or shipped()
        policy.check(problem)
        return policy

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        policy = self.policy_for(problem)
        clusters = ClusterList(name=self.name, placements=policy.placements, parts=policy.configuration.parts)
        for candidate in clusters.candidates(problem):
            yield candidate
            if problem.core.needs_memory:
                captured = INPUT_ORDER.order(problem)
                device_of, order = _core.within_limits(problem.core, candidate.device_of, captured)
                yield Candidate(name=f"{candidate.name}, within limits", device_of=device_of, order=order)


@cache
def shipped() -> LearnedListPolicy:
    """The policy that comes with the package."""
    policy = read_policy(Path(__file__).parent / "step-time.safetensors")
    assert isinstance(policy, LearnedListPolicy)
    return policy
