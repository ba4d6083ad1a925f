"""The training of any policy by steps of Adam, which may be killed and goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from placewright.lab.datasets.problem_set import ProblemSet, spread
from placewright.lab.learning.checkpoint import Checkpoint
from placewright.lab.learning.decisions import mean_decisions
from placewright.lab.learning.gain import DrawnRewards
from placewright.lab.learning.protocols import GradientEstimate
from placewright.lab.learning.records import Records
from placewright.lab.learning.training import Split, TrainingConfiguration
from placewright.lab.learning.training_state import TrainingState, deciding_settings
from placewright.lab.learning.verdict import reason_to_stop, what_was_learned
from placewright.lab.learning.workers import RolloutTask, Workers, graphs_of, problem_sets_of
from placewright.lab.processes import ProcessActors
from placewright.methods.policies import Policy
from placewright.methods.policy_file import read_policy, write_policy
from placewright.support.files import locked_folder

BEST = "best.safetensors"


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """After each step, and at the beginning of a training that was stopped before. reward: mean since the last
    checkpoint, None while an expert is imitated. best: percent over uniform BRKGA at the best validation, None before
    one. stopped: why the training ends here, where it cannot learn any more (verdict.py)."""

    step: int
    reward: float | None
    best: float | None
    stopped: str | None = None


OnTrainingProgress = Callable[[TrainingProgress], None]


def train(
    folder: Path,
    configuration: TrainingConfiguration,
    out: Path,
    *,
    name: str,
    seed: int = 0,
    processes: int = 1,
    on_progress: OnTrainingProgress | None = None,
) -> Path:
    """Trains on the graphs in `folder`; the path of the policy that was best at a validation. In `out` stand that
    policy, records of the training and its last checkpoint. Where there is one of the same training, it goes on from
    there, to the same weights as if it had never ended, for any number of processes. A training that cannot learn any
    more ends; the record of its policy says why, and how its decisions vary.

    Raises InputError for bad data, a folder of another training or one that another is writing to, and gradients that
    are no longer numbers; PlacewrightError when a worker dies.
    """
    with locked_folder(out, "another training writes to"):
        return _train(folder, configuration, out, name, seed, processes, on_progress)


def _train(
    folder: Path,
    configuration: TrainingConfiguration,
    out: Path,
    name: str,
    seed: int,
    processes: int,
    on_progress: OnTrainingProgress | None,
) -> Path:
    problem_sets = problem_sets_of(folder, configuration)
    graphs, unseen = (graphs_of(problems, configuration) for problems in problem_sets.values())
    training = _Training(out / "checkpoint.pt", configuration, seed, problem_sets)
    state = training.state
    if not (out / BEST).exists():
        state.best = None
    chosen = [unseen[index] for index in spread(len(unseen), configuration.validation_graphs)]
    with ProcessActors() as actors, Records(out, state.step) as records:
        workers = Workers(actors, folder, configuration, processes)

        def validate() -> None:
            improvement = float(np.mean(workers.improvements(state.weights, chosen)))
            records.add(state.step, {"improvement": improvement})
            if state.is_best(improvement):
                write_policy(_policy(state, name, configuration, seed), out / BEST)

        stopped = None
        for progress in _steps(training, graphs, workers, records, validate):
            stopped = progress.stopped
            if on_progress is not None:
                on_progress(progress)
        if state.best is None:
            validate()
            training.save()
        best = read_policy(out / BEST)
        learned = what_was_learned(records.lines, stopped, best.record["step"], training.drawn.gain())
        write_policy(replace(best, record={**best.record, "learned": learned}), out / BEST)  # type: ignore[type-var]
    return out / BEST


class _Training:
    """The state of a training and the rewards that it drew, as its checkpoint has them if there is one."""

    def __init__(
        self, path: Path, configuration: TrainingConfiguration, seed: int, problem_sets: Mapping[Split, ProblemSet]
    ) -> None:
        self.configuration, self.seed = configuration, seed
        self.state = TrainingState(configuration, seed)
        self.drawn = DrawnRewards(configuration.imitation_steps, configuration.steps, problem_sets["train"].copies)
        digests = [problems.graphs.digest for problems in problem_sets.values()]
        self._checkpoint = Checkpoint(path, deciding_settings(configuration, seed, digests))
        self._checkpoint.read(self._restore)

    def _restore(self, kept: dict[str, Any]) -> None:
        self.state.restore(kept)
        self.drawn.restore(kept["drawn"])

    def save(self) -> None:
        self._checkpoint.write({**self.state.state(), "drawn": self.drawn.state()})


def _steps(
    training: _Training, graphs: Sequence[int], workers: Workers, records: Records, validate: Callable[[], None]
) -> Iterator[TrainingProgress]:
    """Takes all steps that are left, with validations, records and checkpoints between them."""
    configuration, state = training.configuration, training.state
    estimates: list[GradientEstimate] = []
    norms: list[float] = []
    stopped = reason_to_stop(records.lines)
    if stopped is not None:
        yield TrainingProgress(step=state.step, reward=None, best=state.best, stopped=stopped)
    while state.step < configuration.steps and stopped is None:
        tasks = tasks_of(configuration, training.seed, state.step, graphs)
        found, norm = _step(state, workers, tasks, configuration.passes)
        training.drawn.add(state.step - 1, [task.graph for task in tasks], [each.rewards for each in found])
        estimates += found
        norms.append(norm)
        facts = {**summary(estimates), "gradient_norm": float(np.mean(norms))}
        if state.step % configuration.validation_interval == 0:
            validate()
        if state.step % configuration.checkpoint_interval == 0 or state.step == configuration.steps:
            records.add(state.step, facts)
            training.save()
            estimates.clear()
            norms.clear()
            stopped = reason_to_stop(records.lines)
        yield TrainingProgress(step=state.step, reward=facts.get("reward"), best=state.best, stopped=stopped)


def _step(
    state: TrainingState, workers: Workers, tasks: Sequence[RolloutTask], passes: int
) -> tuple[list[GradientEstimate], float]:
    """All passes over what is drawn for one step; the estimates of the first, without the samples, and the norm of the
    last gradient."""
    drawn = found = workers.gradients(state.weights, tasks)
    for _ in range(passes - 1):
        state.learn(found, ends_step=False)
        again = [replace(task, samples=each.samples) for task, each in zip(tasks, drawn, strict=True)]
        found = workers.gradients(state.weights, again)
    norm = state.learn(found)
    return [replace(each, samples=None) for each in drawn], norm


def tasks_of(configuration: TrainingConfiguration, seed: int, step: int, graphs: Sequence[int]) -> list[RolloutTask]:
    """The graphs of a step, drawn anew, and the seeds of their samples: of nothing but the seed and the step."""
    random = np.random.default_rng([seed, step])
    drawn = random.integers(len(graphs), size=configuration.batch)
    seeds = random.integers(2**63, size=(configuration.batch, configuration.samples))
    return [
        RolloutTask(graph=graphs[index], imitates=step < configuration.imitation_steps, seeds=tuple(row))
        for index, row in zip(drawn.tolist(), seeds.tolist(), strict=True)
    ]


def summary(estimates: Sequence[GradientEstimate]) -> dict[str, float]:
    """Summarize the steps since the last line of the records."""
    found = {}
    if decided := [estimate.decisions for estimate in estimates if estimate.decisions is not None]:
        found = {name: value for name, value in asdict(mean_decisions(decided)).items() if value is not None}
    if losses := [estimate.loss for estimate in estimates if not estimate.rewards]:
        found["imitation_loss"] = float(np.mean(losses))
    rewards = np.array([np.mean(estimate.rewards) for estimate in estimates if estimate.rewards])
    if len(rewards):
        found["reward"] = float(rewards.mean())
    if expected := [each.expected_reward for each in estimates if each.expected_reward is not None]:
        found["value_error"] = float(np.sqrt(((rewards - expected) ** 2).mean()))
    return found


def _policy(state: TrainingState, name: str, configuration: TrainingConfiguration, seed: int) -> Policy:
    record = {
        "seed": seed,
        "step": state.step,
        "improvement_percent": state.best,
        "training": {key: value for key, value in asdict(configuration).items() if key != "policy"},
    }
    return configuration.trained_policy(name, state.policy_weights(), record)
