"""The network of Placeto: messages along the edges and against them, then one node's device from what it, its
ancestors, its descendants and all others say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def rectified(*widths: int) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them."""
    layers: list[nn.Module] = [nn.Linear(widths[0], widths[1])]
    for before, after in pairwise(widths[1:]):
        layers += [nn.ReLU(), nn.Linear(before, after)]
    return nn.Sequential(*layers)


class Messages(nn.Module):
    """Rounds of x + g(sum of f(x) over those who send); who hears nobody stays as it was.

    senders, receivers: int64 [num edges].
    """

    def __init__(
        self, senders: NDArray[np.int64], receivers: NDArray[np.int64], count: int, width: int, rounds: int
    ) -> None:
        super().__init__()
        self.rounds = rounds
        self.told, self.heard = rectified(width, width, width), rectified(width, width, width)
        places = torch.from_numpy(np.stack([receivers, senders]))
        ones = torch.ones(len(senders))
        edges = torch.sparse_coo_tensor(places, ones, (count, count), check_invariants=True).coalesce()
        self.register_buffer("edges", edges)
        hears = np.isin(np.arange(count), receivers).astype(np.float32)
        self.register_buffer("hears", torch.from_numpy(hears)[:, None, None])

    def forward(self, nodes: Tensor) -> Tensor:  # [num nodes, count, width]
        for _ in range(self.rounds):
            summed = torch.sparse.mm(self.edges, self.told(nodes).flatten(1)).view_as(nodes)
            nodes = nodes + self.hears * self.heard(summed)
        return nodes


class NodePlacer(nn.Module):
    """edges: int64 [2, num edges] from node to node. allowed: [num nodes, num devices]."""

    def __init__(
        self, edges: NDArray[np.int64], allowed: NDArray[np.bool_], num_features: int, width: int, rounds: int
    ) -> None:
        super().__init__()
        count, num_devices = allowed.shape
        self.register_buffer("barred", torch.where(torch.from_numpy(allowed), 0.0, -torch.inf))
        self.relations = Relations(edges, count)
        self.own = rectified(num_features, width, width, width)
        self.along = Messages(edges[0], edges[1], count, width, rounds)
        self.against = Messages(edges[1], edges[0], count, width, rounds)
        self.told = nn.ModuleList(rectified(2 * width, 2 * width, 2 * width) for _ in range(3))
        self.heard = nn.ModuleList(rectified(2 * width, 2 * width, 2 * width) for _ in range(3))
        self.output = rectified(8 * width, 16 * width, 8 * width, num_devices)

    def forward(self, features: Tensor, nodes: Tensor) -> Tensor:
        """features: [num nodes, count, num features], nodes: [count] -> logits of each one's device, [count, num
        devices]."""
        own = self.own(features)
        seen = torch.cat([self.along(own), self.against(own)], 2)
        asked = [seen[nodes, torch.arange(len(nodes))]]
        for related, told, heard in zip(self.relations.of(nodes.numpy()), self.told, self.heard, strict=True):
            asked.append(heard(torch.einsum("bn,nbw->bw", torch.from_numpy(related).to(seen.dtype), told(seen))))
        return self.output(torch.cat(asked, 1)) + self.barred[nodes]


class Relations:
    """Of nodes their ancestors, their descendants, and those that are neither and not themselves. Groups of ops may
    read each other: then each is both to the other, and to itself neither. Kept as bits, as there may be many nodes."""

    def __init__(self, edges: NDArray[np.int64], count: int) -> None:
        before: list[list[int]] = [[] for _ in range(count)]
        after: list[list[int]] = [[] for _ in range(count)]
        for source, target in edges.T.tolist():
            before[target].append(source)
            after[source].append(target)
        self._count = count
        self._ancestors = _reached(before, range(count))
        self._descendants = _reached(after, range(count - 1, -1, -1))

    def of(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """[len(nodes), num nodes] each."""
        others = nodes[:, None] != np.arange(self._count)
        ancestors, descendants = (
            np.unpackbits(bits[nodes], axis=1, count=self._count, bitorder="little").astype(bool) & others
            for bits in (self._ancestors, self._descendants)
        )
        return ancestors, descendants, others & ~ancestors & ~descendants


def _reached(following: Sequence[Sequence[int]], order: Sequence[int]) -> NDArray[np.uint8]:
    """By node the bits of all that can be reached; one pass in an order in which the reached come first, more where
    there are cycles."""
    reached, grew = [0] * len(following), True
    while grew:
        grew = False
        for node in order:
            found = reached[node]
            for next_ in following[node]:
                found |= reached[next_] | 1 << next_
            if found != reached[node]:
                reached[node], grew = found, True
    length = (len(following) + 7) // 8
    rows = b"".join(bits.to_bytes(length, "little") for bits in reached)
    return np.frombuffer(rows, np.uint8).reshape(-1, length)
