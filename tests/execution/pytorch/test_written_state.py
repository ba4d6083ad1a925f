"""Steps whose forward writes to parameters and arguments, or to what others share memory with."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import placewright
from placewright.execution.devices import available_cores
from placewright.support.errors import InputError

pytestmark = [
    pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each"),
    pytest.mark.usefixtures("one_thread_for_an_op"),
]


def planned(model: Any, *args: Any, seed: int = 0, **options: Any) -> Any:
    quick: dict[str, Any] = {
        "devices": "cpu:0,cpu:1", "solver": "random-placement", "seed": seed, "evaluations": 20
    }  # fmt: skip
    return placewright.compile(model, args, **quick, **options)


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


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("optimized", [False, True])
def test_a_parameter_that_forward_writes_to_has_the_gradient_of_the_module(seed: int, optimized: bool) -> None:
    torch.manual_seed(seed)
    model = WritesToParameters()
    reference = copy.deepcopy(model)
    ours, theirs = (torch.optim.SGD(each.parameters(), lr=0.1) if optimized else None for each in (model, reference))
    tokens = torch.tensor([0, 1, 2, 1])
    with planned(model, tokens, training=True, optimizer=ours, seed=seed) as compiled:
        for _ in range(3):
            compiled(tokens)
            reference(tokens).mean().backward()
            if theirs is not None:
                theirs.step()
                theirs.zero_grad()
            for one, other in zip(model.parameters(), reference.parameters(), strict=True):
                assert torch.equal(one, other)
                assert (one.grad is None) == (other.grad is None)
                assert one.grad is None or torch.equal(one.grad, other.grad)


class WritesToArgument(nn.Module):
    """Writes to its first argument, and reads the second afterwards."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x.zero_()
        return (x + 0.5) * y


def test_an_argument_that_wants_a_gradient_and_is_written_to_has_the_gradient_of_the_module() -> None:
    x, other, y = (torch.ones(3, 4, requires_grad=True) for _ in range(3))
    with planned(WritesToArgument(), x, y, training=True) as compiled:
        compiled(x, y)
    WritesToArgument()(other, torch.ones(3, 4)).mean().backward()
    assert x.grad is not None
    assert other.grad is not None
    assert torch.equal(x.grad, other.grad)


def overlapping() -> tuple[torch.Tensor, torch.Tensor]:
    both = torch.ones(4, 4)
    return both[:3], both[1:]


def same_memory() -> tuple[torch.Tensor, torch.Tensor]:
    both = torch.ones(3, 4)
    return both, both.view(3, 4)


@pytest.mark.parametrize("make", [overlapping, same_memory])
def test_arguments_in_one_memory_are_refused_where_forward_writes_to_one(
    make: Callable[[], tuple[torch.Tensor, torch.Tensor]],
) -> None:
    apart = torch.ones(3, 4), torch.ones(3, 4)
    with planned(WritesToArgument(), *apart) as compiled:
        compiled(*apart)
        x, y = make()
        with pytest.raises(InputError, match=r"share memory.*put a clone in the place of 'argument 1'"):
            compiled(x, y)
        assert torch.equal(x, torch.ones(3, 4))
        compiled(x, y.clone())
        assert torch.equal(x, torch.zeros(3, 4))


def test_an_argument_in_the_memory_of_a_buffer_is_refused_where_forward_writes_to_that() -> None:
    model, x = nn.BatchNorm1d(4), torch.zeros(3, 4)
    model.running_mean = x[0]
    with planned(model, torch.zeros(3, 4), training=True) as compiled, pytest.raises(InputError, match="share memory"):
        compiled(x)


def test_parts_of_one_memory_that_lie_apart_are_not_refused() -> None:
    whole = torch.ones(6, 4)
    with planned(WritesToArgument(), whole[:3], whole[3:]) as compiled:
        assert torch.equal(compiled(whole[:3], whole[3:]), torch.full((3, 4), 0.5))


