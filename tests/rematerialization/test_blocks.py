"""Block checkpointing: what people do without a plan, as reruns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_steps import ONE_DEVICE, limited, training_step

from placewright.graph import Graph, Op, Phase, Tensor
from placewright.problem import Problem, make_problem
from placewright.rematerialization.blocks import Block, checkpointed, merged, module_blocks, with_inputs_held
from placewright.rematerialization.reruns import Rerun, rewritten
from placewright.rematerialization.solve import with_reruns
from placewright.verification.reruns import about_reruns


def two_blocks() -> Graph:
    """Forward a -> b | c -> d in two blocks; backward of each reads what the op itself read, and the gradient."""
    names = ["x", "a", "b", "c", "d", "gd", "gc", "gb", "ga"]
    reads = {"a": "x", "b": "a", "c": "b", "d": "c", "gd": "d c", "gc": "gd b", "gb": "gc a", "ga": "gb x"}
    index = {name: place for place, name in enumerate(names)}

    def op(name: str) -> Op:
        phase: Phase = "backward" if name.startswith("g") else "forward"
        module = f"net.{'abcd'.index(name[-1]) // 2}.linear"
        inputs = tuple(index[read] for read in reads[name].split())
        return Op(
            name=name, kind="matmul", inputs=inputs, outputs=(index[name],), phase=phase, module=module, time_ns=1
        )

    tensors = tuple(
        Tensor(name=name, size_bytes=10, role="parameter" if name == "x" else "activation") for name in names
    )
    return Graph(name="blocks", ops=tuple(op(name) for name in names[1:]), tensors=tensors)


def blocks_of(graph: Graph) -> list[Block]:
    return list(module_blocks(graph).values())


def test_blocks_are_the_repeated_modules() -> None:
    assert module_blocks(two_blocks()) == {"net.0": (0, 1), "net.1": (2, 3)}
    assert merged([(0, 1), (2, 3)], 1) == [(0, 1, 2, 3)]
    assert merged([(0,), (1,), (2,), (3,), (4,)], 2) == [(0, 1), (2, 3, 4)]
    named = replace(two_blocks(), ops=tuple(replace(op, module="net.linear") for op in two_blocks().ops))
    assert module_blocks(named) == {}


def test_a_layer_by_itself_is_a_part_of_the_block_that_holds_it() -> None:
    ops = [
        replace(op, module=f"{'down' if place % 4 < 2 else 'up'}.{place}") for place, op in enumerate(two_blocks().ops)
    ]
    assert module_blocks(replace(two_blocks(), ops=tuple(ops))) == {"down": (0, 1), "up": (2, 3)}


def test_a_block_runs_again_where_backward_first_reads_of_it() -> None:
    graph = two_blocks()
    problem, blocks = make_problem(graph, ONE_DEVICE), blocks_of(graph)
    reruns = checkpointed(problem, blocks)
    # c and d are read by backward alone; b is read by c, in another block, and is held. So of the first block only a.
    assert reruns == (
        Rerun(name="c@2", op="c", before="gd", tensors=("c",)),
        Rerun(name="d@2", op="d", before="gd", tensors=("d",)),
        Rerun(name="a@2", op="a", before="gb", tensors=("a",)),
    )
    found = rewritten(graph, reruns)
    assert [op.name for op in found.graph.ops] == ["a", "b", "c", "d", "c@2", "d@2", "gd", "gc", "a@2", "gb", "ga"]
    assert about_reruns(graph, found) == []
    # The second block is given b, which is held until all of its backward is over.
    held = with_inputs_held(with_reruns(problem, reruns), graph, blocks)
    (end,) = [op for op in held.graph.ops if op.name == "gc"]
    assert "b" in {held.graph.tensors[tensor].name for tensor in end.inputs}


@given(seed=st.integers(0, 2**32), depth=st.integers(2, 14), size=st.integers(1, 5))
def test_checkpointed_steps_compute_the_same(seed: int, depth: int, size: int) -> None:
    graph = training_step(seed, depth)
    backward = next((place for place, op in enumerate(graph.ops) if op.kind == "reduction"), len(graph.ops))
    ops = tuple(
        replace(
            op,
            phase="forward" if place < backward else "backward",
            module=f"net.{place // size}.linear" if place else "",
        )
        for place, op in enumerate(graph.ops)
    )
    graph = replace(graph, ops=ops)
    problem: Problem = replace(limited(graph, 1.0), graph=graph)
    assert about_reruns(graph, rewritten(graph, checkpointed(problem, blocks_of(graph)))) == []


@pytest.mark.parametrize("count", [1, 2])
def test_what_may_not_run_again_is_left_as_it_is(count: int) -> None:
    graph = two_blocks()
    graph = replace(graph, ops=tuple(replace(op, kind="other") for op in graph.ops))
    assert checkpointed(make_problem(graph, ONE_DEVICE), merged(blocks_of(graph), count)) == ()
