"""Agents of reinforcement learning: actors, critics and a model of the world, each with the loss of its update."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.lab.datasets.zoo.recurrent_cells import GruCell


class WorldModel(nn.Module):
    """The recurrent state-space model of Hafner et al., Learning Latent Dynamics for Planning from Pixels, 2019, on
    vector observations: per step a prior, a posterior, and their divergence; reward and observation decoded."""

    def __init__(self, observed: int = 64, actions: int = 6, width: int = 200, latent: int = 30) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(observed, width), nn.ELU(), nn.Linear(width, width), nn.ELU())
        self.mix, self.cell = nn.Linear(latent + actions, width), GruCell(width, width)
        self.prior = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, 2 * latent))
        self.posterior = nn.Sequential(nn.Linear(2 * width, width), nn.ELU(), nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(width + latent, width), nn.ELU(), nn.Linear(width, observed + 1))

    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:  # [batch, length, ...] each -> [batch, length]
        seen, losses = self.encoder(observations), []
        state = self.cell.start(seen[:, 0])
        latent = seen.new_zeros(seen.shape[0], self.mix.in_features - actions.shape[2])
        for embedded, action, target in zip(seen.unbind(1), actions.unbind(1), observations.unbind(1), strict=True):
            state = self.cell(functional.elu(self.mix(torch.cat([latent, action], 1))), state)
            expected, prior_scale = self.prior(state[0]).chunk(2, 1)  # [batch, latent] each
            mean, scale = self.posterior(torch.cat([state[0], embedded], 1)).chunk(2, 1)
            spread = functional.softplus(scale) + 0.1
            latent = mean + spread * torch.randn_like(mean)
            decoded = self.decoder(torch.cat([state[0], latent], 1))[:, :-1]
            losses.append((decoded - target).square().sum(1) + _divergence(mean, spread, expected, prior_scale))
        return torch.stack(losses, 1)


def _divergence(mean: Tensor, spread: Tensor, expected: Tensor, prior_scale: Tensor) -> Tensor:  # [batch]
    """Between two diagonal Gaussians."""
    prior = functional.softplus(prior_scale) + 0.1
    ratio = (spread / prior).square()
    return (0.5 * (ratio + ((mean - expected) / prior).square() - 1 - ratio.log())).sum(1)


class ActorCritic(nn.Module):
    """Schulman et al., Proximal Policy Optimization, 2017: two perceptrons and the clipped loss with entropy."""

    def __init__(self, observed: int = 376, actions: int = 17, width: int = 256) -> None:
        super().__init__()
        self.actor, self.critic = (
            nn.Sequential(
                nn.Linear(observed, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, out)
            )
            for out in (actions, 1)
        )
        self.spread = nn.Parameter(torch.randn(actions))

    def forward(self, observed: Tensor, action: Tensor, advantage: Tensor, before: Tensor) -> Tensor:
        """[batch, observed], [batch, actions], [batch], [batch] -> [batch]: the loss of every step."""
        scaled = (action - self.actor(observed)) / self.spread.exp()
        likelihood = (-0.5 * scaled.square() - self.spread).sum(1)
        ratio = (likelihood - before).exp()
        clipped = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        error = (self.critic(observed).squeeze(1) - advantage).square()
        return 0.5 * error - clipped - 0.01 * self.spread.sum()


class SoftActorCritic(nn.Module):
    """Haarnoja et al., Soft Actor-Critic, 2018: one policy, two critics and their slow copies, all in one step."""

    def __init__(self, observed: int = 376, actions: int = 17, width: int = 256) -> None:
        super().__init__()
        self.policy = self._perceptron(observed, 2 * actions, width)
        self.critics = nn.ModuleList(self._perceptron(observed + actions, 1, width) for _ in range(2))
        self.slow = nn.ModuleList(self._perceptron(observed + actions, 1, width) for _ in range(2))

    def forward(self, observed: Tensor, action: Tensor, reward: Tensor, following: Tensor) -> Tensor:  # -> [batch]
        with torch.no_grad():
            chosen, entropy = self._act(following)
            target = reward + 0.99 * (self._least(self.slow, following, chosen) - entropy)
        errors = [(critic(torch.cat([observed, action], 1)).squeeze(1) - target).square() for critic in self.critics]
        own, entropy = self._act(observed)
        return errors[0] + errors[1] + entropy - self._least(self.critics, observed, own)

    def _act(self, observed: Tensor) -> tuple[Tensor, Tensor]:  # [batch, actions], [batch]
        mean, scale = self.policy(observed).chunk(2, 1)
        noise = torch.randn_like(mean)
        action = torch.tanh(mean + scale.clamp(-5, 2).exp() * noise)
        return action, (-0.5 * noise.square() - scale - (1 - action.square() + 1e-6).log()).sum(1)

    def _least(self, critics: nn.ModuleList, observed: Tensor, action: Tensor) -> Tensor:  # [batch]
        first, second = (critic(torch.cat([observed, action], 1)).squeeze(1) for critic in critics)
        return torch.minimum(first, second)

    def _perceptron(self, inputs: int, outputs: int, width: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
        )