def test_a_parameter_that_the_optimizer_does_not_hold_is_refused() -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with planned(model, torch.ones(3, 4), training=True, optimizer=optimizer) as compiled:
        model.weight = nn.Parameter(torch.ones(4, 4))
        with pytest.raises(InputError, match="'weight' is another parameter than the one that the optimizer holds"):
            compiled(torch.ones(3, 4))
    assert torch.equal(model.weight, torch.ones(4, 4))


class SetsAMode(nn.Module):
    """Drops every second time."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.dropout.train(not self.dropout.training)
        result: torch.Tensor = self.dropout(x)
        return result


def test_a_mode_that_forward_sets_is_refused() -> None:
    model = SetsAMode().eval()
    with pytest.raises(InputError, match=r"forward changes the attribute 'dropout\.training' from False to True"):
        planned(model, torch.ones(3, 4))
    assert not model.dropout.training


class GivesBack(nn.Module):
    """Returns its argument and a parameter beside a result; keeps a tensor in a set."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.kept = {torch.ones(4)}

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        kept = next(iter(self.kept))
        with torch.no_grad():
            kept.add_(1)
        return x * self.weight + kept, x, self.weight


def test_what_is_the_callers_own_is_returned_as_it_is() -> None:
    model, x = GivesBack().eval(), torch.ones(3, 4, requires_grad=True)
    with planned(model, x) as compiled:
        result, same, weight = compiled(x)
    assert same is x
    assert weight is model.weight
    assert result.requires_grad
    assert torch.equal(result, torch.full((3, 4), 3.0))


def test_a_gradient_that_the_step_does_not_reach_is_refused_with_an_optimizer() -> None:
    model = nn.ModuleDict({"used": nn.Linear(4, 4), "unused": nn.Linear(4, 4)})
    model.forward = lambda x: model["used"](x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    with planned(model, torch.ones(3, 4), training=True, optimizer=optimizer) as compiled:
        model["unused"].weight.grad = torch.ones(4, 4)
        with pytest.raises(InputError, match="has a gradient already"):
            compiled(torch.ones(3, 4))


@pytest.mark.parametrize("shape", [(3, 4), (40, 30)])
def test_what_is_drawn_into_a_turned_tensor_is_drawn_in_its_order(shape: tuple[int, int]) -> None:
    class Draws(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            dropped, drawn = x * 2, x * 0
            nn.functional.dropout(dropped.mT, 0.5, True, inplace=True)
            drawn.mT.bernoulli_(0.5)
            return dropped, drawn, nn.functional.alpha_dropout(x.mT, 0.5, True)

    x = torch.rand(shape)
    with planned(Draws(), x) as compiled:
        torch.manual_seed(3)
        found = compiled(x)
        torch.manual_seed(3)
        expected = Draws()(x)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


class WithGaps(nn.Module):
    """Two parameters side by side in one memory, one of them turned."""

    def __init__(self) -> None:
        super().__init__()
        whole = torch.arange(32.0).view(4, 8)
        self.left, self.right = nn.Parameter(whole[:, :4]), nn.Parameter(whole[:, 4:].t())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.left + x @ self.right


def test_the_gradient_of_a_parameter_with_gaps_lies_as_autograd_lays_it() -> None:
    model, reference, x = WithGaps(), WithGaps(), torch.rand(3, 4)
    with planned(model, x, training=True) as compiled:
        compiled(x)
    reference(x).mean().backward()
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)
        assert one.grad.stride() == other.grad.stride()


class WritesBeside(nn.Module):
    """Writes to a parameter and to an argument that its loss does not depend on, and to a tensor of a closure."""

    def __init__(self, kept: torch.Tensor) -> None:
        super().__init__()
        self.weight, self.beside = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

        def reads() -> torch.Tensor:
            return kept

        self.reads: Callable[[], torch.Tensor] = reads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = self.reads()
        kept.data.mul_(0.5).add_(0.25)
        with torch.no_grad():
            self.beside.mul_(0.5)
            x.detach().copy_(torch.zeros(4))
        return self.weight * kept


def test_what_is_written_to_beside_the_loss_has_no_gradient() -> None:
    ours, theirs = torch.zeros(4), torch.zeros(4)
    model, reference = WritesBeside(ours), WritesBeside(theirs)
    x, other = torch.ones(3, 4, requires_grad=True), torch.ones(3, 4, requires_grad=True)
    with planned(model, x, training=True) as compiled:
        assert torch.equal(ours, torch.zeros(4)), "compiling changes nothing"
        compiled(x)
    reference(other).mean().backward()
    assert torch.equal(ours, theirs)
    assert torch.equal(x, other)
    assert x.grad is other.grad is None
    assert torch.equal(model.beside, reference.beside)
    assert model.beside.grad is reference.beside.grad is None
    assert model.weight.grad is not None
    assert reference.weight.grad is not None
    assert torch.equal(model.weight.grad, reference.weight.grad)


class Broadcasts(nn.Module):
    """The gradient of a parameter of its is one number, spread over all elements."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.bias = nn.Linear(4, 4), nn.Parameter(torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x) + self.bias.sum()
        return result


@pytest.mark.parametrize("fused", [False, True])
def test_a_fused_step_finds_a_gradient_laid_out_as_its_parameter(fused: bool) -> None:
    torch.manual_seed(1)
    model = Broadcasts()
    reference = copy.deepcopy(model)
    ours, theirs = (torch.optim.Adam(each.parameters(), lr=0.1, fused=fused) for each in (model, reference))
    x = torch.rand(3, 4)
    with planned(model, x, training=True, optimizer=ours) as compiled:
        compiled(x)
    reference(x).mean().backward()
    theirs.step()
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.equal(one, other)
        assert torch.equal(ours.state[one]["exp_avg"], theirs.state[other]["exp_avg"])


class Reentrant(nn.Module):
    """A checkpoint of the older sort: without an argument that wants a gradient, there is none of its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=True)
        outer: torch.Tensor = self.outer(inner)
        return outer


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_a_reentrant_checkpoint_gives_the_gradients_that_autograd_gives(wanted: bool) -> None:
    model = Reentrant()
    reference = copy.deepcopy(model)
    x, other = torch.ones(3, 4, requires_grad=wanted), torch.ones(3, 4, requires_grad=wanted)
    with planned(model, x, training=True) as compiled:
        compiled(x)
    reference(other).mean().backward()
    assert (model.inner.weight.grad is None) == (reference.inner.weight.grad is None) == (not wanted)
    assert model.inner.weight.grad is None or torch.equal(model.inner.weight.grad, reference.inner.weight.grad)


