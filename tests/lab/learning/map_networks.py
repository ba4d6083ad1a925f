"""Small networks and chips for the learners of memory maps."""

from __future__ import annotations

from placewright.lab.datasets.fused.layers import FusedBuilder
from placewright.lab.memory_levels.chip import Chip, MemoryLevel
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.problem import MemoryProblem


def small_chip() -> Chip:
    """4 KiB at 100 GB/s, 16 KiB at 10 GB/s, the rest at 1 GB/s."""
    sizes = (("SRAM", 4 << 10, 1e11), ("LLC", 16 << 10, 1e10), ("DRAM", 1 << 30, 1e9))
    levels = [MemoryLevel(name=name, capacity_bytes=size, bandwidth_bytes_per_s=rate) for name, size, rate in sizes]
    return Chip(name="small", levels=tuple(levels), mac_rate=1e13, vector_rate=1e12)


def convolutions(number: int = 4, channels: int = 16) -> MemoryProblem:
    """Return `number` 3x3 convolutions of an 8x8 image in sequence, then a linear layer.

    Each convolution but the first has 16 * 16 * 9 + 4 * 16 = 2,368 B of weights and makes 1,024 B.
    """
    net = FusedBuilder("small")
    tensor = net.input("image", (1, 3, 8, 8))
    for index in range(number):
        tensor = net.conv(f"conv{index}", [tensor], channels, 3)
    return make_memory_problem(net.build(net.linear("fc", tensor, 10, bias=True), "a test"), small_chip())


def one_op() -> MemoryProblem:
    """A weight of 32 B and a result of 4 B."""
    net = FusedBuilder("one")
    made = net.linear("fc", net.input("x", (1, 8)), 4, bias=False)
    return make_memory_problem(net.build(made, "a test"), small_chip())
