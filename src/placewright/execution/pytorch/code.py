"""The steps of a device as one Python function: a line per op, and between them only waiting and releasing.

Interpreting the steps would cost more than most small ops; a generated function costs little over the bare calls.
Imported only where torch is known to be present.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from placewright.execution.channels import Channels, StoppedError
from placewright.execution.pytorch.calls import Call, Value
from placewright.execution.pytorch.handing import Handing
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.pytorch.sites import Site
from placewright.execution.steps import (
    Arrive,
    Fetch,
    Leave,
    Left,
    Receive,
    Region,
    Release,
    Run,
    Send,
    Signal,
    Step,
    Steps,
    Wait,
)


@dataclass(frozen=True, kw_only=True)
class DeviceCode:
    """The code of a device for a step: `function(parameters, inputs, outputs)`.

    parameters: by place in `parameter_tensors`. inputs: the arguments of the program; the op that reads an input takes
    it out of the list, so that the list does not keep it. outputs: receives the outputs of the graph that this device
    makes, by tensor of the graph.
    """

    device: int
    function: Callable[[Sequence[Any], list[Any], dict[int, Any]], None]
    source: str

    def op_at(self, error: BaseException) -> int | None:
        """The op, by index in the graph, whose line raised an error."""
        frames = traceback.extract_tb(error.__traceback__)
        number = next((frame.lineno for frame in reversed(frames) if frame.filename == _file(self.device)), None)
        line = self.source.splitlines()[number - 1] if number else ""
        found = re.search(r"\b(?:[fr]|bring)(\d+)\(", line)
        return int(found[1]) if found else None


def device_code(
    program: TorchProgram,
    steps: Steps,
    device: int,
    channels: Channels,
    parameter_tensors: Sequence[int],
    observe: Callable[[int], None] | None = None,
    compiled: Mapping[Region, Callable[..., Any]] | None = None,
    site: Site | None = None,
) -> DeviceCode:
    """The function of one device. observe: called with 2 * i before op i of the graph, and with 2 * i + 1 after it,
    when tensors that nothing reads later have been released. compiled: the callable for each region among the steps.
    site: where the device computes; None for the host, on tensors that lie there."""
    places = {tensor: place for place, tensor in enumerate(parameter_tensors)}
    writer = _Writer(program, channels, places, compiled or {}, site)
    lines = list(writer.lines(steps.of_device[device], observed=observe is not None))
    held = [tensor for tensor, holder in steps.output_device.items() if holder == device]
    lines += [f"out[{tensor}] = {writer.name_of(tensor)}" for tensor in held]
    source = "\n    ".join(["def step(p, x, out):", *(lines or ["pass"])]) + "\n"
    scope = {**writer.scope, "channels": channels, "box": channels.box, "Stopped": StoppedError, "observe": observe}
    exec(compile(source, _file(device), "exec"), scope)
    return DeviceCode(device=device, function=scope["step"], source=source)


#: Threads of the host hand over a reference only.
_NOTHING = Handing()


def _file(device: int) -> str:
    """The file name of a device's code in tracebacks."""
    return f"<device {device}>"


