"""REINFORCE with a moving average as baseline, as ColocRL has it (Mirhoseini et al. 2017, section 3.1)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.support.errors import InputError


class MovingBaseline:
    """Steps down (cost - baseline) * log probability, with Adam.

    start: of the baseline. decay: how much of it stays at each step. cut_off: after so many steps a placement that did
    not run changes neither weights nor baseline; before, it counts by the cost it is given.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        learning_rate: float,
        start: float,
        decay: float = 0.9,
        cut_off: int = 5000,
        max_grad_norm: float = 1.0,
    ) -> None:
        self.network, self.baseline, self.decay, self.cut_off = network, start, decay, cut_off
        self.max_grad_norm, self.steps = max_grad_norm, 0
        self._optimizer = torch.optim.Adam(network.parameters(), learning_rate)

    def step(self, log_probability: Tensor, cost: NDArray[np.float64], runs: NDArray[np.bool_]) -> None:
        """log_probability: [count] of whole placements."""
        if not np.isfinite(cost).all():
            raise InputError("a cost is not a finite number, so there is nothing to learn from it")
        counts = runs | (self.steps < self.cut_off)
        self.steps += 1
        if not counts.any():
            return
        loss = self.loss(log_probability, cost, counts)
        self.baseline = self.decay * self.baseline + (1 - self.decay) * float(cost[counts].mean())
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.max_grad_norm)
        self._optimizer.step()

    def loss(self, log_probability: Tensor, cost: NDArray[np.float64], counts: NDArray[np.bool_]) -> Tensor:
        """Mean over the placements that count."""
        advantage = torch.from_numpy(np.where(counts, cost - self.baseline, 0.0)).to(log_probability.dtype)
        return (advantage * log_probability).sum() / int(counts.sum())
