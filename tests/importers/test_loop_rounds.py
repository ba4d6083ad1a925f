"""How often loops run: against the loop itself, executed, on random counters, bounds and constants."""

from __future__ import annotations

import random
from typing import Any

import pytest

jax = pytest.importorskip("jax", reason="the loops are written in JAX")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from placewright.graph import Graph  # noqa: E402
from placewright.importers.jax.function import from_jax  # noqa: E402
from placewright.importers.stablehlo.program import parse_stablehlo  # noqa: E402

X, N = jnp.ones((4, 8)), jnp.int32(3)


def random_loop(seed: int) -> tuple[Any, bool]:
    """A function of x, w and n that loops and also returns its rounds, and whether its text tells how many."""
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
