"""A part with an autograd function of its own."""

from __future__ import annotations

import random
from typing import Any

import torch
from random_network.parts import Part, part
from torch import nn


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * x * ctx.factor, None


class _Several(torch.autograd.Function):
    """Several outputs, one of them without a gradient; its backward asks what is needed."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        indices = x.argmax(1)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(x, y, indices)
        ctx.set_materialize_grads(False)
        return x * y, indices, x + y

    @staticmethod
    def backward(ctx: Any, first: Any, _: Any, second: Any) -> Any:
        x, y, _ = ctx.saved_tensors
        ours = theirs = None
        if ctx.needs_input_grad[0]:
            ours = sum(each for each in (None if first is None else first * y, second) if each is not None)
        if ctx.needs_input_grad[1]:
            theirs = torch.zeros_like(y) if first is None else first * x
        return ours, theirs


class _Inplace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 3


class _Straight(torch.autograd.Function):
    """The new style with setup_context."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.round()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


class _Twice(torch.autograd.Function):
    """Doubles its input; its backward draws, and reads the gradient mode."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * (torch.rand(4).to(gradient.dtype) if not torch.is_grad_enabled() else 1)


class _Impure(torch.autograd.Function):
    """Doubles its input; its backward appends to a list."""

    @staticmethod
    def forward(ctx: Any, x: Any, seen: Any) -> Any:
        ctx.seen = seen
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        ctx.seen.append(1)
        return gradient * len(ctx.seen), None


class _Broadcast(torch.autograd.Function):
    """Returns a view of its input; another argument holds no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any, names: Any) -> Any:
        ctx.shape = x.shape
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient.clone() * ctx.shape[0], None


@part(3.5)
class Own(Part):
    """An autograd function of its own."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        self.tells = draw.choice(["cube", "several", "several_unused", "inplace", "straight", "twice", "broadcast",
                                  "impure" if draw.random() < 0.2 else "cube"])  # fmt: skip
        self.weight = nn.Parameter(torch.rand(4, dtype=case.dtype), requires_grad=draw.random() < 0.7)
        self.seen: list[int] = []

    def forward(self, x: Any, scene: Any) -> Any:
        if self.tells == "cube":
            return _Cube.apply(x, 2.5) * self.weight
        if self.tells.startswith("several"):
            one, indices, two = _Several.apply(x * 1, self.weight.expand(3, 4))
            scene.extras.append(indices)
            return one * 0.5 if self.tells == "several_unused" else one + two + indices[:, None]
        if self.tells == "inplace":
            return _Inplace.apply(x * self.weight)
        kind: Any = {"straight": _Straight, "twice": _Twice}.get(self.tells)
        if kind is not None:
            return kind.apply(x * self.weight * 3)
        if self.tells == "impure":
            return _Impure.apply(x * self.weight, self.seen)
        return _Broadcast.apply(x * self.weight, ("a", {"b": 1}))
