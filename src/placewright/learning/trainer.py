"""The training of a policy: REINFORCE with Adam, which may be killed and goes on (REGAL, sections 4.1 and A.14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from placewright.datasets.problem_set import ProblemSet, spread
from placewright.learning.checkpoint import Checkpoint
from placewright.learning.policy_file import write_policy
from placewright.learning.records import Records
from placewright.learning.regal.learner import Lesson
from placewright.learning.regal.policy import Policy
from placewright.learning.regal.trainings import TrainingConfiguration
from placewright.learning.workers import Assignment, ProcessWorkers, Workers, graphs_of, suites_of
from placewright.support.files import locked_folder

BEST = "best.safetensors"


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """After each step. reward: mean since the last checkpoint, None while policies are taught. best: percent over
    uniform BRKGA at the best validation, None before one."""

    step: int
    reward: float | None
    best: float | None


OnTrainingProgress = Callable[[TrainingProgress], None]


def train(
    folder: Path,
    configuration: TrainingConfiguration,
    out: Path,
    *,
    name: str,
    seed: int = 0,
    processes: int = 1,
    ray: str | None = None,
    on_progress: OnTrainingProgress | None = None,
) -> Path:
    """Trains on the graphs in `folder`; the path of the policy that was best at a validation. In `out` stand that
    policy, records of the training and its last checkpoint. Where there is one of the same training, it goes on from
    there, to the same weights as if it had never ended, for any number of processes.

    ray: the address of a Ray cluster (learning/ray_workers.py), so many of whose actors then take the place of the
    processes; the weights are the same.

    Raises InputError for bad data, a folder of another training or one that another is writing to, a cluster that
    cannot be used, and gradients that are no longer numbers; MissingExtraError without Ray, and PlacewrightError when a
    worker dies.
    """
    with locked_folder(out, "another training writes to"):
        return _train(folder, configuration, out, name, seed, processes, ray, on_progress)


def _train(
    folder: Path,
    configuration: TrainingConfiguration,
    out: Path,
    name: str,
    seed: int,
    processes: int,
    ray: str | None,
    on_progress: OnTrainingProgress | None,
) -> Path:
    suites = suites_of(folder, configuration)
    graphs, unseen = (graphs_of(suite, configuration) for suite in suites.values())
    checkpoint = Checkpoint(out, configuration, seed, data=[suite.graphs.digest for suite in suites.values()])
    if not (out / BEST).exists():
        checkpoint.best = None
    chosen = [unseen[index] for index in spread(len(unseen), configuration.validation_graphs)]
    started = _workers(folder, suites, configuration, processes, ray)
    with started as workers, Records(out, checkpoint.step) as records:

        def validate() -> None:
            improvement = float(np.mean(workers.improvements(checkpoint.weights, chosen)))
            records.add(checkpoint.step, {"improvement": improvement})
            if checkpoint.is_best(improvement):
                write_policy(_policy(checkpoint, name, configuration, seed), out / BEST)

        lessons: list[Lesson] = []
        while checkpoint.step < configuration.steps:
            assignments = assignments_of(configuration, seed, checkpoint.step, graphs)
            lessons += workers.lessons(checkpoint.weights, assignments)
            checkpoint.learn(lessons[-configuration.batch :])
            facts = summary(lessons)
            if checkpoint.step % configuration.validation_interval == 0:
                validate()
            if checkpoint.step % configuration.checkpoint_interval == 0 or checkpoint.step == configuration.steps:
                records.add(checkpoint.step, facts)
                checkpoint.save()
                lessons.clear()
            if on_progress is not None:
                reward = facts.get("reward")
                on_progress(TrainingProgress(step=checkpoint.step, reward=reward, best=checkpoint.best))
        if checkpoint.best is None:
            validate()
            checkpoint.save()
    return out / BEST


def _workers(
    folder: Path, suites: Mapping[str, ProblemSet], configuration: TrainingConfiguration, number: int, ray: str | None
) -> Workers:
    if ray is None:
        return ProcessWorkers(folder, configuration, number)
    from placewright.learning.ray_workers import RayWorkers

    return RayWorkers(ray, suites, configuration, number)


def assignments_of(
    configuration: TrainingConfiguration, seed: int, step: int, graphs: Sequence[int]
) -> list[Assignment]:
    """The graphs of a step, drawn anew, and the seeds of their samples: of nothing but the seed and the step."""
    random = np.random.default_rng([seed, step])
    drawn = random.integers(len(graphs), size=configuration.batch)
    seeds = random.integers(2**63, size=(configuration.batch, configuration.samples))
    return [
        Assignment(graph=graphs[index], is_taught=step < configuration.taught_steps, seeds=tuple(row))
        for index, row in zip(drawn.tolist(), seeds.tolist(), strict=True)
    ]


def summary(lessons: Sequence[Lesson]) -> dict[str, float]:
    """Of the steps since the last line of the records."""
    found = {"entropy": float(np.mean([lesson.entropy for lesson in lessons]))}
    if taught := [lesson.loss for lesson in lessons if not lesson.rewards]:
        found["imitation_loss"] = float(np.mean(taught))
    rewards = np.array([np.mean(lesson.rewards) for lesson in lessons if lesson.rewards])
    if len(rewards):
        found["reward"] = float(rewards.mean())
    if expected := [lesson.expected for lesson in lessons if lesson.expected is not None]:
        found["baseline_error"] = float(np.sqrt(((rewards - expected) ** 2).mean()))
    return found


def _policy(checkpoint: Checkpoint, name: str, configuration: TrainingConfiguration, seed: int) -> Policy:
    record = {
        "seed": seed,
        "step": checkpoint.step,
        "improvement_percent": checkpoint.best,
        "training": {key: value for key, value in asdict(configuration).items() if key != "policy"},
    }
    return Policy(name=name, configuration=configuration.policy, weights=checkpoint.policy_weights(), record=record)
