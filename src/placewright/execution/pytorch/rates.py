"""The rates of one CPU device while all of them compute: arithmetic, memory, and the time of the smallest op.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

import torch

from placewright.execution.comparison import times_in_turn
from placewright.execution.workers import Workers
from placewright.machine import Device

_SIDE = 512
#: Four times the size of a core's own caches and its share of a common one.
_STREAMED = 2**24
_REPETITIONS = 15


def with_measured_rates(device: Device, cores: Sequence[frozenset[int]]) -> Device:
    """The device with the share of its peak that a matrix product reaches, the bandwidth that an addition reaches, and
    the time of the smallest op. cores: of each device of its machine; all are measured at once."""
    found: list[tuple[int, int, int]] = []

    def job() -> None:
        found.append((_product_ns(), _stream_ns(), _least_ns()))

    workers = Workers(cores)
    try:
        workers.run([job] * len(cores), lambda: None)
    finally:
        workers.close()
    product, stream, least = (median(times) for times in zip(*found, strict=True))
    peak = device.peak_flops_per_s["float32"]
    return replace(
        device,
        compute_efficiency=min(1.0, 2 * _SIDE**3 * 1e9 / product / peak),
        memory_bandwidth_bytes_per_s=3 * 4 * _STREAMED * 1e9 / stream,
        bandwidth_efficiency=1.0,
        launch_overhead_ns=int(least),
        kernel_gap_ns=0,
    )


def _product_ns() -> int:
    random = torch.Generator().manual_seed(0)  # The module that is timed next draws from the default one.
    left, right = (torch.rand(_SIDE, _SIDE, generator=random) for _ in range(2))
    return _median_ns(lambda: left @ right)


def _stream_ns() -> int:
    left, right, out = (torch.zeros(_STREAMED) for _ in range(3))
    return _median_ns(lambda: torch.add(left, right, out=out))


def _least_ns() -> int:
    one = torch.zeros(1)
    return _median_ns(lambda: one + one)


def _median_ns(call: Callable[[], object]) -> int:
    return int(median(*times_in_turn([call], _REPETITIONS)))
