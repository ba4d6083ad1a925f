"""What no map can be faster than."""

from __future__ import annotations

from placewright.lab.memory_levels.problem import MemoryProblem

#: Said of a bound that would hold for each op alone.
ALONE = "every op has the memories to itself"
#: Said of one that a solver of mixed-integer programs proved.
PROGRAM = "proven by the program over the configurations of ops"


def alone_bound(problem: MemoryProblem) -> int:
    """Sum over the ops of what each takes at least, whatever the other ops need.

    That is its computation; what its bytes take when they are spread over all ports; and what each of its tensors takes
    in the fastest level that could hold it alone.
    """
    total = 0
    for op in range(problem.num_ops):
        total += int(problem.overhead_ps[op]) + max(int(problem.compute_ps[op]), _least_traffic_ps(problem, op))
    return total


def _least_traffic_ps(problem: MemoryProblem, op: int) -> int:
    """The ports together move at most the sum of their rates; each tensor takes at least its time at the fastest."""
    uses = slice(int(problem.use_begin[op]), int(problem.use_begin[op + 1]))
    levels = problem.chip.levels
    fixed = levels[-1].transfer_ps(int(problem.fixed_bytes[op]))
    total = int(problem.use_bytes[uses].sum())
    together = sum(1 / level.inverse_rate for level in levels)
    least = int(total / together / 2**20 * (1 - 1e-9)) if total else 0
    alone = [_alone_ps(problem, use) for use in range(uses.start, uses.stop)]
    return max([fixed, least, *alone])


def _alone_ps(problem: MemoryProblem, use: int) -> int:
    """Of a use, were its tensor alone on the chip. Fetched early, it is read from two levels: no time is sure."""
    if problem.use_is_early[use] and problem.chip.has_prefetch:
        return 0
    held, size = int(problem.size_bytes[problem.use_tensor[use]]), int(problem.use_bytes[use])
    fitting = (level for level in problem.chip.levels if held <= level.capacity_bytes)
    return next(fitting, problem.chip.levels[-1]).transfer_ps(size)
