"""The probabilities of a graph's actions by a policy's network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from placewright.lab.learning.decisions import Decisions, decisions_of, mean_decisions
from placewright.lab.learning.protocols import Actions
from placewright.lab.learning.regal.configuration import PolicyConfiguration
from placewright.lab.learning.regal.forward import Logits
from placewright.lab.learning.regal.policy import choose, sample


class LevelDistribution:
    """A distribution of a level for each choice of each op; those of an op may depend on the ops before it (A.8)."""

    def __init__(
        self,
        configuration: PolicyConfiguration,
        states: Tensor,
        to_sample: Callable[[], Logits],
        given: Callable[[Tensor], Tensor],
    ) -> None:
        """Make the distribution. states: of the ops, [ops, width]. to_sample: returns logits to draw actions from.
        given: returns logits, with gradients, for given actions, as PolicyNetwork does."""
        self._configuration, self._states = configuration, states
        self._to_sample, self._given = to_sample, given
        self._space = configuration.action_space

    @cached_property
    def _logits(self) -> Logits:
        return self._to_sample()

    def sample(self, seed: int) -> Actions:
        return sample(self._logits, self._space, seed)

    def choose(self, seed: int) -> Actions:
        return choose(self._logits, self._configuration, seed)

    def evaluate(self, actions: Sequence[Actions]) -> tuple[Tensor, Decisions]:
        # One row of logits for each sample, or one for all where they depend on no actions.
        logits = self._given(torch.from_numpy(np.stack(actions)))
        found = [self._of_choices(of_sample) for of_sample in logits]
        by_sample = found * (len(actions) // len(found))
        log_probability = torch.stack(
            [_of_actions(choices, taken) for choices, taken in zip(by_sample, actions, strict=True)]
        )
        decisions = [decisions_of(choices, self._states, own) for choices, own in zip(found, logits, strict=True)]
        return log_probability, mean_decisions(decisions)

    def _of_choices(self, logits: Tensor) -> list[Tensor]:
        """Return log probabilities, [ops, levels] for each choice, [1, levels] for one that ops make together."""
        *choices, together = logits.split([*self._space.levels, self._space.elite_bias_levels], 1)
        if self._space.elite_bias_levels:
            choices.append(together.mean(0, keepdim=True))
        return [torch.log_softmax(choice, 1) for choice in choices]


def _of_actions(log_probabilities: Sequence[Tensor], actions: Actions) -> Tensor:
    """Return the log probability of all actions of a graph together, [ops, choices]: one number."""
    taken = torch.from_numpy(actions)
    return torch.stack(
        [
            choice.gather(1, taken[: len(choice), number : number + 1]).sum()
            for number, choice in enumerate(log_probabilities)
        ]
    ).sum()
