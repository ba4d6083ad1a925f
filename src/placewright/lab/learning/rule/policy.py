"""A rule in the place of a policy: the guide of the method `rule`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from placewright.lab.learning.policy import NetworkPolicy
from placewright.lab.learning.regal.features import Context, context_of
from placewright.lab.learning.rule.rule import RuleConfiguration, rule_actions
from placewright.methods.policies import Weights
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.support.errors import InputError, shown

_FOLDER = Path(__file__).parent / "found"
_SUFFIX = ".toml"
#: Part of the names of rules found on the zoo, as for shipped policies. Others are used by name only: gains on other
#: graphs do not compare.
_ZOO = "-zoo"


@dataclass(frozen=True, kw_only=True, eq=False)
class RulePolicy(NetworkPolicy):
    """A policy without weights, as a rule has no network. record: the command that found it and its gain there."""

    configuration: RuleConfiguration
    weights: Weights = field(default_factory=dict)
    family: ClassVar[str] = "rule"
    configured_by: ClassVar[type[Any]] = RuleConfiguration

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    @property
    def called(self) -> str:
        return f"rule '{shown(self.name)}'"

    @property
    def gain(self) -> float:
        """The gain in percent over uniform BRKGA, on the graphs it was found on."""
        return float(self.record["improvement_percent"])

    def observe(self, problem: Problem, seed: int) -> Context:
        """Return features, after a search of 400 evaluations."""
        own = self.configuration
        return context_of(problem, seed, own.decoder, with_affinities=own.with_affinities)

    def guide(self, problem: Problem, observation: Context, seed: int) -> Proposal:
        self.check(problem)
        space, actions = self.configuration.action_space, rule_actions(self.configuration, observation.features)
        return space.proposal(problem, actions, observation.fixed_op)


def rule_names() -> list[str]:
    return sorted(path.name.removesuffix(_SUFFIX) for path in _FOLDER.glob(f"*{_SUFFIX}"))


@cache
def found_rule(name: str) -> RulePolicy:
    """Return one of `rule_names`."""
    return rule_from(name, tomllib.loads((_FOLDER / f"{name}{_SUFFIX}").read_text()))


def shipped_rule(problem: Problem) -> RulePolicy:
    """Return the rule that was found for the problem's objective and number of devices: preferably for its reading of
    control dependencies, then the one that gained most on the zoo. Raises InputError when there is none."""
    known = [found_rule(name) for name in rule_names() if _ZOO in name]
    asked = (problem.objective, problem.machine.num_devices)
    fitting = [rule for rule in known if (rule.configuration.objective, rule.configuration.num_devices) == asked]
    if not fitting:
        raise InputError(
            f"no rule was found for {problem.objective} on {problem.machine.num_devices} devices; "
            f"known are {', '.join(rule_names())}"
        )
    return max(fitting, key=lambda rule: (rule.configuration.control == problem.control, rule.gain))


def rule_from(name: str, document: Mapping[str, Any]) -> RulePolicy:
    return RulePolicy(name=name, configuration=RuleConfiguration(**document["rule"]), record=document["found"])
