"""What `placewright.compile` runs is exactly what the module does, or it is refused in one sentence before it runs.

The cases are modules that do more than compute results of their arguments: they write to tensors outside of them, have
backwards of their own, hooks, state in Python. The module itself, called in the same way, says what is right.
"""

import copy
import itertools
import logging
import pickle
import random
import re
import types
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import placewright
from placewright.api.compiled import MAX_PLANS
from placewright.execution.devices import available_cores
from placewright.importers.torch.trace import default_loss
from placewright.support.errors import InputError

pytestmark = [
    pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each"),
    pytest.mark.usefixtures("one_thread_for_an_op"),
]
QUICK: dict[str, Any] = {"devices": "cpu:0,cpu:1", "evaluations": 20, "solver": "list"}


def x(seed: int = 1) -> torch.Tensor:
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))


class Wrapped(nn.Module):
    """A linear layer, and a function that makes a result of what it returns."""

    def __init__(self, then: Callable[[Any, torch.Tensor], Any], **attributes: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        for name, value in attributes.items():
            setattr(self, name, value)
        self.then = then

    def forward(self, value: torch.Tensor) -> Any:
        return self.then(self, self.linear(value))


def twins(make: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    first = make()
    torch.manual_seed(0)
    return first, make()


def assert_trains_as_the_module(make: Callable[[], nn.Module], steps: int = 3, bits: bool = True) -> None:
    """Losses, gradients that add up, buffers and the generator of random numbers. bits: whether the last ones count."""
    model, reference = twins(make)
    reference.train()

    def same(found: torch.Tensor, wanted: torch.Tensor) -> bool:
        return bool(torch.equal(found, wanted) if bits else torch.allclose(found, wanted, rtol=1e-5, atol=1e-6))

    with placewright.compile(model, x(), training=True, **QUICK) as step:
        torch.manual_seed(7)
        losses = [step(x(seed)) for seed in range(steps)]
        drawn = torch.get_rng_state()
    torch.manual_seed(7)
    for seed, loss in enumerate(losses):
        wanted = default_loss(reference(x(seed)))
        wanted.backward()
        assert same(loss, wanted.detach())
    assert torch.equal(drawn, torch.get_rng_state())
    for parameter, other in zip(model.parameters(), reference.parameters(), strict=True):
        assert (parameter.grad is None) == (other.grad is None)
        assert parameter.grad is None or same(parameter.grad, other.grad)
    for buffer, other in zip(model.buffers(), reference.buffers(), strict=True):
        assert torch.equal(buffer, other)


def assert_infers_as_the_module(model: nn.Module, reference: nn.Module, calls: int = 3) -> None:
    with torch.no_grad(), placewright.compile(model.eval(), x(), **QUICK) as compiled:
        for seed in range(calls):
            assert torch.equal(compiled(x(seed)), reference.eval()(x(seed)))


# Tensors that forward writes to and that are neither parameters, buffers nor arguments.

OUTSIDE = torch.zeros(16)


def averaged(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.averages["y"].mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
    return y - module.averages["y"]


def counted_in_a_list(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.many[1].mul_(2)
    module.plain.add_(1)
    result: torch.Tensor = y * module.many[0] + module.many[1] + module.plain
    return result


def counted_outside(module: Any, y: torch.Tensor) -> torch.Tensor:
    result = y + OUTSIDE
    OUTSIDE.add_(1)
    return result


class Box:
    def __init__(self) -> None:
        self.rows = torch.zeros(4, 16)


def written_in_an_object(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.box.rows[1].add_(y[0].detach())
    result: torch.Tensor = y + module.box.rows.sum(0)
    return result


HOLDING: dict[str, tuple[Callable[[Any, torch.Tensor], Any], Callable[[], dict[str, Any]], Callable[[Any], Any]]] = {
    "dictionary": (averaged, lambda: {"averages": {"y": torch.zeros(16)}}, lambda module: module.averages["y"]),
    "list": (
        counted_in_a_list,
        lambda: {"many": [torch.ones(16), torch.full((16,), 2.0)], "plain": torch.zeros(16)},
        lambda module: torch.stack([*module.many, module.plain]),
    ),
    "object": (written_in_an_object, lambda: {"box": Box()}, lambda module: module.box.rows),
}


@pytest.mark.parametrize("name", HOLDING)
def test_what_a_module_writes_to_is_its_own_after_planning_and_after_steps(name: str) -> None:
    then, attributes, written = HOLDING[name]
    model, reference = twins(lambda: Wrapped(then, **attributes()))
    before = written(model).clone()
    with placewright.compile(model, x(), **QUICK) as compiled, torch.no_grad():
        assert torch.equal(written(model), before), "planning and timing change nothing"
        for seed in range(3):
            assert torch.equal(compiled(x(seed)), reference.eval()(x(seed)))
    assert torch.equal(written(model), written(reference))
    assert_trains_as_the_module(lambda: Wrapped(then, **attributes()))


def test_a_tensor_outside_of_the_module_is_written_to_as_the_module_does() -> None:
    model, reference = twins(lambda: Wrapped(counted_outside))
    OUTSIDE.zero_()
    with torch.no_grad():
        wanted = [reference.eval()(x()) for _ in range(3)]
    OUTSIDE.zero_()
    placewright.from_torch(model, x())
    with placewright.compile(model, x(), **QUICK) as compiled, torch.no_grad():
        assert not OUTSIDE.any(), "neither capture nor timing writes to it"
        # y + 0, y + 1, y + 2
        for result in wanted:
            assert torch.equal(compiled(x()), result)
    assert torch.equal(OUTSIDE, torch.full((16,), 3.0))


def test_a_tensor_outside_that_has_been_replaced_is_refused() -> None:
    scales = {"one": torch.ones(16)}
    model = Wrapped(lambda module, y: y * scales["one"])
    with placewright.compile(model, x(), **QUICK) as compiled:
        compiled(x())
        scales["one"] = torch.zeros(16)
        with pytest.raises(InputError, match="'one', which forward reads outside of the module, has been replaced"):
            compiled(x())


class Slots:
    """An object without a dictionary."""

    __slots__ = ("rows",)

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows


def in_a_closure() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    held = torch.zeros(16)

    def put(value: Any) -> None:
        nonlocal held
        held = value

    return lambda: held, put


def in_a_tuple() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    held = (torch.zeros(16),)

    def put(value: Any) -> None:
        nonlocal held
        held = (value,)

    return lambda: held[0], put


def in_a_default() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    start = torch.zeros(16)

    def get(held: Any = start) -> Any:
        return held

    return get, lambda value: setattr(get, "__defaults__", (value,))


def in_a_set() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    held = {torch.zeros(16)}

    def put(value: Any) -> None:
        held.clear()
        held.add(value)

    return lambda: next(iter(held)), put


def in_an_object(make: Callable[[Any], Any]) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    box = make(torch.zeros(16))
    return lambda: box.rows, lambda value: setattr(box, "rows", value)


def in_objects_in_a_list() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    boxes: list[Any] = [Slots(torch.zeros(16))]
    return lambda: boxes[0].rows, lambda value: boxes.__setitem__(0, Slots(value))


class OfAll:
    rows: Any


def in_a_class() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    OfAll.rows = torch.zeros(16)
    return lambda: OfAll.rows, lambda value: setattr(OfAll, "rows", value)


OUTSIDE_IN: dict[str, Callable[[], tuple[Callable[[], Any], Callable[[Any], None]]]] = {
    "closure": in_a_closure,
    "tuple": in_a_tuple,
    "default": in_a_default,
    "set": in_a_set,
    "object": lambda: in_an_object(lambda rows: types.SimpleNamespace(rows=rows)),
    "slots": lambda: in_an_object(Slots),
    "objects in a list": in_objects_in_a_list,
    "class": in_a_class,
}


@pytest.mark.parametrize("name", OUTSIDE_IN)
def test_a_tensor_outside_is_watched_wherever_it_stands(name: str) -> None:
    get, put = OUTSIDE_IN[name]()
    with placewright.compile(Wrapped(lambda module, y: y + get()), x(), **QUICK) as compiled:
        compiled(x())
        put(torch.ones(16))
        with pytest.raises(InputError, match="which forward reads outside of the module, has been replaced"):
            compiled(x())


@pytest.mark.parametrize("name", OUTSIDE_IN)
def test_a_tensor_outside_that_forward_replaces_is_refused_and_there_again(name: str) -> None:
    get, put = OUTSIDE_IN[name]()
    before = get()

    def putting(module: Any, y: torch.Tensor) -> torch.Tensor:
        y = y + get()
        put(y.detach().mean(0))
        # With an attribute that is assigned, forward is rehearsed twice.
        module.last = y.detach()
        return y

    with pytest.raises(InputError, match=r"puts another tensor in the place of .* outside of the module"):
        placewright.compile(Wrapped(putting, last=torch.zeros(8, 16)), x(), **QUICK)
    assert get() is before


def test_tensors_outside_that_forward_swaps_are_refused() -> None:
    held = {"one": torch.zeros(16), "other": torch.ones(16)}

    def swapping(module: Any, y: torch.Tensor) -> torch.Tensor:
        y = y * held["one"] + held["other"]
        held["one"], held["other"] = held["other"], held["one"]
        return y

    before = dict(held)
    with pytest.raises(InputError, match="puts another tensor in the place of 'one' outside of the module"):
        placewright.compile(Wrapped(swapping), x(), **QUICK)
    assert all(held[name] is before[name] for name in before)


def test_a_tensor_outside_that_is_only_returned_is_watched_too() -> None:
    held = (torch.zeros(16),)
    get, put = in_a_closure()
    own = get()
    with placewright.compile(Wrapped(lambda module, y: (y, get(), held[0])), x(), **QUICK) as compiled:
        result = compiled(x())
        assert result[1] is own
        assert result[2] is held[0]
        put(torch.ones(16))
        with pytest.raises(InputError, match="which forward reads outside of the module, has been replaced"):
            compiled(x())


def test_a_list_of_forwards_own_may_hold_what_stands_outside() -> None:
    shared = torch.ones(16)

    def collected(module: Any, y: torch.Tensor) -> torch.Tensor:
        parts = [shared, y]
        parts[0] = parts[0] * 2
        return parts[0] + parts[1]

    assert_infers_as_the_module(*twins(lambda: Wrapped(collected)))


# What a module assigns in forward.


def test_a_buffer_that_forward_replaces_is_the_new_one_in_the_next_call() -> None:
    def echoed(module: Any, y: torch.Tensor) -> torch.Tensor:
        y = y + module.last
        module.last = y.detach() * 0.5
        return y

    class Echo(Wrapped):
        def __init__(self) -> None:
            super().__init__(echoed)
            self.register_buffer("last", torch.zeros(8, 16))

    assert_infers_as_the_module(*twins(Echo))
    assert_trains_as_the_module(Echo)
    model, reference = twins(Echo)
    with placewright.compile(model, x(), **QUICK) as compiled, torch.no_grad():
        kept = model.last
        compiled(x()), reference.eval()(x())
        assert torch.equal(model.last, reference.last)
        assert not kept.any(), "who holds the old one holds its values"


def counting(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.count += 1
    return y * module.count


def remembering(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.seen.append(y.detach())
    return y


def lazy(module: Any, y: torch.Tensor) -> torch.Tensor:
    if module.mask is None:
        module.mask = torch.ones(16)
    return y * module.mask


KEPT: list[torch.Tensor] = []


def keeping(module: Any, y: torch.Tensor) -> torch.Tensor:
    KEPT.append(y)
    return y


def tossing(module: Any, y: torch.Tensor) -> torch.Tensor:
    return y * random.random()


def tossing_in_numpy(module: Any, y: torch.Tensor) -> torch.Tensor:
    return y * float(np.random.rand())


def seeding(module: Any, y: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return nn.functional.dropout(y, 0.5, training=True)


def forking(module: Any, y: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        return nn.functional.dropout(y, 0.5, training=True)


def hooked(module: Any, y: torch.Tensor) -> torch.Tensor:
    if y.requires_grad:
        y.register_hook(lambda gradient: gradient * 2)
    return y


@pytest.mark.parametrize(
    ("then", "attributes", "sentence"),
    [
        (counting, {"count": 0}, "changes the attribute 'count' from 0 to 1"),
        (remembering, {"seen": []}, r"changes the attribute 'seen.0' from None to a tensor of shape \(8, 16\)"),
        (keeping, {}, r"keeps a tensor of shape \(8, 16\) that it computed in a list"),
        (tossing, {}, "draws from Python's random"),
        (tossing_in_numpy, {}, "draws from numpy.random"),
        (seeding, {}, "seeds PyTorch's generator"),
        (
            lambda module, y: checkpoint(torch.tanh, y, use_reentrant=False, preserve_rng_state=False),
            {},
            "preserve_rng",
        ),
        (forking, {}, "seeds PyTorch's generator"),
        (hooked, {}, r"registers a hook on a tensor \(in test_as_the_module.py:\d+\)"),
    ],
)
def test_what_python_keeps_is_refused_and_nothing_is_kept(
    then: Callable[[Any, torch.Tensor], Any], attributes: dict[str, Any], sentence: str
) -> None:
    model = Wrapped(then, **copy.deepcopy(attributes))
    generators = random.getstate(), torch.get_rng_state()
    with pytest.raises(InputError, match=sentence):
        placewright.compile(model, x(), training=True, **QUICK)
    assert {name: getattr(model, name) for name in attributes} == attributes
    assert random.getstate() == generators[0]
    assert torch.equal(torch.get_rng_state(), generators[1])
    KEPT.clear()


def test_a_module_that_fills_a_cache_in_its_first_call_can_be_compiled_after_it() -> None:
    model, reference = twins(lambda: Wrapped(lazy, mask=None))
    model(x()), reference(x())
    assert_infers_as_the_module(model, reference)


# Gradients.


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(value)
        return (value * 16).round() / 16

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (value,) = ctx.saved_tensors
        return gradient * (value.abs() < 0.5)


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        result = value.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (result,) = ctx.saved_tensors
        return gradient * result


class InPlace(torch.autograd.Function):
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


class Recurrent(nn.Module):
    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.layer = kind(16, 8, 3, dropout=0.3, **options)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.layer(value[:, None].expand(-1, 3, -1))[0]


TRAINED: dict[str, Callable[[], nn.Module]] = {
    "own backward": lambda: Wrapped(lambda module, y: Straight.apply(y)),
    "own backward of its result": lambda: Wrapped(lambda module, y: Exponential.apply(y)),
    "own function in place": lambda: Wrapped(lambda module, y: InPlace.apply(y * 1)),
    "checkpoint with dropout": lambda: Wrapped(
        lambda module, y: checkpoint(lambda v: nn.functional.dropout(v.tanh(), 0.2), y, use_reentrant=False)
    ),
    "reentrant checkpoint": lambda: Wrapped(
        lambda module, y: checkpoint(lambda v: v.tanh() * v, y, use_reentrant=True)
    ),
    "weight normalization": lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(16, 16)), nn.Tanh()),
    "parametrization": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16)), nn.Tanh()),
    "unneeded draw": lambda: Wrapped(lambda module, y: (torch.rand_like(y), nn.functional.dropout(y, 0.5))[1]),
    "part without gradients": lambda: Wrapped(lambda module, y: y * y.detach().abs()),
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.filterwarnings("ignore:.*weight_norm.*", "ignore:.*requires_grad=True.*")
def test_gradients_are_those_of_the_module(name: str) -> None:
    assert_trains_as_the_module(TRAINED[name])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"batch_first": True, "bidirectional": True}])
def test_recurrent_layers_drop_between_their_layers(kind: Any, options: dict[str, Any]) -> None:
    # PyTorch computes their gradients with a kernel of all layers, so that last bits differ.
    assert_trains_as_the_module(lambda: Recurrent(kind, **options), bits=False)


def test_a_frozen_layer_stays_in_the_mode_that_it_is_in() -> None:
    def make() -> nn.Module:
        model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Dropout(0.5)).train()
        model[1].eval()
        return model

    model, reference = twins(make)
    with placewright.compile(model, x(), training=True, **QUICK) as step:
        torch.manual_seed(7)
        loss = step(x())
    torch.manual_seed(7)
    wanted = reference(x()).mean()
    wanted.backward()
    assert torch.equal(loss, wanted.detach())
    assert torch.equal(model[1].running_mean, torch.zeros(16))
    assert torch.equal(model[0].weight.grad, reference[0].weight.grad)


def test_arguments_that_want_a_gradient_get_it() -> None:
    model, reference = twins(lambda: nn.Linear(16, 4))
    ours, other = x().requires_grad_(), x().requires_grad_()
    with placewright.compile(model, ours, training=True, **QUICK) as step:
        for _ in range(2):
            step(ours)
            reference(other).mean().backward()
        assert ours.grad is not None
        assert other.grad is not None
        assert torch.equal(ours.grad, other.grad)
        with pytest.raises(InputError, match="argument 0 was computed from something that wants a gradient"):
            step(ours * 2)


def test_an_argument_that_is_passed_twice_is_one_tensor() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 4)

        def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            return self.linear(one).sum() + other.mean() * (2 if one is other else 3)

    model, reference = twins(Sum)
    ours, its = x().requires_grad_(), x().requires_grad_()
    with placewright.compile(model, (ours, x()), training=True, **QUICK) as step:
        assert torch.equal(step(ours, ours), reference(its, its))
    reference(its, its).backward()
    assert ours.grad is not None
    assert its.grad is not None
    assert torch.equal(ours.grad, its.grad)


