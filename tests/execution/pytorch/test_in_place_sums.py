"""A step on one device needs what is planned for it, and no more than the module: gradients of a tensor with several
readers are added in place, as PyTorch adds them, and nothing is copied that PyTorch hands on."""

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from stand_in_gpu import StandIns
from torch import nn
from torch_modules import captured

import placewright
from placewright.execution import devices as host
from placewright.execution.devices import available_cores
from placewright.execution.pytorch import machine
from placewright.execution.pytorch.program import TorchProgram

Loss = Callable[[Any, torch.Tensor], torch.Tensor]
TWO = "cpu:0,cpu:1"
pytestmark = pytest.mark.usefixtures("one_thread_for_an_op")


@pytest.fixture(autouse=True)
def _ops_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placewright.execution.pytorch.profile._PASSES_NS", 0)
    monkeypatch.setattr("placewright.execution.pytorch.profile._MIN_PASSES", 1)


class Step(nn.Module):
    """Computes a loss from two parameters of `size` rows, a recurrent layer and what it is called with."""

    def __init__(self, loss: Loss, size: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.loss = loss
        self.first, self.second = (nn.Parameter(torch.randn(size, 4)) for _ in range(2))
        self.norm, self.none = nn.LayerNorm(4), nn.Dropout(0.0)
        self.recurrent = nn.LSTM(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.loss(self, x)


def program(model: nn.Module, x: torch.Tensor, devices: str = "cpu:0") -> TorchProgram:
    with placewright.compile(model, x, devices=devices, training=True, evaluations=20) as compiled:
        found: TorchProgram = captured(compiled, x)[0].program
        return found


def sums_in_place(found: TorchProgram) -> list[str]:
    """The ops that add one gradient of a tensor into another."""
    graph = found.graph
    sums = [op for op in graph.ops if op.target == "aten.add.Tensor"]
    return [op.name for op in sums if graph.tensors[op.outputs[0]].alias_of is not None]


def assert_trains_as_the_module(model: nn.Module, *args: torch.Tensor, devices: str, **options: Any) -> None:
    model.zero_grad()
    plain = copy.deepcopy(model)
    # PyTorch's own capture adds gradients of a tensor with many readers in another order than eager, into which it
    # falls back where it has compiled a forward often.
    torch._dynamo.reset()
    whole = torch.compile(plain, backend="aot_eager", dynamic=False)
    options = {"objective": "peak-memory", "evaluations": 20, **options}
    with placewright.compile(model, args, devices=devices, training=True, verify=False, **options) as compiled:
        for seed in range(2):
            torch.manual_seed(seed)
            loss = compiled(*args)
            torch.manual_seed(seed)
            expected = whole(*args)
            expected.backward()
            assert torch.equal(loss, expected.detach())
            for (name, own), other in zip(model.named_parameters(), plain.parameters(), strict=True):
                assert (own.grad is None) == (other.grad is None), name
                assert own.grad is None or torch.equal(own.grad, other.grad), name


def two_readers(module: Any, x: torch.Tensor) -> torch.Tensor:
    doubled = module.first * 2
    return (doubled * 3).sum() + (doubled * 5).sum()


def test_what_is_planned_is_measured_and_not_above_the_module() -> None:
    model, x = Step(two_readers, size=1000), torch.randn(4, 4)
    with placewright.compile(model, x, devices="cpu:0", training=True, objective="peak-memory") as compiled:
        found = compiled.compare(x, steps=1).facts
    assert found.measured_peak_bytes is not None
    assert found.planned_peak_bytes is not None
    assert found.measured_peak_bytes == found.planned_peak_bytes
    # The module's own step has these parameters, too, and a tensor for the loss.
    assert found.measured_peak_bytes <= found.eager_peak_bytes


class Recurrent(nn.Module):
    """Two layers, each of which keeps a workspace for its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.LSTM(64, 128, num_layers=2), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.head(self.layers(x)[0]).square().mean()
        return loss


def test_what_recurrent_layers_keep_for_their_gradients_is_planned() -> None:
    x = torch.randn(32, 16, 64)
    options: dict[str, Any] = {"training": True, "objective": "peak-memory", "evaluations": 20}
    with placewright.compile(Recurrent(), x, devices="cpu:0", **options) as compiled:
        found = compiled.compare(x, steps=1).facts
    assert found.measured_peak_bytes == found.planned_peak_bytes


def added_three_times(module: Any, x: torch.Tensor) -> torch.Tensor:
    doubled = module.first * 2
    return (doubled * 3).sum() + (doubled * 5).sum() + (doubled * 7).sum()


def residual(module: Any, x: torch.Tensor) -> torch.Tensor:
    hidden = x @ module.first
    return (hidden + torch.tanh(hidden @ module.second)).square().sum()


def tied(module: Any, x: torch.Tensor) -> torch.Tensor:
    return (torch.tanh(x @ module.first) @ module.first.t()).square().sum()


def seen_as_another_shape(module: Any, x: torch.Tensor) -> torch.Tensor:
    hidden = (x @ module.first).view(2, 8)
    return (hidden.view(4, 4) * 3).sum() + (hidden * 5).square().sum()


def expanded_first(module: Any, x: torch.Tensor) -> torch.Tensor:
    doubled = module.first * 2
    return (doubled * 5).sum() + doubled.sum()


def added_to_itself(module: Any, x: torch.Tensor) -> torch.Tensor:
    doubled = module.first * 2
    return (doubled + doubled).square().sum()


def added_to_its_transpose(module: Any, x: torch.Tensor) -> torch.Tensor:
    doubled = module.first * 2
    return (doubled + doubled.t()).square().sum()


def read_later(module: Any, x: torch.Tensor) -> torch.Tensor:
    doubled, tripled = module.first * 2, module.second * 3
    return (doubled * 7).sum() + (tripled + doubled).square().sum()


def recurrent_twice(module: Any, x: torch.Tensor) -> torch.Tensor:
    return (module.recurrent(x[None])[0] * module.recurrent(2 * x[None])[0]).sum()


#: The number of sums, and the number of those in place.
SUMS: dict[Loss, tuple[int, int]] = {
    added_three_times: (2, 2),
    residual: (1, 1),
    tied: (1, 1),  # into a product, seen transposed
    seen_as_another_shape: (1, 1),
    expanded_first: (1, 0),  # the first gradient is one number, seen as many
    added_to_itself: (1, 0),  # both gradients are one tensor
    added_to_its_transpose: (1, 0),  # and here, too
    read_later: (1, 0),  # the first gradient is that of another parameter as well
}


@pytest.mark.parametrize("loss", SUMS, ids=lambda loss: loss.__name__)
def test_a_gradient_is_overwritten_only_where_nothing_needs_it(loss: Loss) -> None:
    model, x = Step(loss), torch.randn(4, 4)
    found = program(model, x)
    backward = [op for op in found.graph.ops if op.phase == "backward" and op.target == "aten.add.Tensor"]
    assert (len(backward), len(sums_in_place(found))) == SUMS[loss]
    assert_trains_as_the_module(model, x, devices="cpu:0")


def test_the_gradient_of_both_biases_of_a_recurrent_layer_is_not_overwritten() -> None:
    model, x = Step(recurrent_twice), torch.randn(4, 4)
    graph = program(model, x).graph
    assert sum(op.kind == "rnn_backward" for op in graph.ops) == 2
    # Its backward returns one tensor for both, into which two sums would add.
    overwritten = {graph.base_of[t] for op in graph.ops if op.kind == "elementwise" for t in op.outputs}
    assert not {graph.ops[graph.producer_of[base]].kind for base in overwritten} & {"rnn_backward"}
    assert_trains_as_the_module(model, x, devices="cpu:0")


class Readers(nn.Module):
    """Draws which of the earlier tensors each op reads, so that most have several readers."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        draw = random.Random(seed)
        which = [(draw.randint(1, min(3, made)), draw.randrange(made)) for made in range(1, 13)]
        self.drawn = [(-one, other, draw.randrange(12)) for one, other in which]
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.norm, self.convolution = nn.LayerNorm(8), nn.Conv1d(6, 6, 3, padding=1)
        self.nothing, self.dropped = nn.Dropout(0.0), nn.Dropout(0.5)
        self.weight = nn.Parameter(torch.randn(6, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = [x * self.weight]
        for one, other, op in self.drawn:
            made.append(self.ops()[op](made[one], made[other]))
        # PyTorch leaves out draws that nothing reads.
        return torch.stack([each.square().mean() for each in made]).sum()

    def ops(self) -> list[Callable[[Any, Any], Any]]:
        return [
            lambda a, b: self.layers[0](a) + b,
            lambda a, b: self.layers[1](a * b),
            lambda a, b: self.norm(a) + b,
            lambda a, b: self.convolution(a) - b,
            lambda a, b: self.nothing(a) * torch.tanh(b),
            lambda a, b: self.dropped(a) + b.clone().mul_(2),
            lambda a, b: a.reshape(8, 6).t().reshape(6, 8) + b,
            lambda a, b: torch.cat([a[:3], b[3:]]),
            lambda a, b: a + b.mean(0, keepdim=True).expand(6, 8),
            lambda a, b: torch.cat(b.chunk(2, 1)[::-1], 1) + a,
            lambda a, b: torch.softmax(a @ b.t(), -1) @ b,
            lambda a, b: a + a,
        ]


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 40))])
def test_gradients_are_those_of_the_module_whatever_is_added_in_place(seed: int) -> None:
    model, x = Readers(seed), torch.randn(6, 8)
    assert sums_in_place(program(model, x))
    assert_trains_as_the_module(model, x, devices="cpu:0")
    with placewright.compile(model, x, devices="cpu:0", training=True, objective="peak-memory", evaluations=20) as step:
        found = step.compare(x, steps=1).facts
    assert found.measured_peak_bytes is not None
    assert found.measured_peak_bytes == found.planned_peak_bytes
    assert found.measured_peak_bytes <= found.eager_peak_bytes
    assert_trains_as_the_module(model, x, devices=TWO, solver="list")


@pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each")
def test_devices_that_could_share_the_ops_add_no_gradients_in_place() -> None:
    for devices, count in (("cpu:0", 1), (TWO, 0)):
        assert len(sums_in_place(program(Step(residual), torch.randn(4, 4), devices))) == count


def test_a_step_on_an_accelerator_adds_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    StandIns(1).install(monkeypatch.setattr)
    cores = available_cores()[:1]
    for module in (host, machine):
        monkeypatch.setattr(module, "available_cores", lambda: cores)
    for seed in range(3):
        assert_trains_as_the_module(Readers(seed), torch.randn(6, 8), devices="cuda:0")


class Symmetric(nn.Module):
    """Adds the transpose of a buffer to it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("square", torch.arange(9.0).view(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.square.copy_(self.square + self.square.t())
        return self.square @ x


def test_what_overwrites_a_buffer_may_read_it_in_any_way() -> None:
    model, x = Symmetric(), torch.randn(3)
    plain = copy.deepcopy(model)
    with placewright.compile(model, x, devices="cpu:0", evaluations=20) as compiled:
        for _ in range(2):
            assert torch.equal(compiled(x), plain(x))
            assert torch.equal(model.square, plain.square)


class Copies(nn.Module):
    """Returns copies of what it is called with and of its parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.clone(), self.weight.clone().view(3, 2), (x + 1).clone()[0], x.clone() + 1


def test_copies_that_are_returned_are_copies() -> None:
    model, x = Copies(), torch.zeros(2, 3)
    with placewright.compile(model, x, devices="cpu:0", evaluations=20) as compiled:
        found = compiled(x)
        for each in found:
            each.detach().fill_(7)
        assert torch.equal(x, torch.zeros(2, 3))
        assert torch.equal(model.weight, torch.ones(2, 3))
        # Three that are returned, of four: what is added to the fourth is not written to it.
        graph = captured(compiled, x)[0].program.graph
        assert sum(op.target == "aten.clone.default" for op in graph.ops) == 3
