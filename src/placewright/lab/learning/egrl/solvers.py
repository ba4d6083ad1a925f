"""The learners as solvers of memory problems: `placewright map MODEL --solver egrl`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from placewright.lab.learning.egrl.policy import MapPolicy, MapPolicyConfiguration
from placewright.lab.learning.egrl.settings import (
    EvolutionSettings,
    GradientSettings,
    Mode,
    NetworkSettings,
    evolution_settings,
    network_settings,
)
from placewright.lab.learning.environments.memory_map import MemoryMapEnvironment
from placewright.memory_levels.problem import MemoryProblem
from placewright.memory_levels.run import BestMap, MapResult
from placewright.methods.policies import Policy
from placewright.search.run.result import TracePoint
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError, shown

LearnerName = Literal["ea", "pg", "egrl"]


class Learner(Protocol):
    """An algorithm of `algorithms/`, which goes on generation by generation."""

    def generation(self) -> None: ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


#: After a generation: the learner, and the environment that it learns in.
OnGeneration = Callable[[Learner, MemoryMapEnvironment], None]


@dataclass(frozen=True, kw_only=True)
class MapLearner:
    """evolution, network, gradient: None for those of the mode. checkpoint: a file that is written after every
    `checkpoint_interval` generations; where it stands already, the run goes on from there, to the map that it would
    have found had it never ended. policy: a trained one to begin with, for `egrl`."""

    name: LearnerName
    mode: Mode = "fixed"
    evolution: EvolutionSettings | None = None
    network: NetworkSettings | None = None
    gradient: GradientSettings | None = None
    checkpoint: Path | None = None
    checkpoint_interval: int = 10
    policy: MapPolicy | None = None
    on_generation: OnGeneration | None = None

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        """Raises InputError for a budget that is less than one generation, and for a checkpoint of another run."""
        if self.name != "pg" and run.budget.evaluations < self.evolved.population:
            raise InputError(
                f"a budget of {run.budget.evaluations} evaluations is less than the population of '{self.name}', "
                f"{self.evolved.population}"
            )
        environment = MemoryMapEnvironment(problem, run, self.name, rectifies=self.mode == "fixed")
        learner = self.make(environment, run.seed)
        saved = self._restored(learner, environment)
        generations = 0
        while not environment.is_over:
            learner.generation()
            generations += 1
            if self.on_generation is not None:
                self.on_generation(learner, environment)
            if saved is not None and generations % self.checkpoint_interval == 0:
                saved.write(learner)
        if environment.best.levels is None:  # no map that was proposed fits
            slowest = problem.all_slowest()
            environment.best.take(slowest, problem.evaluate_one(slowest)[0], "all in the slowest level")
        return environment.best.result(run.reason_to_stop() or "complete", configuration=self.settings)

    def make(self, environment: MemoryMapEnvironment, seed: int) -> Learner:
        """The algorithm, at its beginning."""
        if self.name == "ea":
            from placewright.lab.learning.algorithms.evolution import Ea

            return Ea(environment, self.evolved, seed)
        if self.name == "pg":
            from placewright.lab.learning.algorithms.discrete_sac import Pg

            return Pg(environment, self.shape, self.climbed, seed)
        from placewright.lab.learning.algorithms.egrl import Egrl

        if self.policy is not None:
            self.policy.check(environment.problem)
        start = None if self.policy is None else self.policy.weights
        return Egrl(environment, self.evolved, self.shape, self.climbed, seed, start)

    @property
    def evolved(self) -> EvolutionSettings:
        return self.evolution or evolution_settings(self.mode, only_chromosomes=self.name == "ea")

    @property
    def shape(self) -> NetworkSettings:
        if self.policy is not None:
            return self.policy.configuration.network
        return self.network or network_settings(self.mode)

    @property
    def climbed(self) -> GradientSettings:
        return self.gradient or GradientSettings(mode=self.mode)

    @property
    def settings(self) -> dict[str, Any]:
        """Of the parts that the learner has, as JSON values."""
        parts: dict[str, Any] = {"mode": self.mode}
        if self.name != "pg":
            parts["evolution"] = asdict(self.evolved)
        if self.name != "ea":
            parts |= {"network": asdict(self.shape), "gradient": asdict(self.climbed)}
        if self.policy is not None:
            parts["policy"] = self.policy.title
        return parts

    def _restored(self, learner: Learner, environment: MemoryMapEnvironment) -> _Saved | None:
        if self.checkpoint is None:
            return None
        problem, run = environment.problem, environment.run
        settings = {
            "solver": self.name,
            **self.settings,
            "seed": run.seed,
            "graph": problem.graph.fingerprint,
            "chip": repr(problem.chip),
        }
        saved = _Saved(self.checkpoint, settings, environment)
        saved.read(learner)
        return saved


@dataclass(frozen=True, kw_only=True)
class ZeroShot:
    """The map that a trained policy proposes, rectified, in one evaluation (section 5, figure 4)."""

    policy: MapPolicy

    @property
    def name(self) -> str:
        return "zero-shot"

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        """Raises InputError for a chip that the policy is not for."""
        best = BestMap(problem, run, self.name)
        best.offer(problem.from_nodes(self.policy.node_levels(problem)))
        return best.result("complete", configuration={"policy": self.policy.title})


class _Saved:
    """The checkpoint of a run: the learner, and what the run has spent and found."""

    def __init__(self, path: Path, settings: dict[str, Any], environment: MemoryMapEnvironment) -> None:
        self.path, self.settings, self.environment = path, settings, environment

    def write(self, learner: Learner) -> None:
        from placewright.lab.learning.state_file import write_state

        best, run = self.environment.best, self.environment.run
        found = {
            "levels": best.levels,
            "latency_ps": best.latency_ps,
            "found_by": best.found_by,
            "evaluations": run.evaluations,
            "trace": [[point.evaluations, point.seconds, point.best] for point in run.trace],
        }
        write_state(self.path, {"settings": self.settings, **_packed({"learner": learner.state(), "found": found})})

    def read(self, learner: Learner) -> None:
        """Nothing where there is no file yet."""
        from placewright.lab.learning.state_file import check_settings, read_state

        if not self.path.exists():
            return

        def take(state: dict[str, Any]) -> None:
            check_settings(self.path, state.pop("settings"), self.settings)
            whole = _unpacked(state)
            learner.restore(whole["learner"])
            self._take(whole["found"])

        read_state(self.path, take)

    def _take(self, found: dict[str, Any]) -> None:
        best, run = self.environment.best, self.environment.run
        best.levels, best.latency_ps, best.found_by = found["levels"], found["latency_ps"], found["found_by"]
        run.spend(found["evaluations"])
        for evaluations, seconds, value in found["trace"]:
            run.trace.append(TracePoint(evaluations=evaluations, seconds=seconds, best=value, bytes_over_limit=0))


def _packed(value: Any) -> Any:
    """Arrays as tensors, which a file of weights may hold."""
    import torch

    if isinstance(value, np.ndarray):
        return {"array": torch.from_numpy(value)}
    if isinstance(value, dict):
        return {key: _packed(each) for key, each in value.items()}
    return [_packed(each) for each in value] if isinstance(value, list) else value


def _unpacked(value: Any) -> Any:
    """The way back."""
    if isinstance(value, dict):
        return value["array"].numpy() if set(value) == {"array"} else {key: _unpacked(e) for key, e in value.items()}
    return [_unpacked(each) for each in value] if isinstance(value, list) else value


def policy_of(learner: Any, name: str, record: dict[str, Any]) -> MapPolicy:
    """The policy of a learner that has one, for a policy file."""
    genome, problem = learner.best_policy(), learner.environment.problem
    configuration = MapPolicyConfiguration(num_levels=problem.num_levels, network=learner.network)
    return MapPolicy(name=name, configuration=configuration, weights=dict(genome.weights), record=record)


#: Without a policy.
MAP_LEARNERS = (MapLearner(name="ea"), MapLearner(name="pg"), MapLearner(name="egrl"))


def zero_shot(policy: Policy) -> ZeroShot:
    """The map that the policy proposes. Raises InputError for a policy of another family."""
    return ZeroShot(policy=_of_maps(policy))


def learner_with(policy: Policy) -> MapLearner:
    """EGRL that goes on from the policy. Raises InputError for a policy of another family."""
    return MapLearner(name="egrl", policy=_of_maps(policy))


def _of_maps(policy: Policy) -> MapPolicy:
    if not isinstance(policy, MapPolicy):
        raise InputError(
            f"policy '{shown(policy.name)}' is one of {policy.family}, which makes no maps; those of egrl do"
        )
    return policy