def test_layouts_and_gradients_of_arguments_are_planned_for() -> None:
    class Branches(nn.Module):
        def forward(self, value: torch.Tensor) -> torch.Tensor:
            factor = 2.0 if value.is_contiguous() else 3.0
            return value * factor + (1.0 if value.requires_grad else 0.0)

    with placewright.compile(Branches(), x(), **QUICK) as compiled, torch.no_grad():
        for value in (x(), torch.randn(16, 8).t(), x().requires_grad_()):
            assert torch.equal(compiled(value), Branches()(value))


COUNTED = itertools.count(1)


@pytest.mark.parametrize("value", [lambda: next(COUNTED), np.random.default_rng(1).random, random.Random(1).random])
def test_values_that_python_makes_anew_are_refused(value: Callable[[], float]) -> None:
    with pytest.raises(InputError, match="forward does not call the same whenever it runs"):
        placewright.compile(Wrapped(lambda module, y: y * value()), x(), **QUICK)


def with_data_set(tensor: torch.Tensor) -> None:
    tensor.data = tensor.data + 1


@pytest.mark.parametrize(
    "change", [with_data_set, lambda tensor: tensor.set_(torch.ones(3)), lambda tensor: tensor.resize_(2, 2),
               lambda tensor: tensor.untyped_storage().fill_(0)]
)  # fmt: skip
@pytest.mark.parametrize("of", [lambda module, y: module.linear.weight, lambda module, y: y])
def test_a_tensor_that_gets_other_memory_is_refused(
    change: Callable[[torch.Tensor], Any], of: Callable[[Any, torch.Tensor], torch.Tensor]
) -> None:
    def changing(module: Any, y: torch.Tensor) -> torch.Tensor:
        change(of(module, y).detach() if change is not with_data_set else of(module, y))
        return y * 2

    model = Wrapped(changing)
    before = model.linear.weight.clone()
    with pytest.raises(InputError, match=r"gives a tensor other memory, .* \('.*' in test_as_the_module"):
        placewright.compile(model, x(), **QUICK)
    assert torch.equal(model.linear.weight, before)


