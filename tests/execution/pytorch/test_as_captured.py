"""What capturing a module could change silently is as in the module itself, or it is refused in one sentence."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import placewright
from placewright.support.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread_for_an_op")
QUICK: dict[str, Any] = {"devices": "cpu:0", "evaluations": 1, "solver": "list"}


def x(seed: int = 1) -> torch.Tensor:
    return torch.randn(6, 8, generator=torch.Generator().manual_seed(seed))


class Wrapped(nn.Module):
    """A function of a linear layer with a buffer, and of what it is called with."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("total", torch.zeros(()))
        self.function = function

    def forward(self, *values: Any) -> Any:
        return self.function(self, *values)


def compiled(module: nn.Module, *values: Any, **options: Any) -> Any:
    return placewright.compile(module, values, **{**QUICK, **options})


def through_the_backend(module: nn.Module) -> Any:
    torch._dynamo.reset()
    return torch.compile(module, backend="placewright", options=QUICK)


# Gradients that forward switches on.


def with_gradients(module: Any, value: torch.Tensor) -> Any:
    with torch.enable_grad():
        return module.linear(value)


def returned_twice(module: Any, value: torch.Tensor) -> Any:
    result = with_gradients(module, value)
    return result, {"again": result, "weight": module.linear.weight, "row": module.linear.weight[0]}


def forces(module: Any, value: torch.Tensor) -> Any:
    with torch.enable_grad():
        place = value.detach().requires_grad_()
        energy = module.linear(place).tanh().sum()
        (force,) = torch.autograd.grad(energy, place, create_graph=True)
    return energy, force


def assigned(module: Any, value: torch.Tensor) -> Any:
    module.last = with_gradients(module, value)
    return module.last * 2


@pytest.mark.parametrize("function", [with_gradients, returned_twice, forces, assigned])
def test_an_inference_that_switches_gradients_on_trains_nothing(function: Callable[..., Any]) -> None:
    module = Wrapped(function).eval()
    module.last = torch.zeros(6, 8)
    reference = copy.deepcopy(module)
    with compiled(module, x()) as plan:
        for seed in range(2):
            found, wanted = plan(x(seed)), reference(x(seed))
            leaves, others = (torch.utils._pytree.tree_leaves(each) for each in (found, wanted))
            assert all(map(torch.equal, leaves, others))
            assert torch.equal(module.last, reference.last)
            with torch.no_grad():
                plan(x(seed))
    assert all(parameter.grad is None for parameter in module.parameters())


def test_an_inference_that_writes_what_wants_a_gradient_is_refused() -> None:
    def writing(module: Any, value: torch.Tensor) -> Any:
        with torch.enable_grad():
            module.total.add_(module.linear(value).sum())
        return module.total + 1

    with pytest.raises(InputError, match="writes what wants a gradient"):
        compiled(Wrapped(writing).eval(), x())


# What a backward of one's own does.


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
    module = Wrapped(lambda module, value: Counting.apply(module.linear(value), module.total).square().mean())
    with pytest.raises(InputError, match="writes to a tensor that it has not made"):
        compiled(module, x(), training=True)
    with pytest.raises(Exception, match="writes to a tensor that it has not made"):
        through_the_backend(module)(x()).backward()
    assert module.total == 0


# Ops that the tracer takes for one another.

DRAWS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "bernoulli": lambda module, value: torch.bernoulli(value, 0.3),
    "method": lambda module, value: value.bernoulli(0.3),
    "in place": lambda module, value: value.clone().bernoulli_(0.3),
    "of a view": lambda module, value: value.clone().t().bernoulli_(0.3).t(),
    "by its values": lambda module, value: torch.bernoulli(value.sigmoid()),
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_drawn_in_the_order_in_which_the_module_draws_them(name: str) -> None:
    module = Wrapped(lambda module, value: DRAWS[name](module, value) * module.linear.bias[:6].exp())
    value = torch.rand(6, 8).t()
    assert not value.is_contiguous()
    backend = through_the_backend(module)
    open_sizes = torch.compile(module, backend="placewright", options=QUICK, dynamic=True)
    with torch.no_grad(), compiled(module.eval(), value) as plan:
        results = []
        for run in (module, plan, backend, open_sizes):
            torch.manual_seed(1)
            results.append(run(value))
    assert all(torch.equal(result, results[0]) for result in results)


