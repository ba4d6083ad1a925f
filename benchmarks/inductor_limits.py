"""Random training steps that Inductor compiles within limits: who keeps the limit, by PyTorch's allocator.

    python benchmarks/inductor_limits.py OUT.jsonl --seeds 0:40          rows that there are are kept
    python benchmarks/inductor_limits.py OUT.jsonl --table               of the rows that there are
    python benchmarks/inductor_limits.py OUT.jsonl --text "flat:512x32 linear.4 act.1 ; square" --shares .5
    python benchmarks/inductor_limits.py OUT.jsonl --shrink "TEXT" --shares .5     a smaller one of the same verdict

A network is a line of text: the first argument's kind and shape, blocks with the number that draws their details, and
after ";" how the module ends and is called. Each is measured in a process of its own: eager, as torch.compile does by
default, and by `placewright.fit` with Inductor within shares of eager's peak. Where a limit is refused, the sentence
names the nearest one; that one is tried as share "named". Parameters, buffers, arguments, targets and gradients that
the loss is given count, each memory once. Gradients, results and buffers are compared with those of torch.compile.

Verdicts: held; over, where the allocator hands out more than the limit; over-outside, where it is not more without what
a loss outside of the module takes by itself; refused, by placewright.InputError at the first call; late, the same at a
later call; raised, by another exception; void, where eager or torch.compile's default raises; died and out of time.
"wrong" next to them: a gradient, a result or a buffer that is not torch.compile's. Where the network draws numbers,
which other kernels draw in another order: a gradient that is not the slope of what the same step returns for one seed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import multiprocessing
import os
import random
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
import torch._dynamo
import torch._functorch.config
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

import placewright
from placewright.execution.pytorch.memory import allocated_peak

Row = dict[str, Any]
Shape = tuple[int, ...]
Tensors = Sequence[torch.Tensor]
SHARES = (0.8, 0.6, 0.5, 0.4)
LEAST, MOST = 512 * 1024, 48 * 2**20
CLASSES, WARM_UPS = 96, 2
UNITS = {"bytes": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


# --------------------------------------------------------------------------------------------------------------- blocks
class Do(nn.Module):
    """A function of a tensor and of modules."""

    def __init__(self, function: Callable[..., torch.Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, *self.parts)


class State(nn.Module):
    """A buffer that forward reads and writes."""

    state: torch.Tensor

    def __init__(self, shape: Shape, way: int) -> None:
        super().__init__()
        self.way = way
        self.register_buffer("state", torch.zeros(shape[1:] if way == 1 else shape))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        found = x.float()
        if self.way == 0:
            y = x + 0.1 * self.state
            self.state.copy_(found.detach())
            return y
        if self.way == 1:
            self.state.mul_(0.9).add_(found.detach().mean(0), alpha=0.1)
            return x - self.state
        y = x * torch.sigmoid(self.state)
        self.state = self.state * 0.5 + found.detach()
        return y


class Square(torch.autograd.Function):
    """A function with a backward pass of its own, which saves two tensors."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.exp(-x * x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        x, y = ctx.saved_tensors
        return -2 * x * y * gradient


class Recurrence(nn.Module):
    """h = act(U h + W x), unrolled over the first steps; the others pass by."""

    def __init__(self, width: int, steps: int, gated: bool) -> None:
        super().__init__()
        self.inputs, self.state = nn.Linear(width, width), nn.Linear(width, width)
        self.gate = nn.Linear(width, width) if gated else None
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, found = torch.zeros_like(x[:, 0]), []
        for number in range(self.steps):
            new = torch.tanh(self.inputs(x[:, number]) + self.state(h))
            if self.gate is not None:
                share = torch.sigmoid(self.gate(h))
                new = share * h + (1 - share) * new
            h = new
            found.append(h)
        return torch.cat((torch.stack(found, 1), x[:, self.steps :]), 1)


class Attention(nn.Module):
    """scaled_dot_product_attention of a projection that is cut into three views."""

    def __init__(self, width: int, heads: int, way: str) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.way = heads, way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.project(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        if self.way == "hand":
            found = torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1) @ v
        elif self.way == "mask":
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            drop = 0.1 if self.way == "drop" else 0.0
            found = F.scaled_dot_product_attention(q, k, v, is_causal=self.way == "causal", dropout_p=drop)
        return self.out(found.transpose(1, 2).reshape(batch, length, width))


def width_of(kind: str, shape: Shape) -> int:
    return shape[1] if kind in ("signal", "image") else shape[-1]


def axis_of(kind: str) -> int:
    return 1 if kind in ("signal", "image") else -1


def layer(rng: random.Random, kind: str, before: int, after: int, same: bool = True) -> nn.Module:
    """A linear layer or convolution. same: whether all of the shape but the channels stays."""
    bias = rng.random() < 0.6
    if kind in ("flat", "seq"):
        return nn.Linear(before, after, bias=bias)
    groups = rng.choice([each for each in (1, 1, 1, 2, 4, before) if before % each == 0 and after % each == 0])
    size = rng.choice((1, 3, 3, 5))
    stride = 1 if same else 2
    dilation = rng.choice((1, 1, 2)) if size > 1 else 1
    of = nn.Conv1d if kind == "signal" else nn.Conv2d
    padding = dilation * (size - 1) // 2
    return of(before, after, size, stride, padding, dilation, groups=groups, bias=bias)