def test_a_write_to_elements_that_share_memory_is_refused() -> None:
    with pytest.raises(InputError, match="fill_ writes to a tensor whose elements share memory"):
        placewright.compile(Wrapped(lambda module, y: (y[:, :1].expand(8, 4).fill_(7.0), y)[1]), x(), **QUICK)


def test_what_is_returned_twice_is_one_tensor() -> None:
    model = Wrapped(lambda module, y: (y, y))
    with placewright.compile(model, x(), **QUICK) as compiled:
        one, other = compiled(x())
        assert one is other
        with torch.no_grad():
            one, other = compiled(x())
            assert one is other


def test_a_result_of_an_inference_says_that_it_has_no_backward() -> None:
    model = nn.Linear(16, 4)
    with placewright.compile(model, x(), **QUICK) as compiled:
        result = compiled(x())
        assert result.requires_grad == model(x()).requires_grad
        with pytest.raises(InputError, match="keeps nothing for a backward pass"):
            result.sum().backward()
        with torch.no_grad():
            assert not compiled(x()).requires_grad


# Hooks and wrappers.


def pure(*_: Any) -> None:
    """A hook that does nothing; nobody can tell."""


HOOKED: dict[str, tuple[Callable[[nn.Module], Any], str]] = {
    "forward": (lambda model: model[0].register_forward_hook(pure), "'0' has a forward hook"),
    "before forward": (lambda model: model[1].register_forward_pre_hook(pure), "'1' has a forward hook"),
    "backward": (lambda model: model[0].register_full_backward_hook(pure), "'0' has a backward hook"),
    "parameter": (lambda model: model[0].weight.register_hook(pure), "'0.weight' has a hook on its gradient"),
    "accumulated": (
        lambda model: model[0].bias.register_post_accumulate_grad_hook(pure),
        "'0.bias' has a hook on its gradient",
    ),
}


