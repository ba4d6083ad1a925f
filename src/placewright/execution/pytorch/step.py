"""A plan on workers: runs one step of a program repeatedly.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from placewright.execution.channels import Channels
from placewright.execution.pytorch.code import DeviceCode, device_code
from placewright.execution.pytorch.fallback import Fallbacks
from placewright.execution.pytorch.inductor import Trial
from placewright.execution.pytorch.memory import allocated_between, allocated_peak
from placewright.execution.pytorch.places import (
    Driver,
    Place,
    Watch,
    drivers_of,
    finish_current,
    first_line,
    out_of_memory,
)
from placewright.execution.pytorch.program import TorchProgram, describe_signature, overwritten_by, signature
from placewright.execution.pytorch.recorded import Recorded, check_recordable, launch_beside, the_driver
from placewright.execution.pytorch.regions import with_regions
from placewright.execution.pytorch.rematerialized import rewritten_program
from placewright.execution.pytorch.residents import Residents
from placewright.execution.pytorch.sites import Site, Sites
from placewright.execution.steps import Region, Steps, steps_of
from placewright.execution.workers import Workers
from placewright.machines.host import parted
from placewright.plans.record import Plan
from placewright.support.errors import DeviceError, InputError, shown

Code = tuple[Channels, list[DeviceCode]]


class TorchStep:
    """Runs a plan for a program, on one worker per device of the plan."""

    def __init__(
        self, program: TorchProgram, plan: Plan, workers: Workers, places: Sequence[Place] | None = None
    ) -> None:
        """Sets up a step. program: without the plan's reruns and moves. places: of the plan's devices that compute, in
        their order; by default all on the host."""
        program = rewritten_program(program, plan.reruns, plan.moves, plan.device_of)
        self.program = program
        self.plan = plan
        self.places = tuple(places or (Place(name=device.name) for device in parted(plan.machine)[0].devices))
        self._steps = steps_of(plan, program.graph)
        self._workers = workers
        self._fallbacks = Fallbacks(program)
        self.residents = Residents(program, self._steps, self.places)
        self._sites = Sites(program, self.places, self.residents, self._fallbacks)
        #: Places of inputs that are also results, or are written to.
        own = {*program.results, *overwritten_by(program.graph)}
        self._returned = {place for tensor, place in program.inputs.items() if tensor in own}
        #: A single device of the host computes in the calling thread, with as many threads as that has.
        self._is_of_caller = len(self.places) == 1 and self.places[0].driver is None
        #: The recording that steps replay; None where they are not recorded.
        self._recorded: Recorded | None = None
        self._overwritten_inputs: list[int] = []
        #: The callables for the regions that are not computed op by op.
        self._compiled: dict[Region, Callable[..., Any]] = {}
        self._code = self._write(None)
        self._is_proven = not drivers_of(self.places)

    @property
    def num_compiled_regions(self) -> int:
        """The number of regions that are not computed op by op."""
        return len(self._compiled)

    @property
    def fallbacks(self) -> dict[str, str]:
        """PyTorch's reasons, by op name, for ops that ran on the host since their device has no kernel for them."""
        return dict(self._fallbacks.reasons)

    def compile_regions(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> None:
        """Runs one step in which Inductor compiles the regions that may gain from it, and keeps those that do. A
        compiled region has other last bits than its ops."""
        steps = with_regions(self._steps, self.program)
        regions = [step for device in steps.of_device for step in device if isinstance(step, Region)]
        trials = {region: Trial(region, self.program) for region in regions}
        self._run(self._write(None, steps, trials), parameters, tensors)
        self._compiled = {region: trial.compiled for region, trial in trials.items() if trial.compiled is not None}
        self._code = self._write(None)

    def run(self, parameters: Sequence[Any], tensors: Sequence[Any], *, taken: bool = False) -> dict[int, Any]:
        """Runs one step and returns the outputs of the graph, by tensor. Not to be called by two threads at once.

        parameters: in the order of the program's. tensors: the arguments of the module. taken: whether those may be
        freed once their last reader has run, for which they are taken out of the list. Raises InputError when they are
        not of the shapes that the plan was made for; errors of ops pass through, with a note that names the op.
        """
        try:
            if self._recorded is not None:
                return self._replayed(parameters, tensors)
            out = self._run(self._code, parameters, tensors, taken=taken)
            if not self._is_proven:
                self._prove()
            return out
        except BaseException:
            # Devices stopped wherever they were, so channels may hold what was not taken.
            self._code = self._write(None)
            raise

    def timed(self, parameters: Sequence[Any], tensors: Sequence[Any], steps: int) -> list[list[int]]:
        """Runs steps and returns for each when each op of the graph started and finished: [2 * num ops] in ns of one
        clock, -1 for ops that no device ran."""
        watches = [Watch(place, 2 * len(self.program.graph.ops)) for place in self.places]
        code = self._write([watch.note for watch in watches])
        recorded = None if self._recorded is None else self._record(code, parameters, tensors)
        found = []
        for _ in range(steps):
            for watch in watches:
                watch.start()
            if recorded is None:
                self._run(code, parameters, tensors)
            else:
                recorded.run(tensors)
                finish_current(self.places)
            # A view is made by every device that reads it; the latest of them counts.
            found.append([max(moments) for moments in zip(*(watch.times() for watch in watches), strict=True)])
        return found

    def peak_bytes(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> int:
        """Runs one step of a plan for one device, and returns the most bytes in use: parameters, buffers and constants,
        inputs until their last reader has run, and results of ops. On the host the step runs in the caller's thread."""
        driver = self.places[0].driver
        if driver is not None:
            self.residents.forget()
            held = driver.count_peak()
            self._run(self._code, parameters, [tensor.clone() for tensor in tensors])
            return driver.peak_bytes() - held + self._held_on(driver, parameters)
        _, (code,) = self._code
        with torch.no_grad():
            peak = allocated_peak(lambda: code.function(parameters, [tensor.clone() for tensor in tensors], {}))
        return self.resident_bytes(parameters) + peak

    def workspaces(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> list[int]:
        """Runs one step of a plan for one device, and returns for each op of the graph the bytes it has in use besides
        its inputs and outputs. On the host the step runs in the caller's thread."""
        graph, driver = self.program.graph, self.places[0].driver
        if driver is None:
            with torch.no_grad():
                most = allocated_between(lambda mark: self._write([mark])[1][0].function(parameters, list(tensors), {}))
        else:
            # Run once before: memory that a library allocates then and keeps belongs to no op.
            self._run(self._code, parameters, tensors)
            counted = _Counted(driver)
            self._run(self._write([counted.mark]), parameters, tensors)
            most = counted.most
        made = (
            sum(graph.tensors[tensor].held_bytes for tensor in op.outputs if graph.tensors[tensor].alias_of is None)
            for op in graph.ops
        )
        return [max(0, most.get(2 * index, 0) - size) for index, size in enumerate(made)]

    def elsewhere(self, program: TorchProgram, places: Sequence[Place]) -> TorchStep:
        """The same plan for a program whose ops do other things, on other places; without any, on the host."""
        return TorchStep(program, self.plan, self._workers, places)

    def once(self, code: DeviceCode, parameters: Sequence[Any], tensors: Sequence[Any]) -> None:
        """Runs the code of a plan's only device in the calling thread."""
        held = self.residents.on_each(parameters, tensors)
        with self.places[0].in_step(self._begun().get(self.places[0].driver)):
            code.function(*held[0], {})

    def site(self, device: int) -> Site:
        """The site of a device, for its code."""
        return Site(self._sites, device)

    def resident_bytes(self, parameters: Sequence[Any]) -> int:
        """Bytes of parameters, buffers and constants."""
        storages = [tensor.untyped_storage() for tensor in (*parameters, *self.program.constants.values())]
        return sum({storage.data_ptr(): int(storage.nbytes()) for storage in storages}.values())

    def _held_on(self, driver: Driver, parameters: Sequence[Any]) -> int:
        """Bytes of parameters and constants that an accelerator held before the step."""
        constants = [tensor for tensor in self.program.constants.values() if driver.holds(tensor)]
        return sum(int(tensor.nbytes) for tensor in (*parameters, *constants) if driver.holds(tensor))

    def overwritten(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
        """The parameters, buffers and tensors among `tensors` that a step changes."""
        written = overwritten_by(self.program.graph)
        now = dict(zip(self.program.parameters, parameters, strict=True))
        now.update((tensor, tensors[place]) for tensor, place in self.program.inputs.items())
        return [now[base] for base in sorted(written) if base in now]

    def _write(
        self,
        observe: Sequence[Callable[[int], None]] | None,
        steps: Steps | None = None,
        compiled: Mapping[Region, Callable[..., Any]] | None = None,
    ) -> Code:
        """The code of a step: by default op by op where ops are observed, with the compiled regions otherwise.

        observe: for each device the function that it calls before and after its ops.
        """
        if steps is None and observe is None:
            steps, compiled = with_regions(self._steps, self.program, self._compiled), self._compiled
        steps = steps or self._steps
        channels = Channels(steps.num_channels)
        held = list(self.program.parameters)
        codes = []
        for device in range(len(steps.of_device)):
            noting = None if observe is None else observe[device]
            site = self.site(device)
            codes.append(device_code(self.program, steps, device, channels, held, noting, compiled or {}, site))
        return channels, codes

    def _run(
        self, code: Code, parameters: Sequence[Any], tensors: Sequence[Any], *, taken: bool = False
    ) -> dict[int, Any]:
        check_inputs(self.program, tensors, self.places)
        channels, codes = code
        out: dict[int, Any] = {}
        held = self.residents.on_each(parameters, tensors)
        if taken and isinstance(tensors, list):
            tensors[:] = [tensor if place in self._returned else None for place, tensor in enumerate(tensors)]
        begun = self._begun()
        jobs = [
            partial(self._on_device, code, place, begun.get(place.driver), *own, out)
            for code, place, own in zip(codes, self.places, held, strict=True)
        ]
        try:
            if self._is_of_caller:
                with torch.no_grad():
                    jobs[0]()
            else:
                self._workers.run(jobs, channels.stop)
        except BaseException:
            self.residents.forget()  # Copies may hold what the module does not.
            raise
        self.residents.deliver(parameters, tensors, out)
        return out

    def record(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> None:
        """Runs one step, and records another: from now on `run` and `timed` replay a CUDA graph, and `run` returns when
        it has been launched. Raises InputError where the step is not of one GPU, or cannot be recorded completely."""
        check_recordable(self.program, parameters, the_driver(self.places))
        # After this run libraries have allocated what they need, and all ops have shown that they have kernels.
        self._run(self._code, parameters, tensors)
        self._prove()
        self.refuse_fallbacks()
        overwritten = {id(tensor) for tensor in self.overwritten(parameters, tensors)}
        self._overwritten_inputs = [place for place, tensor in enumerate(tensors) if id(tensor) in overwritten]
        self._recorded = self._record(self._code, parameters, tensors)

    def refuse_fallbacks(self) -> None:
        """Raises InputError where an op has run on the host instead of its device, as a recording cannot include it."""
        for op in self.fallbacks:
            raise InputError(f"the op '{op}' has no kernel on the GPU, and a CUDA graph holds nothing of the CPU's")

    def _prove(self) -> None:
        """Records that all ops have run: those with a kernel are called without checks from now on."""
        self._is_proven = True
        self._code = self._write(None)

    def _replayed(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> dict[int, Any]:
        check_inputs(self.program, tensors, self.places)
        assert self._recorded is not None
        if not self._recorded.is_for(parameters):
            self._recorded = self._record(self._code, parameters, tensors)
        out = self._recorded.run(tensors)
        if any(not self._recorded.driver.holds(tensors[place]) for place in self._overwritten_inputs):
            finish_current(self.places)  # The host is about to read these results.
        self.residents.deliver(parameters, tensors, out)
        return out

    def _record(self, code: Code, parameters: Sequence[Any], tensors: Sequence[Any]) -> Recorded:
        driver = the_driver(self.places)
        check_recordable(self.program, parameters, driver)
        channels, codes = code

        def call(code: DeviceCode, tensors: list[Any], out: dict[int, Any]) -> None:
            with naming_the_op(code, self.program, self.plan):
                code.function(parameters, tensors, out)

        def launch(inputs: Sequence[Any]) -> dict[int, Any]:
            out: dict[int, Any] = {}
            own = zip(self.places, codes, strict=True)
            jobs = [(place, partial(call, code, list(inputs), out)) for place, code in own]
            launch_beside(driver, self._workers, jobs, channels.stop)
            return out

        return Recorded(driver, launch, parameters, tensors)

    def _begun(self) -> dict[Driver | None, Any]:
        """An event for each accelerator, behind what the calling thread has launched."""
        return {driver: driver.recorded(driver.current_stream()) for driver in drivers_of(self.places)}

    def _on_device(
        self,
        code: DeviceCode,
        place: Place,
        begun: Any,
        parameters: Sequence[Any],
        tensors: list[Any],
        out: dict[int, Any],
    ) -> None:
        with naming_the_op(code, self.program, self.plan), place.in_step(begun):
            code.function(parameters, tensors, out)


class _Counted:
    """Marks between which the most bytes in use on an accelerator are counted, beyond those at the mark."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._last: tuple[int, int] | None = None
        self.most: dict[int, int] = {}

    def mark(self, number: int) -> None:
        """Begins a part, and ends the one before it."""
        if self._last is not None:
            before, held = self._last
            self.most[before] = self._driver.peak_bytes() - held
        self._last = number, self._driver.count_peak()


def check_inputs(program: TorchProgram, tensors: Sequence[Any], places: Sequence[Place] = ()) -> None:
    """Raises InputError unless the tensors have the shapes and dtypes that the program was made for, and lie where the
    plan can read them."""
    given, wanted = signature(tensors), program.input_signature
    if len(given) != len(wanted):
        raise InputError(f"the plan is for {len(wanted)} inputs, and was given {len(given)}")
    # PyTorch traces the workspace of a recurrent layer as empty.
    others = (place for place, each in enumerate(given) if each != wanted[place] and 0 not in wanted[place][0])
    if given != wanted and (place := next(others, None)) is not None:
        raise InputError(
            f"the plan is for {describe_signature([wanted[place]])} as input {place}, and was given "
            f"{describe_signature([given[place]])}"
        )
    check_readable({f"argument {number}": tensor for number, tensor in enumerate(tensors)}, places)


def check_readable(tensors: Mapping[str, Any], places: Sequence[Place] = ()) -> None:
    """Raises InputError naming a tensor that is on a device other than the host and those of the plan, or on none (the
    meta device)."""
    drivers = drivers_of(places)
    for name, tensor in tensors.items():
        if not tensor.is_cpu and not any(driver.holds(tensor) for driver in drivers):
            where = ", ".join(place.name for place in places) if drivers else "CPU devices"
            raise InputError(f"{shown(name)} is on the device {tensor.device}, and the plan runs on {where}")


@contextmanager
def naming_the_op(code: DeviceCode, program: TorchProgram, plan: Plan) -> Iterator[None]:
    """A context that adds a note with name and device of the op to its errors. Raises DeviceError where memory does not
    suffice."""
    try:
        yield
    except Exception as error:
        op, device = code.op_at(error), plan.machine.devices[code.device].name
        name = None if op is None else program.graph.ops[op].name
        if out_of_memory(error):
            # Outside of ops a tensor is handed over, to memory of this device or of its destination.
            needed = f"{device} has too little memory for the op '{name}'"
            if name is None:
                needed = f"there is too little memory for a tensor that {device} hands over"
            raise DeviceError(f"{needed}: {first_line(error)}") from error
        if name is None:
            raise
        error.add_note(f"raised by the op '{name}' on the device {device} of the plan")
        raise
