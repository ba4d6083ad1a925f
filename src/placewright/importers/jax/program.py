"""A jaxpr as a program of `xla`. Imported only where JAX is known to be present."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.extend import core, source_info_util

from placewright.importers.builder import DTYPE_BITS
from placewright.importers.source_lines import without_directory
from placewright.importers.xla.program import Array, Computation, Instruction, Reference, array
from placewright.support.errors import InputError, shown

#: Primitives that call a jaxpr with their own operands, and the parameter that holds it.
_CALLS = {
    **dict.fromkeys(("jit", "remat2"), "jaxpr"),
    **dict.fromkeys(("closed_call", "custom_jvp_call", "custom_vjp_call"), "call_jaxpr"),
}
#: Primitives that only mark their operands.
_SAME_NAMES = """
    optimization_barrier stop_gradient sharding_constraint device_put pvary pcast reduced_vary_cast copy_p random_wrap
    random_unwrap mesh_cast reshard custom_lin preduced vary_unreduced_cast_p name
"""
_SAME = frozenset(_SAME_NAMES.split())
_SUMMARY = re.compile(r"(.*?):(\d+)(?::\d+)? \(", re.DOTALL)


class Converter:
    """Converts jaxprs to computations, each once even if it is called from several places.

    unroll: scans of at most so many steps are unrolled.
    """

    def __init__(self, unroll: int) -> None:
        self.unroll = unroll
        self._known: dict[int, tuple[Any, Computation]] = {}

    def computation(self, jaxpr: Any, name: str) -> Computation:
        """The computation of a ClosedJaxpr, or of a Jaxpr without constants."""
        if id(jaxpr) not in self._known:
            # The jaxpr is kept, so that nothing else gets its id.
            self._known[id(jaxpr)] = jaxpr, _Conversion(self, jaxpr, name).run()
        return self._known[id(jaxpr)][1]


class _Conversion:
    """One jaxpr under conversion.

    references: the value of each variable. touched: per mutable array or kind of ordered effect, the last instruction
    that wrote it, empty where none did, and those that have read it since.
    """

    def __init__(self, converter: Converter, jaxpr: Any, name: str) -> None:
        self.converter, self.name = converter, name
        self.inner = getattr(jaxpr, "jaxpr", jaxpr)
        self.constants: Sequence[Any] = getattr(jaxpr, "consts", ())
        self.instructions: list[Instruction] = []
        self.references: dict[Any, Reference] = {}
        self.used: Counter[str] = Counter()
        self.touched: dict[Any, list[str]] = {}

    def run(self) -> Computation:
        parameters = {}
        for position, variable in enumerate(self.inner.invars):
            parameters[f"argument_{position}"] = array_of(variable.aval)
            self.references[variable] = (f"argument_{position}", ())
        for variable, value in zip(self.inner.constvars, self.constants, strict=True):
            self.references[variable] = self._constant(variable.aval, value)
        for equation in self.inner.eqns:
            self._add(equation)
        results = [self._reference(variable) for variable in self.inner.outvars]
        kinds = tuple(array_of(variable.aval) for variable in self.inner.outvars)
        root = Instruction(name="root", opcode="tuple", type=kinds, operands=tuple(results))
        self.instructions.append(root)
        return Computation(
            name=self.name, parameters=parameters, instructions=tuple(self.instructions), root=("root", ())
        )

    def _add(self, equation: Any) -> None:
        primitive, params = equation.primitive.name, equation.params
        operands = tuple([self._reference(value) for value in equation.invars])
        kinds = [array_of(variable.aval) for variable in equation.outvars]
        single = len(kinds) == 1 and not equation.primitive.multiple_results
        opcode, details, called = self._meaning(primitive, params)
        scope = str(equation.source_info.name_stack)
        name = self._unique(str(params.get("name") or primitive) if opcode == "call" else primitive)
        self.instructions.append(
            Instruction(
                name=name,
                opcode=opcode,
                type=kinds[0] if single else tuple(kinds),
                operands=operands,
                details=details,
                called=called,
                controls=self._before(equation, name),
                target=primitive,
                scope=f"{scope}/{primitive}" if scope else primitive,
                source=source_of(equation.source_info),
                has_effect=any(_is_effect(each) for each in equation.effects) and opcode != "call",
            )
        )
        for position, variable in enumerate(equation.outvars):
            self.references[variable] = (name, () if single else (position,))

    def _before(self, equation: Any, name: str) -> tuple[str, ...]:
        """The instructions whose effects an equation has to wait for."""
        mutable = [value for value in equation.invars if type(value.aval).__name__ == "AbstractRef"]
        ordered = [type(each).__name__ for each in equation.effects if "Ordered" in type(each).__name__]
        before: list[str] = []
        for key in (*mutable, *ordered):
            known = self.touched.setdefault(key, [""])
            if equation.primitive.name == "get":
                before += known[:1]
                known.append(name)
            else:
                before += known
                self.touched[key] = [name]
        return tuple(filter(None, dict.fromkeys(before)))

    def _meaning(self, primitive: str, params: Any) -> tuple[str, dict[str, Any], tuple[Computation, ...]]:
        """Opcode, details and called computations of an equation."""
        if primitive in _CALLS and _CALLS[primitive] in params:
            inner = params[_CALLS[primitive]]
            return "call", {}, (self.converter.computation(inner, str(params.get("name") or primitive)),)
        if primitive == "device_put" and any(isinstance(each, jax.memory.Space) for each in params["devices"]):
            return "copy", {}, ()
        if primitive in _SAME:
            return "identity", {}, ()
        if primitive == "shard_map":
            details = {side: tuple(map(_sharding, params[f"{side}_specs"])) for side in ("in", "out")}
            return "shard-map", details, (self.converter.computation(params["jaxpr"], "shard_map"),)
        if primitive == "scan":
            trips = {"trips": params["length"], "unroll": self.converter.unroll, "reverse": params["reverse"]}
            details = {**trips, "consts": params["num_consts"], "carry": params["num_carry"]}
            return "scan", details, (self.converter.computation(params["jaxpr"], "scan"),)
        if primitive == "while":
            details = {"skip": params["cond_nconsts"], "consts": params["body_nconsts"]}
            both = params["cond_jaxpr"], params["body_jaxpr"]
            return "while", details, tuple(self.converter.computation(each, "while") for each in both)
        if primitive == "cond":
            return "conditional", {}, tuple(self.converter.computation(each, "cond") for each in params["branches"])
        if primitive == "integer_pow":
            return ("div" if params["y"] < 0 else "integer-pow" if params["y"] < 4 else "pow"), {}, ()
        rule = DETAILS.get(primitive)
        return primitive.replace("_", "-"), rule(params) if rule is not None else {}, ()

    def _reference(self, value: Any) -> Reference:
        return self._constant(value.aval, value.val) if isinstance(value, core.Literal) else self.references[value]

    def _constant(self, aval: Any, value: Any) -> Reference:
        kind = array_of(aval)
        details: dict[str, Any] = {}
        if kind.shape == () and "int" in kind.dtype:
            details = {"number": int(value)}
        elif kind.shape != ():
            # Several jaxprs may hold one array, which they keep, so that nothing else gets its id.
            details = {"array": id(value)}
        name = self._unique("constant")
        self.instructions.append(Instruction(name=name, opcode="constant", type=kind, details=details))
        return name, ()

    def _unique(self, name: str) -> str:
        self.used[name] += 1
        return name if self.used[name] == 1 else f"{name}_{self.used[name] - 1}"


def _sharding(spec: Any) -> str:
    """The division of an array, as text: the mesh axes along each of its own axes."""
    axes = [(part,) if isinstance(part, str) else tuple(part or ()) for part in spec]
    while axes and not axes[-1]:
        axes.pop()
    return str(axes)


def _is_effect(effect: Any) -> bool:
    """True if an effect is more than communication along a mesh axis, which only gives results."""
    return type(effect).__name__ != "NamedAxisEffect"


def array_of(aval: Any) -> Array:
    """The type of a value. Raises InputError for one whose extents are not known."""
    if not hasattr(aval, "shape"):
        return Array((0,), "bool", 0)
    if not all(isinstance(extent, int) for extent in aval.shape):
        raise InputError(f"an array has the open shape {shown(tuple(map(str, aval.shape)))}")
    found = _array(tuple(aval.shape), aval.dtype)
    return found.at_host() if getattr(aval, "memory_space", None) is jax.memory.Space.Host else found


@lru_cache(maxsize=65536)
def _array(shape: tuple[int, ...], dtype: Any) -> Array:
    """The type of a shape and dtype. Random-number keys count as the integers that they consist of."""
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        return array((*shape, dtype.itemsize // 4), "uint32")
    if dtype == jax.dtypes.float0:
        return Array(shape, "bool", 0)
    name = str(np.dtype(dtype))
    if name not in DTYPE_BITS:
        return Array(shape, name, math.prod(shape) * np.dtype(dtype).itemsize)
    return array(shape, name)


def source_of(source_info: Any) -> str:
    """ "file.py:line" of the innermost frame that is not JAX's own."""
    return _short(source_info_util.summarize(source_info))


