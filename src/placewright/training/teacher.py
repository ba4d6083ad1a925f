"""What a policy may be taught before rewards teach it: for each graph the best of some simple proposals.

REINFORCE decides for each op apart from all others, so it hardly meets a placement in which neighbours stand together,
and on real networks those are what gains. Here neighbours agree because what the search for features leans to is spread
along the edges; that it leans at all tells the devices apart (docs/policies.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from placewright.policies.actions import ActionSpace
from placewright.policies.features import Features

Float = NDArray[np.float64]
Int = NDArray[np.int64]
#: What actions, [ops, choices], are worth, drawn with that seed.
Reward = Callable[[Int, int], float]

#: Means and shares of the most variance (A.6): of a key that stays uniform, and of one that is nearly sure.
_UNIFORM = (1 / 2, 1 / 3)
_SURE_MEAN, _SURE_VARIANCE = 5 / 6, 1 / 3
#: How far leanings are spread, and over how many neighbours in time devices are balanced; None: over neighbours in the
#: graph.
_PLACEMENTS: tuple[tuple[int, int | None], ...] = ((8, None), (20, None), (20, 30))
#: Priorities of all ops alike, mostly below those of transfers, so that these leave early.
_SCHEDULINGS = (_UNIFORM, (1 / 18, 1 / 6), (5 / 18, 1 / 18))
#: Priorities that fall from the first op to the last, below the mean of those of transfers.
_FALLING = (8 / 18, 1 / 18)
#: Of the placements, how many are tried with all priorities.
_FINALISTS = 2


def taught_actions(features: Features, space: ActionSpace, reward: Reward) -> Int:
    """The best proposal, as actions [ops, choices]: first among placements, with priorities below those of transfers,
    then among priorities for the best placements."""
    num_ops = len(features.op)
    placements = [None, *(coherent_placement(features, space.num_devices, *each) for each in _PLACEMENTS)]
    schedulings = [np.tile(each, (num_ops, 1)) for each in _SCHEDULINGS]
    schedulings.append(np.column_stack([np.linspace(_FALLING[0], _FALLING[1], num_ops), np.full(num_ops, 1 / 18)]))
    if not space.placement_levels:
        placements = [None]
    if not space.scheduling_levels:
        schedulings = schedulings[:1]
    first = [actions_of(space, placement, schedulings[min(1, len(schedulings) - 1)]) for placement in placements]
    worth = [reward(actions, seed) for seed, actions in enumerate(first)]
    best = sorted(range(len(first)), key=lambda number: -worth[number])[:_FINALISTS]
    finalists = [actions_of(space, placements[number], scheduling) for number in best for scheduling in schedulings]
    return finalists[int(np.argmax([reward(actions, len(first) + at) for at, actions in enumerate(finalists)]))]


def coherent_placement(features: Features, num_devices: int, distance: int, window: int | None) -> Int:
    """A device for each op, [ops]: that to which the op and those around it lean in the search for features, more than
    others do that are further away or, with a window, that run at the same time."""
    leaning = features.op[:, -1 - num_devices : -1].astype(np.float64)
    near = spread_along_edges(features, leaning, distance)
    if window is None:
        return (near - spread_along_edges(features, near, 4 * distance + 20)).argmax(axis=1)
    return (near - _mean_in_time(features, near, window)).argmax(axis=1)


def spread_along_edges(features: Features, values: Float, times: int) -> Float:
    """Each op's value, [ops, n], becomes the mean of its own and its neighbours', so many times."""
    for _ in range(times):
        total = values.copy()
        np.add.at(total, features.source, values[features.target])
        np.add.at(total, features.target, values[features.source])
        count = np.bincount(features.source, minlength=len(values)) + np.bincount(
            features.target, minlength=len(values)
        )
        values = total / (1 + count[:, None])
    return values


def _mean_in_time(features: Features, values: Float, window: int) -> Float:
    """Of the values, [ops, n], of so many ops that stand around each op in the mean order."""
    order = np.argsort(features.op[:, -1], kind="stable")
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values[order], axis=0)])
    at = np.arange(len(order))
    begin, end = np.maximum(0, at - window // 2), np.minimum(len(order), at + window // 2 + 1)
    mean = np.empty_like(values)
    mean[order] = (total[end] - total[begin]) / (end - begin)[:, None]
    return mean


def actions_of(space: ActionSpace, device_of: Int | None, scheduling: Float) -> Int:
    """The levels nearest to means and shares of variance. device_of: None leaves devices open. scheduling: [ops, 2]."""
    columns: list[Int] = []
    if space.placement_levels:
        for device in range(space.num_devices):
            mean = _UNIFORM[0] if device_of is None else np.where(device_of == device, _SURE_MEAN, 1 - _SURE_MEAN)
            columns += _levels(mean, _UNIFORM[1] if device_of is None else _SURE_VARIANCE, space.placement_levels)
    if space.scheduling_levels:
        columns += _levels(scheduling[:, 0], scheduling[:, 1], space.scheduling_levels)
    if space.transfer_levels:
        columns += _levels(*_UNIFORM, space.transfer_levels)
    return np.column_stack([np.broadcast_to(column, len(scheduling)) for column in columns])


def _levels(mean: Float | float, variance: Float | float, levels: int) -> Sequence[Int]:
    """Numbers of the levels of A.6, m of mean (m + 1) / (levels + 1)."""
    return [
        np.clip(np.round(np.asarray(each) * (levels + 1) - 1), 0, levels - 1).astype(np.int64)
        for each in (mean, variance)
    ]
