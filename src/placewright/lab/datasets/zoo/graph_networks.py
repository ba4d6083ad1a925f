"""Graph networks on a fixed graph: `edges` are rows of senders and receivers, [2, edges]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.attention import Attention, Block, feed_forward
from placewright.lab.datasets.zoo.recommenders import perceptron
from placewright.lab.datasets.zoo.recurrent_cells import GruCell

NODES, EDGES, FEATURES = 4096, 32768, 128


def gathered(messages: Tensor, receivers: Tensor, count: int) -> Tensor:  # [edges, width], [edges] -> [count, width]
    """The sum of what every node receives."""
    return messages.new_zeros(count, messages.shape[1]).index_add(0, receivers, messages)


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
        self.bases = nn.ParameterList(torch.randn(bases, *size) for size in sizes)
        self.mixtures = nn.ParameterList(torch.randn(relations, bases) for _ in sizes)
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
