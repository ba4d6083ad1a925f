"""Loops of XLA's dialects: how often they run, against the loop itself, executed, and what they hold, against XLA."""

from __future__ import annotations

import random
from typing import Any

import pytest

import placewright
from placewright.importers.hlo.program import parse_hlo
from placewright.importers.stablehlo.program import parse_stablehlo

jax = pytest.importorskip("jax", reason="the loops are written in JAX")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from placewright.graph import Graph  # noqa: E402
from placewright.importers.jax.function import from_jax  # noqa: E402

X, N = jnp.ones((4, 8)), jnp.int32(3)


def random_loop(seed: int) -> tuple[Any, bool]:
    """Return a function of x, w and n that loops and also returns its rounds, and True if its text tells how many."""
    chance = random.Random(seed)
    start, length = chance.randrange(4), chance.randrange(1, 9)
    where = chance.choice(["literal", "closed over", "carried", "changing", "argument"])
    is_last, order = chance.random() < 0.3, chance.sample(range(4), 4)
    uses_weight, extra = chance.random() < 0.7, chance.randrange(3)

    def function(x: Any, w: Any, n: Any) -> Any:
        end = jnp.int32(start + length)
        constants = [jnp.int32(90 + number) for number in range(extra)]

        def packed(*values: Any) -> Any:
            return tuple([values[place] for place in order])

        def unpacked(state: Any) -> list[Any]:
            return [state[order.index(place)] for place in range(4)]

        def goes_on(state: Any) -> Any:
            counter, bound, _, _ = unpacked(state)
            last = {"literal": start + length, "closed over": end, "argument": n}.get(where, bound)
            return counter <= last if is_last else counter < last

        def body(state: Any) -> Any:
            counter, bound, value, done = unpacked(state)
            value = value @ w if uses_weight else value + 1
            for constant in constants:
                value = value + constant
            return packed(counter + 1, bound - 1 if where == "changing" else bound, value, done + 1)

        return unpacked(lax.while_loop(goes_on, body, packed(jnp.int32(start), end, x, jnp.int32(0))))[3]

    return function, where in ("literal", "closed over", "carried")


def rounds(graph: Graph) -> int:
    (loop,) = [each for each in graph.ops if each.kind == "control_flow"]
    return int(loop.attributes["trips"])


@pytest.mark.parametrize("seed", range(16))
def test_rounds_are_those_that_run_or_one_with_a_warning(seed: int) -> None:
    function, is_told = random_loop(seed)
    arguments = (X, jnp.ones((8, 8)), N)
    text = jax.jit(function).lower(*arguments).as_text()
    for graph in (from_jax(function, arguments), parse_stablehlo(text.encode(), "m.mlir")):
        if is_told:
            assert rounds(graph) == int(function(*arguments))
        assert ("warnings" in graph.metadata) is not is_told
        assert is_told or rounds(graph) == 1


def stacked(seed: int) -> tuple[Any, tuple[Any, ...]]:
    """A scan over a random number of stacked weights, and what it is called with."""
    chance = random.Random(seed)
    depth, width, count = chance.randrange(3, 9), chance.choice([16, 32, 64]), chance.randrange(1, 4)

    def function(x: Any, weights: Any, scale: Any) -> Any:
        def body(carry: Any, layers: Any) -> Any:
            for weight in layers:
                carry = jnp.tanh(carry @ weight) * scale
            return carry, None

        return lax.scan(body, x, weights)[0]

    weights = [jnp.ones((depth, width, width)) for _ in range(count)]
    return function, (jnp.ones((4, width)), weights, jnp.ones(width))


@pytest.mark.parametrize("seed", range(6))
def test_what_a_loop_never_changes_is_held_once(seed: int) -> None:
    function, arguments = stacked(seed)
    lowered = jax.jit(function).lower(*arguments)
    compiled = lowered.compile()
    memory = compiled.memory_analysis()
    most = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    stacks = sum(weight.nbytes for weight in arguments[1])
    for graph in (
        parse_hlo(compiled.as_text().encode(), "m.hlo"),
        parse_stablehlo(lowered.as_text().encode(), "m.mlir"),
        from_jax(function, arguments),
    ):
        (loop,) = [each for each in graph.ops if each.kind == "control_flow"]
        assert sum(graph.tensors[tensor].size_bytes for tensor in loop.outputs) < stacks // 2
        # Before fusion, temporaries are other ones.
        assert placewright.plan(graph, "1xp100", evaluations=10).peak_bytes[0] < most + stacks // 2
