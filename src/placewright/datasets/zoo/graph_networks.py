"""Graph networks on a fixed graph: `edges` are rows of senders and receivers, [2, edges]."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from placewright.datasets.zoo.attention import Attention, Block, feed_forward
from placewright.datasets.zoo.network import Network
from placewright.datasets.zoo.objectives import Supervised, cross_entropy, squared_error
from placewright.datasets.zoo.recommenders import perceptron
from placewright.datasets.zoo.recurrent_cells import GruCell

NODES, EDGES, FEATURES = 4096, 32768, 128


def gathered(messages: Tensor, receivers: Tensor, count: int) -> Tensor:  # [edges, width], [edges] -> [count, width]
    """The sum of what every node receives."""
    return messages.new_zeros(count, messages.shape[1]).index_add(0, receivers, messages)


class Convolutional(nn.Module):
    """Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, 2017; with `jump` all layers
    are read at the end (Xu et al., Jumping Knowledge Networks, 2018)."""

    def __init__(self, width: int, layers: int, *, jump: bool = False, classes: int = 40) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width if i else FEATURES, width) for i in range(layers))
        self.jump, self.output = jump, nn.Linear(width * (layers if jump else 1), classes)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:  # [nodes, features], [2, edges] -> [nodes, classes]
        senders, receivers = edges.unbind(0)
        degree = gathered(nodes.new_ones(len(senders), 1), receivers, len(nodes)) + 1
        scale, seen = degree.rsqrt(), []
        for layer in self.layers:
            scaled = layer(nodes) * scale
            nodes = torch.relu((gathered(scaled[senders], receivers, len(nodes)) + scaled) * scale)
            seen.append(nodes)
        return self.output(torch.cat(seen, 1) if self.jump else nodes)


class Sage(nn.Module):
    """Hamilton et al., Inductive Representation Learning on Large Graphs (GraphSAGE), 2017; mean and pooling."""

    def __init__(self, width: int, layers: int, classes: int = 40) -> None:
        super().__init__()
        self.own, self.near, self.pool = (
            nn.ModuleList(nn.Linear(width if i else FEATURES, width) for i in range(layers)) for _ in range(3)
        )
        self.output = nn.Linear(width, classes)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:  # [nodes, features], [2, edges] -> [nodes, classes]
        senders, receivers = edges.unbind(0)
        degree = gathered(nodes.new_ones(len(senders), 1), receivers, len(nodes)).clamp(min=1)
        for own, near, pool in zip(self.own, self.near, self.pool, strict=True):
            mean = gathered(nodes[senders], receivers, len(nodes)) / degree
            offered = torch.sigmoid(pool(nodes))[senders]  # [edges, width]
            places = receivers.unsqueeze(1).expand_as(offered)
            most = offered.new_zeros(len(nodes), offered.shape[1]).scatter_reduce(0, places, offered, "amax")
            nodes = nn.functional.normalize(torch.relu(own(nodes) + near(mean) + most), dim=1)
        return self.output(nodes)


class Attending(nn.Module):
    """Velickovic et al., Graph Attention Networks, 2018: every head has products and a softmax per receiver."""

    def __init__(self, width: int, heads: int, layers: int, classes: int = 40) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList(nn.Linear(width * heads if i else FEATURES, width + 2) for _ in range(heads))
            for i in range(layers)
        )
        self.output = nn.Linear(width * heads, classes)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:  # [nodes, features], [2, edges] -> [nodes, classes]
        senders, receivers = edges.unbind(0)
        for heads in self.layers:
            nodes = torch.cat([self._head(head(nodes), senders, receivers) for head in heads], 1)
        return self.output(nodes)

    def _head(self, projected: Tensor, senders: Tensor, receivers: Tensor) -> Tensor:  # [nodes, width + 2]
        sent, received, values = projected[:, :1], projected[:, 1:2], projected[:, 2:]
        scores = nn.functional.leaky_relu(sent[senders] + received[receivers], 0.2).exp()  # [edges, 1]
        total = gathered(scores, receivers, len(values)) + 1e-6
        return nn.functional.elu(gathered(scores * values[senders], receivers, len(values)) / total)


class Isomorphism(nn.Module):
    """Xu et al., How Powerful are Graph Neural Networks?, 2019: sums, perceptrons, and a reading of every layer."""

    def __init__(self, width: int, layers: int, classes: int = 10) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(perceptron(width if i else FEATURES, width, width), nn.BatchNorm1d(width), nn.ReLU())
            for i in range(layers)
        )
        self.reads = nn.ModuleList(nn.Linear(width, classes) for _ in range(layers))
        self.own = nn.Parameter(torch.empty(layers))

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:  # [nodes, features], [2, edges] -> [1, classes]
        senders, receivers = edges.unbind(0)
        results = []
        for layer, read, own in zip(self.layers, self.reads, self.own.unbind(0), strict=True):
            nodes = layer((1 + own) * nodes + gathered(nodes[senders], receivers, len(nodes)))
            results.append(read(nodes.sum(0, keepdim=True)))
        return torch.stack(results).sum(0)


class MessagePassing(nn.Module):
    """Gilmer et al., Neural Message Passing for Quantum Chemistry, 2017: gated updates, an attending readout."""

    def __init__(self, width: int, rounds: int) -> None:
        super().__init__()
        self.enter, self.message = nn.Linear(FEATURES, width), perceptron(2 * width + 16, width, width)
        self.update, self.rounds = GruCell(width, width), rounds
        self.gate, self.read = nn.Linear(width + FEATURES, width), nn.Linear(width, width)
        self.output = perceptron(width, width, 12)

    def forward(self, nodes: Tensor, edges: Tensor, bonds: Tensor) -> Tensor:  # bonds: [edges, 16] -> [1, 12]
        senders, receivers = edges.unbind(0)
        hidden = self.enter(nodes)  # [nodes, width]
        for _ in range(self.rounds):
            messages = self.message(torch.cat([hidden[senders], hidden[receivers], bonds], 1))
            (hidden,) = self.update(gathered(messages, receivers, len(nodes)), (hidden,))
        gate = torch.sigmoid(self.gate(torch.cat([hidden, nodes], 1)))
        return self.output((gate * self.read(hidden)).sum(0, keepdim=True))


class EncodeProcessDecode(nn.Module):
    """Sanchez-Gonzalez et al., Learning to Simulate Complex Physics with Graph Networks, 2020: edges and nodes are
    updated in turn, each round with perceptrons of its own."""

    def __init__(self, width: int, rounds: int) -> None:
        super().__init__()
        self.nodes, self.edges = self._part(FEATURES, width), self._part(16, width)
        self.edge_updates = nn.ModuleList(self._part(3 * width, width) for _ in range(rounds))
        self.node_updates = nn.ModuleList(self._part(2 * width, width) for _ in range(rounds))
        self.output = perceptron(width, width, 3)

    def forward(self, nodes: Tensor, edges: Tensor, distances: Tensor) -> Tensor:  # distances: [edges, 16]
        senders, receivers = edges.unbind(0)
        nodes, links = self.nodes(nodes), self.edges(distances)  # [nodes, width], [edges, width]
        for edge_update, node_update in zip(self.edge_updates, self.node_updates, strict=True):
            links = links + edge_update(torch.cat([links, nodes[senders], nodes[receivers]], 1))
            nodes = nodes + node_update(torch.cat([nodes, gathered(links, receivers, len(nodes))], 1))
        return self.output(nodes)  # [nodes, 3]

    def _part(self, inputs: int, width: int) -> nn.Sequential:
        return nn.Sequential(perceptron(inputs, width, width), nn.LayerNorm(width))


class Relational(nn.Module):
    """Schlichtkrull et al., Modeling Relational Data with Graph Convolutional Networks, 2018: every kind of edge has
    weights, mixed from a few bases."""

    def __init__(self, width: int, layers: int, relations: int, bases: int = 4) -> None:
        super().__init__()
        sizes = [(width if i else FEATURES, width) for i in range(layers)]
        self.bases = nn.ParameterList(torch.empty(bases, *size) for size in sizes)
        self.mixtures = nn.ParameterList(torch.empty(relations, bases) for _ in sizes)
        self.own, self.output = nn.ModuleList(nn.Linear(*size) for size in sizes), nn.Linear(width, 40)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:  # [nodes, features], [2, edges] -> [nodes, 40]
        kinds = edges.chunk(self.mixtures[0].shape[0], 1)  # [2, edges / relations] each
        for bases, mixtures, own in zip(self.bases, self.mixtures, self.own, strict=True):
            total = own(nodes)
            for (senders, receivers), mixture in zip(kinds, mixtures.unbind(0), strict=True):
                weight = (mixture.view(-1, 1, 1) * bases).sum(0)  # [inputs, width]
                total = total + gathered((nodes @ weight)[senders], receivers, len(nodes))
            nodes = torch.relu(total)
        return self.output(nodes)


class Triangle(nn.Module):
    """Updates pairs from the two other sides of triangles (Jumper et al., AlphaFold 2, 2021, algorithms 11-12)."""

    def __init__(self, width: int, hidden: int, *, outgoing: bool) -> None:
        super().__init__()
        self.sides, self.gates, self.gate = (
            nn.Linear(width, 2 * hidden),
            nn.Linear(width, 2 * hidden),
            nn.Linear(width, width),
        )
        self.norm, self.output, self.outgoing = nn.LayerNorm(hidden), nn.Linear(hidden, width), outgoing

    def forward(self, pairs: Tensor) -> Tensor:  # [length, length, width] -> the same
        first, second = (self.sides(pairs) * torch.sigmoid(self.gates(pairs))).permute(2, 0, 1).chunk(2, 0)
        product = first @ second.transpose(1, 2) if self.outgoing else first.transpose(1, 2) @ second
        return self.output(self.norm(product.permute(1, 2, 0))) * torch.sigmoid(self.gate(pairs))


class Columns(nn.Module):
    """A part applied with rows and columns exchanged."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, table: Tensor) -> Tensor:  # [rows, columns, width] -> the same
        return self.part(table.transpose(0, 1)).transpose(0, 1)


