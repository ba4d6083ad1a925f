"""Random modules: drawn from a seed, built as often as asked for, each time the same, with arguments for them."""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from random_network import calls, control, functions, layers, python, state
from random_network.ops import COLUMNS, ROWS
from random_network.parts import PARTS, Holder, Scene
from torch import nn

#: Importing them registers their parts; draws are in this order.
_OF_PARTS = (calls, state, layers, functions, control, python)

Pair = collections.namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class Result:
    """A dataclass that modules return and PyTorch does not know."""

    first: Any
    second: Any


class RandomModule(nn.Module):
    """A chain of parts, some of which read an earlier result than the last."""

    def __init__(self, parts: Sequence[Any], back: Sequence[int], give: Callable[[Any], Any], gain: Any) -> None:
        super().__init__()
        self.gain = gain
        self.parts = nn.ModuleList(parts)
        self.back = list(back)
        self.give = give

    def forward(
        self, x: Any, y: Any = None, tokens: Any = None, *, scale: Any = None, mode: Any = "a", items: Any = ()
    ) -> Any:
        scene = Scene(x, y, tokens, scale, mode, items)
        scene.pool.append(x)
        if isinstance(y, torch.Tensor) and y.shape == (ROWS, COLUMNS):
            scene.pool.append(y)
        for part, back in zip(self.parts, self.back, strict=True):
            scene.pool.append(part(scene.pool[-min(back, len(scene.pool))], scene))
        result = scene.pool[-1] if self.gain is None else scene.pool[-1] * self.gain
        if scale is not None:
            result = result * scale
        for item in items:
            result = result + item
        if isinstance(y, torch.Tensor) and y.is_floating_point():
            result = result + y.mean().to(result.dtype)
        scene.pool.append(result)
        return self.give(scene)


GIVES: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda scene: scene.pool[-1],
    "tuple": lambda scene: (scene.pool[-1], scene.pool[-2]),
    "list": lambda scene: [scene.pool[-1], scene.pool[1]],
    "one": lambda scene: (scene.pool[-1],),
    "dict": lambda scene: {"out": scene.pool[-1], "last": scene.pool[-2], "mode": scene.mode},
    "ordered": lambda scene: collections.OrderedDict(b=scene.pool[-1], a=None),
    "extras": lambda scene: (scene.pool[-1], *scene.extras),
    "nested": lambda scene: {"a": [scene.pool[-1], (scene.pool[-2], None, 3)], "b": {"c": scene.extras}},
    "named": lambda scene: Pair(scene.pool[-1], scene.extras[-1] if scene.extras else None),
    "scalar": lambda scene: scene.pool[-1].sum(),
    "loss": lambda scene: {"loss": (scene.pool[-1] ** 2).mean(), "logits": scene.pool[-1].detach()},
    "twice": lambda scene: (scene.pool[-1], scene.pool[-1]),
    "input": lambda scene: (scene.pool[-1], scene.x),
    "view": lambda scene: (scene.pool[-1], scene.pool[-1].t()),
    "view_of_input": lambda scene: (scene.pool[-1], scene.x[1:]),
    "transposed": lambda scene: scene.pool[-1].t(),
    "all": lambda scene: tuple(scene.pool),
    "dataclass": lambda scene: Result(scene.pool[-1], 2),
    "object": lambda scene: Holder(loss=scene.pool[-1].sum(), logits=scene.pool[-1]),
    "args": lambda scene: {"out": scene.pool[-1], "items": scene.items, "y": scene.y, "scale": scene.scale},
}
GIVE_WEIGHTS = {"tensor": 6, "dataclass": 0.3, "object": 0.5}

LOSSES: dict[str, Callable[[Any], Any] | None] = {
    "default": None,
    "square": lambda out: sum((t.float() ** 2).sum() for t in tensors(out) if t.is_floating_point()),
    "first": lambda out: tensors(out)[0].sum(),
    "log": lambda out: torch.nn.functional.cross_entropy(tensors(out)[0].reshape(-1, 2), torch.zeros(6).long()),
    "dropped": lambda out: torch.nn.functional.dropout(tensors(out)[0], 0.5).sum(),
}


def tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Case:
    """The random module of a seed; each draw has a random source of its own, so that parts can be left out.

    keep: numbers of the parts that stay. outside: tensors that the module built last reads but does not hold. log: a
    list that it appends to.
    """

    def __init__(self, seed: int, keep: Sequence[int] | None = None, only: Sequence[str] = ()) -> None:
        self.seed = seed
        draw = self.source("shape")
        count = draw.choice([1, 2, 2, 3, 3, 4, 5, 6, 8])
        order = [module.__name__ for module in _OF_PARTS]
        drawn = sorted(PARTS, key=lambda name: order.index(PARTS[name][0].__module__))
        names = [name for name in drawn if not only or name in only]
        weights = [PARTS[name][1] for name in names]
        self.names = draw.choices(names, weights, k=count)
        self.keep = list(range(count)) if keep is None else list(keep)
        self.back = [draw.choice([1, 1, 1, 1, 2, 3]) for _ in range(count)]
        gives = list(GIVES)
        self.give = draw.choices(gives, [GIVE_WEIGHTS.get(name, 1) for name in gives])[0]
        self.loss = draw.choices(list(LOSSES), [4, 2, 1, 1, 0.5])[0]
        self.dtype = torch.float64 if draw.random() < 0.1 else torch.float32
        self.outside: list[Any] = []
        self.log: list[Any] = []

    def source(self, what: str) -> random.Random:
        return random.Random(f"{self.seed} {what}")

    def build(self) -> Any:
        """The module; the same at each call."""
        self.outside, self.log = [], []
        torch.manual_seed(self.seed)
        parts = []
        for number in range(len(self.names)):
            torch.manual_seed(self.seed * 100 + number)
            if number in self.keep:
                parts.append(PARTS[self.names[number]][0](self.source(f"part {number}"), self))
        gain = nn.Parameter(torch.rand(4, dtype=self.dtype)) if self.seed % 10 else None
        model = RandomModule(parts, [self.back[number] for number in self.keep], GIVES[self.give], gain)
        if self.dtype == torch.float64:
            for part in parts:
                if type(part).__name__ == "Layer" and part.tells not in ("bf16", "complex", "scripted"):
                    part.layer.to(self.dtype)
        for part in parts:
            if getattr(part, "tells", "") == "batch_norm_frozen":
                part.layer.eval()
        return model

    def tells(self, model: Any) -> str:
        parts = [f"{type(part).__name__}({part.tells})" for part in model.parts]
        return f"{', '.join(parts)} -> {self.give}, back {[self.back[n] for n in self.keep]}, {self.dtype}"

    def arguments(self, step: int, kinds: dict[str, str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The module's arguments at a step, the same at each call. kinds: as `kinds` draws them."""
        torch.manual_seed(self.seed * 1000 + step)
        x = X_KINDS[kinds["x"]]().to(self.dtype)
        if kinds["x"] in ("leaf", "leaf_t", "parameter") and not x.is_leaf:
            x = x.detach().requires_grad_()
        args: list[Any] = [x]
        if kinds["y"] != "absent" or kinds["tokens"] != "absent":
            args.append(Y_KINDS[kinds["y"]](x))
        if kinds["tokens"] != "absent":
            args.append(torch.randint(0, 6, (2, 3)))
        kwargs: dict[str, Any] = {}
        if kinds["scale"] != "absent":
            kwargs["scale"] = {
                "float": 0.5, "int": 2, "tensor": torch.rand(()), "none": None,
                "row": torch.rand(4, requires_grad=True),
            }[kinds["scale"]]  # fmt: skip
        if kinds["mode"] != "absent":
            kwargs["mode"] = kinds["mode"]
        if kinds["items"] != "absent":
            item = torch.rand(3, 4, dtype=self.dtype)
            kwargs["items"] = {"list": [item], "two": (item, item), "numbers": [1, 0.5], "mixed": [item, 2.0, x]}[
                kinds["items"]
            ]
        return tuple(args), kwargs

    def kinds(self, draw: random.Random) -> dict[str, str]:
        """A random kind for each argument, "absent" for one that is not given."""
        return {
            "x": draw.choices(list(X_KINDS), [8, 2, 1, 1, 3, 1, 0.4, 0.5, 0.5])[0],
            "y": draw.choices(list(Y_KINDS), [1, 2, 2, 1, 1, 1, 1, 1, 0.5, 0.5, 10])[0],
            "tokens": draw.choices(["absent", "int"], [3, 1])[0],
            "scale": draw.choices(["absent", "float", "int", "tensor", "none", "row"], [6, 1, 0.5, 1, 0.5, 0.5])[0],
            "mode": draw.choices(["absent", "a", "b"], [3, 1, 1])[0],
            "items": draw.choices(["absent", "list", "two", "numbers", "mixed"], [6, 1, 0.5, 0.5, 0.5])[0],
        }


X_KINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: torch.randn(3, 4),
    "t": lambda: torch.randn(4, 3).t(),
    "sliced": lambda: torch.randn(7, 9)[::2, 1::2][:3, :4],
    "expanded": lambda: torch.randn(4).expand(3, 4),
    "leaf": lambda: torch.randn(3, 4, requires_grad=True),
    "leaf_t": lambda: torch.randn(4, 3).t().requires_grad_(),
    "non_leaf": lambda: torch.randn(3, 4, requires_grad=True) * 2,
    "parameter": lambda: nn.Parameter(torch.randn(3, 4)),
    "offset": lambda: torch.randn(13)[1:].view(3, 4),
}
Y_KINDS: dict[str, Callable[[Any], Any]] = {
    "none": lambda x: None,
    "tensor": lambda x: torch.randn(3, 4).to(x.dtype),
    "x": lambda x: x,
    "view": lambda x: x.detach()[1:],
    "shared": lambda x: x.detach(),
    "transposed": lambda x: x.detach().t(),
    "row": lambda x: torch.rand(4).to(x.dtype),
    "leaf": lambda x: torch.rand(3, 4, requires_grad=True),
    "int": lambda x: torch.arange(4),
    "number": lambda x: 3,
}
Y_KINDS["absent"] = Y_KINDS["none"]
