"""The Graph U-Net (Gao & Ji 2019) of EGRL's policies and critics, from torch_geometric's parts: attention (GAT) and
top-k pooling (`attention.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear

from placewright._core import Neighbours
from placewright.lab.learning.egrl.attention import Attention, HalfPooling
from placewright.lab.learning.egrl.observation import Observation
from placewright.lab.learning.egrl.settings import NetworkSettings
from placewright.methods.policies import Weights
from placewright.support.torch_threads import torch_threads


class GraphUNet(nn.Module):
    """A Graph U-Net. Down: attention, then half of the nodes are kept, with edges that skip the removed ones. Up: the
    kept nodes are added back to the states before the pooling."""

    def __init__(self, num_inputs: int, settings: NetworkSettings) -> None:
        super().__init__()
        width, heads, levels = settings.width, settings.heads, range(settings.depth)
        first = Attention(num_inputs, width, heads)
        self.down = nn.ModuleList([first, *(Attention(width, width, heads) for _ in levels)])
        self.pools = nn.ModuleList([HalfPooling(width) for _ in levels])
        self.up = nn.ModuleList([Attention(width, width, heads) for _ in levels])

    def forward(self, neighbours: Neighbours, *features: Tensor) -> Tensor:
        """Return the states, [nodes, width]. features: of each node, [copies, ops, features], in the order of the first
        layer's matrix; or [ops, features], the same for all copies."""
        states = self._states(features).reshape(neighbours.copies * neighbours.nodes, -1)
        nodes = self.down[0].attended(states, neighbours)
        above: list[tuple[Tensor, Neighbours, Tensor]] = []
        for pool, attention in zip(self.pools, self.down[1:], strict=True):
            pooled, kept, fewer = pool(nodes, neighbours)
            above.append((nodes, neighbours, kept))
            nodes, neighbours = attention(pooled, fewer), fewer
        for attention in self.up:
            before, neighbours, kept = above.pop()
            nodes = attention(before.index_add(0, kept, nodes), neighbours)
        return nodes

    def _states(self, features: Sequence[Tensor]) -> Tensor:
        """Apply the first layer's matrix to concatenated features. Those that copies share are multiplied once."""
        matrices = self.down[0].lin.weight.split([each.shape[-1] for each in features], dim=1)
        return reduce(torch.add, map(linear, features, matrices))


class PolicyNetwork(nn.Module):
    """A network that returns logits of the levels of each decision."""

    def __init__(self, num_features: int, num_levels: int, settings: NetworkSettings) -> None:
        super().__init__()
        width = settings.width
        self.num_levels = num_levels
        self.body = GraphUNet(num_features, settings)
        self.hidden = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.weights_head = nn.Linear(width, num_levels)
        self.result_head = nn.Linear(width, num_levels)

    def forward(self, nodes: Tensor, neighbours: Neighbours) -> Tensor:
        """Map nodes, [ops, features], to logits, [ops, 2, levels]."""
        hidden = self.hidden(self.body(neighbours, nodes))
        return torch.stack([self.weights_head(hidden), self.result_head(hidden)], dim=1)


class CriticNetwork(nn.Module):
    """Two judges that estimate the value of actions: reward times scale."""

    def __init__(self, num_features: int, num_levels: int, settings: NetworkSettings) -> None:
        super().__init__()
        width = settings.width
        self.pooling = settings.critic_pooling
        self.body = GraphUNet(num_features + 2 * num_levels, settings)
        self.judges = nn.ModuleList([_judge(width) for _ in range(2)])

    def forward(self, nodes: Tensor, actions: Tensor, neighbours: Neighbours) -> Tensor:
        """Return the judges' values, [copies, 2]. nodes: [ops, features]. actions: [copies, ops, 2, levels]."""
        copies, ops = actions.shape[:2]
        states = self.body(neighbours, nodes, actions.flatten(2)).reshape(copies, ops, -1)
        graph = states.amax(dim=1) if self.pooling == "max" else states.mean(dim=1)
        return torch.cat([judge(graph) for judge in self.judges], dim=1)


def _judge(width: int) -> nn.Module:
    hidden = [nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(width, 1))


class NetworkActor:
    """A policy network on one observation, which computes probabilities for any weights."""

    def __init__(self, network: PolicyNetwork, observation: Observation) -> None:
        self.network, self.nodes = network, torch.from_numpy(observation.nodes)
        self.neighbours = neighbours_of(observation)
        self._parameters = dict(network.named_parameters())

    def probabilities(self, weights: Weights) -> NDArray[np.float64]:
        with torch.no_grad(), torch_threads(1):
            # Same result as `load`, which takes as long as the network itself.
            for name, parameter in self._parameters.items():
                parameter.copy_(torch.from_numpy(np.require(weights[name], requirements="W")))
            logits = self.network(self.nodes, self.neighbours)
        found: NDArray[np.float64] = torch.softmax(logits.double(), dim=-1).numpy()
        return found


def neighbours_of(observation: Observation, copies: int = 1) -> Neighbours:
    return Neighbours(np.ascontiguousarray(observation.edges), len(observation.nodes), copies)


def weights_of(network: nn.Module) -> Weights:
    """Return a copy of the weights by name."""
    return {name: tensor.detach().numpy().copy() for name, tensor in network.state_dict().items()}


def load(network: nn.Module, weights: Weights) -> None:
    # PyTorch warns about read-only arrays, such as those of a policy file.
    writable = {name: np.require(array, requirements="W") for name, array in weights.items()}
    network.load_state_dict({name: torch.from_numpy(array) for name, array in writable.items()})


@contextmanager
def torch_seed(seed: int) -> Iterator[None]:
    """Seed the networks made in this context; restore the state of PyTorch's generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
