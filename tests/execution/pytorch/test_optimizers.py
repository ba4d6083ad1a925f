"""Steps with an optimizer: it is called as it is, and its states count towards a memory limit."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import placewright
from placewright.execution.pytorch.optimizer_memory import optimizer_memory
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
    return sum(t.nbytes for state in optimizer.state.values() for t in state.values() if getattr(t, "ndim", 0))


MAKERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters),
    "amsgrad": lambda parameters: torch.optim.AdamW(parameters, amsgrad=True),
    "fused": lambda parameters: torch.optim.Adam(parameters, fused=True),
    "foreach": lambda parameters: torch.optim.Adam(parameters, foreach=True),
    "adafactor": lambda parameters: torch.optim.Adafactor(parameters),
    "rprop": lambda parameters: torch.optim.Rprop(parameters),
}
#: Bytes of temporaries in the steps of some optimizers; in the steps of the others they take one to eight layers.
TEMPORARIES = {"sgd": 0, "momentum": 0, "fused": 0}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("steps_before", [0, 1])
def test_states_are_known_whether_or_not_the_optimizer_has_begun(name: str, steps_before: int) -> None:
    model, x = layers(), batch()
    optimizer = MAKERS[name](model.parameters())
    for _ in range(steps_before):
        stepped(model, optimizer, x)
    before = held(optimizer)
    found = optimizer_memory(optimizer)
    assert held(optimizer) == before, "finding out changes nothing"
    assert found.step_bytes == TEMPORARIES[name] if name in TEMPORARIES else LAYER <= found.step_bytes <= 8 * LAYER
    with placewright.fit(model, (x,), "1GiB", optimizer=optimizer) as step:
        step(x)
        assert step.plan.memory_limits_bytes == (2**30 - found.state_bytes,)
    assert held(optimizer) == found.state_bytes


def test_a_limit_between_what_is_held_once_and_twice_is_kept() -> None:
    # Two weights, their momentum, and gradients, of which the optimizer's step writes into none: at most 2 + 2 + 2.
    model, x = layers(), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with placewright.fit(model, (x,), 6 * LAYER + 20_000, optimizer=optimizer) as step:
        step(x)
    assert held(optimizer) == 2 * LAYER
    with pytest.raises(InputError, match=r"the optimizer's step needs at least .*, and the limit is"):
        placewright.fit(model, (x,), 6 * LAYER - 1, optimizer=optimizer)


def frozen(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Freeze a layer, so that the step leaves its states of Adam alone."""
    model.get_submodule("0").requires_grad_(False)


def without_momentum(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Turn momentum off; its buffers stay."""
    optimizer.param_groups[0]["momentum"] = 0


def in_half_precision(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Turn the model into bfloat16; momentum stays in float32."""
    model.bfloat16()


@pytest.mark.parametrize(
    ("make", "change"), [("adam", frozen), ("momentum", without_momentum), ("momentum", in_half_precision)]
)
def test_states_that_the_step_leaves_alone_count_towards_the_limit(make: str, change: Any) -> None:
    model, x, limit = layers(), batch(), 100 * LAYER
    optimizer = MAKERS[make](model.parameters())
    stepped(model, optimizer, x)
    change(model, optimizer)
    x = x.to(next(model.parameters()).dtype)
    with placewright.fit(model, (x,), limit, optimizer=optimizer) as step:
        assert step.plan.memory_limits_bytes == (limit - held(optimizer),)


def changed(optimizer: torch.optim.Optimizer, rng: random.Random) -> None:
    """One of the things that people do to the groups of an optimizer between steps."""
    groups = optimizer.param_groups
    kind = rng.randrange(6)
    if kind == 0:
        groups.reverse()
    elif kind == 1:
        rng.choice(groups)["lr"] *= 0.5
    elif kind == 2 and len(groups[0]["params"]) > 1:
        moved = groups[0]["params"].pop(rng.randrange(len(groups[0]["params"])))
        optimizer.add_param_group({**groups[0], "params": [moved], "lr": 0.3})
    elif kind == 3 and "momentum" in groups[0]:
        rng.choice(groups)["momentum"] = rng.choice([0, 0.5, 0.9])
    elif kind == 4 and len(groups) > 1 and groups[1]["params"]:
        groups[0]["params"].append(groups[1]["params"].pop())
    else:
        groups[-1]["params"].reverse()


@pytest.mark.parametrize("seed", range(4))
def test_groups_that_change_between_steps_are_those_of_eager(seed: int) -> None:
    rng = random.Random(seed)
    ours, eager, x = layers(), layers(), batch()
    make = rng.choice([MAKERS["momentum"], MAKERS["adam"]])
    optimizers = [make([{"params": [weight], "lr": 0.1 / (1 + i)} for i, weight in enumerate(each.parameters())])
                  for each in (ours, eager)]  # fmt: skip
    with placewright.fit(ours, (x,), "1GiB", optimizer=optimizers[0]) as step:
        for _ in range(6):
            step(x)
            stepped(eager, optimizers[1], x)
            assert all(map(torch.equal, eager.parameters(), ours.parameters()))
            number = rng.random()
            for optimizer in optimizers:
                changed(optimizer, random.Random(number))


@pytest.mark.parametrize("given", [torch.optim.Adam, "adam", lambda parameters: torch.optim.Adam(parameters)])
def test_what_is_no_optimizer_is_refused_in_a_sentence(given: Any) -> None:
    with pytest.raises(InputError, match="optimizer"):
        placewright.fit(layers(), (batch(),), "1GiB", optimizer=given)


@pytest.mark.parametrize("dtype", [torch.float32, None])
def test_gradients_of_another_dtype_are_those_of_eager(dtype: torch.dtype | None) -> None:
    ours, eager, x = layers().bfloat16(), layers().bfloat16(), batch().bfloat16()
    for weight in (*ours.parameters(), *eager.parameters()):
        weight.grad_dtype = dtype
    with placewright.fit(ours, (x,), "1GiB") as step:
        step(x)
    eager(x).mean().backward()
    for one, other in zip(ours.parameters(), eager.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert one.grad.dtype == other.grad.dtype
        assert torch.equal(one.grad, other.grad)
