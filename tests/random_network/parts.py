"""Classes and functions that all parts of a random module share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from torch import nn

PARTS: dict[str, tuple[Any, float]] = {}


def part(weight: float = 1.0) -> Callable[[Any], Any]:
    """Registers a part; the weight is how often it is drawn."""

    def register(kind: Any) -> Any:
        PARTS[kind.__name__] = (kind, weight)
        return kind

    return register


class Scene:
    """One call of a module: what its parts see besides their tensor."""

    def __init__(self, x: Any, y: Any, tokens: Any, scale: Any, mode: Any, items: Any) -> None:
        self.x, self.y, self.tokens, self.scale, self.mode, self.items = x, y, tokens, scale, mode, items
        self.pool: list[Any] = []
        self.extras: list[Any] = []


class Holder:
    """A plain object."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


def named(draw: random.Random, table: dict[str, Any]) -> tuple[str, Any]:
    name = draw.choice(list(table))
    return name, table[name]


class Part(nn.Module):
    """tells: what was drawn, for reports."""

    tells = ""
