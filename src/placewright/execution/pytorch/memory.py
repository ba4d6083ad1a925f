"""Peak memory of a call, by counting what PyTorch's allocator hands out.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from placewright.support.errors import InputError

_ALLOCATION, _MARK = "[memory]", "placewright mark "
_CPU = torch.device("cpu")


class _Event(NamedTuple):
    """An op, a mark, or allocated bytes, negative where they are released."""

    name: str
    num_bytes: int


class PeakWatch:
    """The most bytes in use at once until `peak_bytes`, beyond what is in use now; releases of that do not count.

    On the CPU it counts tensors and the memory that ops ask the allocator for while they compute, in this thread alone;
    memory that a library below an op takes from the system by itself is not seen. On a GPU it reads the allocator's
    statistics of the whole process, and resets their peak. Raises InputError where a profiler runs, which would lose
    its trace.
    """

    def __init__(self, device: torch.device = _CPU) -> None:
        self._device = device
        self._at_end: int | None = None
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self._before = torch.cuda.memory_allocated(device)
        else:
            self._profiler = _started()

    @staticmethod
    def can_begin(device: torch.device) -> bool:
        """True if a watch on the device disturbs nothing."""
        return device.type == "cuda" or (device.type == "cpu" and not torch._C._autograd._profiler_enabled())

    def end(self) -> None:
        """Ends the part that counts. Within backward no profiler can be stopped."""
        if self._device.type == "cuda":
            self._at_end = max(0, torch.cuda.max_memory_allocated(self._device) - self._before)
        else:
            with record_function(f"{_MARK}end"):
                pass

    def peak_bytes(self) -> int:
        """Stops counting, and returns the most bytes."""
        if self._device.type == "cuda":
            if self._at_end is None:
                self.end()
            return self._at_end or 0
        counted = takewhile(lambda event: not event.name.startswith(_MARK), _stopped(self._profiler))
        return max(accumulate(event.num_bytes for event in counted), default=0)


def allocated_peak(call: Callable[[], Any], device: torch.device = _CPU) -> int:
    """The most bytes in use at once of what a call allocates, as `PeakWatch` counts them."""
    watch = PeakWatch(device)
    try:
        call()
    finally:
        peak = watch.peak_bytes()
    return peak


def allocated_between(call: Callable[[Callable[[int], None]], Any]) -> dict[int, int]:
    """The most bytes in use at once for parts of a call. `call` receives a function that marks where a part begins.

    Returns by mark the most bytes in use until the next mark, beyond what the call had in use at the mark.
    """

    def mark(number: int) -> None:
        with record_function(f"{_MARK}{number}"):
            pass

    most: dict[int, int] = {}
    current, in_use = None, 0
    for event in _events(lambda: call(mark)):
        if event.name.startswith(_MARK):
            current, in_use = int(event.name.removeprefix(_MARK)), 0
            most[current] = 0
        elif current is not None:
            in_use += event.num_bytes
            most[current] = max(most[current], in_use)
    return most


def _events(call: Callable[[], Any]) -> list[_Event]:
    """The profiler's events during a call, in order of time."""
    profiler = _started()
    try:
        call()
    finally:
        events = _stopped(profiler)
    return events


def _started() -> profile:
    if torch._C._autograd._profiler_enabled():
        raise InputError("PyTorch's profiler measures memory here, and runs already; make the first call outside of it")
    profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
    with _standard_error_closed():
        profiler.start()
    return profiler


def _stopped(profiler: profile) -> list[_Event]:
    """The events of a stopped profiler, in order of time.

    It also reports releases of what was allocated before, where a library's table has that address from an earlier
    profile. These are left out.
    """
    with _standard_error_closed():
        profiler.stop()
    assert profiler.profiler is not None
    found, known = list[_Event](), set[int]()
    for event in sorted(_flat(profiler.profiler.kineto_results.experimental_event_tree()), key=_start_ns):
        if event.name != _ALLOCATION:
            found.append(_Event(event.name, 0))
            continue
        address, num_bytes = event.extra_fields.ptr, event.extra_fields.alloc_size
        if num_bytes > 0:
            known.add(address)
        elif address not in known:
            continue
        else:
            known.remove(address)
        found.append(_Event(event.name, num_bytes))
    return found


def _start_ns(event: Any) -> int:
    return int(event.start_time_ns)


def _flat(events: Iterable[Any]) -> Iterator[Any]:
    """Events and all below them."""
    waiting = list(events)
    while waiting:
        event = waiting.pop()
        waiting += event.children
        yield event


@contextmanager
def _standard_error_closed() -> Iterator[None]:
    """A context without standard error, where the profiler's library announces its start and end at any log level."""
    standard_error = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(nowhere)
