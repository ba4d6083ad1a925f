"""Functions that JAX has transformed: what vmap, grad, jit and jvp put into parameters of equations is data like any
other, and many examples cost as much as one so many times."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax", reason="the JAX importer needs JAX")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from twin_networks import flops_of  # noqa: E402

import placewright  # noqa: E402
from placewright.costs.traffic import count_bytes  # noqa: E402
from placewright.graph import Graph  # noqa: E402
from placewright.importers import load_graph  # noqa: E402
from placewright.importers.jax.function import from_jax  # noqa: E402
from placewright.importers.json_graph import save_graph  # noqa: E402


def floats(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


INDEX, INDICES = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((3,), jnp.int32)


def attend(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.T / 2) @ v


def scanned(x: Any, w: Any) -> Any:
    return lax.scan(lambda carry, row: (jnp.tanh(carry @ w) + row, carry.sum()), x[0], x)


#: Functions of one example, with what they take.
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sum": (lambda x: x.sum(0), (floats(3, 4),)),
    "max": (lambda x: x.max(-1), (floats(3, 4),)),
    "argmax": (lambda x: x.argmax(-1), (floats(3, 4),)),
    "cumsum": (lambda x: jnp.cumsum(x, 0), (floats(3, 4),)),
    "softmax": (jax.nn.softmax, (floats(3, 4),)),
    "dot": (lambda x, w: x @ w, (floats(3, 4), floats(4, 5))),
    "conv": (lambda x, k: lax.conv_general_dilated(x[None], k, (1,), "SAME")[0], (floats(3, 8), floats(6, 3, 3))),
    "scan": (scanned, (floats(3, 4), floats(4, 4))),
    "gather": (lambda x, i: x[i], (floats(10, 4), INDICES)),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 4)), (floats(10, 4), INDEX)),
    "scatter": (lambda x, i: x.at[i].add(1.0), (floats(10, 4), INDICES)),
    "sort": (lambda x: jnp.sort(x, 0), (floats(10, 4),)),
    "top_k": (lambda x: lax.top_k(x, 2), (floats(10, 4),)),
    "pooling": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"), (floats(8, 8),)),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda y: y * 2, x), (floats(4),)),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T), (floats(4, 4),)),
    "attention": (attend, (floats(6, 8), floats(6, 8), floats(6, 8))),
}


def many(args: tuple[Any, ...], count: int = 5) -> tuple[Any, ...]:
    return tuple(jax.ShapeDtypeStruct((count, *arg.shape), arg.dtype) for arg in args)


def scalar(function: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of all that a function gives."""
    return lambda *args: sum(jnp.sum(leaf.astype(jnp.float32)) for leaf in jax.tree.leaves(function(*args)))