@pytest.mark.parametrize("name", HOOKED)
def test_hooks_are_refused_whenever_they_come(name: str) -> None:
    register, sentence = HOOKED[name]
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
    with placewright.compile(model, x(), training=True, **QUICK) as step:
        step(x())
        handle = register(model)
        with pytest.raises(InputError, match=sentence):
            step(x())
        handle.remove()
        step(x())
    register(model)
    with pytest.raises(InputError, match=sentence):
        placewright.compile(model, x(), training=True, **QUICK)


@pytest.mark.parametrize("training", [False, True])
def test_a_hook_on_all_modules_is_refused_whenever_it_comes(training: bool) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
    with placewright.compile(model, x(), training=training, **QUICK) as compiled:
        compiled(x())
        handle = nn.modules.module.register_module_forward_hook(pure)
        try:
            with pytest.raises(InputError, match="all modules have a hook"):
                compiled(x())
        finally:
            handle.remove()
        compiled(x())


def test_modules_without_code_of_their_own_are_refused() -> None:
    linear = nn.Linear(16, 4).eval()
    exported = torch.export.export(linear, (x(),))
    for model in (exported, torch.jit.script(linear), nn.DataParallel(linear), lambda value: value):
        with pytest.raises(InputError, match=r"cannot be compiled|is a DataParallel"):
            placewright.compile(model, x(), **QUICK)
    with placewright.compile(exported.module(), x(), **QUICK) as compiled, torch.no_grad():
        assert torch.equal(compiled(x()), linear(x()))


