"""A stand-in for GPUs that computes on the CPU, records what is asked of it, and objects to what a GPU would do wrong.

It is as late as a GPU may be: a copy holds rubbish until somebody has waited for an event after it. It knows which
stream uses which memory, and from events and waits what happens before what. So it finds every use of a tensor that
another stream may still be writing, every overwriting of one that another may still be reading, every tensor of the
host that meets one of a device, and every use on a stream that the allocator does not know of (`record_stream`).
"""

from __future__ import annotations

import _thread
import itertools
import threading
import types
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from placewright.execution import channels, workers
from placewright.execution.pytorch import cuda, machine

Clock = dict[int, int]


class Stream:
    """A stream: its number, what happened before its next op (`clock`, by stream), and its copies (`pending`)."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.clock: Clock = defaultdict(int)
        self.pending: list[Callable[[], None]] = []

    def ticks(self) -> None:
        self.clock[self.number] += 1

    def learns(self, clock: Clock) -> None:
        merge(self.clock, clock)


def merge(into: Clock, clock: Clock) -> None:
    for number, count in clock.items():
        into[number] = max(into[number], count)


class Event:
    """An event: the clock and copies of its stream so far, and its moment, in entries of the recorder's log."""

    def __init__(self, stream: Stream, moment: int) -> None:
        self.clock = dict(stream.clock)
        self.pending = list(stream.pending)
        self.moment = moment


class Recorder:
    """The state that all devices of a test share. log: what was asked, in order. owner: the device of memory, and the
    stream it was made on."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.log: list[tuple[Any, ...]] = []
        self.owner: dict[int, tuple[Device, Stream]] = {}
        self.held: list[Any] = []  # so that no two storages ever have one address
        self.pinned: set[int] = set()
        self.kept: set[tuple[int, int]] = set()
        self.used: set[tuple[int, int]] = set()
        self.written: dict[int, tuple[int, int]] = {}
        self.read: dict[int, dict[int, int]] = defaultdict(dict)
        self.numbers = itertools.count(1)
        self.local = threading.local()

    def host(self) -> Clock:
        """The calling thread's clock: by stream, how much it knows to be done."""
        clock: Clock = self.local.__dict__.setdefault("host", defaultdict(int))
        return clock

    def moment(self) -> int:
        return len(self.log)

    def device_of(self, tensor: Any) -> Device | None:
        found = self.owner.get(address(tensor))
        return found[0] if found else None

    def owns(self, tensor: Any, device: Device, stream: Stream) -> None:
        self.held.append(tensor.untyped_storage())
        self.owner[address(tensor)] = device, stream
        self.written[address(tensor)] = stream.number, stream.clock[stream.number]

    def reads(self, tensor: Any, stream: Stream, what: str) -> None:
        where = address(tensor)
        self.used.add((where, stream.number))
        writer, count = self.written.get(where, (stream.number, 0))
        assert stream.clock[writer] >= count, f"{what} on stream {stream.number} reads what {writer} may still write"
        self.read[where][stream.number] = stream.clock[stream.number]

    def writes(self, tensor: Any, stream: Stream, what: str) -> None:
        self.reads(tensor, stream, what)
        where = address(tensor)
        for reader, count in self.read[where].items():
            assert stream.clock[reader] >= count, f"{what} overwrites what stream {reader} may still read"
        self.written[where] = stream.number, stream.clock[stream.number]

    def sees_to(self, pending: list[Callable[[], None]]) -> None:
        for copy in list(pending):
            copy()

    def not_kept(self) -> list[tuple[int, int]]:
        """Uses of memory, unknown to the allocator, on another stream than the one it was made on. Memory made on the
        callers' (default) streams is left out: it lives longer than a step."""
        return sorted(
            (where, number)
            for where, number in self.used - self.kept
            if where in self.owner
            and self.owner[where][1].number != number
            and self.owner[where][1] is not self.owner[where][0].default
        )


