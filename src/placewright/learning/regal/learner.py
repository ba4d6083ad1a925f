"""One graph's part of a gradient step: REINFORCE (Williams 1992) as in REGAL, section 4.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from placewright.learning.regal.instances import Instance
from placewright.learning.regal.network import BaselineNetwork, Batch, PolicyNetwork
from placewright.learning.regal.policy import choose, sample
from placewright.learning.regal.trainings import TrainingConfiguration

Float = NDArray[np.float32]
Int = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Lesson:
    """gradient: of the loss, all weights in one row. loss: what was minimised. rewards: of each sample, none where it
    was taught. entropy: in nats, of the actions of one op given those before it, mean over ops and samples. expected:
    the reward that the baseline network expects, where there is one."""

    gradient: Float
    loss: float
    rewards: tuple[float, ...]
    entropy: float
    expected: float | None


class Learner:
    """The policy's network and, where samples stand alone, the baseline's; their weights are one row of numbers
    wherever they travel."""

    def __init__(self, configuration: TrainingConfiguration, seed: int) -> None:
        torch.manual_seed(seed)
        self._configuration = configuration
        self._space = configuration.policy.action_space
        self.policy = PolicyNetwork(configuration.policy)
        self._baseline = BaselineNetwork(configuration.policy) if configuration.samples == 1 else None
        self._networks = nn.ModuleList([self.policy, *([self._baseline] if self._baseline else [])])

    @property
    def weights(self) -> Float:
        found: Float = parameters_to_vector(self._networks.parameters()).detach().numpy().copy()
        return found

    @weights.setter
    def weights(self, values: Float) -> None:
        vector_to_parameters(torch.from_numpy(values), self._networks.parameters())

    def reward(self, instance: Instance, seed: int) -> float:
        """Of the actions that the policy proposes."""
        with torch.no_grad():
            logits = self.policy.to_sample(self.policy.states(Batch.of([instance.context.features])))
        return instance.reward(choose(logits, self._configuration.policy, seed), seed)

    def lesson(self, instance: Instance, seeds: Sequence[int]) -> Lesson:
        """Draws actions once for each seed, and sees what they are worth."""
        batch = Batch.of([instance.context.features])
        states = self.policy.states(batch)
        expected = self._baseline(batch)[0] if self._baseline else None
        logits = self.policy.to_sample(states)
        actions = [sample(logits, self._space, seed) for seed in seeds]
        rewards = torch.tensor([instance.reward(taken, seed) for taken, seed in zip(actions, seeds, strict=True)])
        log_probabilities = self._log_probabilities(states, actions)
        log_probability = torch.stack(
            [_of_actions(own, taken) for own, taken in zip(log_probabilities, actions, strict=True)]
        )
        loss = -(self._advantages(rewards, expected) * log_probability).mean()
        if expected is not None:
            loss = loss + self._configuration.baseline_weight * ((rewards - expected) ** 2).mean()
        seen = None if expected is None else float(expected.detach())
        return self._lesson(loss, rewards.tolist(), log_probabilities, seen)

    def imitation(self, instance: Instance) -> Lesson:
        """Makes the actions that the teacher chose more likely, each op's as much as any other's, by how much they
        count."""
        states = self.policy.states(Batch.of([instance.context.features]))
        taught = instance.taught
        log_probabilities = self._log_probabilities(states, [taught.actions])
        log_probability = _of_actions(log_probabilities[0], taught.actions)
        loss = -taught.weight * log_probability / instance.problem.core.num_ops
        return self._lesson(loss, (), log_probabilities, None)

    def _lesson(
        self, loss: Tensor, rewards: Sequence[float], log_probabilities: Sequence[list[Tensor]], expected: float | None
    ) -> Lesson:
        weights = list(self._networks.parameters())
        gradients = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
        return Lesson(
            gradient=torch.cat([gradient.reshape(-1) for gradient in gradients]).numpy(),
            loss=float(loss.detach()),
            rewards=tuple(rewards),
            entropy=float(np.mean([_entropy(choices) for choices in log_probabilities])),
            expected=expected,
        )

    def _advantages(self, rewards: Tensor, expected: Tensor | None) -> Tensor:
        """How much better each sample is than the mean of the others, or one alone than expected. [samples]"""
        if expected is not None:
            return rewards - expected.detach()
        return (rewards - rewards.mean()) * len(rewards) / (len(rewards) - 1)

    def _log_probabilities(self, states: Tensor, actions: Sequence[Int]) -> list[list[Tensor]]:
        """For each sample of one graph, from its states, [ops, width], and actions, [ops, choices]; the same for all
        where they depend on no actions."""
        logits = self.policy(states, torch.from_numpy(np.stack(actions)))
        found = [self._of_choices(own) for own in logits]
        return found * (len(actions) // len(found))

    def _of_choices(self, logits: Tensor) -> list[Tensor]:
        """[ops, levels] for each choice, [1, levels] for one that ops make together."""
        *choices, together = logits.split([*self._space.levels, self._space.elite_bias_levels], 1)
        if self._space.elite_bias_levels:
            choices.append(together.mean(0, keepdim=True))
        return [torch.log_softmax(choice, 1) for choice in choices]


def _entropy(log_probabilities: Sequence[Tensor]) -> float:
    """Of all choices of an op, mean over ops."""
    return sum(float(-(p.exp() * p).detach().sum(1).mean()) for p in log_probabilities)


def _of_actions(log_probabilities: Sequence[Tensor], actions: Int) -> Tensor:
    """Of all the actions of a graph together, [ops, choices]: one number."""
    taken = torch.from_numpy(actions)
    return torch.stack(
        [
            choice.gather(1, taken[: len(choice), number : number + 1]).sum()
            for number, choice in enumerate(log_probabilities)
        ]
    ).sum()
