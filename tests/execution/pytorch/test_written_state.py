"""Steps whose forward writes to parameters and arguments, or to what others share memory with."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch_modules import QUICK, Wrapped, batch, differences_from_eager

import placewright
from placewright.execution.devices import available_cores
from placewright.support.errors import InputError

pytestmark = [
    pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each"),
    pytest.mark.usefixtures("one_thread_for_an_op"),
]
#: Other places and orders of the same ops.
PLACED: dict[str, Any] = {"solver": "random-placement", "evaluations": 20}


def ones() -> torch.Tensor:
    return torch.ones(3, 4, requires_grad=True)


class WritesToParameters(nn.Module):
    """Clamps a weight, and has an embedding with a largest norm, which writes to its weight, too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(6, 4, max_norm=0.5)
        self.linear = nn.Linear(4, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.linear.weight.clamp_(-0.1, 0.1)
        result: torch.Tensor = self.linear(self.embedding(tokens))
        return result


class WritesToArgument(nn.Module):
    """Writes to its first argument, and reads the second afterwards."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x.zero_()
        return (x + 0.5) * y


class WithGaps(nn.Module):
    """Two parameters side by side in one memory, one of them turned, and a third whose gradient is one number."""

    def __init__(self) -> None:
        super().__init__()
        whole = torch.arange(32.0).view(4, 8)
        self.left, self.right = nn.Parameter(whole[:, :4]), nn.Parameter(whole[:, 4:].t())
        self.bias = nn.Parameter(torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.left + x @ self.right + self.bias.sum()


class WritesBeside(nn.Module):
    """Writes to a parameter, a tensor and an argument that its loss does not depend on, and returns what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.beside = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
        self.kept = {torch.zeros(4)}

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        kept = next(iter(self.kept))
        kept.mul_(0.5).add_(0.25)
        with torch.no_grad():
            self.beside.mul_(0.5)
            x.detach().copy_(torch.zeros(4))
        return self.weight * kept, x.detach(), self.weight


def reentrant(module: Any, _: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.utils.checkpoint.checkpoint(module.linear, x, use_reentrant=True)
    return result + module.scale


def scaled() -> nn.Module:
    return Wrapped(reentrant, scale=nn.Parameter(torch.ones(16)))


WRITTEN: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "parameters": (WritesToParameters, (torch.tensor([0, 1, 2, 1]),)),
    "argument": (WritesToArgument, (ones(), ones())),
    "gaps": (WithGaps, (torch.rand(3, 4),)),
    "beside the loss": (WritesBeside, (ones(),)),
    "checkpoint of what wants a gradient": (scaled, (batch(), batch(2).requires_grad_())),
    "shape of an argument": (lambda: Wrapped(lambda _, y, x: y + x.unsqueeze_(0)[0]), (batch(), batch(2))),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_to_and_its_gradients_are_those_of_eager(name: str, seed: int) -> None:
    make, args = WRITTEN[name]
    assert differences_from_eager(make, [args] * 3, training=True, seed=seed, **PLACED) == []


@pytest.mark.parametrize("name", ["parameters", "gaps"])
@pytest.mark.parametrize("fused", [False, True])
def test_an_optimizer_steps_what_forward_has_written_to(name: str, fused: bool) -> None:
    make, args = WRITTEN[name]
    model, reference = make(), make()
    reference.load_state_dict(model.state_dict())
    ours, theirs = (torch.optim.Adam(each.parameters(), lr=0.1, fused=fused) for each in (model, reference))
    with placewright.compile(model, args, training=True, optimizer=ours, **QUICK) as step:
        for _ in range(2):
            step(*args)
            reference(*args).mean().backward()
            theirs.step()
            theirs.zero_grad()
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.equal(one, other)
        assert torch.equal(ours.state[one]["exp_avg"], theirs.state[other]["exp_avg"])


def overlapping() -> tuple[torch.Tensor, torch.Tensor]:
    both = torch.ones(4, 4)
    return both[:3], both[1:]


def same_memory() -> tuple[torch.Tensor, torch.Tensor]:
    both = torch.ones(3, 4)
    return both, both.view(3, 4)


def side_by_side() -> tuple[torch.Tensor, torch.Tensor]:
    both = torch.ones(6, 4)
    return both[:3], both[3:]


@pytest.mark.parametrize("make", [overlapping, same_memory, side_by_side])
@pytest.mark.parametrize("at_first", [False, True])
def test_arguments_in_one_memory_are_one_where_forward_writes_to_it(make: Callable[[], Any], at_first: bool) -> None:
    given, wanted, apart = make(), make(), (torch.ones(3, 4), torch.ones(3, 4))
    with placewright.compile(WritesToArgument(), given if at_first else apart, **QUICK) as compiled:
        if not at_first:
            compiled(*apart)
        try:
            found = compiled(*given)
        except InputError:
            assert torch.equal(given[0], torch.ones(3, 4)), "refused before it runs"
            return
    assert torch.equal(found, WritesToArgument()(*wanted))
    assert all(map(torch.equal, given, wanted))


def test_other_memory_for_what_outlives_the_call_is_refused() -> None:
    def changing(module: Any, y: torch.Tensor) -> torch.Tensor:
        module.linear.weight.data = module.linear.weight.data + 1
        return y * 2

    model = Wrapped(changing)
    before = model.linear.weight.clone()
    for compiled in (
        lambda: placewright.compile(model, batch(), **QUICK),
        lambda: torch.compile(model, backend="placewright", options=QUICK)(batch()),
    ):
        torch.compiler.reset()
        with pytest.raises(InputError, match=r"'\.data =' gives a tensor that outlives the call other memory"):
            compiled()
        assert torch.equal(model.linear.weight, before)


def test_plans_for_other_shapes_are_made_in_inference_mode_and_write_to_its_buffers() -> None:
    model, reference = (nn.BatchNorm1d(4, momentum=0.5) for _ in range(2))
    hooked = [each.register_forward_pre_hook(lambda module, _: module.train() and None) for each in (model, reference)]
    assert hooked
    with placewright.compile(model, torch.ones(3, 4), **QUICK) as compiled, torch.inference_mode():
        model.running_mean, reference.running_mean = torch.zeros(4), torch.zeros(4)
        for rows in (3, 5, 7):
            assert torch.equal(compiled(torch.ones(rows, 4)), reference(torch.ones(rows, 4)))
        assert torch.equal(model.running_mean, reference.running_mean)
