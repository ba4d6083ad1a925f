"""Lower bounds on the step time. Every op may take its fastest time on any device that it may use; a bound for these
times holds for any placement."""

from __future__ import annotations

import math
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.bounds.bound import Bound, BoundReason
from placewright.problem import Problem

#: The number of ancestors and descendants of joins that `delayed_path` may examine in each direction: about 20 ms.
_MAX_ANCESTORS = 500_000
#: The number of entries of the table of times that suffices to find the weights of the devices.
_MAX_TIMES = 100_000
_FORBIDDEN = np.iinfo(np.int64).max
Number = TypeVar("Number", np.int64, np.float64)


def critical_path(problem: Problem) -> Bound:
    """The longest chain of dependencies, with each op at its fastest and free transfers. Control dependencies count
    only where they delay their successor."""
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
    """The critical path that also respects, at each op where paths join, the least time that its ancestors need; and
    the same from the end (cpp/core/bounds/heads.cpp). Three arguments, each for any subset A of the ancestors of an
    op v:

    - All of A's work lies between the earliest start R in A and the start of v, and in a span of t ns the devices do
      at most t of weighted work (`total_work`): v starts at R + work(A) or later (Carlier 1987, for heads).
    - If v starts at T, an ancestor whose result cannot come from another device by T runs on v's device, since on each
      path from it to v some dependency would join different devices and cost a transfer or a signal. The ancestors
      that must be there run one after the other: T is at least R plus their times (after Papadimitriou & Yannakakis
      1990).
    - If all of A come after an op u, those on another device than u's start later by a transfer, and those on another
      than v's end earlier by one: spread over devices, A's work loses that much of the time between u and v
      (cpp/core/bounds/fork_join.cpp).
    """
    return Bound(_core_bounds(problem)[1], "critical path with shared work and transfers")


def fullest_window(problem: Problem) -> Bound:
    """The work between two points in time: ops that start at R or later and are followed by Q ns or more do all their
    work between R and the end minus Q. So the step takes at least R + work + Q, with R and Q from `delayed_path`, for
    the best of all pairs (R, Q) (Fernandez & Bussell 1973, for ops that lie wholly in the interval)."""
    return Bound(_core_bounds(problem)[2], "work between earliest starts and latest finishes")


def launches(problem: Problem) -> Bound:
    """The launches of host threads, which launch one step after the other. Among any ops that hosts launch, the last
    waits for the launches of all; then it and its successors run. So over k hosts the step takes at least a k-th of the
    launches, plus its time and its tail. The other argument is a chain of ops, each of which starts no earlier than its
    own launch on the device it runs on. The tails are those of `delayed_path`."""
    return Bound(_core_bounds(problem)[3], "launches and what follows the last of them")


