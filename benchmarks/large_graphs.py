"""Graphs of any number of ops, the same each time: a transformer trained on many microbatches, and wide random layers.

The layers repeat, as real large graphs do: a transformer's step is so many ops because its layers and microbatches are
unrolled. Random layers are so wide that work divided over the devices is nearly reached: they show how far a method is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placewright.graph import Graph, Op, Phase, Tensor

#: Approximate number of scheduled ops of one layer in one microbatch.
_OPS_PER_LAYER = 28
_TOKENS, _HIDDEN, _HEADS = 512, 512, 8
_BYTES = 2


class _Builder:
    """A graph while it grows: ops append their one result."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.tensors: list[Tensor] = []
        self.phase: Phase = "forward"
        self.module = ""

    def tensor(self, name: str, columns: int, *, rows: int = _TOKENS, **rest: Any) -> int:
        self.tensors.append(
            Tensor(name=name, size_bytes=rows * columns * _BYTES, shape=(rows, columns), dtype="bfloat16", **rest)
        )
        return len(self.tensors) - 1

    def op(self, what: str, kind: str, inputs: Sequence[int], columns: int, *, rows: int = _TOKENS, **rest: Any) -> int:
        """Adds an op named after the module and what it does; returns the tensor it makes."""
        name = f"{self.module}.{what}" if self.module else what
        out = self.tensor(name, columns, rows=rows, alias_of=rest.pop("alias_of", None))
        self.ops.append(
            Op(
                name=name,
                kind=kind,
                inputs=tuple(inputs),
                outputs=(out,),
                module=self.module,
                phase=self.phase,
                attributes=rest,
            )
        )
        return out

    def matmul(self, what: str, inputs: Sequence[int], m: int, n: int, k: int) -> int:
        return self.op(what, "matmul", inputs, n, rows=m, batch=1, m=m, n=n, k=k)


_WEIGHTS = {"qkv": (_HIDDEN, 3 * _HIDDEN), "out": (_HIDDEN, _HIDDEN), "up": (_HIDDEN, 4 * _HIDDEN),
            "down": (4 * _HIDDEN, _HIDDEN)}  # fmt: skip


