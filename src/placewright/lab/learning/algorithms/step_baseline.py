"""REINFORCE with a baseline of its own for each step of an episode, as Placeto has it (Addanki et al. 2019)."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.lab.learning.placers.placement_policy import Likelihood
from placewright.support.errors import InputError


class StepBaseline:
    """Adam up (return - baseline) * log probability. The baseline of a step is the mean of what the last episodes
    gained from that step on.

    learning_rates: from the first to the second over so many `steps`, then constant. entropy: what a nat is worth at
    first; it falls to nothing over the same steps. episodes: that the baseline is a mean of.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        learning_rates: tuple[float, float],
        steps: int,
        entropy: float,
        episodes: int = 10,
        max_grad_norm: float = 1.25,
    ) -> None:
        self.network, self.learning_rates, self.steps, self.entropy = network, learning_rates, steps, entropy
        self.max_grad_norm, self.steps_made = max_grad_norm, 0
        self._gains: deque[NDArray[np.float64]] = deque(maxlen=episodes)
        self._optimizer = torch.optim.Adam(network.parameters(), learning_rates[0])

    def step(self, likelihood: Likelihood, returns: NDArray[np.float64], learned: NDArray[np.int64]) -> None:
        """likelihood: of the decisions of some steps, [count, len(learned)]. returns: [count, num steps], of each
        episode from each step on. learned: which steps these are."""
        if not np.isfinite(returns).all():
            raise InputError("a return is not a finite number, so there is nothing to learn from it")
        self._gains.extend(returns)
        loss = self.loss(likelihood, (returns - self.baseline)[:, learned])
        share = min(1.0, self.steps_made / self.steps)
        self._optimizer.param_groups[0]["lr"] = (1 - share) * self.learning_rates[0] + share * self.learning_rates[1]
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.max_grad_norm)
        self._optimizer.step()
        self.steps_made += 1

    @property
    def baseline(self) -> NDArray[np.float64]:
        """[num steps]"""
        return np.mean(self._gains, axis=0, dtype=np.float64)

    def loss(self, likelihood: Likelihood, advantage: NDArray[np.float64]) -> Tensor:
        """Mean over decisions."""
        log = likelihood.log_probability
        worth = self.entropy * max(0.0, 1 - self.steps_made / self.steps)
        return -(torch.from_numpy(advantage).to(log.dtype) * log + worth * likelihood.entropy).mean()
