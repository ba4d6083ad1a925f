"""Lower bounds on the peak memory, and proofs that memory limits cannot be kept."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.bounds.bound import Bound
from placewright.problem import Problem
from placewright.support.quantities import QUANTITY_LIMIT

#: The number of arcs that `live_tensors` may examine: about 50 ms.
_MAX_ARCS = 10_000_000


def largest_op(problem: Problem) -> Bound:
    """The most memory of one op while it runs: its inputs, outputs, workspace and residents."""
    return Bound(int(_held_by_ops(problem).max()), "largest op with its inputs, outputs and parameters")


def spread_residents(problem: Problem) -> Bound:
    """Parameters, constants and graph outputs are all held at the end, at best spread evenly over the devices."""
    return Bound(_share(problem, _held_at_the_end(problem)), "parameters and outputs spread over all devices")


def live_tensors(problem: Problem) -> Bound:
    """The memory that all devices together must hold when some op starts, at best spread evenly.

    When op v starts, the finished ops are a set F that contains, with an op, all that it waits for; it contains v's
    ancestors, and neither v nor its descendants. A tensor whose producer is in F and which has a reader outside F is in
    use somewhere: at home until the last reader there or the last transfer out of there has finished, and then as a
    copy until the last reader of the copy has finished. For a view that is smaller than its base, the copy may be all
    that is left, so its own bytes count. Added to these are the outputs and workspace of v itself, tensors kept to the
    end, and residents, on one device at least. The least sum over all such F is a minimum cut (Picard 1976, closures),
    and the most over all v bounds every order's peak (cpp/core/bounds/memory.cpp). Of several ops one starts first,
    before any other of them has finished, and on one device one starts when all others have: the least such cut over
    them is a bound, too. Ops v are tried in the order of the memory that simple orders hold when they start, until none
    can prove more or the number of arcs is used up: then the part proven so far counts, the flow of an unfinished cut
    included.
    """
    return Bound(_share(problem, _live_bytes(problem)), "tensors alive together spread over all devices")


def memory_floor_bytes(problem: Problem) -> int:
    """Return the least peak, on its fullest device, of any plan in which each op runs once."""
    return max(memory_floor_with_reruns(problem), live_tensors(problem).value)


def memory_floor_with_reruns(problem: Problem) -> int:
    """Return the least peak, on its fullest device, of any plan, whatever ops run again on the device of their first
    run."""
    return max(bound(problem).value for bound in (largest_op, spread_residents))


def nothing_fits(problem: Problem) -> bool:
    """True if the memory bounds prove that no plan keeps the limits in which each op runs once: some op fits on no
    device that it may use, or all devices together lack memory."""
    total = _total_limit(problem)
    return total is not None and (nothing_fits_with_reruns(problem) or _live_bytes(problem) > total)


def nothing_fits_with_reruns(problem: Problem) -> bool:
    """True if the same is proven whatever ops run again. Tensors alive together can be dropped then, and prove
    nothing."""
    total = _total_limit(problem)
    if total is None:
        return False
    limits = [QUANTITY_LIMIT if limit is None else limit for limit in problem.memory_limits_bytes]
    devices = np.arange(problem.machine.num_devices, dtype=np.uint64)
    allowed = problem.groups[1][:, None] >> devices & np.uint64(1)
    roomiest = np.where(allowed == 1, np.array(limits, np.int64), -1).max(axis=1)
    return bool((_held_by_ops(problem) > roomiest).any()) or _held_at_the_end(problem) > total


def _total_limit(problem: Problem) -> int | None:
    """Return the limit of all devices together; None where none has a limit."""
    if all(limit is None for limit in problem.memory_limits_bytes):
        return None
    return sum(QUANTITY_LIMIT if limit is None else limit for limit in problem.memory_limits_bytes)


def _share(problem: Problem, held_bytes: int) -> int:
    return -(-held_bytes // problem.machine.num_devices)


_LIVE: WeakKeyDictionary[Problem, int] = WeakKeyDictionary()


def _live_bytes(problem: Problem) -> int:
    known = _LIVE.get(problem)
    if known is None:
        known = _LIVE[problem] = _core.live_memory_bound(problem.core, _MAX_ARCS)[0]
    return known


def _held_by_ops(problem: Problem) -> NDArray[np.int64]:
    """Compute the memory of each op while it runs: int64 [num scheduled ops]."""
    lowered = problem.lowered
    held = lowered.workspace_bytes + _row_sums(lowered.allocated_bytes, lowered.output_begin)
    held = held + _row_sums(_least_input_bytes(problem)[lowered.inputs], lowered.input_begin)
    return held + _row_sums(lowered.resident_bytes[lowered.residents], lowered.resident_begin)


def _least_input_bytes(problem: Problem) -> NDArray[np.int64]:
    """Compute the least memory of an input tensor on its reader's device: the smaller of its memory at home and its
    copy; nothing for an alias, whose base another input may already count."""
    lowered = problem.lowered
    own = lowered.storage == np.arange(len(lowered.storage))
    least: NDArray[np.int64] = np.where(own, np.minimum(lowered.allocated_bytes, lowered.copy_bytes), 0)
    return least


def _held_at_the_end(problem: Problem) -> int:
    lowered = problem.lowered
    return int(lowered.resident_bytes.sum()) + int(lowered.allocated_bytes[lowered.live_out == 1].sum())


def _row_sums(values: NDArray[np.int64], begin: NDArray[np.int32]) -> NDArray[np.int64]:
    """Sum of each row of a CSR list; int64 [num rows]."""
    running = np.concatenate([[0], np.cumsum(values)])
    sums: NDArray[np.int64] = running[begin[1:]] - running[begin[:-1]]
    return sums
