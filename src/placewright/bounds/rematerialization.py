"""A lower bound on the step time of one device under a memory limit when ops may run again.

It holds for every order of first runs. A later run is one that `again_before` allows, and what an op writes to in
place is not made again (docs/algorithms.md, "Bounds with reruns").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.bounds.bound import Bound
from placewright.bounds.gaps import NUM_GAPS, Gaps
from placewright.bounds.needed import Needed
from placewright.bounds.precedence import OrderedPieces
from placewright.bounds.ways import proven_with_ways
from placewright.problem import Problem
from placewright.problem.pieces import Ints

Floats = NDArray[np.float64]

#: Passes of coordinate ascent over the moments without ways.
_PASSES = 3


def rematerialized_time(problem: Problem, in_order: bool = False) -> Bound:
    """A step time that no plan within the limit can beat: each op once, and the ops that must run again.

    problem: of one device. in_order: only for plans whose first runs are in the graph's order, which proves more.

    During the first run of an op k, whatever an ancestor of k made and a descendant reads is held, or its maker runs
    again later. So for every k the bytes dropped are at least those over the limit if all were held. A drop between two
    readers that come one after the other is a run of its own. Choosing fractions of drops at least cost is a linear
    program; any prices z of a byte at each k prove sum(excess * z) - sum over drops of max(0, bytes * z - time).
    """
    memory = OrderedPieces(problem, in_order=in_order)
    moments = memory.moments()
    again = _proven_again(Needed(memory, moments)) if len(moments) else 0
    return Bound(int(memory.time_ns.sum()) + again, "tensors that must be dropped and made again")


def _proven_again(needed: Needed) -> int:
    """The time of reruns that is proven by the bytes over the limit at the moments."""
    drops = needed.memory.bytes[needed.pieces] @ (needed.is_needed & needed.can_be_made)
    if (drops < needed.excess).any() or not needed.excess.any():
        return 0  # no plan keeps the limit, or nothing need be dropped in every order
    gaps = Gaps(needed)
    prices = _best_prices(_drops(needed, gaps))
    return proven_with_ways(needed, gaps, prices) if prices.any() else 0


@dataclass(frozen=True, kw_only=True, eq=False)
class _Drops:
    """The linear program without ways: at every moment the bytes of drops are no less than those over the limit.

    Rows are moments, by `begin`; excess: bytes to drop at each. drop, bytes: per entry of a row, the drop and the
    bytes of it that are held at the moment. time_ns: of each drop.
    """

    excess: Ints
    begin: Ints
    drop: Ints
    bytes: Floats
    time_ns: Ints


def _drops(needed: Needed, gaps: Gaps) -> _Drops:
    place, row = np.nonzero(needed.is_needed & needed.can_be_made & (needed.excess > 0))
    made, run = gaps.makings(place, row, gaps.end[place, row])
    names, drop = np.unique(run, return_inverse=True)
    pairs, where = np.unique(row[made] * len(names) + drop, return_inverse=True)
    sizes = np.bincount(where, weights=needed.memory.bytes[needed.pieces[place[made]]])
    return _Drops(
        excess=needed.excess,
        begin=np.searchsorted(pairs // len(names), np.arange(needed.num_moments + 1)),
        drop=pairs % len(names),
        bytes=np.asarray(sizes, np.float64),
        time_ns=needed.memory.time_ns[names // NUM_GAPS],
    )


def _best_prices(drops: _Drops) -> Floats:
    """Coordinate ascent, moment by moment."""
    prices, paid = np.zeros(len(drops.excess)), np.zeros(len(drops.time_ns))
    for _ in range(_PASSES):
        for row in np.argsort(-drops.excess, kind="stable").tolist():
            own = slice(drops.begin[row], drops.begin[row + 1])
            drop, size = drops.drop[own], drops.bytes[own]
            paid[drop] -= size * prices[row]
            prices[row] = _price(int(drops.excess[row]), size, drops.time_ns[drop] - paid[drop])
            paid[drop] += size * prices[row]
    return prices


def _price(excess: int, sizes: Floats, left_ns: Floats) -> float:
    """The best price of a byte at one moment for fixed other prices: the cost of the last byte that must be dropped."""
    if excess <= 0:
        return 0.0
    ratio = np.maximum(0, left_ns) / sizes
    in_turn = np.argsort(ratio, kind="stable")
    place = int(np.searchsorted(np.cumsum(sizes[in_turn]), excess))
    return float(ratio[in_turn[place]])
