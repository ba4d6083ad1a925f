"""The Graph U-Net (Gao & Ji 2019) of EGRL's policies and critics, of torch_geometric's parts: attention (GAT) and
top-k pooling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.learning.egrl.observation import Observation
from placewright.learning.egrl.settings import NetworkSettings
from placewright.learning.protocols import Weights
from placewright.support.errors import MissingExtraError

try:
    from torch_geometric.nn import GATConv, TopKPooling
except ImportError as error:
    raise MissingExtraError("torch_geometric", "train", "a graph policy of memory maps") from error

_POOLED = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Topology:
    """Copies of one graph side by side. edges: int64 [2, edges]. two_steps: pairs that one or two edges connect.
    graph_of: int64 [nodes]."""

    edges: Tensor
    two_steps: Tensor
    graph_of: Tensor
    copies: int

    @staticmethod
    def of(observation: Observation, copies: int = 1) -> Topology:
        ops, edges = len(observation.nodes), torch.from_numpy(observation.edges)
        return Topology(
            edges=_side_by_side(edges, ops, copies),
            two_steps=_side_by_side(two_steps(edges, ops, 1), ops, copies),
            graph_of=torch.arange(copies).repeat_interleave(ops),
            copies=copies,
        )


def _side_by_side(edges: Tensor, nodes: int, copies: int) -> Tensor:
    return torch.cat([edges + copy * nodes for copy in range(copies)], dim=1)


def two_steps(edges: Tensor, nodes: int, copies: int) -> Tensor:
    """Pairs of nodes that one or two edges connect, without those of a node with itself. Of copies of a graph that have
    so many nodes together, and all as many."""
    each = nodes // copies
    near = torch.eye(each).repeat(copies, 1, 1)
    near[edges[0] // each, edges[0] % each, edges[1] % each] = 1
    found = torch.bmm(near, near)
    found.diagonal(dim1=1, dim2=2).zero_()
    copy, source, target = found.nonzero(as_tuple=True)
    return torch.stack([copy * each + source, copy * each + target])


class GraphUNet(nn.Module):
    """Down: attention, then half of the nodes are kept, whose edges skip what is left out. Up: what was kept is put
    back beside what was there before."""

    def __init__(self, num_inputs: int, settings: NetworkSettings) -> None:
        super().__init__()
        width, each = settings.width, settings.width // settings.heads

        def attention(inputs: int = width) -> nn.Module:
            return GATConv(inputs, each, heads=settings.heads)

        self.down = nn.ModuleList([attention(num_inputs), *(attention() for _ in range(settings.depth))])
        self.pools = nn.ModuleList([TopKPooling(width, _POOLED) for _ in range(settings.depth)])
        self.up = nn.ModuleList([attention() for _ in range(settings.depth)])

    def forward(self, nodes: Tensor, topology: Topology) -> Tensor:
        """-> [nodes, width]"""
        edges, wider, graph_of = topology.edges, topology.two_steps, topology.graph_of
        nodes = torch.relu(self.down[0](nodes, edges))
        above: list[tuple[Tensor, Tensor, Tensor]] = []
        for pool, attention in zip(self.pools, self.down[1:], strict=True):
            pooled, fewer, _, graph_of, kept, _ = pool(nodes, wider, batch=graph_of)
            above.append((nodes, edges, kept))
            nodes, edges = torch.relu(attention(pooled, fewer)), fewer
            wider = two_steps(edges, len(nodes), topology.copies)
        for attention in self.up:
            before, edges, kept = above.pop()
            nodes = torch.relu(attention(before.index_add(0, kept, nodes), edges))
        return nodes


class PolicyNetwork(nn.Module):
    """Logits of the levels of each decision."""

    def __init__(self, num_features: int, num_levels: int, settings: NetworkSettings) -> None:
        super().__init__()
        width = settings.width
        self.num_levels = num_levels
        self.body = GraphUNet(num_features, settings)
        self.hidden = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.weights_head = nn.Linear(width, num_levels)
        self.result_head = nn.Linear(width, num_levels)

    def forward(self, nodes: Tensor, topology: Topology) -> Tensor:
        """-> [ops, 2, levels]"""
        hidden = self.hidden(self.body(nodes, topology))
        return torch.stack([self.weights_head(hidden), self.result_head(hidden)], dim=1)


class CriticNetwork(nn.Module):
    """What two judges expect of actions: reward times scale."""

    def __init__(self, num_features: int, num_levels: int, settings: NetworkSettings) -> None:
        super().__init__()
        width = settings.width
        self.pooling = settings.critic_pooling
        self.body = GraphUNet(num_features + 2 * num_levels, settings)
        self.judges = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
                )
                for _ in range(2)
            ]
        )

    def forward(self, nodes: Tensor, actions: Tensor, topology: Topology) -> Tensor:
        """nodes: [ops, features]. actions: [copies, ops, 2, levels] -> [copies, 2]"""
        copies, ops = actions.shape[:2]
        features = torch.cat([nodes.expand(copies, -1, -1), actions.flatten(2)], dim=2)
        states = self.body(features.reshape(copies * ops, -1), topology).reshape(copies, ops, -1)
        graph = states.amax(dim=1) if self.pooling == "max" else states.mean(dim=1)
        return torch.cat([judge(graph) for judge in self.judges], dim=1)


def _judge(width: int) -> nn.Module:
    hidden = [nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(width, 1))


class NetworkActor:
    """A policy network on one observation, with whatever weights it is given."""

    def __init__(self, network: PolicyNetwork, observation: Observation) -> None:
        self.network, self.nodes = network, torch.from_numpy(observation.nodes)
        self.topology = Topology.of(observation)

    def probabilities(self, weights: Weights) -> NDArray[np.float64]:
        load(self.network, weights)
        with torch.no_grad(), one_thread():
            logits = self.network(self.nodes, self.topology)
        found: NDArray[np.float64] = torch.softmax(logits.double(), dim=-1).numpy()
        return found


def weights_of(network: nn.Module) -> Weights:
    """A copy of them by name."""
    return {name: tensor.detach().numpy().copy() for name, tensor in network.state_dict().items()}


def load(network: nn.Module, weights: Weights) -> None:
    network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})


@contextmanager
def torch_seed(seed: int) -> Iterator[None]:
    """Networks made meanwhile are those of the seed; PyTorch's own generator is afterwards as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums then do not depend on how many threads PyTorch may use."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
