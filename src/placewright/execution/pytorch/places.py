"""Places where the devices of a plan compute: cores of the host, or streams of accelerators.

An accelerator is asynchronous: a thread launches ops on a stream, and goes on. A `Driver` is the small part of PyTorch
that this package needs for that; CUDA's is in `cuda.py`. Imported only where torch is known to be present.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from placewright.support.errors import DeviceError

HOST = torch.device("cpu")
#: Messages of the host's allocators when memory is exhausted.
_EXHAUSTED = ("can't allocate memory", "CUDA error: out of memory")


class Driver(Protocol):
    """One accelerator: its streams, events, copies and allocator. Only `finish` waits; all else is launched."""

    name: str
    device: torch.device

    def holds(self, tensor: Any) -> bool:
        """True if a tensor lies in the accelerator's memory."""

    def new_stream(self) -> Any:
        """A new stream."""

    def current_stream(self) -> Any:
        """The stream of the calling thread."""

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        """A context in which a stream is that of the calling thread."""

    def recorded(self, stream: Any, *, timed: bool = False) -> Any:
        """An event that occurs when all that was launched on a stream so far is done."""

    def wait(self, stream: Any, event: Any) -> None:
        """Makes all that is launched on a stream from now on run after an event, of whichever accelerator."""

    def finish(self, event: Any) -> None:
        """Makes the calling thread wait for an event."""

    def elapsed_ns(self, first: Any, second: Any) -> int:
        """The time between two timed events that have occurred."""

    def keep(self, tensor: Any, stream: Any) -> None:
        """Informs the allocator that a stream uses a tensor that was made on another one, so that its memory is not
        given away meanwhile."""

    def brought(self, row: Any) -> Any:
        """A copy of a row of the host or of another accelerator, in this one's memory."""

    def sent_home(self, row: Any) -> Any:
        """A copy of a row of this accelerator in memory of the host that it can write to by itself."""

    def pinned(self, row: Any) -> Any:
        """A copy of a row of the host in memory of the host that the accelerator can read by itself."""

    def room_for(self, row: Any) -> Any:
        """Empty memory for a row of the host's, allocated on the current stream."""

    def fill(self, room: Any, row: Any) -> None:
        """Copies a row of the host's to such memory, on the current stream."""

    def recording(self, launch: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """Records what `launch` launches on its streams, without running it. Returns a function that runs it, on the
        current stream, whenever it is called, and the result of `launch`, whose tensors are filled from then on."""

    def random_state(self) -> Any:
        """The state of its random number generator."""

    def set_random_state(self, state: Any) -> None:
        """Sets the state of its random number generator."""

    def count_peak(self) -> int:
        """Counts the most bytes in use from now on; returns those in use now."""

    def peak_bytes(self) -> int:
        """The most bytes in use since then."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """A place where one device of a plan computes.

    name: as it is given in `devices`. driver: of the accelerator; None for cores of the host. stream: on which its ops
    are launched. copies: the stream on which tensors leave it. arrivals: the stream on which they come back from the
    host.
    """

    name: str
    driver: Driver | None = None
    stream: Any = None
    copies: Any = None
    arrivals: Any = None

    @property
    def device(self) -> torch.device:
        """PyTorch's device for the place."""
        return HOST if self.driver is None else self.driver.device

    @contextmanager
    def in_step(self, begun: Any) -> Iterator[None]:
        """A context in which the calling thread launches on this place's stream, after the event `begun`. Waits at the
        end for all of it, also after an error: nothing of a step goes on after the call."""
        if self.driver is None:
            yield
            return
        with self.driver.on(self.stream):
            self.driver.wait(self.stream, begun)
            try:
                yield
            except BaseException:
                # Copies that nothing waits for any more may still use memory that is freed.
                for stream in (self.copies, self.arrivals):
                    self.driver.wait(self.stream, self.driver.recorded(stream))
                raise
            finally:
                self.finish()

    def finish(self, event: Any = None) -> None:
        """Waits for an event of this place, by default for all that was launched. Raises DeviceError if it failed."""
        if self.driver is None:
            return
        try:
            self.driver.finish(self.driver.recorded(self.stream) if event is None else event)
        except RuntimeError as error:
            raise DeviceError(
                f"{self.name} failed: {first_line(error)}; with CUDA_LAUNCH_BLOCKING=1 set the op that did is named"
            ) from error


def on_stream(name: str, driver: Driver) -> Place:
    """A place on a stream of its own."""
    return Place(
        name=name, driver=driver, stream=driver.new_stream(), copies=driver.new_stream(), arrivals=driver.new_stream()
    )


def out_of_memory(error: BaseException | None) -> bool:
    """True if an allocator had too little memory."""
    # The host's allocators, including that of pinned memory, raise errors of general classes.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        not isinstance(error, DeviceError) and any(words in str(error) for words in _EXHAUSTED)
    )


@contextmanager
def too_little_memory(what: str) -> Iterator[None]:
    """Raises DeviceError where an allocator has too little: "WHAT: the reason". what: who has too little for what."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise DeviceError(f"{what}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its class where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def drivers_of(places: Sequence[Place]) -> list[Driver]:
    """The accelerators of places, each once."""
    return list(dict.fromkeys(place.driver for place in places if place.driver is not None))


def finish_current(places: Sequence[Place]) -> None:
    """Waits for what was launched on the calling thread's streams."""
    for driver in drivers_of(places):
        driver.finish(driver.recorded(driver.current_stream()))


class Watch:
    """The times when each op of a step started and finished on one place, in ns of the host's clock.

    note: called at each moment: 2 * op before an op, 2 * op + 1 after it.
    """

    def __init__(self, place: Place, count: int) -> None:
        self._place = place
        self._nothing = [-1] * count
        self._times = list(self._nothing)
        self._events: dict[int, Any] = {}
        self._began: tuple[Any, int] = (None, 0)
        self.note = _clock_into(self._times) if place.driver is None else self._record

    def start(self) -> None:
        """Begins a step; to be called before each. Events of the previous step stay: those of a recorded step occur
        again."""
        self._times[:] = self._nothing
        driver = self._place.driver
        if driver is not None:
            event = driver.recorded(self._place.stream, timed=True)
            driver.finish(event)
            self._began = event, time.perf_counter_ns()

    def times(self) -> list[int]:
        """The times of the moments after the step; -1 for those that did not occur."""
        driver = self._place.driver
        if driver is not None:
            event, began_ns = self._began
            for moment, reached in self._events.items():
                self._times[moment] = began_ns + driver.elapsed_ns(event, reached)
        return list(self._times)

    def _record(self, moment: int) -> None:
        assert self._place.driver is not None
        self._events[moment] = self._place.driver.recorded(self._place.stream, timed=True)


def _clock_into(times: list[int]) -> Callable[[int], None]:
    clock = time.perf_counter_ns

    def note(moment: int) -> None:
        times[moment] = clock()

    return note
