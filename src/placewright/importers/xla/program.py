"""The form that jaxprs, HLO and StableHLO share: typed instructions in computations that call each other, and the
values of references during translation.

graph.py makes a Graph of it, so that one network has the same ops and costs whichever of the three it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from placewright.importers.builder import tensor_bytes
from placewright.support.errors import InputError, shown
from placewright.support.quantities import counted

#: No network's program nests computations more deeply than this.
MAX_DEPTH = 64
#: Nor do its calls unfold to more instructions, or its tuples have more leaves, than these.
MAX_INSTRUCTIONS = 1_000_000
MAX_LEAVES = 50_000

_SMALL_FLOATS = "f4e2m1fn f8e3m4 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0fnu"
#: HLO's names of the floating element types, mapped to placewright's.
FLOATS: Mapping[str, str] = {
    "bf16": "bfloat16",
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{name: f"float{name[1]}_{name[2:]}" for name in _SMALL_FLOATS.split()},
}


@dataclass(frozen=True, slots=True)
class Array:
    """Type of one array. size_bytes: of its stored elements: those that a broadcast repeats count once, those in the
    host's memory not at all."""

    shape: tuple[int, ...]
    dtype: str
    size_bytes: int

    @property
    def is_stretched(self) -> bool:
        """True if it takes less memory than its shape says, as a broadcast that is never written out."""
        return 0 < self.size_bytes < tensor_bytes(self.shape, self.dtype)

    @property
    def is_at_host(self) -> bool:
        """True if it lies in the host's memory."""
        return self.size_bytes == 0 < tensor_bytes(self.shape, self.dtype)

    def at_host(self) -> Array:
        """The same array in the host's memory."""
        return replace(self, size_bytes=0)


