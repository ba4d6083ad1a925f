"""Ways of compiling a step hold less than Inductor's own, by the allocator, and compute the same."""

from __future__ import annotations

import pytest
import torch

from placewright.execution.pytorch.inductor_ways import WAYS
from placewright.execution.pytorch.memory import allocated_peak

#: Bytes of 1,024 x 256 floats.
MIB = 1 << 20


def read_late(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Three products become one tensor, which is read twice after twenty ops; what comes last takes 4 MiB."""
    first, second, third = (x @ weight.roll(turns) for turns in range(3))
    early = first.sin() * second.cos() * third.tanh()
    small = weight[:8, :8]
    for _ in range(20):
        small = (small @ small).clamp(-1, 1)
    late = (x @ weight.repeat(1, 4) * small.sum()).amax()
    return early.exp() + late, early @ small.new_ones(256, 1) * late


def test_a_tensor_that_is_read_late_does_not_keep_what_it_is_made_of() -> None:
    """In one kernel with what reads it, it leaves all three products in memory beside the 4 MiB and 1 MiB of weights.

    Apart from that it is alone there: 2 MiB less.
    """
    torch.manual_seed(0)
    x, weight = torch.randn(1024, 256), torch.randn(256, 256) / 16
    expected, peaks = read_late(x, weight), []
    for way in WAYS:
        torch._dynamo.reset()
        with way.chosen():
            compiled = torch.compile(read_late)
            torch.testing.assert_close(compiled(x, weight), expected, rtol=1e-3, atol=1e-3)
        peaks.append(allocated_peak(lambda: compiled(x, weight)) / MIB)  # noqa: B023
    assert peaks == pytest.approx([8, 8, 6], abs=0.3)
