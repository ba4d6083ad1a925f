"""Training steps made of one forward and backward pass: their graph, what they hold, gradients that are added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from instances import sketch

import placewright
from placewright.graph import Graph, Tensor
from placewright.importers.forward_backward import ForwardBackward, held_at_peak, last_pass, states_of, training_step
from placewright.machines.specification import as_machine
from placewright.problem import make_problem
from placewright.problem.objective import Metrics
from placewright.rematerialization.solve import in_order
from placewright.search.run.result import measure

if TYPE_CHECKING:
    from torch import nn

torch = pytest.importorskip("torch")

from placewright.importers.torch.forward_backward import forward_backward, traced_pass  # noqa: E402


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU()) for _ in range(3)]
    return torch.nn.Sequential(*layers, torch.nn.Dropout(0.1), torch.nn.Linear(64, 4))


def passes(batch: int = 32, **options: Any) -> ForwardBackward:
    return forward_backward(traced_pass(network(), torch.randn(batch, 64), {}, **options), "network")


def measured(graph: Graph) -> Metrics:
    problem = make_problem(graph, as_machine("h100@graphs"))
    return measure(problem, in_order(problem))


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_one_pass_is_the_step_that_is_captured_with_its_optimizer(optimizer: Any) -> None:
    captured = placewright.from_torch(network(), torch.randn(32, 64), training=True, optimizer=optimizer)
    assert training_step(passes(), optimizer).fingerprint == captured.fingerprint


@pytest.mark.parametrize("accumulation", [1, 2, 4])
def test_what_is_held_at_the_peak_is_what_a_simulation_says(accumulation: int) -> None:
    graph = training_step(passes(), "adam8bit", accumulation)
    peak, alive = held_at_peak(graph)
    assert peak == measured(graph).peak_memory_bytes
    assert peak == sum(graph.tensors[tensor].held_bytes for tensor in alive)  # no workspaces


def test_a_view_that_nothing_reads_holds_nothing() -> None:
    graph = sketch(
        *("a -> a:0=100", "b a:0 -> b:0=10", "c b:0 -> c:0=20!", "shown~ a:0 -> shown:0=100:a:0"),
        kind="elementwise",
        time_ns=1,
        name="idle view",
    )
    # a and b while b runs; then a is gone, for all that a view shows it.
    assert held_at_peak(graph) == (110, {0, 1})
    assert measured(graph).peak_memory_bytes == 110


def one_layer(batch: int = 4) -> ForwardBackward:
    """weight 3 x 2 and bias 3, floats: 24 + 12 bytes."""
    return forward_backward(traced_pass(torch.nn.Linear(2, 3), torch.randn(batch, 2), {}), "linear")


def test_with_accumulation_all_gradients_are_held() -> None:
    pass_ = one_layer()
    step = training_step(pass_, "sgd", 3)
    # In the second and third pass each of two gradients is added to the first one's; in the first pass nothing is.
    sums = [op.name for op in step.ops if op.name.startswith("sum:")]
    assert sorted(sums) == ["sum:bias#2", "sum:bias#3", "sum:weight#2", "sum:weight#3"]
    # The optimizer comes once, behind all.
    assert [op.kind for op in step.ops].index("optimizer") == len(step.ops) - 2
    held = {step.base_of[op.inputs[1]] for op in step.ops if op.kind == "optimizer"}
    assert sum(step.tensors[tensor].size_bytes for tensor in held) == 36
    # They are what the first pass made.
    assert {step.ops[step.producer_of[tensor]].name.rpartition("#")[2] for tensor in held} == {"1"}


def test_a_pass_runs_as_often_as_is_asked_for_and_takes_as_long() -> None:
    once = measured(training_step(passes(8), "sgd"))
    thrice = training_step(passes(8), "sgd", 3)
    forward = [op for op in thrice.ops if op.phase == "forward" and op.name.endswith("#2")]
    assert len(forward) == sum(op.phase == "forward" for op in passes(8).graph.ops)
    # Three passes and the sums of two, but one update of the parameters.
    assert sum(op.kind == "optimizer" for op in thrice.ops) == 14  # weight and bias of 4 layers and 3 normalizations
    assert 2 * once.step_time_ns < measured(thrice).step_time_ns < 4 * once.step_time_ns


def test_what_a_pass_overwrites_the_next_one_reads() -> None:
    step = training_step(passes(8), "sgd", 2)
    second = next(op for op in step.ops if op.kind == "normalization" and op.name.endswith("#2"))
    first = next(op for op in step.ops if op.name == second.name.replace("#2", "#1"))
    written = {tensor for tensor in first.outputs if step.tensors[tensor].alias_of is not None}
    assert written
    assert written <= set(second.inputs)


def test_the_last_pass_of_a_step_takes_what_the_whole_step_takes() -> None:
    pass_ = passes()
    alone, whole = last_pass(pass_, "adam"), training_step(pass_, "adam", 4)
    assert measured(alone).peak_memory_bytes == measured(whole).peak_memory_bytes


@pytest.mark.parametrize(
    ("optimizer", "shape", "size"),
    [
        ("sgd", (64, 64), 0),
        ("sgd-momentum", (64, 64), 4 * 4096),
        ("adam", (64, 64), 8 * 4096),
        # Two codes of one byte an element, and two float32 constants for each of 16 blocks of 256.
        ("adam8bit", (64, 64), 2 * 4096 + 2 * 4 * 16),
        # A last block that is not full.
        ("adam8bit", (4097,), 2 * 4097 + 2 * 4 * 17),
        # Fewer than 4096 elements keep float32 states.
        ("adam8bit", (4095,), 8 * 4095),
        ("adam", (), 8),
    ],
)
def test_states_of_optimizers_are_counted_exactly(optimizer: Any, shape: tuple[int, ...], size: int) -> None:
    parameter = Tensor(name="w", size_bytes=4, shape=shape, dtype="float32", role="parameter")
    assert sum(state.size_bytes for state in states_of(optimizer, parameter)) == size


@pytest.mark.parametrize(("optimizer", "size"), [("sgd-momentum", 2 * 64), ("adam", 4 * 64), ("adam8bit", 8 * 64)])
def test_states_have_the_dtype_of_the_parameter_but_for_those_of_8_bit_adam(optimizer: Any, size: int) -> None:
    parameter = Tensor(name="w", size_bytes=128, shape=(64,), dtype="bfloat16", role="parameter")
    assert sum(state.size_bytes for state in states_of(optimizer, parameter)) == size


class Mixed(torch.nn.Module):  # type: ignore[name-defined]
    """A product, then what GPUs compute in float32 under autocast and CPUs do not."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = torch.nn.LayerNorm(8)
        self.outer = torch.nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        y = self.outer(x)
        return self.norm(self.inner(y, y, y)[0]).pow(2).sum()


