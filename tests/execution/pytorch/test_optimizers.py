"""Planned steps of optimizers: states count as often as torch keeps them, and groups may change between steps."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import placewright
from placewright.support.errors import InputError

WIDTH = 256
#: Bytes of one layer's weights.
LAYER = 4 * WIDTH**2
pytestmark = pytest.mark.usefixtures("one_thread_for_an_op")


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)))


def batch() -> torch.Tensor:
    return torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(1))


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    model(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def held(optimizer: torch.optim.Optimizer) -> int:
    return sum(t.nbytes for state in optimizer.state.values() for key, t in state.items() if t is not None and t.dim())


MAKERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters),
    "amsgrad": lambda parameters: torch.optim.AdamW(parameters, amsgrad=True),
    "fused": lambda parameters: torch.optim.Adam(parameters, fused=True),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("steps_before", [0, 1])
def test_the_peak_of_a_step_is_planned_whether_or_not_the_optimizer_has_begun(make: Any, steps_before: int) -> None:
    model, x = layers(), batch()
    optimizer = make(model.parameters())
    for _ in range(steps_before):
        stepped(model, optimizer, x)
    with placewright.fit(model, (x,), "1GiB", optimizer=optimizer) as step:
        step(x)
        (made,) = step._made.values()
        run = made.module.step
        measured = run.peak_bytes(made.module.parameters.now(), [x]) + held(optimizer)
        assert max(step.plan.peak_bytes) == pytest.approx(measured, rel=0.01)


def test_a_limit_between_what_is_held_once_and_twice_is_kept() -> None:
    # Two weights, their momentum, and gradients, of which the optimizer's step writes into none: at most 2 + 2 + 2.
    model, x = layers(), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with placewright.fit(model, (x,), 6 * LAYER + 20_000, optimizer=optimizer) as step:
        step(x)
    assert held(optimizer) == 2 * LAYER


def frozen(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Adam's states of a layer that the step leaves alone."""
    model.get_submodule("0").requires_grad_(False)
    return 2 * LAYER


def without_momentum(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Its buffers stay."""
    optimizer.param_groups[0]["momentum"] = 0
    return 2 * LAYER


def in_half_precision(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Momentum stays in float32, and half of it is planned for."""
    model.bfloat16()
    return LAYER


@pytest.mark.parametrize(
    ("make", "change"), [("adam", frozen), ("momentum", without_momentum), ("momentum", in_half_precision)]
)
def test_states_beyond_those_of_the_step_count_towards_the_limit(make: str, change: Any) -> None:
    model, x, limit = layers(), batch(), 100 * LAYER
    optimizer = MAKERS[make](model.parameters())
    stepped(model, optimizer, x)
    beyond = change(model, optimizer)
    x = x.to(next(model.parameters()).dtype)
    with placewright.fit(model, (x,), limit, optimizer=optimizer) as step:
        assert step.plan.memory_limits_bytes == (limit - beyond,)
    with pytest.raises(InputError, match="of states that the optimizer holds beside those of this step count, too"):
        placewright.fit(model, (x,), LAYER + beyond, optimizer=optimizer)


def changed(optimizer: torch.optim.Optimizer, rng: random.Random) -> None:
    """One of the things that people do to the groups of an optimizer between steps."""
    groups = optimizer.param_groups
    kind = rng.randrange(4)
    if kind == 0:
        groups.reverse()
    elif kind == 1:
        rng.choice(groups)["lr"] *= 0.5
    elif kind == 2 and len(groups[0]["params"]) > 1:
        moved = groups[0]["params"].pop(rng.randrange(len(groups[0]["params"])))
        optimizer.add_param_group({**groups[0], "params": [moved], "lr": 0.3})
    else:
        groups[0]["params"].reverse()


@pytest.mark.parametrize("seed", range(6))
def test_groups_that_change_between_steps_are_those_of_eager(seed: int) -> None:
    rng = random.Random(seed)
    ours, eager, x = layers(), layers(), batch()
    make = rng.choice([MAKERS["momentum"], MAKERS["adam"]])
    optimizers = [make([{"params": [weight], "lr": 0.1 / (1 + i)} for i, weight in enumerate(each.parameters())])
                  for each in (ours, eager)]  # fmt: skip
    with placewright.fit(ours, (x,), "1GiB", optimizer=optimizers[0]) as step:
        for _ in range(4):
            step(x)
            stepped(eager, optimizers[1], x)
            for wanted, found in zip(eager.parameters(), ours.parameters(), strict=True):
                assert torch.equal(wanted, found)
            number = rng.random()
            for optimizer in optimizers:
                changed(optimizer, random.Random(number))


def test_what_an_optimizer_no_longer_steps_or_keeps_more_of_is_refused() -> None:
    model, x = layers(), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with placewright.fit(model, (x,), "1GiB", optimizer=optimizer) as step:
        step(x)
        before = copy.deepcopy(model.state_dict())
        optimizer.param_groups[0]["momentum"] = 0.9
        with pytest.raises(InputError, match=r"keeps a state more for '0.weight' than when .* since momentum is set"):
            step(x)
        optimizer.param_groups[0]["momentum"] = 0
        optimizer.param_groups[0]["params"].pop(0)
        with pytest.raises(InputError, match=r"the optimizer does not hold the parameter '0.weight'"):
            step(x)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])


