"""The policies that are part of the package, by name and by the problems they are for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from placewright.lab.learning.regal.configuration import Network
from placewright.lab.learning.regal.policy import RegalPolicy
from placewright.methods.policy_file import SUFFIX, read_policy
from placewright.problem import Problem
from placewright.support.errors import InputError

_FOLDER = Path(__file__).parent / "shipped"
#: Trained on graphs that nobody plans for; used only by name.
_BY_NAME_ONLY = "runtime-synthetic"


def shipped_policy(problem: Problem, network: Network) -> RegalPolicy:
    """Return the policy with that network for the problem's objective and number of devices, the one with the best
    validation if there are several. Raises InputError when there is none."""
    asked = (network, problem.objective, problem.machine.num_devices)
    known = [named_policy(name) for name in shipped_names() if not name.startswith(_BY_NAME_ONLY)]
    fitting = [
        policy for policy in known if asked == ((own := policy.configuration).network, own.objective, own.num_devices)
    ]
    if not fitting:
        raise InputError(
            f"no policy is shipped for {problem.objective} on {problem.machine.num_devices} devices; "
            f"--policy takes a file, or one of: {', '.join(shipped_names())}"
        )
    return max(fitting, key=lambda policy: float(policy.record["improvement_percent"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySummary:
    """A shipped policy and the problems it is for.

    Attributes
    ----------
    name
        Its name for `--policy`.
    objective
        "step-time" or "peak-memory".
    num_devices
        The number of devices.
    solvers
        The solvers that use it.
    improvement_percent
        The improvement over uniform BRKGA at the best validation of its training.
    """

    name: str
    objective: str
    num_devices: int
    solvers: str
    improvement_percent: float


def policy_summaries() -> list[PolicySummary]:
    """Return the summaries of all shipped policies."""
    return [
        PolicySummary(
            name=name,
            objective=(policy := named_policy(name)).configuration.objective,
            num_devices=policy.configuration.num_devices,
            solvers="gas" if policy.configuration.network == "sequence" else "regal, idrs",
            improvement_percent=float(policy.record["improvement_percent"]),
        )
        for name in shipped_names()
    ]


def shipped_names() -> list[str]:
    return sorted(path.name.removesuffix(SUFFIX) for path in _FOLDER.glob(f"*{SUFFIX}"))


@cache
def named_policy(name: str) -> RegalPolicy:
    """Return one of `shipped_names`."""
    policy = read_policy(_FOLDER / f"{name}{SUFFIX}")
    assert isinstance(policy, RegalPolicy)
    return policy
