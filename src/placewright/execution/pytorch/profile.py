"""The time of every op of a program on this host, and its workspace.

Ops are timed at their place in a step, since their inputs then lie in the caches as in a real run; once with all other
devices idle, and once while these compute the same step. Ops of a known sort are not timed again. Imported only where
torch is known to be present.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from placewright.costs.measured import MeasuredOp
from placewright.execution.channels import Channels, StoppedError
from placewright.execution.op_library import OpSort
from placewright.execution.pytorch.code import DeviceCode, device_code
from placewright.execution.pytorch.layout import moved
from placewright.execution.pytorch.op_sorts import between_ops, sorts_of
from placewright.execution.pytorch.places import Place, Watch, drivers_of, finish_current
from placewright.execution.pytorch.recorded import Recorded, launch_beside, the_driver
from placewright.execution.pytorch.step import TorchStep, naming_the_op
from placewright.execution.steps import needs_of, steps_of
from placewright.execution.workers import Workers
from placewright.graph import Graph

_WARM_UP = 2
#: Passes over a step: as many as fit into the time, within limits.
_MIN_PASSES, _MAX_PASSES, _PASSES_NS = 7, 60, 1_000_000_000

T = TypeVar("T")
Library = dict[OpSort, MeasuredOp]


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """The times and workspaces of a program's ops, by name in its own graph.

    alone: on one device while the others are idle; shared: while all of them compute; the same for one device.
    num_timed, num_known: sorts of ops that were timed now, and that the library had.
    """

    alone: Mapping[str, MeasuredOp]
    shared: Mapping[str, MeasuredOp]
    num_timed: int
    num_known: int


def profile_program(
    step: TorchStep,
    cores: Sequence[frozenset[int]],
    parameters: Sequence[Any],
    tensors: Sequence[Any],
    library: Library,
    places: Sequence[Place] = (),
    *,
    recorded: bool = False,
) -> Profiled:
    """Times the ops of a program that the library does not know, and adds them to it.

    step: of a plan that puts all ops on one device. cores: of each device. parameters, tensors: the step's arguments.
    places: of the devices, where they are not all on the host; the first is that of the step. recorded: whether steps
    will be replays of a CUDA graph, in which no op waits for its launch.
    Inputs and the random number generator are restored afterwards.
    """
    program, device = step.program, step.plan.machine.devices[0]
    busy = [1] if len(cores) == 1 else [1, len(cores)]
    kind = device.kind
    if step.places[0].driver is not None:
        kind = f"{kind}, {'recorded' if recorded else 'launched'}"
    sorts = {count: sorts_of(program, kind, count) for count in busy}
    gaps = {count: between_ops(kind, count) for count in busy}
    unknown = {sort for count in busy for sort in (*sorts[count], gaps[count]) if sort not in library}
    if unknown:
        with unchanged(step.overwritten(parameters, tensors), places):
            runner = _Runner(step, parameters, tensors, places)
            workspaces = step.workspaces(parameters, tensors)
            whole_ns = None if step.places[0].driver is None else runner.unwatched_ns(cores[:1], recorded=recorded)
            for count in busy:
                passes = runner.recorded_passes(cores[:count]) if recorded else runner.passes(cores[:count])
                taken, gap = _times_of(passes)
                if whole_ns is not None:
                    if count == 1:
                        beside = _beside(program.graph, taken, whole_ns)
                    taken, gap = _without(program.graph, taken, beside), 0
                found = {**_by_sort(sorts[count], taken, workspaces), gaps[count]: MeasuredOp(gap, 0)}
                library.update((sort, found[sort]) for sort in found if sort in unknown)
    alone, shared = (
        with_views(program.graph, [library[sort] for sort in sorts[count]], library[gaps[count]].time_ns)
        for count in (busy[0], busy[-1])
    )
    total = sum(len(set(sorts[count])) + 1 for count in busy)
    return Profiled(alone=alone, shared=shared, num_timed=len(unknown), num_known=total - len(unknown))


def with_views(graph: Graph, ops: Sequence[MeasuredOp], gap_ns: int) -> dict[str, MeasuredOp]:
    """Times of the ops that are planned, by name: each includes the time that its device spends between it and the
    previous op, which is the gap and the views made for the op; in a plan views take no time."""
    made: set[int] = set()
    times: dict[str, MeasuredOp] = {}

    def views_for(tensors: Sequence[int]) -> int:
        spent = 0
        for tensor in tensors:
            view = graph.producer_of[tensor]
            if view >= 0 and graph.ops[view].kind == "view" and view not in made:
                made.add(view)
                spent += ops[view].time_ns + gap_ns + views_for(needs_of(view, graph))
        return spent

    for index, op in enumerate(graph.ops):
        if op.kind != "view":
            spent = ops[index].time_ns + gap_ns + views_for(needs_of(index, graph))
            times[op.name] = MeasuredOp(max(0, spent), ops[index].workspace_bytes)
    return times


def _by_sort(sorts: Sequence[OpSort], taken: Sequence[float], workspaces: Sequence[int]) -> Library:
    """Gives ops of one sort their average time, so that the sum over a step stays the same."""
    times, most = defaultdict(list), dict[OpSort, int]()
    for sort, time_ns, workspace in zip(sorts, taken, workspaces, strict=True):
        times[sort].append(time_ns)
        most[sort] = max(most.get(sort, 0), workspace)
    return {sort: MeasuredOp(round(fmean(each)), most[sort]) for sort, each in times.items()}


def _times_of(passes: NDArray[np.float64]) -> tuple[list[float], int]:
    """The median time of each op over the passes, and the gap between two ops; passes: [pass, op, start and finish]."""
    taken, ran = middle(passes)
    first, last = passes[:, ran, 0].min(axis=1), passes[:, ran, 1].max(axis=1)
    spent = (passes[:, ran, 1] - passes[:, ran, 0]).sum(axis=1)
    between = float(np.median((last - first - spent) / max(1, int(ran.sum()))))
    return taken.tolist(), max(0, round(between) - observer_ns())


def _beside(graph: Graph, taken: Sequence[float], whole_ns: float) -> float:
    """The time that noting its start and finish adds to an op on an accelerator, beyond the gap between two: by so much
    per op their sum exceeds a step of `whole_ns` that is not observed."""
    launched = [time for op, time in zip(graph.ops, taken, strict=True) if op.kind not in ("view", "input") and time]
    return (sum(launched) - whole_ns) / max(1, len(launched))


def _without(graph: Graph, taken: Sequence[float], beside: float) -> list[float]:
    """The times of ops without that overhead, scaled to the rest of their sum; views and inputs launch nothing."""
    launched = [0.0 if op.kind in ("view", "input") else time for op, time in zip(graph.ops, taken, strict=True)]
    left = [max(0.0, time - beside) if time else 0.0 for time in launched]
    whole = sum(launched) - beside * sum(time > 0 for time in launched)
    return [time * whole / max(1e-9, sum(left)) for time in left]


def as_passes(samples: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """The times noted in each pass as an array: [pass, op, start and finish]."""
    return np.array(samples, np.float64).reshape(len(samples), -1, 2)


def middle(passes: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The median time of each op, without the time to observe it, and which ops ran.

    Ops that no line of code runs, such as a view that nothing reads, take no time.
    """
    ran = np.all(passes >= 0, axis=(0, 2))
    taken = np.median(passes[:, :, 1] - passes[:, :, 0], axis=0) - observer_ns()
    return np.where(ran, np.maximum(taken, 0.0), 0.0), ran


