"""Parts of random networks for training loops: each maps (batch, WIDTH) to the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint

WIDTH = 8


class Swish(torch.autograd.Function):
    """x * sigmoid(x) with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        gate = torch.sigmoid(x)
        ctx.save_for_backward(x, gate)
        return x * gate

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        x, gate = ctx.saved_tensors
        return gradient * (gate + x * gate * (1 - gate))


class Reversed(torch.autograd.Function):
    """The identity, whose gradient is turned round and scaled."""

    @staticmethod
    def forward(x: Any, factor: float) -> Any:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * -ctx.factor, None


class Own(nn.Module):
    """A linear layer and a function of one's own behind it."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.layer, self.turned = nn.Linear(WIDTH, WIDTH), choice.random() < 0.3

    def forward(self, x: Any) -> Any:
        x = Swish.apply(self.layer(x))
        return Reversed.apply(x, 0.5) if self.turned else x


class Residual(nn.Module):
    """x + layers(x), added in place or not."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Dropout(0.2))
        self.inplace = choice.random() < 0.5

    def forward(self, x: Any) -> Any:
        return self.layers(x).add_(x) if self.inplace else x + self.layers(x)


class Tied(nn.Module):
    """Two layers with one weight, or one weight forth and back."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.second.weight, self.back = self.first.weight, choice.random() < 0.5

    def forward(self, x: Any) -> Any:
        x = torch.tanh(self.first(x))
        return functional.linear(x, self.first.weight.t()) if self.back else self.second(x)


class Checkpointed(nn.Module):
    """Layers that PyTorch computes again for backward; a batch normalization among them is rare."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        layers = [nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.3)]
        if choice.random() < 0.1:
            layers.append(nn.BatchNorm1d(WIDTH))
        self.layers, self.reentrant = nn.Sequential(*layers), choice.random() < 0.3

    def forward(self, x: Any) -> Any:
        return checkpoint(self.layers, x, use_reentrant=self.reentrant)


class Counted(nn.Module):
    """Buffers that every forward changes in training: a counter, a running mean, the last batch's size."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.mean: Any
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(WIDTH), persistent=choice.random() < 0.7)
        self.replaced = choice.random() < 0.4

    def forward(self, x: Any) -> Any:
        if self.training:
            self.count += 1
            mean = x.detach().mean(0)
            if self.replaced:
                self.mean = self.mean * 0.9 + mean * 0.1
            else:
                with torch.no_grad():
                    self.mean.lerp_(mean, 0.1)
        return self.layer(x) - self.mean.clone()


class Numbered(nn.Module):
    """A counter in Python, which forward reads or not."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.layer, self.calls, self.read = nn.Linear(WIDTH, WIDTH), 0, choice.random() < 0.5

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.layer(x) * (1 + self.calls / 8 if self.read else 1)


class Kept(nn.Module):
    """A tensor of the last call, kept in an attribute or a list."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.layer, self.in_list = nn.Linear(WIDTH, WIDTH), choice.random() < 0.3
        self.last: Any = torch.zeros(WIDTH)
        self.all: list[Any] = [torch.zeros(WIDTH)]

    def forward(self, x: Any) -> Any:
        before = self.all[0] if self.in_list else self.last
        x = self.layer(x) + before.to(x.dtype)
        if self.in_list:
            self.all[0] = x.detach().mean(0)
        else:
            self.last = x.detach().mean(0)
        return x


class Drawn(nn.Module):
    """Noise, a random mask of one's own, or a draw that nothing reads."""

    SORTS = ("noise", "mask", "rrelu", "alpha", "depth", "unread")

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.layer, self.sort = nn.Linear(WIDTH, WIDTH), choice.choice(self.SORTS)

    def forward(self, x: Any) -> Any:
        x = self.layer(x)
        if not self.training:
            return x
        if self.sort == "unread":
            torch.rand(3)
            return x
        if self.sort == "noise":
            return x + 0.1 * torch.randn_like(x)
        if self.sort == "mask":
            return x * torch.bernoulli(torch.full_like(x, 0.8))
        if self.sort == "depth":
            return x * (torch.rand(x.shape[0], 1) < 0.8)
        return functional.rrelu(x, training=True) if self.sort == "rrelu" else functional.alpha_dropout(x, 0.1, True)


class Laid(nn.Module):
    """Parameters laid out in other ways: transposed, views of one tensor, unused, frozen, of no elements."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.sort = choice.choice(["transposed", "views", "unused", "frozen", "empty"])
        flat = torch.randn(2 * WIDTH * WIDTH) / 3
        first, second = flat[: WIDTH * WIDTH].view(WIDTH, WIDTH), flat[WIDTH * WIDTH :].view(WIDTH, WIDTH)
        if self.sort != "views":
            first, second = first.clone(), second.clone()
        self.first = nn.Parameter(first.t() if self.sort == "transposed" else first)
        self.second = nn.Parameter(second, requires_grad=self.sort != "frozen")
        self.rest = nn.Parameter(torch.zeros(0)) if self.sort == "empty" else None

    def forward(self, x: Any) -> Any:
        x = torch.relu(x @ self.first)
        return x if self.sort == "unused" else x @ self.second


class Written(nn.Module):
    """Writes in place through views, and an activation in place."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.layer, self.half = nn.Linear(WIDTH, WIDTH), choice.randrange(1, WIDTH)

    def forward(self, x: Any) -> Any:
        x = self.layer(x)
        x[:, : self.half] *= 2
        x[:, self.half :].add_(1)
        return functional.relu(x, inplace=True)


def block(*layers: Any) -> Callable[[random.Random], nn.Module]:
    """A part of layers that are named by functions, each called when the part is made."""
    return lambda choice: nn.Sequential(*(layer() for layer in layers))


def linear() -> nn.Module:
    return nn.Linear(WIDTH, WIDTH)


def parametrized(choice: random.Random) -> nn.Module:
    sorts = [parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal]
    return nn.Sequential(choice.choice([*sorts, nn.utils.spectral_norm])(linear()), nn.Tanh())


def pruned(choice: random.Random) -> nn.Module:
    return nn.Sequential(prune.l1_unstructured(linear(), "weight", amount=choice.choice([0.2, 0.5])), nn.ReLU())


#: From (batch, WIDTH) to the same.
PARTS: dict[str, Callable[[random.Random], nn.Module]] = {
    "linear": block(linear, nn.ReLU),
    "gelu": block(linear, nn.GELU, linear),
    "layer norm": block(linear, lambda: nn.LayerNorm(WIDTH), nn.SiLU),
    "rms norm": block(linear, lambda: nn.RMSNorm(WIDTH), nn.PReLU),
    "batch norm": block(linear, lambda: nn.BatchNorm1d(WIDTH), nn.ReLU),
    "group norm": block(linear, lambda: nn.GroupNorm(2, WIDTH), nn.Mish),
    "dropout": block(linear, lambda: nn.Dropout(0.25), nn.Tanh),
    "glu": block(lambda: nn.Linear(WIDTH, 2 * WIDTH), nn.GLU),
    "own function": Own,
    "residual": Residual,
    "tied": Tied,
    "checkpointed": Checkpointed,
    "counted": Counted,
    "numbered": Numbered,
    "kept": Kept,
    "drawn": Drawn,
    "laid out": Laid,
    "written": Written,
    "parametrized": parametrized,
    "pruned": pruned,
}
#: Parts that `fit` refuses by its documents come less often.
PART_WEIGHTS = {"numbered": 0.15, "kept": 0.5, "pruned": 0.5}
