"""Parts that take one of two ways, and that compute under a context manager of PyTorch's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from random_network.parts import Part, part
from torch import nn
from torch.utils.checkpoint import checkpoint


@part(4)
class Control(Part):
    """Takes another way by what Python knows."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        self.tells = draw.choice(list(CONDITIONS))
        self.condition = CONDITIONS[self.tells]
        self.number, self.flag, self.name = draw.randrange(3), draw.random() < 0.5, draw.choice("ab")
        self.one, self.two = nn.Linear(4, 4).to(case.dtype), nn.Linear(4, 4).to(case.dtype)

    def forward(self, x: Any, scene: Any) -> Any:
        return self.one(x) if self.condition(self, x, scene) else self.two(x).tanh()


CONDITIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "number": lambda own, x, scene: own.number > 1,
    "flag": lambda own, x, scene: own.flag,
    "name": lambda own, x, scene: own.name == "a",
    "training": lambda own, x, scene: own.training,
    "grad": lambda own, x, scene: torch.is_grad_enabled(),
    "requires_grad": lambda own, x, scene: x.requires_grad,
    "x_requires_grad": lambda own, x, scene: scene.x.requires_grad,
    "autocast": lambda own, x, scene: torch.is_autocast_enabled("cpu"),
    "shape": lambda own, x, scene: scene.x.shape[0] > 3,
    "contiguous": lambda own, x, scene: x.is_contiguous(),
    "x_contiguous": lambda own, x, scene: scene.x.is_contiguous(),
    "stride": lambda own, x, scene: scene.x.stride(0) == 4,
    "offset": lambda own, x, scene: scene.x.storage_offset() > 0,
    "dtype": lambda own, x, scene: x.dtype == torch.float64,
    "default_dtype": lambda own, x, scene: torch.get_default_dtype() == torch.float32,
    "mode": lambda own, x, scene: scene.mode == "b",
    "y": lambda own, x, scene: scene.y is None,
    "y_is_x": lambda own, x, scene: scene.y is scene.x,
    "scale": lambda own, x, scene: isinstance(scene.scale, float) and scene.scale > 0.5,
    "items": lambda own, x, scene: bool(scene.items),
    "is_parameter": lambda own, x, scene: isinstance(scene.x, nn.Parameter),
    "frozen": lambda own, x, scene: own.one.weight.requires_grad,
    "threads": lambda own, x, scene: torch.get_num_threads() > 1,
    "is_compiling": lambda own, x, scene: torch.compiler.is_compiling(),
    "is_tracing": lambda own, x, scene: torch.jit.is_tracing() or torch.compiler.is_exporting(),
    "hooks": lambda own, x, scene: bool(own._forward_hooks),
    "deterministic": lambda own, x, scene: torch.are_deterministic_algorithms_enabled(),
    "hash": lambda own, x, scene: scene.x in {scene.x: 1},
    "backend": lambda own, x, scene: torch.backends.mkldnn.enabled,
}


@part(4)
class Region(Part):
    """Computes under a context manager of PyTorch's."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        self.tells = draw.choice(list(REGIONS))
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.3 if draw.random() < 0.5 else 0.0),
                                   nn.Linear(4, 4)).to(case.dtype)  # fmt: skip

    def forward(self, x: Any, scene: Any) -> Any:
        return REGIONS[self.tells](self.inner, x).to(x.dtype) + x * 0.1


def _under(context: Callable[[], Any]) -> Callable[[Any, Any], Any]:
    def run(inner: Any, x: Any) -> Any:
        with context():
            return inner(x)

    return run


def _enabled_within(inner: Any, x: Any) -> Any:
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            y = inner(y)
    return y


def _autograd_within(inner: Any, x: Any) -> Any:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(inner(x).sum(), x)
    return gradient


def _penalty(inner: Any, x: Any) -> Any:
    if not torch.is_grad_enabled():
        return x
    x = x * 1
    if not x.requires_grad:
        x.requires_grad_()
    (gradient,) = torch.autograd.grad(inner(x).sum(), x, create_graph=True)
    return gradient * 2 + x


def _saved_hooks(inner: Any, x: Any) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        return inner(x)


def _default_dtype(inner: Any, x: Any) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        y = torch.ones(4)
    finally:
        torch.set_default_dtype(before)
    return inner(x) * y


REGIONS: dict[str, Callable[[Any, Any], Any]] = {
    "no_grad": _under(torch.no_grad),
    "enable_grad": _under(torch.enable_grad),
    "disabled": _under(lambda: torch.set_grad_enabled(False)),
    "enabled_within": _enabled_within,
    "autocast": _under(lambda: torch.autocast("cpu", torch.bfloat16)),
    "autocast_off": _under(lambda: torch.autocast("cpu", enabled=False)),
    "autograd_within": _autograd_within,
    "penalty": _penalty,
    "inference": lambda inner, x: _under(torch.inference_mode)(inner, x).clone(),
    "checkpoint": lambda inner, x: checkpoint(inner, x, use_reentrant=False),
    "checkpoint_reentrant": lambda inner, x: checkpoint(inner, x, use_reentrant=True),
    "checkpoint_not_kept": lambda inner, x: checkpoint(inner, x, use_reentrant=False, preserve_rng_state=False),
    "checkpoint_sequential": lambda inner, x: torch.utils.checkpoint.checkpoint_sequential(
        inner, 2, x, use_reentrant=False
    ),
    "functional_call": lambda inner, x: torch.func.functional_call(
        inner, {name: value * 2 for name, value in inner.named_parameters()}, (x,)
    ),
    "saved_hooks": _saved_hooks,
    "deterministic": lambda inner, x: inner(x),
    "default_dtype": _default_dtype,
    "device": _under(lambda: torch.device("cpu")),
    "double": lambda inner, x: inner(x.double().to(x.dtype)).double(),
    "fork_rng": _under(lambda: torch.random.fork_rng(devices=[])),
    "detach": lambda inner, x: inner(x.detach()),
    "stop": lambda inner, x: inner(x).detach(),
    "straight_through": lambda inner, x: x + (inner(x) - x).detach(),
    "profiler": lambda inner, x: _under(lambda: torch.profiler.record_function("here"))(inner, x),
    "sdpa_kernel": lambda inner, x: (
        inner(x)
        + F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.2 if inner.training else 0.0)[0]
    ),
}
