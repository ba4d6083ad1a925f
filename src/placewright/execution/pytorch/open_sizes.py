"""Numbers for the open sizes of a graph, which PyTorch leaves open from the second shape of an argument on.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._pytree import tree_leaves, tree_map

_KINDS: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
#: Set by `torch._functorch._aot_autograd.runtime_wrappers.mark_dynamo_propagated_dynamic_indices`.
_MARK = "_dynamo_propagated_dynamic_indices"


def is_open(value: Any) -> bool:
    """True if an input of a graph is an open size."""
    return isinstance(value, torch.SymInt)


def is_size(node: Any) -> bool:
    """True if a node is a number. A placeholder without a value counts as one: PyTorch records none for it."""
    if not isinstance(node, fx.Node):
        return False
    if node.op == "placeholder" and "val" not in node.meta:
        return True
    return isinstance(node.meta.get("val"), (*_KINDS, int, float, bool))


class Sizes:
    """A number for each open size.

    values: by symbol. places: where it is found, by symbol, such as "L['x'].size()[0]".
    """

    def __init__(self, values: Mapping[Any, int], places: Mapping[Any, str]) -> None:
        self._values = {symbol: sympy.Integer(number) for symbol, number in values.items()}
        self._places = places

    @classmethod
    def seen(cls, inputs: Iterable[Any]) -> Sizes:
        """The sizes of the call for which PyTorch captures a graph with such inputs."""
        sizes = [each for each in inputs if is_open(each)]
        if not sizes:
            return cls({}, {})
        known = sizes[0].node.shape_env
        places = {symbol: sources[0].name for symbol, sources in known.var_to_sources.items() if sources}
        return cls(known.backed_var_to_val, places)

    @property
    def are_open(self) -> bool:
        """True if there are open sizes."""
        return bool(self._values)

    def by_place(self) -> dict[str, int]:
        """The numbers, by the place where they are found."""
        return {place: int(self._values[symbol]) for symbol, place in self._places.items() if symbol in self._values}

    def at_least(self, largest: Mapping[str, int]) -> Sizes | None:
        """The sizes, raised to given numbers by place where those are larger; None where none is."""
        most = {s: max(int(number), largest.get(self._places.get(s, ""), 0)) for s, number in self._values.items()}
        return Sizes(most, self._places) if most != self._values else None

    def of_call(self, inputs: Sequence[Any], given: Sequence[Any]) -> Sizes:
        """The sizes of a later call. inputs: as the graph was captured. given: the arguments of the call."""
        pairs = ((each.node.expr, number) for each, number in zip(inputs, given, strict=True) if is_open(each))
        found = {symbol: number for symbol, number in pairs if symbol.is_Symbol}
        return Sizes({**self._values, **found}, self._places)

    def number(self, size: Any) -> Any:
        """The value of an open size; for one that no argument has, such as a generator's state, its captured value."""
        kind = next((kind for open_kind, kind in _KINDS.items() if isinstance(size, open_kind)), None)
        if kind is None:
            return size
        found = size.node.expr.xreplace(self._values)
        return kind(found if found.is_number else found.xreplace(size.node.shape_env.backed_var_to_val))

    def num_bytes(self, value: Any) -> int:
        """The bytes of a tensor's memory."""
        return int(self.number(value.untyped_storage().nbytes()))

    def known(self, value: Any) -> Any:
        """The same numbers and tensors without open sizes; tensors keep their layout, and fake ones stay fake."""

        def known(each: Any) -> Any:
            if not isinstance(each, torch.Tensor):
                return self.number(each)
            shape, strides = (tuple(map(self.number, numbers)) for numbers in (each.shape, each.stride()))
            if all(type(size) is int for size in (*each.shape, *each.stride())):
                return each
            with each.fake_mode:
                return torch.empty_strided(shape, strides, dtype=each.dtype, device=each.device)

        return tree_map(known, value)


def take_marks_off(given: Any) -> None:
    """Removes the marks by which PyTorch leaves sizes of tensors open even with `dynamic=False`.

    PyTorch marks an argument that it has saved for a backward with open sizes, to find it in the graph later.
    """
    for leaf in tree_leaves(given):
        # Nested tensors have such a mark of their own.
        if type(leaf) in (torch.Tensor, torch.nn.Parameter) and hasattr(leaf, _MARK):
            delattr(leaf, _MARK)


def lying_as(value: Any, other: Any) -> Any:
    """A tensor whose sizes may be open, with its dimensions in memory in the order of one without open sizes."""
    if not isinstance(other, torch.Tensor) or not isinstance(value, torch.Tensor):
        return value
    if all(type(size) is int for size in value.shape):
        return value.as_strided(value.shape, other.stride())
    order = sorted(range(value.dim()), key=lambda place: -other.stride(place))
    with value.fake_mode:
        return torch.empty_permuted(value.shape, order, dtype=value.dtype, device=value.device)