class _Writer:
    """A writer of lines for steps. scope: names they use besides their variables."""

    def __init__(
        self,
        program: TorchProgram,
        channels: Channels,
        parameters: Mapping[int, int],
        compiled: Mapping[Region, Callable[..., Any]],
        site: Site | None,
    ) -> None:
        self.program = program
        self.site = site
        self.channels = channels
        self.parameters = parameters
        self.compiled = compiled
        self.scope: dict[str, Any] = {}

    def name_of(self, tensor: int) -> str:
        """The name of a tensor of the graph in a line."""
        if tensor in self.parameters:
            return f"p[{self.parameters[tensor]}]"
        if tensor in self.program.inputs and self.program.graph.producer_of[tensor] < 0:
            return f"x[{self.program.inputs[tensor]}]"
        if tensor in self.program.constants:
            constant = self.site.constant(tensor) if self.site else self.program.constants[tensor]
            return self.bind(f"k{tensor}", constant)
        return f"t{tensor}"

    def bind(self, name: str, value: Any) -> str:
        """Makes a value available to the lines under a name."""
        self.scope[name] = value
        return name

    def lines(self, steps: Sequence[Step], *, observed: bool) -> Iterator[str]:
        for index, step in enumerate(steps):
            if isinstance(step, Run):
                yield "if channels.stopped: raise Stopped"
                if observed:
                    yield f"observe({2 * step.op})"
                yield from self.run(step.op)
            elif isinstance(step, Region):
                yield "if channels.stopped: raise Stopped"
                yield self.run_region(step)
            elif isinstance(step, Send | Signal):
                yield from self.hand_over(step)
            elif isinstance(step, Receive | Wait):
                yield from self.take(step)
            elif isinstance(step, Leave | Left | Fetch | Arrive):
                yield self.move(step)
            elif isinstance(step, Release):
                yield " = ".join(self.name_of(tensor) for tensor in step.tensors) + " = None"
            follows = steps[index + 1] if index + 1 < len(steps) else None
            ends = step if isinstance(step, Run) else steps[index - 1] if isinstance(step, Release) and index else None
            if observed and isinstance(ends, Run) and not isinstance(follows, Release):
                yield f"observe({2 * ends.op + 1})"

    def hand_over(self, step: Send | Signal) -> Iterator[str]:
        what = _NOTHING if self.site is None else self.site.handing_to(step.destination)
        if isinstance(step, Send):
            name = self.name_of(step.tensor)
            sent = name if what.send is None else f"{self.bind(f'to{step.destination}', what.send)}({name})"
            yield f"box[{step.channel}] = {sent}"
        elif what.signal is not None:
            yield f"box[{step.channel}] = {self.bind(f'signal{step.destination}', what.signal)}()"
        yield f"{self.bind(f'send{step.channel}', self.channels.locks[step.channel].release)}()"

    def move(self, step: Leave | Left | Fetch | Arrive) -> str:
        """The line that moves a tensor to the host's memory, where t5 is called h5, or back."""
        assert self.site is not None
        moves, name = self.site.moves, self.name_of(step.tensor)
        if isinstance(step, Leave):
            return f"h{step.tensor} = {self.bind('leave', moves.leave)}({name})"
        if isinstance(step, Left):
            return f"{self.bind('left', moves.left)}(h{step.tensor})"
        if isinstance(step, Fetch):
            # A weight lies at the host when the step begins.
            copied = f"({self.name_of(step.copy)}, None)" if step.copy in self.parameters else f"h{step.copy}"
            return f"{name} = {self.bind('fetch', moves.fetch)}({copied})"
        return f"{name} = {self.bind('arrived', moves.arrived)}({name})"

    def take(self, step: Receive | Wait) -> Iterator[str]:
        what = _NOTHING if self.site is None else self.site.handing_from(step.source)
        yield f"{self.bind(f'wait{step.channel}', self.channels.locks[step.channel].acquire)}()"
        yield "if channels.stopped: raise Stopped"
        box = f"box[{step.channel}]"
        if isinstance(step, Receive):
            taken = box if what.take is None else f"{self.bind(f'from{step.source}', what.take)}({box})"
            yield f"{self.name_of(step.tensor)} = {taken}; {box} = None"
        elif what.heed is not None:
            yield f"{self.bind(f'heed{step.source}', what.heed)}({box}); {box} = None"

    def run(self, op: int) -> Iterator[str]:
        graph = self.program.graph
        if graph.ops[op].kind == "input":
            tensor = graph.ops[op].outputs[0]
            place = self.program.inputs[tensor]
            bring = None if self.site is None else self.site.brings()
            taken = f"x[{place}]" if bring is None else f"{self.bind(f'bring{op}', bring)}(x[{place}])"
            yield f"t{tensor} = {taken}; x[{place}] = None"
            return
        call = self.program.calls[op]
        yield from self.assign(call, op)
        for tensor in graph.ops[op].outputs:
            overwritten = graph.tensors[tensor].alias_of
            if overwritten is not None and graph.ops[op].kind != "view" and not call.in_place:
                yield f"{self.name_of(overwritten)}.copy_(t{tensor})"
                yield f"t{tensor} = {self.name_of(overwritten)}"

    def run_region(self, region: Region) -> str:
        function = self.bind(f"r{region.ops[0]}", self.compiled[region])
        results = "".join(f"t{tensor}, " for tensor in region.outputs)
        return f"{results}= {function}({', '.join(map(self.name_of, region.inputs))})"

    def assign(self, call: Call, op: int) -> Iterator[str]:
        function = self.bind(f"f{op}", self.site.function(op) if self.site else call.function)
        arguments = [self.text(value, f"c{op}_{place}") for place, value in enumerate(call.args)]
        arguments += [f"{key}={self.text(value, f'c{op}_{key}')}" for key, value in call.kwargs.items()]
        written = f"{function}({', '.join(arguments)})"
        if not call.several:
            yield f"t{call.results[0]} = {written}"
            return
        yield f"r = {written}"
        for place, tensor in enumerate(call.results):
            if tensor is not None:
                yield f"t{tensor} = r[{place}]"
        yield "r = None"

    def text(self, value: Any, name: str) -> str:
        """The Python text of an argument; a value without such text is bound to a name."""
        if isinstance(value, Value):
            return self.name_of(value.tensor)
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        if type(value) is float and value == value and abs(value) != float("inf"):
            return repr(value)
        if isinstance(value, (list, tuple)) and type(value).__name__ in ("list", "tuple", "immutable_list"):
            parts = ", ".join(self.text(part, f"{name}_{place}") for place, part in enumerate(value))
            return f"[{parts}]"
        if isinstance(value, torch.device) and self.site is not None:
            value = self.site.device(value)
        return self.bind(name, value)