def transformer(num_ops: int, num_layers: int = 24) -> Graph:
    """One training step with about so many ops: as many microbatches as that makes, run one after another in captured
    order; gradients add up over them, and an in-place update ends the step."""
    builder = _Builder()
    weights = [
        {
            name: builder.tensor(f"layer{layer}.{name}.weight", columns, rows=rows, role="parameter")
            for name, (rows, columns) in _WEIGHTS.items()
        }
        for layer in range(num_layers)
    ]
    gradients: list[dict[str, int]] = [{} for _ in weights]
    for batch in range(max(1, num_ops // (_OPS_PER_LAYER * num_layers))):
        builder.module, builder.phase = f"batch{batch}", "forward"
        x = builder.op("tokens", "input", (), _HIDDEN)
        saved = []
        for layer, own in enumerate(weights):
            builder.module = f"batch{batch}.layer{layer}"
            x, kept = _forward(builder, x, own)
            saved.append(kept)
        builder.module, builder.phase = f"batch{batch}", "backward"
        dx = builder.op("loss", "elementwise", (x,), _HIDDEN)
        for layer in reversed(range(num_layers)):
            builder.module = f"batch{batch}.layer{layer}"
            dx = _backward(builder, dx, weights[layer], saved[layer], gradients[layer])
    builder.phase = "optimizer"
    for layer, own in enumerate(weights):
        builder.module = f"layer{layer}"
        for name, (rows, columns) in _WEIGHTS.items():
            inputs = (own[name], gradients[layer][name])
            builder.op(f"{name}.update", "optimizer", inputs, columns, rows=rows, function="sgd", alias_of=own[name])
    return Graph(name=f"transformer-{num_ops}", ops=tuple(builder.ops), tensors=tuple(builder.tensors))


def _forward(b: _Builder, x: int, weight: dict[str, int]) -> tuple[int, dict[str, int]]:
    """A layer's result, and what its gradients need."""
    t, h = _TOKENS, _HIDDEN
    kept = {"x": x, "n1": b.op("norm1", "normalization", (x,), h)}
    qkv = b.matmul("qkv", (kept["n1"], weight["qkv"]), t, 3 * h, h)
    kept["heads"] = b.op("heads", "view", (qkv,), 3 * h, alias_of=qkv)
    kept["attended"] = b.op("attention", "attention", (kept["heads"],), h, **_ATTENTION)
    out = b.matmul("out", (kept["attended"], weight["out"]), t, h, h)
    kept["y"] = b.op("add1", "elementwise", (x, out), h)
    kept["n2"] = b.op("norm2", "normalization", (kept["y"],), h)
    kept["up"] = b.matmul("up", (kept["n2"], weight["up"]), t, 4 * h, h)
    kept["gelu"] = b.op("gelu", "elementwise", (kept["up"],), 4 * h, function="gelu")
    down = b.matmul("down", (kept["gelu"], weight["down"]), t, h, 4 * h)
    return b.op("add2", "elementwise", (kept["y"], down), h), kept


_ATTENTION = {"batch": 1, "heads": _HEADS, "query_length": _TOKENS, "key_length": _TOKENS,
              "head_dim": _HIDDEN // _HEADS, "value_dim": _HIDDEN // _HEADS}  # fmt: skip


def _backward(b: _Builder, dy: int, weight: dict[str, int], kept: dict[str, int], gradient: dict[str, int]) -> int:
    """The gradient of a layer's input; adds those of its weights to what earlier microbatches made."""
    t, h = _TOKENS, _HIDDEN

    def weight_gradient(name: str, read: int, d: int) -> None:
        rows, columns = _WEIGHTS[name]
        own = b.matmul(f"{name}.dw", (read, d), rows, columns, t)
        if name in gradient:
            own = b.op(f"{name}.sum", "elementwise", (gradient[name], own), columns, rows=rows)
        gradient[name] = own

    d = b.matmul("down.dx", (dy, weight["down"]), t, 4 * h, h)
    weight_gradient("down", kept["gelu"], dy)
    d_up = b.op("gelu.dx", "elementwise", (d, kept["up"]), 4 * h, function="gelu")
    d = b.matmul("up.dx", (d_up, weight["up"]), t, h, 4 * h)
    weight_gradient("up", kept["n2"], d_up)
    d = b.op("norm2.dx", "normalization_backward", (d, kept["y"]), h)
    d_out = b.op("add2.dx", "elementwise", (d, dy), h)
    d = b.matmul("out.dx", (d_out, weight["out"]), t, h, h)
    weight_gradient("out", kept["attended"], d_out)
    d_qkv = b.op("attention.dx", "attention_backward", (d, kept["heads"]), 3 * h, **_ATTENTION)
    d = b.matmul("qkv.dx", (d_qkv, weight["qkv"]), t, h, 3 * h)
    weight_gradient("qkv", kept["n1"], d_qkv)
    d = b.op("norm1.dx", "normalization_backward", (d, kept["x"]), h)
    return b.op("add1.dx", "elementwise", (d, d_out), h)


def random_layers(num_ops: int, width: int = 512, seed: int = 0) -> Graph:
    """Layers of `width` ops; each op reads one to three ops near it in the layer before. Times of 20 to 200 us and
    tensors of up to 256 KiB, as kernels have."""
    random = np.random.default_rng(seed)
    time_ns = random.integers(20_000, 200_000, num_ops).tolist()
    sizes = random.integers(1, 2**18, num_ops).tolist()
    reads = random.integers(1, 4, num_ops).tolist()
    offsets = random.integers(-3, 4, (num_ops, 3))
    columns = (np.arange(num_ops)[:, None] + offsets) % width
    before = (np.arange(num_ops)[:, None] // width - 1) * width + columns
    ops = tuple(
        Op(
            name=f"op{index}",
            kind="other",
            inputs=tuple(dict.fromkeys(row[:count])) if index >= width else (),
            outputs=(index,),
            time_ns=time,
        )
        for index, (row, count, time) in enumerate(zip(before.tolist(), reads, time_ns, strict=True))
    )
    tensors = tuple(Tensor(name=f"op{index}", size_bytes=size) for index, size in enumerate(sizes))
    return Graph(name=f"layers-{num_ops}", ops=ops, tensors=tensors)
