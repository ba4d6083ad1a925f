"""Lower bounds on the step time. Every op may take its fastest time on a device that it may use; what is proven for
these times holds for any placement."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from placewright import _core
from placewright.bounds.bound import Bound
from placewright.problem import Problem

#: How many ancestors and descendants of joins `delayed_path` may look at, in each direction: some 20 ms.
_MOST_ANCESTORS = 500_000
#: How many entries of the table of times are enough to weigh the devices by.
_MOST_TIMES = 100_000
_FORBIDDEN = np.iinfo(np.int64).max


def critical_path(problem: Problem) -> Bound:
    """Longest chain of dependencies, each op at its fastest and transfers free. Control dependencies count only where
    they delay their successor."""
    return Bound(_core_bounds(problem)[0], "critical path")


def total_work(problem: Problem) -> Bound:
    """All work divided over the devices as if ops could be split: for any weights y of the devices that sum to 1, the
    step takes at least the sum over devices of y * busy time, so at least the sum over groups of ops that share a
    device of min over devices of y * time (LP duality)."""
    weights, scale = _device_weights(problem)
    return Bound(-(-sum(_work(_group_ns(problem), weights).tolist()) // scale), "work divided over all devices")


def shared_device(problem: Problem) -> Bound:
    """Ops that must share a device run one after the other, on the best device they may use."""
    return Bound(int(_group_ns(problem).min(axis=1).max()), "work of ops that must share a device")


def delayed_path(problem: Problem) -> Bound:
    """The critical path with, at each op where paths join, what its ancestors need at least, and the same from the end
    (cpp/core/heads.cpp). Two arguments, both for any subset A of the ancestors of an op v:

    - All of A's work lies between the earliest start R in A and the start of v, and in a span of t ns the devices do
      at most t of weighted work (`total_work`): v starts at R + work(A) or later (Carlier 1987, for heads).
    - If v starts at T, an ancestor whose result cannot come from another device by T runs on v's device, since on each
      path from it to v some dependency would join different devices and cost a transfer or a signal. Those that must
      be there run one after the other: T is at least R plus their times (after Papadimitriou & Yannakakis 1990).
    """
    return Bound(_core_bounds(problem)[1], "critical path with shared work and transfers")


def fullest_window(problem: Problem) -> Bound:
    """Ops that start at R or later and are followed by Q ns or more do all their work between R and the end less Q:
    the step takes at least R + work + Q, with R and Q from `delayed_path`, for the best of all pairs (R, Q) (Fernandez
    & Bussell 1973, for ops that lie in the interval whole)."""
    return Bound(_core_bounds(problem)[2], "work between earliest starts and latest finishes")


_FROM_CORE: WeakKeyDictionary[Problem, tuple[int, int, int]] = WeakKeyDictionary()


def _core_bounds(problem: Problem) -> tuple[int, int, int]:
    """Longest path, the same with delays, fullest window."""
    known = _FROM_CORE.get(problem)
    if known is None:
        weights, scale = _device_weights(problem)
        work = _work(_allowed_ns(problem), weights)
        known = _FROM_CORE[problem] = _core.time_bounds(problem.core, work, scale, _MOST_ANCESTORS)
    return known


def _allowed_ns(problem: Problem) -> NDArray[np.int64]:
    """Time of each scheduled op on each device, _FORBIDDEN where it may not run; int64 [num scheduled ops, num
    devices]."""
    allowed = problem.groups[1][:, None] >> np.arange(problem.machine.num_devices, dtype=np.uint64) & np.uint64(1)
    times: NDArray[np.int64] = np.where(allowed == 1, problem.time_ns[problem.lowered.graph_op], _FORBIDDEN)
    return times


def _group_ns(problem: Problem) -> NDArray[np.int64]:
    """Summed time of the ops of each group on each device, as `_allowed_ns`; int64 [num groups, num devices]."""
    allowed = _allowed_ns(problem)
    firsts, index = np.unique(problem.groups[0], return_inverse=True)
    sums = np.zeros((len(firsts), allowed.shape[1]), np.int64)
    np.add.at(sums, index, problem.time_ns[problem.lowered.graph_op])
    sums[allowed[firsts] == _FORBIDDEN] = _FORBIDDEN
    return sums


def _work(times: NDArray[np.int64], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Least weighted time of each row over the devices it may use; int64 [num rows]."""
    allowed = times != _FORBIDDEN
    weighted = np.where(allowed, np.where(allowed, times, 0) * weights, _FORBIDDEN)
    least: NDArray[np.int64] = weighted.min(axis=1)
    return least


def _device_weights(problem: Problem) -> tuple[NDArray[np.int64], int]:
    """Weights of the devices and what they sum to at most: found in floating point, used as integers. All work, so
    weighted, stays below 2**62. Equal weights are exact."""
    times = _group_ns(problem)
    num_devices = times.shape[1]
    total = int(np.where(times == _FORBIDDEN, 0, times).max(axis=1).sum())
    bits = min(20, 61 - total.bit_length()) - num_devices.bit_length()
    scale = num_devices * 2**bits if bits >= 0 else 1
    weights = np.rint(_dual_weights(times) * scale).astype(np.int64)
    weights[weights.argmax()] -= max(0, int(weights.sum()) - scale)
    return weights, scale


def _dual_weights(times: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weights of the devices, summing to 1, for which the divided work is largest among 60 trials, each of which gives
    more weight to devices that have more to do (multiplicative updates)."""
    some = times[:: 1 + times.size // _MOST_TIMES]
    times = np.where(some == _FORBIDDEN, np.inf, some)
    weights = np.full(times.shape[1], 1.0 / times.shape[1])
    best, best_value = weights, 0.0
    for step in range(1, 61):
        choice = (times * weights).argmin(axis=1)
        chosen = times[np.arange(len(times)), choice]
        value = float((chosen * weights[choice]).sum())
        if value > best_value:
            best, best_value = weights, value
        load = np.bincount(choice, weights=chosen, minlength=len(weights))
        if load.max() == 0:
            break
        weights = weights * np.exp(load / load.max() / step)
        weights = weights / weights.sum()
    return best
