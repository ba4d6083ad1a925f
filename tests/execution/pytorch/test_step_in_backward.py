"""Optimizers that step in backward: results are the ordinary loop's, and gradients are never there at once."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import placewright
from placewright.execution.pytorch.memory import allocated_peak

WIDTH = 128
#: Bytes of one layer's weights.
LAYER = 4 * WIDTH**2
Maker = Callable[[Any], torch.optim.Optimizer]

MAKERS: dict[str, Maker] = {
    "sgd": lambda groups: torch.optim.SGD(groups, lr=0.1),
    "momentum": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adam": torch.optim.Adam,
    "amsgrad": lambda groups: torch.optim.Adam(groups, amsgrad=True),
    "adamw": torch.optim.AdamW,
    "fused": lambda groups: torch.optim.AdamW(groups, fused=True),
    "foreach": lambda groups: torch.optim.AdamW(groups, foreach=True),
    "tensor lr": lambda groups: torch.optim.AdamW(groups, lr=torch.tensor(0.01)),
    "adagrad": torch.optim.Adagrad,
    "rmsprop": lambda groups: torch.optim.RMSprop(groups, momentum=0.9, centered=True),
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "adamax": torch.optim.Adamax,
    "adadelta": torch.optim.Adadelta,
    "rprop": torch.optim.Rprop,
    "adafactor": torch.optim.Adafactor,
    "asgd": lambda groups: torch.optim.ASGD(groups, t0=2),
    "muon": torch.optim.Muon,
}


class Tied(nn.Module):
    """One matrix is read at both ends. Another one is in a branch that some batches leave out."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.ends, self.middle, self.branch = (nn.Linear(8, 8, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        middle = self.middle(self.ends(x)).tanh()
        if x[0, 0] > 0:
            middle = middle + self.branch(middle)
        return (middle @ self.ends.weight.t()).square().mean()


def groups(model: Tied, optimizer: str) -> list[dict[str, Any]]:
    """Return two parameter groups with different settings."""
    settings: list[dict[str, Any]] = [{"weight_decay": 0.2}, {"weight_decay": 0.0}]
    if optimizer != "tensor lr":
        settings[0]["lr"] = 0.03
    first = [model.ends.weight, model.branch.weight]
    return [{"params": first, **settings[0]}, {"params": [model.middle.weight], **settings[1]}]


def batches(count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(4, 8, generator=generator) for _ in range(count)]


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, given: Iterable[torch.Tensor]) -> None:
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    for x in given:
        model(x).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()


def assert_same(one: Any, other: Any) -> None:
    """Parameters or states, bit by bit."""
    torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def ordinary_and_own(name: str, own: Callable[[Any], Any]) -> tuple[Tied, Any, Tied, Any]:
    plain, model = Tied(), Tied()
    made = MAKERS[name]
    if name == "rprop":  # knows no weight decay
        return plain, made(plain.parameters()), model, own(made(model.parameters()))
    return plain, made(groups(plain, name)), model, own(made(groups(model, name)))


@pytest.mark.parametrize("name", MAKERS)
def test_steps_are_the_ordinary_loops(name: str) -> None:
    plain, ordinary, model, optimizer = ordinary_and_own(name, placewright.step_in_backward)
    given = batches(6)
    assert {bool(x[0, 0] > 0) for x in given} == {True, False}
    for each, steps in ((plain, ordinary), (model, optimizer)):
        trained(each, steps, given)
    assert_same(dict(plain.named_parameters()), dict(model.named_parameters()))
    assert_same(ordinary.state_dict()["state"], optimizer.state_dict()["state"])
    assert not torch.equal(plain.ends.weight, Tied().ends.weight)
    assert all(parameter.grad is None for parameter in model.parameters())


def unchanged(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    return optimizer


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(6)))


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.ones(2, WIDTH)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_one_gradient_is_there_at_a_time() -> None:
    """The ordinary loop has six."""
    peaks = []
    for own in (unchanged, placewright.step_in_backward):
        model = layers()
        optimizer = own(torch.optim.AdamW(model.parameters(), fused=True))
        stepped(model, optimizer)
        gc.collect()
        peaks.append(allocated_peak(partial(stepped, model, optimizer)))
    assert 6 * LAYER < peaks[0] < 6.5 * LAYER
    assert LAYER < peaks[1] < 1.5 * LAYER


def test_a_state_dict_goes_on_in_an_ordinary_loop_and_back() -> None:
    plain, ordinary, model, optimizer = ordinary_and_own("adamw", placewright.step_in_backward)
    given = batches(6)
    trained(plain, ordinary, given[:2])
    model.load_state_dict(plain.state_dict())
    optimizer.load_state_dict(copy.deepcopy(ordinary.state_dict()))
    for each, steps in ((plain, ordinary), (model, optimizer)):
        trained(each, steps, given[2:4])
    assert_same(ordinary.state_dict()["state"], optimizer.state_dict()["state"])
    plain.load_state_dict(model.state_dict())
    ordinary.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for each, steps in ((plain, ordinary), (model, optimizer)):
        trained(each, steps, given[4:])
    assert_same(dict(plain.named_parameters()), dict(model.named_parameters()))


