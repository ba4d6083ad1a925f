"""A module with an op in the middle that does what a test tells it to."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

#: Functions that the op `act` calls when it next runs, each once.
todo: list[Callable[[], None]] = []


def act(x: torch.Tensor) -> torch.Tensor:
    """Calls and removes the functions in `todo`, then returns a copy of its input."""
    while todo:
        todo.pop()()
    return x.clone()


torch.library.custom_op("placewright_tests::act", act, mutates_args=()).register_fake(torch.empty_like)


class Acts(nn.Module):
    """A layer, the op, and another layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.after(torch.ops.placewright_tests.act(torch.tanh(self.before(x))))
        return result