VALUES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "eigh": lambda matrix: torch.linalg.eigh(matrix @ matrix.t())[0],
    "eigvalsh": lambda matrix: torch.linalg.eigvalsh(matrix @ matrix.t()),
    "svd": lambda matrix: torch.linalg.svd(matrix)[1],
    "svdvals": lambda matrix: torch.linalg.svdvals(matrix),
    "norm": lambda matrix: torch.linalg.matrix_norm(matrix, 2),
    "nuclear": lambda matrix: torch.linalg.matrix_norm(matrix, "nuc"),
    "cond": lambda matrix: torch.linalg.cond(matrix),
    "rank": lambda matrix: torch.linalg.matrix_rank(matrix),
    "eig": lambda matrix: torch.linalg.eig((matrix @ matrix.t()).detach())[0].real,
    "eigvals": lambda matrix: torch.linalg.eigvals((matrix @ matrix.t()).detach()).real,
    "pinv": lambda matrix: torch.linalg.pinv(matrix @ matrix.t(), hermitian=True),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_found_by_the_algorithm_that_the_module_takes(name: str) -> None:
    for module in (
        Wrapped(lambda module, value: VALUES[name](value)),
        Wrapped(lambda module, value: VALUES[name](module.linear(value))),
    ):
        with torch.no_grad(), compiled(module.eval(), x()) as plan:
            wanted = module(x())
            assert torch.equal(plan(x()), wanted)
            assert torch.equal(through_the_backend(module)(x()), wanted)
    wanted = module(x())
    if wanted.requires_grad:
        (wanted.sum()).backward()
        with compiled(copy.deepcopy(module).train(), x(), training=True, loss=torch.sum) as step:
            assert torch.equal(step(x()), wanted.sum())
            assert torch.equal(step.linear.weight.grad, module.linear.weight.grad)


# What is around forward, and what it asks about the tracer.


def in_halves() -> Any:
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.half(), lambda tensor: tensor.float())


def test_hooks_on_what_autograd_saves_are_refused_in_training() -> None:
    def hooked(module: Any, value: torch.Tensor) -> Any:
        with in_halves():
            return module.linear(value).tanh()

    with pytest.raises(InputError, match=r"^saved_tensors_hooks"):
        compiled(Wrapped(hooked), x(), training=True)
    module = Wrapped(lambda module, value: module.linear(value).tanh())
    with in_halves(), pytest.raises(InputError, match=r"^saved_tensors_hooks"):
        compiled(module, x(), training=True)
    with compiled(module, x(), training=True) as step, in_halves(), pytest.raises(InputError, match=r"^saved_tensors"):
        step(x())
    assert module.linear.weight.grad is None
    with in_halves(), compiled(Wrapped(hooked).eval(), x()) as plan:
        assert plan(x()).shape == (6, 8)


@pytest.mark.parametrize("asks", [torch.compiler.is_exporting, torch.compiler.is_compiling])
def test_code_that_does_something_else_when_it_is_exported_is_refused(asks: Callable[[], bool]) -> None:
    def asking(module: Any, value: torch.Tensor) -> Any:
        if not asks() and bool((value > 0).all()):
            return module.linear(value) * 2
        return module.linear(value)

    with pytest.raises(InputError, match=r"for which it asks in test_as_captured\.py"):
        compiled(Wrapped(asking).eval(), x())
    assert placewright.from_torch(Wrapped(asking).eval(), x()).ops