@lru_cache(maxsize=65536)
def _short(summary: str) -> str:
    match = _SUMMARY.match(summary)
    return f"{without_directory(match[1])}:{match[2]}" if match else ""


Params = Mapping[str, Any]
Details = dict[str, Any]


def _ragged_product(params: Params) -> Details:
    """Axes of a product of every row with the matrix of its group."""
    numbers = params["ragged_dot_dimension_numbers"]
    contract, batch = numbers.dot_dimension_numbers
    return {"contract": contract, "batch": batch, "groups": tuple(numbers.rhs_group_dimensions)}


def _convolution(params: Params) -> Details:
    numbers = params["dimension_numbers"]
    return {
        **{name: params[name] for name in ("padding", "lhs_dilation", "rhs_dilation")},
        "lhs_spec": numbers.lhs_spec,
        "rhs_spec": numbers.rhs_spec,
        "stride": params["window_strides"],
        "groups": params["feature_group_count"],
    }


def _reduction(function: str) -> Callable[[Params], Details]:
    return lambda params: {"function": function, "axes": params["axes"]}


def _window(function: str) -> Callable[[Params], Details]:
    return lambda params: {
        "function": function,
        "window": params["window_dimensions"],
        "stride": params["window_strides"],
        "padding": params["padding"],
    }


def _joining(jaxpr: Any) -> str:
    """The function of the last equation."""
    equations = getattr(jaxpr, "jaxpr", jaxpr).eqns
    return str(equations[-1].primitive.name) if equations else "first"


DETAILS: Mapping[str, Callable[[Params], Details]] = {
    "dot_general": lambda params: dict(zip(("contract", "batch"), params["dimension_numbers"], strict=True)),
    "ragged_dot_general": _ragged_product,
    "conv_general_dilated": _convolution,
    **{f"reduce_{name}": _reduction(name) for name in ("max", "min", "prod", "and", "or", "xor")},
    "reduce_sum": _reduction("add"),
    "argmax": _reduction("max"),
    "argmin": _reduction("min"),
    # The joining function is the user's own.
    "reduce": lambda params: {"function": _joining(params["jaxpr"]), "axes": params["dimensions"]},
    "reduce_window_max": _window("max"),
    "reduce_window_min": _window("min"),
    "reduce_window_sum": _window("add"),
    "reduce_window": lambda params: _window(_joining(params["jaxpr"]))(params),
    "select_and_scatter_add": _window("add"),
    "select_and_gather_add": _window("max"),
    "gather": lambda params: {"slice_sizes": params["slice_sizes"]},
}
