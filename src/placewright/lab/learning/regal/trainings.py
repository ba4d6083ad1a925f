"""Trainings of REGAL's policies, and the paper's settings, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from placewright.lab.learning.environments.guided_search import GuidedSearch, uniform_objective
from placewright.lab.learning.protocols import Demonstration
from placewright.lab.learning.regal.configuration import (
    CONFIGURATIONS,
    IN_THE_PAPER,
    PolicyConfiguration,
)
from placewright.lab.learning.regal.expert import demonstrate, demonstrate_rule
from placewright.lab.learning.regal.features import FEATURE_EVALUATIONS, context_of
from placewright.lab.learning.regal.policy import RegalPolicy
from placewright.lab.learning.rule.policy import found_rule, rule_names
from placewright.lab.learning.training import Split, TrainingConfiguration
from placewright.methods.policies import Weights
from placewright.problem import Problem
from placewright.problem.objective import ControlMode, Objective
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class RegalTraining(TrainingConfiguration):
    """REINFORCE, or imitation, on rewards of guided searches (REGAL, 4.1 and A.14).

    Parameters
    ----------
    policy
        The policy that is trained.
    evaluations, validation_evaluations
        Evaluations of a rollout and of a search at a validation, including those for features.
    searches
        Number of searches that share the evaluations of a rollout after those for features (guided_search.py).
    reference_seeds
        Runs of uniform BRKGA with as many evaluations; their mean divides a rollout's objective.
    expert_rounds
        Rounds of guided search that improve the expert's simple proposal (expert.py).
    expert_rule
        Name of a rule with the policy's actions, which is imitated instead (learning/rule/found).
    """

    policy: PolicyConfiguration
    evaluations: int = 1000
    validation_evaluations: int = 5000
    searches: int = 1
    reference_seeds: int = 3
    expert_rounds: int = 0
    expert_rule: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("evaluations", "validation_evaluations"):
            if (count := getattr(self, name)) <= FEATURE_EVALUATIONS:
                raise InputError(f"{name} is {count}; features take {FEATURE_EVALUATIONS}, so it must be above that")
        for name in ("searches", "reference_seeds"):
            if (count := getattr(self, name)) < 1:
                raise InputError(f"{name} is {count}; it must be at least 1")
        if self.expert_rounds < 0 or (self.expert_rounds and not self.imitation_steps):
            raise InputError(
                f"expert_rounds is {self.expert_rounds}; it must be at least 0, and 0 without imitation_steps"
            )
        if self.imitation_steps and not self.policy.with_affinities:
            raise InputError(f"imitation_steps is {self.imitation_steps}; the expert needs a policy with affinities")
        if self.expert_rule is not None:
            if self.expert_rule not in rule_names():
                raise InputError(f"there is no rule '{self.expert_rule}'; known are {', '.join(rule_names())}")
            if self.expert_rounds or not self.imitation_steps:
                raise InputError(f"expert_rule '{self.expert_rule}' wants imitation_steps and no expert_rounds")
            if found_rule(self.expert_rule).configuration.action_space != self.policy.action_space:
                raise InputError(f"expert_rule '{self.expert_rule}' has other actions than the policy")

    @property
    def objective(self) -> Objective:
        return self.policy.objective

    def network(self) -> nn.Module:
        from placewright.lab.learning.regal.network import PolicyNetwork

        return PolicyNetwork(self.policy)

    def value_function(self) -> nn.Module:
        from placewright.lab.learning.regal.network import ValueNetwork

        return ValueNetwork(self.policy)

    def environment(self, problem: Problem, number: int, split: Split) -> GuidedSearch:
        """Return the environment of a problem. The seed of the search for features is the number of the problem."""
        policy, core = self.policy, problem.core
        evaluations = self.evaluations if split == "train" else self.validation_evaluations
        reference = uniform_objective(problem, evaluations, self.reference_seeds)
        context = context_of(problem, number, policy.decoder, with_affinities=policy.with_affinities)
        kept = (core.encode(*core.decode(context.keys, policy.decoder), policy.decoder),) if policy.warm_start else ()
        return GuidedSearch(
            problem=problem,
            observation=context,
            decoder=policy.decoder,
            reference=reference,
            evaluations=evaluations - FEATURE_EVALUATIONS,
            found_before=context.objective,
            searches=self.searches if split == "train" else 1,
            initial_keys=kept,
            expert=self._expert(),
        )

    def _expert(self) -> Callable[[GuidedSearch], Demonstration]:
        if self.expert_rule is not None:
            return partial(demonstrate_rule, rule=found_rule(self.expert_rule).configuration)
        return partial(demonstrate, space=self.policy.action_space, rounds=self.expert_rounds)

    def trained_policy(self, name: str, weights: Weights, record: Mapping[str, Any]) -> RegalPolicy:
        return RegalPolicy(name=name, configuration=self.policy, weights=weights, record=record)


def _ours(policy: PolicyConfiguration, is_zoo: bool) -> RegalTraining:
    """Return our training: imitation of searches' plans where the policy has affinities, else by rewards."""
    training = _by_rewards(policy, is_zoo)
    return _imitating(replace(training, policy=policy)) if policy.with_affinities else training


