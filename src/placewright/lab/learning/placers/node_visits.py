"""Episodes of Placeto: one group after another is visited, and what the network is told of the placement so far."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from placewright.lab.learning.environments.first_come import FirstComeEnvironment
from placewright.lab.learning.placers.colocation import Units
from placewright.lab.learning.placers.features import unit_features
from placewright.lab.learning.placers.message_network import NodePlacer
from placewright.lab.learning.placers.placement_policy import Likelihood, draw, likelihood
from placewright.lab.learning.placers.placer import Task
from placewright.problem import Problem

#: Beside a column for each device: time, output, memory; whether visited, whether being visited; when it starts.
NUM_FEATURES = 6


class Observer:
    """Features of all groups for some placements side by side, each column divided by its largest value."""

    def __init__(self, task: Task) -> None:
        features, self.num_devices = unit_features(task.problem, task.units), task.problem.machine.num_devices
        self.edges, self.allowed = features.edges, task.units.allowed
        columns = np.stack([features.time, features.output_bytes, features.resident_bytes], 1)
        self._constant = torch.from_numpy(scaled(columns, 0).astype(np.float32))

    @property
    def width(self) -> int:
        return NUM_FEATURES + self.num_devices

    def features(self, node: int, devices: NDArray[np.int64], starts: NDArray[np.int64]) -> Tensor:
        """devices, starts: [count, num units] -> [num units, count, width]. Those before `node` have been visited."""
        count, num_units = devices.shape
        since = scaled((starts - starts[:, [node]]).astype(np.float64), 1)
        number = np.arange(num_units)
        visits = np.stack([number < node, number == node], 1)
        place = np.eye(self.num_devices)[devices.T]
        changing = np.concatenate([np.repeat(visits[:, None], count, 1), since.T[..., None], place], 2)
        constant = self._constant[:, None].expand(-1, count, -1)
        return torch.cat([constant, torch.from_numpy(changing.astype(np.float32))], 2)


def scaled(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """By the largest magnitude along that axis; zeros stay zeros."""
    most = np.abs(values).max(axis, keepdims=True)
    return values / np.where(most > 0, most, 1.0)


def unit_starts(problem: Problem, units: Units, devices: NDArray[np.int64]) -> NDArray[np.int64]:
    """When the first op of each unit starts under some placements of units, in ns: [count, num units]."""
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
    """Some episodes side by side. devices: [count, num units] as they stand.

    learned: the visits that are kept to be learned from, in order.
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
        """The policy gives a unit its device in all episodes."""
        features = self._observer.features(node, self.devices, self.starts)
        with torch.no_grad():
            chosen = draw(self._policy(features, torch.full((len(self.devices),), node)), generator)
        self.devices[:, node] = chosen.numpy()
        if node in self.learned:
            self._seen.append(features)
            self._chosen.append(chosen)

    def likelihood(self) -> Likelihood:
        """Of what was decided at the visits learned from, [count, len(learned)]."""
        count = len(self.devices)
        nodes = torch.from_numpy(np.repeat(self.learned, count))
        logits = self._policy(torch.cat(self._seen, 1), nodes)  # visit by visit
        return likelihood(logits.view(len(self.learned), count, -1).transpose(0, 1), torch.stack(self._chosen, 1))
