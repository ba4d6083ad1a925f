"""Random networks whose layers share parameters, activations and layers, and that hold tensors that no op reads."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

#: All layers take and give this many numbers.
WIDTH = 8


class Block(nn.Module):
    """Adds a linear layer and an activation to what comes in."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.linear, self.activation = nn.Linear(WIDTH, WIDTH), activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.activation(self.linear(x))
        return result


class Residual(nn.Module):
    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.second(self.first(x))
        return result


class InTurn(nn.Module):
    """A chain of modules in a nested list."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        return x


class Holder(nn.Module):
    """Has parameters and buffers itself, one of which it does not read."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.weight, self.unused = inner, nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(3))
        self.register_buffer("scale", torch.rand(WIDTH), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x * self.weight) + self.scale[:WIDTH]
        return result


class Listed(nn.Module):
    """Has parameters in a list, one of which it does not read."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.listed = nn.ParameterList([nn.Parameter(torch.rand(WIDTH)) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x) + self.listed[1]
        return result


class Idle(nn.Module):
    """Reads neither its buffer nor the layers of its pool."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.pool = inner, nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.register_buffer("note", torch.ones(3))

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)


class Reader(nn.Module):
    """Reads the weight of a layer that it holds in a plain list, where no parent sees it."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.own, self.hidden = nn.Linear(WIDTH, WIDTH), [layer]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.own(x) @ self.hidden[0].weight
        return result


class Alias(nn.Module):
    """Holds the weight of another layer under a name of its own, and may read it."""

    def __init__(self, layer: nn.Linear, reads: bool) -> None:
        super().__init__()
        self.alias, self.own, self.reads = layer.weight, nn.Linear(WIDTH, WIDTH), reads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.own(x @ self.alias if self.reads else x)
        return result


class Odd(nn.Module):
    """Layers one after another, some again under other names, perhaps with a skip over all and own parameters."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng, self._linears, self._activation = rng, list[nn.Linear](), nn.GELU()
        self.body = nn.ModuleList(self._layer(0) for _ in range(rng.randint(2, 5)))
        steps = [("body", index) for index in range(len(self.body))]

        def sometimes(share: float, *step: Any) -> bool:
            chosen = rng.random() < share
            if chosen and step:
                steps.insert(rng.randint(0, len(steps)), (step[0], step[1]))
            return chosen

        if sometimes(0.4, "again", None):
            self.again = rng.choice(list(self.body))
        if sometimes(0.3):
            self.every = nn.ModuleList(rng.sample(list(self.body), len(self.body)))
            sometimes(0.4, "every", 0)
        if sometimes(0.4, "head", None):
            self.head = self._linear()
        if self._linears and sometimes(0.3, "picked", None):
            self.picked = [rng.choice(self._linears)]
        if sometimes(0.4, "own", None):
            self.own = nn.Parameter(torch.rand(WIDTH))
        if sometimes(0.3):
            self.unused = nn.Parameter(torch.rand(2))
            self.register_buffer("note", torch.rand(2))
        if sometimes(0.3, "listed", 1):
            self.listed = nn.ParameterList([nn.Parameter(torch.rand(WIDTH)) for _ in range(2)])
        if sometimes(0.3):
            self.pool = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(30, 30))
        if self._linears and sometimes(0.2, *(("alias", None) if rng.random() < 0.5 else ())):
            self.alias = rng.choice(self._linears).weight
        sometimes(0.25, "skip", None)
        self.steps = steps

    def _linear(self) -> nn.Linear:
        """A new layer, which may share a parameter with an earlier one, or an earlier layer itself."""
        made, chance = nn.Linear(WIDTH, WIDTH), self._rng.random()
        if self._linears and chance < 0.32:
            other = self._rng.choice(self._linears)
            if chance < 0.12:
                made.weight = other.weight
            elif chance < 0.24:
                made.bias = other.bias
            else:
                return other
        self._linears.append(made)
        return made

    def _layer(self, depth: int) -> nn.Module:
        rng = self._rng
        kinds = ["linear", "linear", "linear", "activation", "normalised", "block", "alias", "reader"]
        if depth < 3:
            kinds += ["residual", "in turn", "holder", "listed", "idle", "sequential"]
        kind = rng.choice(kinds)
        if kind == "activation":
            return self._activation if rng.random() < 0.5 else nn.LayerNorm(WIDTH)
        if kind == "normalised":
            return nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))
        if kind == "block":
            return Block(self._activation)
        if kind == "alias" and self._linears:
            return Alias(rng.choice(self._linears), rng.random() < 0.5)
        if kind == "reader" and self._linears:
            return Reader(rng.choice(self._linears))
        if kind == "residual":
            return Residual(self._layer(depth + 1), self._layer(depth + 1))
        if kind == "in turn":
            return InTurn(*(self._layer(depth + 1) for _ in range(rng.randint(1, 3))))
        if kind in ("holder", "listed", "idle"):
            return {"holder": Holder, "listed": Listed, "idle": Idle}[kind](self._layer(depth + 1))
        if kind == "sequential":
            return nn.Sequential(self._layer(depth + 1), self._activation, self._layer(depth + 1), self._activation)
        return self._linear()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = x
        for name, index in self.steps:
            if name in ("body", "every"):
                x = getattr(self, name)[index](x)
            elif name == "own":
                x = x + self.own
            elif name == "listed":
                x = x * self.listed[index]
            elif name == "alias":
                x = x @ self.alias
            elif name == "picked":
                x = x @ self.picked[0].weight
            elif name == "skip":
                x = x + before
            else:
                x = getattr(self, name)(x)
        return x