def _by_rewards(policy: PolicyConfiguration, is_zoo: bool) -> RegalTraining:
    """Return a training with the network and rewards of the paper, but with states centred over the graph, four samples
    of each graph that are compared with one another, and a tenfold learning rate, with which a thirtieth of the steps
    is enough (docs/lab/policies.md). The training on real networks is sized for two cores: the largest are left out,
    and copies come again, since the environment of each is kept."""
    training = RegalTraining(
        policy=replace(policy, normalisation="graph"),
        steps=3000,
        samples=4,
        learning_rate=1e-3,
        last_learning_rate=0.0,
        validation_interval=250,
    )
    return (
        replace(training, augmentations=3, max_ops=600, reference_seeds=1, validation_graphs=40) if is_zoo else training
    )


def _imitating(training: RegalTraining) -> RegalTraining:
    """Return a training that only imitates plans of searches: learning from rewards after that gained nothing
    (docs/lab/notes/policies.md)."""
    policy = training.policy
    # Where peak memory is the objective the expert chooses among simple proposals, without rounds.
    steps, rounds = (400, 0) if policy.objective == "peak-memory" else (800, 8 if policy.decoder == "paper" else 16)
    return replace(
        training,
        max_ops=1500,
        imitation_steps=steps,
        steps=steps,
        expert_rounds=rounds,
        batch=8,
        evaluations=5000,
        learning_rate=2e-4,
        validation_interval=100,
        validation_graphs=51,
    )


_AFFINITY = CONFIGURATIONS["runtime-zoo-affinity"]
_OTHERS: tuple[ControlMode, ...] = ("signal", "transfer")
_OURS = {name: _ours(policy, "zoo" in name) for name, policy in CONFIGURATIONS.items()}
_THE_PAPERS = {
    name: RegalTraining(policy=CONFIGURATIONS[name], augmentations=99 if "zoo" in name else 0) for name in IN_THE_PAPER
}


def _under_other_readings(trainings: Mapping[str, RegalTraining]) -> dict[str, RegalTraining]:
    """Return the trainings on synthetic graphs, filtered for another reading of control dependencies
    (docs/semantics.md)."""
    names = ("runtime-synthetic", "runtime-synthetic-sequence")
    return {f"{name}-{control}": replace(trainings[name], control=control) for name in names for control in _OTHERS}


TRAININGS: dict[str, RegalTraining] = {
    **_OURS,
    **_under_other_readings(_OURS),
    **{f"{name}-paper": training for name, training in (_THE_PAPERS | _under_other_readings(_THE_PAPERS)).items()},
    # By rewards, with the features that rules use.
    **{
        f"{name}-rewards": _by_rewards(CONFIGURATIONS[name], is_zoo=True)
        for name in ("runtime-zoo-affinity", "peak-memory-zoo-affinity")
    },
    # The same with six searches of a hundred evaluations for each reward, which depend less on luck.
    "runtime-zoo-affinity-searches": replace(_by_rewards(_AFFINITY, is_zoo=True), searches=6),
    "runtime-synthetic-signal-searches": replace(_OURS["runtime-synthetic"], control="signal", searches=6),
    # By rewards after imitation of the rule, at the paper's learning rate.
    "runtime-synthetic-rule-signal": replace(
        _by_rewards(_AFFINITY, is_zoo=False),
        control="signal",
        imitation_steps=500,
        expert_rule="rule-runtime-synthetic-signal",
        learning_rate=1e-4,
    ),
}