class Evoformer(nn.Module):
    """The blocks of AlphaFold 2 (algorithm 6) without the pairs' bias on attention: aligned sequences and pairs of
    residues inform each other."""

    def __init__(self, width: int, pair_width: int, blocks: int) -> None:
        super().__init__()
        self.sequences = nn.ModuleList(
            Block(width, Attention(width, 8), Columns(Attention(width, 8)), feed_forward(width, 4 * width, nn.ReLU))
            for _ in range(blocks)
        )
        self.left, self.right = (nn.ModuleList(nn.Linear(width, 16) for _ in range(blocks)) for _ in range(2))
        self.outer = nn.ModuleList(nn.Linear(256, pair_width) for _ in range(blocks))
        self.pairs = nn.ModuleList(self._pair_block(pair_width) for _ in range(blocks))

    def forward(
        self, sequences: Tensor, pairs: Tensor
    ) -> Tensor:  # [rows, length, width], [length, length, pair width]
        for block, left, right, outer, pair_block in zip(
            self.sequences, self.left, self.right, self.outer, self.pairs, strict=True
        ):
            sequences = block(sequences)
            product = torch.einsum("ria,rjb->ijab", left(sequences), right(sequences)).flatten(2)  # [.., 256]
            pairs = pair_block(pairs + outer(product))
        return pairs

    def _pair_block(self, width: int) -> Block:
        triangles = [Triangle(width, width, outgoing=outgoing) for outgoing in (True, False)]
        attention = Attention(width, 4), Columns(Attention(width, 4))
        return Block(width, *triangles, *attention, feed_forward(width, 4 * width, nn.ReLU))


