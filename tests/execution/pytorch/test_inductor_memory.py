"""Training steps that Inductor compiles within a memory limit compute what they compute without one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._functorch.partitioners import default_partition

import placewright
from placewright.api import inductor_memory
from placewright.api.fitted_module import FittedModule
from placewright.execution.pytorch.memory import allocated_peak


@pytest.fixture(autouse=True)
def _without_caches() -> Iterator[None]:
    with torch._inductor.config.patch(fx_graph_cache=False):
        yield


def fitted(model: nn.Module, limit: int | str) -> FittedModule:
    """The model, compiled with a limit."""
    torch._dynamo.reset()
    return placewright.fit(model, limit, backend="inductor")


def gradients(call: Any, model: nn.Module, *args: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    call(*args).square().mean().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


class Layers(nn.Module):
    """Products, statistics that are overwritten, and results that a view or several ops read."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, linear in enumerate(self.linear):
            x = x + torch.tanh(linear(x))
            if number == 1:
                x = self.norm(x)
        first, second = x.view(-1, 2, 8).unbind(1)
        return first * second.sigmoid()


def test_a_step_within_a_limit_saves_less_and_gives_the_gradients_that_it_gives_without() -> None:
    torch.manual_seed(0)
    model, x = Layers(), torch.randn(2048, 16)
    plain, limited = copy.deepcopy(model), copy.deepcopy(model)
    compiled = fitted(plain, "1GiB")
    expected = gradients(compiled, plain, x)
    variance = plain.norm.running_var.clone()
    peak = allocated_peak(lambda: gradients(compiled, plain, x))
    assert compiled.graphs[0].plan.reruns == ()
    roomy = compiled.graphs[0]
    limit = int(0.65 * roomy.peak_bytes)
    compiled = fitted(limited, limit)
    found = gradients(compiled, limited, x)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(limited.norm.running_var, variance)
    assert compiled.graphs[0].plan.reruns
    assert compiled.graphs[0].peak_bytes <= limit
    assert compiled.graphs[0].saved_bytes < roomy.saved_bytes
    assert allocated_peak(lambda: gradients(compiled, limited, x)) < peak


def test_a_limit_above_the_peak_changes_nothing() -> None:
    """Bit for bit what torch.compile makes of the module without options."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), torch.randn(32, 8)
    plain = copy.deepcopy(model)
    compiled = fitted(model, "1GiB")
    found = gradients(compiled, model, x)
    assert compiled.graphs[0].plan.reruns == ()
    torch._dynamo.reset()
    for one, other in zip(found, gradients(torch.compile(plain), plain, x), strict=True):
        assert torch.equal(one, other)


class Drops(nn.Module):
    """Dropouts one after the other: with weights of one each gradient of the sum is the result itself."""

    def __init__(self, *between: nn.Module) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.ones(16) for _ in range(5))
        self.between = nn.Sequential(*between)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = nn.functional.dropout(self.between(x * weight), 0.2)
        return x


@pytest.fixture
def _saving_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's own choice, which is tried first, is to save everything."""

    def save_everything(joint: Any, inputs: Any, compiler: str, **options: Any) -> Any:
        return default_partition(joint, inputs, **options)

    monkeypatch.setattr(inductor_memory, "min_cut_rematerialization_partition", save_everything)


@pytest.mark.usefixtures("_saving_everything")
def test_what_is_computed_again_has_the_numbers_that_were_drawn_first() -> None:
    torch.manual_seed(0)
    model, x = Drops(), torch.randn(4096, 16)
    compiled = fitted(model, "1GiB")
    compiled(x).sum().backward()
    compiled = fitted(model, int(0.93 * compiled.graphs[0].peak_bytes))
    model.zero_grad()
    result = compiled(x)
    result.sum().backward()
    assert compiled.graphs[0].plan.reruns
    for weight in model.weights:
        torch.testing.assert_close(weight.grad, result.sum(0), rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("_saving_everything")
def test_an_op_that_draws_runs_once() -> None:
    """Inductor leaves dropouts as they are if it draws eager's numbers; what lies between them is computed again."""
    model, x = Drops(nn.Tanh()), torch.randn(4096, 16)
    torch.manual_seed(0)
    expected = gradients(model, model, x)
    with torch._inductor.config.patch(fallback_random=True):
        compiled = fitted(model, "1GiB")
        gradients(compiled, model, x)
        model.zero_grad()
        compiled = fitted(model, int(0.95 * compiled.graphs[0].peak_bytes))
        torch.manual_seed(0)
        found = gradients(compiled, model, x)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert {rerun.op.rstrip("_0123456789") for rerun in compiled.graphs[0].plan.reruns} == {"mul", "tanh"}


def test_a_module_that_is_not_trained_is_left_as_it_is() -> None:
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    compiled = fitted(model, "1KiB")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    assert compiled.graphs == ()


def test_what_cannot_be_planned_is_refused() -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), torch.randn(32, 8)
    compiled = fitted(model, "1KiB")
    with pytest.raises(
        placewright.InputError, match=r"no plan was found for a training step within 1\.00 KiB; the one"
    ):
        compiled(x)