# What changes between calls.


def test_a_module_that_has_changed_is_planned_anew() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.0), nn.Linear(16, 4))
    with placewright.compile(model, x(), **QUICK) as compiled, torch.no_grad():
        compiled(x())
        model[2] = nn.Linear(16, 4)
        assert torch.equal(compiled(x()), model.eval()(x()))
        model[0].weight = nn.Parameter(torch.ones(16, 16))
        assert torch.equal(compiled(x()), model(x()))

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.settings = {"shift": 1.0}
            self.factor = 2.0

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            return value * self.factor + self.settings["shift"]

    scaled = Scaled()
    with placewright.compile(scaled, x(), **QUICK) as compiled:
        compiled(x())
        scaled.factor = 3.0
        assert torch.equal(compiled(x()), scaled(x()))
        scaled.settings["shift"] = -1.0
        assert torch.equal(compiled(x()), scaled(x()))


class Slotted:
    """Plain values without a dictionary."""

    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 1.0


FACTOR = 1.0


class Holding(nn.Module):
    """Holds values in every way in which a module may."""

    factor_of_all = 1.0

    def __init__(self, get: Callable[[Any], Any]) -> None:
        super().__init__()
        self.get = get
        self.slotted = Slotted()
        self.array = np.ones(1)
        self.by_name = {"one": 1.0}
        self.zero: Any = 0.0
        self.hidden = [nn.Dropout(0.5).eval()]

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value * self.get(self)


def set_global(_: Any) -> None:
    global FACTOR
    FACTOR = 2.0


# What is read, and how it changes.
HELD: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "global": (lambda model: FACTOR, set_global),
    "attribute of the class": (lambda model: model.factor_of_all, lambda model: setattr(Holding, "factor_of_all", 2.0)),
    "slots": (lambda model: model.slotted.factor, lambda model: setattr(model.slotted, "factor", 2.0)),
    "array": (lambda model: float(model.array[0]), lambda model: model.array.fill(2.0)),
    "key": (
        lambda model: len(next(iter(model.by_name))),
        lambda model: model.by_name.update(three=model.by_name.pop("one")),
    ),
    "sign of a zero": (lambda model: model.zero, lambda model: setattr(model, "zero", -0.0)),
    "type": (lambda model: 2.0 if model.zero is False else 1.0, lambda model: setattr(model, "zero", False)),
    "mode of a module in a list": (lambda model: 1.0 + model.hidden[0].training, lambda model: model.hidden[0].train()),
}


