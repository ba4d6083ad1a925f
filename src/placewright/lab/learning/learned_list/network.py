"""The score of a learned list scheduler while it learns, in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

import placewright._core as _core
from placewright.guide import Placement
from placewright.lab.learning.decisions import Decisions
from placewright.lab.learning.learned_list.clusters import Clusters
from placewright.lab.learning.learned_list.policy import EARLIEST_FIRST, scored
from placewright.lab.learning.learned_list.settings import LearnedListConfiguration
from placewright.lab.learning.protocols import Actions
from placewright.methods.policies import Weights
from placewright.problem import Problem


class ScoreNetwork(nn.Module):
    """score(x) = linear . x + output . relu(hidden(x)), of the features of one op on one device. At first
    that of earliest task first."""

    def __init__(self, configuration: LearnedListConfiguration) -> None:
        super().__init__()
        self.window = configuration.window
        self.linear = nn.Parameter(torch.zeros(_core.NUM_PAIR_FEATURES))
        self.hidden = nn.Linear(_core.NUM_PAIR_FEATURES, configuration.hidden)
        self.output = nn.Parameter(torch.zeros(configuration.hidden))
        with torch.no_grad():
            self.linear[: len(EARLIEST_FIRST)] = torch.from_numpy(EARLIEST_FIRST)

    def forward(self, features: Tensor) -> Tensor:
        """[pairs, features] -> [pairs]"""
        return features @ self.linear + torch.relu(self.hidden(features)) @ self.output

    def arrays(self) -> Weights:
        return {name: tensor.numpy() for name, tensor in self.state_dict().items()}

    def distribution(self, observation: Clusters) -> PairDistribution:
        return PairDistribution(self, observation)

    def guide(self, problem: Problem, observation: Clusters, actions: Actions) -> Placement:
        return Placement(device_of=observation.placement(np.ascontiguousarray(actions[:, 0], np.int32)))


class PairDistribution:
    """Which cluster is placed next, and where: a softmax over the pairs that are compared. Actions are [clusters, 2]:
    the device, and how many clusters are placed before."""

    def __init__(self, network: ScoreNetwork, observation: Clusters) -> None:
        self._network, self._observation = network, observation

    def sample(self, seed: int) -> Actions:
        return self._actions(seed)

    def choose(self, seed: int) -> Actions:
        """Always the likeliest pair; no seed matters."""
        return self._actions(None)

    def evaluate(self, actions: Sequence[Actions]) -> tuple[Tensor, Decisions]:
        log_probability, entropy = zip(*map(self._evaluate, actions), strict=True)
        return torch.stack(log_probability), Decisions(entropy=float(np.mean(entropy)))

    def _actions(self, seed: int | None) -> Actions:
        device_of, ops = scored(self._observation.core, self._network.arrays(), self._network.window, seed)
        return as_actions(device_of, ops)

    def _evaluate(self, actions: Actions) -> tuple[Tensor, float]:
        device_of, ops = np.ascontiguousarray(actions[:, 0], np.int32), np.argsort(actions[:, 1]).astype(np.int32)
        rows, begin, chosen = _core.scored_steps(self._observation.core, device_of, ops, self._network.window)
        scores = self._network(torch.from_numpy(rows))
        steps = pad_sequence(scores.split(np.diff(begin).tolist()), batch_first=True, padding_value=-torch.inf)
        of_step = steps.logsumexp(1)
        log = steps - of_step[:, None]
        entropy = -(log.exp() * log.clamp(min=-1e30)).sum(1).mean()
        return (scores[torch.from_numpy(chosen).long()] - of_step).sum(), float(entropy.detach())


def as_actions(device_of: np.ndarray, ops: np.ndarray) -> Actions:
    position = np.empty(len(ops), np.int64)
    position[ops] = np.arange(len(ops))
    return np.stack([device_of.astype(np.int64), position], axis=1)
