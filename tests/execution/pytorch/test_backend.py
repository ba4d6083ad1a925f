"""The backend of `torch.compile`: what it runs is what eager runs, or one sentence says why it cannot.

Branches, loops and other ops that hold code; checkpoints; hooks and autograd functions; ops whose kernels return
another dtype than their authors told PyTorch; modules of other sorts than a plain nn.Module.
"""

import logging
import operator
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_functional
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

import placewright
from placewright.api.dynamo import backend
from placewright.execution.devices import available_cores
from placewright.execution.pytorch.program import check_calls
from placewright.support.errors import InputError

pytestmark = pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each")
QUICK: dict[str, Any] = {"devices": "cpu:0,cpu:1", "evaluations": 20, "solver": "list"}


@pytest.fixture(autouse=True)
def _nothing_compiled_before(one_thread_for_an_op: None) -> None:
    torch.compiler.reset()


def x(seed: int = 1) -> torch.Tensor:
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))


class Wrapped(nn.Module):
    """A linear layer, and a function that makes a result of what it returns."""

    def __init__(self, then: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.then = then

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.then(self.linear(value))


def module(then: Callable[[torch.Tensor], torch.Tensor]) -> Wrapped:
    torch.manual_seed(0)
    return Wrapped(then)


def compiled(model: nn.Module) -> Any:
    return torch.compile(model, backend="placewright", options=QUICK)


def ran(model: nn.Module, call: Any, *, training: bool) -> list[Any]:
    """Return what two calls leave: results, gradients and the state of the generator of random numbers."""
    torch.manual_seed(3)
    found = []
    with torch.set_grad_enabled(training):
        for seed in range(2):
            result = call(x(seed))
            if training:
                result.float().square().mean().backward()
            found.append(result.detach())
    return [*found, *(parameter.grad for parameter in model.parameters()), torch.get_rng_state()]


def assert_runs_as_eager(make: Callable[[], nn.Module], *, training: bool) -> None:
    model, reference = make(), make()
    pairs = zip(
        ran(model, compiled(model), training=training), ran(reference, reference, training=training), strict=True
    )
    for found, wanted in pairs:
        assert wanted is None if found is None else torch.equal(found, wanted)


def heads(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Split [8, 16] into query, key and value of one sequence of 8 with two heads of 8, each scaled differently."""
    split = value.view(1, 8, 2, 8).transpose(1, 2)
    return split, split * 2, split * 3


def turned(value: torch.Tensor) -> torch.Tensor:
    return torch.cond(value.sum() > 0, lambda each: each.sin(), lambda each: each.cos(), (value,))


def turned_at_random(value: torch.Tensor) -> torch.Tensor:
    """Both branches draw, and so does what comes after them."""
    either = torch.cond(
        value.sum() > 0, lambda each: functional.dropout(each, 0.5), lambda each: each + torch.rand_like(each), (value,)
    )
    return either + functional.dropout(value, 0.3)


def looped(value: torch.Tensor) -> torch.Tensor:
    return while_loop(
        lambda number, _: number < 5, lambda number, each: (number + 1, each * 0.9 + 0.1), (torch.tensor(0), value)
    )[1]


def scanned(value: torch.Tensor) -> torch.Tensor:
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(16), value)[1]


def scored(value: torch.Tensor) -> torch.Tensor:
    return flex_attention(*heads(value), score_mod=lambda score, batch, head, row, column: score + (row - column))


CAUSAL = create_block_mask(lambda batch, head, row, column: row >= column, 1, 1, 8, 8, device="cpu")


@torch.compiler.nested_compile_region  # type: ignore[untyped-decorator]
def region(value: torch.Tensor) -> torch.Tensor:
    return (value.tanh() @ value.new_ones(16, 16)).sin()


@torch.library.custom_op("placewright_tests::add_into", mutates_args={"value"})  # type: ignore[untyped-decorator]
def add_into(value: torch.Tensor, other: torch.Tensor) -> None:
    value.add_(other)


@add_into.register_fake  # type: ignore[untyped-decorator]
def _(value: torch.Tensor, other: torch.Tensor) -> None:
    return None


def added_into(value: torch.Tensor) -> torch.Tensor:
    doubled = value.detach() * 2
    add_into(doubled, value)
    add_into(doubled[:4], value[4:])
    return doubled * value


WITH_BODIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cond": turned,
    "scan": scanned,
    "map": lambda value: map_rows(lambda row: row.sin() * 2, value),
    "associative_scan": lambda value: associative_scan(lambda a, b: a + b, value, 0, combine_mode="generic"),
    "nested_compile_region": lambda value: region(region(value)),
    "an op that writes to its argument": added_into,
}
#: PyTorch has no backward of these, runs it without a backend, or draws anew in it.
INFERENCE_ONLY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cond that draws": turned_at_random,
    "while_loop": looped,
    "flex_attention with scores": scored,
    "flex_attention with a mask": lambda value: flex_attention(*heads(value), block_mask=CAUSAL),
    "flex_attention": lambda value: flex_attention(*heads(value)),
}


@pytest.mark.parametrize("name", [*WITH_BODIES, *INFERENCE_ONLY])
def test_ops_that_hold_code_run_in_an_inference(name: str) -> None:
    then = {**WITH_BODIES, **INFERENCE_ONLY}[name]
    assert_runs_as_eager(lambda: module(then), training=False)


@pytest.mark.parametrize("name", WITH_BODIES)
def test_ops_that_hold_code_run_in_training(name: str) -> None:
    assert_runs_as_eager(lambda: module(WITH_BODIES[name]), training=True)


def test_a_branch_that_reads_a_parameter_trains_it() -> None:
    """Within a step autograd is off, although the parameter wants a gradient."""

    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.weight = nn.Parameter(torch.randn(16, 16))

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            return torch.cond(value.sum() > 0, lambda a, w: a @ w, lambda a, w: a @ (w * 2), (value, self.weight))

    assert_runs_as_eager(Chosen, training=True)
    assert_runs_as_eager(Chosen, training=False)


# Checkpoints


def dropped(value: torch.Tensor) -> torch.Tensor:
    return functional.dropout(value.tanh(), 0.2).relu() + torch.rand_like(value)


CHECKPOINTED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dropout": lambda value: checkpoint(
        lambda each: functional.dropout(each.tanh(), 0.2).sin(), value, use_reentrant=False
    ),
    "two in a row": lambda value: checkpoint(
        dropped, checkpoint(dropped, functional.dropout(value, 0.3), use_reentrant=False), use_reentrant=False
    ).cos(),
    "rrelu": lambda value: checkpoint(
        lambda each: functional.rrelu(each.sin(), training=True).cos(), value, use_reentrant=False
    ),
    "attention": lambda value: checkpoint(
        lambda each: functional.scaled_dot_product_attention(*heads(each), dropout_p=0.2).sin(),
        value,
        use_reentrant=False,
    ),
    "attention that drops nothing": lambda value: checkpoint(
        lambda each: functional.scaled_dot_product_attention(*heads(each.sin())).sin(), value, use_reentrant=False
    ),
    "reentrant": lambda value: checkpoint(dropped, value, use_reentrant=True),
}


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_a_checkpoint_recomputes_with_the_numbers_that_were_drawn(name: str) -> None:
    assert_runs_as_eager(lambda: module(CHECKPOINTED[name]), training=True)


class Overwritten(nn.Module):
    """A checkpoint that reads buffers that forward changes: the statistics of a batch norm, and a view of a counter."""

    def __init__(self, *, is_checkpointed: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.is_checkpointed = is_checkpointed
        self.linear = nn.Linear(16, 16)
        self.norm = nn.BatchNorm1d(16)
        self.register_buffer("counter", torch.arange(20.0))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        def region(each: torch.Tensor) -> torch.Tensor:
            return self.norm((each + self.counter[2:18]).sin()).cos()

        into = self.linear(value)
        result = checkpoint(region, into, use_reentrant=False) if self.is_checkpointed else region(into)
        self.counter.add_(1)
        return result.tanh()


def test_a_checkpoint_reads_buffers_as_they_were() -> None:
    """Results equal those without one: eager recomputes with the buffers as they are by then, and updates the
    statistics again."""
    model, reference = Overwritten(is_checkpointed=True), Overwritten(is_checkpointed=False)
    found = ran(model, compiled(model), training=True)
    wanted = ran(reference, reference, training=True)
    for tensor, other in zip([*found, *model.buffers()], [*wanted, *reference.buffers()], strict=True):
        assert torch.equal(tensor, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_checkpoint_drops_what_is_dropped_without_one(dtype: torch.dtype, share: float) -> None:
    def drop(value: torch.Tensor) -> torch.Tensor:
        return functional.dropout(value.to(dtype).sin(), share).cos()

    assert_runs_as_eager(lambda: module(lambda value: checkpoint(drop, value, use_reentrant=False)), training=True)


def test_a_checkpoint_may_drop_everything() -> None:
    """Eager then draws nothing, but what PyTorch traces does."""
    model = module(
        lambda value: checkpoint(lambda each: functional.dropout(each, 1.0).cos(), value, use_reentrant=False)
    )
    result = compiled(model)(x())
    assert torch.equal(result, torch.ones(8, 16))
    result.sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


def saved_bytes(call: Callable[[], torch.Tensor]) -> int:
    """Count the bytes that a forward keeps for its backward, leaves that require gradients aside."""
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_leaf or not tensor.requires_grad:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        call()
    return sum(kept.values())


def test_a_checkpoint_of_dropout_keeps_a_byte_for_each_element() -> None:
    """A checkpoint keeps its input and the mask, [8, 16] each: 512 B and 128 B. The argument is kept for the gradient
    of the weight, 512 B more. Two tanh and what is dropped would be 512 B each."""
    model = module(
        lambda value: checkpoint(
            lambda each: functional.dropout(each.tanh().tanh(), 0.2).sin(), value, use_reentrant=False
        )
    )
    call = compiled(model)
    call(x())
    assert saved_bytes(lambda: call(x())) == 512 + 512 + 128


# Dtypes


@torch.library.custom_op("placewright_tests::widened", mutates_args=())  # type: ignore[untyped-decorator]
def widened(value: torch.Tensor) -> torch.Tensor:
    return value.float() * 2


@widened.register_fake  # type: ignore[untyped-decorator]
def _(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(value)  # Not so: the op returns float32.


class Widening(torch.autograd.Function):
    """Saves what an op returned, for its own backward."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        wide = widened(value)
        ctx.save_for_backward(wide)
        return value * 3

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (wide,) = ctx.saved_tensors
        return (gradient.float() * wide.float()).to(gradient.dtype)


def test_backward_takes_the_dtypes_that_forward_returned() -> None:
    assert_runs_as_eager(lambda: module(lambda value: Widening.apply(value.bfloat16())), training=True)


def test_results_of_an_inference_can_be_trained_through_afterwards() -> None:
    model = module(torch.tanh)
    call = compiled(model)
    with torch.no_grad():
        assert not call(x()).requires_grad
    assert_runs_as_eager(lambda: module(torch.tanh), training=True)
    call(x()).sum().backward()
    found = [parameter.grad for parameter in model.parameters()]
    reference = module(torch.tanh)
    reference(x()).sum().backward()
    for gradient, parameter in zip(found, reference.parameters(), strict=True):
        assert gradient is not None
        assert parameter.grad is not None
        assert torch.equal(gradient, parameter.grad)


# Refusals, and modules of other sorts


def test_a_refusal_leaves_torch_compile_as_it_is() -> None:
    """PyTorch would wrap it in a BackendCompilerFailed of several lines."""
    model = nn.Sequential(nn.Embedding(20, 8, padding_idx=0, sparse=True), nn.Linear(8, 2))
    with pytest.raises(InputError, match=r"embedding with sparse=True has .* run dense tensors only; leave sparse"):
        compiled(model)(torch.arange(4)).sum().backward()


def test_a_graph_that_computes_nothing_is_left_to_pytorch() -> None:
    """Between two graph breaks PyTorch captures graphs that return what they were given."""

    def without_its_ops(graph: torch.fx.GraphModule, given: list[torch.Tensor]) -> Any:
        add, output = graph.graph.find_nodes(op="call_function", target=operator.add)[0], graph.graph.output_node()
        output.args = ((add.args[0],),)
        graph.graph.erase_node(add)
        return backend(graph, given, options={"devices": "cpu:0"})

    given = x()
    assert torch.equal(torch.compile(lambda value: value + 0, backend=without_its_ops)(given), given)


def test_an_op_that_holds_code_of_another_sort_is_refused_by_name() -> None:
    """Kernels of Triton are such ops; there is none to run without a GPU."""
    graph = torch.fx.Graph()
    call = graph.call_function(triton_kernel_wrapper_functional, (), {"kernel_idx": 0})
    with pytest.raises(InputError, match=r"^the op triton_kernel_wrapper_functional holds code of its own"):
        check_calls([call])


def test_nested_tensors_are_refused_in_one_sentence() -> None:
    model = nn.Linear(16, 4)
    rows = [torch.randn(3, 16), torch.randn(5, 16)]
    jagged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    with torch.no_grad():
        for call in (compiled(model), lambda nested: placewright.compile(model, nested, **QUICK)):
            with pytest.raises(InputError, match="a nested tensor has rows of several sizes"):
                call(jagged)


def quantized() -> nn.Module:
    class Rounded(nn.Module):
        def forward(self, value: torch.Tensor) -> torch.Tensor:
            return torch.quantize_per_tensor(value, 0.1, 0, torch.quint8).dequantize() * 2

    return Rounded()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: torch.export.export(nn.Linear(16, 4), (x(),)).module(), id="exported"),
        pytest.param(lambda: torch.jit.trace(nn.Linear(16, 4), x()), id="traced"),
        pytest.param(lambda: nn.DataParallel(nn.Linear(16, 4)), id="data parallel"),
        pytest.param(quantized, id="quantized"),
    ],
)
def test_modules_of_other_sorts_run_as_they_are(make: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    model = make()
    with torch.no_grad():
        assert torch.equal(compiled(model)(x()), model(x()))


def test_the_log_says_what_is_planned_for_each_graph(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="placewright.api.dynamo"):
        compiled(module(torch.tanh))(x()).sum().backward()
    said = [record.getMessage() for record in caplog.records if record.name == "placewright.api.dynamo"]
    assert len(said) == 1, "forward and backward are planned together"
    planned = r"a graph of \d+ ops? on cpu:0\+cpu:1: planned .* (less|more) than cpu:\d alone; peak memory .*B"
    again = planned.replace(".* (less|more) than", ".*, no gain over")
    assert all(re.fullmatch(f"{planned}|{again}", line) for line in said), said
