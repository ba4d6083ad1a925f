"""Small modules that do what captured networks may do: each with what it is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Branches(nn.Module):
    """Two branches that two devices can share, with normalization, dropout and what is no tensor among the results."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = (
            nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 8))
            for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        left, right = self.left(x), self.right(x)
        return {"sum": left + right, "parts": [left, right.t()], "count": 2, "nothing": None}


class SharedWeights(nn.Module):
    """One weight under two names, read by two branches, one of them transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(torch.tanh(self.embedding(tokens)) * scale)
        return result


class InPlace(nn.Module):
    """Writes to its input, to a view of a result and to a buffer, and reads all of them afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("calls", torch.zeros(6))
        self.plain = torch.arange(6.0)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.mul_(2)
        y = self.linear(x)
        y[:, :2].add_(1)
        self.calls.add_(1)
        return y * self.plain + x * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), y[0]


class Recurrent(nn.Module):
    """An LSTM, whose op returns several tensors, and attention over its states."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, (last, _) = self.lstm(x)
        attended: torch.Tensor = self.attention(states, states, states)[0]
        return attended + last.transpose(0, 1)


class ReturnsWhatItGets(nn.Module):
    """Returns its input, a view of it, a weight and a constant, some of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
        product = x * self.weight
        return product, product, x, x.view(-1), self.weight, (y + 1).chunk(2)


def calls() -> dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]]:
    """By name: makes a module and its arguments, the same ones every time."""

    def seeded(make: Callable[[], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]) -> Any:
        def made() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
            torch.manual_seed(1)
            return make()

        return made

    return {
        "branches": seeded(lambda: (Branches(), (torch.randn(5, 16),), {})),
        "shared weights": seeded(lambda: (SharedWeights(), (torch.randint(0, 12, (3, 4)),), {"scale": torch.rand(8)})),
        "in place": seeded(lambda: (InPlace(), (torch.randn(4, 6),), {})),
        "recurrent": seeded(lambda: (Recurrent(), (torch.randn(2, 5, 8),), {})),
        "returns what it gets": seeded(lambda: (ReturnsWhatItGets(), (torch.randn(2, 3), torch.randn(4)), {})),
    }
