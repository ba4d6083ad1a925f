"""The affinity of ops to devices, smoothed over those that use the same memory.

Where peak memory is the objective, ops that share large tensors or parameters should be on the same device, or these
are held twice, and every device should hold its part of the memory in use at the peak. As in smoothed_affinity.py,
affinities are random at first, and spread.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.problem.lowering import Lowered

Float = NDArray[np.float64]
Int = NDArray[np.int64]

#: The distance over which affinities are spread, and the weight: bytes of a tensor times the time it is alive while the
#: memory in use is at least that share of the peak; with None its bytes alone.
_KINDS: tuple[tuple[int, float | None], ...] = ((40, None), (40, 0.5), (10, 0.97), (40, 0.97))
NUM_KINDS = len(_KINDS)
_NUM_WEIGHTS = 2


def num_memory_affinities(num_devices: int) -> int:
    return _NUM_WEIGHTS + NUM_KINDS * num_devices


def memory_affinities(lowered: Lowered, affinity: Float, position: Float, fixed_op: int | None) -> Float:
    """Return the affinity of each op, and its importance: float64 [ops, num_memory_affinities].

    First the heaviest tensor that an op makes or reads, by its bytes and by the last kind's weight, as a share of the
    peak. Then for each kind and device, from -1 to 1, the share of all weight that belongs to ops with less affinity to
    the device: ops with positive values hold half of it.

    affinity: of each op to each device, each op's sum to 1, [ops, devices]. position: of each op in time, [ops].
    fixed_op: is on the first device, so the device of its largest affinity changes places with the first.
    """
    memory = _TensorLifetimes(lowered, position)
    weights = {share: memory.weights(share) for _, share in _KINDS}
    columns = [memory.heaviest(weights[share]) / memory.peak for share in (None, _KINDS[-1][1])]
    for share, weight in weights.items():
        spread = memory.spread(weight, affinity, [distance for distance, own in _KINDS if own == share])
        for values in spread:
            ranks = [memory.rank(weight, column) for column in values.T]
            if fixed_op is not None:
                first = int(np.argmax([rank[fixed_op] for rank in ranks]))
                ranks[0], ranks[first] = ranks[first], ranks[0]
            columns += ranks
    return np.column_stack(columns)


class _TensorLifetimes:
    """Tensors of a graph, residents after those that ops make, and the ops that make or read them: op[i] uses
    tensor[i].

    peak: of the bytes in use, on all devices together, when ops run in the order of their positions.
    """

    def __init__(self, lowered: Lowered, position: Float) -> None:
        self._num_ops, made = len(position), len(lowered.producer)
        self._op = np.concatenate([lowered.producer, lowered.reader, lowered.resident_reader])
        self._tensor = np.concatenate([np.arange(made), lowered.inputs, made + lowered.residents])
        self._bytes = np.concatenate([lowered.copy_bytes, lowered.resident_bytes]).astype(np.float64)
        self._uses = np.maximum(1, np.bincount(self._tensor, minlength=len(self._bytes)))
        self._is_idle = np.bincount(self._op, minlength=self._num_ops) == 0
        #: Shares of a tensor by use: its maker owns what an op makes; all readers own a resident in equal parts.
        self._owned = np.concatenate(
            [np.ones(made), np.zeros(len(lowered.inputs)), 1 / self._uses[made + lowered.residents]]
        )
        self._first, self._last = self._lifetimes(position, made)
        change = np.zeros(self._num_ops + 1)
        np.add.at(change, self._first, self._bytes)
        np.add.at(change, self._last + 1, -self._bytes)
        self._in_use = np.cumsum(change[:-1])
        self.peak = max(1.0, float(self._in_use.max()))

    def _lifetimes(self, position: Float, made: int) -> tuple[Int, Int]:
        """Return for each tensor the first and last place in time; residents are alive throughout."""
        place = np.empty(self._num_ops, np.int64)
        place[np.argsort(position, kind="stable")] = np.arange(self._num_ops)
        first, last = np.full(len(self._bytes), self._num_ops - 1), np.zeros(len(self._bytes), np.int64)
        np.minimum.at(first, self._tensor, place[self._op])
        np.maximum.at(last, self._tensor, place[self._op])
        first[made:], last[made:] = 0, self._num_ops - 1
        return first, last

    def weights(self, share: float | None) -> Float:
        """Return the weight of each tensor, by a share of the peak as in _KINDS; at most its bytes."""
        if share is None:
            return self._bytes
        counted = np.concatenate([[0], np.cumsum(self._in_use >= share * self._in_use.max())])
        moments: Float = (counted[self._last + 1] - counted[self._first]) / counted[-1]
        return self._bytes * moments

    def heaviest(self, weights: Float) -> Float:
        """Return the largest weight among the tensors that each op uses."""
        found = np.zeros(self._num_ops)
        np.maximum.at(found, self._op, weights[self._tensor])
        return found

    def spread(self, weights: Float, affinity: Float, distances: list[int]) -> list[Float]:
        """Return affinities after each number of rounds, distances ascending: a tensor takes the mean of the ops that
        use it, an op that of its tensors by their weights. Tensors of no weight count a little, so that every op has an
        affinity."""
        weight = (weights + 1e-9 * self._bytes.max(initial=1) + 1e-9)[self._tensor]
        share = weight / np.bincount(self._op, weight, self._num_ops)[self._op]
        found, values = [], affinity
        for distance in range(1, distances[-1] + 1):
            # The last device has what the others leave.
            columns = [self._round(share, column) for column in values.T[:-1]]
            values = np.column_stack([*columns, 1 - np.sum(columns, axis=0)])
            if distance in distances:
                found.append(values)
        return found

    def _round(self, share: Float, column: Float) -> Float:
        mean = np.bincount(self._tensor, column[self._op], len(self._bytes)) / self._uses
        return np.where(self._is_idle, column, np.bincount(self._op, share * mean[self._tensor], self._num_ops))

    def rank(self, weights: Float, column: Float) -> Float:
        """Return, from -1 to 1, the share of the weights that ops with lower values own."""
        owned = np.bincount(self._op, self._owned * weights[self._tensor], self._num_ops)
        order = np.argsort(column, kind="stable")
        below = np.cumsum(owned[order]) - owned[order] / 2
        found = np.empty(self._num_ops)
        found[order] = 2 * below / max(1e-300, float(owned.sum())) - 1
        return found
