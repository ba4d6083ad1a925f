"""Parts whose Python does more than to call PyTorch."""

from __future__ import annotations

import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from random_network.parts import Part, part
from torch import nn


@part(2)
class Python(Part):
    """Keeps, counts and draws in Python."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        choices = ["read", "first", "restored", "same", "try", "generator", "args", "local", "counter", "list",
                   "random", "numpy", "seed", "keeps", "outside", "print", "attribute", "deletes", "tensor_counter",
                   "mode", "iterator", "own_random", "own_numpy", "nonlocal", "class_counter", "seed_again",
                   "get_state", "default_list"]  # fmt: skip
        self.tells = draw.choices(choices, [3] * 8 + [0.3] * 20)[0]
        self.count, self.log, self.factor, self.number = 0, [1.0], draw.choice([0.5, 2, True]), np.float64(1.5)
        self.calls = torch.tensor(0)
        if self.tells == "iterator":
            self.numbers = iter(range(1, 1000))
        elif self.tells == "own_random":
            self.random: Any = random.Random(3)
        elif self.tells == "own_numpy":
            self.random = np.random.default_rng(3)
        elif self.tells in ("nonlocal", "default_list"):
            self.next = _counting() if self.tells == "nonlocal" else _counting_in_default()
        elif self.tells == "class_counter":
            self.__class__ = type("Python", (Python,), {"made": 0})
        self.shared = case.log
        self.linear = nn.Linear(4, 4).to(case.dtype)

    def forward(self, x: Any, scene: Any) -> Any:
        way = self.tells
        if way == "read":
            return x * self.factor * float(self.number) + len(self.log)
        if way == "first":
            return x * (2 if self.count == 0 else 3)
        if way == "restored":
            self.count += 1
            self.count -= 1
            return x + self.count
        if way == "same":
            self.factor = self.factor * 1
            return x * self.factor
        if way == "try":
            try:
                return x @ x
            except RuntimeError:
                return x + 1
        if way == "generator":
            return sum(y for y in (x, x * 2) if y is not None)
        if way == "args":
            return (lambda *a, **k: a[0] + k["b"])(x, b=x * 2)
        if way == "local":
            kept = {"a": [x]}
            kept["a"].append(self.linear(x))
            return torch.stack(kept["a"]).sum(0)
        return self._impure(x)

    def _impure(self, x: Any) -> Any:
        way = self.tells
        if way == "counter":
            self.count += 1
            return x * self.count
        if way == "list":
            self.log.append(0.5)
            return x * len(self.log)
        if way == "random":
            return x * random.random()
        if way == "numpy":
            return x * np.random.rand()
        if way == "seed":
            torch.manual_seed(3)
            return x * torch.rand(4).to(x.dtype)
        if way == "keeps":
            self.kept = x.detach()
        elif way == "outside":
            self.shared.append(len(self.shared))
        elif way == "attribute":
            self.linear.weight.seen = True
        elif way == "deletes":
            if hasattr(self, "number"):
                del self.number
            self.number = np.float64(2)
        elif way == "tensor_counter":
            self.calls += 1
            return x * self.calls
        elif way == "iterator":
            return x * next(self.numbers)
        elif way == "own_random":
            return x * self.random.random()
        elif way == "own_numpy":
            return x * float(self.random.random())
        elif way in ("nonlocal", "default_list"):
            return x * self.next()
        elif way == "class_counter":
            type(self).made += 1
            return x * type(self).made
        elif way == "seed_again":
            random.seed(77)
            return x * random.random()
        elif way == "get_state":
            return x * torch.get_rng_state()[:4].to(x.dtype) / 100
        elif way == "mode":
            self.linear.train(not self.linear.training)
        return x


def _counting() -> Callable[[], int]:
    count = 0

    def following() -> int:
        nonlocal count
        count += 1
        return count

    return following


def _counting_in_default() -> Callable[[], int]:
    def following(seen: Any = [0]) -> int:  # noqa: B006
        seen[0] += 1
        return int(seen[0])

    return following


@part(1)
class Hooked(Part):
    """Has a hook of some sort, or registers one in forward."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        kinds = ["state_dict", "load", "tensor_in_forward", "forward", "pre", "backward", "parameter",
                 "post_accumulate"]  # fmt: skip
        self.tells = draw.choices(kinds, [3, 2, 1, 0.5, 0.5, 0.5, 0.7, 0.5])[0]
        self.layer = nn.Linear(4, 4).to(case.dtype)
        log = case.log
        if self.tells == "forward":
            self.layer.register_forward_hook(lambda m, a, out: out * 2)
        elif self.tells == "pre":
            self.layer.register_forward_pre_hook(lambda m, a: (a[0] + 1,))
        elif self.tells == "backward":
            self.layer.register_full_backward_hook(lambda m, i, o: (i[0] * 2,) if i[0] is not None else None)
        elif self.tells == "parameter":
            self.layer.weight.register_hook(lambda g: g * 2)
        elif self.tells == "post_accumulate":
            self.layer.weight.register_post_accumulate_grad_hook(lambda p: log.append(1))
        elif self.tells == "state_dict":
            self.layer.register_state_dict_post_hook(lambda m, s, p, n: log.append("saved"))
        elif self.tells == "load":
            self.layer.register_load_state_dict_post_hook(lambda m, keys: log.append("loaded"))

    def forward(self, x: Any, scene: Any) -> Any:
        out = self.layer(x)
        if self.tells == "tensor_in_forward" and out.requires_grad:
            out.register_hook(lambda g: g * 3)
        return out