def test_a_momentum_that_falls_to_nothing_or_comes_to_another_group_is_that_of_eager() -> None:
    ours, eager, x = layers(), layers(), batch()
    optimizers = [
        torch.optim.SGD([{"params": [each[0].weight], "momentum": 0.9}, {"params": [each[1].weight]}], lr=0.1)
        for each in (ours, eager)
    ]
    with placewright.fit(ours, (x,), "1GiB", optimizer=optimizers[0]) as step:
        for momenta in ((0.9, 0), (0.9, 0.9), (0, 0.9), (0, 0)):
            for optimizer in optimizers:
                for group, momentum in zip(optimizer.param_groups, momenta, strict=True):
                    group["momentum"] = momentum
            step(x)
            stepped(eager, optimizers[1], x)
            for wanted, found in zip(eager.parameters(), ours.parameters(), strict=True):
                assert torch.equal(wanted, found)


@pytest.mark.parametrize("given", [torch.optim.Adam, "adam", lambda parameters: torch.optim.Adam(parameters)])
def test_what_is_no_optimizer_is_refused_in_a_sentence(given: Any) -> None:
    with pytest.raises(
        InputError, match=r"the optimizer must be one of torch.optim that holds the module's parameters"
    ):
        placewright.fit(layers(), (batch(),), "1GiB", optimizer=given)


@pytest.mark.parametrize(("dtype", "words"), [(torch.float32, "torch.float32"), (None, "any dtype")])
def test_gradients_of_another_dtype_are_refused_in_a_sentence(dtype: torch.dtype | None, words: str) -> None:
    model, x = layers().bfloat16(), batch().bfloat16()
    with placewright.fit(model, (x,), "1GiB") as step:
        for weight in model.parameters():
            weight.grad_dtype = dtype
        with pytest.raises(InputError, match=rf"gradient of '0.weight' may be {words} \(its grad_dtype\)"):
            step(x)
    with pytest.raises(InputError, match=rf"gradient of '0.weight' may be {words} \(its grad_dtype\)"):
        placewright.fit(model, (x,), "1GiB")


def test_a_plan_that_steps_a_weight_before_its_last_reader_is_not_compiled() -> None:
    model, x = layers(), batch()
    options: dict[str, Any] = {"devices": "cpu:0", "training": True}
    with placewright.compile(model, (x,), optimizer=MAKERS["sgd"](model.parameters()), **options) as compiled:
        plan = compiled.plan
    # The optimizer's step of the second layer at the place of the op that has made its gradient, and that op after it.
    order = [op.name for op in plan.ops]
    step = order.index("sgd:1.weight")
    order[step - 1 : step + 1] = order[step - 1 : step + 1][::-1]
    by_name = {op.name: op for op in plan.ops}
    ops = [replace(by_name[name], position=op.position, start_ns=op.start_ns, finish_ns=op.finish_ns)
           for name, op in zip(order, plan.ops, strict=True)]  # fmt: skip
    other = layers()
    with pytest.raises(InputError, match=r"the plan does not fit its graph: op 'sgd:1.weight' stands before op"):
        placewright.compile(
            other, (x,), optimizer=MAKERS["sgd"](other.parameters()), plan=replace(plan, ops=tuple(ops)), **options
        )
