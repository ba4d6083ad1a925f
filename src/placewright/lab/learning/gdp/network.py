"""GDP's network: GraphSAGE over the graph, and a placer that attends segment by segment, trained together."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad, relu, scaled_dot_product_attention

from placewright.guide import Placement
from placewright.lab.learning.gdp.distribution import DeviceDistribution, drawn
from placewright.lab.learning.gdp.observation import NUM_FEATURES, Observation
from placewright.lab.learning.gdp.settings import GdpConfiguration, NetworkSettings
from placewright.lab.learning.placers.placement_policy import Likelihood, likelihood
from placewright.lab.learning.protocols import Actions
from placewright.methods.policies import Weights
from placewright.problem import Problem
from placewright.support.errors import MissingExtraError

try:
    from torch_geometric.nn import SAGEConv
except ImportError as error:
    raise MissingExtraError("torch_geometric", "train", "solver 'gdp'") from error


class GraphEmbedding(nn.Module):
    """GraphSAGE with maximum aggregation: f_b([h, max f_a(h of the producers), max f_a(h of the readers)])."""

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        width = settings.width
        self.inputs = nn.Linear(NUM_FEATURES, width)

        def convolution(*, root: bool) -> nn.Module:
            return SAGEConv(width, width, aggr="max", project=True, root_weight=root)

        self.along = nn.ModuleList([convolution(root=True) for _ in range(settings.rounds)])
        self.against = nn.ModuleList([convolution(root=False) for _ in range(settings.rounds)])

    def forward(self, features: Tensor, edges: Tensor) -> Tensor:
        """Return the states, [units, width]."""
        state = relu(self.inputs(features))
        for along, against in zip(self.along, self.against, strict=True):
            state = relu(along(state, edges) + against(state, edges.flip(0)))
        return state


class Segments:
    """Units in consecutive segments, the last one padded. of: [units, n] -> [segments, segment, n], and back."""

    def __init__(self, count: int, settings: NetworkSettings) -> None:
        self.count = count
        self.length = max(1, min(settings.segment, count))
        self.number = -(-count // self.length)
        self.memory = settings.memory if self.number > 1 else 0

    def of(self, values: Tensor) -> Tensor:
        filled = pad(values, (0, 0, 0, self.number * self.length - self.count))
        return filled.view(self.number, self.length, -1)

    def back(self, values: Tensor) -> Tensor:
        return values.reshape(self.number * self.length, -1)[: self.count]

    def with_memory(self, values: Tensor) -> Tensor:
        """Return each segment preceded by the end of the one before it, without gradients."""
        if not self.memory:
            return values
        ends = values[:-1, self.length - self.memory :].detach()
        return torch.cat([pad(ends, (0, 0, 0, 0, 1, 0)), values], 1)

    def visible(self) -> Tensor:
        """Return the attention mask, [segments, 1, 1, memory + segment]: padding and the first segment's memory are
        hidden."""
        visible = torch.ones(self.number, self.memory + self.length, dtype=torch.bool)
        visible[0, : self.memory] = False
        visible[-1, self.memory + self.count - (self.number - 1) * self.length :] = False
        return visible[:, None, None]


class SegmentAttention(nn.Module):
    """Attention with several heads, within a segment and to its memory, as in Transformer-XL (Dai et al. 2019) without
    positions, which the embedding of the graph contains."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, inputs: Tensor, condition: Tensor, segments: Segments, visible: Tensor) -> Tensor:
        """Return the attended states. inputs, condition: [segments, segment, width]."""
        seen = segments.with_memory(inputs)

        def by_head(values: Tensor) -> Tensor:
            return values.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        query, key, value = by_head(self.query(inputs)), by_head(self.key(seen)), by_head(self.value(seen))
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=visible)
        return self.output(condition * mixed.transpose(1, 2).flatten(2))


