"""Soft actor-critic for many discrete decisions at once (EGRL, appendix D, after Haarnoja et al. 2018): critics learn
the value of actions from the replay; the actor learns actions that the lower of the two values highly, with a bonus for
entropy."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from placewright.lab.learning.egrl.network import (
    CriticNetwork,
    PolicyNetwork,
    load,
    neighbours_of,
    torch_seed,
    weights_of,
)
from placewright.lab.learning.egrl.observation import NUM_FEATURES, Observation
from placewright.lab.learning.egrl.replay import Replay
from placewright.lab.learning.egrl.settings import GradientSettings, NetworkSettings
from placewright.methods.policies import Weights
from placewright.support.torch_threads import torch_threads


class DiscreteSac:
    """actor: its weights are the policy. critic: two judges over one network. Random numbers come from the caller."""

    def __init__(
        self, observation: Observation, num_levels: int, network: NetworkSettings, settings: GradientSettings, seed: int
    ) -> None:
        self.settings, self.num_levels, self._owed = settings, num_levels, 0.0
        self.nodes = torch.from_numpy(observation.nodes)
        self.one, self.many = neighbours_of(observation), neighbours_of(observation, settings.batch)
        with torch_seed(seed):
            self.actor = PolicyNetwork(NUM_FEATURES, num_levels, network)
            self.critic = CriticNetwork(NUM_FEATURES, num_levels, network)
        self.target = copy.deepcopy(self.critic)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=settings.actor_rate, fused=True)
        self.critic_adam = torch.optim.Adam(self.critic.parameters(), lr=settings.critic_rate, fused=True)

    def learn(self, replay: Replay, random: np.random.Generator) -> None:
        """Make one gradient step of the critic and one of the actor (algorithm 2, lines 22 to 31)."""
        if len(replay) < self.settings.batch:
            return
        with torch_threads(1):
            actions, rewards = replay.sample(self.settings.batch, random)
            targets = self.targets(torch.from_numpy(rewards), random)
            noisy = self.noisy(one_hot(torch.from_numpy(actions).long(), self.num_levels).float(), random)
            self._step(self.critic_adam, critic_loss(self.critic(self.nodes, noisy, self.many), targets))
            self._step(self.actor_adam, self.actor_loss(random))
            if self.settings.mode == "paper":
                soft_update(self.target, self.critic, self.settings.tau)

    def learn_for(self, evaluations: int, replay: Replay, random: np.random.Generator) -> None:
        """Make the gradient steps due for that many evaluations; a fraction of a step is kept for the next time."""
        self._owed += evaluations * self.settings.gradient_steps
        while self._owed >= 1:
            self._owed -= 1
            self.learn(replay, random)

    def targets(self, rewards: Tensor, random: np.random.Generator) -> Tensor:
        """Return the critic's targets, [batch]. An episode ends with its only decision; so mode "fixed" uses the reward
        alone, where the paper adds the value of the same state once more, and its entropy."""
        scaled = self.settings.reward_scale * rewards
        if self.settings.mode == "fixed":
            return scaled
        with torch.no_grad():
            probabilities = torch.softmax(self.actor(self.nodes, self.one), dim=-1)
            drawn = drawn_levels(probabilities, len(rewards), random)
            following = self.target(self.nodes, one_hot(drawn, self.num_levels).float(), self.many).amin(dim=1)
            soft = following + self.settings.entropy * entropy(probabilities)
        return scaled + self.settings.discount * soft

    def actor_loss(self, random: np.random.Generator) -> Tensor:
        """Return minus the value of drawn actions, with noise, and minus the weighted entropy. Gradients pass through
        the draw to the probabilities (straight through), which is the sampled gradient of a deterministic critic."""
        probabilities = torch.softmax(self.actor(self.nodes, self.one), dim=-1)
        drawn = one_hot(drawn_levels(probabilities.detach(), 1, random), self.num_levels).float()
        actions = self.noisy(drawn, random) + probabilities - probabilities.detach()
        value = self.critic(self.nodes, actions, self.one).amin()
        return -value - self.settings.entropy * entropy(probabilities)

    def noisy(self, actions: Tensor, random: np.random.Generator) -> Tensor:
        """Add clipped Gaussian noise, so that the critic does not overfit single actions; clamp to 0 to 1."""
        noise = self.settings.noise * random.standard_normal(tuple(actions.shape), np.float32)
        clip = self.settings.noise_clip
        return (actions + torch.from_numpy(noise).clamp(-clip, clip)).clamp(0, 1)

    def explore(self, random: np.random.Generator) -> NDArray[np.uint8]:
        """Return actions to learn from, [ops, 2]: the likeliest after Gaussian noise, or drawn in mode "fixed"."""
        with torch.no_grad(), torch_threads(1):
            probabilities = torch.softmax(self.actor(self.nodes, self.one), dim=-1)
            if self.settings.mode == "fixed":
                return drawn_levels(probabilities, 1, random)[0].numpy().astype(np.uint8)
            return self.noisy(probabilities, random).argmax(dim=-1).numpy().astype(np.uint8)

    def exploit(self) -> NDArray[np.uint8]:
        """Return the likeliest actions, [ops, 2]."""
        with torch.no_grad(), torch_threads(1):
            found: NDArray[np.uint8] = self.actor(self.nodes, self.one).argmax(dim=-1).numpy().astype(np.uint8)
        return found

    def start_from(self, weights: Weights) -> None:
        """Load the weights of a trained policy into the actor."""
        load(self.actor, weights)

    def weights(self) -> Weights:
        """Return the actor's weights."""
        return weights_of(self.actor)

    def state(self) -> dict[str, Any]:
        return {"owed": self._owed, **{name: part.state_dict() for name, part in self._parts().items()}}

    def restore(self, state: dict[str, Any]) -> None:
        self._owed = state["owed"]
        for name, part in self._parts().items():
            part.load_state_dict(state[name])

    def _parts(self) -> dict[str, Any]:
        names = ("actor", "critic", "target", "actor_adam", "critic_adam")
        return {name: getattr(self, name) for name in names}

    def _step(self, adam: torch.optim.Adam, loss: Tensor) -> None:
        adam.zero_grad()
        weights = adam.param_groups[0]["params"]
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights, allow_unused=True), strict=True):
            weight.grad = gradient
        torch.nn.utils.clip_grad_norm_(weights, self.settings.max_grad_norm)
        adam.step()


def critic_loss(values: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared error, summed over both judges. values: [batch, 2]. targets: [batch]."""
    return ((values - targets[:, None]) ** 2).mean(dim=0).sum()


def entropy(probabilities: Tensor) -> Tensor:
    """Return the entropy of decisions in nats, the sum of weights and result, mean over ops. probabilities: [ops, 2,
    levels]."""
    return -(probabilities * probabilities.clamp(min=1e-12).log()).sum(dim=(1, 2)).mean()


def drawn_levels(probabilities: Tensor, count: int, random: np.random.Generator) -> Tensor:
    """Draw levels, int64 [count, ops, 2]."""
    below = probabilities.cumsum(dim=-1)[..., :-1]
    uniform = torch.from_numpy(random.random((count, *probabilities.shape[:-1]), np.float32))
    return (uniform[..., None] >= below).sum(dim=-1)


def soft_update(target: torch.nn.Module, source: torch.nn.Module, tau: float) -> None:
    """Update target := tau * source + (1 - tau) * target."""
    with torch.no_grad():
        for old, new in zip(target.parameters(), source.parameters(), strict=True):
            old.mul_(1 - tau).add_(new, alpha=tau)
