"""The affinity of ops to devices, smoothed over their neighbours.

In the search for features half of the individuals have an op on one device and half on the other, more or less at
random. Placements in which neighbours agree need far fewer transfers, and differences between the devices may well be
random; so the affinity of each op is spread along the edges (docs/lab/policies.md).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int32]

#: The distance over which affinities are spread, and the number of ops around one in time among which they are
#: balanced, so that either device has work; with None among those further away in the graph.
_KINDS: tuple[tuple[int, int | None], ...] = ((3, None), (8, None), (20, None), (60, 100), (20, 30))
NUM_KINDS = len(_KINDS)


def num_smoothed_affinities(num_devices: int) -> int:
    return NUM_KINDS * num_devices


def smoothed_affinities(source: Int, target: Int, affinity: Float, position: Float) -> Float:
    """Return affinities of several kinds, each of variance 1 over the graph: float64 [ops, num_smoothed_affinities].

    source, target: ends of the edges, [edges]. affinity: of each op to each device, [ops, devices]. position: of each
    op in time, [ops].
    """
    distances = {distance for distance, _ in _KINDS}
    distances |= {_far(distance) for distance, window in _KINDS if window is None}
    spread = _spread(source, target, affinity, distances)
    found = []
    for distance, window in _KINDS:
        near = spread[distance]
        around = spread[_far(distance)] if window is None else _mean_in_time(near, position, window)
        deviation = near - around
        found.append(deviation / max(1e-9, float(deviation.std())))
    return np.hstack(found)


def _far(distance: int) -> int:
    """Return the distance of the affinities that those of this distance are compared with."""
    return 5 * distance + 20


def _spread(source: Int, target: Int, values: Float, distances: Collection[int]) -> dict[int, Float]:
    """Replace each op's value, [ops, n], by the mean of its own and its neighbours', as often as each distance says."""
    ends, others = np.concatenate([source, target]), np.concatenate([target, source])
    order = np.argsort(ends, kind="stable")
    others = others[order]
    ops, first, count = np.unique(ends[order], return_index=True, return_counts=True)
    share = np.ones((len(values), 1))
    share[ops, 0] = 1 / (1 + count)
    found = {}
    for distance in range(max(distances) + 1):
        if distance in distances:
            found[distance] = values
        total = values.copy()
        if len(ops):
            total[ops] += np.add.reduceat(values[others], first)
        values = total * share
    return found


def _mean_in_time(values: Float, position: Float, window: int) -> Float:
    """Return the mean of values, [ops, n], over a window of that many ops centred on each in time."""
    order = np.argsort(position, kind="stable")
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values[order], axis=0)])
    at = np.arange(len(order))
    begin, end = np.maximum(0, at - window // 2), np.minimum(len(order), at + window // 2 + 1)
    mean = np.empty_like(values)
    mean[order] = (total[end] - total[begin]) / (end - begin)[:, None]
    return mean
