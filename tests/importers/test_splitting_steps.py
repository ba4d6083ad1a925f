"""Training steps whole and with stretches in parts: the same results, gradients and buffers, or nothing is offered."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch importer needs PyTorch")

from random_steps import Step  # noqa: E402
from torch import fx, nn  # noqa: E402
from torch._functorch import aot_autograd  # noqa: E402
from torch._functorch._aot_autograd import descriptors  # noqa: E402
from torch.autograd import Function  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from placewright.importers.torch import dropout  # noqa: E402
from placewright.importers.torch.front import trace_joint  # noqa: E402
from placewright.importers.torch.splitting.choices import Choice, borders_of, choices, divided  # noqa: E402
from placewright.importers.torch.splitting.stretch import stretch_from  # noqa: E402

#: Units in the last place of the largest value, or of 1, by which a result may differ.
ULPS = 2**10

#: A step, what it runs with, and which placeholders are its inputs.
Captured = tuple[fx.Graph, list[Any], list[fx.Node]]


def joint_of(model: nn.Module, args: Sequence[Any]) -> Captured:
    """Capture a step as PyTorch compiles it: each result has a gradient of its own, none of which is 1."""
    with contextlib.ExitStack() as stack:
        graph = aot_autograd.aot_export_joint_with_descriptors(stack, model, tuple(args)).graph_module.graph
    held = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    generator = torch.Generator().manual_seed(7)
    values, inputs = [], []
    for node in graph.find_nodes(op="placeholder"):
        described, value = node.meta["desc"], node.meta["val"]
        if isinstance(described, descriptors.PlainAOTInput):
            inputs.append(node)
            values.append(args[described.idx])
        elif isinstance(described, descriptors.TangentAOTInput):
            drawn = torch.randn(value.shape, generator=generator, dtype=value.dtype)
            values.append(drawn if value.dim() else torch.full_like(drawn, 0.37))
        else:
            values.append(held[described.target].detach())
    return graph, values, inputs


def captured(model: nn.Module, args: Sequence[Any]) -> Captured:
    """Capture a step as for a plan: only the loss has a gradient."""
    joint = trace_joint(model, args, {}, training=True, loss=None)
    held = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    values, inputs = [], []
    for node in joint.graph.find_nodes(op="placeholder"):
        name, role = joint.source_of(node.meta["desc"]) or ("", "seed")
        if role == "seed":
            values.append(torch.full(node.meta["val"].shape, 0.37, dtype=node.meta["val"].dtype))
        elif role == "input":
            inputs.append(node)
            values.append(args[int(name.rsplit(".")[-1])])
        else:
            values.append(held[name].detach())
    return joint.graph, values, inputs


class Dense(fx.Interpreter):
    """Runs a graph with no tensor that has gaps or other strides."""

    def run_node(self, node: fx.Node) -> Any:
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, super().run_node(node))


def run(graph: fx.Graph, values: Sequence[Any], runner: Any = fx.Interpreter) -> list[Any]:
    """All results, and what is left in the tensors that it runs with."""
    torch.manual_seed(3)
    module = fx.GraphModule(graph.owning_module or nn.Module(), graph)
    values = [value.clone() for value in values]
    return [*runner(module).run(*values, enable_io_processing=False), *values]


def runner_of(graph: fx.Graph, values: Sequence[Any]) -> Any:
    """Return the interpreter that runs a step as eager does. Kernels do not always make the strides that PyTorch
    traces; then a view fails, or the backward of a group norm reads other values."""
    dense = run(graph, values, Dense)
    with contextlib.suppress(RuntimeError):
        if difference(dense, run(graph, values)) is None:
            return fx.Interpreter
    return Dense


def difference(whole: Sequence[Any], parts: Sequence[Any]) -> str | None:
    """Describe the first result that differs by more than rounding, or return None."""
    for place, (one, other) in enumerate(zip(whole, parts, strict=True)):
        if one is None and other is None:
            continue
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"result {place}: {other.dtype}{list(other.shape)} instead of {one.dtype}{list(one.shape)}"
        if not one.is_floating_point():
            if not torch.equal(one, other):
                return f"result {place}: other integers"
            continue
        finite = one[one.isfinite()].abs()
        bound = ULPS * torch.finfo(one.dtype).eps * max(1.0, finite.max().item() if finite.numel() else 0)
        if not torch.allclose(one, other, rtol=0, atol=bound, equal_nan=True):
            return f"result {place}: {(one - other).abs().max().item()} apart, {bound} allowed"
    return None


def checked(
    model: nn.Module,
    args: Sequence[Any],
    capture: Callable[[nn.Module, Sequence[Any]], Captured] = joint_of,
    counts: Sequence[int] = (2, 3, 4),
) -> Iterator[tuple[Choice, int, str | None]]:
    """Each choice, and stretches around tensors drawn at random, in each number of parts, and what is wrong with it."""
    graph, values, inputs = capture(model, args)
    runner = runner_of(graph, values)
    whole = run(graph, values, runner)
    for choice in [*choices(graph, inputs), *_drawn(graph)]:
        for count in counts:
            if count <= choice.stretch.extent:
                parted = divided(graph, choice, count)
                parted.lint()
                yield choice, count, difference(whole, run(parted, values, runner))


def _drawn(graph: fx.Graph) -> Iterator[Choice]:
    draw, borders = random.Random(len(graph.nodes)), borders_of(graph)
    made = [node for node in graph.nodes if node.op == "call_function"]
    tensors = [node for node in made if isinstance(node.meta["val"], torch.Tensor) and node.meta["val"].dim()]
    for node in draw.sample(tensors, min(4, len(tensors))):
        axis = draw.randrange(node.meta["val"].dim())
        least = draw.choice((0, node.meta["val"].nbytes // 2))
        if node.meta["val"].shape[axis] > 1 and (stretch := stretch_from(node, axis, least, borders)) is not None:
            yield Choice(name=f"{node.name} along {axis}", stretch=stretch)


def wrong(*args: Any, **kwargs: Any) -> list[str]:
    return [f"{choice.name} in {count}: {words}" for choice, count, words in checked(*args, **kwargs) if words]


def of_seed(seed: int, capture: Callable[[nn.Module, Sequence[Any]], Captured]) -> tuple[int, list[str]]:
    """Return how many checks were made of a step, and what was wrong."""
    step = Step(seed)
    args = step.arguments()
    if not any(result.requires_grad for result in step(*args)):
        return 0, []
    step = Step(seed)
    found = list(checked(step, step.arguments(), capture))
    return len(found), [f"{choice.name} in {count}: {words}; {step.tells}" for choice, count, words in found if words]


@pytest.mark.parametrize("capture", [joint_of, captured])
def test_steps_in_parts_give_what_whole_ones_give(capture: Any) -> None:
    found = [of_seed(seed, capture) for seed in SEEDS[capture.__name__]]
    assert [words for _, wrong in found for words in wrong] == []
    assert sum(count for count, _ in found) > 20


SEEDS = {"joint_of": range(12), "captured": range(100, 106)}


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 1400, 50))
def test_many_steps_in_parts_give_what_whole_ones_give(first: int) -> None:
    found = [of_seed(seed, joint_of) for seed in range(first, first + 50)]
    assert [words for _, wrong in found for words in wrong] == []


class Pooled(nn.Module):
    """Pixels that lie by channels and are averaged, which PyTorch differentiates through the storage."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(3, 6, 2, 2), nn.LayerNorm(6), nn.Linear(6, 4)

    def forward(self, *args: Any) -> Any:
        (x,) = args
        pixels = self.norm(self.first(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.last(functional.adaptive_avg_pool2d(pixels, 1).flatten(1)).square().mean()


class Dropping(nn.Module):
    """Drops out twice, and returns the mean squared distance of what is left from its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, *args: Any) -> Any:
        (x,) = args
        inner = functional.dropout(self.first(x), 0.3).relu()
        return functional.mse_loss(self.last(functional.dropout(inner, 0.5)), x)


@pytest.mark.parametrize(("model", "shape"), [(Pooled, (4, 3, 8, 8)), (Dropping, (12, 6))])
@pytest.mark.parametrize("by_itself", [False, True])
def test_all_samples_run_in_parts(
    model: Callable[[], nn.Module], shape: tuple[int, ...], by_itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A GPU draws in the kernel of dropout alone.
    monkeypatch.setattr(dropout, "_draws_by_itself", lambda value: by_itself)
    torch.manual_seed(0)
    found = list(checked(model(), (torch.randn(shape),), captured, counts=(2, 4)))
    assert {count for choice, count, _ in found if choice.name == "batch"} == {2, 4}
    assert [words for *_, words in found if words] == []


class Call(nn.Module):
    """A function of its weights and its arguments."""

    def __init__(self, function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in shapes)

    def forward(self, *args: Any) -> Any:
        return (self.function(*self.weights, *args),)


def numbers(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def passed_on(change: Callable[[Any], Any]) -> Any:
    """A function that gives its argument, with a backward of its own."""

    class Passed(Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return change(gradient)

    return Passed.apply


@pytest.mark.parametrize(
    "change",
    [
        lambda gradient: gradient.clamp(max=0.05),
        lambda gradient: (gradient * 1000).long().double() / 1000,
        lambda gradient: (-gradient.view(torch.int64)).view(torch.float64),
        lambda gradient: gradient / gradient.abs().clamp(min=1e-3),
        lambda gradient: gradient * gradient,
        lambda gradient: gradient + 1,
        lambda gradient: torch.where(gradient > 0.1, gradient, 0.0),
        lambda gradient: gradient.masked_fill(torch.ones_like(gradient) > 0, 0.5),
    ],
)
def test_a_backward_that_is_not_linear_does_not_run_for_a_gradient_of_one(change: Any) -> None:
    inner, outer = passed_on(change), passed_on(change)
    assert wrong(Call(lambda w, x: inner((x @ w).square()).mean(), (4, 4)), [numbers(4, 4)]) == []
    assert wrong(Call(lambda w, x: outer((x @ w).square().mean()), (4, 4)), [numbers(4, 4)]) == []


def test_random_numbers_are_drawn_in_the_order_of_the_step() -> None:
    def loss(w: Any, v: Any, x: Any, z: Any) -> Any:
        read = (x * w).exp()
        first, second = functional.dropout(read), functional.dropout(z * v).cos()
        return (read + second).square().sum() + first.sum()

    assert wrong(Call(loss, (6,), (6,)), [numbers(4, 6), numbers(4, 6)]) == []


def test_nothing_is_joined_that_nothing_reads() -> None:
    """Likelihoods, which a call of several results reads part by part."""
    step = Step(4)
    graph, _, inputs = joint_of(step, step.arguments())
    (loss, *_) = [choice for choice in choices(graph, inputs) if choice.name == "loss"]
    joined = [node for node in divided(graph, loss, 2).nodes if node.target is torch.ops.aten.cat.default]
    assert [node for node in joined if not node.users] == []


def test_a_part_of_one_keeps_an_axis_that_is_squeezed() -> None:
    assert wrong(Call(lambda w, x: (x @ w).squeeze().square().mean(), (6, 1)), [numbers(4, 6)]) == []
    assert wrong(Call(lambda w, x: (x @ w).squeeze(0).square().mean(), (6, 5)), [numbers(2, 6)]) == []


def test_what_is_of_a_part_alone_is_not_read_outside() -> None:
    """The weights of likelihoods that are not averaged, where their backward stays outside."""
    for seed in (1003, 1109):
        count, found = of_seed(seed, joint_of)
        assert count > 0
        assert found == []


def test_parts_of_an_index_that_is_shorter_are_not_taken() -> None:
    index = torch.tensor([[0, 4, 2, 1, 3], [1, 1, 0, 2, 4]])
    assert wrong(Call(lambda w, x, i: (x @ w).gather(1, i).square().mean(), (5, 5)), [numbers(4, 5), index]) == []
    assert wrong(Call(lambda w, x, i: (x @ w).scatter(1, i, 1.0).square().mean(), (5, 5)), [numbers(4, 5), index]) == []