def address(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


class Lock:
    """A lock of the executor's threads; whoever gets it knows what its last holder knew."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = _thread.allocate_lock()
        self._clock: Clock = defaultdict(int)

    def acquire(self, timeout: float = -1) -> bool:
        if not self._lock.acquire(timeout=timeout):
            return False
        merge(self._recorder.host(), self._clock)
        return True

    def release(self) -> None:
        merge(self._clock, self._recorder.host())
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()


class Device:
    """One stand-in for a GPU: a `Driver`. lacks: names of ops that it has no kernel for. exhausted_by: names of ops for
    which its memory does not suffice. unrecordable: names of ops that wait for the GPU, which a recording forbids.
    broken: the error that it reports when somebody waits for it."""

    def __init__(self, index: int, recorder: Recorder) -> None:
        self.name = f"cuda:{index}"
        self.device = torch.device("cpu")
        self.recorder = recorder
        self.default = self.new_stream()
        self.lacks: set[str] = set()
        self.exhausted_by: set[str] = set()
        self.unrecordable: set[str] = set()
        self.is_recording = False
        self.broken: str | None = None
        self.bytes = 0

    def holds(self, tensor: Any) -> bool:
        return self.recorder.device_of(tensor) is self

    def new_stream(self) -> Stream:
        return Stream(next(self.recorder.numbers))

    def current_stream(self) -> Stream:
        streams: dict[Device, list[Stream]] = self.recorder.local.__dict__.setdefault("streams", {})
        return streams[self][-1] if streams.get(self) else self.default

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        streams = self.recorder.local.__dict__.setdefault("streams", {})
        streams.setdefault(self, []).append(stream)
        devices: list[Device] = self.recorder.local.__dict__.setdefault("devices", [])
        devices.append(self)
        try:
            with _Launches(self.recorder):
                yield
        finally:
            devices.pop()
            streams[self].pop()

    def recorded(self, stream: Stream, *, timed: bool = False) -> Event:
        with self.recorder.lock:
            stream.learns(self.recorder.host())
            stream.ticks()
            self.recorder.log.append(("record", stream.number, timed))
            return Event(stream, self.recorder.moment())

    def wait(self, stream: Stream, event: Event) -> None:
        with self.recorder.lock:
            self.recorder.log.append(("wait", stream.number))
            stream.learns(event.clock)
            self.recorder.sees_to(event.pending)

    def finish(self, event: Event) -> None:
        if self.is_recording:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        if self.broken is not None:
            raise RuntimeError(self.broken)
        with self.recorder.lock:
            self.recorder.log.append(("finish",))
            self.recorder.sees_to(event.pending)
            merge(self.recorder.host(), event.clock)

    def elapsed_ns(self, first: Event, second: Event) -> int:
        return 1000 * (second.moment - first.moment)

    def keep(self, tensor: Any, stream: Stream) -> None:
        with self.recorder.lock:
            assert self.holds(tensor), "record_stream of a tensor that is on another device"
            self.recorder.log.append(("keep", stream.number))
            self.recorder.kept.add((address(tensor), stream.number))

    def brought(self, row: Any) -> Any:
        with self.recorder.lock, torch.utils._python_dispatch._disable_current_modes():
            stream, source = self.current_stream(), self.recorder.device_of(row)
            made = _rubbish(row)
            stream.learns(self.recorder.host())
            if source is not None:
                there = source.current_stream()
                there.learns(self.recorder.host())
                stream.learns(there.clock)
                there.learns(stream.clock)
                self.recorder.reads(row, there, "a copy")
            late = source is not None or address(row) in self.recorder.pinned
            self._launch_copy(made, row if late else row.clone(), stream)
            self.recorder.log.append(("copy", source.name if source else "host", self.name, stream.number))
            self.bytes += made.nbytes
            self.recorder.owns(made, self, stream)
            return made

    def sent_home(self, row: Any) -> Any:
        with self.recorder.lock, torch.utils._python_dispatch._disable_current_modes():
            assert self.holds(row)
            stream = self.current_stream()
            stream.learns(self.recorder.host())
            self.recorder.reads(row, stream, "a copy")
            made = _rubbish(row)
            self.recorder.held.append(made.untyped_storage())
            self.recorder.pinned.add(address(made))
            self._launch_copy(made, row, stream)
            self.recorder.log.append(("copy", self.name, "host", stream.number))
            return made

    def pinned(self, row: Any) -> Any:
        with self.recorder.lock, torch.utils._python_dispatch._disable_current_modes():
            assert self.recorder.device_of(row) is None
            made = row.clone()
            self.recorder.held.append(made.untyped_storage())
            self.recorder.pinned.add(address(made))
            return made

    def room_for(self, row: Any) -> Any:
        with self.recorder.lock, torch.utils._python_dispatch._disable_current_modes():
            stream = self.current_stream()
            stream.learns(self.recorder.host())
            made = _rubbish(row)
            self.bytes += made.nbytes
            self.recorder.owns(made, self, stream)
            return made

    def fill(self, room: Any, row: Any) -> None:
        with self.recorder.lock, torch.utils._python_dispatch._disable_current_modes():
            stream = self.current_stream()
            stream.learns(self.recorder.host())
            assert address(row) in self.recorder.pinned, "a copy from memory that the device cannot read by itself"
            stream.ticks()
            self.recorder.writes(room, stream, "a copy")
            self._launch_copy(room, row, stream)
            self.recorder.log.append(("copy", "host", self.name, stream.number))

    def _launch_copy(self, made: Any, row: Any, stream: Stream) -> None:
        done: list[bool] = []

        def copy() -> None:
            if not done:
                done.append(True)
                modes = torch.utils._python_dispatch._disable_current_modes()
                with torch.inference_mode(made.is_inference()), torch.no_grad(), modes:
                    made.copy_(row)

        stream.ticks()
        stream.pending.append(copy)

    def recording(self, launch: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """A function that replays what was recorded by launching it again, and its results. Until then, memory is as
        before, and the results are rubbish."""
        recorder = self.recorder
        before = [(storage, storage.clone()) for storage in list(recorder.held)]
        # The host waits for the GPU before it records.
        self.finish(self.recorded(self.current_stream()))
        recording = self.new_stream()
        self.is_recording = True
        try:
            with self.on(recording):
                made = launch()
        finally:
            self.is_recording = False
        self.current_stream().learns(recording.clock)
        for storage in recorder.held[len(before) :]:
            storage.fill_(0xFF)
        for storage, value in before:
            storage.copy_(value)

        def replay() -> None:
            with self.on(self.current_stream()):
                again = launch()
            for tensor, value in again.items() if again else ():
                if made[tensor] is not value:
                    with torch.no_grad():
                        made[tensor].copy_(value)

        return replay, made

    def random_state(self) -> None:
        return None

    def set_random_state(self, state: None) -> None:
        pass

    def count_peak(self) -> int:
        self.bytes = 0
        return 0

    def peak_bytes(self) -> int:
        return self.bytes


def _rubbish(row: Any) -> Any:
    made = torch.empty_like(row)
    return made.fill_(float("nan")) if made.is_floating_point() else made.fill_(1)


class _Launches(TorchDispatchMode):
    """A mode that launches a thread's ops whose arguments are on a device on the thread's stream there."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        with self.recorder.lock:
            device = self._device(func, given)
            if device is None or _is_view(func):
                return func(*args, **kwargs)
            self._object(func, device)
            stream = device.current_stream()
            self.recorder.sees_to(stream.pending)
            stream.learns(self.recorder.host())
            stream.ticks()
            self._uses(func, args, kwargs, given, device, stream)
            result = func(*args, **kwargs)
            self.recorder.log.append(("op", stream.number, str(func)))
            for made in pytree.tree_leaves(result):
                if isinstance(made, torch.Tensor) and address(made) not in self.recorder.owner:
                    device.bytes += made.untyped_storage().nbytes()
                    self.recorder.owns(made, device, stream)
            return result

    def _device(self, func: Any, given: list[Any]) -> Device | None:
        if not given:
            return self.recorder.local.devices[-1]  # type: ignore[no-any-return]
        devices = {self.recorder.device_of(each) for each in given if each.dim() or self.recorder.device_of(each)}
        if len(devices) > 1:
            raise RuntimeError(f"Expected all tensors to be on the same device, but {func} found {devices}")
        return devices.pop() if devices else None

    def _object(self, func: Any, device: Device) -> None:
        name = func._schema.name
        if name in device.lacks:
            raise NotImplementedError(
                f"Could not run '{name}' with arguments from the 'CUDA' backend. This could be because the operator "
                "doesn't exist for this backend.\nMore lines follow."
            )
        if name in device.unrecordable:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nMore lines follow.")
        if name in device.exhausted_by:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    def _uses(self, func: Any, args: Any, kwargs: Any, given: list[Any], device: Device, stream: Stream) -> None:
        changed: set[int] = set()
        for number, argument in enumerate(func._schema.arguments):
            value = args[number] if number < len(args) else kwargs.get(argument.name)
            if argument.alias_info is not None and argument.alias_info.is_write:
                changed.update(id(leaf) for leaf in pytree.tree_leaves(value))
        for each in given:
            if self.recorder.device_of(each) is device:
                (self.recorder.writes if id(each) in changed else self.recorder.reads)(each, stream, str(func))


def _is_view(func: Any) -> bool:
    aliases = [result.alias_info for result in func._schema.returns]
    return any(alias is not None for alias in aliases) and not func._schema.is_mutable


class StandIns:
    """A replacement of `Gpus` that offers stand-in devices."""

    def __init__(self, count: int) -> None:
        self.recorder = Recorder()
        self.devices = [Device(index, self.recorder) for index in range(count)]

    def install(self, put: Callable[[Any, str, Any], None]) -> None:
        """Puts itself where the package looks for GPUs, and locks that pass clocks on where its threads meet. put:
        `setattr`, or a version of it that is undone in the end."""
        for module in (cuda, machine):
            put(module, "Gpus", self)
        recording = types.SimpleNamespace(allocate_lock=lambda: Lock(self.recorder))
        for module in (channels, workers):
            put(module, "_thread", recording)

    def count(self) -> int:
        return len(self.devices)

    def why_none(self) -> str:
        return "PyTorch finds no GPU that it can use"

    def name(self, index: int) -> str:
        return "NVIDIA H100 80GB HBM3"

    def memory_bytes(self, index: int) -> int:
        return 80 * 2**30

    def driver(self, index: int) -> Device:
        return self.devices[index]