@pytest.mark.parametrize("name", HELD)
def test_whatever_plain_value_forward_reads_is_watched(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    get, change = HELD[name]
    monkeypatch.setattr(Holding, "factor_of_all", 1.0)
    monkeypatch.setitem(globals(), "FACTOR", 1.0)
    model = Holding(get)
    with placewright.compile(model, x(), **QUICK) as compiled:
        before = compiled(x())
        change(model)
        result = model(x())
        assert not torch.equal(before.view(torch.int32), result.view(torch.int32))
        assert torch.equal(compiled(x()).view(torch.int32), result.view(torch.int32))


class Penalty:
    """A loss that is an object, with a number that is none of its business."""

    def __init__(self) -> None:
        self.weight, self.num_calls = 1.0, 0

    def __call__(self, result: torch.Tensor) -> torch.Tensor:
        return self.weighted(result.square().mean())

    def weighted(self, value: torch.Tensor) -> torch.Tensor:
        return value * self.weight


def annealed() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    weight = 1.0

    def anneal() -> None:
        nonlocal weight
        weight = 0.5

    return lambda result: weight * result.square().mean(), anneal


def smoothed() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    criterion, target = nn.CrossEntropyLoss(), torch.arange(8)
    return lambda result: criterion(result, target), lambda: setattr(criterion, "label_smoothing", 0.3)


def criterion_without_dropout() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    criterion = nn.Sequential(nn.Dropout(0.5), nn.Flatten(0), nn.Softmax(0))
    return lambda result: criterion(result).square().sum(), criterion.eval


def hooked_criterion() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    criterion = nn.MSELoss()
    return (
        lambda result: criterion(result, result.detach() * 2),
        lambda: criterion.register_forward_hook(lambda module, args, result: result * 2),
    )


def penalized() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    penalty = Penalty()
    return penalty, lambda: setattr(penalty, "weight", 0.5)


def of_a_method() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    penalty = Penalty()
    return lambda result: partial(penalty.weighted)(result.mean()), lambda: setattr(penalty, "weight", 0.5)


LOSSES = {
    "closure": annealed,
    "attribute of a criterion": smoothed,
    "mode of a criterion": criterion_without_dropout,
    "hook of a criterion": hooked_criterion,
    "attribute of an object": penalized,
    "attribute that a method reads": of_a_method,
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_has_changed_is_planned_anew(name: str) -> None:
    loss, change = LOSSES[name]()
    model = nn.Linear(16, 8)
    with placewright.compile(model, x(), training=True, loss=loss, **QUICK) as step:
        torch.manual_seed(1)
        before = step(x())
        change()
        torch.manual_seed(1)
        result = step(x())
        torch.manual_seed(1)
        assert torch.equal(result, loss(model(x())))
        assert not torch.equal(before, result)


def test_what_a_loss_does_not_read_may_change() -> None:
    penalty = Penalty()
    with placewright.compile(nn.Linear(16, 8), x(), training=True, loss=penalty, **QUICK) as step:
        for _ in range(MAX_PLANS + 2):
            penalty.num_calls += 1
            step(x())


def test_other_strides_of_what_a_module_holds_are_refused() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 1))
    with placewright.compile(model, x(), training=True, **QUICK) as step:
        step(x())
        lying = model[0].weight.data
        model[0].weight.data = lying.t().contiguous().t()
        with pytest.raises(InputError, match=r"'0.weight' is now .* with strides \(1, 16\), .* for strides \(16, 1\)"):
            step(x())
        model[0].weight.data = lying
        step(x())
        # Of one row, whose stride says nothing.
        model[1].weight.data = model[1].weight.data.t().contiguous().t()
        step(x())


class Attention(nn.Module):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(value, value, value)


def test_attention_uses_the_kernels_that_the_caller_allows() -> None:
    model, value = Attention(), torch.randn(2, 4, 33, 16, generator=torch.Generator().manual_seed(1))
    with placewright.compile(model, value, **QUICK) as compiled:
        fused = compiled(value)
        with sdpa_kernel(SDPBackend.MATH):
            result = model(value)
            assert torch.equal(compiled(value), result)
        assert not torch.equal(fused, result)
        assert torch.equal(compiled(value), fused)


class Halved(nn.Module):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value * 0.5


def test_numbers_that_are_too_small_are_zeros_where_they_are_to_the_caller() -> None:
    # The smallest normal number is 1.18e-38.
    model, value = Halved(), torch.full((6, 8), 1.3e-38)
    try:
        for at_first in (False, True):
            assert torch.set_flush_denormal(at_first)
            with placewright.compile(model, value, **QUICK) as compiled:
                for flushes in (at_first, not at_first, at_first):
                    torch.set_flush_denormal(flushes)
                    assert torch.equal(compiled(value) == 0, torch.full((6, 8), flushes))
    finally:
        torch.set_flush_denormal(False)


def test_a_value_that_changes_at_every_call_is_refused_after_some_plans() -> None:
    class Scaled(nn.Module):
        factor = 0

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            return value * self.factor

    scaled = Scaled()
    with placewright.compile(scaled, x(), **QUICK) as compiled:
        for factor in range(MAX_PLANS):
            scaled.factor = factor + 1
            assert torch.equal(compiled(x()), scaled(x()))
        scaled.factor = 0
        with pytest.raises(InputError, match="'factor' of the module changes from call to call"):
            compiled(x())


