"""Block checkpointing: what people do without a plan, as reruns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_steps import ONE_DEVICE, limited, training_step

from placewright.graph import Graph, Op, Phase, Tensor
from placewright.problem import Problem, make_problem
from placewright.rematerialization.blocks import checkpointed, merged, module_blocks
from placewright.rematerialization.reruns import Rerun, rewritten
from placewright.verification.reruns import about_reruns


def two_blocks() -> Graph:
    """Forward a -> b | c -> d in two blocks; backward of each reads what the op itself read, and the gradient."""
    names = ["x", "a", "b", "c", "d", "gd", "gc", "gb", "ga"]
    reads = {"a": "x", "b": "a", "c": "b", "d": "c", "gd": "d c", "gc": "gd b", "gb": "gc a", "ga": "gb x"}
    index = {name: place for place, name in enumerate(names)}

    def op(name: str) -> Op:
        phase: Phase = "backward" if name.startswith("g") else "forward"
        module = f"net.{'abcd'.index(name) // 2}.linear" if phase == "forward" else ""
        inputs = tuple(index[read] for read in reads[name].split())
        return Op(
            name=name, kind="matmul", inputs=inputs, outputs=(index[name],), phase=phase, module=module, time_ns=1
        )

    tensors = tuple(
        Tensor(name=name, size_bytes=10, role="parameter" if name == "x" else "activation") for name in names
    )
    return Graph(name="blocks", ops=tuple(op(name) for name in names[1:]), tensors=tensors)


def test_blocks_are_the_repeated_modules() -> None:
    assert module_blocks(two_blocks()) == [(0, 1), (2, 3)]
    assert merged([(0, 1), (2, 3)], 1) == [(0, 1, 2, 3)]
    assert merged([(0,), (1,), (2,), (3,), (4,)], 2) == [(0, 1), (2, 3, 4)]
    named = replace(two_blocks(), ops=tuple(replace(op, module="net.linear") for op in two_blocks().ops))
    assert module_blocks(named) == []


def test_a_block_runs_again_where_backward_first_reads_of_it() -> None:
    graph = two_blocks()
    reruns = checkpointed(make_problem(graph, ONE_DEVICE), module_blocks(graph))
    # c and d are read by backward alone; b is read by c, in another block, and is held. So of the first block only a.
    assert reruns == (
        Rerun(name="c@2", op="c", before="gd", tensors=("c",)),
        Rerun(name="d@2", op="d", before="gd", tensors=("d",)),
        Rerun(name="a@2", op="a", before="gb", tensors=("a",)),
    )
    found = rewritten(graph, reruns)
    assert [op.name for op in found.graph.ops] == ["a", "b", "c", "d", "c@2", "d@2", "gd", "gc", "a@2", "gb", "ga"]
    assert about_reruns(graph, found) == []


@given(seed=st.integers(0, 2**32), depth=st.integers(2, 14), size=st.integers(1, 5))
def test_checkpointed_steps_compute_the_same(seed: int, depth: int, size: int) -> None:
    graph = training_step(seed, depth)
    backward = next((place for place, op in enumerate(graph.ops) if op.kind == "reduction"), len(graph.ops))
    ops = tuple(
        replace(op, phase="forward" if place < backward else "backward", module=f"net.{place // size}" if place else "")
        for place, op in enumerate(graph.ops)
    )
    graph = replace(graph, ops=ops)
    problem: Problem = replace(limited(graph, 1.0), graph=graph)
    assert about_reruns(graph, rewritten(graph, checkpointed(problem, module_blocks(graph)))) == []


@pytest.mark.parametrize("count", [1, 2])
def test_what_may_not_run_again_is_left_as_it_is(count: int) -> None:
    graph = two_blocks()
    graph = replace(graph, ops=tuple(replace(op, kind="other") for op in graph.ops))
    assert checkpointed(make_problem(graph, ONE_DEVICE), merged(module_blocks(graph), count)) == ()
