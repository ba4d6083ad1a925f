"""What all individuals have done and what it was worth: the replay that learners share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.lab.learning.environments.memory_map import Outcomes


class Replay:
    """The last `capacity` decisions. There is one state, which is not kept with each."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.actions: list[NDArray[np.uint8]] = []
        self.rewards: list[float] = []
        self._oldest = 0

    def __len__(self) -> int:
        return len(self.rewards)

    def add(self, outcomes: Outcomes) -> None:
        """Of a full replay the oldest give way."""
        for actions, reward in zip(outcomes.executed, outcomes.rewards.tolist(), strict=True):
            if len(self) < self.capacity:
                self.actions.append(actions)
                self.rewards.append(reward)
            else:
                self.actions[self._oldest], self.rewards[self._oldest] = actions, reward
                self._oldest = (self._oldest + 1) % self.capacity

    def sample(self, count: int, random: np.random.Generator) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """So many decisions, [count, ops, 2], and rewards, [count]; each as likely as any other, some perhaps twice."""
        chosen = random.integers(0, len(self), count)
        rewards = np.array([self.rewards[index] for index in chosen], np.float32)
        return np.stack([self.actions[index] for index in chosen]), rewards

    def state(self) -> dict[str, Any]:
        actions = np.stack(self.actions) if self.actions else None
        return {"actions": actions, "rewards": list(self.rewards), "oldest": self._oldest}

    def restore(self, state: dict[str, Any]) -> None:
        self.actions = [] if state["actions"] is None else list(state["actions"])
        self.rewards, self._oldest = list(state["rewards"]), state["oldest"]
