"""Parts that make one call of PyTorch, or one view and a write to it."""

from __future__ import annotations

import random
from typing import Any

import torch
from random_network.ops import OF_VALUES, PURE, fit
from random_network.parts import Part, named, part
from random_network.writes import RANDOM, VIEWS, WRITES


@part(14)
class Pure(Part):
    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        self.tells, self.function = named(draw, PURE)
        self.scaled = draw.random() < 0.5

    def forward(self, x: Any, scene: Any) -> Any:
        result = fit(self.function(x))
        return result.to(x.dtype) * 0.5 + x * 0.5 if self.scaled else result.to(x.dtype)


@part(0.15)
class OfValues(Part):
    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        self.tells, self.function = named(draw, OF_VALUES)

    def forward(self, x: Any, scene: Any) -> Any:
        return fit(self.function(x)).to(x.dtype)


@part(5)
class Random(Part):
    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        self.tells, self.function = named(draw, RANDOM)

    def forward(self, x: Any, scene: Any) -> Any:
        return fit(self.function(x, self.training)).to(x.dtype)


@part(5)
class View(Part):
    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        first, self.first = named(draw, VIEWS)
        self.tells = first
        self.is_extra = draw.random() < 0.4

    def forward(self, x: Any, scene: Any) -> Any:
        view = self.first(x)
        if self.is_extra:
            scene.extras.append(view)
        return fit(view).to(x.dtype) if view.is_floating_point() else x + view.float().mean().clamp(-1, 1).to(x.dtype)


@part(8)
class WriteResult(Part):
    """Writes to a result or a view of it, and reads it, or another view, afterwards."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        view, self.view = named(draw, {"itself": lambda x: x, **VIEWS})
        other, self.other = named(draw, {"itself": lambda x: x, **VIEWS})
        write, self.write = named(draw, WRITES)
        self.tells = f"{write} to {view}, reads {other}"
        self.early = draw.random() < 0.5

    def forward(self, x: Any, scene: Any) -> Any:
        base = x * 2
        read = self.other(base) if self.early else None
        target = self.view(base)
        if not target.is_floating_point():
            target = base
        self.write(target)
        read = self.other(base) if read is None else read
        scene.extras.append(target)
        return (fit(read).to(x.dtype) + base * 0.5).tanh()


@part(2)
class WritePool(Part):
    """Writes to a tensor from earlier in the forward pass, which may be an argument or a view of it."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        view, self.view = named(draw, {"itself": lambda x: x, **VIEWS})
        write, self.write = named(draw, WRITES)
        self.number = draw.randrange(1000)
        self.detached = draw.random() < 0.3
        self.tells = f"{write} to {view} of pool {self.number}"

    def forward(self, x: Any, scene: Any) -> Any:
        target = scene.pool[self.number % len(scene.pool)]
        target = self.view(target.detach() if self.detached else target)
        if target.is_floating_point():
            self.write(target)
        return x + 0.1


@part(1.5)
class WriteArgument(Part):
    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        view, self.view = named(draw, {"itself": lambda x: x, **VIEWS})
        write, self.write = named(draw, WRITES)
        self.which = draw.choice("xyi")
        self.way = draw.choice(["plain", "no_grad", "detach", "data"])
        self.tells = f"{write} to {view} of {self.which} ({self.way})"

    def forward(self, x: Any, scene: Any) -> Any:
        target = scene.x if self.which == "x" else scene.y
        if self.which == "i" and scene.items:
            target = scene.items[0]
        if not isinstance(target, torch.Tensor):
            return x
        if self.way == "no_grad":
            with torch.no_grad():
                self.write(self.view(target))
        else:
            target = {"plain": target, "detach": target.detach(), "data": target.data}[self.way]
            target = self.view(target)
            if target.is_floating_point():
                self.write(target)
        return x + 0.5
