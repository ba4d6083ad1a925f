"""The networks of HDP: one puts ops into groups, the other, ColocRL's, gives each group its device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from placewright.lab.learning.placers.features import NUM_KINDS, UnitFeatures
from placewright.lab.learning.placers.placement_policy import Likelihood, draw, likelihood
from placewright.lab.learning.placers.sequence_network import SequenceNetwork
from placewright.lab.learning.placers.shared_noise import SharedNoise, choices

#: The grouper sees at most this many producers, and this many readers, of an op.
NEIGHBOURS = 6


class Grouper(nn.Module):
    """A network from an op's kind, shapes, position in the graph and neighbours' positions to logits of groups, op by
    op."""

    def __init__(
        self, features: UnitFeatures, num_groups: int, *, kind_width: int, hidden: int, rectified: bool
    ) -> None:
        super().__init__()
        self.register_buffer("kinds", torch.from_numpy(features.kinds))
        rest = np.concatenate([features.shapes, neighbours(features.edges, len(features.kinds))], 1)
        self.register_buffer("rest", torch.from_numpy(rest.astype(np.float32)))
        self.embedding = nn.Linear(NUM_KINDS, kind_width, bias=False)
        self.layer = nn.Linear(kind_width + rest.shape[1], hidden)
        self.between = nn.ReLU() if rectified else nn.Identity()
        self.output = nn.Linear(hidden, num_groups)

    def forward(self) -> Tensor:  # [num units, num groups]
        inputs = torch.cat([self.embedding(self.kinds), self.rest], 1)
        return self.output(self.between(self.layer(inputs)))


def neighbours(edges: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Return the position of each op in the graph, then those of the first ops that it reads, then of the first that
    read it, all from 0 to 1, and -1 where there are none: [count, 1 + 2 NEIGHBOURS]."""
    found = np.full((count, 1 + 2 * NEIGHBOURS), -1.0)
    found[:, 0] = np.arange(count) / count
    for of, who, begin in ((edges[1], edges[0], 1), (edges[0], edges[1], 1 + NEIGHBOURS)):
        order = np.lexsort((who, of))
        of, who = of[order], who[order]
        place = np.arange(len(of)) - np.searchsorted(of, of)
        kept = place < NEIGHBOURS
        found[of[kept], begin + place[kept]] = who[kept] / count
    return found


class GroupEmbedding(nn.Module):
    """The placer's inputs for groups: the number of edges from each group to each, its ops by kind and their shapes;
    each row is divided by one more than its maximum."""

    def __init__(self, features: UnitFeatures, num_groups: int) -> None:
        super().__init__()
        self.num_groups = num_groups
        self.register_buffer("edges", torch.from_numpy(features.edges))
        self.register_buffer("own", torch.from_numpy(np.concatenate([features.kinds, features.shapes], 1)))
        self.width = 2 * num_groups + self.own.shape[1]

    def forward(self, groups: Tensor) -> Tensor:  # [num units] -> [num groups, width]
        count = self.num_groups
        between = groups[self.edges[0]] * count + groups[self.edges[1]]
        edges = torch.bincount(between, minlength=count * count).view(count, count).to(self.own.dtype)
        own = self.own.new_zeros(count, self.own.shape[1]).index_add_(0, groups, self.own)
        rows = torch.cat([edges, edges.T, own], 1)
        return rows / (rows.amax(1, keepdim=True) + 1)


