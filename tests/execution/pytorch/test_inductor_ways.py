"""Ways of compiling a step hold less than Inductor's own, by the allocator, and compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

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


def peaks_of(function: Callable[..., Any], *given: torch.Tensor) -> list[float]:
    """Return the peaks of a call, and of its backward if it has one, in each way: MiB by the allocator."""
    expected, peaks = function(*given), []
    for way in WAYS:
        torch._dynamo.reset()
        with way.chosen():
            compiled = torch.compile(function)
            torch.testing.assert_close(compiled(*given), expected, rtol=1e-3, atol=1e-3)

            def step() -> None:
                result = compiled(*given)  # noqa: B023
                if isinstance(result, torch.Tensor) and result.requires_grad:
                    result.backward()

            step()
            peaks.append(allocated_peak(step) / MIB)
    return peaks


def test_a_tensor_that_is_read_late_does_not_keep_what_it_is_made_of() -> None:
    """One kernel with its readers would keep all three products in memory together with the 4 MiB and 1 MiB of weights.

    Computed apart from them, it is there alone: 2 MiB less.
    """
    torch.manual_seed(0)
    peaks = peaks_of(read_late, torch.randn(1024, 256), torch.randn(256, 256) / 16)
    assert peaks == pytest.approx([8, 8, 6, 6], abs=0.3)


def summed_late(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A product of a tensor of 4 MiB is added, twenty ops later, to what is made of another one of 4 MiB."""
    small = weight[:8, :8]
    product = x.t() @ (x @ weight.repeat(1, 4)).tanh()
    for _ in range(20):
        small = (small @ small).clamp(-1, 1)
    late = (x @ weight.roll(1).repeat(1, 4) * small.sum()).amax()
    return product + weight.repeat(1, 4).sin() * late


def test_a_product_is_made_where_it_stands_and_not_where_it_is_added() -> None:
    """A product computed in one call with the sum keeps its tensor of 4 MiB in memory together with the other one."""
    torch.manual_seed(0)
    peaks = peaks_of(summed_late, torch.randn(1024, 256), torch.randn(256, 256) / 16)
    assert peaks[1:] == pytest.approx([9, 9, 6], abs=0.3)


def patches(images: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A convolution without overlap."""
    return functional.conv2d(images, weight, stride=8).square().sum()


def test_images_are_not_kept_beside_a_copy_for_a_convolution() -> None:
    """The images take 3 MiB; backward reads them as they were laid out for forward."""
    torch.manual_seed(0)
    weight = torch.randn(24, 3, 8, 8).requires_grad_()
    *others, nearest = peaks_of(patches, torch.randn(64, 3, 64, 64), weight)
    assert min(others) > 3
    assert nearest < 1