def graph_network(name: str, make: Callable[[], nn.Module], *, edge_width: int = 0) -> Network:
    """An entry of the zoo called with nodes, edges and, with `edge_width`, numbers for every edge."""

    def build() -> tuple[nn.Module, tuple[Tensor, ...]]:
        inputs = torch.zeros(NODES, FEATURES), torch.zeros(2, EDGES, dtype=torch.int64)
        more = (torch.zeros(EDGES, edge_width),) if edge_width else ()
        return Supervised(make(), squared_error if edge_width else cross_entropy), (*inputs, *more)

    return Network(name=name, family="graph_networks", build=build)


def _evoformer() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Supervised(Evoformer(128, 64, 3), squared_error), (torch.zeros(32, 96, 128), torch.zeros(96, 96, 64))


NETWORKS = (
    graph_network("graph_convolution3", lambda: Convolutional(256, 3)),
    graph_network("jumping_knowledge8", lambda: Convolutional(128, 8, jump=True)),
    graph_network("sage3", lambda: Sage(256, 3)),
    graph_network("graph_attention3", lambda: Attending(32, 8, 3)),
    graph_network("graph_attention2", lambda: Attending(64, 4, 2)),
    graph_network("isomorphism5", lambda: Isomorphism(64, 5)),
    graph_network("message_passing6", lambda: MessagePassing(128, 6), edge_width=16),
    graph_network("simulator10", lambda: EncodeProcessDecode(128, 10), edge_width=16),
    graph_network("relational3", lambda: Relational(128, 3, 16)),
    Network(name="evoformer3", family="graph_networks", build=_evoformer),
)
