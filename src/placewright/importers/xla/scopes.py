"""Layers and phases from the scopes that JAX writes with every op: "jit(step)/transpose(jvp(Net))/dense/dot"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from placewright.graph import Phase
from placewright.importers.builder import GraphBuilder

_TRANSFORMATION = re.compile(r"([\w.-]+)\((.*)\)", re.DOTALL)
#: Transformations whose brackets hold the name of a function, not of a layer.
_FUNCTIONS = frozenset({"jit", "pjit", "pmap", "xmap", "shard_map"})
_NO_LAYERS = re.compile(
    r"while|body|cond|scan|closed_call|core_call|checkpoint|remat\d?|rematted_computation|custom_[jv][vj]p_call|"
    r"branch_\d+_fun|pjit|jit|shard_map|jit:"
)


@lru_cache(maxsize=65536)
def module_of(scope: str) -> str:
    """Dotted path of the layer: the scope without its last part, which is the op itself."""
    parts = list(_parts(scope.split(";")[0]))
    return ".".join(layer for part in parts[:-1] for layer in _layers(part))


def _layers(part: str) -> list[str]:
    """The named scopes in one part: "transpose(jvp(Net))" holds one, "jit(relu)" none."""
    if not part or _NO_LAYERS.fullmatch(part):
        return []
    if (match := _TRANSFORMATION.fullmatch(part)) is None:
        return [part.replace(".", "_")]
    if match[1] in _FUNCTIONS:
        return []
    return [layer for inner in _parts(match[2]) for layer in _layers(inner)]


def _parts(scope: str) -> Iterator[str]:
    """The pieces between slashes outside brackets."""
    depth, begin = 0, 0
    for position, character in enumerate(scope):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "/" and depth <= 0:
            yield scope[begin:position]
            begin = position + 1
    yield scope[begin:]


def phases(builder: GraphBuilder, scopes: Sequence[str]) -> list[Phase]:
    """The phase of every op: transposed ops are backward; ops that depend on them belong to the optimizer, except views
    and ops without a scope, which are backward, and ops under "jvp", which are forward like all others.

    Empty for all where nothing was transposed. builder: its ops must be in an order in which they can run.
    """
    if not any(_is_backward(scope) for scope in scopes):
        return [""] * len(scopes)
    late: dict[int, bool] = {}
    found: list[Phase] = []
    for op, scope in zip(builder.ops, scopes, strict=True):
        after = any(late.get(tensor, False) for tensor in op.inputs)
        if _is_backward(scope):
            phase: Phase = "backward"
        elif "jvp(" in scope or not after:
            phase = "forward"
        else:
            phase = "backward" if op.kind == "view" or not scope else "optimizer"
        late.update(dict.fromkeys(op.outputs, phase != "forward"))
        found.append(phase)
    return found


def _is_backward(scope: str) -> bool:
    return "transpose(" in scope
