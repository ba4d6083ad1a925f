"""The gain of a training by rewards: the rewards of its last tenth compared with those of its first, on the same
graphs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.lab.statistics import clustered_mean

Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A gain. reward: mean over the graphs that both tenths drew, of the later rewards minus the earlier. error: half
    of its 95% confidence interval; copies of a topology count as one."""

    reward: float
    error: float

    @property
    def is_shown(self) -> bool:
        return self.reward > self.error


class DrawnRewards:
    """The rewards of the first and of the last tenth of the steps that learn from rewards.

    first_step, steps: the first of these steps, and the end of the training. copies: of each graph in its set.
    """

    def __init__(self, first_step: int, steps: int, copies: int) -> None:
        tenth = max(1, (steps - first_step) // 10)
        self._early, self._late = range(first_step, first_step + tenth), range(steps - tenth, steps)
        self._copies = copies
        self._rows: list[tuple[int, int, float]] = []

    def add(self, step: int, graphs: Sequence[int], rewards: Sequence[Sequence[float]]) -> None:
        """Add the rewards of a step. rewards: of the samples of each graph; empty where an expert was imitated."""
        if step in self._early or step in self._late:
            self._rows += [(step, graph, fmean(drawn)) for graph, drawn in zip(graphs, rewards, strict=True) if drawn]

    def gain(self) -> Gain | None:
        """Return the gain; None where fewer than two topologies were drawn in both tenths."""
        early, late = (self._means(steps) for steps in (self._early, self._late))
        found = clustered_mean(
            {f"{graph}": late[graph] - early[graph] for graph in early.keys() & late.keys()},
            lambda graph: str(int(graph) // (1 + self._copies)),
        )
        return None if found is None or found.half_width is None else Gain(reward=found.value, error=found.half_width)

    def _means(self, steps: range) -> dict[int, float]:
        drawn = defaultdict(list)
        for step, graph, reward in self._rows:
            if step in steps:
                drawn[graph].append(reward)
        return {graph: fmean(rewards) for graph, rewards in drawn.items()}

    def state(self) -> Float:
        """Return the rows, [draws, 3], for `restore`."""
        return np.array(self._rows, np.float64).reshape(-1, 3)

    def restore(self, state: Float) -> None:
        self._rows = [(int(step), int(graph), float(reward)) for step, graph, reward in state]


def gain_of(learned: Mapping[str, Any]) -> Gain | None:
    """Return the gain in a policy's record; None for older records, which do not state it."""
    if not ("gain" in learned and "gain_error" in learned):
        return None
    return Gain(reward=learned["gain"], error=learned["gain_error"])
