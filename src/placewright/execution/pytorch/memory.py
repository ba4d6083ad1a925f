"""Peak memory of a call on the CPU, by counting what PyTorch's allocator hands out.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function

_ALLOCATION, _MARK = "[memory]", "placewright mark "


def allocated_peak(call: Callable[[], Any]) -> int:
    """The most bytes in use at once of what a call allocates; memory from before it does not count, nor its release.

    Counts tensors and what ops ask the allocator for while they compute, in this thread alone; memory that a library
    below an op takes from the system by itself is not seen.
    """
    return max(accumulate(event.nbytes() for event in _events(call) if event.name() == _ALLOCATION), default=0)


def allocated_between(call: Callable[[Callable[[int], None]], Any]) -> dict[int, int]:
    """The same for parts of a call. `call` gets a function that marks where a part begins.

    Returns by mark the most bytes in use until the next mark, beyond what the call had in use at the mark.
    """

    def mark(number: int) -> None:
        with record_function(f"{_MARK}{number}"):
            pass

    most: dict[int, int] = {}
    current, in_use = None, 0
    for event in _events(lambda: call(mark)):
        if event.name().startswith(_MARK):
            current, in_use = int(event.name().removeprefix(_MARK)), 0
            most[current] = 0
        elif event.name() == _ALLOCATION and current is not None:
            in_use += event.nbytes()
            most[current] = max(most[current], in_use)
    return most


def _events(call: Callable[[], Any]) -> list[Any]:
    """What the profiler saw of a call, in order of time."""
    profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
    with _standard_error_closed():
        profiler.start()
    try:
        call()
    finally:
        with _standard_error_closed():
            profiler.stop()
    assert profiler.profiler is not None
    return sorted(profiler.profiler.kineto_results.events(), key=lambda event: int(event.start_ns()))


@contextmanager
def _standard_error_closed() -> Iterator[None]:
    """The profiler's library announces there, whatever its log level, that it starts and stops."""
    standard_error = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(nowhere)
