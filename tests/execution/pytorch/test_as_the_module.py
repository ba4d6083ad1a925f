"""What `placewright.compile` runs is what the module does, whatever it does beside computing results.

State that Python holds and changes is tested at random elsewhere; here is one case of each sort that a plan could get
wrong: by being made, by the first call beside eager's, or by running ops elsewhere.
"""

import copy
import pickle
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch_modules import QUICK, Wrapped, batch, differences_from_eager

import placewright
from placewright.api import compiled as compiled_modules
from placewright.execution.devices import available_cores
from placewright.support.errors import InputError

pytestmark = [
    pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each"),
    pytest.mark.usefixtures("one_thread_for_an_op"),
]
Then = Callable[..., Any]


# State of the module, and outside of it.


class Box:
    def __init__(self) -> None:
        self.rows = torch.zeros(4, 16)


def averaged(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.averages["y"].mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
    return y - module.averages["y"]


def counted_in_a_list(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.many[1].mul_(2)
    return y * module.many[0] + module.many[1]


def written_in_an_object(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.box.rows[1].add_(y[0].detach())
    return y + module.box.rows.sum(0)


def echoed(module: Any, y: torch.Tensor) -> torch.Tensor:
    y = y + module.last
    module.last = y.detach() * 0.5
    return y


def counting(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.count += 1
    module.seen.append(y.detach())
    return y * module.count


def freezing(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.linear.bias.requires_grad_(False)
    module.linear.weight.grad = None
    return y * module.linear.weight.sum()


def counting_before_a_break(module: Any, y: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    return counting(module, y)


class CountingFirst(Wrapped):
    """Counts before anything is captured."""

    def forward(self, value: torch.Tensor, *others: Any) -> Any:
        self.count += 1
        torch._dynamo.graph_break()
        return self.linear(value) * self.count


HELD: dict[str, Callable[[], nn.Module]] = {
    "dictionary": lambda: Wrapped(averaged, averages={"y": torch.zeros(16)}),
    "list": lambda: Wrapped(counted_in_a_list, many=[torch.ones(16), torch.full((16,), 2.0)]),
    "object": lambda: Wrapped(written_in_an_object, box=Box()),
    "replaced": lambda: Wrapped(echoed, last=torch.zeros(8, 16)),
    "counted": lambda: Wrapped(counting, count=0, seen=[]),
    "frozen": lambda: Wrapped(freezing),
    "between graphs": lambda: Wrapped(counting_before_a_break, count=0, seen=[]),
    "before all graphs": lambda: CountingFirst(counting, count=0),
    "turned in place": lambda: Wrapped(lambda module, y: y + module.box.rows.t_().sum(), box=Box()),
    "Python's generator": lambda: Wrapped(lambda module, y: y * random.random()),
    "NumPy's generator": lambda: Wrapped(lambda module, y: y * float(np.random.rand())),
    "seeded": lambda: Wrapped(lambda module, y: (torch.manual_seed(3), functional.dropout(y, 0.5))[1]),
}


@pytest.mark.parametrize("name", HELD)
def test_state_is_that_of_eager_and_planning_changes_none(name: str) -> None:
    for training in (False, True):
        assert differences_from_eager(HELD[name], training=training) == []


def logged() -> tuple[Callable[[], Any], Then]:
    log: list[int] = []

    def then(module: Any, y: Any) -> Any:
        log.append(1)
        return y * 2

    return lambda: log, then


def added_to() -> tuple[Callable[[], Any], Then]:
    held = torch.zeros(16)
    return lambda: held.tolist(), lambda module, y: (y + held, held.add_(1))[0]


def drawn_by_torch() -> tuple[Callable[[], Any], Then]:
    generator = torch.Generator().manual_seed(3)
    return lambda: generator.get_state().tolist(), lambda module, y: y + torch.rand(y.shape, generator=generator)


@pytest.mark.parametrize("make", [logged, added_to, drawn_by_torch])
def test_what_a_closure_holds_changes_as_often_as_in_eager(make: Callable[[], tuple[Callable[[], Any], Then]]) -> None:
    found = []
    for planned in (False, True):
        torch.manual_seed(0)
        state, then = make()
        before = copy.deepcopy(state())
        model = Wrapped(then).eval()
        with torch.no_grad():
            call = placewright.compile(model, batch(), **QUICK) if planned else model
            assert state() == before, "neither capture nor timing changes it"
            found.append([*(call(batch(seed)).tolist() for seed in range(3)), state()])
    assert found[0] == found[1]


@torch.library.custom_op("placewright_tests::adds_one", mutates_args=())  # type: ignore[untyped-decorator]
def adds_one(value: torch.Tensor) -> torch.Tensor:
    """Writes to its argument, and does not say so."""
    value.add_(1)
    return value.clone()


@adds_one.register_fake  # type: ignore[untyped-decorator]
def _(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(value)


def test_what_is_computed_otherwise_when_it_is_captured_is_refused_and_nothing_is_changed() -> None:
    def writing(module: Any, y: torch.Tensor) -> torch.Tensor:
        module.total.add_(1)
        doubled = y.detach() * 2
        adds_one(doubled)  # PyTorch leaves out what nobody reads.
        return y * doubled

    model = Wrapped(writing)
    model.register_buffer("total", torch.zeros(1))
    with placewright.compile(model, batch(), training=True, **QUICK) as step:
        with pytest.raises(InputError, match=r"gives another .* than eager .*; the module is as it was before"):
            step(batch())
        assert model.linear.weight.grad is None
        assert not model.total
    with placewright.compile(model, batch(), training=True, verify=False, **QUICK) as step:
        step(batch())
        assert model.linear.weight.grad is not None


# Gradients.


class Straight(torch.autograd.Function):
    """With a backward of its own, which asks for whom it is."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(value)
        return (value * 16).round() / (16 if ctx.needs_input_grad[0] else 8)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (value,) = ctx.saved_tensors
        return gradient * (value.abs() < 0.5)


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        value.mul_(2)
        ctx.mark_dirty(value)
        ctx.save_for_backward(value)
        return value

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (value,) = ctx.saved_tensors
        return gradient * value


def half_frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Dropout(0.5))
    model[1].register_forward_pre_hook(lambda module, _: module.eval() and None)
    return model


TRAINED: dict[str, Callable[[], nn.Module]] = {
    "own backward": lambda: Wrapped(lambda module, y: Straight.apply(y)),
    "own function in place": lambda: Wrapped(lambda module, y: Dirty.apply(y * 1)),
    "checkpoint with dropout": lambda: Wrapped(
        lambda module, y: checkpoint(lambda v: functional.dropout(v.tanh(), 0.2), y, use_reentrant=False)
    ),
    "reentrant checkpoint": lambda: Wrapped(
        lambda module, y: checkpoint(lambda v: v.tanh() * v, y, use_reentrant=True)
    ),
    "weight normalization": lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(16, 16)), nn.Tanh()),
    "parametrization": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16)), nn.Tanh()),
    "part without gradients": lambda: Wrapped(lambda module, y: y * y.detach().abs()),
    "frozen statistics": half_frozen,
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.filterwarnings("ignore:.*weight_norm.*", "ignore:.*requires_grad=True.*")
def test_gradients_are_those_of_the_module(name: str) -> None:
    assert differences_from_eager(TRAINED[name], training=True) == []


class Recurrent(nn.Module):
    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.layer = kind(16, 8, 3, dropout=0.3, **options)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.layer(value[:, None].expand(-1, 3, -1))[0]


@pytest.mark.parametrize(("kind", "options"), [(nn.LSTM, {}), (nn.GRU, {"batch_first": True, "bidirectional": True})])
def test_recurrent_layers_drop_between_their_layers(kind: Any, options: dict[str, Any]) -> None:
    # PyTorch computes their gradients with a kernel of all layers, so that last bits differ.
    assert differences_from_eager(lambda: Recurrent(kind, **options), training=True, tolerance=1e-6) == []


def test_arguments_that_want_gradients_get_them_also_where_one_is_passed_twice() -> None:
    def made() -> nn.Module:
        return Wrapped(lambda module, y, one, other: y.sum() + other.mean() * one.sum() * (2 if one is other else 3))

    twice, apart, other = (batch(seed).requires_grad_() for seed in range(3))
    assert differences_from_eager(made, [(twice, twice, twice), (apart, other, batch(4))], training=True) == []


def added(module: Any, *_: Any) -> None:
    module.count = getattr(module, "count", 0) + 1


def doubled(bias: Any) -> None:
    bias.grad.mul_(2)


HOOKS: dict[str, Callable[[Any], Any]] = {
    "forward": lambda model: model.linear.register_forward_hook(added),
    "before forward": lambda model: model.linear.register_forward_pre_hook(added),
    "backward": lambda model: model.linear.register_full_backward_hook(lambda _, given, __: (given[0] * 2,)),
    "gradient": lambda model: model.linear.weight.register_hook(lambda gradient: gradient * 3),
    "accumulated": lambda model: model.linear.bias.register_post_accumulate_grad_hook(doubled),
}


@pytest.mark.parametrize("at_first", [False, True])
@pytest.mark.parametrize("name", HOOKS)
def test_hooks_are_called_whenever_they_come(name: str, at_first: bool) -> None:
    def made() -> nn.Module:
        model = Wrapped(lambda _, y: y.tanh())
        if at_first:
            HOOKS[name](model)
        return model

    calls = [(batch(seed).requires_grad_(),) for seed in range(3)]
    change = None if at_first else HOOKS[name]
    assert differences_from_eager(made, calls, training=True, change=change) == []


def test_a_loss_that_has_changed_is_the_one_of_the_next_step() -> None:
    criteria: list[Any] = []

    def loss(result: Any) -> Any:
        return criteria[-1](result, torch.arange(8)) * len(criteria)

    def made() -> nn.Module:
        criteria[:] = [nn.CrossEntropyLoss()]
        return Wrapped(lambda _, y: y)

    def change(_: Any) -> None:
        criteria[0].label_smoothing = 0.3
        criteria[0].register_forward_hook(lambda module, args, result: result * 2)

    assert differences_from_eager(made, training=True, loss=loss, change=change) == []


def test_numbers_that_are_too_small_are_zeros_where_they_are_to_the_caller() -> None:
    # The smallest normal number is 1.18e-38.
    model, value = Wrapped(lambda module, _, each: each * 0.5), torch.full((6, 8), 1.3e-38)
    try:
        for at_first in (False, True):
            assert torch.set_flush_denormal(at_first)
            with placewright.compile(model, (batch(), value), **QUICK) as compiled:
                for flushes in (at_first, not at_first, at_first):
                    torch.set_flush_denormal(flushes)
                    assert torch.equal(compiled(batch(), value) == 0, torch.full((6, 8), flushes))
    finally:
        torch.set_flush_denormal(False)


# Optimizers, and the compiled module as a module.


def test_an_optimizer_is_called_as_it_is_once_a_step_and_never_by_planning() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 4))
    model(batch()).mean().backward()
    reference = copy.deepcopy(model)
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        other.grad = None if one.grad is None else one.grad.clone()
    ours, theirs = (torch.optim.Rprop(each.parameters(), 0.1) for each in (model, reference))
    calls: list[Any] = []
    ours.register_step_pre_hook(lambda *_: calls.append("before"))
    ours.register_step_post_hook(lambda *_: calls.append("after"))
    ours.register_state_dict_pre_hook(lambda *_: calls.append("saved"))
    with placewright.compile(model, batch(), training=True, optimizer=ours, **QUICK) as step:
        assert not calls
        assert not ours.state
        for _ in range(2):
            step(batch())
            reference(batch()).mean().backward()
            theirs.step()
            theirs.zero_grad()
    assert calls == ["before", "after"] * 2
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.equal(one, other), "what was in gradients before the first step counts"
        assert one.grad is other.grad is None


def test_what_is_compiled_is_used_and_copied_as_a_module() -> None:
    model = nn.Sequential(nn.Linear(16, 4), nn.Dropout(0.1))
    with placewright.compile(model, batch(), **QUICK) as compiled, torch.no_grad():
        assert compiled.eval() is compiled
        assert not model.training
        assert list(compiled.state_dict()) == ["0.weight", "0.bias"]
        assert [id(each) for each in compiled.parameters()] == [id(each) for each in model.parameters()]
        assert not hasattr(compiled, "nothing_of_the_kind")
        for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
            with other:
                assert torch.equal(other(batch()), model(batch()))
                assert next(other.parameters()) is not model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with (
        placewright.compile(model, batch(), training=True, optimizer=optimizer, **QUICK) as step,
        pytest.raises(InputError, match="copying or pickling"),
    ):
        copy.deepcopy(step)


# What is refused.


def test_modules_without_code_of_their_own_are_refused() -> None:
    linear = nn.Linear(16, 4).eval()
    exported = torch.export.export(linear, (batch(),))
    scripted = torch.jit.script(linear)
    for model in (exported, scripted, lambda value: value, nn.Sequential(linear, scripted)):
        with pytest.raises(InputError, match=r"cannot be compiled|'1' is a TorchScript module"):
            placewright.compile(model, batch(), **QUICK)
    with placewright.compile(exported.module(), batch(), **QUICK) as compiled, torch.no_grad():
        assert torch.equal(compiled(batch()), linear(batch()))


def test_a_value_that_changes_at_every_call_is_refused_after_some_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_modules, "_MOST_CAPTURES", 3)
    model = Wrapped(lambda module, y: y * module.factor, factor=0).eval()
    with torch.no_grad(), placewright.compile(model, batch(), **QUICK) as compiled:
        for model.factor in range(3):
            assert torch.equal(compiled(batch()), model(batch()))
        model.factor = 3
        with pytest.raises(InputError, match=r"captured anew 3 times, since something that its Python reads changes"):
            compiled(batch())


def told(value: torch.Tensor) -> None:
    """An op of one's own that gives nothing."""
    CALLS.append(value.shape)


CALLS: list[Any] = []
torch.library.custom_op("placewright_tests::told", told, mutates_args=()).register_fake(lambda value: None)


@pytest.mark.parametrize(
    ("op", "act"),
    [
        ("aten._linalg_check_errors.default", lambda value: torch.linalg.inv(value[:, :8])),
        ("aten._print", lambda value: torch.ops.aten._print("read")),
        ("_assert_async", lambda value: torch._assert_async(value.sum() < 0, "not below zero")),
        ("placewright_tests.told", lambda value: torch.ops.placewright_tests.told(value)),
    ],
)
def test_an_op_that_does_something_beside_its_results_is_refused_by_name(
    op: str, act: Callable[[torch.Tensor], Any]
) -> None:
    """Tracers drop those that give nothing, or hand a token from one to the next."""
    model = Wrapped(lambda _, value: value * 2 if (given := act(value)) is None else given)
    sentence = f"^the op {re.escape(op)} does something beside computing its results"
    with pytest.raises(InputError, match=sentence):
        placewright.compile(model, batch(), **QUICK)
    torch.compiler.reset()
    with pytest.raises(InputError, match=sentence), torch.no_grad():
        torch.compile(model, backend="placewright", options=QUICK)(batch())
    assert CALLS == []
