"""A controller draws placements, has its workers measure them, and makes a gradient of what these cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

import placewright._core as _core
from placewright.lab.actors import Actor
from placewright.lab.learning.distributed.parameter_server import Gradient, Snapshot
from placewright.lab.learning.environments.first_come import FirstComeEnvironment, Noise, Trials
from placewright.lab.learning.placers.colocrl_settings import ColocRlSettings
from placewright.lab.learning.placers.placement_policy import seeded
from placewright.lab.learning.placers.placer import Task

#: Step time in ns, peak memory and bytes over limits, one number per placement.
Measured: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class Worker:
    """Schedules and simulates as `FirstComeEnvironment` does."""

    def __init__(self, task: Task) -> None:
        self._problem, self._units = task.problem, task.units

    def measure(self, devices: NDArray[np.integer]) -> Measured:
        """devices: [count, num units]."""
        placements = np.ascontiguousarray(self._units.placements(devices))
        return _core.measure_placements(self._problem.core, placements, 1)


def measured_by(workers: Sequence[Actor], devices: NDArray[np.integer]) -> Measured:
    """As many placements for each of them as can be; back when all are measured."""
    parts = [part for part in np.array_split(devices, len(workers)) if len(part)]
    asked = [worker.ask("measure", part) for worker, part in zip(workers, parts, strict=False)]
    time, peak, over = zip(*workers[0].collected(asked), strict=True)
    return np.concatenate(time), np.concatenate(peak), np.concatenate(over)


@dataclass(frozen=True, kw_only=True)
class ControllerState:
    """What a controller has besides the weights. It is told this at each step and answers with the next, so that one
    that is made anew does the same. generator: what PyTorch's random numbers go on from."""

    steps: int
    baseline: float | None
    generator: bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class StepReport:
    """Placements that a controller tried, [count, num units], and what they cost. state: of its next step."""

    controller: int
    devices: NDArray[np.integer]
    trials: Trials
    state: ControllerState


def first_state(seed: int, controller: int, baseline: float | None) -> ControllerState:
    """The first draws what the one controller of a training without others draws."""
    own = seed if controller == 0 else int(np.random.SeedSequence([seed, controller]).generate_state(1, np.uint64)[0])
    generator = torch.Generator().manual_seed(own % 2**63)
    return ControllerState(steps=0, baseline=baseline, generator=generator.get_state().numpy().tobytes())


class Controller:
    """reference: what costs are divided by. workers: without any it measures by itself."""

    def __init__(
        self, number: int, method: ColocRlSettings, task: Task, reference: float, workers: Sequence[Actor] = ()
    ) -> None:
        torch.set_num_threads(1)
        self._number, self._method, self._task, self._reference = number, method, task, reference
        self._policy, self._generator = seeded(lambda: method.policy_of(task), task.seed)
        self._learner = method.reinforce(self._policy)
        self._workers, self._own = workers, Worker(task)

    def step(self, snapshot: Snapshot, state: ControllerState, count: int) -> tuple[Gradient, StepReport]:
        """count: of placements; where these are fewer than the samples of a step, nothing is learned."""
        self._take(snapshot, state)
        tried = state.steps * self._method.samples * self._method.controllers
        self._policy.shared_noise = self._method.noise_after(tried, self._task)
        actions = self._policy.sample(self._method.samples, self._generator)
        devices = actions.numpy()[:count]
        trials = self._trials(devices, state.steps)
        parts: list[NDArray[np.float32] | None] = []
        if count == len(actions):
            log_probability = self._policy.evaluate(actions).log_probability.sum(1)
            if self._learner.differentiate(log_probability, trials.cost, trials.runs):
                parts = [None if each.grad is None else each.grad.numpy() for each in self._policy.parameters()]
        report = StepReport(controller=self._number, devices=devices, trials=trials, state=self._state())
        return Gradient(version=snapshot.version, parts=parts), report

    def _take(self, snapshot: Snapshot, state: ControllerState) -> None:
        with torch.no_grad():
            for parameter, values in zip(self._policy.parameters(), snapshot.weights, strict=True):
                parameter.copy_(torch.tensor(values))
        self._learner.steps, self._learner.baseline = state.steps, state.baseline
        self._generator.set_state(torch.tensor(np.frombuffer(state.generator, np.uint8)))

    def _state(self) -> ControllerState:
        generator = self._generator.get_state().numpy().tobytes()
        return ControllerState(steps=self._learner.steps, baseline=self._learner.baseline, generator=generator)

    def _trials(self, devices: NDArray[np.integer], step: int) -> Trials:
        """Noise depends on the step alone, whoever measures."""
        noise = Noise(deviation=self._method.noise, failures=self._method.failures)
        seed = [self._task.seed, self._number, step]
        environment = FirstComeEnvironment(self._task.problem, noise=noise, seed=seed)
        environment.reference = self._reference
        measured = measured_by(self._workers, devices) if self._workers else self._own.measure(devices)
        return environment.judged(*measured)
