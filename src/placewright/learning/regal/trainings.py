"""How a policy is trained, and the paper's settings by name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placewright.learning.regal.configuration import CONFIGURATIONS, IN_THE_PAPER, PolicyConfiguration
from placewright.learning.regal.features import FEATURE_EVALUATIONS
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True)
class TrainingConfiguration:
    """REINFORCE on graphs drawn at random (REGAL, 4.1 and A.14).

    policy: what is trained. copies: noisy copies of each graph that may be drawn (A.1.2). most_ops: of a graph to learn
    from or to validate on; None for no limit. steps: gradient steps. taught_steps: the first of them, which imitate a
    simple proposal (learning/regal/expert.py). teacher_rounds: of guided search that make this proposal better.
    batch: graphs in each. samples: actions drawn for each graph; of several each is compared with the mean of the
    others, one alone with what the baseline network expects. evaluations: of a rollout, those for features among them.
    learning_rate, last_learning_rate: Adam's, falling linearly over the steps from the one to the other; None where it
    stays. taught_learning_rate: at first, where steps are taught; it falls linearly over them to learning_rate.
    largest_norm: of a gradient. baseline_weight: of the squared
    error of the baseline network.
    reference_seeds: runs of uniform BRKGA with as many evaluations, whose mean a rollout is divided by.
    checkpoint_interval: steps from one checkpoint, and from one line of the records, to the next.
    validation_interval: steps from one validation to the next. validation_graphs: how many it takes.
    validation_evaluations: of each search there.
    """

    policy: PolicyConfiguration
    copies: int = 0
    taught_steps: int = 0
    teacher_rounds: int = 0
    most_ops: int | None = None
    steps: int = 100_000
    batch: int = 4
    samples: int = 1
    evaluations: int = 1000
    learning_rate: float = 1e-4
    last_learning_rate: float | None = None
    taught_learning_rate: float = 2e-3
    largest_norm: float = 10.0
    baseline_weight: float = 1e-4
    reference_seeds: int = 3
    checkpoint_interval: int = 100
    validation_interval: int = 1000
    validation_graphs: int = 100
    validation_evaluations: int = 5000

    def __post_init__(self) -> None:
        counts = (self.steps, self.batch, self.samples, self.reference_seeds)
        if min(*counts, self.checkpoint_interval, self.validation_interval, self.validation_graphs) < 1:
            raise InputError("steps, batch, samples, seeds and graphs of a training must be at least 1")
        if min(self.evaluations, self.validation_evaluations) <= FEATURE_EVALUATIONS:
            raise InputError(
                f"a rollout of {self.evaluations} evaluations needs more than the {FEATURE_EVALUATIONS} for features"
            )
        if self.teacher_rounds < 0 or (self.teacher_rounds and not self.taught_steps):
            raise InputError(f"{self.teacher_rounds} rounds of a teacher's search in {self.taught_steps} taught steps")
        if not 0 <= self.taught_steps <= self.steps:
            raise InputError(f"{self.taught_steps} steps that are taught are not among {self.steps}")
        if self.taught_steps and not self.policy.with_leanings:
            raise InputError("a policy without leanings among its features cannot be taught to follow them")
        if not (
            0 < self.learning_rate < 1
            and 0 < self.taught_learning_rate < 1
            and 0 <= (self.last_learning_rate or 0) <= self.learning_rate
            and self.largest_norm > 0
            and self.baseline_weight >= 0
        ):
            raise InputError(f"a learning rate of {self.learning_rate} or another factor of the training cannot be")

    def learning_rate_at(self, step: int) -> float:
        """Of the step after so many."""
        if step < self.taught_steps:
            done = step / self.taught_steps
            return self.taught_learning_rate + (self.learning_rate - self.taught_learning_rate) * done
        last = self.learning_rate if self.last_learning_rate is None else self.last_learning_rate
        done = (step - self.taught_steps) / max(1, self.steps - self.taught_steps)
        return self.learning_rate + (last - self.learning_rate) * done


def _in_the_paper(policy: PolicyConfiguration, is_zoo: bool) -> TrainingConfiguration:
    return TrainingConfiguration(policy=policy, copies=99 if is_zoo else 0)


def _ours(policy: PolicyConfiguration, is_zoo: bool) -> TrainingConfiguration:
    """The network and rewards of the paper, with four samples of each graph that are compared with one another and a
    learning rate ten times as high, which a thirtieth of the steps suffices for (docs/policies.md). Real networks are
    sized for two cores: the largest are left out, and copies come again, since what is made of each is kept."""
    training = TrainingConfiguration(
        policy=policy, steps=3000, samples=4, learning_rate=1e-3, last_learning_rate=0.0, validation_interval=250
    )
    if is_zoo:
        training = replace(training, copies=3, most_ops=600, reference_seeds=1, validation_graphs=40)
    return _taught(training) if policy.with_leanings else training


def _taught(training: TrainingConfiguration) -> TrainingConfiguration:
    """By what searches found alone: rewards made what was taught no better (docs/notes/policies.md)."""
    policy = training.policy
    # Where peak memory is the objective the teacher chooses among simple proposals, without rounds.
    steps, rounds = (400, 0) if policy.objective == "peak-memory" else (800, 8 if policy.decoder == "paper" else 16)
    return replace(
        training,
        most_ops=1500,
        taught_steps=steps,
        steps=steps,
        teacher_rounds=rounds,
        batch=8,
        evaluations=5000,
        learning_rate=2e-4,
        validation_interval=100,
        validation_graphs=51,
    )


TRAININGS: dict[str, TrainingConfiguration] = {
    **{name: _ours(policy, "zoo" in name) for name, policy in CONFIGURATIONS.items()},
    **{f"{name}-paper": _in_the_paper(CONFIGURATIONS[name], "zoo" in name) for name in IN_THE_PAPER},
}
