"""The parameter server: weights that several controllers learn, with Adam over their gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.lab.learning.algorithms.descent import ClippedAdam

Array: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """Weights, and after how many updates."""

    version: int
    weights: Sequence[Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class Gradient:
    """version: of the weights it is for. parts: by parameter, None where it has none; empty where nothing was learned
    from."""

    version: int
    parts: Sequence[Array | None]


class ParameterServer:
    """Answers one after the other. staleness: by how many updates a gradient may be behind; others are dropped.

    ages: how many gradients came so many updates late. dropped: how many of them were too late.
    """

    def __init__(self, weights: Sequence[Array], learning_rate: float, max_grad_norm: float, staleness: int) -> None:
        torch.set_num_threads(1)
        self._parameters = [nn.Parameter(torch.tensor(part)) for part in weights]
        self._descent, self._staleness = ClippedAdam(self._parameters, learning_rate, max_grad_norm), staleness
        self.version, self.dropped, self.ages = 0, 0, Counter[int]()

    def snapshot(self) -> Snapshot:
        weights = [parameter.detach().numpy().copy() for parameter in self._parameters]
        return Snapshot(version=self.version, weights=weights)

    def learn(self, *gradients: Gradient) -> None:
        """One update along the mean of those that are not too late."""
        fresh = [gradient for gradient in gradients if gradient.parts and self._is_in_time(gradient)]
        if not fresh:
            return
        for parameter, *parts in zip(self._parameters, *(gradient.parts for gradient in fresh), strict=True):
            parameter.grad = _mean(parts)
        self._descent.step()
        self.version += 1

    def _is_in_time(self, gradient: Gradient) -> bool:
        age = self.version - gradient.version
        self.ages[age] += 1
        self.dropped += age > self._staleness
        return age <= self._staleness

    def state(self) -> dict[str, Any]:
        """For a file: numbers, texts, tensors, and lists and dictionaries of them."""
        return {
            "weights": [parameter.detach().clone() for parameter in self._parameters],
            "adam": self._descent.adam.state_dict(),
            "version": self.version,
            "dropped": self.dropped,
            "ages": dict(self.ages),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """To what `state` gave."""
        with torch.no_grad():
            for parameter, known in zip(self._parameters, state["weights"], strict=True):
                parameter.copy_(known)
        self._descent.adam.load_state_dict(state["adam"])
        self.version, self.dropped, self.ages = state["version"], state["dropped"], Counter(state["ages"])


def _mean(parts: Sequence[Array | None]) -> Tensor | None:
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return torch.tensor(known[0] if len(known) == 1 else np.mean(known, axis=0, dtype=np.float32))