class Asking(torch.autograd.Function):
    """Computes something else where nobody wants a gradient."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value * (2 if ctx.needs_input_grad[0] else 3)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * (2 if ctx.needs_input_grad[0] else 3)


QUESTIONS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "is_leaf": lambda module, value: module.linear(value) * (2 if module.linear.weight.is_leaf else 3),
    "requires_grad": lambda module, value: module.linear(value) * (2 if module.linear(value).requires_grad else 3),
    "grad_fn": lambda module, value: module.linear(value) * (2 if module.linear(value).grad_fn is not None else 3),
    "is_leaf of a result": lambda module, value: module.linear(value) * (2 if module.linear(value).is_leaf else 3),
    "needs_input_grad": lambda module, value: Asking.apply(module.linear(value)),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_that_the_tracer_answers_otherwise_are_refused(name: str) -> None:
    module = Wrapped(QUESTIONS[name])
    with pytest.raises(InputError, match=rf"^forward asks for {name.split()[0]} \(in test_as_captured\.py"):
        compiled(module.eval(), x())
    assert "needs_input_grad" not in vars(torch.autograd.function.BackwardCFunction)
    reference = copy.deepcopy(module).train()
    wanted = reference(x()).mean()
    wanted.backward()
    if name == "is_leaf":  # Of a parameter, which is none while it is traced.
        with pytest.raises(InputError, match=r"^forward asks for is_leaf"):
            compiled(module.train(), x(), training=True)
        return
    with compiled(module.train(), x(), training=True) as step:
        assert torch.equal(step(x()), wanted)
    assert torch.equal(module.linear.weight.grad, reference.linear.weight.grad)


# What was refused by a sentence about something else, or not at all.

TRANSFORMS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "vmap": lambda module, value: torch.vmap(lambda row: module.linear(row).tanh() * row.sum())(value),
    "grad": lambda module, value: torch.func.grad(lambda rows: module.linear(rows).tanh().sum())(value),
    "jacrev": lambda module, value: torch.func.jacrev(lambda row: module.linear(row).tanh())(value[0]),
    "jvp": lambda module, value: torch.func.jvp(lambda rows: module.linear(rows).tanh(), (value,), (value,))[1],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functions_are_planned(name: str) -> None:
    module = Wrapped(TRANSFORMS[name])
    reference = copy.deepcopy(module)
    with torch.no_grad(), compiled(module.eval(), x()) as plan:
        assert torch.equal(plan(x()), reference(x()))
    wanted = reference(x()).square().mean()
    wanted.backward()
    with compiled(module.train(), x(), training=True, loss=lambda output: output.square().mean()) as step:
        assert torch.equal(step(x()), wanted)
    assert torch.equal(module.linear.weight.grad, reference.linear.weight.grad)


def wants_a_gradient(module: Any, value: torch.Tensor) -> Any:
    value.requires_grad_()
    return module.linear(value)


def freezes(module: Any, value: torch.Tensor) -> Any:
    module.linear.weight.requires_grad = False
    return module.linear(value)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (wants_a_gradient, r"^forward sets requires_grad of a tensor that outlives the call"),
        (freezes, r"^forward sets requires_grad of a tensor that outlives the call"),
        (lambda module, value: value.clone().random_(0, 9) * module.linear.bias, r"^random_ draws between two bounds"),
    ],
)
def test_what_a_plan_would_not_do_is_refused_in_a_sentence(function: Callable[..., Any], sentence: str) -> None:
    module = Wrapped(function)
    with pytest.raises(InputError, match=sentence):
        compiled(module.eval(), x())
    assert module.linear.weight.requires_grad


def test_sparse_arguments_and_scripted_parts_are_refused() -> None:
    module = Wrapped(lambda module, value, matrix: torch.sparse.mm(matrix, module.linear(value)))
    with pytest.raises(InputError, match=r"^an argument has the layout sparse_coo"):
        compiled(module.eval(), x(), torch.eye(6).to_sparse())
    module.part = torch.jit.script(nn.Linear(8, 8))
    with pytest.raises(InputError, match=r"^the module 'part' is a TorchScript module"):
        compiled(module, x(), torch.eye(6))


def test_a_class_that_is_none_is_an_error_as_in_the_module() -> None:
    module = Wrapped(lambda module, classes: nn.functional.one_hot(classes, 5) * module.linear.bias[0]).eval()
    classes = torch.tensor([[0, 4], [3, 1]])
    with torch.no_grad(), compiled(module, classes) as plan:
        for run in (plan, through_the_backend(module)):
            assert torch.equal(run(classes), module(classes))
            for wrong in (classes + 3, classes - 1):
                with pytest.raises(RuntimeError, match=r"out of bounds|Class values"):
                    run(wrong)
