"""Capturing a module keeps all that it could change silently, or refuses the module in one sentence."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch_modules import QUICK, Wrapped, batch, differences_from_eager

import placewright
from placewright.support.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread_for_an_op")
ONE = {**QUICK, "devices": "cpu:0"}


def through_the_backend(module: nn.Module, **options: Any) -> Any:
    torch.compiler.reset()
    return torch.compile(module, backend="placewright", options=ONE, **options)


# Gradients that forward switches on or asks for, sparse arguments.


def returned_twice(module: Any, value: torch.Tensor) -> Any:
    with torch.enable_grad():
        module.last = module.linear(value)
    return module.last, {"again": module.last, "weight": module.linear.weight}


def asking(module: Any, value: torch.Tensor) -> Any:
    result = module.linear(value)
    answers = (module.linear.weight.is_leaf, result.requires_grad, result.grad_fn is not None, result.is_leaf)
    return result * (1 + sum(2**place for place, answer in enumerate(answers) if answer))


FUNCTIONS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "enable_grad, returned twice": returned_twice,
    "questions": asking,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_in_forward_are_those_of_eager(name: str) -> None:
    for training in (False, True):
        assert differences_from_eager(lambda: Wrapped(FUNCTIONS[name]), training=training, **ONE) == []


def test_a_second_derivative_of_what_is_planned_is_refused_in_a_sentence() -> None:
    def penalized(module: Any, value: torch.Tensor) -> Any:
        place = value.detach().requires_grad_()
        (force,) = torch.autograd.grad(module.linear(place).tanh().sum(), place, create_graph=True)
        return force.square().sum()

    with placewright.compile(Wrapped(penalized), batch(), training=True, **ONE) as step, pytest.raises(InputError):
        step(batch())


def test_a_sparse_argument_is_one() -> None:
    module = Wrapped(lambda module, value, matrix: torch.sparse.mm(matrix, value)).eval()
    given = batch(), torch.eye(8).to_sparse()
    with torch.no_grad(), placewright.compile(module, given, **ONE) as compiled:
        assert torch.equal(compiled(*given), module(*given))


class Counting(torch.autograd.Function):
    """Adds up the gradients that pass."""

    @staticmethod
    def forward(ctx: Any, value: Any, total: Any) -> Any:
        ctx.total = total
        return value * 1.0

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        ctx.total.mul_(0.9).add_(gradient.abs().max())
        return gradient, None


def test_a_backward_that_writes_to_a_buffer_is_refused() -> None:
    module = Wrapped(lambda module, value: Counting.apply(value, module.total).square().mean())
    module.register_buffer("total", torch.zeros(()))
    sentence = "writes to a tensor that it has not made"
    with placewright.compile(module, batch(), training=True, **ONE) as step, pytest.raises(InputError, match=sentence):
        step(batch())
    with pytest.raises(Exception, match=sentence):
        through_the_backend(module)(batch()).backward()
    assert module.total == 0


# Ops that the tracer takes for one another.

DRAWS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "bernoulli": lambda module, value: torch.bernoulli(value, 0.3),
    "method": lambda module, value: value.bernoulli(0.3),
    "in place": lambda module, value: value.clone().bernoulli_(0.3),
    "of a view": lambda module, value: value.clone().t().bernoulli_(0.3).t(),
    "by its values": lambda module, value: torch.bernoulli(value.sigmoid()),
    "dropout in place": lambda module, value: nn.functional.dropout(value.clone().mT, 0.5, True, inplace=True).mT,
    "alpha dropout": lambda module, value: nn.functional.alpha_dropout(value.mT, 0.5, True).mT,
    "whole numbers": lambda module, value: value.clone().random_(0, 9),
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_drawn_in_the_order_in_which_the_module_draws_them(name: str) -> None:
    module = Wrapped(lambda module, _, value: DRAWS[name](module, value) * module.linear.bias[:6].exp()).eval()
    given = batch(), torch.rand(6, 8).t()
    assert not given[1].is_contiguous()
    with torch.no_grad(), placewright.compile(module, given, **ONE) as planned:
        results = []
        for run in (module, planned, through_the_backend(module), through_the_backend(module, dynamic=True)):
            torch.manual_seed(1)
            results.append(run(*given))
    assert all(torch.equal(result, results[0]) for result in results)


VALUES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "eigh": lambda matrix: torch.linalg.eigh(matrix @ matrix.t())[0],
    "eigvalsh": lambda matrix: torch.linalg.eigvalsh(matrix @ matrix.t()),
    "svd": lambda matrix: torch.linalg.svd(matrix)[1],
    "svdvals": lambda matrix: torch.linalg.svdvals(matrix),
    "norm": lambda matrix: torch.linalg.matrix_norm(matrix, 2),
    "nuclear": lambda matrix: torch.linalg.matrix_norm(matrix, "nuc"),
    "cond": lambda matrix: torch.linalg.cond(matrix),
    "rank": lambda matrix: torch.linalg.matrix_rank(matrix) * matrix.sum(),
    "eigvals": lambda matrix: torch.linalg.eigvals((matrix @ matrix.t()).detach()).real * matrix.sum(),
    "pinv": lambda matrix: torch.linalg.pinv(matrix @ matrix.t(), hermitian=True),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_found_by_the_algorithm_that_the_module_takes(name: str) -> None:
    def made() -> nn.Module:
        return Wrapped(lambda module, value: VALUES[name](value))

    for training in (False, True):
        assert differences_from_eager(made, [(batch(),)], training=training, **ONE) == []
    module = made()
    with torch.no_grad():
        assert torch.equal(through_the_backend(module)(batch()), module(batch()))


def test_a_class_that_is_none_is_an_error_as_in_the_module() -> None:
    module = Wrapped(lambda module, _, classes: nn.functional.one_hot(classes, 5) * module.linear.bias[0]).eval()
    classes = torch.tensor([[0, 4], [3, 1]])
    with torch.no_grad(), placewright.compile(module, (batch(), classes), **ONE) as planned:
        for run in (planned, through_the_backend(module)):
            assert torch.equal(run(batch(), classes), module(batch(), classes))
            for wrong in (classes + 3, classes - 1):
                with pytest.raises(RuntimeError, match=r"out of bounds|Class values"):
                    run(batch(), wrong)
