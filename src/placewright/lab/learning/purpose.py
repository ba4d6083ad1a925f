"""Whether a policy is for a problem; the refusals that families share."""

from __future__ import annotations

from typing import Protocol

from placewright.problem import Problem
from placewright.problem.objective import Objective
from placewright.support.errors import InputError


class Purpose(Protocol):
    """The part of a configuration that says what its policy is for."""

    @property
    def objective(self) -> Objective: ...

    @property
    def num_devices(self) -> int: ...


def check_places_ops(called: str, problem: object) -> None:
    """called: the policy, as the message names it. Raises InputError for the maps of tensors to memory levels."""
    if not isinstance(problem, Problem):
        raise InputError(f"{called} places ops on devices, and maps no tensors to memory levels")


def check_purpose(called: str, own: Purpose, problem: object) -> None:
    """Raises InputError unless the problem has the policy's objective and number of devices."""
    check_places_ops(called, problem)
    assert isinstance(problem, Problem)
    if (own.objective, own.num_devices) != (problem.objective, problem.machine.num_devices):
        raise InputError(
            f"{called} is for {own.objective} on {own.num_devices} devices, "
            f"not for {problem.objective} on {problem.machine.num_devices}"
        )