def test_hooks_of_the_step_run_once_and_a_closure_is_part_of_it() -> None:
    """Lightning runs backward within `step` like this."""
    plain, ordinary, model, optimizer = ordinary_and_own("adamw", placewright.step_in_backward)
    called: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: called.append("before"))
    optimizer.register_step_post_hook(lambda *_: called.append("after"))
    for x in batches(3):
        for each, steps in ((plain, ordinary), (model, optimizer)):

            def closure(each: Any = each, steps: Any = steps, x: Any = x) -> torch.Tensor:
                steps.zero_grad()
                loss: torch.Tensor = each(x)
                loss.backward()
                return loss

            steps.step(closure)
    assert called == ["before", "after"] * 3
    assert_same(dict(plain.named_parameters()), dict(model.named_parameters()))


def test_gradients_that_are_set_by_hand_and_parameters_that_come_later_are_stepped() -> None:
    plain, ordinary, model, optimizer = ordinary_and_own("adamw", placewright.step_in_backward)
    for each, steps in ((plain, ordinary), (model, optimizer)):
        added = nn.Parameter(torch.ones(3))
        steps.add_param_group({"params": [added]})
        for x in batches(3):
            each(x).backward()
            added.grad = torch.full((3,), 0.5)
            steps.step()
            steps.zero_grad()
        each.added = added
    assert_same(dict(plain.named_parameters()), dict(model.named_parameters()))


def test_sparse_gradients_are_stepped_as_they_come() -> None:
    tables = []
    for own in (unchanged, placewright.step_in_backward):
        torch.manual_seed(0)
        table = nn.Embedding(20, 4, sparse=True)
        optimizer = own(torch.optim.Adagrad(table.parameters(), lr=0.1))
        for row in (3, 4):
            (table(torch.tensor([row, row, 7])) ** 2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        tables.append(table.weight)
    assert_same(*tables)


def test_a_second_backward_before_the_step_is_refused_and_changes_nothing() -> None:
    model = layers()
    optimizer = placewright.step_in_backward(torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(2, WIDTH)).mean().backward()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(placewright.InputError, match=r"^a parameter has been stepped in backward, and its gradient is"):
        model(torch.ones(2, WIDTH)).mean().backward()
    assert_same(before, dict(model.state_dict()))
    assert optimizer.param_groups


def test_gradients_that_are_gone_are_not_clipped_in_silence() -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = placewright.step_in_backward(torch.optim.SGD(model.parameters(), lr=0.1))
    for clip in (torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_):
        model(torch.ones(2, 4)).sum().backward()
        with pytest.raises(placewright.InputError, match="leave out clipping by norm"):
            clip(model.parameters(), 1.0)
        optimizer.step()
        assert all(each.grad is None for each in model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.zero_grad()
    assert all(each.grad is None for each in model.parameters())


def test_a_gradient_scaler_is_refused() -> None:
    model = layers()
    optimizer = placewright.step_in_backward(torch.optim.SGD(model.parameters(), lr=0.1))
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.ones(2, WIDTH)).mean()).backward()
    with pytest.raises(placewright.InputError, match=r"leave out clipping by norm and GradScaler"):
        scaler.step(optimizer)


class ByTheNorm(torch.optim.SGD):
    """Scales all gradients by the norm of all."""

    def step(self, closure: Any = None) -> Any:
        found = [each.grad for group in self.param_groups for each in group["params"] if each.grad is not None]
        norm = torch.nn.utils.get_total_norm(found)
        for each in found:
            each.div_(norm)
        return super().step(closure)


class Counted(torch.optim.SGD):
    """Counts its steps in a group, as schedule-free optimizers do."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            group["k"] = group.get("k", 0) + 1
        return super().step(closure)


class Noisy(torch.optim.SGD):
    """Draws random numbers, as stochastic rounding does."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for each in group["params"]:
                each.detach().add_(torch.randn_like(each), alpha=0.001)
        return super().step(closure)


@pytest.mark.parametrize("kind", [ByTheNorm, Counted, Noisy, torch.optim.LBFGS, torch.optim.SparseAdam])
def test_optimizers_whose_steps_are_not_of_one_parameter_are_refused(kind: Any) -> None:
    model = layers()
    optimizer = kind(model.parameters())
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    with pytest.raises(placewright.InputError, match=rf"^{kind.__name__} .*; a step in backward needs another optimiz"):
        placewright.step_in_backward(optimizer)
    assert_same(before, dict(model.state_dict()))
    assert torch.equal(random, torch.get_rng_state())
    assert not optimizer.state_dict()["state"]


def test_it_is_asked_for_once_and_ends_with_the_optimizer() -> None:
    model = layers()
    optimizer = placewright.step_in_backward(torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(
        placewright.InputError, match=r"^this SGD steps in backward already; call step_in_backward once"
    ):
        placewright.step_in_backward(optimizer)
    del optimizer
    gc.collect()
    before = copy.deepcopy(model.state_dict())
    model(torch.ones(2, WIDTH)).mean().backward()
    assert_same(before, dict(model.state_dict()))
    assert all(parameter.grad is not None for parameter in model.parameters())
