"""Equations of Einsum: their axes, and the arithmetic they require."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """An equation with a name for each axis: its letter, or its place from the right among those under the dots.

    operands: names of the axes of each. extents: by name; operands with an extent of 1 are repeated.
    """

    operands: Sequence[Sequence[str]]
    result: Sequence[str]
    extents: Mapping[str, int]

    def size(self, axes: set[str]) -> int:
        """The number of elements of a tensor with these axes."""
        return math.prod(self.extents[axis] for axis in axes)

    @property
    def repeats_axes(self) -> bool:
        """True if only a diagonal of an operand is read."""
        return any(len(set(axes)) < len(axes) for axes in self.operands)

    @property
    def products(self) -> Sequence[tuple[set[str], set[str], set[str]]]:
        """The axes of both factors and of the result of each product, operands taken from left to right, as in ONNX
        Runtime. Axes that only one of the two has and that are not needed later are summed before."""
        made = []
        left = set(self.operands[0])
        for place, operand in enumerate(self.operands[1:], start=1):
            right = set(operand)
            kept = set(self.result).union(*self.operands[place + 1 :])
            made.append((left & (right | kept), right & (left | kept), (left | right) & kept))
            left = (left | right) & kept
        return made

    @property
    def is_matrix_product(self) -> bool:
        """True if an axis that two factors share is summed."""
        return any((left & right) - result for left, right, result in self.products)

    @property
    def flops(self) -> int:
        """The FLOPs: a multiplication for every pair of elements that meet, and an addition for every one that is
        summed."""
        total, left = 0, set(self.operands[0])
        if not self.products:
            return self.size(left) if left - set(self.result) else 0
        for (first, second, result), operand in zip(self.products, self.operands[1:], strict=True):
            total += sum(self.size(own) for own, rest in ((left, first), (set(operand), second)) if own - rest)
            total += self.size(first | second) * (2 if (first & second) - result else 1)
            left = result
        return total


def contraction(equation: str, shapes: Sequence[Shape | None]) -> Contraction:
    """The contraction of an equation. shapes: of the operands. Raises ValueError where they do not fit."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    extents: dict[str, int] = {}
    operands = []
    for term, shape in zip(terms, shapes, strict=True):
        if shape is None:
            raise ValueError("an operand has no shape")
        axes = _axes(term, len(shape) - len(term.replace("...", "")))
        operands.append(axes)
        for axis, extent in zip(axes, shape, strict=True):
            extents[axis] = extent if extents.get(axis, 1) == 1 else extents[axis]
    covered = max((sum(axis.isdigit() for axis in axes) for axes in operands), default=0)
    letters = left.replace("...", "").replace(",", "")
    once = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    result = _axes(right if arrow else "..." + once, covered)
    if not set(result) <= extents.keys():
        raise ValueError("the result has an axis that no operand has")
    return Contraction(operands=operands, result=result, extents=extents)


def _axes(term: str, covered: int) -> list[str]:
    before, dots, after = term.partition("...")
    return [*before, *(str(place) for place in reversed(range(covered if dots else 0))), *after]