Type: TypeAlias = "Array | tuple[Type, ...]"
#: The result of an instruction, by name, or a part of it: positions in tuples, from the outside in.
Reference: TypeAlias = tuple[str, tuple[int, ...]]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One step of a computation.

    opcode: as HLO or the dialect spells it, with hyphens. details: the settings that kinds, loops and folding depend
    on, see attributes.py and loops.py; for a library call also whether its last result is scratch. controls: names of
    instructions that must run before. scope: path of named scopes and transformations, as JAX writes it into metadata.
    """

    name: str
    opcode: str
    type: Type
    operands: tuple[Reference, ...] = ()
    details: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    called: tuple[Computation, ...] = ()
    controls: tuple[str, ...] = ()
    target: str = ""
    scope: str = ""
    source: str = ""
    has_effect: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Computation:
    """Instructions in an order that can be executed. parameters: names with their types, no instructions."""

    name: str
    parameters: Mapping[str, Type]
    instructions: tuple[Instruction, ...]
    root: Reference


@dataclass(frozen=True, kw_only=True)
class Body:
    """The work of one run of a computation.

    flops, bytes_moved: sums over its ops. kind: the one with most FLOPs, else that of the last op. computes: the
    attribute that states the dtype of most FLOPs, where the tensors do not show it. num_ops: without views. read_bytes:
    per leaf of its parameters, of which only a slice may be read. written_bytes: of its results, of which an update in
    place writes a part. temporary_bytes: the peak between its ops, besides parameters and results. passed: maps leaves
    of its root to the parameter leaves that they return unchanged.
    """

    flops: int
    bytes_moved: int
    kind: str
    computes: Mapping[str, str]
    num_ops: int
    read_bytes: tuple[int, ...]
    written_bytes: int
    temporary_bytes: int
    passed: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A whole program.

    labels: names of the leaves of the entry's parameters, in order. weights: positions of the leaves that are weights.
    updates: maps leaves of the root to the parameter leaf whose memory each takes over. materialised: whether the
    remaining transposes and reshapes move data, as after layout assignment. scopes_nest: whether scopes in a called
    computation continue the caller's.
    """

    entry: Computation
    labels: tuple[str, ...]
    weights: frozenset[int]
    updates: Mapping[int, int]
    materialised: bool
    scopes_nest: bool


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves of nested tuples, from left to right."""
    if not isinstance(tree, tuple):
        yield tree
        return
    for branch in tree:
        yield from leaves(branch)


def leaf_of(tree: Any, path: Sequence[int]) -> int | None:
    """Position, among all leaves, of the one at the end of a path; None where the path leads to none or to several."""
    first = 0
    for position in path:
        if not isinstance(tree, tuple) or not 0 <= position < len(tree):
            return None
        first += sum(len(list(leaves(branch))) for branch in tree[:position])
        tree = tree[position]
    return None if isinstance(tree, tuple) else first


def array(shape: tuple[int, ...], dtype: str) -> Array:
    """A dense array. Raises InputError for a dtype of unknown width."""
    return Array(shape, dtype, tensor_bytes(shape, dtype))


_TOKEN = re.compile(r"[-+]?\d{1,19}")


def whole_numbers(text: str) -> tuple[int, ...]:
    """All whole numbers in a text, in order."""
    return tuple(int(number) for number in _TOKEN.findall(text))


#: An array inside an argument, as JAX writes it: "weights['dense'][0]", "state.params.kernel".
_PART = re.compile(r"([A-Za-z_]\w*)(?:\[|\.[A-Za-z_])")


def named_weights(labels: Sequence[str], kinds: Sequence[Array]) -> tuple[set[int], str]:
    """Positions of the floating parameters that are parts of the first of several arguments, and a note that states
    this assumption. Where the first parameter is not such a part: none, and the warning of `weights_behind`."""
    first = _PART.match(labels[0]) if labels else None
    if first is None:
        return set(), weights_behind(labels, kinds)
    own = [place for place, label in enumerate(labels) if (part := _PART.match(label)) and part[1] == first[1]]
    if len(own) == len(labels):
        return set(), ""
    floating = {place for place in own if "float" in kinds[place].dtype}
    named = counted(len(floating), "parameter")
    return floating, f"taken for weights: {named} of the module, as parts of its argument '{first[1]}'"


def weights_behind(labels: Sequence[str], kinds: Sequence[Array]) -> str:
    """A warning where the first argument is one array, and the floating arrays of a later one take over half of all
    bytes: these may be weights, but count as inputs, which take no memory until they are read. Empty otherwise."""
    parts = [_PART.match(label) for label in labels]
    floating = [part[1] if part and "float" in kind.dtype else "" for part, kind in zip(parts, kinds, strict=True)]
    total = sum(kind.size_bytes for kind in kinds)
    for name in dict.fromkeys(floating) if parts and parts[0] is None else ():
        size = sum(kind.size_bytes for each, kind in zip(floating, kinds, strict=True) if each == name)
        if name and 2 * size > total:
            held = f"{counted(floating.count(name), 'array')} of the argument '{name}'"
            return f"counted as inputs, which take no memory before they are read: {held}; weights come first"
    return ""


@dataclass(frozen=True, slots=True)
class Folded:
    """An array made of constants alone, which takes no memory. number: its value if that is a known whole number."""

    array: Array
    number: int | None = None


#: The index of a tensor, a folded array, nothing, or a tuple of such.
Value: TypeAlias = "int | Folded | tuple[Value, ...] | None"
Environment: TypeAlias = dict[str, "Value"]


def like(kind: Any, places: Iterator[Any]) -> Value:
    """A tree of the same structure as the type, its leaves taken from `places` in order."""
    return tuple(like(branch, places) for branch in kind) if isinstance(kind, tuple) else next(places)


def folded(kind: Any) -> Value:
    return tuple(folded(branch) for branch in kind) if isinstance(kind, tuple) else Folded(kind)


def look_up(environment: Environment, reference: Reference, reader: str) -> Value:
    name, path = reference
    if name not in environment:
        raise InputError(f"'{shown(reader)}' reads '{shown(name)}', which nothing before it makes")
    value = environment[name]
    for position in path:
        if not isinstance(value, tuple) or not 0 <= position < len(value):
            raise InputError(f"'{shown(reader)}' reads part {position} of '{shown(name)}', which has no such part")
        value = value[position]
    return value
