"""Results that take over the memory of arguments: whatever is read is read before it is written over."""

from __future__ import annotations

import random
from typing import Any

import pytest

import placewright
from placewright.graph import Graph
from placewright.importers.stablehlo.program import parse_stablehlo

jax = pytest.importorskip("jax", reason="the functions are written in JAX")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from placewright.importers.jax.function import from_jax  # noqa: E402

SIDE = 16
X = jnp.ones((SIDE, SIDE))


def random_step(seed: int) -> Any:
    """A function of three donated arrays and one that is not; it returns them, views of them and what it computes."""
    chance = random.Random(seed)
    plan = [(chance.randrange(8), chance.randrange(20), chance.randrange(20)) for _ in range(chance.randrange(1, 6))]
    returned = [chance.randrange(20) for _ in range(chance.randrange(1, 5))]

    def function(a: Any, b: Any, c: Any, x: Any) -> Any:
        # A plan holds no argument that no op reads.
        total = (a + b + c + x).sum()
        values = [a, b, c]
        for kind, first, second in plan:
            left, right = values[first % len(values)], values[second % len(values)]
            made = (
                lambda left=left: left * 2,
                lambda left=left, right=right: left + right,
                lambda left=left, right=right: left @ right,
                lambda left=left: left.T,
                lambda left=left: left.reshape(-1).reshape(SIDE, SIDE).T,
                lambda left=left: lax.fori_loop(0, 3, lambda _, value: value @ x, left),
                lambda left=left, right=right: jnp.sin(right) @ left,
                lambda left=left: left,
            )[kind]()
            values.append(made)
        return [total, *[values[place % len(values)] for place in returned]]

    return jax.jit(function, donate_argnums=(0, 1, 2))


def misread(graph: Graph) -> list[str]:
    """Reads and results that an op writes over before, or may."""
    tensors, ops = graph.tensors, graph.ops
    maker = {tensor: index for index, op in enumerate(ops) for tensor in op.outputs}

    def value(tensor: int) -> int:
        """The tensor, or what it is a view of."""
        while tensor in maker and ops[maker[tensor]].kind == "view":
            base = tensors[tensor].alias_of
            if base is None:
                break
            tensor = base
        return tensor

    before: list[set[int]] = []
    for op in ops:
        direct = {*op.controls, *(maker[tensor] for tensor in op.inputs if tensor in maker)}
        before.append(direct.union(*(before[each] for each in direct)))
    wrong = []
    for writer, op in enumerate(ops):
        for new in op.outputs if op.kind != "view" else ():
            old, gone = tensors[new].alias_of, set()
            while old is not None:
                gone.add(value(old))
                old = tensors[value(old)].alias_of
            for reader, other in enumerate(ops):
                late = reader != writer and other.kind != "view" and reader not in before[writer]
                wrong += [f"{other.name} after {op.name}" for each in other.inputs if late and value(each) in gone]
            shown = [index for index, each in enumerate(tensors) if each.is_output and value(index) in gone]
            wrong += [f"{tensors[index].name} is written over by {op.name}" for index in shown]
    return wrong


@pytest.mark.parametrize("seed", range(20))
def test_old_values_are_read_before_they_are_written_over(seed: int) -> None:
    step, arguments = random_step(seed), (X, X, X, X)
    lowered = step.lower(*arguments)
    held = sum(result.size * result.dtype.itemsize for result in lowered.out_info)
    # XLA holds as much, and a table of pointers to it.
    table = lowered.compile().memory_analysis().output_size_in_bytes - held
    assert table in (0, 8 * len(lowered.out_info))
    for graph in (from_jax(step, arguments), parse_stablehlo(lowered.as_text().encode(), "m.mlir")):
        assert misread(graph) == []
        assert placewright.plan(graph, "1xp100", evaluations=10).peak_bytes[0] >= held


def test_an_old_value_that_is_returned_is_copied_first_and_no_more_is_held() -> None:
    def step(b: Any) -> Any:
        return b * 2, b.reshape(-1)

    graph = from_jax(jax.jit(step, donate_argnums=0), X)
    assert [op.kind for op in graph.ops if op.kind != "view"] == ["copy", "elementwise"]
    assert placewright.plan(graph, "1xp100", evaluations=10).peak_bytes[0] == 2 * X.nbytes


def test_an_array_that_is_returned_twice_has_two_buffers() -> None:
    graph = from_jax(lambda x: [jnp.sin(x)] * 2, X)
    assert [op.kind for op in graph.ops] == ["input", "elementwise", "copy"]
