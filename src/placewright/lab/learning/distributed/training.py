"""ColocRL as its paper trains it: controllers draw and measure, a parameter server learns (Mirhoseini et al. 2017,
section 3.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placewright.lab.actors import Actor, ActorLostError, Actors, LocalActors, Pending
from placewright.lab.learning.checkpoint import Checkpoint
from placewright.lab.learning.distributed.controller import Controller, ControllerState, StepReport, Worker, first_state
from placewright.lab.learning.distributed.parameter_server import ParameterServer
from placewright.lab.learning.placers.colocrl_settings import ColocRlSettings
from placewright.lab.learning.placers.placement_policy import seeded
from placewright.lab.learning.placers.placer import Task, Trying
from placewright.problem.objective import StopReason
from placewright.support.errors import PlacewrightError
from placewright.support.files import locked_folder

#: Updates from one checkpoint to the next.
CHECKPOINT_INTERVAL = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept:
    """What a training is between two updates. server: the parameter server's state. controllers: of each what its next
    step begins from; a step that is under way has not been. evaluations: spent so far. best: fitness, as of `Trials`,
    and devices of each unit of the best placement so far."""

    server: dict[str, Any]
    controllers: tuple[ControllerState, ...]
    evaluations: int = 0
    best: tuple[tuple[int, int, int], tuple[int, ...]] | None = None

    @staticmethod
    def of(state: dict[str, Any]) -> Kept:
        """From a checkpoint."""
        controllers = tuple(ControllerState(**each) for each in state.pop("controllers"))
        return Kept(controllers=controllers, **state)


def learn_distributed(method: ColocRlSettings, task: Task, trying: Trying) -> StopReason:
    """Until the budget is spent; why it ended. Where the method names a folder, it goes on from what is kept there.

    Raises InputError for a folder of another training or a cluster that cannot be used, MissingExtraError without Ray,
    and PlacewrightError where what dies cannot be replaced.
    """
    folder = Path(method.checkpoint) if method.checkpoint else None
    lock = nullcontext() if folder is None else locked_folder(folder, "another training writes to")
    with lock:
        settings = {**method.settings, "seed": task.seed, **_digests(task)}
        checkpoint = Checkpoint(None if folder is None else folder / "colocrl.pt", settings)
        kept = checkpoint.read(Kept.of)
        if kept is not None and kept.best is not None:
            placements = task.units.placements(np.array([kept.best[1]]))
            trying.take(placements, trying.environment.measure(placements), "", kept.evaluations)
        if (reason := trying.reason_to_stop()) is not None:
            return reason
        with _actors(method) as actors:
            training = Training(method, task, trying.environment.reference, actors, checkpoint, kept)
            return _tried(training, task, trying)


def _tried(training: Training, task: Task, trying: Trying) -> StopReason:
    with closing(training.rounds()) as rounds:
        for reports in rounds:
            for report in reports:
                placements = task.units.placements(report.devices)
                trying.take(placements, report.trials, "", len(placements))
            if (reason := trying.reason_to_stop()) is not None:
                break
    training.save()
    return reason or "evaluations"


def _actors(method: ColocRlSettings) -> Actors:
    if method.ray is None:
        return LocalActors()
    from placewright.lab.ray_cluster import RayActors

    return RayActors(method.ray, 1 + method.controllers * (1 + method.workers))


class Training:
    """The parameter server, its controllers, and how far they are. kept: what it goes on from."""

    def __init__(
        self,
        method: ColocRlSettings,
        task: Task,
        reference: float,
        actors: Actors,
        checkpoint: Checkpoint,
        kept: Kept | None = None,
    ) -> None:
        self._method, self._task, self._actors, self._checkpoint = method, task, actors, checkpoint
        shared = actors.shared(task)
        self.workers = [
            [actors.make(Worker, shared, replaced=True) for _ in range(method.workers)]
            for _ in range(method.controllers)
        ]
        self.controllers = [
            actors.make(Controller, number, method, shared, reference, own, replaced=True)
            for number, own in enumerate(self.workers)
        ]
        self.server = self._fresh_server()
        actors.wait_for_start([*self.controllers, *(each for own in self.workers for each in own), self.server])
        if kept is None:
            states = tuple(
                first_state(task.seed, number, method.first_baseline) for number in range(method.controllers)
            )
            kept = Kept(server=actors.get(self.server.ask("state")), controllers=states)
        self._evaluations, self._best = kept.evaluations, kept.best
        self._left = max(0, task.evaluations - kept.evaluations)
        self._go_on_from(kept)

    def _fresh_server(self) -> Actor:
        method = self._method
        policy, _ = seeded(lambda: method.policy_of(self._task), self._task.seed)
        weights = [parameter.detach().numpy() for parameter in policy.parameters()]
        settings = (method.learning_rate, method.max_grad_norm, method.staleness)
        return self._actors.make(ParameterServer, weights, *settings)

    def _go_on_from(self, kept: Kept) -> None:
        self._kept = kept
        self.server.ask("restore", kept.server)
        self._states = list(kept.controllers)
        self._updates = 0
        self._pending: dict[int, tuple[Pending, Pending]] = {}
        self._counts = [0] * len(self._states)  # placements of the steps under way

    def rounds(self) -> Generator[list[StepReport], None, None]:
        """Steps that have changed the weights, until all evaluations are spent. Where the server has died, a new one
        goes on from what was kept last; what was tried since is spent."""
        while True:
            try:
                if not (reports := self._round()):
                    return
            except ActorLostError as error:
                self._replace_server(error)
            else:
                yield reports

    def _round(self) -> list[StepReport]:
        self._begin()
        awaited = [(number, *self._pending.pop(number)) for number in self._awaited()]
        reports: list[StepReport] = [self._actors.get(report) for _, _, report in awaited]
        gradients = [gradient for _, gradient, _ in awaited]
        updates = [gradients] if self._method.updates == "synchronous" else [[gradient] for gradient in gradients]
        for update in updates:
            self.server.ask("learn", *update)
        for report in reports:
            self._note(report)
        self._updates += len(updates)
        if self._updates >= CHECKPOINT_INTERVAL:
            self.save()
        return reports

    def _begin(self) -> None:
        """A step of every controller that has none under way, while there is something left to try."""
        idle = [number for number in range(len(self.controllers)) if number not in self._pending]
        snapshot = self.server.ask("snapshot")
        for number in idle[: -(-self._left // self._method.samples)]:
            self._counts[number] = min(self._method.samples, self._left)
            self._left -= self._counts[number]
            asked = ("step", snapshot, self._states[number], self._counts[number])
            self._pending[number] = self.controllers[number].ask(*asked, answers=2)

    def _awaited(self) -> list[int]:
        """Whose steps change the weights next."""
        numbers = list(self._pending)
        if self._method.updates == "asynchronous" and numbers:
            place = self._actors.first([self._pending[number][1] for number in numbers])
            assert place is not None
            return [numbers[place]]
        return numbers

    def _note(self, report: StepReport) -> None:
        self._states[report.controller] = report.state
        self._counts[report.controller] = 0
        self._evaluations += len(report.devices)
        fitness = report.trials.fitness(row := report.trials.best())
        if self._best is None or fitness < self._best[0]:
            self._best = fitness, tuple(report.devices[row].tolist())

    def save(self) -> None:
        """To go on from here."""
        server = self._actors.get(self.server.ask("state"))
        self._kept = Kept(
            server=server, controllers=tuple(self._states), evaluations=self._evaluations, best=self._best
        )
        self._checkpoint.write(asdict(self._kept))
        self._updates = 0

    def _replace_server(self, error: ActorLostError) -> None:
        """Raises PlacewrightError where it is not the server that is lost."""
        try:
            self._actors.get(self.server.ask("snapshot"))
        except ActorLostError:
            self._left += sum(self._counts)
            self.server = self._fresh_server()
            self._go_on_from(self._kept)
        else:
            raise PlacewrightError(
                "an actor of the training keeps dying; its last checkpoint goes on from there"
            ) from error


def _digests(task: Task) -> dict[str, str]:
    """Of all of the problem that decides what placements cost and which there are."""
    problem, units = task.problem, task.units
    machine = hashlib.sha256(repr((problem.machine, problem.memory_limits_bytes, problem.control)).encode())
    machine.update(problem.time_ns.tobytes())
    groups = hashlib.sha256(units.of_op.tobytes() + units.allowed.tobytes())
    return {
        "graph": problem.graph.fingerprint,
        "machine": machine.hexdigest(),
        "objective": problem.objective,
        "groups": groups.hexdigest(),
    }
