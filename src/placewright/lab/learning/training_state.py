"""The state of a training with Adam between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from placewright.lab.learning.learner import Learner
from placewright.lab.learning.protocols import GradientEstimate
from placewright.lab.learning.training import TrainingConfiguration
from placewright.methods.policies import Weights
from placewright.support.errors import InputError

Float = NDArray[np.float32]


class TrainingState:
    """Weights, Adam's state, the number of steps taken and the best validation so far."""

    def __init__(self, configuration: TrainingConfiguration, seed: int) -> None:
        self._configuration = configuration
        self._learner = Learner(configuration, seed)
        self._weights = torch.nn.Parameter(torch.from_numpy(self._learner.weights))
        self._adam = self._fresh_adam()
        self.step = 0
        self.best: float | None = None
        self._is_new_step = True

    @property
    def weights(self) -> Float:
        found: Float = self._weights.detach().numpy()
        return found

    def policy_weights(self) -> Weights:
        """Return the policy's weights by name, without the value function's."""
        self._learner.weights = self.weights.copy()
        return self._learner.policy_weights

    def learn(self, estimates: Sequence[GradientEstimate], *, ends_step: bool = True) -> float:
        """Make one update by Adam along the mean of the gradients, clipped to its largest norm; return the norm before
        that. Raises InputError when they are no longer numbers."""
        gradient = torch.from_numpy(np.mean([estimate.gradient for estimate in estimates], axis=0, dtype=np.float32))
        norm = float(gradient.norm())
        if not np.isfinite(norm):
            raise InputError(
                f"the training has gradients that are no numbers at step {self.step + 1}; "
                f"a learning rate of {self._configuration.learning_rate} may be too high"
            )
        self._weights.grad = gradient * min(1.0, self._configuration.max_grad_norm / max(norm, 1e-12))
        if self._is_new_step and self.step == self._configuration.imitation_steps:  # gradients of another size begin
            self._adam = self._fresh_adam()
        for group in self._adam.param_groups:
            group["lr"] = self._configuration.learning_rate_at(self.step)
        self._adam.step()
        self.step += ends_step
        self._is_new_step = ends_step
        return norm

    def _fresh_adam(self) -> torch.optim.Adam:
        return torch.optim.Adam([self._weights], lr=self._configuration.learning_rate)

    def is_best(self, improvement: float) -> bool:
        """Return True if a validation is better than all before it, and remember it."""
        if self.best is not None and improvement <= self.best:
            return False
        self.best = improvement
        return True

    def state(self) -> dict[str, Any]:
        """Return all that determines how the training continues."""
        adam = self._adam.state_dict()
        return {"weights": self._weights.detach(), "adam": adam, "step": self.step, "best": self.best}

    def restore(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            self._weights.copy_(state["weights"])
        self._adam.load_state_dict(state["adam"])
        self.step, self.best = state["step"], state["best"]


def deciding_settings(configuration: TrainingConfiguration, seed: int, data: Sequence[str]) -> dict[str, Any]:
    """Return all that determines the result of a training; the number of steps only if its learning rate depends on it.
    data: digests of its graphs."""
    settings = {**asdict(configuration), "seed": seed, "data": list(data)}
    if configuration.last_learning_rate is None:
        del settings["steps"]
    return settings