class HierarchicalPlacer(nn.Module):
    """A policy whose decisions are the group of each op, then the device of each group. placements: number drawn for
    each grouping.

    noise: shared between ops, with deviation shared_noise; a group's is the mean of its ops', for each device. allowed:
    [num units, num devices].
    """

    def __init__(
        self,
        grouper: Grouper,
        groups: GroupEmbedding,
        placer: SequenceNetwork,
        placements: int,
        noise: SharedNoise,
        shared_noise: float,
        allowed: NDArray[np.bool_],
    ) -> None:
        super().__init__()
        self.grouper, self.groups, self.placer, self.placements = grouper, groups, placer, placements
        self.noise, self.shared_noise, self.allowed = noise, shared_noise, allowed

    def sample(self, groupings: int, generator: torch.Generator, noise: float = 0.0) -> Tensor:
        """Draw actions, [groupings * placements, num units + num groups]; the placements of a grouping are
        consecutive."""

        def drawn(logits: Tensor) -> Tensor:
            return draw(with_noise(logits, noise, generator), generator)

        with torch.no_grad():
            logits = self.grouper()
            if self.shared_noise:
                return torch.cat([self._with_shared_noise(logits, generator) for _ in range(groupings)])
            return torch.cat([self._placed(drawn(logits), self.placements, drawn) for _ in range(groupings)])

    def _with_shared_noise(self, logits: Tensor, generator: torch.Generator) -> Tensor:
        """Draw a grouping and its placements. The noise of devices over groups has deviation shared_noise."""
        count = self.placements
        grouping = choices(logits, self.noise, self.shared_noise, 1, generator)[0]
        devices = self.placer.devices.num_embeddings
        fields = self.noise.draw(count * devices, generator)
        of_groups = fields.new_zeros(len(fields), self.groups.num_groups).index_add_(1, grouping, fields)
        sizes = torch.bincount(grouping, minlength=self.groups.num_groups).clamp(min=1)
        noise = (self.shared_noise * of_groups / sizes).view(count, devices, -1)
        inputs = self.groups(grouping)
        placed = self.placer.sample(inputs, count, lambda group, own: (own + noise[:, :, group]).argmax(1))
        return torch.cat([grouping.expand(count, -1), placed], 1)

    def likeliest(self) -> Tensor:
        """Return the likeliest group of each op, then group by group the likeliest device: [1, num units + num
        groups]."""
        with torch.no_grad():
            return self._placed(self.grouper().argmax(-1), 1, lambda logits: logits.argmax(-1))

    def _placed(self, grouping: Tensor, count: int, choose: Callable[[Tensor], Tensor]) -> Tensor:
        devices = self.placer.sample(self.groups(grouping), count, lambda _, logits: choose(logits))
        return torch.cat([grouping.expand(count, -1), devices], 1)

    def evaluate(self, actions: Tensor) -> Likelihood:
        logits = self.grouper()
        units = len(logits)
        found = []
        for rows in actions.split(self.placements):
            grouping = rows[:1, :units]
            grouped = likelihood(logits[None], grouping)
            placed = likelihood(self.placer.logits(self.groups(grouping[0]), rows[:, units:]), rows[:, units:])
            found.append(
                Likelihood(
                    log_probability=_beside(grouped.log_probability, placed.log_probability),
                    entropy=_beside(grouped.entropy, placed.entropy),
                )
            )
        return Likelihood(
            log_probability=torch.cat([each.log_probability for each in found]),
            entropy=torch.cat([each.entropy for each in found]),
        )

    def devices(self, actions: Tensor) -> NDArray[np.int64]:
        """Return devices, [count, num units]: the group's, or the first that an op may use where that one is not
        allowed."""
        allowed, units = self.allowed, len(self.allowed)
        device = actions[:, units:].gather(1, actions[:, :units]).numpy()
        return np.where(allowed[np.arange(units), device], device, allowed.argmax(1))


def _beside(of_grouping: Tensor, of_placements: Tensor) -> Tensor:
    """Join [1, num units] and [count, num groups] to [count, both]."""
    return torch.cat([of_grouping.expand(len(of_placements), -1), of_placements], 1)


def with_noise(logits: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Add normal noise whose deviation is that share of the root mean square of all logits."""
    if share == 0:
        return logits
    deviation = share * logits.square().mean().sqrt()
    return logits + deviation * torch.randn(logits.shape, generator=generator)
