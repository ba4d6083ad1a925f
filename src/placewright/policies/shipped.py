"""The policies that come with the package, by what they are for."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from placewright.errors import InputError
from placewright.policies.policy import Policy
from placewright.policies.policy_file import read_policy
from placewright.problem import Problem


@cache
def shipped_policies() -> tuple[Policy, ...]:
    folder = files("placewright.policies") / "shipped"
    return tuple(
        read_policy(Path(str(file)))
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".safetensors")
    )


def shipped_policy(problem: Problem) -> Policy:
    """The one for the problem's objective and number of devices. Raises InputError when there is none."""
    known = shipped_policies()
    for policy in known:
        own = policy.configuration
        if (own.objective, own.num_devices) == (problem.objective, problem.machine.num_devices):
            return policy
    listed = ", ".join(f"{p.configuration.objective} on {p.configuration.num_devices} devices" for p in known) or "none"
    raise InputError(
        f"no shipped policy is for {problem.objective} on {problem.machine.num_devices} devices; there are: {listed}"
    )
