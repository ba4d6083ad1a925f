"""The common part of learners on one graph with PyTorch: a policy over placements, and its seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

M = TypeVar("M")


@dataclass(frozen=True, kw_only=True, eq=False)
class Likelihood:
    """The likelihood of some actions. log_probability, entropy: [count, decisions], by decision."""

    log_probability: Tensor
    entropy: Tensor


class PlacementPolicy(Protocol):
    """A torch.nn.Module that draws placements of one graph. shared_noise: deviation of the noise that all draws
    share."""

    shared_noise: float

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw actions, int64 [count, decisions], without gradients."""
        ...

    def evaluate(self, actions: Tensor) -> Likelihood: ...

    def devices(self, actions: Tensor) -> NDArray[np.int64]:
        """Return the device of each unit, [count, num units]."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def zero_grad(self) -> None: ...


def seeded(make: Callable[[], M], seed: int) -> tuple[M, torch.Generator]:
    """Return a module with weights of that seed, and a generator for its draws; restores PyTorch's own state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        module = make()
    return module, torch.Generator().manual_seed(seed % 2**63)


def draw(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a choice for each row: [rows, choices] -> [rows]."""
    return torch.multinomial(torch.softmax(logits, -1), 1, generator=generator)[:, 0]


def likelihood(logits: Tensor, actions: Tensor) -> Likelihood:
    """Return the likelihood of actions. logits: [count, decisions, choices], -inf where a choice is not allowed."""
    log = torch.log_softmax(logits, -1)
    entropy = -(log.exp() * log.clamp(min=-1e30)).sum(-1)
    return Likelihood(log_probability=log.gather(-1, actions[..., None])[..., 0], entropy=entropy)