class Spectra(nn.Module):
    """Values of decompositions, whose vectors nobody asks for."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.linalg.eigvalsh(x @ x.t()), torch.linalg.svdvals(x)


def test_values_of_decompositions_are_computed_as_the_module_computes_them() -> None:
    x = torch.rand(9, 12, generator=torch.Generator().manual_seed(3))
    with planned(Spectra(), x) as compiled:
        for one, other in zip(compiled(x), Spectra()(x), strict=True):
            assert torch.equal(one, other)


class Averages(nn.Module):
    """Keeps an average of its inputs in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.average


def test_a_plan_that_is_made_in_inference_mode_writes_to_buffers() -> None:
    model, reference = Averages().eval(), Averages().eval()
    with placewright.compile(model, torch.ones(3, 4), devices="cpu:0,cpu:1") as compiled, torch.inference_mode():
        for rows in (3, 5, 7):
            assert torch.equal(compiled(torch.ones(rows, 4)), reference(torch.ones(rows, 4)))
        assert torch.equal(model.average, reference.average)


def test_a_buffer_of_inference_mode_that_the_step_writes_to_is_refused() -> None:
    model = Averages().eval()
    with placewright.compile(model, torch.ones(3, 4), devices="cpu:0,cpu:1") as compiled, torch.inference_mode():
        model.average = torch.zeros(4)
        with pytest.raises(InputError, match=r"'average' was made in torch.inference_mode\(\)"):
            compiled(torch.ones(3, 4))