def observer_ns() -> int:
    """The time to note one moment, in ns."""
    times = [0, 0]
    clock = time.perf_counter_ns

    def observe(place: int) -> None:
        times[place] = clock()

    samples = []
    for _ in range(15):
        began = clock()
        for _ in range(100):
            observe(0)
        samples.append((clock() - began) // 100)
    return int(median(samples))


def _passes_of(call: Callable[[], T]) -> list[T]:
    """The results of a repeated call, without the first ones."""
    found: list[T] = []
    clock = time.perf_counter_ns
    began, wanted = clock(), _MIN_PASSES + _WARM_UP
    while len(found) < wanted:
        found.append(call())
        if len(found) == _WARM_UP:
            each = max(1, (clock() - began) // _WARM_UP)
            wanted = _WARM_UP + min(_MAX_PASSES, max(_MIN_PASSES, _PASSES_NS // each))
    return found[_WARM_UP:]


def _median_ns(call: Callable[[], None]) -> float:
    def timed() -> int:
        began = time.perf_counter_ns()
        call()
        return time.perf_counter_ns() - began

    return median(_passes_of(timed))


class _Runner:
    """Runs one device's step repeatedly, and the same step on the other devices as load."""

    def __init__(
        self, step: TorchStep, parameters: Sequence[Any], tensors: Sequence[Any], places: Sequence[Place]
    ) -> None:
        self._step = step
        self._parameters = parameters
        self._tensors = tensors
        self._others = places[1:]

    def passes(self, cores: Sequence[frozenset[int]]) -> NDArray[np.float64]:
        """Start and finish of each op in every pass, [pass, op, 2], on the first device while all compute."""
        workers = Workers(cores)
        samples: list[list[int]] = []
        over: list[Channels] = []
        loads = [self._load(over, number) for number in range(len(cores) - 1)]
        for driver in drivers_of([*self._step.places, *self._others]):
            # Threads read what this one may still be writing.
            driver.finish(driver.recorded(driver.current_stream()))

        def stop() -> None:
            for channels in over:
                channels.stop()

        def timed() -> None:
            try:
                self._timed(samples)
            finally:
                stop()

        try:
            workers.run([timed, *loads], stop)
        finally:
            workers.close()
        return as_passes(samples)

    def recorded_passes(self, cores: Sequence[frozenset[int]]) -> NDArray[np.float64]:
        """The same as `passes` for recorded steps that run concurrently."""
        watch = Watch(self._step.places[0], 2 * len(self._step.program.graph.ops))
        replay = self._recorded(cores, watch.note)

        def once() -> list[int]:
            watch.start()
            replay()
            finish_current(self._step.places)
            return watch.times()

        return as_passes(_passes_of(once))

    def unwatched_ns(self, cores: Sequence[frozenset[int]], *, recorded: bool) -> float:
        """The time of a step on an accelerator whose ops are not timed."""
        if recorded:
            driver, replay = the_driver(self._step.places), self._recorded(cores, None)

            def replayed() -> int:
                stream = driver.current_stream()
                before = driver.recorded(stream, timed=True)
                replay()
                after = driver.recorded(stream, timed=True)
                driver.finish(after)
                return driver.elapsed_ns(before, after)

            return median(_passes_of(replayed))
        code = _code(self._step, Channels(0), None)
        with torch.no_grad():
            return _median_ns(lambda: self._step.once(code, self._parameters, self._tensors))

    def _recorded(self, cores: Sequence[frozenset[int]], note: Callable[[int], None] | None) -> Callable[[], None]:
        """Records the step on the first device, and the same on the others as load. Returns the function that runs
        them."""
        step = self._step
        driver, places = the_driver(step.places), [*step.places, *self._others[: len(cores) - 1]]
        steps = [step, *(step.elsewhere(step.program, [place]) for place in places[1:])]
        code = [_code(each, Channels(0), None if number else note) for number, each in enumerate(steps)]
        changed = {id(tensor) for tensor in step.overwritten(self._parameters, self._tensors)}

        def own(held: Sequence[Any], number: int) -> list[Any]:
            """The tensors of a load: it changes copies of its own."""
            return [moved(each, driver.brought) if number and id(each) in changed else each for each in held]

        parameters = [own(self._parameters, number) for number in range(len(places))]
        loads = [[moved(tensor, driver.brought) for tensor in self._tensors] for _ in places[1:]]
        workers = Workers(cores)

        def call(code: DeviceCode, parameters: Sequence[Any], inputs: list[Any]) -> None:
            with naming_the_op(code, step.program, step.plan):
                code.function(parameters, inputs, {})

        def launch(inputs: Sequence[Any]) -> dict[int, Any]:
            jobs = [
                (place, partial(call, each, held, list(given)))
                for place, each, held, given in zip(places, code, parameters, [inputs, *loads], strict=True)
            ]
            launch_beside(driver, workers, jobs, lambda: None)
            return {}

        try:
            # Run once unrecorded, so that libraries have allocated what they need.
            with torch.no_grad():
                launch([moved(tensor, driver.brought) for tensor in self._tensors])
                finish_current(places)
                step.refuse_fallbacks()
                made = Recorded(driver, launch, self._parameters, self._tensors)
        finally:
            workers.close()

        return made.replay

    def _timed(self, samples: list[list[int]]) -> None:
        watch = Watch(self._step.places[0], 2 * len(self._step.program.graph.ops))
        if self._step.places[0].driver is not None:
            # Run once to see which ops have a kernel there: the check takes as long as launching some of them.
            self._step.once(_code(self._step, Channels(0), None), self._parameters, self._tensors)
        code = _code(self._step, Channels(0), watch.note)

        def once() -> list[int]:
            watch.start()
            self._step.once(code, self._parameters, self._tensors)
            return watch.times()

        samples.extend(_passes_of(once))

    def _load(self, over: list[Channels], number: int) -> Callable[[], None]:
        """The load of another device: the same step on tensors of its own."""
        channels = Channels(0)
        over.append(channels)
        changed = {id(tensor) for tensor in self._step.overwritten(self._parameters, self._tensors)}
        parameters, tensors = (
            [tensor.detach().clone() if id(tensor) in changed else tensor for tensor in held]
            for held in (self._parameters, self._tensors)
        )
        step = self._step.elsewhere(self._step.program, self._others[number : number + 1])
        code = _code(step, channels, None)

        def load() -> None:
            try:
                while not channels.stopped:
                    step.once(code, parameters, tensors)
            except StoppedError:
                pass  # The load ends this way.

        return load


def _code(step: TorchStep, channels: Channels, observe: Callable[[int], None] | None) -> DeviceCode:
    program = step.program
    steps = steps_of(step.plan, program.graph)
    return device_code(program, steps, 0, channels, list(program.parameters), observe, site=step.site(0))


@contextmanager
def unchanged(changed: Sequence[Any], places: Sequence[Place] = ()) -> Iterator[None]:
    """A context after which changes of steps are undone. changed: tensors. places: where random numbers are drawn
    besides the host."""
    before = [tensor.detach().clone() for tensor in changed]
    random = torch.get_rng_state()
    drawn = {driver: driver.random_state() for driver in drivers_of(places)}
    try:
        yield
    finally:
        torch.set_rng_state(random)
        for driver, state_before in drawn.items():
            driver.set_random_state(state_before)
        with torch.no_grad():
            for tensor, value in zip(changed, before, strict=True):
                tensor.copy_(value)
