"""layers: which ops are a layer, how layers are dealt, and what moves keep."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import machine_of, problem_of
from strategies import problems

from placewright.graph import Graph, Op, Tensor
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.search.constructive.baseline import Baseline, Candidate, Trial
from placewright.search.constructive.layers import LAYERS, Layers, find_layers
from placewright.search.constructive.one_device import SingleDevice
from placewright.search.run.search_run import SearchRun

STEPS = 8


def recurrent(num_layers: int, steps: int = STEPS) -> Graph:
    """Op "cell 2 5" is layer 2 at step 5: it reads the layer below, its own step before, and the layer's weight; what
    it makes goes through "gate 2 5"."""
    tensors = [Tensor(name=f"weight {layer}", size_bytes=8, role="parameter") for layer in range(num_layers)]
    ops: list[Op] = []
    made: dict[tuple[int, int], int] = {}
    for step in range(steps):
        for layer in range(num_layers):
            read = [made[at] for at in ((layer - 1, step), (layer, step - 1)) if at in made]
            tensors += [Tensor(name=f"{what} {layer} {step}", size_bytes=size) for what, size in (("h", 40), ("g", 4))]
            cell, made[layer, step] = len(tensors) - 2, len(tensors) - 1
            ops.append(Op(name=f"cell {layer} {step}", kind="matmul", inputs=(*read, layer), outputs=(cell,)))
            ops.append(Op(name=f"gate {layer} {step}", kind="elementwise", inputs=(cell,), outputs=(cell + 1,)))
    return Graph(name="recurrent", ops=tuple(ops), tensors=tuple(tensors))


def layer_in_name(problem: Problem) -> list[int]:
    return [int(op.name.split()[1]) for op in problem.graph.ops]


def test_cells_of_one_weight_are_a_layer_at_all_steps_and_take_what_works_for_them_along() -> None:
    problem = problem_of(recurrent(3), machine_of(2), 5)
    found = find_layers(problem)
    assert found.layer.tolist() == layer_in_name(problem)
    assert found.readers.tolist() == [STEPS] * 3


def of_unknown_kinds(graph: Graph, weight: Tensor, bias: Tensor) -> Graph:
    """All ops are `other`; each cell reads a weight and each gate a bias, of one per layer."""
    layers = [tensor for tensor in graph.tensors if tensor.role == "parameter"]
    tensors = [*(replace(weight, name=tensor.name) for tensor in layers), *graph.tensors[len(layers) :]]
    tensors += [replace(bias, name=f"bias {layer}") for layer in range(len(layers))]
    ops = list[Op]()
    for op in graph.ops:
        what, layer = op.name.split()[:2]
        added = (len(graph.tensors) + int(layer),) if what == "gate" else ()
        ops.append(replace(op, kind="other", inputs=(*op.inputs, *added)))
    return Graph(name="unknown", ops=tuple(ops), tensors=tuple(tensors))


@pytest.mark.parametrize(
    ("weight", "bias"),
    [
        (Tensor(name="w", size_bytes=400, role="parameter"), Tensor(name="b", size_bytes=4, role="parameter")),
        (
            Tensor(name="w", size_bytes=32, shape=(4, 2), dtype="float32", role="parameter"),
            Tensor(name="b", size_bytes=32, shape=(1, 8), dtype="float32", role="parameter"),
        ),
    ],
    ids=["by bytes", "by shape"],
)
def test_layers_of_ops_of_unknown_kind_are_those_of_their_weights(weight: Tensor, bias: Tensor) -> None:
    # Either the weight is larger than the 40 bytes that a cell makes, or its shape says what it is. The bias is neither
    # a layer nor does it keep one apart.
    problem = problem_of(of_unknown_kinds(recurrent(3), weight, bias), machine_of(2), 5)
    found = find_layers(problem)
    assert found.layer.tolist() == layer_in_name(problem)
    assert found.readers.tolist() == [STEPS] * 3
    assert len(list(LAYERS.candidates(problem))) > 1


def test_ops_that_must_share_a_device_are_of_one_layer() -> None:
    problem = problem_of(
        recurrent(3), machine_of(2), 5, constraints=Constraints(colocations=(("cell 0 0", "cell 2 0"),))
    )
    found = find_layers(problem)
    assert found.layer.tolist() == [layer % 2 for layer in layer_in_name(problem)]


def test_layers_on_devices_of_their_own_overlap_like_a_wavefront() -> None:
    # Each layer takes 10 ns a step. The second begins a step after the first, and moving 4 bytes takes no time.
    problem = problem_of(recurrent(2), machine_of(2), 5)
    result = LAYERS.solve(problem, SearchRun())
    assert result.metrics.step_time_ns == 10 * (STEPS + 1)
    assert SingleDevice().solve(problem, SearchRun()).metrics.step_time_ns == 2 * 10 * STEPS


def test_moves_make_the_deal_better_and_need_no_seed() -> None:
    problem = problem_of(recurrent(5), machine_of(2), np.random.default_rng(0).integers(1, 40, 2 * 5 * STEPS).tolist())
    dealt = Layers(moves=0).solve(problem, SearchRun())
    moved = Layers(moves=100).solve(problem, SearchRun())
    assert moved.metrics.step_time_ns < dealt.metrics.step_time_ns
    again = Layers(moves=100).solve(problem, SearchRun(seed=1))
    assert np.array_equal(moved.solution.device_of, again.solution.device_of)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_network_that_reads_its_weights_seldom_has_one_candidate(steps: int) -> None:
    problem = problem_of(recurrent(4, steps), machine_of(2), 5)
    assert len(list(LAYERS.candidates(problem))) == 1


@settings(max_examples=50)
@given(problem=problems(max_ops=12), moves=st.integers(0, 5))
def test_any_problem_has_a_candidate_that_keeps_its_constraints(problem: Problem, moves: int) -> None:
    first, masks = problem.groups
    trial = Trial(Layers(moves=moves), problem, SearchRun())
    while trial.advance():
        pass
    assert 1 <= trial.evaluations <= 3 * (4 + moves)
    device_of = trial.result("complete").solution.device_of
    assert np.array_equal(device_of, device_of[first])
    assert all(int(mask) >> device & 1 for mask, device in zip(masks.tolist(), device_of.tolist(), strict=True))


def test_a_generator_of_candidates_is_told_what_each_costs() -> None:
    problem = problem_of(recurrent(3), machine_of(2), [40, 1, 20, 1, 30, 1] * STEPS)
    made = list(Layers(moves=0).candidates(problem))
    told: list[tuple[int, int, int]] = []

    class Asking(Baseline):
        name = "asking"

        def candidates(self, problem: Problem) -> Generator[Candidate, tuple[int, int, int], None]:
            for candidate in made:
                told.append((yield candidate))

    trial = Trial(Asking(), problem, SearchRun())
    while trial.advance():
        pass
    assert len(told) == len(made) > 1
    assert min(told) == trial.best < max(told)
