"""torch.compile with Inductor takes a pass that puts its nodes in a plan's order, and computes the same."""

from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import fx, nn

import placewright
from placewright.execution.pytorch.inductor_order import ranks_by_name, ranks_by_origin, reorder


class Recorder:
    """Stands behind a pass: what Inductor gets from it."""

    def __init__(self) -> None:
        self.orders: list[list[str]] = []
        self.layers: list[list[str]] = []

    def __call__(self, graph: fx.Graph) -> None:
        graph.lint()
        calls = [node for node in graph.nodes if node.op == "call_function"]
        self.orders.append([node.name for node in calls])
        self.layers.append([_layer(node) for node in calls])


def _layer(node: fx.Node) -> str:
    """The tower that a node belongs to, by what Dynamo tells of it."""
    stack = str(node.meta.get("nn_module_stack"))
    return next((tower for tower in ("wide", "narrow") if tower in stack), "")


def compiled(model: nn.Module, *passes: Callable[[fx.Graph], None]) -> Any:
    torch._dynamo.reset()
    options = {"post_grad_custom_post_pass": passes, "fx_graph_cache": False}
    return torch.compile(model, options=options, dynamic=False)


class Towers(nn.Module):
    """Two towers whose code is written in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = (nn.Sequential(nn.Linear(8, n), nn.Tanh(), nn.Linear(n, 4)) for n in (64, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.wide(x).sum() + self.narrow(x)
        return result


def test_a_graph_is_planned_as_inductor_compiles_it_and_handed_on_in_that_order() -> None:
    """Forward and backward of a training step; the numbers are those without the pass."""
    torch.manual_seed(0)
    model, x = Towers(), torch.randn(3, 8)
    plain = copy.deepcopy(model)
    order, recorder = placewright.inductor_pass(evaluations=200), Recorder()
    loss = compiled(model, order, recorder)(x).square().sum()
    loss.backward()
    expected = plain(x).square().sum()
    expected.backward()
    torch.testing.assert_close(loss, expected)
    for parameter, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, other.grad)
    assert len(order.graphs) == len(recorder.orders) == 2
    for done, names in zip(order.graphs, recorder.orders, strict=True):
        assert done.plan is not None
        assert done.plan.objective == "peak-memory"
        positions = {op.name: op.position for op in done.plan.ops}
        planned = [positions[name] for name in names if name in positions]
        assert planned == sorted(planned)
        assert done.num_planned == len(planned) > done.num_nodes / 2


def test_a_plan_of_the_module_orders_what_inductor_made_of_its_layers() -> None:
    """A plan for which the narrow tower comes first, though the code calls the wide one first."""
    torch.manual_seed(0)
    model, x = Towers().eval(), torch.randn(3, 8)
    graph = placewright.from_torch(model, (x,))
    first = {op.name: op.module.startswith("narrow") for op in graph.ops}
    plan = placewright.plan(graph, "cpu", evaluations=1)
    moved = sorted(plan.ops, key=lambda op: (op.kind != "input", not first[op.name], op.position))
    positions = {op.name: place for place, op in enumerate(moved)}
    plan = replace(plan, ops=tuple(replace(op, position=positions[op.name]) for op in moved))
    order, recorder = placewright.inductor_pass(plan), Recorder()
    with torch.no_grad():
        result = compiled(model, recorder, order, recorder)(x)
        torch.testing.assert_close(result, model(x))
    before, after = recorder.layers
    assert before.index("wide") < before.index("narrow")
    assert after.index("narrow") < after.index("wide")
    assert max(place for place, layer in enumerate(after) if layer == "narrow") < after.index("wide")
    assert order.graphs[0].num_planned == order.graphs[0].num_nodes


def test_a_plan_for_another_module_changes_nothing_and_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    other = placewright.plan(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), "cpu", args=(torch.randn(2, 8),))
    recorder = Recorder()
    with torch.no_grad(), caplog.at_level(logging.WARNING, "placewright"):
        compiled(Towers(), recorder, placewright.inductor_pass(other), recorder)(torch.randn(3, 8))
    assert recorder.orders[0] == recorder.orders[1]
    assert "has no layer of the plan of 'Sequential' and keeps its order" in caplog.text


def test_a_graph_of_open_size_keeps_its_order_and_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    order, graph = placewright.inductor_pass(), fx.Graph()
    size = graph.placeholder("s0")
    size.meta["val"] = 3
    graph.output((graph.call_function(operator.add, (size, 1)),))
    with caplog.at_level(logging.WARNING, "placewright"):
        order(graph)
    assert "its input s0 is no tensor; torch.compile(..., dynamic=False) plans per shape" in caplog.text
    assert order.graphs[0].plan is None


def test_options_beside_a_plan_are_refused_and_passes_are_told_apart() -> None:
    plan = placewright.plan(nn.Linear(8, 8), "cpu", args=(torch.randn(2, 8),))
    with pytest.raises(placewright.InputError, match="the plan is made already; leave out objective"):
        placewright.inductor_pass(plan, objective="step-time")
    identities = {placewright.inductor_pass(*given).uuid() for given in ((), (plan,))}
    identities |= {placewright.inductor_pass(objective="step-time").uuid(), placewright.inductor_pass(plan).uuid()}
    assert len(identities) == 3


def graph_with_writes() -> tuple[fx.Graph, dict[str, fx.Node]]:
    """a, b and c read x; then x is written; d reads x again; two draws of random numbers."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    aten = torch.ops.aten
    nodes = {name: graph.create_node("call_function", aten.neg.default, (x,), name=name) for name in "abc"}
    nodes["write"] = graph.create_node("call_function", aten.copy_.default, (x, nodes["b"]), name="write")
    nodes["d"] = graph.create_node("call_function", aten.neg.default, (x,), name="d")
    for name in ("first", "second"):
        nodes[name] = graph.create_node("call_function", aten.rand_like.default, (nodes["d"],), name=name)
    graph.output((nodes["a"], nodes["c"], nodes["second"], nodes["first"], nodes["write"]))
    return graph, nodes


def test_writes_and_random_numbers_stay_in_their_order() -> None:
    """Ranks that turn everything round: c b a, the write, d, and the draws as they were."""
    graph, nodes = graph_with_writes()
    wished = ["second", "first", "d", "write", "c", "b", "a"]
    reorder(graph, {nodes[name]: place for place, name in enumerate(wished)})
    assert [node.name for node in graph.nodes if node.op == "call_function"] == [
        *("c", "b", "a", "write", "d", "first", "second")
    ]


def test_a_node_without_a_rank_stands_before_what_reads_it() -> None:
    """b is not planned and the write reads it; it comes between c and the write."""
    graph, nodes = graph_with_writes()
    reorder(graph, {nodes["c"]: 1, nodes["write"]: 3, nodes["a"]: 2, nodes["d"]: 4})
    assert [node.name for node in graph.nodes if node.op == "call_function"][:4] == ["c", "a", "b", "write"]


def test_names_and_origins_give_ranks() -> None:
    """A plan without the graph's names or layers gives none."""
    graph, _ = graph_with_writes()
    plan = placewright.plan(nn.Linear(8, 8), "cpu", args=(torch.randn(2, 8),))
    assert ranks_by_name(graph, plan) == {}
    assert all(rank >= 0 for rank in ranks_by_origin(graph, plan).values())
