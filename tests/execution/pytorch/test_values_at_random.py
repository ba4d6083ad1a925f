"""Values that forward or a loss reads in random ways: whatever of them changes, a plan gives what eager gives."""

from __future__ import annotations

import copy
import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import placewright

#: How a module's code reaches HELD, of which PATH is what it reads.
WAYS = {
    "attribute": "class M(nn.Module):\n  def forward(self, x): return x * self.held PATH",
    "global": "class M(nn.Module):\n  def forward(self, x): return x * HELD PATH",
    "closure": "def made(held):\n  class M(nn.Module):\n    def forward(self, x): return x * held PATH\n"
    "  return M\nM = made(HELD)",
    "default": "class M(nn.Module):\n  def of(x, held=HELD): return x * held PATH\n"
    "  def forward(self, x): return M.of(x)",
    "class": "class M(nn.Module):\n  held = HELD\n  def forward(self, x): return x * self.held PATH",
    "argument": "def of(x, held): return x * held PATH\n"
    "class M(nn.Module):\n  def forward(self, x): return of(x, HELD)",
    "partial": "def of(x, held): return x * held PATH\nf = functools.partial(of, held=HELD)\n"
    "class M(nn.Module):\n  def forward(self, x): return f(x)",
    "loss's closure": "def made(held): return lambda y: y.sum() * held PATH\nloss = made(HELD)",
    "loss's attribute": "class L:\n  def __init__(self): self.held = HELD\n"
    "  def __call__(self, y): return y.sum() * self.held PATH\nloss = L()",
    "loss's method": "class L:\n  def __init__(self): self.held, self.calls = HELD, 0\n"
    "  def of(self, y): return y.sum() * self.held PATH\nowner = L()\nloss = owner.of",
}
LAYER = (
    "\nclass M(nn.Module):\n  def __init__(self):\n    super().__init__()\n    self.layer = nn.Linear(4, 4)\n"
    "  def forward(self, x): return self.layer(x)"
)


class Slotted:
    __slots__ = ("other", "value")


def nested(source: random.Random, depth: int) -> tuple[Any, str, tuple[Any, Any] | None]:
    """A number in so many containers and objects, the text that reads it there, and where it stands."""
    if depth == 0:
        return 1.0 + source.random(), "", None
    inner, path, place = nested(source, depth - 1)
    kind = source.choice(["dict", "list", "slots", "attributes"])
    if kind in ("dict", "list"):
        key: Any = "k" if kind == "dict" else 1
        container: Any = {"a": 0, "k": inner} if kind == "dict" else [0, inner]
        return container, f"[{key!r}]{path}", place or (container, key)
    held: Any = Slotted() if kind == "slots" else SimpleNamespace(other=3)
    held.value = inner
    return held, f".value{path}", place or (held, "value")


def changed(space: dict[str, Any], way: str, model: nn.Module, value: Any) -> None:
    """Puts another value where the code finds HELD."""
    match way:
        case "attribute":
            model.held = value
        case "global" | "argument":
            space["HELD"] = value
        case "closure":
            type(model).forward.__closure__[0].cell_contents = value
        case "default":
            space["M"].of.__defaults__ = (value,)
        case "class":
            space["M"].held = value
        case "partial":
            space["f"].keywords["held"] = value
        case "loss's closure":
            space["loss"].__closure__[0].cell_contents = value
        case _:
            space["owner" if "owner" in space else "loss"].held = value


@pytest.mark.parametrize("seed", range(50))
def test_a_value_that_has_changed_is_seen(seed: int) -> None:
    source = random.Random(seed)
    way = list(WAYS)[seed % len(WAYS)]
    value, path, place = nested(source, source.randint(0, 4))
    code = WAYS[way].replace(" PATH", path) + (LAYER if "loss" in way else "")
    space: dict[str, Any] = {"nn": nn, "functools": __import__("functools"), "HELD": value, "__name__": "own"}
    exec(compile(code, "own.py", "exec"), space)  # the test's own text
    model, loss, x = space["M"](), space.get("loss"), torch.randn(3, 4)
    if way == "attribute":
        model.held = value
    options: dict[str, Any] = {"training": True, "loss": loss} if loss else {}
    with placewright.compile(model, x, devices="cpu:0", evaluations=20, **options) as compiled:
        for _ in range(4):
            with torch.set_grad_enabled(loss is not None):
                expected = loss(model(x)) if loss else model(x)
            assert torch.equal(compiled(x), expected)
            new = 1.0 + source.random()
            if place is None:
                changed(space, way, model, new)
                continue
            if source.random() < 0.3:
                value, place = copy.deepcopy((value, place))
                changed(space, way, model, value)
            holder, key = place
            setattr(holder, key, new) if isinstance(key, str) and key == "value" else holder.__setitem__(key, new)
