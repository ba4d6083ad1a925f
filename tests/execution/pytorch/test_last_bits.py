"""Ops whose last bits PyTorch's tracing changes have those of the module, called in the same way, by both ways in."""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import placewright
from placewright.execution.devices import available_cores

QUICK: dict[str, Any] = {"devices": "cpu:0", "evaluations": 1}


@pytest.fixture(autouse=True)
def _as_many_threads_as_the_device() -> Iterator[None]:
    # One device has all cores.
    before = torch.get_num_threads()
    torch.set_num_threads(len(available_cores()))
    yield
    torch.set_num_threads(before)


class Weighted(nn.Module):
    """A function of weighted values."""

    def __init__(self, function: Callable[[Any], Any], *shape: int) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(1)))

    def forward(self, value: Any) -> Any:
        return self.function(self.weight * value)


def resized(dimensions: int, **options: Any) -> Callable[[], Weighted]:
    sides = (13, 17, 6)[:dimensions]
    return lambda: Weighted(partial(functional.interpolate, scale_factor=1.7, **options), 1, 3, *sides)


def dropped(probability: float) -> Callable[[], Weighted]:
    return lambda: Weighted(partial(functional.dropout, p=probability, training=True), 64, 64)


MATRICES = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(2))
MODULES: dict[str, Callable[[], Weighted]] = {
    "linear": resized(1, mode="linear"),
    "bilinear": resized(2, mode="bilinear"),
    "bilinear, corners": resized(2, mode="bilinear", align_corners=True),
    "bicubic": resized(2, mode="bicubic"),
    "trilinear": resized(3, mode="trilinear"),
    "smoothed": resized(2, mode="bilinear", antialias=True),
    "nearest": resized(2, mode="nearest"),
    **{f"dropout {share}": dropped(share) for share in (0.1, 0.15, 0.45, 0.5, 0.9, 1.0)},
    "margins": lambda: Weighted(lambda y: functional.multi_margin_loss(y, torch.arange(8) % 5), 8, 5),
    "vector by matrices": lambda: Weighted(lambda y: y @ MATRICES, 3),
}


@pytest.mark.parametrize("name", MODULES)
def test_last_bits_are_those_of_the_module(name: str) -> None:
    module = MODULES[name]()
    value = torch.randn(module.weight.shape, generator=torch.Generator().manual_seed(3))
    expected, output, generator = trained(copy.deepcopy(module), value)
    for way in (planned, through_the_backend):
        gradient, result, state = way(copy.deepcopy(module), value)
        assert torch.equal(gradient, expected), way.__name__
        assert torch.equal(result, output), way.__name__
        assert torch.equal(state, generator), way.__name__


def loss_of(output: Any) -> Any:
    return output.square().mean()


def trained(module: Any, value: Any) -> tuple[Any, Any, Any]:
    """The gradient of its weight, what it returns without gradients, and the generator of random numbers after it."""
    torch.manual_seed(4)
    loss_of(module(value)).backward()
    with torch.no_grad():
        return module.weight.grad, module(value), torch.get_rng_state()


def planned(module: Weighted, value: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(4)
    with placewright.compile(module, value, training=True, loss=loss_of, **QUICK) as compiled:
        compiled(value)
    with placewright.compile(module, value, **QUICK) as compiled:
        return module.weight.grad, compiled(value).detach(), torch.get_rng_state()


def through_the_backend(module: Weighted, value: Any) -> tuple[Any, Any, Any]:
    torch._dynamo.reset()
    compiled: Any = torch.compile(module, backend="placewright", options=QUICK)
    torch.manual_seed(4)
    loss_of(compiled(value)).backward()
    with torch.no_grad():
        return module.weight.grad, compiled(value), torch.get_rng_state()
