"""Steps that a GPU runs by itself: all work of a step is recorded as a CUDA graph and launched at once.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch

from placewright.execution.pytorch.layout import moved
from placewright.execution.pytorch.places import (
    Driver,
    Place,
    drivers_of,
    first_line,
    out_of_memory,
    too_little_memory,
)
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.workers import Job, Workers
from placewright.support.errors import DeviceError, InputError, shown


class Recorded:
    """The recorded work of one step. `replay` launches it on the current stream.

    driver: of the GPU. inputs: tensors of its own, which it reads. outputs: by tensor of the graph, where each replay
    leaves them.
    """

    def __init__(
        self,
        driver: Driver,
        launch: Callable[[Sequence[Any]], dict[int, Any]],
        parameters: Sequence[Any],
        tensors: Sequence[Any],
    ) -> None:
        """launch: launches the step on inputs, and returns its outputs."""
        self.driver = driver
        # It reads parameters and constants that lie with the code it launches.
        self._launch = launch
        self._places = _places(parameters)
        # Tensors made in a caller's inference mode could not be written to outside of it.
        with torch.inference_mode(False), torch.no_grad(), self._room("a copy of its inputs"):
            self.inputs = [moved(_dense(tensor.detach()), driver.brought) for tensor in tensors]
        self.replay, self.outputs = _recording(driver, lambda: launch(self.inputs))
        storages = {_storage(parameter) for parameter in parameters}
        self._made = [tensor for tensor, value in self.outputs.items() if _storage(value) not in storages]
        #: The event after the latest run, on whichever stream that was.
        self._last: Any = driver.recorded(driver.current_stream())

    def is_for(self, parameters: Sequence[Any]) -> bool:
        """True if the parameters still have the addresses and strides that the recorded work reads."""
        return self._places == _places(parameters)

    def run(self, tensors: Sequence[Any]) -> dict[int, Any]:
        """Launches the step on the current stream, after the previous one. Returns copies of the results that it makes;
        results in the memory of parameters are returned as they are."""
        driver, stream = self.driver, self.driver.current_stream()
        driver.wait(stream, self._last)
        with torch.no_grad():
            for own, given in zip(self.inputs, tensors, strict=True):
                driver.keep(own, stream)
                # The caller may write to a tensor on the host again as soon as this returns.
                own.copy_(given, non_blocking=driver.holds(given))
            self.replay()
            with self._room("copies of its results"):
                copies = {tensor: moved(self.outputs[tensor], driver.brought) for tensor in self._made}
        self._last = driver.recorded(stream)
        return self.outputs | copies

    def _room(self, what: str) -> AbstractContextManager[None]:
        return too_little_memory(f"{self.driver.name} has too little memory for {what}")


def _recording(driver: Driver, launch: Callable[[], dict[int, Any]]) -> tuple[Callable[[], None], dict[int, Any]]:
    """Records the work that is launched. Returns the function that replays it, and what launching returned. Raises
    DeviceError where memory runs out, and InputError where the work cannot be recorded."""
    failed: list[BaseException] = []

    def launched() -> dict[int, Any]:
        try:
            return launch()
        except BaseException as error:
            failed.append(error)
            raise

    try:
        replay, outputs = driver.recording(launched)
    except RuntimeError as error:
        # Ending the recording raises an error of its own; the cause is the first error.
        first = failed[0] if failed else error
        if isinstance(first, DeviceError) or not isinstance(first, Exception):
            raise first from error
        if out_of_memory(first):
            raise DeviceError(f"{driver.name} has too little memory to record a step: {first_line(first)}") from error
        told = ", ".join([first_line(first), *getattr(first, "__notes__", ())])
        raise InputError(f"a step cannot be recorded as a CUDA graph: {told}") from error
    return replay, outputs


def launch_beside(
    driver: Driver, workers: Workers, jobs: Sequence[tuple[Place, Job]], stop: Callable[[], None]
) -> None:
    """Launches the job of each place on its stream, by a worker each, after the work that the current stream has so
    far; later work on the current stream follows all of them. The host does not wait for the GPU."""
    begun = driver.recorded(driver.current_stream())
    ends: list[Any] = []

    def on_stream(place: Place, job: Job) -> None:
        with driver.on(place.stream):
            driver.wait(place.stream, begun)
            try:
                job()
            finally:
                ends.append(driver.recorded(place.stream))

    try:
        workers.run([partial(on_stream, place, job) for place, job in jobs], stop)
    finally:
        # A recording ends only where all of its streams have come together.
        for end in ends:
            driver.wait(driver.current_stream(), end)


def the_driver(places: Sequence[Place]) -> Driver:
    """The one accelerator that all places are streams of. Raises InputError where there are others."""
    drivers = drivers_of(places)
    if len(drivers) != 1 or any(place.driver is None for place in places):
        named = ", ".join(place.name for place in places)
        raise InputError(f"a CUDA graph records the work of one GPU, and the devices are {named}; use streams of one")
    return drivers[0]


def check_recordable(program: TorchProgram, parameters: Sequence[Any], driver: Driver) -> None:
    """Raises InputError naming the parameter or buffer that is not where a recorded step reads it."""
    for name, parameter in zip(program.parameters.values(), parameters, strict=True):
        if not driver.holds(parameter):
            raise InputError(
                f"{shown(name)} is not on {driver.name}, where a CUDA graph reads it; move the module there first"
            )


def _places(tensors: Sequence[Any]) -> list[tuple[int, tuple[int, ...]]]:
    return [(tensor.data_ptr(), tensor.stride()) for tensor in tensors]


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _dense(tensor: Any) -> Any:
    """The tensor, or a copy where two of its elements are one, so that it can be written to."""
    return tensor.contiguous() if 0 in tensor.stride() else tensor
