"""A lower bound on the latency of every map."""

from __future__ import annotations

from placewright.lab.memory_levels.problem import MemoryProblem

#: The reason of a bound that would hold for each op alone.
ALONE = "every op has the memories to itself"
#: The reason of a bound that a solver of mixed-integer programs proved.
PROGRAM = "proven by the program over the configurations of ops"


def alone_bound(problem: MemoryProblem) -> int:
    """Sum the least time of each op, whatever the other ops need.

    That is its overhead plus the longest of: its computation; the time of its bytes when they are spread over all
    ports; and the time of each of its tensors in the fastest level that could hold it alone.
    """
    total = 0
    for op in range(problem.num_ops):
        total += int(problem.overhead_ps[op]) + max(int(problem.compute_ps[op]), _least_traffic_ps(problem, op))
    return total


def _least_traffic_ps(problem: MemoryProblem, op: int) -> int:
    """Return the longest of: the network's inputs from the slowest level, all bytes at the sum of the ports' rates, and
    each tensor at its fastest level."""
    uses = slice(int(problem.use_begin[op]), int(problem.use_begin[op + 1]))
    levels = problem.chip.levels
    fixed = levels[-1].transfer_ps(int(problem.fixed_bytes[op]))
    total = int(problem.use_bytes[uses].sum())
    together = sum(1 / level.inverse_rate for level in levels)
    least = int(total / together / 2**20 * (1 - 1e-9)) if total else 0
    alone = [_alone_ps(problem, use) for use in range(uses.start, uses.stop)]
    return max([fixed, least, *alone])


def _alone_ps(problem: MemoryProblem, use: int) -> int:
    """Return the time of a use if its tensor were alone on the chip. A prefetched one is read from two levels: 0 is the
    bound."""
    if problem.use_is_early[use] and problem.chip.has_prefetch:
        return 0
    held, size = int(problem.size_bytes[problem.use_tensor[use]]), int(problem.use_bytes[use])
    fitting = (level for level in problem.chip.levels if held <= level.capacity_bytes)
    return next(fitting, problem.chip.levels[-1]).transfer_ps(size)
