"""REINFORCE with a moving average as baseline, as ColocRL has it (Mirhoseini et al. 2017, section 3.1)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.support.errors import InputError


class BaselineGradient:
    """The gradient of (cost - baseline) * log probability.

    start: of the baseline; None for the mean of the first placements that count. decay: how much of it stays at each
    step. cut_off: after so many steps a placement that did not run changes neither weights nor baseline; before, it
    counts by the cost it is given.
    """

    def __init__(self, network: nn.Module, *, start: float | None, decay: float = 0.9, cut_off: int = 5000) -> None:
        self.network, self.baseline, self.decay, self.cut_off = network, start, decay, cut_off
        self.steps = 0

    def differentiate(self, log_probability: Tensor, cost: NDArray[np.float64], runs: NDArray[np.bool_]) -> bool:
        """Leaves the gradient in the network; whether there is anything to learn from.

        log_probability: [count] of whole placements.
        """
        if not np.isfinite(cost).all():
            raise InputError("a cost is not a finite number, so there is nothing to learn from it")
        counts = runs | (self.steps < self.cut_off)
        self.steps += 1
        if not counts.any():
            return False
        mean = float(cost[counts].mean())
        before = mean if self.baseline is None else self.baseline
        loss = advantage_loss(log_probability, cost - before, counts)
        self.baseline = self.decay * before + (1 - self.decay) * mean
        self.network.zero_grad()
        loss.backward()
        return True


def advantage_loss(log_probability: Tensor, advantage: NDArray[np.float64], counts: NDArray[np.bool_]) -> Tensor:
    """Mean over the placements that count."""
    weight = torch.from_numpy(np.where(counts, advantage, 0.0)).to(log_probability.dtype)
    return (weight * log_probability).sum() / int(counts.sum())


class MovingBaseline(BaselineGradient):
    """Steps down that gradient, with Adam."""

    def __init__(
        self,
        network: nn.Module,
        *,
        learning_rate: float,
        start: float | None,
        decay: float = 0.9,
        cut_off: int = 5000,
        max_grad_norm: float = 1.0,
    ) -> None:
        super().__init__(network, start=start, decay=decay, cut_off=cut_off)
        self.max_grad_norm = max_grad_norm
        self._optimizer = torch.optim.Adam(network.parameters(), learning_rate)

    def step(self, log_probability: Tensor, cost: NDArray[np.float64], runs: NDArray[np.bool_]) -> None:
        """Arguments as of `differentiate`."""
        if self.differentiate(log_probability, cost, runs):
            nn.utils.clip_grad_norm_(self.network.parameters(), self.max_grad_norm)
            self._optimizer.step()