def norm(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    width = width_of(kind, shape)
    groups = rng.choice([each for each in (1, 2, 4) if width % each == 0])
    if kind in ("flat", "seq"):
        return nn.BatchNorm1d(width) if kind == "flat" and rng.random() < 0.6 else nn.LayerNorm(width)
    batch = nn.BatchNorm1d(width) if kind == "signal" else nn.BatchNorm2d(width)
    instance = nn.InstanceNorm1d(width, affine=True) if kind == "signal" else nn.InstanceNorm2d(width, affine=True)
    return rng.choice((batch, batch, nn.GroupNorm(groups, width), instance, nn.LayerNorm(shape[1:])))


def act(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    functions = (torch.relu, F.gelu, F.silu, torch.tanh, torch.sigmoid, F.softplus, F.hardswish, F.leaky_relu, F.mish)
    return Do(rng.choice(functions))


def inner(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    """One to three blocks that keep the shape."""
    width = width_of(kind, shape)
    made: list[nn.Module] = [layer(rng, kind, width, width)]
    for _ in range(rng.randint(0, 2)):
        of = rng.choice((act, act, norm, dropout, inplace, elementwise))
        made.append(of(rng, kind, shape))
    rng.shuffle(made)
    return nn.Sequential(*made)


def dropout(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    share = rng.choice((0.1, 0.3, 0.5))
    channels = {"signal": nn.Dropout1d(share), "image": nn.Dropout2d(share)}.get(kind, nn.AlphaDropout(share))
    return rng.choice((nn.Dropout(share), nn.Dropout(share), channels))


def inplace(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    width = width_of(kind, shape)
    half = shape[-1] // 2

    def halves(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[..., :half] += x[..., -half:]
        return y

    def strided(x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x).clone()
        y[..., ::2] = x[..., ::2] * 2
        return y

    def filled(x: torch.Tensor) -> torch.Tensor:
        return (x * x).masked_fill_(x > 1, 0.5)

    def summed(x: torch.Tensor) -> torch.Tensor:
        return (x * 1.5).add_(x).mul_(0.7)

    def layered(x: torch.Tensor, part: nn.Module) -> torch.Tensor:
        return part(x).relu_()

    def rows(x: torch.Tensor, part: nn.Module) -> torch.Tensor:
        y = torch.empty_like(x)
        for number in range(x.shape[0] if x.shape[0] < 9 else 1):
            y[number] = torch.sigmoid(x[number])
        y[number:] = x[number:] * 0.5
        return part(y)

    own = layer(rng, kind, width, width)
    found = (Do(halves), Do(strided), Do(filled), Do(summed), Do(layered, own), Do(rows, own))
    return rng.choice((*found, nn.Sequential(own, nn.ReLU(inplace=True)), nn.Sequential(own, nn.SiLU(inplace=True))))


def elementwise(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    """Ops that save views, slices, masks and sums."""
    axis = axis_of(kind)
    half = shape[axis] // 2

    def slices(x: torch.Tensor) -> torch.Tensor:
        one, other = x.narrow(axis, 0, half), x.narrow(axis, shape[axis] - half, half)
        product = torch.exp(-one * one) * other
        return torch.cat((product, x.narrow(axis, half, shape[axis] - half)), axis)

    def gated(x: torch.Tensor) -> torch.Tensor:
        one, other = x.chunk(2, axis)
        return torch.cat((one * torch.sigmoid(other), other), axis) if one.shape == other.shape else x * x

    def split(x: torch.Tensor) -> torch.Tensor:
        one, other = torch.split(x, [shape[axis] - 3, 3], axis)
        return torch.cat((other.sin(), one.cos()), axis) * x

    def rolled(x: torch.Tensor) -> torch.Tensor:
        return x.roll(1, 0) * x.flip(-1) + x

    def centred(x: torch.Tensor) -> torch.Tensor:
        return (x - x.amax(-1, keepdim=True)) / (1 + x.norm(dim=-1, keepdim=True))

    def chosen(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x.sin(), x * 0.1).cumsum(-1) * 0.1

    def ordered(x: torch.Tensor) -> torch.Tensor:
        found, places = x.sort(-1)
        return found + x.gather(-1, places.flip(-1))

    def detached(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            weight = torch.softmax(x * 2, -1)
        return x * weight + torch.sigmoid(x).detach()

    def double(x: torch.Tensor) -> torch.Tensor:
        return (x.double() / (1 + x.double().square())).to(x.dtype)

    def lower(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x.bfloat16()).to(x.dtype) * x

    def picked(x: torch.Tensor) -> torch.Tensor:
        return x[torch.arange(shape[0] - 1, -1, -1, device=x.device)] * x

    def own_backward(x: torch.Tensor) -> torch.Tensor:
        return Square.apply(x)

    def softmaxes(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) * torch.log_softmax(x, axis)

    def spectrum(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.irfft(torch.fft.rfft(x.float()) * 0.5, n=shape[-1]).to(x.dtype)

    found = (slices, gated, split, rolled, centred, chosen, ordered, detached, double, lower, picked, own_backward)
    return Do(rng.choice((*found, softmaxes, spectrum)))


def linear(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    width = width_of(kind, shape)
    return layer(rng, kind, width, rng.choice((width, width, 16, 32, 64)))


def strided(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    width = width_of(kind, shape)
    return layer(rng, kind, width, 2 * width if width < 64 else width, same=False)


def transposed(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    width = width_of(kind, shape)
    of = nn.ConvTranspose1d if kind == "signal" else nn.ConvTranspose2d
    return of(width, max(8, width // 2), rng.choice((2, 4)), 2, groups=rng.choice((1, 1, 2)))


def residual(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    def beside(x: torch.Tensor, part: nn.Module) -> torch.Tensor:
        return x + part(x)

    def into(x: torch.Tensor, part: nn.Module) -> torch.Tensor:
        return torch.relu(part(x).add_(x))

    return Do(rng.choice((beside, beside, into)), inner(rng, kind, shape))


def concatenated(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    axis, width = axis_of(kind), width_of(kind, shape)

    def dense(x: torch.Tensor, first: nn.Module, second: nn.Module, last: nn.Module) -> torch.Tensor:
        one = first(x)
        return last(torch.cat((x, one, second(one)), axis))

    parts = inner(rng, kind, shape), inner(rng, kind, shape)
    return Do(dense, *parts, layer(rng, kind, 3 * width, width))


def shared(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    width = width_of(kind, shape)
    own, between = layer(rng, kind, width, width), act(rng, kind, shape)

    def twice(x: torch.Tensor, one: nn.Module, mid: nn.Module) -> torch.Tensor:
        return one(mid(one(x)))

    return Do(twice, own, between)


def tied(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    """A matrix and its transpose."""
    wide = nn.Linear(width_of(kind, shape), rng.choice((32, 96, 128)))

    def there_and_back(x: torch.Tensor, part: Any) -> torch.Tensor:
        return F.linear(F.gelu(part(x)), part.weight.t())

    return Do(there_and_back, wide)


def frozen(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    width = width_of(kind, shape)
    made = nn.Sequential(layer(rng, kind, width, width), norm(rng, kind, shape), act(rng, kind, shape))
    some = list(made.parameters())
    for parameter in some if rng.random() < 0.5 else some[:1]:
        parameter.requires_grad_(False)
    return made


def state(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    return State(shape, rng.randrange(3))


def rerun(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    def checkpointed(x: torch.Tensor, part: nn.Module) -> torch.Tensor:
        return checkpoint(part, x, use_reentrant=False)

    width = width_of(kind, shape)
    return Do(
        checkpointed, nn.Sequential(layer(rng, kind, width, width), act(rng, kind, shape), norm(rng, kind, shape))
    )


def lower_part(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    def within(x: torch.Tensor, part: nn.Module) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = part(x)
        return y.to(x.dtype) + x

    return Do(within, inner(rng, kind, shape))


def attention(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    heads = rng.choice((1, 2, 4))
    return Attention(shape[-1], heads, rng.choice(("plain", "plain", "causal", "mask", "drop", "hand")))


def multihead(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    needed, drop = rng.random() < 0.4, rng.choice((0.0, 0.0, 0.1))

    def alone(x: torch.Tensor, part: nn.Module) -> torch.Tensor:
        found, weights = part(x, x, x, need_weights=needed)
        return found + weights.mean() if weights is not None else found

    return Do(alone, nn.MultiheadAttention(shape[-1], rng.choice((1, 2, 4)), dropout=drop, batch_first=True))


def encoder(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    first = rng.random() < 0.5
    return nn.TransformerEncoderLayer(shape[-1], 2, 2 * shape[-1], 0.0, "gelu", batch_first=True, norm_first=first)


def recurrent(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    return Recurrence(shape[-1], min(shape[1], rng.randint(3, 7)), rng.random() < 0.5)


def pooled(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    if kind == "signal":
        return rng.choice(
            (nn.MaxPool1d(2), nn.AvgPool1d(2), nn.AdaptiveAvgPool1d(shape[-1] // 3), nn.MaxPool1d(3, 1, 1))
        )
    size = shape[-1] // 3
    return rng.choice(
        (
            nn.MaxPool2d(2),
            nn.AvgPool2d(2),
            nn.AdaptiveAvgPool2d(size),
            nn.MaxPool2d(3, 1, 1),
            nn.AdaptiveMaxPool2d(size),
        )
    )


def resized(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    if kind == "signal":
        return nn.Upsample(scale_factor=1.5, mode=rng.choice(("nearest", "linear")))
    mode = rng.choice(("nearest", "bilinear", "bicubic"))
    return rng.choice((nn.Upsample(scale_factor=2.0, mode=mode), nn.ReflectionPad2d(2), nn.ZeroPad2d((1, 2, 0, 1))))


def unet(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    """A block that halves the size, applies one layer and restores the size, with a skip connection."""
    width = width_of(kind, shape)
    mode = rng.choice(("nearest", "linear" if kind == "signal" else "bilinear"))

    def around(x: torch.Tensor, low: nn.Module, last: nn.Module) -> torch.Tensor:
        small = F.max_pool1d(x, 2) if x.ndim == 3 else F.max_pool2d(x, 2)
        return last(torch.cat((F.interpolate(torch.relu(low(small)), size=x.shape[2:], mode=mode), x), 1))

    return Do(around, layer(rng, kind, width, width), layer(rng, kind, 2 * width, width))


def folded(rng: random.Random, kind: str, shape: Shape) -> nn.Module:
    """A change of layout between sequences, signals, pictures and rows."""
    if kind == "image":
        return Do(lambda x: x.flatten(2).transpose(1, 2))
    if kind == "signal" or rng.random() < 0.5:
        return Do(lambda x: x.transpose(1, 2))
    return Do(lambda x: x.reshape(-1, x.shape[-1]))


EVERY = ("flat", "seq", "signal", "image")
Maker = Callable[[random.Random, str, Shape], nn.Module]
#: By name: the kinds that a block takes, its weight when blocks are drawn, and the function that makes it.
BLOCKS: dict[str, tuple[tuple[str, ...], int, Maker]] = {
    "linear": (EVERY, 6, linear),
    "act": (EVERY, 5, act),
    "norm": (EVERY, 5, norm),
    "dropout": (EVERY, 2, dropout),
    "inplace": (EVERY, 4, inplace),
    "elementwise": (EVERY, 6, elementwise),
    "residual": (EVERY, 4, residual),
    "concat": (EVERY, 2, concatenated),
    "shared": (EVERY, 2, shared),
    "tied": (("flat", "seq"), 2, tied),
    "frozen": (EVERY, 2, frozen),
    "state": (EVERY, 2, state),
    "rerun": (EVERY, 1, rerun),
    "lower": (EVERY, 2, lower_part),
    "strided": (("signal", "image"), 2, strided),
    "transposed": (("signal", "image"), 3, transposed),
    "pooled": (("signal", "image"), 3, pooled),
    "resized": (("signal", "image"), 3, resized),
    "unet": (("signal", "image"), 3, unet),
    "attention": (("seq",), 5, attention),
    "multihead": (("seq",), 3, multihead),
    "encoder": (("seq",), 2, encoder),
    "recurrent": (("seq",), 2, recurrent),
    "folded": (("seq", "signal", "image"), 1, folded),
}
#: How a module ends: with the loss inside, or with the loss computed outside.
ENDS = ("square", "classes", "target", "two", "outside_sum", "outside_square", "outside_classes", "given")
RESULTS = ("logits", "hidden", "detached", "view_of_argument", "argument", "transposed", "other_loss")
ARGUMENTS = ("wants_gradient", "shares_memory", "twice", "gaps", "expanded", "overwritten", "unused", "channels_last")


def kind_after(name: str, kind: str, after: Shape, before: Shape) -> str:
    if name != "folded":
        return kind
    return "flat" if len(after) == 2 else "signal" if kind == "seq" else "seq"


# ------------------------------------------------------------------------------------------------------------- networks
class Network(nn.Module):
    """The module that a text describes."""

    def __init__(self, kind: str, shape: Shape, blocks: Sequence[tuple[str, int]], ways: Sequence[str]) -> None:
        super().__init__()
        self.ways, made = list(ways), []
        self.embedding = nn.Embedding(CLASSES, 32) if kind == "tokens" else None
        x = torch.zeros((*shape, 32) if kind == "tokens" else shape)
        kind = "seq" if kind == "tokens" else kind
        with torch.no_grad():
            for name, number in blocks:
                kinds, _, maker = BLOCKS[name]
                if kind not in kinds:
                    raise ValueError(f"{name} takes no {kind}")
                made.append(maker(random.Random(number), kind, tuple(x.shape)))
                after = made[-1](x)
                kind = kind_after(name, kind, tuple(after.shape), tuple(x.shape))
                x = after
            self.blocks, self.kind, self.out = nn.ModuleList(made), kind, tuple(x.shape)
        self.classes = "classes" in self.ways or "outside_classes" in self.ways
        if self.classes:
            self.head = nn.Linear(width_of(kind, self.out), CLASSES)
            self.out = (self.out[0] * self.out[1] if kind == "seq" else self.out[0], CLASSES)

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> Any:
        ways, rest, given = self.ways, list(others), x
        if "overwritten" in ways:
            x.add_(0.01)
        h = x if self.embedding is None else self.embedding(x)
        if "shares_memory" in ways or "twice" in ways:
            h = h + 0.5 * rest.pop(0)
        if "unused" in ways:
            rest.pop(0)
        middle = h
        for number, block in enumerate(self.blocks):
            h = block(h)
            if number == len(self.blocks) // 2:
                middle = h
        if self.classes:
            h = h.flatten(0, 1) if self.kind == "seq" else h.mean(tuple(range(2, h.ndim))) if h.ndim > 2 else h
            h = self.head(h)
        if "square" in ways:
            first = h.float().square().mean()
        elif "classes" in ways:
            first = F.cross_entropy(h.float(), rest[0])
        elif "target" in ways:
            first = F.smooth_l1_loss(h.float(), rest[0])
        elif "two" in ways:
            one, other = h.float().chunk(2, 0)
            first = one.logsumexp(-1).mean() + other.abs().mean()
        else:
            first = h
        results = [first]
        if "logits" in ways:
            results.append(h)
        if "hidden" in ways or "other_loss" in ways:
            results.append(middle * 1.0)
        if "detached" in ways:
            results.append(middle.detach())
        if "view_of_argument" in ways:
            results.append(given[: given.shape[0] // 2].transpose(0, 1))
        if "argument" in ways:
            results.append(given)
        if "transposed" in ways:
            results.append(h.transpose(0, -1))
        return tuple(results) if len(results) > 1 else first


class Case:
    """A network, its arguments, and its training step."""

    def __init__(self, text: str) -> None:
        first, *blocks = text.split(";")[0].split()
        kind, sizes = first.split(":")
        self.ways = text.split(";")[1].split()
        shape = tuple(map(int, sizes.split("x")))
        pairs = [(name, int(number)) for name, number in (block.split(".") for block in blocks)]
        torch.manual_seed(0)
        self.network = Network(kind, shape, pairs, self.ways).train()
        out = self.network.out
        self.given: list[torch.Tensor] = []
        x = torch.randint(0, CLASSES, shape) if kind == "tokens" else torch.randn(shape)
        args = [x]
        if "gaps" in self.ways and kind != "tokens":
            args = [torch.randn(*shape[:-1], 2 * shape[-1])[..., ::2]]
        elif "expanded" in self.ways and kind != "tokens":
            args = [x[:1].expand(shape)]
        elif "channels_last" in self.ways and kind == "image":
            args = [x.contiguous(memory_format=torch.channels_last)]
        if "shares_memory" in self.ways:
            base = torch.randn(shape[0] + 1, *shape[1:])
            args = [base[1:], base[:-1]]
        elif "twice" in self.ways:
            args = [args[0], args[0]]
        if "wants_gradient" in self.ways and kind != "tokens":
            made = {id(each): each.detach().requires_grad_() for each in args}
            args = [made[id(each)] for each in args]
        if "unused" in self.ways:
            args.append(torch.randn(shape))
        if "classes" in self.ways:
            args.append(torch.randint(0, CLASSES, out[:1]))
        if "target" in self.ways:
            args.append(torch.randn(out))
        if "outside_classes" in self.ways:
            self.given.append(torch.randint(0, CLASSES, out[:1]))
        if "given" in self.ways:
            low = "autocast" in self.ways and self.network.classes
            self.given.append(torch.randn(out, dtype=torch.bfloat16 if low else None))
        self.args = args
        self.slope = 0.0

    def backward(self, results: Any) -> torch.Tensor:
        """The loss after the rest of a training step, which holds as little as it can."""
        first, *others = results if isinstance(results, tuple) else (results,)
        loss: torch.Tensor = first
        if "given" in self.ways:
            torch.autograd.backward(first, self.given[-1].to(first.dtype))
            return (first.detach().float() * self.given[-1].float()).sum()
        if "outside_sum" in self.ways:
            loss = first.sum()
        elif "outside_square" in self.ways:
            loss = first.float().square().mean()
        elif "outside_classes" in self.ways:
            loss = F.cross_entropy(first.float(), self.given[0])
        if "other_loss" in self.ways:
            loss = loss + others[0].mean()
        loss.backward()
        return loss.detach()

    def held(self) -> int:
        """Bytes of parameters, buffers, arguments and what the loss is given, each memory once."""
        by_memory: dict[int, tuple[int, dict[Any, int]]] = {}
        for tensor in (*self.network.parameters(), *self.network.buffers(), *self.args, *self.given):
            memory = tensor.untyped_storage()
            views = by_memory.setdefault(memory.data_ptr(), (memory.nbytes(), {}))[1]
            views[tensor.storage_offset(), tuple(tensor.shape), tensor.stride()] = tensor.nbytes
        return sum(min(size, sum(views.values())) for size, views in by_memory.values())

    def draws(self) -> bool:
        """True if eager draws random numbers."""
        before, kept = torch.get_rng_state(), [each.detach().clone() for each in self._changed()]
        with torch.no_grad():
            self.network(*self.args)
            for each, old in zip(self._changed(), kept, strict=True):
                each.copy_(old)
        return not torch.equal(before, torch.get_rng_state())

    def _changed(self) -> list[torch.Tensor]:
        return [*self.network.buffers(), *(self.args if "overwritten" in self.ways else ())]

    def _slope_off(self, call: Callable[..., Any]) -> float:
        """Relative difference between the gradients and finite differences of the loss with the same random numbers:
        the least over several step sizes."""
        kept = [each.detach().clone() for each in self._changed()]

        def loss(steps: float) -> float:
            for each, old in zip(self._changed(), kept, strict=True):
                each.detach().copy_(old)
            for tensor, gradient in towards:
                tensor.detach().add_(gradient, alpha=steps)
            for _, each in self.wanting():
                each.grad = None
            torch.manual_seed(WARM_UPS + 2)
            found = float(self.backward(self._called(call)).double())
            for tensor, gradient in towards:
                tensor.detach().sub_(gradient, alpha=steps)
            return found

        towards: list[tuple[torch.Tensor, torch.Tensor]] = []
        loss(0.0)
        towards = [(each, each.grad.detach().clone()) for _, each in self.wanting() if each.grad is not None]
        square = sum(float(gradient.double().square().sum()) for _, gradient in towards)
        offs = []
        for size in (1e-1, 3e-2, 1e-2, 3e-3):
            steps = size / max(square, 1e-30) ** 0.5
            offs.append(abs((loss(steps) - loss(-steps)) / (2 * steps * max(square, 1e-30)) - 1))
        return float(min(offs))

    def _called(self, call: Callable[..., Any]) -> Any:
        low = torch.autocast("cpu", torch.bfloat16) if "autocast" in self.ways else contextlib.nullcontext()
        with low:
            return call(*self.args)

    def outside(self) -> int:
        """Bytes that the loss outside of the module takes by itself."""
        with torch.no_grad():
            results = self._called(self.network)
        leaves = results if isinstance(results, tuple) else (results,)
        floats = tuple(leaf.detach().requires_grad_(leaf.is_floating_point()) for leaf in leaves)
        return allocated_peak(lambda: self.backward(floats))

    def wanting(self) -> list[tuple[str, torch.Tensor]]:
        named = [(f"parameter {name}", each) for name, each in self.network.named_parameters()]
        return named + [(f"argument {number}", each) for number, each in enumerate(self.args) if each.requires_grad]

    def run(self, call: Callable[..., Any]) -> tuple[int, dict[str, torch.Tensor]]:
        """Peak bytes of a training step, and by name its results, gradients, buffers and arguments."""
        kept: dict[str, torch.Tensor] = {}

        def step(keeps: bool = False) -> None:
            results = self._called(call)
            if keeps:
                leaves = results if isinstance(results, tuple) else (results,)
                kept.update({f"result {number}": leaf.detach().clone() for number, leaf in enumerate(leaves)})
            kept["loss"] = self.backward(results)

        def anew(number: int, do: Callable[[Callable[[], None]], Any]) -> Any:
            for _, each in self.wanting():
                each.grad = None
            gc.collect()
            torch.manual_seed(number)
            return do(step)

        for number in range(WARM_UPS):
            anew(number, lambda step: step())
        taken = self.held() + anew(WARM_UPS, allocated_peak)
        anew(WARM_UPS + 1, lambda _: step(True))
        self.slope = self._slope_off(call) if self.draws() else 0.0
        kept |= {f"gradient of {name}": each.grad for name, each in self.wanting() if each.grad is not None}
        kept |= {f"buffer {name}": each for name, each in self.network.named_buffers()}
        kept |= {f"argument {number}": each.detach() for number, each in enumerate(self.args)}
        return taken, kept


def random_text(seed: int) -> str:
    """A random network that eager runs, the first of a size that is worth measuring. Raises ValueError after 200."""
    for number in range(200):
        rng = random.Random(1000 * seed + number)
        text = _drawn(rng)
        try:
            case = Case(text)
            taken = case.run(case.network)[0]
        except Exception:
            continue
        if LEAST <= taken <= MOST:
            return text
    raise ValueError("no network was found")


def _drawn(rng: random.Random) -> str:
    start = rng.choice(("flat", "seq", "seq", "tokens", "signal", "image", "image"))
    width, batch = rng.choice((8, 16, 32, 64)), rng.choice((2, 4, 8))
    side = rng.choice((16, 24, 32))
    shapes = {
        "flat": (rng.choice((256, 1024, 2048)), width),
        "seq": (batch, rng.choice((32, 64, 128)), width),
        "tokens": (batch, rng.choice((32, 64, 128))),
        "signal": (batch, min(width, 32), rng.choice((128, 256, 512))),
        "image": (batch, min(width, 16), side, side),
    }
    kind = "seq" if start == "tokens" else start
    words = [f"{start}:{'x'.join(map(str, shapes[start]))}"]
    for _ in range(rng.randint(2, 6)):
        fitting = [
            name for name, (kinds, _, _) in BLOCKS.items() if kind in kinds and (name, kind) != ("folded", "flat")
        ]
        name = rng.choices(fitting, [BLOCKS[each][1] for each in fitting])[0]
        if name == "folded":
            number = rng.randrange(100)
            seen = kind
            kind = "seq" if seen == "image" else "seq" if seen == "signal" else _unfolded(number)
            words.append(f"folded.{number}")
            continue
        words.append(f"{name}.{rng.randrange(1000)}")
    ways = [rng.choice(ENDS)]
    ways += rng.sample(RESULTS, rng.choice((0, 0, 0, 1, 2)))
    ways += rng.sample(ARGUMENTS, rng.choice((0, 0, 0, 1, 1, 2)))
    ways += ["autocast"] if rng.random() < 0.12 else []
    return f"{' '.join(words)} ; {' '.join(ways)}"


def _unfolded(number: int) -> str:
    return "signal" if random.Random(number).random() < 0.5 else "flat"


# ------------------------------------------------------------------------------------------------------------- measured
def off_by(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> tuple[float, str]:
    """The largest difference over the largest value of its tensor, and the tensor's name. For a tiny gradient, the
    divisor is at least a thousandth of the largest gradient."""
    if missing := set(found) ^ set(wanted):
        return float("inf"), f"only one has {sorted(missing)[:3]}"
    largest = {name: float(each.abs().max()) if each.numel() else 0.0 for name, each in wanted.items()}
    of_gradients = max((size for name, size in largest.items() if name.startswith("gradient")), default=0.0)
    worst, where = 0.0, ""
    for name, other in wanted.items():
        one = found[name]
        if one.shape != other.shape or one.dtype != other.dtype:
            return float("inf"), f"{name} is {one.dtype} {tuple(one.shape)}, not {other.dtype} {tuple(other.shape)}"
        if not other.numel():
            continue
        floor = 1e-3 * of_gradients if name.startswith("gradient") else 1e-6
        if torch.equal(one.isnan(), other.isnan()):
            one, other = one.nan_to_num(), other.nan_to_num()
        off = float((one.double() - other.double()).abs().max()) / max(largest[name], floor, 1e-12)
        if not off <= worst:
            worst, where = off, name
    return worst, where


def compiled(case: Case, fitted: Any = None) -> tuple[int, dict[str, torch.Tensor]]:
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=False):
        return case.run(torch.compile(case.network, dynamic=False) if fitted is None else fitted)


def within(
    text: str, share: float | str, limit: int, wanted: dict[str, torch.Tensor], loose: float, default: Case
) -> Row:
    """The row of one limit. default: the case with which torch.compile's default was measured."""
    case = Case(text)
    outside = Case(text).outside()
    row: Row = {"text": text, "share": share, "limit": limit}
    fitted: Any = None
    began = time.perf_counter()
    try:
        fitted = placewright.fit(case.network, limit, backend="inductor")
        taken, found = compiled(case, fitted)
    except placewright.InputError as error:
        row |= {"verdict": "late" if fitted is not None and fitted.graphs else "refused", "sentence": str(error)}
    except Exception:
        row |= {"verdict": "raised", "detail": traceback.format_exc()[-6000:]}
    else:
        off, where = off_by(found, wanted)
        wrong = not case.slope <= max(0.1, 4 * default.slope) if default.slope else not off <= loose
        graphs = fitted.graphs
        row |= {
            "verdict": "held" if taken <= limit else "over" if taken - outside > limit else "over-outside",
            "measured": taken,
            "planned": max((graph.plan.peak_bytes[0] for graph in graphs), default=None),
            "said": max((graph.peak_bytes for graph in graphs), default=None),
            "tried": sum(graph.num_tried for graph in graphs),
            "reruns": sum(len(graph.plan.reruns) for graph in graphs),
            "graphs": len(graphs),
            "off": off,
            "where": where,
            "slope": case.slope,
            "wrong": wrong,
        }
    return row | {"seconds": round(time.perf_counter() - began, 1)}


def rows_of(text: str, shares: Iterable[float]) -> Iterator[Row]:
    """The rows of a network: one of eager and torch.compile, one for each limit, and one for the limit that the first
    refusal names."""
    loose = 0.05 if any(word in text for word in ("autocast", "lower")) else 2e-3
    try:
        case = Case(text)
        base, expected = case.run(case.network)
    except Exception:
        yield {"text": text, "share": "none", "verdict": "void", "detail": traceback.format_exc()[-3000:]}
        return
    row: Row = {"text": text, "share": "none", "eager": base, "outside": Case(text).outside()}
    try:
        other = Case(text)
        default, wanted = compiled(other)
    except Exception:
        yield row | {"verdict": "void", "detail": traceback.format_exc()[-3000:]}
        return
    noise, where = off_by(wanted, expected)
    yield row | {"verdict": "measured", "measured": default, "off": noise, "where": where, "slope": other.slope}
    named = None
    for share in shares:
        row = within(text, share, int(share * base), wanted, loose, other)
        yield row
        sizes = re.findall(r"takes ([\d.,]+) (bytes|B|KiB|MiB|GiB)", row.get("sentence", ""))
        if sizes and named is None:
            named = int(float(sizes[-1][0].replace(",", "")) * UNITS[sizes[-1][1]] * 1.006) + 1
            if named <= base:
                yield within(text, "named", named, wanted, loose, other)


def _work(text: str | None, seed: int | None, shares: Sequence[float], sending: Any) -> None:
    """The work of one process: rows, one by one."""
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    try:
        text = random_text(seed or 0) if text is None else text
        sending.send({"text": text, "share": "begun", "verdict": "begun"})
        with torch._functorch.config.patch(enable_autograd_cache=False):
            for row in rows_of(text, shares):
                sending.send(row)
    except Exception:
        sending.send({"text": text, "share": "none", "verdict": "void", "detail": traceback.format_exc()[-3000:]})
    sending.send(None)


def measured(text: str | None, seed: int | None, shares: Sequence[float], timeout: float) -> Iterator[Row]:
    """Rows of a network, from a process of its own. If it dies or runs out of time, one more row says so."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(text, seed, shares, sending))
    process.start()
    sending.close()
    ends, last = time.monotonic() + timeout, {"text": text}
    while True:
        verdict = None
        try:
            if receiving.poll(max(0.0, ends - time.monotonic())):
                found = receiving.recv()
            else:
                verdict = "out of time"
                process.kill()
        except EOFError:
            process.join()
            verdict = f"died with {process.exitcode}"
        if verdict is not None:
            yield {"seed": seed, "text": last["text"], "share": f"after {last.get('share')}", "verdict": verdict}
        if verdict is not None or found is None:
            break
        last = found
        if found["verdict"] != "begun":
            yield {"seed": seed, **found}
    process.join()


# ----------------------------------------------------------------------------------------------------------- the table
def shrink(text: str, shares: Sequence[float], timeout: float) -> Iterator[str]:
    """Yields smaller networks: leaves out one word after another as long as a row keeps the worst verdict."""

    def signs(each: str) -> set[str]:
        found = set()
        for row in measured(each, None, shares, timeout):
            far = row["verdict"] != "over" or row["measured"] > 1.01 * row["limit"]
            found |= {row["verdict"]} if far else set()
            found |= {"wrong"} if row.get("wrong") else set()
            found |= {"said"} if row.get("said") and abs(row["said"] / row["measured"] - 1) > 0.02 else set()
        return found - {"held", "measured", "refused"}

    worst = signs(text)
    yield f"{sorted(worst)}: {text}"
    wanted = next((sign for sign in ("wrong", "raised", "over", "said") if sign in worst), None)
    again = wanted is not None
    while again:
        again = False
        words = text.split()
        for place in range(len(words) - 1, 0, -1):
            fewer = [*words[:place], *words[place + 1 :]]
            if words[place] == ";" or words[place] in ENDS:
                continue
            if wanted in signs(" ".join(fewer)):
                text, again = " ".join(fewer), True
                yield text
                break


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Verdicts by share, then every row that is not as it should be."""
    shares = sorted({str(row["share"]) for row in rows if "limit" in row})
    verdicts = Counter((row["verdict"], str(row["share"])) for row in rows)
    yield f"{len({row['text'] for row in rows})} networks\n"
    yield f"| verdict | {' | '.join(shares)} | others |\n|---|{'---:|' * (len(shares) + 1)}"
    for verdict in dict.fromkeys(row["verdict"] for row in rows):
        counts = [verdicts[verdict, share] for share in shares]
        others = sum(count for (of, _), count in verdicts.items() if of == verdict) - sum(counts)
        yield f"| {verdict} | {' | '.join(map(str, counts))} | {others} |"
    yield "\n| share | verdict | limit | planned | said | measured | said off by | gradients off | network |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---|"
    for row in rows:
        apart = row["said"] / row["measured"] - 1 if row.get("said") else 0.0
        named = row["share"] == "named" and row["verdict"] == "refused"
        fine = row["verdict"] in ("held", "refused", "measured") and abs(apart) <= 0.01 and not row.get("wrong")
        if not fine or named:
            verdict = row["verdict"] + (", wrong" if row.get("wrong") else "")
            sizes = " | ".join(str(row.get(key, "")) for key in ("limit", "planned", "said", "measured"))
            off = f"{row['off']:.1e}" if "off" in row else ""
            text = row["text"] if row.get("seed") is None else f"{row['seed']}: {row['text']}"
            yield f"| {row['share']} | {verdict} | {sizes} | {apart:+.1%} | {off} | {text} |"


def rows_in(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("output", type=Path, metavar="OUT.jsonl")
    options.add_argument("--seeds", default="0:10", metavar="FIRST:END")
    options.add_argument("--text", action="append", default=[], help="a network instead of drawn ones")
    options.add_argument("--shares", nargs="*", type=float, default=SHARES)
    options.add_argument("--timeout", type=float, default=300.0, help="seconds for a network")
    options.add_argument("--minutes", type=float, default=float("inf"), help="begin no network after these")
    options.add_argument("--shrink", metavar="TEXT")
    options.add_argument("--table", action="store_true")
    return options


def main() -> None:
    arguments = parser().parse_args()
    if arguments.shrink:
        for line in shrink(arguments.shrink, arguments.shares, arguments.timeout):
            print(line, flush=True)
        return
    first, _, last = arguments.seeds.partition(":")
    there = rows_in(arguments.output)
    seeds = [seed for seed in range(int(first), int(last)) if seed not in {row["seed"] for row in there}]
    work: list[tuple[str | None, int | None]] = [(text, None) for text in arguments.text]
    work = work or [(None, seed) for seed in seeds]
    began = time.monotonic()
    for text, seed in [] if arguments.table else work:
        if time.monotonic() - began > 60 * arguments.minutes:
            break
        # All rows of a network are written at once, so that an interrupted one is measured anew.
        rows = list(measured(text, seed, arguments.shares, arguments.timeout))
        with arguments.output.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        told = ", ".join(f"{row['share']} {row['verdict']}" for row in rows)
        print(f"{time.monotonic() - began:.0f} s, {seed}: {told}", flush=True)
    print(*table(rows_in(arguments.output)), sep="\n")


if __name__ == "__main__":
    main()