def test_an_argument_is_known_by_what_it_is() -> None:
    class Held:
        def __init__(self, weight: float) -> None:
            self.weight = torch.tensor(weight)

        def __repr__(self) -> str:
            return "Held()"

    class Takes(nn.Module):
        def forward(self, value: torch.Tensor, held: Any) -> Any:
            return value * held.weight

    with pytest.raises(InputError, match="an argument is a Held, and a plan cannot see what such an object holds"):
        placewright.compile(Takes(), (x(), Held(5.0)), **QUICK)

    class Applies(nn.Module):
        def forward(self, value: torch.Tensor, function: Any, times: Any) -> Any:
            return function(value) * times

    with placewright.compile(Applies(), (x(), torch.tanh, 1), **QUICK) as compiled:
        for function, times in ((torch.tanh, 1), (torch.sin, 1), (torch.sin, 1.5), (torch.sin, True)):
            assert torch.equal(compiled(x(), function, times), function(x()) * times)


# Optimizers.


def test_hooks_of_an_optimizer_are_called_once_a_step_and_never_by_planning() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    calls: list[Any] = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.register_state_dict_pre_hook(lambda *_: calls.append("saved"))
    optimizer.register_load_state_dict_post_hook(lambda *_: calls.append("loaded"))
    with placewright.compile(model, x(), training=True, optimizer=optimizer, **QUICK) as step:
        assert not calls
        assert not optimizer.state
        step(x())
        step(x())
    assert calls == [1, 1]
    optimizer.register_step_pre_hook(lambda *_: None)
    with pytest.raises(InputError, match="the optimizer has a hook before its step"):
        placewright.compile(model, x(), training=True, optimizer=optimizer, **QUICK)


def test_gradients_that_are_there_are_neither_erased_nor_left_out() -> None:
    model = nn.Linear(16, 4)
    model(x()).mean().backward()
    assert model.weight.grad is not None
    before = model.weight.grad.clone()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with placewright.compile(model, x(), training=True, optimizer=optimizer, **QUICK) as step:
        assert torch.equal(model.weight.grad, before)
        with pytest.raises(InputError, match=r"has a gradient already.*optimizer\.zero_grad"):
            step(x())
        assert torch.equal(model.weight.grad, before)
        optimizer.zero_grad()
        step(x())


# The compiled module as a module.


def test_what_is_compiled_is_used_and_copied_as_a_module() -> None:
    model = nn.Sequential(nn.Linear(16, 4), nn.Dropout(0.1))
    with placewright.compile(model, x(), **QUICK) as compiled, torch.no_grad():
        assert compiled.eval() is compiled
        assert not model.training
        assert list(compiled.state_dict()) == ["0.weight", "0.bias"]
        assert [id(each) for each in compiled.parameters()] == [id(each) for each in model.parameters()]
        assert not hasattr(compiled, "nothing_of_the_kind")
        for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
            with other:
                assert torch.equal(other(x()), model(x()))
                assert next(other.parameters()) is not model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with (
        placewright.compile(model, x(), training=True, optimizer=optimizer, **QUICK) as step,
        pytest.raises(InputError, match="copying or pickling"),
    ):
        copy.deepcopy(step)


APPENDED_TO: dict[str, Any] = {"list": [], "dict": {"old": None}, "object": types.SimpleNamespace(last=None)}
LAST: Any = None


def _keep_in_global(value: torch.Tensor) -> None:
    global LAST
    LAST = value


@pytest.mark.parametrize(
    "keep",
    [
        lambda value: APPENDED_TO["list"].append(value),
        lambda value: APPENDED_TO["dict"].update(old=value, new=value),
        lambda value: setattr(APPENDED_TO["object"], "last", value),
        _keep_in_global,
    ],
)
def test_a_refusal_leaves_no_tensor_of_its_own_outside_of_the_module(keep: Callable[[torch.Tensor], None]) -> None:
    def then(_: Any, value: torch.Tensor) -> torch.Tensor:
        keep(value)
        return value * 2

    with pytest.raises(InputError, match="outside of the module"):
        placewright.compile(Wrapped(then), x(), **QUICK)
    assert dict(APPENDED_TO) == {"list": [], "dict": {"old": None}, "object": types.SimpleNamespace(last=None)}
    assert LAST is None


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

    def then(_: Any, value: torch.Tensor) -> torch.Tensor:
        given = act(value)
        return value * 2 if given is None else given

    sentence = f"^the op {re.escape(op)} does something beside computing its results"
    with pytest.raises(InputError, match=sentence):
        placewright.compile(Wrapped(then), x(), **QUICK)
    with pytest.raises(InputError, match=sentence), torch.no_grad():
        torch.compile(Wrapped(then), backend="placewright", options=QUICK)(x())
    assert CALLS == []


