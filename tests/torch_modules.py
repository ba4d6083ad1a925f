"""Small modules that do what captured networks may do, with their arguments; and comparisons with eager."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from random_network.facts import Facts, differences
from torch import nn

import placewright
from placewright.importers.torch.results import default_loss

#: Two devices, and a plan that is found at once and spreads ops over them.
QUICK: dict[str, Any] = {"devices": "cpu:0,cpu:1", "evaluations": 20, "solver": "list"}


class Branches(nn.Module):
    """Two branches that two devices can share, with normalization, dropout, and results that are no tensors."""

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
    """Functions by name that make a module and its arguments, the same every time."""

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


def captured(compiled: Any, *args: Any, **kwargs: Any) -> tuple[Any, list[Any], list[Any]]:
    """The graph that a result of `placewright.compile` captures for these arguments, and the values of its parameters
    and of its other inputs."""
    graph, values = compiled.captured("tests", args, kwargs)
    return (graph, *graph.program.split(values))


def batch(seed: int = 1, rows: int = 8, columns: int = 16) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


class Wrapped(nn.Module):
    """A linear layer, and a function of the module, the layer's output and further arguments."""

    def __init__(self, then: Callable[..., Any], **attributes: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        for name, value in attributes.items():
            setattr(self, name, value)
        self.then = then

    def forward(self, value: torch.Tensor, *others: Any) -> Any:
        return self.then(self, self.linear(value), *others)


def differences_from_eager(
    make: Callable[[], nn.Module],
    calls: Sequence[tuple[Any, ...]] = (),
    *,
    training: bool = False,
    loss: Callable[[Any], Any] = default_loss,
    change: Callable[[Any], Any] | None = None,
    tolerance: float = 0.0,
    **options: Any,
) -> list[str]:
    """Differences of a module as planned from the same in eager after some calls, and those by planning alone.

    Compared are results, arguments, parameters, buffers, all gradients, attributes and generators of random numbers.
    calls: the arguments of each; by default three batches. change: called with the module after the first call.
    """
    calls = calls or [(batch(seed),) for seed in range(3)]
    found = []
    for is_planned in (False, True):
        torch.manual_seed(0)
        model, given = make().train(training), copy.deepcopy(calls)
        call: Any = model
        for seed in (torch.manual_seed, random.seed, np.random.seed):
            seed(7)
        if is_planned:
            before = Facts().module(model).generators()
            before.read("arguments", given)
            wanted: dict[str, Any] = {**QUICK, **options, **({"loss": loss} if training else {})}
            call = placewright.compile(model, given[0], training=training, **wanted)
            after = Facts().module(model).generators()
            after.read("arguments", given)
            planning = [f"planning: {each}" for each in differences(before, after, ids=True)]
        results = []
        for number, args in enumerate(given):
            if number == 1 and change is not None:
                change(model)
            with torch.set_grad_enabled(training):
                result = call(*args)
                if training and not is_planned:
                    value = loss(result)
                    value.backward()
                    result = value.detach()
            results.append(result)
        if is_planned:
            call.close()
        facts = Facts().module(model).generators()
        facts.read("results", results)
        facts.read("arguments", given)
        found.append(facts)
    return planning + list(differences(found[0], found[1], tolerance))
