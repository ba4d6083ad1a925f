"""What it takes to hand a tensor to another CPU device: to wake the thread that waits for it, and to read what another
core has written.

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

#: Sizes of what is handed over, in bytes: from less than a page to what no core's own cache holds.
SIZES = (2**10, 2**14, 2**17, 2**20, 2**22)
_REPETITIONS = 41
#: The sender computes for about so long beforehand, so that the receiver sleeps as it does in a step.
_APART_NS = 150_000


def measure_handovers(cores: Sequence[frozenset[int]], sizes: Sequence[int] = SIZES) -> list[Handover]:
    """From the first device to the second, by size. cores: of both. Medians over repetitions."""
    workers = Workers(cores)
    try:
        return [_handover(workers, size) for size in sizes]
    finally:
        workers.close()


def link_of(handovers: Sequence[Handover]) -> Link:
    """A link that takes as long. Its latency is that of waking the receiver, whose first op is slower than others; its
    bandwidth is what reading takes longer by size."""
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
    there, back = _thread.allocate_lock(), _thread.allocate_lock()
    there.acquire()
    back.acquire()
    box: list[torch.Tensor] = []
    clock = time.perf_counter_ns
    sent: list[int] = []
    arrived: list[int] = []
    read: list[int] = []
    own: list[int] = []
    stopped: list[bool] = []

    def send() -> None:
        tensor = torch.zeros(size // 4)
        for number in range(_REPETITIONS):
            _write_for(tensor, number, _APART_NS)
            box.append(tensor)
            sent.append(clock())
            there.release()
            back.acquire()
            if stopped:
                return

    def receive() -> None:
        mine = torch.zeros(size // 4)
        for number in range(_REPETITIONS):
            there.acquire()
            arrived.append(clock())
            if stopped:
                return
            read.append(_timed(clock, box.pop().sum))
            mine.fill_(number)
            own.append(_timed(clock, mine.sum))
            back.release()

    def stop() -> None:
        stopped.append(True)
        for lock in (there, back):
            if lock.locked():
                lock.release()

    workers.run([send, receive], stop)
    latencies = [after - before for before, after in zip(sent, arrived, strict=True)]
    return Handover(
        size_bytes=size,
        latency_ns=int(median(latencies)),
        read_ns=int(median(read)),
        own_read_ns=int(median(own)),
    )


def _write_for(tensor: torch.Tensor, value: int, least_ns: int) -> None:
    began = time.perf_counter_ns()
    while True:
        tensor.fill_(value)
        if time.perf_counter_ns() - began > least_ns:
            return


def _timed(clock: Callable[[], int], call: Callable[[], object]) -> int:
    began = clock()
    call()
    return clock() - began