def test_a_region_with_a_name_for_profilers_runs() -> None:
    def then(_: Any, value: torch.Tensor) -> torch.Tensor:
        with torch.profiler.record_function("doubled"):
            return value * 2

    model = Wrapped(then)
    with placewright.compile(model, x(), **QUICK) as compiled, torch.no_grad():
        assert torch.equal(compiled(x()), model(x()))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a tensor", lambda module, value: value.unsqueeze_(0)[0]),
        ("'turned'", lambda module, value: value + module.turned.t_().sum(0)),
        ("'kept.0'", lambda module, value: value + module.kept[0].transpose_(0, 1).sum(0)),
    ],
)
def test_another_shape_in_place_of_what_outlives_the_call_is_refused(
    name: str, change: Callable[[Any, torch.Tensor], torch.Tensor], training: bool
) -> None:
    class Turning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)
            self.register_buffer("turned", torch.ones(16, 16))
            self.kept = [torch.ones(16, 16)]

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.linear(change(self, value))
            return result

    sentence = f"^forward changes the shape or the strides of {name} in place"
    with pytest.raises(InputError, match=sentence):
        placewright.compile(Turning(), x(), training=training, **QUICK)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_around_statistics_is_refused_in_training(reentrant: bool) -> None:
    """PyTorch updates them twice in a step."""
    norm = nn.BatchNorm1d(16)

    def then(_: Any, value: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = checkpoint(norm, value, use_reentrant=reentrant)
        return found

    model = Wrapped(then, norm=norm)
    with pytest.raises(InputError, match=r"^forward has a checkpoint around code that writes to"):
        placewright.compile(model, x(), training=True, **QUICK)
    model.eval()
    with placewright.compile(model, x(), **QUICK) as compiled, torch.no_grad():
        assert torch.equal(compiled(x()), model(x()))


class Doubling(torch.Tensor):
    """A tensor whose sums are twice as large."""

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call, and a sum once more."""
        found = super().__torch_function__(function, kinds, args, kwargs or {})
        return found * 2 if function is torch.Tensor.add else found


@pytest.mark.parametrize("where", ["an argument", "a parameter", "a global"])
def test_tensors_with_rules_of_their_own_are_refused(where: str) -> None:
    given = x().as_subclass(Doubling)

    def then(module: Any, value: torch.Tensor) -> torch.Tensor:
        return value + (given.add(1) if where == "a global" else 1)

    model = Wrapped(then)
    if where == "a parameter":
        model.scale = nn.Parameter(given)
    with pytest.raises(InputError, match=r"^a Doubling is among the tensors that forward reads"):
        placewright.compile(model, given if where == "an argument" else x(), **QUICK)


def in_double(_: Any, value: torch.Tensor) -> torch.Tensor:
    torch.set_default_dtype(torch.float64)
    try:
        return value + torch.rand(16)
    finally:
        torch.set_default_dtype(torch.float32)


def deterministic(_: Any, value: torch.Tensor) -> torch.Tensor:
    torch.use_deterministic_algorithms(True)
    try:
        return value * 2
    finally:
        torch.use_deterministic_algorithms(False)


def with_its_gradient(module: Any, value: torch.Tensor) -> torch.Tensor:
    gradient = module.linear.weight.grad
    return value if gradient is None else value + gradient.sum()


def without_its_gradient(module: Any, value: torch.Tensor) -> torch.Tensor:
    module.linear.weight.grad = None
    return value * 2


@pytest.mark.parametrize(
    ("then", "sentence"),
    [
        (in_double, r"^forward changes PyTorch's default dtype"),
        (deterministic, r"^forward changes PyTorch's default dtype or its choice of deterministic algorithms"),
        (with_its_gradient, r"^forward reads or sets the gradient of a tensor that outlives the call"),
        (without_its_gradient, r"^forward reads or sets the gradient of a tensor that outlives the call"),
    ],
)
def test_what_forward_reads_or_sets_beside_tensors_is_refused(
    then: Callable[[Any, torch.Tensor], torch.Tensor], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        placewright.compile(Wrapped(then), x(), training=True, **QUICK)


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: [x()], lambda given, value: given.append(value)),
        (lambda: [x(), x(2)], lambda given, _: given.pop()),
        (lambda: {0: x()}, lambda given, value: given.update({0: value})),
    ],
)
def test_an_argument_that_holds_something_else_afterwards_is_refused(
    make: Callable[[], Any], change: Callable[[Any, torch.Tensor], Any]
) -> None:
    class Changing(nn.Module):
        def forward(self, given: Any) -> torch.Tensor:
            value: torch.Tensor = given[0] * 2
            change(given, value)
            return value

    with pytest.raises(InputError, match=r"^forward changes what a list or a dict among its arguments holds"):
        placewright.compile(Changing(), (make(),), **QUICK)


class Registered(nn.Module):
    """With a table of the class, a logger and a counter beside it, which forward reads nothing of."""

    registry: ClassVar[dict[int, int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 8)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(value)
        LOGGER.debug("the result has the shape %s", result.shape)
        return result


LOGGER = logging.getLogger("a module's own")


def test_what_changes_beside_forward_makes_no_plan_anew() -> None:
    model, losses = Registered(), []

    def loss(result: torch.Tensor) -> torch.Tensor:
        return result.square().mean()

    with placewright.compile(model, x(), training=True, loss=loss, **QUICK) as step:
        for number in range(MAX_PLANS + 2):
            losses.append(float(step(x())))
            Registered.registry[number] = number
            LOGGER.isEnabledFor(logging.INFO)
            LOGGER.setLevel(logging.INFO if number % 2 else logging.WARNING)
            before = step._made.copy()
            step.prepare(x())
            assert list(step._made.values()) == list(before.values())
