"""A part that holds a tensor in some way, and reads it, writes to it or replaces it."""

from __future__ import annotations

import collections
import dataclasses
import random
from typing import Any

import torch
from random_network.ops import fit
from random_network.parts import Holder, Part, named, part
from random_network.writes import VIEWS, WRITES
from torch import nn


@dataclasses.dataclass
class Kept:
    """A dataclass in a module."""

    tensor: Any
    number: float


HOLDERS = ("buffer", "unsaved", "plain", "list", "dict", "object", "tuple", "dataclass", "closure", "global", "nested",
           "class", "deque", "default", "partial", "parameter", "set", "slots")  # fmt: skip


class Slots:
    """An object without a dictionary."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


@part(7)
class State(Part):
    """Reads, writes to and replaces a tensor that the module holds in some way."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        self.holder = draw.choices(HOLDERS, [3, 1, 3, 1, 1, 1, 1, 1, 2, 2, 1, 0.6, 0.4, 0.5, 0.3, 0.5, 0.4, 0.4])[0]
        self.act = draw.choices(["read", "write", "replace", "replace_view", "momentum", "swap"],
                                [3, 4, 2, 0.5, 1.5, 0.3])[0]  # fmt: skip
        self.only_training = draw.random() < 0.2
        view, self.view = named(draw, {"itself": lambda x: x, **VIEWS})
        write, self.write = named(draw, WRITES)
        self.when = draw.choice(["before", "after"])
        self.tells = f"{self.holder} {self.act} {write} {view} {self.when}"
        shape = (3, 4) if draw.random() < 0.9 else (2, 4)
        tensor = torch.rand(shape, dtype=case.dtype)
        self._make(tensor, case)

    def _make(self, tensor: Any, case: Any) -> None:
        holder = self.holder
        if holder in ("buffer", "unsaved"):
            self.register_buffer("held", tensor, persistent=holder == "buffer")
        elif holder == "plain":
            self.held = tensor
        elif holder == "parameter":
            self.held = nn.Parameter(tensor, requires_grad=False)
        elif holder in ("list", "tuple", "deque", "set"):
            self.held = {"list": list, "tuple": tuple, "deque": collections.deque, "set": set}[holder]([tensor])
        elif holder == "dict":
            self.held = {"key": tensor, "other": 3}
        elif holder == "nested":
            self.held = {"key": [Holder(inner=(tensor,))]}
        elif holder == "object":
            self.held = Holder(tensor=tensor, name="a")
        elif holder == "slots":
            self.held = Slots(tensor)
        elif holder == "dataclass":
            self.held = Kept(tensor, 0.5)
        elif holder == "class":
            self.__class__ = type("State", (State,), {"shared_by_all": tensor})
        elif holder == "closure":

            def get() -> Any:
                return tensor

            def put(value: Any) -> None:
                nonlocal tensor
                tensor = value

            self.get, self.put = get, put
        elif holder == "global":
            names = {"SHARED": tensor}
            exec("def get():\n return SHARED\ndef put(value):\n global SHARED\n SHARED = value", names)
            self.get, self.put = names["get"], names["put"]
        elif holder == "default":

            def get_default(value: Any = tensor) -> Any:
                return value

            self.get = get_default
        elif holder == "partial":
            import functools

            self.get = functools.partial(lambda value: value, tensor)
        case.outside.append(tensor)

    def _get(self) -> Any:
        holder = self.holder
        held: Any = getattr(self, "held", None)
        if holder in ("buffer", "unsaved", "plain", "parameter"):
            return held
        if holder in ("list", "tuple", "deque"):
            return held[0]
        if holder == "set":
            return next(iter(held))
        if holder == "dict":
            return held["key"]
        if holder == "nested":
            return held["key"][0].inner[0]
        if holder in ("object", "dataclass", "slots"):
            return held.tensor
        if holder == "class":
            return type(self).shared_by_all
        return self.get()

    def _put(self, value: Any) -> None:
        holder = self.holder
        if holder in ("buffer", "unsaved", "plain"):
            self.held = value
        elif holder in ("list", "deque"):
            self.held[0] = value
        elif holder == "tuple":
            self.held = (value,)
        elif holder == "set":
            self.held = {value}
        elif holder == "dict":
            self.held["key"] = value
        elif holder == "nested":
            self.held["key"][0].inner = (value,)
        elif holder in ("object", "dataclass", "slots"):
            self.held.tensor = value
        elif holder == "class":
            type(self).shared_by_all = value
        elif holder in ("closure", "global"):
            self.put(value)

    def forward(self, x: Any, scene: Any) -> Any:
        held = self._get()
        before = held * 1 if self.when == "before" else None
        if self.act != "read" and (self.training or not self.only_training):
            if self.act == "write":
                target = self.view(held)
                if target.is_floating_point():
                    with torch.no_grad():
                        self.write(target)
            elif self.act == "momentum":
                with torch.no_grad():
                    held.mul_(0.9).add_(fit(x)[: held.shape[0]], alpha=0.1)
            elif self.act == "swap":
                self._put(torch.zeros_like(held))
                self._put(held)
            elif self.act == "replace":
                self._put((held * 0.9 + x.detach()[: held.shape[0]] * 0.1).detach())
            else:
                self._put(self.view(held * 0.5).detach())
        now = self._get() if before is None else before
        return (x + fit(now).to(x.dtype)).tanh()
