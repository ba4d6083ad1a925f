"""The same networks written for JAX and for PyTorch, so that the graphs of both importers can be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import lax
from torch import nn

from placewright.costs.flops import NoFormulaError, count_flops
from placewright.graph import Graph


def flops_of(graph: Graph) -> int:
    """Operations of all ops that have a formula."""
    total = 0
    for op in graph.ops:
        try:
            total += count_flops(op, [graph.tensors[t] for t in op.inputs], [graph.tensors[t] for t in op.outputs])
        except NoFormulaError:
            continue
    return total


def floats(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


@dataclass(frozen=True)
class Twin:
    """One network twice. loss: in JAX, of weights and arguments. module: makes its PyTorch twin, which takes inputs."""

    loss: Callable[..., Any]
    weights: Any
    arguments: tuple[Any, ...]
    module: Callable[[], nn.Module]
    inputs: tuple[Any, ...]


def mlp_loss(weights: Any, x: Any) -> Any:
    for weight, bias in weights[:-1]:
        with jax.named_scope("hidden"):
            x = jax.nn.relu(x @ weight + bias)
    weight, bias = weights[-1]
    return jnp.mean(x @ weight + bias)


def mlp() -> Twin:
    widths = [256, 512, 512, 128]
    pairs = list(pairwise(widths))
    return Twin(
        loss=mlp_loss,
        weights=[(floats(before, after), floats(after)) for before, after in pairs],
        arguments=(floats(64, 256),),
        module=lambda: nn.Sequential(*[layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())][:-1]),
        inputs=(torch.zeros(64, 256),),
    )


_IMAGE = ("NCHW", "OIHW", "NCHW")


def cnn_loss(weights: Any, x: Any) -> Any:
    for kernel, stride, groups in ((weights["a"], 1, 1), (weights["b"], 2, 1), (weights["c"], 1, 4)):
        x = lax.conv_general_dilated(
            x, kernel, (stride, stride), [(1, 1), (1, 1)], dimension_numbers=_IMAGE, feature_group_count=groups
        )
        x = jax.nn.relu(x)
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return jnp.mean(x.reshape(x.shape[0], -1) @ weights["head"])


def cnn() -> Twin:
    return Twin(
        loss=cnn_loss,
        weights={
            "a": floats(32, 16, 3, 3),
            "b": floats(64, 32, 3, 3),
            "c": floats(64, 16, 3, 3),
            "head": floats(64 * 64, 10),
        },
        arguments=(floats(8, 16, 32, 32),),
        module=lambda: nn.Sequential(
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1, groups=4, bias=False),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 64, 10, bias=False),
        ),
        inputs=(torch.zeros(8, 16, 32, 32),),
    )


def attention(weights: Any, x: Any, heads: int = 4) -> Any:
    batch, length, width = x.shape
    split = [(x @ weights[name]).reshape(batch, length, heads, width // heads) for name in "qkv"]
    query, key, value = (each.transpose(0, 2, 1, 3) for each in split)
    scores = jax.nn.softmax(query @ key.transpose(0, 1, 3, 2) / 8.0, axis=-1)
    return (scores @ value).transpose(0, 2, 1, 3).reshape(batch, length, width) @ weights["o"]


def norm(x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def transformer_loss(weights: Any, x: Any) -> Any:
    for number, layer in enumerate(weights):
        with jax.named_scope(f"layer_{number}"):
            with jax.named_scope("attention"):
                x = x + attention(layer, norm(x))
            x = x + jax.nn.relu(norm(x) @ layer["up"]) @ layer["down"]
    return jnp.mean(x)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({name: nn.Linear(width, width, bias=False) for name in "qkvo"})
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        normed = nn.functional.layer_norm(x, (width,))
        split = [self.parts[name](normed).view(batch, length, 4, width // 4).transpose(1, 2) for name in "qkv"]
        scores = torch.softmax(split[0] @ split[1].transpose(-1, -2) / 8.0, -1)
        x = x + self.parts["o"]((scores @ split[2]).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.relu(self.up(nn.functional.layer_norm(x, (width,)))))


def transformer() -> Twin:
    width = 256
    layer = {**{name: floats(width, width) for name in "qkvo"}, "up": floats(width, 4 * width)}
    return Twin(
        loss=transformer_loss,
        weights=[{**layer, "down": floats(4 * width, width)} for _ in range(2)],
        arguments=(floats(2, 128, width),),
        module=lambda: nn.Sequential(Block(width), Block(width)),
        inputs=(torch.zeros(2, 128, width),),
    )


TWINS = {"mlp": mlp, "cnn": cnn, "transformer": transformer}