def gradient(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    places = tuple(place for place, arg in enumerate(args) if arg.dtype == jnp.float32)
    derived: Callable[..., Any] = jax.grad(scalar(function), argnums=places)
    return derived


def tangents(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """Derivatives along the floating arguments; those of whole results have the type float0."""

    def derived(*values: Any) -> Any:
        places = [place for place, arg in enumerate(args) if arg.dtype == jnp.float32]

        def of_floats(*floating: Any) -> Any:
            given = dict(zip(places, floating, strict=True))
            return function(*[given.get(place, value) for place, value in enumerate(values)])

        chosen = tuple(values[place] for place in places)
        return jax.jvp(of_floats, chosen, chosen)

    return derived


def transformed(form: str, name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    function, args = FUNCTIONS[name]
    forms: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
        "vmap": lambda: (jax.vmap(function), many(args)),
        "vmap of vmap": lambda: (jax.vmap(jax.vmap(function)), many(many(args), 2)),
        "vmap of the first": lambda: (
            jax.vmap(function, in_axes=(0, *[None] * (len(args) - 1))),
            (*many(args[:1]), *args[1:]),
        ),
        "vmap along the last axis": lambda: (
            jax.vmap(function, in_axes=tuple(len(arg.shape) for arg in args), out_axes=-1),
            tuple(jax.ShapeDtypeStruct((*arg.shape, 5), arg.dtype) for arg in args),
        ),
        "jit of vmap": lambda: (jax.jit(jax.vmap(function)), many(args)),
        "grad": lambda: (gradient(function, args), args),
        "grad of vmap": lambda: (gradient(jax.vmap(function), args), many(args)),
        "vmap of grad": lambda: (jax.vmap(gradient(function, args)), many(args)),
        "jvp of vmap": lambda: (tangents(jax.vmap(function), args), many(args)),
    }
    return forms[form]()


FORMS = (
    *("vmap", "vmap of vmap", "vmap of the first", "vmap along the last axis", "jit of vmap"),
    *("grad", "grad of vmap", "vmap of grad", "jvp of vmap"),
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("form", FORMS)
def test_a_transformed_function_is_saved_loaded_and_planned(form: str, name: str, tmp_path: Path) -> None:
    function, args = transformed(form, name)
    graph = from_jax(function, args, parameters=())
    save_graph(graph, tmp_path / "graph.json")
    loaded = load_graph(tmp_path / "graph.json")
    assert loaded.fingerprint == graph.fingerprint
    assert [op.attributes for op in loaded.ops] == [op.attributes for op in graph.ops]
    assert [tensor.shape for tensor in loaded.tensors] == [tensor.shape for tensor in graph.tensors]
    plan = placewright.plan(graph, "2xh100", evaluations=1)
    plan.save(tmp_path / "plan.json")
    assert placewright.load(tmp_path / "plan.json").step_time_ns == plan.step_time_ns


def bytes_of(graph: Graph) -> int:
    return sum(
        count_bytes(op, [graph.tensors[t] for t in dict.fromkeys(op.inputs)], [graph.tensors[t] for t in op.outputs])
        for op in graph.ops
    )


@pytest.mark.parametrize(
    ("name", "flops", "moved"),
    [
        # 5 * 3 * 4 elements are read and 5 * 4 written, of 4 bytes.
        ("sum", 60, 4 * (60 + 20)),
        # 5 * 3 are written.
        ("max", 60, 4 * (60 + 15)),
        ("argmax", 60, 4 * (60 + 15)),
        ("cumsum", 60, 4 * (60 + 60)),
        # Products of 3 by 4 and 4 by 5.
        ("dot", 5 * 2 * 3 * 4 * 5, 4 * 5 * (12 + 20 + 15)),
        # A step: a product of 2 * 4 * 4, a tanh of weight 10 for 4 elements, 4 additions, a sum of 4. It moves 4 + 16
        # elements and the 4 of the product, 4 + 4 for the tanh, 4 + 4 + 4 for the addition, 4 + 1 for the sum; before
        # the loop the first row is taken, 4 + 4, and made a vector.
        ("scan", 5 * 3 * (32 + 40 + 4 + 4), 4 * 5 * (3 * (24 + 8 + 12 + 5) + 8)),
    ],
)
def test_many_examples_cost_what_they_cost_by_hand(name: str, flops: int, moved: int) -> None:
    graph = from_jax(*transformed("vmap", name), parameters=())
    assert (flops_of(graph), bytes_of(graph)) == (flops, moved)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "cond"])
def test_many_examples_compute_so_many_times_as_much_as_one(name: str) -> None:
    # Where examples take different branches, both are computed for all.
    function, args = FUNCTIONS[name]
    assert flops_of(from_jax(jax.vmap(function), many(args), parameters=())) == 5 * flops_of(
        from_jax(function, args, parameters=())
    )


def test_a_reduction_under_vmap_has_whole_numbers_as_axes() -> None:
    graph = from_jax(*transformed("vmap", "max"))
    (axes,) = [op.attributes["axes"] for op in graph.ops if op.kind == "reduction"]
    assert axes == [2]
    assert type(axes[0]) is int
