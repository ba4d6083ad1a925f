"""The time to hand a tensor to another CPU device: to wake the thread that waits for it, and to read what another core
has written.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

from placewright.execution.profile_summary import Handover
from placewright.execution.workers import Workers
from placewright.machine import Link

#: Sizes of the tensors handed over, in bytes: from less than a page to more than any core's own cache holds.
SIZES = (2**10, 2**14, 2**17, 2**20, 2**22)
_REPETITIONS = 41
#: The sender computes for about so long beforehand, so that the receiver sleeps as it does in a step.
_APART_NS = 150_000


def measure_handovers(cores: Sequence[frozenset[int]], sizes: Sequence[int] = SIZES) -> list[Handover]:
    """Handovers from the first device to the second, one per size: medians over repetitions. cores: of both devices."""
    workers = Workers(cores)
    try:
        return [_handover(workers, size) for size in sizes]
    finally:
        workers.close()


def link_of(handovers: Sequence[Handover]) -> Link:
    """A link that takes as long as the handovers. Its latency is the time to wake the receiver and the delay of its
    first op; its bandwidth follows from how much longer reading takes per byte."""
    smallest = min(handovers, key=lambda each: each.size_bytes)
    first_op = max(0, smallest.read_ns - smallest.own_read_ns)
    per_byte = [
        (each.read_ns - each.own_read_ns - first_op) / each.size_bytes for each in handovers if each is not smallest
    ]
    slower = median(per_byte) if per_byte else 0
    return Link(
        latency_ns=int(median(each.latency_ns for each in handovers)) + first_op,
        bandwidth_bytes_per_s=1e9 / slower if slower > 0 else None,
    )


def _handover(workers: Workers, size: int) -> Handover:
    turns = _Turns(size)
    workers.run([turns.send, turns.receive], turns.stop)
    latencies = [after - before for before, after in zip(turns.sent, turns.arrived, strict=True)]
    return Handover(
        size_bytes=size,
        latency_ns=int(median(latencies)),
        read_ns=int(median(turns.read)),
        own_read_ns=int(median(turns.own)),
    )


class _Turns:
    """A tensor that one thread writes and another reads, in turn, and when.

    sent, arrived: when it is handed over and taken, in ns. read, own: how long the receiver takes to read it, and a
    tensor that it has written itself.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._tensor: torch.Tensor
        self._there, self._back = _thread.allocate_lock(), _thread.allocate_lock()
        self._there.acquire()
        self._back.acquire()
        self._stopped = False
        self.sent: list[int] = []
        self.arrived: list[int] = []
        self.read: list[int] = []
        self.own: list[int] = []

    def send(self) -> None:
        self._tensor = torch.zeros(self._size // 4)
        for number in range(_REPETITIONS):
            _write_for(self._tensor, number, _APART_NS)
            self.sent.append(time.perf_counter_ns())
            self._there.release()
            self._back.acquire()
            if self._stopped:
                return

    def receive(self) -> None:
        mine = torch.zeros(self._size // 4)
        for number in range(_REPETITIONS):
            self._there.acquire()
            self.arrived.append(time.perf_counter_ns())
            if self._stopped:
                return
            self.read.append(_timed(self._tensor.sum))
            mine.fill_(number)
            self.own.append(_timed(mine.sum))
            self._back.release()

    def stop(self) -> None:
        self._stopped = True
        for lock in (self._there, self._back):
            if lock.locked():
                lock.release()


def _write_for(tensor: torch.Tensor, value: int, least_ns: int) -> None:
    began = time.perf_counter_ns()
    while True:
        tensor.fill_(value)
        if time.perf_counter_ns() - began > least_ns:
            return


def _timed(call: Callable[[], object]) -> int:
    began = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - began
