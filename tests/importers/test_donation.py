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
    plan = [(chance.randrange(10), chance.randrange(20), chance.randrange(20)) for _ in range(chance.randrange(1, 6))]
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
                lambda left=left, right=right: lax.dynamic_update_slice(left, right[:2], (3, 0)),
                lambda left=left, right=right: left.at[jnp.array([1, 5])].add(right[3:5]),
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


@pytest.mark.parametrize("seed", range(8))
def test_an_update_in_place_moves_only_its_part(seed: int) -> None:
    chance = random.Random(seed)
    shape = [chance.randrange(8, 20) for _ in range(chance.choice([2, 3]))]
    part = jnp.ones([chance.randrange(1, 5), *shape[1:]])
    is_donated, is_scatter, rows = chance.random() < 0.5, chance.random() < 0.5, jnp.arange(len(part))

    def step(cache: Any, part: Any, rows: Any) -> Any:
        cache = cache if is_donated else jnp.sin(cache)
        if is_scatter:
            return cache.at[rows].set(part, mode="drop", wrap_negative_indices=False)
        return lax.dynamic_update_slice(cache, part, [rows[0], *[0] * (len(shape) - 1)])

    arguments = jnp.ones(shape), part, rows
    stepped = jax.jit(step, donate_argnums=0 if is_donated else ())
    for graph in (from_jax(stepped, arguments), parse_stablehlo(stepped.lower(*arguments).as_text().encode(), "m")):
        (update,) = [op for op in graph.ops if op.target.endswith(("update_slice", "scatter"))]
        # The part is read and written, the places are read.
        places = rows.nbytes if is_scatter else 4
        assert update.attributes["bytes_moved"] == 2 * part.nbytes + places
        assert graph.tensors[update.outputs[0]].alias_of is not None


def test_an_array_that_is_read_later_is_copied_and_not_updated_in_place() -> None:
    def step(x: Any, part: Any) -> Any:
        x = jnp.sin(x)
        return lax.dynamic_update_slice(x, part, (0, 0)) @ x

    graph = from_jax(step, (X, X[:1]))
    (update,) = [op for op in graph.ops if op.target == "dynamic_update_slice"]
    assert "bytes_moved" not in update.attributes
    assert graph.tensors[update.outputs[0]].alias_of is None


def test_an_old_value_that_is_returned_is_copied_first_and_no_more_is_held() -> None:
    def step(b: Any) -> Any:
        return b * 2, b.reshape(-1)

    graph = from_jax(jax.jit(step, donate_argnums=0), X)
    assert [op.kind for op in graph.ops if op.kind != "view"] == ["copy", "elementwise"]
    assert placewright.plan(graph, "1xp100", evaluations=10).peak_bytes[0] == 2 * X.nbytes


def test_an_array_that_is_returned_twice_has_two_buffers() -> None:
    graph = from_jax(lambda x: [jnp.sin(x)] * 2, X)
    assert [op.kind for op in graph.ops] == ["input", "elementwise", "copy"]
