"""Cells as their searches found them, as data; `cells` makes networks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Genotype:
    """A cell as its search found it: blocks that add two results, each of an operation on an earlier state.

    States 0 and 1 are the outputs of the cell before the last and of the last; block i makes state i + 2.
    blocks: ((operation, state), (operation, state)). joined: states whose channels are the cell's output.
    """

    blocks: Sequence[tuple[tuple[str, int], tuple[str, int]]]
    joined: Sequence[int]


NASNET_NORMAL = Genotype(
    blocks=(
        (("separable5", 1), ("separable3", 0)),
        (("separable5", 0), ("separable3", 0)),
        (("average", 1), ("identity", 0)),
        (("average", 0), ("average", 0)),
        (("separable3", 1), ("identity", 1)),
    ),
    joined=(0, 2, 3, 4, 5, 6),
)
NASNET_REDUCTION = Genotype(
    blocks=(
        (("separable5", 1), ("separable7", 0)),
        (("maximum", 1), ("separable7", 0)),
        (("average", 1), ("separable5", 0)),
        (("identity", 3), ("average", 2)),
        (("separable3", 2), ("maximum", 1)),
    ),
    joined=(3, 4, 5, 6),
)
PNASNET = Genotype(
    blocks=(
        (("separable5", 0), ("maximum", 0)),
        (("separable7", 1), ("maximum", 1)),
        (("separable5", 1), ("separable3", 1)),
        (("separable3", 4), ("maximum", 1)),
        (("separable3", 0), ("identity", 1)),
    ),
    joined=(2, 3, 4, 5, 6),
)
AMOEBANET_NORMAL = Genotype(
    blocks=(
        (("pointwise", 1), ("maximum", 1)),
        (("identity", 1), ("bottleneck7", 0)),
        (("pointwise", 0), ("bottleneck7", 0)),
        (("maximum", 2), ("identity", 2)),
        (("average", 1), ("pointwise", 5)),
    ),
    joined=(0, 3, 4, 6),
)
AMOEBANET_REDUCTION = Genotype(
    blocks=(
        (("maximum", 0), ("maximum", 0)),
        (("identity", 2), ("full3", 1)),
        (("bottleneck7", 2), ("maximum", 2)),
        (("identity", 3), ("maximum", 1)),
        (("average", 2), ("pointwise", 3)),
    ),
    joined=(4, 5, 6),
)
DARTS_NORMAL = Genotype(
    blocks=(
        (("separable3", 0), ("separable3", 1)),
        (("separable3", 0), ("separable3", 1)),
        (("separable3", 1), ("identity", 0)),
        (("identity", 0), ("dilated3", 2)),
    ),
    joined=(2, 3, 4, 5),
)
DARTS_REDUCTION = Genotype(
    blocks=(
        (("maximum", 0), ("maximum", 1)),
        (("identity", 2), ("maximum", 1)),
        (("maximum", 0), ("identity", 2)),
        (("identity", 2), ("maximum", 1)),
    ),
    joined=(2, 3, 4, 5),
)
