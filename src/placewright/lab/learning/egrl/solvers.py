"""The learners as solvers of memory problems: `placewright map MODEL --solver egrl`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from placewright.lab.learning.algorithms.egrl import Egrl
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
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.run import BestMap, MapResult
from placewright.methods.policies import Policy
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError, shown

if TYPE_CHECKING:
    from placewright.lab.learning.checkpoint import Checkpoint

LearnerName = Literal["ea", "pg", "egrl"]


#: Called after a generation with the learner and its environment.
OnGeneration = Callable[[Egrl, MemoryMapEnvironment], None]


@dataclass(frozen=True, kw_only=True)
class MapLearner:
    """A learner as a solver. evolution, network, gradient: None for those of the mode. checkpoint: a file that is
    written after every `checkpoint_interval` generations; if it exists already, the run resumes from it and finds the
    same map as a run that was never interrupted. policy: a trained one to begin with, for `egrl`."""

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
        """Solve the problem. Raises InputError for a budget of less than one generation, and for a checkpoint of
        another run."""
        if self.name != "pg" and run.budget.evaluations < self.evolution_used.population:
            raise InputError(
                f"a budget of {run.budget.evaluations} evaluations is less than the population of '{self.name}', "
                f"{self.evolution_used.population}"
            )
        environment = MemoryMapEnvironment(problem, run, self.name, rectifies=self.mode == "fixed")
        learner = self.make(environment, run.seed)

        def restore(state: dict[str, Any]) -> None:
            learner.restore(state["learner"])
            environment.restore(state["found"])

        checkpoint = self._checkpoint(problem, run)
        if checkpoint is not None:
            checkpoint.read(restore)
        generations = 0
        while not environment.is_over:
            learner.generation()
            generations += 1
            if self.on_generation is not None:
                self.on_generation(learner, environment)
            if checkpoint is not None and generations % self.checkpoint_interval == 0:
                checkpoint.write({"learner": learner.state(), "found": environment.state()})
        if environment.best.levels is None:  # no map that was proposed fits
            slowest = problem.all_slowest()
            environment.best.take(slowest, problem.evaluate_one(slowest)[0], "all in the slowest level")
        return environment.best.result(run.reason_to_stop() or "complete", configuration=self.settings)

    def make(self, environment: MemoryMapEnvironment, seed: int) -> Egrl:
        """Return the algorithm in its initial state."""
        if self.policy is not None:
            self.policy.check(environment.problem)
        return Egrl(
            environment,
            seed,
            None if self.name == "pg" else self.evolution_used,
            None if self.name == "ea" else self.gradient_used,
            self.network_used,
            None if self.policy is None else self.policy.weights,
        )

    @property
    def evolution_used(self) -> EvolutionSettings:
        return self.evolution or evolution_settings(self.mode, only_chromosomes=self.name == "ea")

    @property
    def network_used(self) -> NetworkSettings:
        if self.policy is not None:
            return self.policy.configuration.network
        return self.network or network_settings(self.mode)

    @property
    def gradient_used(self) -> GradientSettings:
        return self.gradient or GradientSettings(mode=self.mode)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the learner's parts, as JSON values."""
        parts: dict[str, Any] = {"mode": self.mode}
        if self.name != "pg":
            parts["evolution"] = asdict(self.evolution_used)
        if self.name != "ea":
            parts |= {"network": asdict(self.network_used), "gradient": asdict(self.gradient_used)}
        if self.policy is not None:
            parts["policy"] = self.policy.title
        return parts

    def _checkpoint(self, problem: MemoryProblem, run: SearchRun) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        from placewright.lab.learning.checkpoint import Checkpoint

        graph, chip = problem.graph.fingerprint, repr(problem.chip)
        settings = {"solver": self.name, **self.settings, "seed": run.seed, "graph": graph, "chip": chip}
        return Checkpoint(self.checkpoint, settings)


@dataclass(frozen=True, kw_only=True)
class ZeroShot:
    """A solver that rectifies the map a trained policy proposes, in one evaluation (section 5, figure 4)."""

    policy: MapPolicy

    @property
    def name(self) -> str:
        return "zero-shot"

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        """Solve the problem. Raises InputError for a chip that the policy is not for."""
        best = BestMap(problem, run, self.name)
        best.offer(problem.from_nodes(self.policy.node_levels(problem)))
        return best.result("complete", configuration={"policy": self.policy.title})


def policy_of(learner: Egrl, name: str, record: dict[str, Any]) -> MapPolicy:
    """Return the policy of a learner that has one, for a policy file."""
    genome, problem = learner.best_policy(), learner.environment.problem
    assert genome is not None
    configuration = MapPolicyConfiguration(num_levels=problem.num_levels, network=learner.network)
    return MapPolicy(name=name, configuration=configuration, weights=dict(genome.weights), record=record)


#: The learners without a policy.
MAP_LEARNERS = (MapLearner(name="ea"), MapLearner(name="pg"), MapLearner(name="egrl"))


def zero_shot(policy: Policy) -> ZeroShot:
    """Return the solver of the policy's map. Raises InputError for a policy of another family."""
    return ZeroShot(policy=_of_maps(policy))


def learner_with(policy: Policy) -> MapLearner:
    """Return EGRL that continues from the policy. Raises InputError for a policy of another family."""
    return MapLearner(name="egrl", policy=_of_maps(policy))


def _of_maps(policy: Policy) -> MapPolicy:
    if not isinstance(policy, MapPolicy):
        raise InputError(
            f"policy '{shown(policy.name)}' is one of {policy.family}, which makes no maps; those of egrl do"
        )
    return policy
