"""Details of primitives of jax.lax, as xla/attributes.py reads them, from the parameters of their equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Params = Mapping[str, Any]
Details = dict[str, Any]


def _product(params: Params) -> Details:
    contract, batch = params["dimension_numbers"]
    return {"contract": contract, "batch": batch}


def _ragged_product(params: Params) -> Details:
    """Every row meets the matrix of its group."""
    numbers = params["ragged_dot_dimension_numbers"]
    contract, batch = numbers.dot_dimension_numbers
    return {"contract": contract, "batch": batch, "groups": tuple(numbers.rhs_group_dimensions)}


def _convolution(params: Params) -> Details:
    numbers = params["dimension_numbers"]
    return {
        "lhs_spec": numbers.lhs_spec,
        "rhs_spec": numbers.rhs_spec,
        "stride": params["window_strides"],
        "padding": params["padding"],
        "lhs_dilation": params["lhs_dilation"],
        "rhs_dilation": params["rhs_dilation"],
        "groups": params["feature_group_count"],
    }


def _reduction(function: str) -> Callable[[Params], Details]:
    return lambda params: {"function": function, "axes": params["axes"]}


def _any_reduction(params: Params) -> Details:
    """A reduction by a function of one's own."""
    return {"function": _joining(params["jaxpr"]), "axes": params["dimensions"]}


def _window(function: str) -> Callable[[Params], Details]:
    return lambda params: {
        "function": function,
        "window": params["window_dimensions"],
        "stride": params["window_strides"],
        "padding": params["padding"],
    }


def _any_window(params: Params) -> Details:
    return _window(_joining(params["jaxpr"]))(params)


def _joining(jaxpr: Any) -> str:
    """The function of the last equation."""
    equations = getattr(jaxpr, "jaxpr", jaxpr).eqns
    return str(equations[-1].primitive.name) if equations else "first"


def _gather(params: Params) -> Details:
    return {"slice_sizes": params["slice_sizes"]}


DETAILS: Mapping[str, Callable[[Params], Details]] = {
    "dot_general": _product,
    "ragged_dot_general": _ragged_product,
    "conv_general_dilated": _convolution,
    **{f"reduce_{name}": _reduction(name) for name in ("max", "min", "prod", "and", "or", "xor")},
    "reduce_sum": _reduction("add"),
    "argmax": _reduction("max"),
    "argmin": _reduction("min"),
    "reduce": _any_reduction,
    "reduce_window_max": _window("max"),
    "reduce_window_min": _window("min"),
    "reduce_window_sum": _window("add"),
    "reduce_window": _any_window,
    "select_and_scatter_add": _window("add"),
    "select_and_gather_add": _window("max"),
    "gather": _gather,
}
