"""CUDA devices, "cuda:0", and streams of one, "cuda:0/0" and "cuda:0/1", by PyTorch's names.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from placewright.execution.pytorch.places import HOST, Driver, Place, on_stream
from placewright.support.errors import InputError

CUDA_NAME = re.compile(r"cuda(?::([0-9]{1,3})(?:/([0-9]{1,2}))?)?")


class Cuda:
    """The driver of a CUDA device, as places use it."""

    def __init__(self, index: int) -> None:
        self.name = f"cuda:{index}"
        self.device = torch.device("cuda", index)

    def holds(self, tensor: Any) -> bool:
        return bool(tensor.device == self.device)

    def new_stream(self) -> Any:
        return torch.cuda.Stream(self.device)

    def current_stream(self) -> Any:
        return torch.cuda.current_stream(self.device)

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = torch.cuda.stream(stream)
        return context

    def recorded(self, stream: Any, *, timed: bool = False) -> Any:
        # Only an external event of a recording has a time that can be read after each replay.
        event = torch.cuda.Event(enable_timing=timed, external=timed and torch.cuda.is_current_stream_capturing())
        event.record(stream)
        return event

    def wait(self, stream: Any, event: Any) -> None:
        stream.wait_event(event)

    def finish(self, event: Any) -> None:
        event.synchronize()

    def elapsed_ns(self, first: Any, second: Any) -> int:
        return int(1e6 * first.elapsed_time(second))

    def keep(self, tensor: Any, stream: Any) -> None:
        tensor.record_stream(stream)

    def brought(self, row: Any) -> Any:
        return torch.empty_like(row, device=self.device).copy_(row, non_blocking=True)

    def sent_home(self, row: Any) -> Any:
        return torch.empty_like(row, device=HOST, pin_memory=True).copy_(row, non_blocking=True)

    def pinned(self, row: Any) -> Any:
        """A copy in pinned memory."""
        return torch.empty_like(row, pin_memory=True).copy_(row)

    def room_for(self, row: Any) -> Any:
        return torch.empty_like(row, device=self.device)

    def fill(self, room: Any, row: Any) -> None:
        room.copy_(row, non_blocking=True)

    def recording(self, launch: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        graph = torch.cuda.CUDAGraph()
        # Workers launch as well, and may ask the driver for memory meanwhile. If the recording's end fails, PyTorch
        # leaves its stream the current one.
        with (
            torch.cuda.stream(self.current_stream()),
            torch.cuda.graph(graph, stream=self.new_stream(), capture_error_mode="thread_local"),
        ):
            made = launch()
        return graph.replay, made

    def random_state(self) -> Any:
        return torch.cuda.get_rng_state(self.device)

    def set_random_state(self, state: Any) -> None:
        torch.cuda.set_rng_state(state, self.device)

    def count_peak(self) -> int:
        torch.cuda.reset_peak_memory_stats(self.device)
        return int(torch.cuda.memory_allocated(self.device))

    def peak_bytes(self) -> int:
        return int(torch.cuda.max_memory_allocated(self.device))


class Gpus:
    """The CUDA devices of this host."""

    @staticmethod
    def count() -> int:
        """The number of CUDA devices that PyTorch can use."""
        return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0

    @staticmethod
    def why_none() -> str:
        """The reason why there is no usable device."""
        if torch.version.cuda is None:
            return f"this PyTorch, {torch.__version__}, is built without CUDA"
        return "PyTorch finds no GPU that it can use"

    @staticmethod
    def name(index: int) -> str:
        """The name that the driver gives: "NVIDIA H100 80GB HBM3"."""
        return str(torch.cuda.get_device_name(index))

    @staticmethod
    def memory_bytes(index: int) -> int:
        """The memory of the device in bytes, whether in use or not."""
        return int(torch.cuda.get_device_properties(index).total_memory)

    @staticmethod
    def driver(index: int) -> Driver:
        """The driver of a device, for places."""
        return Cuda(index)


def cuda_index(name: str) -> int | None:
    """The index of the CUDA device in a name; None for other names."""
    found = CUDA_NAME.fullmatch(name)
    return int(found[1] or 0) if found else None


def check_gpus(names: Sequence[str]) -> None:
    """Raises InputError naming the first CUDA device that does not exist."""
    count = Gpus.count()
    for name in names:
        index = cuda_index(name)
        if index is not None and index >= count:
            there = f"there are {count} CUDA devices here, from cuda:0 on" if count else Gpus.why_none()
            raise InputError(f"device '{name}' is not there: {there}")


def places_of(names: Sequence[str]) -> list[Place]:
    """The places of devices by their names; those on one GPU share its driver."""
    check_gpus(names)
    indices = [cuda_index(name) for name in names]
    drivers = {index: Gpus.driver(index) for index in indices if index is not None}
    return [
        Place(name=name) if index is None else on_stream(name, drivers[index])
        for name, index in zip(names, indices, strict=True)
    ]