class PlacerLayer(nn.Module):
    """Attention, then two dense layers, both with a residual connection. Every dense layer multiplies its inputs by
    `condition`: by its first `width` numbers; the second dense layer by the others."""

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        width, wide = settings.width, settings.widening * settings.width
        self.attends = SegmentAttention(width, settings.heads) if settings.attention else None
        self.before_attention = nn.LayerNorm(width) if settings.attention else None
        self.before_dense = nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, wide), nn.Linear(wide, width)

    def forward(self, state: Tensor, condition: Tensor, segments: Segments, visible: Tensor) -> Tensor:
        width = state.shape[-1]
        own, wide = condition[..., :width], condition[..., width:]
        if self.attends is not None and self.before_attention is not None:
            state = state + self.attends(own * self.before_attention(state), own, segments, visible)
        hidden = relu(self.widen(own * self.before_dense(state)))
        return state + self.narrow(wide * hidden)


class GdpNetwork(nn.Module):
    """A network that returns the logits of the devices of all units at once. Initially all are equal."""

    def __init__(self, configuration: GdpConfiguration) -> None:
        super().__init__()
        self.settings = settings = configuration.network
        self.shared_noise = configuration.shared_noise
        width = settings.width
        self.embedding = GraphEmbedding(settings)
        self.layers = nn.ModuleList([PlacerLayer(settings) for _ in range(settings.layers)])
        wide = (1 + settings.widening) * width
        self.condition = nn.Linear(width, wide) if settings.superposition != "off" else None
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, configuration.num_devices)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        if self.condition is not None and settings.superposition == "linear":
            nn.init.ones_(self.condition.bias)

    def forward(self, observation: Observation) -> Tensor:
        """Return logits, [units, devices], minus infinity where a device is not allowed."""
        features = torch.from_numpy(observation.features).to(self.output.weight.dtype)
        embedded = self.embedding(features, torch.from_numpy(observation.edges))
        segments = Segments(len(embedded), self.settings)
        condition, visible = segments.of(self.conditions(embedded)), segments.visible()
        state = segments.of(embedded)
        for layer in self.layers:
            state = layer(state, condition, segments, visible)
        own = condition[..., : self.settings.width]
        logits = segments.back(self.output(own * self.norm(state)))
        return logits.masked_fill(~torch.from_numpy(observation.allowed), -torch.inf)

    def conditions(self, embedded: Tensor) -> Tensor:
        """Return the factors of superposition, [units, (1 + widening) * width]."""
        if self.condition is None:
            return embedded.new_ones(len(embedded), (1 + self.settings.widening) * self.settings.width)
        factors = self.condition(embedded)
        return 2 * torch.sigmoid(factors) if self.settings.superposition == "sigmoid" else factors

    def distribution(self, observation: Observation) -> DeviceDistribution:
        return DeviceDistribution(self(observation), observation, self.shared_noise)

    def guide(self, problem: Problem, observation: Observation, actions: Actions) -> Placement:
        return Placement(device_of=observation.units.placements(actions[:, 0][None])[0])


def network_with(configuration: GdpConfiguration, weights: Weights) -> GdpNetwork:
    """Make a network without drawing weights, so that the state of PyTorch's generator does not change."""
    with torch.device("meta"):
        network = GdpNetwork(configuration)
    network.load_state_dict({name: torch.tensor(array) for name, array in weights.items()}, assign=True)
    return network


def weight_shapes(configuration: GdpConfiguration) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array of the network, without allocating memory for it."""
    with torch.device("meta"):
        network = GdpNetwork(configuration)
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


class GraphPolicy(nn.Module):
    """A network as the policy of one graph: a `PlacementPolicy`."""

    def __init__(self, network: GdpNetwork, observation: Observation) -> None:
        super().__init__()
        self.network, self.observation = network, observation
        self.shared_noise = network.shared_noise

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        return self.sample_beside_greedy(count, generator)[1:]

    def sample_beside_greedy(self, count: int, generator: torch.Generator) -> Tensor:
        """Return the likeliest placement, then `count` drawn ones. [1 + count, units]"""
        with torch.no_grad():
            logits = self.network(self.observation)
        devices = drawn(logits, self.observation, self.shared_noise, count, generator)
        return torch.cat([logits.argmax(1)[None], devices])

    def evaluate(self, actions: Tensor) -> Likelihood:
        return likelihood(self.network(self.observation).expand(len(actions), -1, -1), actions)

    def devices(self, actions: Tensor) -> NDArray[np.int64]:
        return actions.numpy()