def launches_and_work(problem: Problem) -> Bound:
    """Extends `total_work` to host threads: for weights that sum to 1 over devices and hosts, the sum over groups of
    min over devices of the weighted time there plus the weighted launches."""
    if not problem.core.has_hosts:
        return Bound(0, _DIVIDED_LAUNCHES)
    times, launched, (host, num_hosts) = _group_ns(problem), _group_launches(problem), _hosts(problem)
    weights, scale = _integers(_weights(times, launched, host, num_hosts), times, launched)
    allowed = times != _FORBIDDEN
    weighted = np.where(allowed, times, 0) * weights[: len(host)] + launched * _of_host(weights, host)
    return Bound(-(-sum(np.where(allowed, weighted, _FORBIDDEN).min(axis=1).tolist()) // scale), _DIVIDED_LAUNCHES)


def common_divisor_ns(problem: Problem) -> int:
    """Return the greatest common divisor of all times that a schedule adds up: of ops, launches and transfers; at least
    1. A step takes a multiple of it."""
    machine, lowered = problem.machine, problem.lowered
    allowed = _allowed_ns(problem)
    divisor = int(np.gcd.reduce(allowed[allowed != _FORBIDDEN], initial=0))
    overheads = [own.launch_overhead_ns for own, host in zip(machine.devices, machine.hosts, strict=True) if host >= 0]
    divisor = math.gcd(divisor, *overheads)
    links = {
        (link.latency_ns, link.inverse_bandwidth): link
        for source, row in enumerate(machine.links)
        for destination, link in enumerate(row)
        if source != destination
    }
    sizes = np.unique(lowered.transfer_bytes[lowered.inputs]).tolist()
    for link in links.values():
        divisor = math.gcd(divisor, link.latency_ns)
        for size in sizes:
            if divisor == 1:
                return 1
            divisor = math.gcd(divisor, link.transfer_time_ns(size))
    return max(1, divisor)


_DIVIDED_LAUNCHES: BoundReason = "work divided over all devices and host threads"
_FROM_CORE: WeakKeyDictionary[Problem, tuple[int, int, int, int]] = WeakKeyDictionary()
_WEIGHTS: WeakKeyDictionary[Problem, tuple[NDArray[np.int64], int]] = WeakKeyDictionary()


def _core_bounds(problem: Problem) -> tuple[int, int, int, int]:
    """Compute the longest path, the same with delays, the fullest window, and launches."""
    known = _FROM_CORE.get(problem)
    if known is None:
        weights, scale = _device_weights(problem)
        work = _work(_allowed_ns(problem), weights)
        heaviest = max(1, int(weights.max()))  # all are rounded to 0 where times are years long
        known = _FROM_CORE[problem] = _core.time_bounds(problem.core, work, scale, heaviest, _MAX_ANCESTORS)
    return known


def _allowed_ns(problem: Problem) -> NDArray[np.int64]:
    """Time of each scheduled op on each device, _FORBIDDEN where it may not run; int64 [num scheduled ops, num
    devices]."""
    allowed = problem.groups[1][:, None] >> np.arange(problem.machine.num_devices, dtype=np.uint64) & np.uint64(1)
    times: NDArray[np.int64] = np.where(allowed == 1, problem.time_ns[problem.lowered.graph_op], _FORBIDDEN)
    return times


def _group_ns(problem: Problem) -> NDArray[np.int64]:
    """Sum up the time of each group's ops on each device, as `_allowed_ns`; int64 [num groups, num devices]."""
    allowed = _allowed_ns(problem)
    firsts, index = np.unique(problem.groups[0], return_inverse=True)
    sums = np.zeros((len(firsts), allowed.shape[1]), np.int64)
    np.add.at(sums, index, problem.time_ns[problem.lowered.graph_op])
    sums[allowed[firsts] == _FORBIDDEN] = _FORBIDDEN
    return sums


def _group_launches(problem: Problem) -> NDArray[np.int64]:
    """Sum up the launches by hosts of each group's ops on each device; as `_group_ns`."""
    machine, groups = problem.machine, problem.groups[0]
    hosts = zip(machine.devices, machine.hosts, strict=True)
    overhead = np.array([device.launch_overhead_ns if host >= 0 else 0 for device, host in hosts], np.int64)
    own = np.where(problem.time_ns[problem.lowered.graph_op] > 0, overhead, 0)
    firsts, index = np.unique(groups, return_inverse=True)
    sums = np.zeros((len(firsts), machine.num_devices), np.int64)
    np.add.at(sums, index, own)
    return sums


def _hosts(problem: Problem) -> tuple[NDArray[np.int64], int]:
    """Return per device the number of its host thread, counted from 0, or one past the last for a device without one;
    and the number of host threads."""
    known = sorted(set(problem.machine.hosts) - {-1})
    return np.array([known.index(host) if host >= 0 else len(known) for host in problem.machine.hosts]), len(known)


def _of_host(weights: NDArray[Number], host: NDArray[np.int64]) -> NDArray[Number]:
    """Return per device the weight of its host; 0 where it has none. Weights of hosts follow those of devices."""
    return np.append(weights, weights.dtype.type(0))[len(host) + host]


def _work(times: NDArray[np.int64], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the least weighted time of each row over the devices it may use; int64 [num rows]."""
    allowed = times != _FORBIDDEN
    weighted = np.where(allowed, np.where(allowed, times, 0) * weights, _FORBIDDEN)
    least: NDArray[np.int64] = weighted.min(axis=1)
    return least


def _device_weights(problem: Problem) -> tuple[NDArray[np.int64], int]:
    """Return weights of the devices and an upper bound on their sum: found in floating point, used as integers. All
    work, so weighted, stays below 2**62. Equal weights are exact."""
    known = _WEIGHTS.get(problem)
    if known is None:
        times = _group_ns(problem)
        no_launches, no_host = np.zeros_like(times), np.zeros(times.shape[1], np.int64)
        known = _WEIGHTS[problem] = _integers(_weights(times, no_launches, no_host, 0), times, no_launches)
    return known


def _integers(
    weights: NDArray[np.float64], times: NDArray[np.int64], launches: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    total = int((np.where(times == _FORBIDDEN, 0, times) + launches).max(axis=1).sum())
    bits = min(20, 61 - total.bit_length()) - len(weights).bit_length()
    scale = len(weights) * 2**bits if bits >= 0 else 1
    rounded = np.rint(weights * scale).astype(np.int64)
    rounded[rounded.argmax()] -= max(0, int(rounded.sum()) - scale)
    return rounded, scale


def _weights(
    times: NDArray[np.int64], launches: NDArray[np.int64], host: NDArray[np.int64], num_hosts: int
) -> NDArray[np.float64]:
    """Find weights of the devices and, after them, of the hosts (`_hosts`), that sum to 1 and maximize the divided work
    over 60 trials. Each trial raises the weights of those with more work (multiplicative updates)."""
    every = slice(None, None, 1 + times.size // _MAX_TIMES)
    some, launches = np.where(times[every] == _FORBIDDEN, np.inf, times[every]), launches[every]
    num_devices = len(host)
    rows = np.arange(len(some))
    weights = np.full(num_devices + num_hosts, 1.0 / (num_devices + num_hosts))
    best, best_value = weights, 0.0
    for trial in range(1, 61):
        cost = some * weights[:num_devices] + launches * _of_host(weights, host)
        choice = cost.argmin(axis=1)
        value = float(cost[rows, choice].sum())
        if value > best_value:
            best, best_value = weights, value
        load = np.bincount(choice, weights=some[rows, choice], minlength=num_devices)
        launched = np.bincount(host[choice], weights=launches[rows, choice], minlength=num_hosts)
        load = np.append(load, launched[:num_hosts])
        if load.max() == 0:
            break
        weights = weights * np.exp(load / load.max() / trial)
        weights = weights / weights.sum()
    return best
