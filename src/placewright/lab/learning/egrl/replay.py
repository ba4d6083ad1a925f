"""The replay that learners share: the decisions of all individuals with their rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.lab.learning.environments.memory_map import Outcomes


class Replay:
    """The last `capacity` decisions. There is only one state, which is not stored with them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.actions: list[NDArray[np.uint8]] = []
        self.rewards: list[float] = []
        self._oldest = 0

    def __len__(self) -> int:
        return len(self.rewards)

    def add(self, outcomes: Outcomes) -> None:
        """Add decisions; in a full replay they replace the oldest."""
        for actions, reward in zip(outcomes.executed, outcomes.rewards.tolist(), strict=True):
            if len(self) < self.capacity:
                self.actions.append(actions)
                self.rewards.append(reward)
            else:
                self.actions[self._oldest], self.rewards[self._oldest] = actions, reward
                self._oldest = (self._oldest + 1) % self.capacity

    def sample(self, count: int, random: np.random.Generator) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Draw that many decisions, [count, ops, 2], and rewards, [count], uniformly with replacement."""
        chosen = random.integers(0, len(self), count)
        rewards = np.array([self.rewards[index] for index in chosen], np.float32)
        return np.stack([self.actions[index] for index in chosen]), rewards

    def state(self) -> dict[str, Any]:
        actions = np.stack(self.actions) if self.actions else None
        return {"actions": actions, "rewards": list(self.rewards), "oldest": self._oldest}

    def restore(self, state: dict[str, Any]) -> None:
        self.actions = [] if state["actions"] is None else list(state["actions"])
        self.rewards, self._oldest = list(state["rewards"]), state["oldest"]
