"""`placewright.compile` does all that the module does, side effects included.

State that Python holds and changes is tested at random elsewhere. This file has one case of each kind that could go
wrong: when the plan is made, when the first call runs next to eager's, or when ops run elsewhere.
"""

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch_modules import QUICK, Wrapped, batch, differences_from_eager

import placewright
from placewright.api import module_capture
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
    "frozen": lambda: Wrapped(freezing),
    "between graphs": lambda: Wrapped(counting_before_a_break, count=0, seen=[]),
    "before all graphs": lambda: CountingFirst(counting, count=0),
    "turned in place": lambda: Wrapped(lambda module, y: y + module.box.rows.t_().sum(), box=Box()),
    "seeded": lambda: Wrapped(lambda module, y: (torch.manual_seed(3), functional.dropout(y, 0.5))[1]),
}


@pytest.mark.parametrize("name", HELD)
def test_state_is_that_of_eager_and_planning_changes_none(name: str) -> None:
    for training in (False, True):
        assert differences_from_eager(HELD[name], training=training) == []


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


def test_arguments_that_want_gradients_get_them_also_where_one_is_passed_twice() -> None:
    def made() -> nn.Module:
        return Wrapped(lambda module, y, one, other: y.sum() + other.mean() * one.sum() * (2 if one is other else 3))

    twice, apart, other = (batch(seed).requires_grad_() for seed in range(3))
    assert differences_from_eager(made, [(twice, twice, twice), (apart, other, batch(4))], training=True) == []


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
    monkeypatch.setattr(module_capture, "_MOST_CAPTURES", 3)
    model = Wrapped(lambda module, y: y * module.factor, factor=0).eval()
    with torch.no_grad(), placewright.compile(model, batch(), **QUICK) as compiled:
        for model.factor in range(3):
            assert torch.equal(compiled(batch()), model(batch()))
        model.factor = 3
        with pytest.raises(InputError, match=r"captured anew 3 times, since something that its Python reads changes"):
            compiled(batch())


def told(value: torch.Tensor) -> None:
    """A custom op that returns nothing."""
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
    """Tracers drop ops that return nothing, or pass a token from one to the next."""
    model = Wrapped(lambda _, value: value * 2 if (given := act(value)) is None else given)
    sentence = f"^the op {re.escape(op)} does something beside computing its results"
    with pytest.raises(InputError, match=sentence):
        placewright.compile(model, batch(), **QUICK)
    torch.compiler.reset()
    with pytest.raises(InputError, match=sentence), torch.no_grad():
        torch.compile(model, backend="placewright", options=QUICK)(batch())
    assert CALLS == []
