"""The decisions of a policy for each op, and the Beta distributions that they represent (REGAL, A.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.decoder import WITH_AFFINITIES, DecoderName, check_decoder
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.support.errors import InputError

Int = NDArray[np.int64]
#: alpha and beta, float64 [num distributions].
Parameters = tuple[NDArray[np.float64], NDArray[np.float64]]

#: Ensures that 1 / (levels + 1) squared is still a valid parameter of a proposal.
MOST_LEVELS = 30
#: Parameters of the distributions near 0 and near 1 that fix an op's device: 2**-100 of the mass is beyond a half.
_FIXED = 100.0


@dataclass(frozen=True, kw_only=True)
class ActionSpace:
    """The space of actions: a level for each choice. Choices come in pairs, a mean and a variance: one pair for the
    affinity of the op to each device, then one for its priority, then one for the priority of transfers of its outputs.
    There may be a last unpaired choice, of the elite bias, which all ops make together.

    placement_levels, scheduling_levels, transfer_levels: number of levels for the choices of affinities, of the
    priority and of transfers, k in A.6; with 0 the policy leaves these keys uniform (A.12), as the paper does
    transfers'. decoder: the meaning of keys; one without affinities has no keys to choose devices with, and only the
    paper's reads those of transfers. elite_bias_levels: of the probability that a child takes a key from its elite
    parent; with 0 the search keeps its own.
    """

    num_devices: int
    placement_levels: int
    scheduling_levels: int
    transfer_levels: int = 0
    decoder: DecoderName = "paper"
    elite_bias_levels: int = 0

    def __post_init__(self) -> None:
        check_decoder(self.decoder)
        levels = (self.placement_levels, self.scheduling_levels, self.transfer_levels)
        if not any(levels) or any(count == 1 or not 0 <= count <= MOST_LEVELS for count in levels):
            raise InputError(
                f"choices of {', '.join(map(str, levels))} levels: 0 or 2 to {MOST_LEVELS} can be, not all 0"
            )
        if self.placement_levels and self.decoder not in WITH_AFFINITIES:
            raise InputError(f"decoder '{self.decoder}' chooses devices itself: a policy can not")
        if self.transfer_levels and self.decoder != "paper":
            raise InputError(f"decoder '{self.decoder}' does not read priorities of transfers: only 'paper' does")
        if self.elite_bias_levels == 1 or not 0 <= self.elite_bias_levels <= MOST_LEVELS:
            raise InputError(f"an elite bias of {self.elite_bias_levels} levels: 0 or 2 to {MOST_LEVELS} can be")

    @property
    def levels(self) -> tuple[int, ...]:
        """The number of levels of each choice that every op makes separately."""
        pairs = ((self.placement_levels, self.num_devices), (self.scheduling_levels, 1), (self.transfer_levels, 1))
        return tuple(count for count, keys in pairs if count for _ in range(2 * keys))

    @property
    def num_logits(self) -> int:
        return sum(self.levels) + self.elite_bias_levels

    def proposal(self, problem: Problem, actions: Int, fixed_op: int | None) -> Proposal:
        """Return the proposal of actions, [num ops, num choices]. fixed_op: is placed on the first device."""
        keys = _Keys(problem, self.decoder)
        pairs = actions[:, : len(self.levels)].reshape(problem.core.num_ops, -1, 2)
        parts: list[Parameters] = []

        def of_pairs(pairs: Int, levels: int) -> Int:
            """Return the numbers of the distributions of choices with that many levels."""
            first = 1 + sum(len(alpha) for alpha, _ in parts)
            parts.append(beta_parameters(levels))
            return first + pairs[..., 0] * levels + pairs[..., 1]

        if self.placement_levels:
            keys.affinity[:] = of_pairs(pairs[:, : self.num_devices], self.placement_levels)
            pairs = pairs[:, self.num_devices :]
        if self.scheduling_levels:
            keys.priority[:] = of_pairs(pairs[:, 0], self.scheduling_levels)
        if self.transfer_levels:
            keys.transfer[:] = of_pairs(pairs[problem.lowered.producer, -1], self.transfer_levels)[:, None]
        elite_bias = self._elite_bias(int(actions[0, -1])) if self.elite_bias_levels else None
        return keys.proposal(parts, fixed_op, elite_bias)

    def _elite_bias(self, level: int) -> float:
        """Return the elite bias as in A.6, except that a child takes some key of its other parent at the highest level
        too."""
        return min(0.5 * (1 + (level + 1) / self.elite_bias_levels), 1 - 2**-16)


def uniform_proposal(problem: Problem, fixed_op: int, decoder: DecoderName = "paper") -> Proposal:
    """Return a proposal with all keys uniform, except that one op is fixed to the first device."""
    return _Keys(problem, decoder).proposal([], fixed_op)


class _Keys:
    """The number of the distribution of each key, initially of the uniform one. Parts of the paper's layout (A.5):
    affinity [op, device], priority [op], transfer [tensor, device]; decoders without affinities have only the
    priority."""

    def __init__(self, problem: Problem, decoder: DecoderName) -> None:
        num_ops, num_devices = problem.core.num_ops, problem.core.num_devices
        self._row = np.zeros(problem.core.num_keys_of(decoder), np.uint16)
        num_affinities = num_ops * num_devices if decoder in WITH_AFFINITIES else 0
        self.affinity = self._row[:num_affinities].reshape(-1, num_devices)
        self.priority = self._row[num_affinities:][:num_ops]
        self.transfer = self._row[num_affinities + num_ops :].reshape(-1, num_devices)

    def proposal(self, parts: Sequence[Parameters], fixed_op: int | None, elite_bias: float | None = None) -> Proposal:
        """Return the proposal with the uniform distribution, those of the parts, one near 0 and one near 1."""
        alpha = np.concatenate([[1.0], *(alpha for alpha, _ in parts), [1.0, _FIXED]])
        beta = np.concatenate([[1.0], *(beta for _, beta in parts), [_FIXED, 1.0]])
        if fixed_op is not None:
            near_0, near_1 = len(alpha) - 2, len(alpha) - 1
            self.affinity[fixed_op] = near_0
            self.affinity[fixed_op, 0] = near_1
        return Proposal(alpha=alpha, beta=beta, row=self._row, elite_bias=elite_bias)


def beta_parameters(levels: int) -> Parameters:
    """Return alpha and beta by mean level * levels + variance level, as A.6 dequantises them: the mean is (m + 1) / (k
    + 1), the variance (v + 1) / (k + 1) of the largest for such a mean."""
    level = np.arange(levels)
    mean = ((level + 1) / (levels + 1))[:, None]
    variance = mean * (1 - mean) * (level + 1) / (levels + 1)
    beta = mean * (1 - mean) ** 2 / variance - 1 + mean
    return (beta * mean / (1 - mean)).ravel(), beta.ravel()