def dtypes(autocast: str | None) -> dict[str, str | None]:
    graph = forward_backward(traced_pass(Mixed(), torch.randn(2, 4, 8), {}, autocast=autocast), "mixed").graph
    return {op.name: graph.tensors[op.outputs[0]].dtype for op in graph.ops if op.phase == "forward"}


def test_autocast_follows_the_rules_of_the_device_that_is_planned_for() -> None:
    host, gpu, plain = dtypes("cpu"), dtypes("gpu"), dtypes(None)
    for name in ("native_layer_norm", "_softmax", "pow_1", "sum_1"):
        assert (host[name], gpu[name]) == ("bfloat16", "float32")
    assert host["bmm"] == gpu["bmm"] == "bfloat16"
    assert set(plain.values()) == {"float32"}
    # The rules are those of CPUs again.
    assert dtypes("cpu") == host
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.ones(2, dtype=torch.bfloat16).softmax(0).dtype == torch.bfloat16


def test_a_module_keeps_its_forward_after_autocast() -> None:
    model, other = network(), network()
    other.forward = own = other.forward  # one that the module itself carries
    for each in (model, other):
        traced_pass(each, torch.randn(4, 64), {}, autocast="gpu")
    assert "forward" not in vars(model)
    assert vars(other)["forward"] == own


def test_parameters_and_gradients_stay_float32_under_autocast() -> None:
    pass_ = passes(autocast="gpu")
    tensors = pass_.graph.tensors
    assert {tensors[of].dtype for of, _ in pass_.gradients} == {"float32"}
    assert {tensors[gradient].dtype for _, gradient in pass_.gradients} == {"float32"}
    assert any(tensor.dtype == "bfloat16" for tensor in tensors)