@part(2)
class Extra(Part):
    """Returns more than its result through the module."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        self.tells = draw.choice(["x", "parameter", "buffer", "view_of_x", "none", "plain", "twice", "string", "int",
                                  "bool", "complex", "view_of_parameter", "empty", "scalar", "detached"])  # fmt: skip
        self.weight = nn.Parameter(torch.rand(4, dtype=case.dtype))
        self.register_buffer("held", torch.rand(3, 4, dtype=case.dtype))

    def forward(self, x: Any, scene: Any) -> Any:
        kinds: dict[str, Any] = {
            "x": lambda: scene.x,
            "parameter": lambda: self.weight,
            "buffer": lambda: self.held,
            "view_of_x": lambda: scene.x[1:].t(),
            "none": lambda: None,
            "plain": lambda: 3.5,
            "twice": lambda: x,
            "string": lambda: "word",
            "int": lambda: x.argmax(1),
            "bool": lambda: x > 0,
            "complex": lambda: torch.complex(x, x),
            "view_of_parameter": lambda: self.weight[1:],
            "empty": lambda: x[:0],
            "scalar": lambda: x.sum(),
            "detached": lambda: x.detach(),
        }
        scene.extras.append(kinds[self.tells]())
        return x * self.weight + self.held


@part(1.5)
class Strange(Part):
    """Is called in another way than most modules."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        self.tells = draw.choice(["bound", "overridden", "partial", "getattr", "property", "recursive", "module_call",
                                  "tensor_subclass", "parameter_made", "list_of_modules", "hidden",
                                  "call_unbound"])  # fmt: skip
        self.layer = nn.Linear(4, 4).to(case.dtype)
        if self.tells == "bound":
            self.layer.forward = types.MethodType(lambda own, x: F.linear(x, own.weight) * 2, self.layer)
        elif self.tells == "list_of_modules":
            self.modules_hidden = [nn.Linear(4, 4).to(case.dtype)]
        elif self.tells == "hidden":
            self.__dict__["secret"] = nn.Linear(4, 4).to(case.dtype)
        elif self.tells == "tensor_subclass":
            self.special = torch.rand(4, dtype=case.dtype).as_subclass(Special)

    @property
    def doubled(self) -> Any:
        return self.layer.weight * 2

    def forward(self, x: Any, scene: Any) -> Any:
        way = self.tells
        if way == "property":
            return x @ self.doubled
        if way == "getattr":
            return getattr(self, "lay" + "er")(x)
        if way == "call_unbound":
            return nn.Linear.forward(self.layer, x)
        if way == "module_call":
            return self.layer.forward(x)
        if way == "recursive":
            return self.layer(self.layer(self.layer(x).tanh()).tanh())
        if way == "list_of_modules":
            return self.modules_hidden[0](x)
        if way == "hidden":
            return vars(self)["secret"](x)
        if way == "tensor_subclass":
            return torch.as_tensor((x * self.special).as_subclass(torch.Tensor))
        if way == "parameter_made":
            return x * nn.Parameter(torch.ones(4, dtype=x.dtype))
        return self.layer(x)


class Special(torch.Tensor):
    """A subclass of tensors that does nothing else."""
