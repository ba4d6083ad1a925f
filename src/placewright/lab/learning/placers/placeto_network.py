"""The PyTorch part of Placeto. Its network sends messages along the edges and against them, then chooses one node's
device from the messages of the node, its ancestors, its descendants and all others; episodes visit one group after
another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.lab.learning.environments.first_come import FirstComeEnvironment
from placewright.lab.learning.placers.colocation import Units
from placewright.lab.learning.placers.features import unit_features
from placewright.lab.learning.placers.placement_policy import Likelihood, draw, likelihood
from placewright.lab.learning.placers.placer import Task
from placewright.problem import Problem

#: Besides a column for each device: time, output, memory; visited, being visited; start.
NUM_FEATURES = 6


def rectified(*widths: int) -> nn.Sequential:
    """Make linear layers of these widths with ReLU between them."""
    layers: list[nn.Module] = [nn.Linear(widths[0], widths[1])]
    for before, after in pairwise(widths[1:]):
        layers += [nn.ReLU(), nn.Linear(before, after)]
    return nn.Sequential(*layers)


class Messages(nn.Module):
    """Rounds of x + g(sum of f(x) over the senders); a node without senders keeps its state.

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
    """Placeto's policy network. edges: int64 [2, num edges] from node to node. allowed: [num nodes, num devices]."""

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
        """Return the logits of each node's device, [count, num devices]. features: [num nodes, count, num features],
        nodes: [count]."""
        own = self.own(features)
        seen = torch.cat([self.along(own), self.against(own)], 2)
        asked = [seen[nodes, torch.arange(len(nodes))]]
        for related, told, heard in zip(self.relations.of(nodes.numpy()), self.told, self.heard, strict=True):
            asked.append(heard(torch.einsum("bn,nbw->bw", torch.from_numpy(related).to(seen.dtype), told(seen))))
        return self.output(torch.cat(asked, 1)) + self.barred[nodes]


class Relations:
    """The relations of nodes: ancestors, descendants, and other nodes that are neither. Groups of ops may read each
    other: then each is both an ancestor and a descendant of the other, and never of itself. Stored as bits, as there
    may be many nodes."""

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
        """Return ancestors, descendants and others, [len(nodes), num nodes] each."""
        others = nodes[:, None] != np.arange(self._count)
        ancestors, descendants = (
            np.unpackbits(bits[nodes], axis=1, count=self._count, bitorder="little").astype(bool) & others
            for bits in (self._ancestors, self._descendants)
        )
        return ancestors, descendants, others & ~ancestors & ~descendants


def _reached(following: Sequence[Sequence[int]], order: Sequence[int]) -> NDArray[np.uint8]:
    """Return by node the bits of all reachable nodes. One pass is enough if reachable nodes come first in the order;
    cycles need more."""
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


class Observer:
    """Features of all groups for several placements at once, each column divided by its largest value."""

    def __init__(self, task: Task) -> None:
        features, self.num_devices = unit_features(task.problem, task.units), task.problem.machine.num_devices
        self.edges, self.allowed = features.edges, task.units.allowed
        columns = np.stack([features.time, features.output_bytes, features.resident_bytes], 1)
        self._constant = torch.from_numpy(scaled(columns, 0).astype(np.float32))

    @property
    def width(self) -> int:
        return NUM_FEATURES + self.num_devices

    def features(self, node: int, devices: NDArray[np.int64], starts: NDArray[np.int64]) -> Tensor:
        """Return features, [num units, count, width]. devices, starts: [count, num units]. Units before `node` have
        been visited."""
        count, num_units = devices.shape
        since = scaled((starts - starts[:, [node]]).astype(np.float64), 1)
        number = np.arange(num_units)
        visits = np.stack([number < node, number == node], 1)
        place = np.eye(self.num_devices)[devices.T]
        changing = np.concatenate([np.repeat(visits[:, None], count, 1), since.T[..., None], place], 2)
        constant = self._constant[:, None].expand(-1, count, -1)
        return torch.cat([constant, torch.from_numpy(changing.astype(np.float32))], 2)


def scaled(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Divide by the largest magnitude along that axis; zeros stay zeros."""
    most = np.abs(values).max(axis, keepdims=True)
    return values / np.where(most > 0, most, 1.0)


def unit_starts(problem: Problem, units: Units, devices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the start of each unit's first op under some placements of units, in ns: [count, num units]."""
    environment, found = FirstComeEnvironment(problem), []
    for device_of in units.placements(devices):
        solution = environment.solution(device_of)
        steps = problem.core.simulate(solution.device_of, solution.order).start_ns
        is_op = solution.order[:, 1] < 0
        first = np.full(units.count, np.iinfo(np.int64).max)
        np.minimum.at(first, units.of_op[solution.order[is_op, 0]], steps[is_op])
        found.append(first)
    return np.stack(found)


class Episodes:
    """Several episodes at once. devices: [count, num units], current.

    learned: the visits that are kept for learning, in order.
    """

    def __init__(
        self,
        observer: Observer,
        policy: NodePlacer,
        devices: NDArray[np.int64],
        starts: NDArray[np.int64],
        learned: NDArray[np.int64],
    ) -> None:
        self.devices, self.starts, self.learned = devices.copy(), starts, learned
        self._observer, self._policy = observer, policy
        self._seen: list[Tensor] = []
        self._chosen: list[Tensor] = []

    def visit(self, node: int, generator: torch.Generator) -> None:
        """Choose a unit's device by the policy in all episodes."""
        features = self._observer.features(node, self.devices, self.starts)
        with torch.no_grad():
            chosen = draw(self._policy(features, torch.full((len(self.devices),), node)), generator)
        self.devices[:, node] = chosen.numpy()
        if node in self.learned:
            self._seen.append(features)
            self._chosen.append(chosen)

    def likelihood(self) -> Likelihood:
        """Return the likelihood of the decisions at the visits learned from, [count, len(learned)]."""
        count = len(self.devices)
        nodes = torch.from_numpy(np.repeat(self.learned, count))
        logits = self._policy(torch.cat(self._seen, 1), nodes)  # rows are in the order of visits
        return likelihood(logits.view(len(self.learned), count, -1).transpose(0, 1), torch.stack(self._chosen, 1))
