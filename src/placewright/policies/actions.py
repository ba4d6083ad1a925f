"""What a policy decides for each op, and the Beta distributions that decisions stand for (REGAL, A.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.errors import InputError
from placewright.problem import Problem
from placewright.proposal import Proposal

Int = NDArray[np.int64]
#: alpha and beta, float64 [num distributions].
Parameters = tuple[NDArray[np.float64], NDArray[np.float64]]

#: So that 1 / (levels + 1) squared is still a parameter a proposal may have.
MOST_LEVELS = 30
#: Parameters of the distributions near 0 and near 1 that fix an op's device: 2**-100 of the mass lies beyond a half.
_FIXED = 100.0


@dataclass(frozen=True, kw_only=True)
class ActionSpace:
    """An action is a level for each choice. Choices come in pairs, a mean and a variance: one pair for the affinity of
    the op to each device, then one for its priority.

    placement_levels, scheduling_levels: how many levels the choices of affinities and of the priority have, k in A.6;
    with none the policy leaves these keys uniform (A.12).
    """

    num_devices: int
    placement_levels: int
    scheduling_levels: int

    def __post_init__(self) -> None:
        levels = (self.placement_levels, self.scheduling_levels)
        if not any(levels) or any(count == 1 or not 0 <= count <= MOST_LEVELS for count in levels):
            raise InputError(
                f"choices of {levels[0]} and {levels[1]} levels: 0 or 2 to {MOST_LEVELS} can be, not all 0"
            )

    @property
    def levels(self) -> tuple[int, ...]:
        """Of each choice."""
        placement = (self.placement_levels,) * 2 * self.num_devices if self.placement_levels else ()
        return (*placement, *((self.scheduling_levels,) * 2 if self.scheduling_levels else ()))

    @property
    def num_logits(self) -> int:
        return sum(self.levels)

    def proposal(self, problem: Problem, actions: Int, fixed_op: int | None) -> Proposal:
        """The proposal that actions, [num ops, num choices], stand for; keys of transfers are uniform. fixed_op: stands
        on the first device."""
        num_ops, num_devices = problem.core.num_ops, self.num_devices
        row = np.zeros(problem.core.num_keys, np.uint16)
        affinity = row[: num_ops * num_devices].reshape(num_ops, num_devices)
        pairs = actions.reshape(num_ops, -1, 2)
        if self.placement_levels:
            affinity[:] = 1 + _row(pairs[:, :num_devices], self.placement_levels)
        if self.scheduling_levels:
            first = 1 + self.placement_levels**2
            row[affinity.size :][:num_ops] = first + _row(pairs[:, -1], self.scheduling_levels)
        levels = [count for count in (self.placement_levels, self.scheduling_levels) if count]
        return _with_fixed_op(row, affinity, [beta_parameters(count) for count in levels], fixed_op)


def uniform_proposal(problem: Problem, fixed_op: int) -> Proposal:
    """All keys uniform, but that one op stands on the first device."""
    row = np.zeros(problem.core.num_keys, np.uint16)
    affinity = row[: problem.core.num_ops * problem.core.num_devices].reshape(problem.core.num_ops, -1)
    return _with_fixed_op(row, affinity, [], fixed_op)


def _with_fixed_op(
    row: NDArray[np.uint16], affinity: NDArray[np.uint16], parts: Sequence[Parameters], fixed_op: int | None
) -> Proposal:
    """Distributions are the uniform one, the parts, one near 0 and one near 1. row: of each key. affinity: its part
    [op, device], of which that of the fixed op is changed."""
    alpha = np.concatenate([[1.0], *(alpha for alpha, _ in parts), [1.0, _FIXED]])
    beta = np.concatenate([[1.0], *(beta for _, beta in parts), [_FIXED, 1.0]])
    if fixed_op is not None:
        near_0, near_1 = len(alpha) - 2, len(alpha) - 1
        affinity[fixed_op] = near_0
        affinity[fixed_op, 0] = near_1
    return Proposal(alpha=alpha, beta=beta, row=row)


def beta_parameters(levels: int) -> Parameters:
    """alpha and beta by mean level * levels + variance level, as A.6 dequantises them: the mean is (m + 1) / (k + 1),
    the variance (v + 1) / (k + 1) of the most that such a mean allows."""
    level = np.arange(levels)
    mean = ((level + 1) / (levels + 1))[:, None]
    variance = mean * (1 - mean) * (level + 1) / (levels + 1)
    beta = mean * (1 - mean) ** 2 / variance - 1 + mean
    return (beta * mean / (1 - mean)).ravel(), beta.ravel()


def _row(pairs: Int, levels: int) -> Int:
    return pairs[..., 0] * levels + pairs[..., 1]


def fixed_op_of(problem: Problem) -> int | None:
    """The op that may stand on the first device without loss, as A.2 fixes it: the longest, or the one with most memory
    where that is the objective. None where devices differ, so that the first is not as good as any."""
    machine = problem.machine
    _, allowed = problem.groups
    free = bool((allowed == allowed[0]).all()) and int(allowed[0]).bit_count() == machine.num_devices
    links = {link for source, row in enumerate(machine.links) for to, link in enumerate(row) if source != to}
    equal_times = bool((problem.time_ns == problem.time_ns[:, :1]).all())
    if not (free and equal_times and len(links) <= 1 and len(set(problem.memory_limits_bytes)) == 1):
        return None
    return heaviest_op(problem) if problem.objective == "peak-memory" else longest_op(problem)


def longest_op(problem: Problem) -> int:
    """The scheduled op that takes longest, on the first device."""
    return int(np.argmax(problem.time_ns[problem.lowered.graph_op, 0]))


def heaviest_op(problem: Problem) -> int:
    """The scheduled op whose inputs, outputs and workspace are largest together."""
    return int(np.argmax(op_bytes(problem).sum(axis=1)))


def op_bytes(problem: Problem) -> Int:
    """Bytes of inputs, parameters among them, of outputs and of workspace: int64 [num scheduled ops, 3]."""
    lowered = problem.lowered
    num_ops = len(lowered.graph_op)
    reads = np.repeat(np.arange(num_ops), np.diff(lowered.input_begin))
    residents = np.repeat(np.arange(num_ops), np.diff(lowered.resident_begin))
    total = np.zeros((num_ops, 3), np.int64)
    for column, op, size in (
        (0, reads, lowered.remote_bytes[lowered.inputs]),
        (0, residents, lowered.resident_bytes[lowered.residents]),
        (1, lowered.producer, lowered.remote_bytes),
    ):
        np.add.at(total[:, column], op, size)
    total[:, 2] = lowered.workspace_bytes
    return total
