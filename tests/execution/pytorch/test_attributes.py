"""Attributes that forward assigns hold after a planned call what they hold after a call of the module."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import placewright
from placewright.execution.devices import available_cores
from placewright.support.errors import InputError

QUICK: dict[str, Any] = {"devices": "cpu:0", "evaluations": 1}


@pytest.fixture(autouse=True)
def _as_many_threads_as_the_device() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(len(available_cores()))
    yield
    torch.set_num_threads(before)


class Remembering(nn.Module):
    """A linear layer, and a function of it and its input that may set the attribute `kept`."""

    def __init__(self, then: Callable[[Any, torch.Tensor], torch.Tensor], kept: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.then, self.kept = then, kept

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.then(self, self.linear(x))


def mask(module: Any, y: torch.Tensor) -> torch.Tensor:
    if module.kept is None:
        module.kept = torch.ones(4) * 2
    return y * module.kept


def mask_of_each_length(module: Any, y: torch.Tensor) -> torch.Tensor:
    if len(y) not in module.kept:
        module.kept[len(y)] = module.linear.weight.detach().sum(0)
    return y * module.kept[len(y)]


def pair(module: Any, y: torch.Tensor) -> torch.Tensor:
    if module.kept is None:
        module.kept = (torch.arange(4.0), 3)
    return y * module.kept[0] * module.kept[1]


def appended_once(module: Any, y: torch.Tensor) -> torch.Tensor:
    if not module.kept:
        module.kept.append(torch.ones(4) * 3)
    return y * module.kept[0]


def doubled_at_first(module: Any, y: torch.Tensor) -> torch.Tensor:
    first, module.kept = not module.kept, True
    return y * 2 if first else y


def pyramid(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.kept = [y, y * 2]
    return module.kept[1] + 1


def state(module: Any, y: torch.Tensor) -> torch.Tensor:
    y = y + module.kept[0]
    module.kept = (y.detach(),)
    return y


ASSIGNED: dict[str, tuple[Callable[[Any, torch.Tensor], torch.Tensor], Any]] = {
    "mask": (mask, None),
    "mask of each length": (mask_of_each_length, {}),
    "pair": (pair, None),
    "appended once": (appended_once, []),
    "doubled at first": (doubled_at_first, False),
    "pyramid": (pyramid, []),
    "state": (state, (torch.zeros(3, 4),)),
}


def assert_same(one: Any, other: Any) -> None:
    one, other = tree_leaves(one), tree_leaves(other)
    assert len(one) == len(other)
    for mine, theirs in zip(one, other, strict=True):
        assert torch.equal(mine, theirs) if isinstance(mine, torch.Tensor) else mine == theirs


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ASSIGNED)
def test_they_are_those_of_the_module(name: str, training: bool) -> None:
    then, kept = ASSIGNED[name]
    model = Remembering(then, copy.deepcopy(kept)).train(training)
    reference = copy.deepcopy(model)
    batches = torch.randn(4, 3, 4, generator=torch.Generator().manual_seed(1))
    with placewright.compile(model, batches[0], training=training, **QUICK) as compiled:
        assert_same(model.kept, kept)
        for batch in batches:
            found, expected = compiled(batch), reference(batch)
            if training:
                (expected := expected.mean()).backward()
                assert_same(model.linear.weight.grad, reference.linear.weight.grad)
            assert_same(found, expected)
            assert_same(model.kept, reference.kept)


def test_what_is_assigned_says_that_it_has_no_backward() -> None:
    model = Remembering(pyramid, [])
    with placewright.compile(model, torch.ones(3, 4), training=True, **QUICK) as compiled:
        compiled(torch.ones(3, 4))
    with pytest.raises(InputError, match="keeps nothing for a backward pass"):
        model.kept[0].sum().backward()


def put_twice(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.kept = {"one": y, "own": module.kept["own"], "other": y}
    return y


def swapped(module: Any, y: torch.Tensor) -> torch.Tensor:
    y = y + module.kept[0]
    module.kept = (module.kept[1], module.kept[0])
    return y


@pytest.mark.parametrize("training", [False, True])
def test_what_stands_in_two_places_is_one_tensor(training: bool) -> None:
    own = torch.zeros(4)
    model = Remembering(put_twice, {"one": None, "own": own, "other": None}).train(training)
    with placewright.compile(model, torch.ones(3, 4), training=training, **QUICK) as compiled:
        result = compiled(torch.ones(3, 4))
    assert model.kept["one"] is model.kept["other"]
    assert model.kept["own"] is own
    assert training or result is model.kept["one"]


def test_tensors_of_the_module_that_change_places_stay_what_they_are() -> None:
    one, other = torch.zeros(4), torch.ones(4)
    model = Remembering(swapped, (one, other))
    with placewright.compile(model, torch.ones(3, 4), **QUICK) as compiled, torch.no_grad():
        for kept in ((other, one), (one, other)):
            compiled(torch.ones(3, 4))
            assert all(found is wanted for found, wanted in zip(model.kept, kept, strict=True))


def holding_a_parameter(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.kept = (module.linear.weight,)
    return y


def test_a_parameter_in_an_attribute_that_training_assigns_is_refused() -> None:
    with pytest.raises(InputError, match=r"puts a parameter, or an argument .* into the attribute 'kept'"):
        placewright.compile(Remembering(holding_a_parameter, ()), torch.ones(3, 4), training=True, **QUICK)


def switching(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.linear.train(not module.linear.training)
    return y


def counting(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.kept += 1
    return y * module.kept


def growing(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.kept = y if module.kept is None else torch.cat([module.kept, y])
    return y


def forgetting(module: Any, y: torch.Tensor) -> torch.Tensor:
    module.kept.pop("once", None)
    return y


@pytest.mark.parametrize(
    ("then", "kept", "sentence"),
    [
        (switching, None, "changes the attribute 'linear.training' from False to True"),
        (counting, 0, "changes the attribute 'kept' from 0 to 1, and another time at the next call"),
        (growing, None, "changes the attribute 'kept' from None to a tensor.*, and another time at the next call"),
        (forgetting, {"once": 1}, "changes the attribute 'kept.once' from 1 to nothing"),
    ],
)
def test_what_is_another_value_at_each_call_is_refused(
    then: Callable[[Any, torch.Tensor], torch.Tensor], kept: Any, sentence: str
) -> None:
    model = Remembering(then, copy.deepcopy(kept)).eval()
    with pytest.raises(InputError, match=sentence):
        placewright.compile(model, torch.ones(3, 4), **QUICK)
    assert model.kept == kept
