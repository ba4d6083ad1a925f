"""The tensors that a step finds when it begins and leaves when it ends: parameters, buffers, constants, inputs,
outputs.

All of them lie where the module has them. A device whose ops read one of them elsewhere keeps a copy, which is made
again once the module's own has changed; what a step writes into a copy is written into the module's own at its end.
Copies are launched by the calling thread, on its stream of each accelerator: the step begins behind them. Imported only
where torch is known to be present.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from placewright.execution.pytorch.layout import moved
from placewright.execution.pytorch.places import HOST, Driver, Place, drivers_of, too_little_memory
from placewright.execution.pytorch.program import TorchProgram, reads_of
from placewright.execution.steps import Fetch, Region, Run, Step, Steps
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True)
class _Copy:
    """A copy. of: the module's own tensor. version: of that, when it was copied."""

    of: Any
    version: int
    tensor: Any

    def is_of(self, own: Any) -> bool:
        """True if the copy is up to date with the module's own tensor."""
        version = _version(own)
        return self.of is own and self.version == version and version >= 0


class Residents:
    """The tensors that a program finds and leaves, on the places of its devices."""

    def __init__(self, program: TorchProgram, steps: Steps, places: Sequence[Place]) -> None:
        self._program = program
        self._places = places
        self._drivers = drivers_of(places)
        self._number = {tensor: place for place, tensor in enumerate(program.parameters)}
        #: For the host (None) and each accelerator: the tensors there when the step begins that its ops read or write.
        self._touched: dict[Driver | None, set[int]] = {}
        for place, own in zip(places, steps.of_device, strict=True):
            if not self._drivers:
                self._touched[None] = set()
                break
            found = set(_found_by(own, program, inputs=place.driver is None))
            self._touched[place.driver] = self._touched.get(place.driver, set()) | found
        #: The weights that come to each accelerator from the host's memory.
        self._streamed = {
            place.driver: {step.copy for step in own if isinstance(step, Fetch) and step.copy in self._number}
            for place, own in zip(places, steps.of_device, strict=True)
            if place.driver is not None
        }
        self._output_place = {tensor: places[device] for tensor, device in steps.output_device.items()}
        #: For each tensor that a step overwrites: its last version; then the reverse.
        self._written = _last_versions(program, steps)
        self._overwritten = {last: base for base, last in self._written.items()}
        self._copies: dict[tuple[Driver | None, int], _Copy] = {}

    def forget(self) -> None:
        """Makes all copies anew for the next step."""
        self._copies.clear()

    def on_each(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> list[tuple[Sequence[Any], list[Any]]]:
        """The arguments of each device's function: its parameters, and a list of the program's inputs."""
        here = {driver: (list(parameters), list(tensors)) for driver in self._touched}
        for driver, touched in self._touched.items():
            for tensor in touched:
                held, place = self._held(tensor, here[driver])
                held[place] = self._copy(driver, tensor, held[place])
        for source, streamed in self._streamed.items():
            for tensor in streamed:
                held, place = self._held(tensor, here[source])
                held[place] = self._at_host(source, tensor, held[place])
        return [(here[place.driver][0], list(here[place.driver][1])) for place in self._places]

    def constant(self, tensor: int, driver: Driver | None) -> Any:
        """A constant in an accelerator's memory, or the host's."""
        copy = self._copy(driver, tensor, self._program.constants[tensor])
        if driver is not None:
            driver.finish(driver.recorded(driver.current_stream()))
        return copy

    def deliver(self, parameters: Sequence[Any], tensors: Sequence[Any], out: dict[int, Any]) -> None:
        """Moves a step's outputs to where the module's own would be, and writes its changes into the module."""
        if not self._drivers:
            return
        with torch.no_grad():
            for tensor in list(out):
                driver = self._output_place[tensor].driver
                own = self._overwritten.get(tensor, tensor)
                if own != tensor:
                    self._write(driver, own, (parameters, tensors), out[tensor])
                if own in self._number or own in self._program.inputs:
                    held, place = self._held(own, (parameters, tensors))
                    out[tensor] = held[place]
                else:
                    out[tensor] = self._at_home(tensor, driver, out[tensor])

    def _write(self, driver: Driver | None, base: int, held: Any, now: Any) -> None:
        """Writes the present content of a copy into the module's own tensor; afterwards the copy is up to date."""
        among, place = self._held(base, held)
        own = among[place]
        if own is not now:
            own.copy_(now)
            known = self._copies.get((driver, base))
            if known is not None and known.tensor is now:
                self._copies[driver, base] = _Copy(of=own, version=_version(own), tensor=now)

    def _at_home(self, tensor: int, driver: Driver | None, value: Any) -> Any:
        """An output, on the device where the module itself would have made it."""
        home = self._program.homes.get(tensor, HOST)
        there = next((each for each in self._drivers if each.device == home and home != HOST), None)
        if driver is not None:
            driver.keep(value, driver.current_stream())
        if there is driver:
            return value
        if there is not None:
            return _copied(value, driver, there.brought)
        assert driver is not None
        return _brought_home(value, driver)

    def _at_host(self, driver: Driver, tensor: int, own: Any) -> Any:
        """A weight in memory of the host that an accelerator can read by itself."""
        name = self._program.graph.tensors[tensor].name
        if driver.holds(own):
            raise InputError(
                f"the plan leaves no room for the weight '{name}' on {driver.name}, where it lies; leave the module on "
                "the host, or plan with keep=['weight:*']"
            )
        known = self._copies.get((driver, tensor))
        if known is None or not known.is_of(own):
            with too_little_memory(f"the host has too little memory for a copy of '{name}'"):
                known = _Copy(of=own, version=_version(own), tensor=moved(own.detach(), driver.pinned))
            self._copies[driver, tensor] = known
        return known.tensor

    def _held(self, tensor: int, held: tuple[Any, Any]) -> tuple[Any, int]:
        """The list of parameters or inputs that has a tensor of the graph, and its place there."""
        if tensor in self._number:
            return held[0], self._number[tensor]
        return held[1], self._program.inputs[tensor]

    def _copy(self, driver: Driver | None, tensor: int, own: Any) -> Any:
        holder = _holder_of(own, self._drivers)
        if holder is driver:
            return own
        known = self._copies.get((driver, tensor))
        if known is None or not known.is_of(own):
            where, name = "the host" if driver is None else driver.name, self._program.graph.tensors[tensor].name
            # No worker outside of inference mode could write to a tensor made by a caller in it.
            with (
                too_little_memory(f"{where} has too little memory for a copy of '{name}'"),
                torch.inference_mode(False),
            ):
                copy = _brought_home(own, holder) if driver is None else _copied(own, holder, driver.brought)
            known = self._copies[driver, tensor] = _Copy(of=own, version=_version(own), tensor=copy)
        return known.tensor


def what_stays(held: Iterable[Any], places: Sequence[Place], *, recorded: bool) -> list[str]:
    """The tensors that plans must keep in place, as entries of `keep`: everything in a step that a CUDA graph records,
    which runs on the GPU's own memory, and weights where some of the module's tensors already lie on an accelerator."""
    drivers = drivers_of(places)
    stay = any(driver.holds(tensor) for tensor in held for driver in drivers)
    return [*(["move:*"] if recorded else []), *(["weight:*"] if stay else [])]


def on_host(tensors: Sequence[Any], drivers: Sequence[Driver]) -> list[Any]:
    """The tensors, with copies of those that an accelerator holds."""
    held = [_holder_of(tensor, drivers) for tensor in tensors]
    return [
        tensor if holder is None else _brought_home(tensor, holder)
        for tensor, holder in zip(tensors, held, strict=True)
    ]


def _holder_of(tensor: Any, drivers: Sequence[Driver]) -> Driver | None:
    """The accelerator whose memory a tensor lies in; None for the host's."""
    return next((driver for driver in drivers if driver.holds(tensor)), None)


def _brought_home(tensor: Any, driver: Driver | None) -> Any:
    """A copy in memory of the host, after waiting for it."""
    assert driver is not None
    copy = _copied(tensor, driver, driver.sent_home)
    driver.finish(driver.recorded(driver.current_stream()))
    return copy


def _copied(tensor: Any, holder: Driver | None, move: Callable[[Any], Any]) -> Any:
    """A copy, launched by the accelerator that holds the tensor: where that has gaps, it is packed there first."""
    with contextlib.nullcontext() if holder is None else holder.on(holder.current_stream()):
        return moved(tensor, move)


def _version(tensor: Any) -> int:
    """The number of changes of a tensor; -1 where PyTorch does not count them."""
    return -1 if tensor.is_inference() else int(tensor._version)


def _found_by(steps: Sequence[Step], program: TorchProgram, *, inputs: bool) -> Iterator[int]:
    """The tensors from before the steps that they read or write. inputs: whether to include those that an input op
    returns."""
    graph = program.graph
    for op in (op for step in steps for op in _ops_of(step)):
        overwritten = (graph.base_of[tensor] for tensor in graph.ops[op].outputs if _overwrites(tensor, program))
        for tensor in (*reads_of(op, program), *overwritten):
            if tensor in program.parameters or (tensor in program.inputs and graph.producer_of[tensor] < 0):
                yield tensor
        if inputs and graph.ops[op].kind == "input":
            yield from graph.ops[op].outputs


def _ops_of(step: Step) -> tuple[int, ...]:
    return (step.op,) if isinstance(step, Run) else step.ops if isinstance(step, Region) else ()


def _last_versions(program: TorchProgram, steps: Steps) -> dict[int, int]:
    """The last version of each parameter, buffer and input that a step overwrites, by its own tensor."""
    base_of = program.graph.base_of
    found = {
        base_of[tensor]: tensor
        for op in program.graph.ops
        for tensor in op.outputs
        if tensor in steps.output_device and _overwrites(tensor, program)
    }
    return {base: last for base, last in found.items() if base in program.parameters or base in program.inputs}


def _overwrites(tensor: int, program: TorchProgram) -> bool:
    graph = program.graph
    producer = graph.producer_of[tensor]
    return graph.tensors[tensor].alias_of is not None and producer >= 0 and graph.ops[producer].kind != "view"
