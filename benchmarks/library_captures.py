"""Captures of many networks that outlive whatever ends them: one file a graph, one line a capture.

`library_networks.py` and `library_parts.py` import this.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from library_listing import Listed, network_of
from library_process import add_row, read_rows

from placewright.graph import Graph
from placewright.importers.graph_set import SUFFIX, read_graph_set, write_graph_set
from placewright.lab.datasets.split import topology_of
from placewright.lab.datasets.zoo.capture import DEVICE, OPTIMIZER
from placewright.lab.datasets.zoo.network import Mode
from placewright.lab.datasets.zoo.pool import DIED, Captured, CapturingProcess, Task, capture
from placewright.support.errors import InputError
from placewright.support.files import locked_folder, make_folder

_LOG, _GRAPHS = "captures.jsonl", "graphs"
MODES: tuple[Mode, ...] = ("inference", "training")
#: Graphs of more ops take longer to learn on than there is time.
MAX_OPS = 12_000
#: A process that has captured so many networks ends, and its memory with it.
_CAPTURES_PER_PROCESS = 20
#: Of the address space of such a process: one network must not take the memory of all else.
_MAX_BYTES = 12 * 2**30
#: What PyTorch says where a fake tensor is asked for its value.
_READS_A_VALUE = "_local_scalar_dense"


@dataclass(frozen=True, kw_only=True)
class Capture:
    """What became of one mode of a network. topology: digest of its graph's; "" where there is none. failure: why there
    is none. repeats: the capture whose topology it has."""

    label: str
    library: str
    family: str
    mode: Mode
    num_ops: int
    topology: str
    failure: str
    repeats: str
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.label}-{self.mode}"

    @property
    def is_kept(self) -> bool:
        return bool(self.topology) and not self.repeats


class Captures:
    """Those of a folder, with the graphs of all that are kept."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder / _GRAPHS)
        self._folder = folder
        self.done = {each.name: each for each in (Capture(**row) for row in read_rows(folder / _LOG))}
        self._first = {each.topology: each.name for each in self.done.values() if each.is_kept}

    def kept(self) -> list[Capture]:
        return [capture for capture in self.done.values() if capture.is_kept]

    def graph(self, capture: Capture) -> Graph:
        return read_graph_set(self._path(capture.name))[0]

    def add(self, listed: Listed, mode: Mode, made: Captured) -> Capture:
        """Its graph is on disk before its line is."""
        graph, failure = made.graph, made.failure
        if graph is not None and (num_ops := len(graph.ops)) > MAX_OPS:
            graph, failure = None, f"{num_ops:,} ops are more than {MAX_OPS:,}"
        topology = "" if graph is None else topology_of(graph)
        capture = Capture(
            label=listed.label,
            library=listed.library,
            family=listed.family,
            mode=mode,
            num_ops=0 if graph is None else len(graph.ops),
            topology=topology,
            failure=failure,
            repeats=self._first.get(topology, ""),
            seconds=round(made.seconds, 3),
        )
        if capture.is_kept and graph is not None:
            write_graph_set(self._path(capture.name), [graph], {"device": DEVICE, "optimizer": OPTIMIZER})
            self._first[topology] = capture.name
        add_row(self._folder / _LOG, asdict(capture))
        self.done[capture.name] = capture
        return capture

    def skip(self, listed: Listed, mode: Mode, reason: str) -> Capture:
        return self.add(listed, mode, Captured(name=f"{listed.label}-{mode}", graph=None, failure=reason, seconds=0.0))

    def _path(self, name: str) -> Path:
        return self._folder / _GRAPHS / f"{name}{SUFFIX}"


def capture_missing(
    folder: Path, networks: Sequence[Listed], on_capture: Callable[[Capture], None], seconds: int
) -> None:
    """Captures what the folder lacks, in one other process a core. Where the inference of a network repeats a topology,
    or fails, its training step is not tried: it would do the same. Of two networks of one topology the one that is
    captured first is kept.

    seconds: of processor time, after which a capture is given up.
    """
    with locked_folder(folder, "another process captures networks into"):
        captures = Captures(folder)
        waiting, lock = iter(networks), threading.Lock()

        def capture_in_turn() -> None:
            with _Process(seconds) as process:
                while True:
                    with lock:
                        listed = next(waiting, None)
                    if listed is None:
                        return
                    _capture_both(captures, listed, process, on_capture, lock)

        num_processes = os.cpu_count() or 1
        with ThreadPoolExecutor(num_processes) as threads:
            try:
                for thread in [threads.submit(capture_in_turn) for _ in range(num_processes)]:
                    thread.result()
            finally:
                with lock:
                    waiting = iter(())  # after an error or Ctrl-C the other threads take no more


def _capture_both(
    captures: Captures, listed: Listed, process: _Process, on_capture: Callable[[Capture], None], lock: threading.Lock
) -> None:
    """What is missing of a network's modes. lock: of what is shared with the other processes."""
    for mode in MODES:
        with lock:
            is_done = f"{listed.label}-{mode}" in captures.done
            before = captures.done.get(f"{listed.label}-{MODES[0]}")
        if is_done:
            continue
        if before is not None and not before.is_kept:
            with lock:
                on_capture(captures.skip(listed, mode, "not tried: see its inference"))
            continue
        made = process.capture(listed, mode)
        with lock:
            on_capture(captures.add(listed, mode, made))


class _Process(CapturingProcess):
    def __init__(self, seconds: int) -> None:
        super().__init__(_CAPTURES_PER_PROCESS)
        self._seconds = seconds

    def capture(self, listed: Listed, mode: Mode) -> Captured:
        died = Captured(name=f"{listed.label}-{mode}", graph=None, failure=DIED, seconds=0.0)
        return self.call(_captured, listed, mode, self._seconds) or died


def _captured(listed: Listed, mode: Mode, seconds: int) -> Captured:
    """In the other process. A network whose constructor turns out to read values is built of real tensors."""
    network = network_of(listed)
    began = time.process_time()
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with _given_up_after(seconds):
        made = capture(Task(networks=lambda: (network,), index=0, mode=mode))
        if made.graph is None and _READS_A_VALUE in made.failure:
            real = replace(network, reads_values=True)
            made = capture(Task(networks=lambda: (real,), index=0, mode=mode))
    return Captured(name=made.name, graph=made.graph, failure=made.failure, seconds=time.process_time() - began)


@contextmanager
def _given_up_after(seconds: int) -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise InputError(f"not captured within {seconds} s of processor time")

    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
