"""The program of a compiled step states the memory that the allocator hands out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import placewright
from placewright.api.inductor_trials import Fitted, tried_near
from placewright.execution.pytorch.inductor_ways import WAYS
from placewright.execution.pytorch.memory import allocated_peak


class Convolutions(nn.Module):
    """Inductor lays inputs and weights out anew, and keeps copies of weights for backward."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(4))
        self.norm = nn.BatchNorm2d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + functional.silu(self.norm(layer(x)))
        return x.square().mean()


class Attention(nn.Module):
    """Saved tensors are views of one another, and the results are the caller's."""

    def __init__(self) -> None:
        super().__init__()
        self.split, self.join = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            parts = self.split(x).unflatten(2, (3, 4, 8)).permute(2, 0, 3, 1, 4)
            x = x + self.join(functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)).tanh()
        return x


class Twice(nn.Module):
    """One weight in two places, a part that has no gradient, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.frozen = nn.Linear(64, 64, bias=False), nn.Linear(64, 64).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for _ in range(4):
            x = self.inner(x.tanh().sin())
        return x.sin(), functional.linear(self.frozen(x).sigmoid(), self.inner.weight.t())


class Expanded(nn.Module):
    """The gradient of a sum is one number, expanded; autograd keeps it as large as the parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.offset, self.layers = nn.Parameter(torch.randn(2048, 64)), Twice()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)[0].square().mean() + self.offset.sum()


class Chosen(nn.Module):
    """Ops that read places of other tensors, and numbers that are drawn: none computes on whatever lies in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(500, 64, scale_grad_by_freq=True)
        self.bags, self.layers = nn.EmbeddingBag(500, 64), Twice()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = x.abs().mul(100).long().clamp(max=499)
        drawn = torch.multinomial(x.abs().sum(1), 100)
        x = self.layers(x + self.bags(places))[0] + self.words(places[:, 0])
        return torch.zeros(512, 64).scatter_reduce(0, places, x, "amax") + x[drawn].mean()


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolutions": (Convolutions, (4, 16, 32, 32)),
    "attention": (Attention, (8, 64, 32)),
    "twice": (Twice, (1024, 64)),
    "expanded": (Expanded, (1024, 64)),
    "chosen": (Chosen, (1024, 64)),
}


def measured(model: nn.Module, call: Any, x: torch.Tensor) -> int:
    """Bytes of a step, parameters, arguments and the gradients that backward gets included; two steps warm up."""
    results = model(x)
    gradients = [torch.ones_like(each) for each in (results if isinstance(results, tuple) else (results,))]
    del results

    def step() -> None:
        results = call(x)
        torch.autograd.backward(results if isinstance(results, tuple) else (results,), gradients)

    for _ in range(2):
        step()
        model.zero_grad()
    held: int = sum(each.nbytes for each in (*model.parameters(), *model.buffers(), x, *gradients))
    return held + allocated_peak(step)


@pytest.mark.parametrize("name", MODULES)
def test_the_peak_is_what_the_allocator_says(name: str) -> None:
    """Test the step as PyTorch would partition it, and with a tenth less memory."""
    torch.manual_seed(0)
    make, shape = MODULES[name]
    model, x = make(), torch.randn(shape)
    limit = 1 << 30
    for _ in range(2):
        torch._dynamo.reset()
        model.zero_grad()
        fitted = placewright.fit(model, limit, backend="inductor")
        found = measured(model, fitted, x)
        (graph,) = fitted.graphs
        assert found == pytest.approx(graph.peak_bytes, rel=0.005)
        assert found <= limit
        limit = int(0.9 * found)
    assert graph.plan.reruns


class _Planned:
    """A plan of so many bytes, for a limit; none below `least`."""

    def __init__(self, limit: int, least: int = 0) -> None:
        self.status = "feasible" if limit >= least else "infeasible"
        self.peak_bytes, self.reruns, self.step_time_ns = (limit,), (limit,), 10_000 - limit
        self.moves = ()


@pytest.mark.parametrize(
    ("added", "least", "asked"),
    [
        (lambda plan: plan, 0, [1000]),
        # Over by 100, so 100 less is asked for, which is within.
        (lambda plan: plan + 100, 0, [1000, 900]),
        # A tenth more: 1100, then 990 of 900 asked for.
        (lambda plan: plan * 11 // 10, 0, [1000, 900]),
        # 400 less has room to spare, and half of the way up to 1000 is over; and so on between those two.
        (lambda plan: plan + (400 if plan > 700 else 0), 0, [1000, 600, 800, 700, 750, 725]),
        # 700 is not to be had, 850 is over, and so is all that is found between: 737 is not, 756 is.
        (lambda plan: plan + 300, 750, [1000, 700, 850, 775, 737, 756, 746]),
        # Nothing is found for the limit itself.
        (lambda plan: plan, 2000, [1000]),
    ],
)
def test_limits_that_are_asked_for(added: Callable[[int], int], least: int, asked: list[int]) -> None:
    """`tried_near` asks for these limits to keep 1,000 bytes."""
    found: list[int] = []

    def planned(limit: int) -> Any:
        found.append(limit)
        return _Planned(limit, least)

    def lowered(plan: Any) -> Fitted:
        unused: Any = None
        return Fitted(plan, unused, WAYS[0], unused, plan.peak_bytes[0], added(plan.peak_bytes[0]))

    tried_near(1000, planned, lowered)
    assert found == asked
