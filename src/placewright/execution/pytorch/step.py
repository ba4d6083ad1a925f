"""A plan on workers: one step of a program, over and over.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from placewright.execution.channels import Channels
from placewright.execution.pytorch.code import DeviceCode, device_code
from placewright.execution.pytorch.inductor import Trial
from placewright.execution.pytorch.memory import allocated_between, allocated_peak
from placewright.execution.pytorch.program import TorchProgram, describe_signature, signature
from placewright.execution.pytorch.regions import with_regions
from placewright.execution.steps import Region, Steps, steps_of
from placewright.execution.workers import Workers
from placewright.plans.record import Plan
from placewright.support.errors import InputError, shown

Code = tuple[Channels, list[DeviceCode]]


class TorchStep:
    """Runs a plan for a program, on one worker per device of the plan."""

    def __init__(self, program: TorchProgram, plan: Plan, workers: Workers) -> None:
        self.program = program
        self.plan = plan
        self._steps = steps_of(plan, program.graph)
        self._workers = workers
        #: What computes the regions that are not computed op by op.
        self._compiled: dict[Region, Callable[..., Any]] = {}
        self._code = self._write(None)

    @property
    def num_compiled_regions(self) -> int:
        """How many regions are not computed op by op."""
        return len(self._compiled)

    def compile_regions(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> None:
        """Runs one step in which Inductor compiles the regions that may gain by it, and keeps those that do. A compiled
        region has other last bits than its ops."""
        steps = with_regions(self._steps, self.program)
        regions = [step for device in steps.of_device for step in device if isinstance(step, Region)]
        trials = {region: Trial(region, self.program) for region in regions}
        self._run(self._write(None, steps, trials), parameters, tensors)
        self._compiled = {region: trial.compiled for region, trial in trials.items() if trial.compiled is not None}
        self._code = self._write(None)

    def run(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> dict[int, Any]:
        """Runs one step and returns the outputs of the graph, by tensor. Not to be called by two threads at once.

        parameters: in the order of the program's. tensors: what the module is called with. Raises InputError when they
        are not of the shapes that the plan was made for; what an op raises passes through, with a note that names it.
        """
        try:
            return self._run(self._code, parameters, tensors)
        except BaseException:
            # Devices stopped wherever they were, so that channels may hold what nobody took.
            self._code = self._write(None)
            raise

    def timed(self, parameters: Sequence[Any], tensors: Sequence[Any], steps: int) -> list[list[int]]:
        """Runs steps and tells for each when each op of the graph started and finished: [2 * num ops] in ns of one
        clock, -1 for ops that no device ran."""
        times = [-1] * (2 * len(self.program.graph.ops))
        clock = time.perf_counter_ns

        def observe(place: int) -> None:
            times[place] = clock()

        code = self._write(observe)
        found = []
        for _ in range(steps):
            self._run(code, parameters, tensors)
            found.append(list(times))
        return found

    def peak_bytes(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> int:
        """Runs one step of a plan for one device, and counts what is in use at the most: parameters, buffers and
        constants, inputs until their last reader has run, and what ops make. The step runs in the caller's thread."""
        _, (code,) = self._code
        with torch.no_grad():
            peak = allocated_peak(lambda: code.function(parameters, [tensor.clone() for tensor in tensors], {}))
        return self.resident_bytes(parameters) + peak

    def workspaces(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> list[int]:
        """Runs one step of a plan for one device, and counts for each op of the graph what it has in use beside its
        inputs and outputs, in bytes. The step runs in the caller's thread."""
        graph = self.program.graph
        with torch.no_grad():
            most = allocated_between(lambda mark: self._write(mark)[1][0].function(parameters, list(tensors), {}))
        made = (
            sum(graph.tensors[tensor].held_bytes for tensor in op.outputs if graph.tensors[tensor].alias_of is None)
            for op in graph.ops
        )
        return [max(0, most.get(2 * index, 0) - size) for index, size in enumerate(made)]

    def resident_bytes(self, parameters: Sequence[Any]) -> int:
        """Of parameters, buffers and constants."""
        storages = [tensor.untyped_storage() for tensor in (*parameters, *self.program.constants.values())]
        return sum({storage.data_ptr(): int(storage.nbytes()) for storage in storages}.values())

    def overwritten(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
        """The parameters, buffers and tensors among `tensors` that a step changes."""
        graph = self.program.graph
        written = {
            graph.base_of[output]
            for op in graph.ops
            if op.kind != "view"
            for output in op.outputs
            if graph.tensors[output].alias_of is not None
        }
        now = dict(zip(self.program.parameters, parameters, strict=True))
        now.update((tensor, tensors[place]) for tensor, place in self.program.inputs.items())
        return [now[base] for base in sorted(written) if base in now]

    def _write(
        self,
        observe: Callable[[int], None] | None,
        steps: Steps | None = None,
        compiled: Mapping[Region, Callable[..., Any]] | None = None,
    ) -> Code:
        """The code of a step: by default op by op where ops are observed, with the compiled regions otherwise."""
        if steps is None and observe is None:
            steps, compiled = with_regions(self._steps, self.program, self._compiled), self._compiled
        steps = steps or self._steps
        channels = Channels(steps.num_channels)
        held = list(self.program.parameters)
        devices = range(len(steps.of_device))
        return channels, [device_code(self.program, steps, d, channels, held, observe, compiled) for d in devices]

    def _run(self, code: Code, parameters: Sequence[Any], tensors: Sequence[Any]) -> dict[int, Any]:
        check_inputs(self.program, tensors)
        channels, codes = code
        out: dict[int, Any] = {}
        self._workers.run([partial(self._on_device, code, parameters, tensors, out) for code in codes], channels.stop)
        return out

    def _on_device(
        self, code: DeviceCode, parameters: Sequence[Any], tensors: Sequence[Any], out: dict[int, Any]
    ) -> None:
        with naming_the_op(code, self.program, self.plan):
            code.function(parameters, list(tensors), out)


def check_inputs(program: TorchProgram, tensors: Sequence[Any]) -> None:
    """Raises InputError unless the tensors have the shapes and dtypes that the program was made for, on the CPU."""
    given = signature(tensors)
    if given != program.input_signature:
        raise InputError(
            f"the plan is for inputs {describe_signature(program.input_signature)}, and was given "
            f"{describe_signature(given)}"
        )
    check_on_cpu({f"argument {number}": tensor for number, tensor in enumerate(tensors)})


def check_on_cpu(tensors: Mapping[str, Any]) -> None:
    """Raises InputError naming the tensor that is elsewhere, or nowhere (on the meta device)."""
    for name, tensor in tensors.items():
        if not tensor.is_cpu:
            raise InputError(f"{shown(name)} is on the device {tensor.device}, and the plan runs on CPU devices")


@contextmanager
def naming_the_op(code: DeviceCode, program: TorchProgram, plan: Plan) -> Iterator[None]:
    """What an op raises gets a note of its name and device."""
    try:
        yield
    except Exception as error:
        op = code.op_at(error)
        if op is not None:
            name, device = program.graph.ops[op].name, plan.machine.devices[code.device].name
            error.add_note(f"raised by the op '{name}' on the device {device} of the plan")
        raise
