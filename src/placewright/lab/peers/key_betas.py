"""One Beta distribution for each part of a chromosome, the same for all graphs: affinities, priorities, transfers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.decoder import WITH_AFFINITIES, DecoderName
from placewright.problem import Problem
from placewright.proposal import Proposal

_UNIFORM = (1.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class KeyBetas:
    """alpha and beta of the keys of each part (REGAL, A.5); a decoder without affinities has priorities alone.

    The decoder only compares keys, so one distribution for all of them would change nothing. Different ones change what
    is compared with each other: where priorities of ops lie below most of those of transfers, these leave early.
    """

    affinity: tuple[float, float] = _UNIFORM
    priority: tuple[float, float] = _UNIFORM
    transfer: tuple[float, float] = _UNIFORM

    def proposal(self, problem: Problem, decoder: DecoderName) -> Proposal:
        num_ops = problem.core.num_ops
        num_affinities = num_ops * problem.core.num_devices if decoder in WITH_AFFINITIES else 0
        row = np.full(problem.core.num_keys_of(decoder), 2, np.uint16)
        row[:num_affinities] = 0
        row[num_affinities : num_affinities + num_ops] = 1
        parts = np.array([self.affinity, self.priority, self.transfer])
        return Proposal(alpha=parts[:, 0], beta=parts[:, 1], row=row)
