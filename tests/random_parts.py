"""What random modules are made of: each part takes a tensor of 3 rows and 4 columns, and returns one."""

from __future__ import annotations

import collections
import dataclasses
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from random_ops import OF_VALUES, PURE, RANDOM, VIEWS, WRITES, fit
from torch import nn
from torch.nn.utils import parametrizations, parametrize, rnn
from torch.utils.checkpoint import checkpoint

PARTS: dict[str, tuple[Any, float]] = {}


def part(weight: float = 1.0) -> Callable[[Any], Any]:
    """Registers a part; the weight is how often it is drawn."""

    def register(kind: Any) -> Any:
        PARTS[kind.__name__] = (kind, weight)
        return kind

    return register


class Scene:
    """One call of a module: what its parts see beside their tensor."""

    def __init__(self, x: Any, y: Any, tokens: Any, scale: Any, mode: Any, items: Any) -> None:
        self.x, self.y, self.tokens, self.scale, self.mode, self.items = x, y, tokens, scale, mode, items
        self.pool: list[Any] = []
        self.extras: list[Any] = []


class Holder:
    """A plain object."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


@dataclasses.dataclass
class Kept:
    """A dataclass in a module."""

    tensor: Any
    number: float


Pair = collections.namedtuple("Pair", ["left", "right"])


def named(draw: random.Random, table: dict[str, Any]) -> tuple[str, Any]:
    name = draw.choice(list(table))
    return name, table[name]


class Part(nn.Module):
    """tells: what was drawn, for reports."""

    tells = ""


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


HOLDERS = ("buffer", "unsaved", "plain", "list", "dict", "object", "tuple", "dataclass", "closure", "global", "nested",
           "class", "deque", "default", "partial", "parameter", "set", "slots")  # fmt: skip


class Slots:
    """An object without a dictionary."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


@part(7)
class State(Part):
    """Reads, writes to and replaces a tensor that the module holds in some way."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        self.holder = draw.choices(HOLDERS, [3, 1, 3, 1, 1, 1, 1, 1, 2, 2, 1, 0.6, 0.4, 0.5, 0.3, 0.5, 0.4, 0.4])[0]
        self.act = draw.choices(["read", "write", "replace", "replace_view", "momentum", "swap"],
                                [3, 4, 2, 0.5, 1.5, 0.3])[0]  # fmt: skip
        self.only_training = draw.random() < 0.2
        view, self.view = named(draw, {"itself": lambda x: x, **VIEWS})
        write, self.write = named(draw, WRITES)
        self.when = draw.choice(["before", "after"])
        self.tells = f"{self.holder} {self.act} {write} {view} {self.when}"
        shape = (3, 4) if draw.random() < 0.9 else (2, 4)
        tensor = torch.rand(shape, dtype=case.dtype)
        self._make(tensor, case)

    def _make(self, tensor: Any, case: Any) -> None:
        holder = self.holder
        if holder in ("buffer", "unsaved"):
            self.register_buffer("held", tensor, persistent=holder == "buffer")
        elif holder == "plain":
            self.held = tensor
        elif holder == "parameter":
            self.held = nn.Parameter(tensor, requires_grad=False)
        elif holder in ("list", "tuple", "deque", "set"):
            self.held = {"list": list, "tuple": tuple, "deque": collections.deque, "set": set}[holder]([tensor])
        elif holder == "dict":
            self.held = {"key": tensor, "other": 3}
        elif holder == "nested":
            self.held = {"key": [Holder(inner=(tensor,))]}
        elif holder == "object":
            self.held = Holder(tensor=tensor, name="a")
        elif holder == "slots":
            self.held = Slots(tensor)
        elif holder == "dataclass":
            self.held = Kept(tensor, 0.5)
        elif holder == "class":
            self.__class__ = type("State", (State,), {"shared_by_all": tensor})
        elif holder == "closure":

            def get() -> Any:
                return tensor

            def put(value: Any) -> None:
                nonlocal tensor
                tensor = value

            self.get, self.put = get, put
        elif holder == "global":
            names = {"SHARED": tensor}
            exec("def get():\n return SHARED\ndef put(value):\n global SHARED\n SHARED = value", names)
            self.get, self.put = names["get"], names["put"]
        elif holder == "default":

            def get_default(value: Any = tensor) -> Any:
                return value

            self.get = get_default
        elif holder == "partial":
            import functools

            self.get = functools.partial(lambda value: value, tensor)
        case.outside.append(tensor)

    def _get(self) -> Any:
        holder = self.holder
        held: Any = getattr(self, "held", None)
        if holder in ("buffer", "unsaved", "plain", "parameter"):
            return held
        if holder in ("list", "tuple", "deque"):
            return held[0]
        if holder == "set":
            return next(iter(held))
        if holder == "dict":
            return held["key"]
        if holder == "nested":
            return held["key"][0].inner[0]
        if holder in ("object", "dataclass", "slots"):
            return held.tensor
        if holder == "class":
            return type(self).shared_by_all
        return self.get()

    def _put(self, value: Any) -> None:
        holder = self.holder
        if holder in ("buffer", "unsaved", "plain"):
            self.held = value
        elif holder in ("list", "deque"):
            self.held[0] = value
        elif holder == "tuple":
            self.held = (value,)
        elif holder == "set":
            self.held = {value}
        elif holder == "dict":
            self.held["key"] = value
        elif holder == "nested":
            self.held["key"][0].inner = (value,)
        elif holder in ("object", "dataclass", "slots"):
            self.held.tensor = value
        elif holder == "class":
            type(self).shared_by_all = value
        elif holder in ("closure", "global"):
            self.put(value)

    def forward(self, x: Any, scene: Any) -> Any:
        held = self._get()
        before = held * 1 if self.when == "before" else None
        if self.act != "read" and (self.training or not self.only_training):
            if self.act == "write":
                target = self.view(held)
                if target.is_floating_point():
                    with torch.no_grad():
                        self.write(target)
            elif self.act == "momentum":
                with torch.no_grad():
                    held.mul_(0.9).add_(fit(x)[: held.shape[0]], alpha=0.1)
            elif self.act == "swap":
                self._put(torch.zeros_like(held))
                self._put(held)
            elif self.act == "replace":
                self._put((held * 0.9 + x.detach()[: held.shape[0]] * 0.1).detach())
            else:
                self._put(self.view(held * 0.5).detach())
        now = self._get() if before is None else before
        return (x + fit(now).to(x.dtype)).tanh()


@part(5)
class Layer(Part):
    """A layer of PyTorch's."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        self.tells = draw.choice(list(LAYERS))
        self.layer = LAYERS[self.tells]()
        self.run = RUNS.get(self.tells, lambda layer, x, scene: layer(x))

    def forward(self, x: Any, scene: Any) -> Any:
        return fit(self.run(self.layer, x, scene)).to(x.dtype)


def _first(layer: Any, x: Any, scene: Any) -> Any:
    out, state = layer(x[None] if getattr(layer, "batch_first", False) else x[:, None])
    state = state[0] if isinstance(state, tuple) else state
    return fit(out) + fit(state)


def _packed(layer: Any, x: Any, scene: Any) -> Any:
    packed = rnn.pack_padded_sequence(torch.stack([x, x * 2]), torch.tensor([3, 2]), batch_first=True)
    out, state = layer(packed)
    padded, _ = rnn.pad_packed_sequence(out, batch_first=True)
    return fit(padded) + fit(state[0] if isinstance(state, tuple) else state)


def _stateful(layer: Any, x: Any, scene: Any) -> Any:
    out, (h, c) = layer(x[:, None], (torch.ones(2, 1, 4).to(x.dtype), torch.zeros(2, 1, 4).to(x.dtype)))
    return fit(out) + fit(h) * fit(c)


def _cell(layer: Any, x: Any, scene: Any) -> Any:
    h = layer(x)
    return h if isinstance(h, torch.Tensor) else h[0] + h[1]


def _tokens(layer: Any, x: Any, scene: Any) -> Any:
    tokens = scene.tokens if scene.tokens is not None else torch.tensor([[0, 1, 2], [2, 2, 5]])
    return fit(layer(tokens)) + x


LAYERS: dict[str, Callable[[], Any]] = {
    "linear": lambda: nn.Linear(4, 4),
    "linear_no_bias": lambda: nn.Linear(4, 5, bias=False),
    "bilinear": lambda: nn.Bilinear(4, 4, 4),
    "batch_norm": lambda: nn.BatchNorm1d(4),
    "batch_norm_frozen": lambda: nn.BatchNorm1d(4),
    "batch_norm_plain": lambda: nn.BatchNorm1d(4, affine=False, momentum=None),
    "batch_norm_no_stats": lambda: nn.BatchNorm1d(4, track_running_stats=False),
    "layer_norm": lambda: nn.LayerNorm(4),
    "group_norm": lambda: nn.GroupNorm(2, 4),
    "rms_norm": lambda: nn.RMSNorm(4),
    "instance_norm": lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
    "lstm": lambda: nn.LSTM(4, 4),
    "lstm_two": lambda: nn.LSTM(4, 4, 2, dropout=0.5),
    "lstm_both": lambda: nn.LSTM(4, 4, 2, bidirectional=True, batch_first=True, dropout=0.3),
    "lstm_proj": lambda: nn.LSTM(4, 5, proj_size=2, batch_first=True),
    "lstm_proj_drop": lambda: nn.LSTM(4, 5, 2, proj_size=2, dropout=0.4),
    "lstm_packed": lambda: nn.LSTM(4, 4, 2, dropout=0.4, batch_first=True),
    "lstm_state": lambda: nn.LSTM(4, 4, 2),
    "gru": lambda: nn.GRU(4, 4, 2, dropout=0.5),
    "gru_both": lambda: nn.GRU(4, 3, bidirectional=True, bias=False),
    "gru_packed": lambda: nn.GRU(4, 4, batch_first=True, bidirectional=True),
    "rnn": lambda: nn.RNN(4, 4, 3, dropout=0.2, batch_first=True),
    "rnn_relu": lambda: nn.RNN(4, 4, nonlinearity="relu"),
    "lstm_cell": lambda: nn.LSTMCell(4, 4),
    "gru_cell": lambda: nn.GRUCell(4, 4),
    "attention": lambda: nn.MultiheadAttention(4, 2),
    "attention_first": lambda: nn.MultiheadAttention(4, 2, batch_first=True, dropout=0.2),
    "attention_weights": lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True, kdim=4, vdim=4),
    "encoder": lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True),
    "encoder_post": lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1),
    "decoder": lambda: nn.TransformerDecoderLayer(4, 2, 8, batch_first=True),
    "embedding": lambda: nn.Embedding(6, 4),
    "embedding_pad": lambda: nn.Embedding(6, 4, padding_idx=2),
    "embedding_norm": lambda: nn.Embedding(6, 4, max_norm=0.7),
    "embedding_freq": lambda: nn.Embedding(6, 4, scale_grad_by_freq=True),
    "embedding_bag": lambda: nn.EmbeddingBag(6, 4, mode="max"),
    "embedding_bag_norm": lambda: nn.EmbeddingBag(6, 4, max_norm=0.5),
    "embedding_sparse": lambda: nn.Embedding(6, 4, sparse=True),
    "conv": lambda: nn.Conv1d(3, 3, 2, padding="same"),
    "conv_circular": lambda: nn.Conv1d(3, 3, 2, padding=1, padding_mode="circular"),
    "conv2d": lambda: nn.Conv2d(1, 2, 2, stride=2, groups=1),
    "conv_depth": lambda: nn.Conv1d(3, 6, 1, groups=3, dilation=1),
    "conv_transposed": lambda: nn.ConvTranspose1d(3, 2, 2, output_padding=0),
    "conv3d": lambda: nn.Conv3d(1, 1, (1, 2, 2)),
    "dropout": lambda: nn.Dropout(0.5),
    "dropout_in_place": lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3, inplace=True), nn.ReLU(inplace=True)),
    "alpha_dropout": lambda: nn.AlphaDropout(0.3),
    "prelu": lambda: nn.PReLU(4),
    "rrelu": lambda: nn.RReLU(),
    "weight_norm": lambda: parametrizations.weight_norm(nn.Linear(4, 4)),
    "weight_norm_old": lambda: nn.utils.weight_norm(nn.Linear(4, 4)),
    "spectral_norm": lambda: parametrizations.spectral_norm(nn.Linear(4, 4)),
    "spectral_norm_old": lambda: nn.utils.spectral_norm(nn.Linear(4, 4)),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(4, 4)),
    "parametrized": lambda: _parametrized(nn.Linear(4, 4)),
    "pruned": lambda: _pruned(nn.Linear(4, 4)),
    "no_bias_sequential": lambda: nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4)),
    "shared_twice": lambda: _shared(),
    "tied": lambda: _tied(),
    "parameter_list": lambda: _WithParameters(),
    "unused": lambda: _Unused(),
    "frozen": lambda: nn.Linear(4, 4).requires_grad_(False),
    "half_frozen": lambda: _half_frozen(),
    "bf16": lambda: nn.Linear(4, 4).bfloat16(),
    "complex": lambda: _Complex(),
    "upsample": lambda: nn.Upsample(scale_factor=2),
    "pool": lambda: nn.MaxPool1d(2, 1),
    "fractional": lambda: nn.FractionalMaxPool2d(2, output_size=(2, 2)),
    "softmax": lambda: nn.Softmax(-1),
    "adaptive_softmax": lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4]),
    "identity": lambda: nn.Identity(),
    "quantizer": lambda: torch.ao.quantization.FakeQuantize(),
    "view_parameter": lambda: _ViewParameter(),
    "flatten_weights": lambda: _flat(),
    "scripted": lambda: torch.jit.script(nn.Linear(4, 4)),
    "lazy": lambda: _lazy(),
}
RUNS: dict[str, Callable[[Any, Any, Any], Any]] = {
    **dict.fromkeys(("lstm", "lstm_two", "lstm_both", "lstm_proj", "lstm_proj_drop", "gru", "gru_both", "rnn",
                     "rnn_relu"), _first),
    **dict.fromkeys(("lstm_packed", "gru_packed"), _packed),
    "lstm_state": _stateful,
    **dict.fromkeys(("lstm_cell", "gru_cell"), _cell),
    "attention": lambda layer, x, scene: layer(x, x * 2, x)[0],
    "attention_first": lambda layer, x, scene: layer(x[None], x[None], x[None], need_weights=False)[0],
    "attention_weights": lambda layer, x, scene: fit(layer(x, x, x)[0]) + fit(layer(x, x, x)[1]),
    "encoder": lambda layer, x, scene: layer(x[None]),
    "encoder_post": lambda layer, x, scene: layer(x[:, None]),
    "decoder": lambda layer, x, scene: layer(x[None], x[None] * 2),
    **dict.fromkeys(("embedding", "embedding_pad", "embedding_norm", "embedding_freq", "embedding_sparse"), _tokens),
    **dict.fromkeys(("embedding_bag", "embedding_bag_norm"), _tokens),
    "bilinear": lambda layer, x, scene: layer(x, x.flip(0)),
    "conv2d": lambda layer, x, scene: layer(x[None, None]),
    "conv3d": lambda layer, x, scene: layer(x[None, None, None]),
    **dict.fromkeys(("conv", "conv_circular", "conv_depth", "conv_transposed", "instance_norm", "pool", "upsample"),
                    lambda layer, x, scene: layer(x[None])),
    "bf16": lambda layer, x, scene: layer(x.bfloat16()),
    "fractional": lambda layer, x, scene: layer(x[None, None]),
    "adaptive_softmax": lambda layer, x, scene: layer(x, torch.tensor([0, 3, 5]))[0],
}  # fmt: skip


class _Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2 + x.t()


def _parametrized(layer: Any) -> Any:
    parametrize.register_parametrization(layer, "weight", _Doubled())
    return layer


def _pruned(layer: Any) -> Any:
    from torch.nn.utils import prune

    prune.l1_unstructured(layer, "weight", amount=0.5)
    return layer


def _shared() -> Any:
    layer = nn.Linear(4, 4)
    return nn.Sequential(collections.OrderedDict(one=layer, tanh=nn.Tanh(), two=layer))


def _tied() -> Any:
    both = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    both[2].weight = both[0].weight
    return both


class _WithParameters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.several = nn.ParameterList([torch.rand(4), torch.rand(4), torch.rand(3, 1)])
        self.by_name = nn.ParameterDict({"a": torch.rand(4), "unused": torch.rand(2)})
        self.none = None
        self.register_parameter("bias", None)
        self.register_buffer("mask", None)

    def forward(self, x: Any) -> Any:
        for parameter in self.several:
            x = x * parameter
        return x + self.by_name["a"]


class _Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)
        self.dead = nn.Parameter(torch.ones(4))

    def forward(self, x: Any) -> Any:
        self.unused(x)
        return self.used(x) + self.dead.detach() + 0 * self.dead.sum()


def _half_frozen() -> Any:
    layer = nn.Linear(4, 4)
    layer.weight.requires_grad_(False)
    return layer


class _Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))

    def forward(self, x: Any) -> Any:
        return (x.to(torch.complex64) @ self.weight).abs()


class _ViewParameter(nn.Module):
    """Two parameters in one memory, one of them transposed."""

    def __init__(self) -> None:
        super().__init__()
        whole = torch.rand(4, 8)
        self.left, self.right = nn.Parameter(whole[:, :4]), nn.Parameter(whole[:, 4:].t())

    def forward(self, x: Any) -> Any:
        return x @ self.left + x @ self.right


def _flat() -> Any:
    """Parameters that are views of one vector."""
    layer = nn.Linear(4, 4)
    flat = torch.cat([layer.weight.detach().reshape(-1), layer.bias.detach()])
    layer.weight.data, layer.bias.data = flat[:16].view(4, 4), flat[16:]
    layer.flat = flat
    return layer


def _lazy() -> Any:
    layer = nn.LazyLinear(4)
    layer(torch.ones(1, 4))
    return layer


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
    """Its backward draws, and reads the gradient mode."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * (torch.rand(4).to(gradient.dtype) if not torch.is_grad_enabled() else 1)


_SEEN: list[int] = []


class _Impure(torch.autograd.Function):
    """Its backward puts something in a list."""

    @staticmethod
    def forward(ctx: Any, x: Any, seen: Any) -> Any:
        ctx.seen = seen
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        ctx.seen.append(1)
        return gradient * len(ctx.seen), None


class _Broadcast(torch.autograd.Function):
    """Returns its input, and has one that is none of its tensors."""

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


@part(2)
class Python(Part):
    """Keeps, counts and draws in Python."""

    def __init__(self, draw: random.Random, case: Any) -> None:
        super().__init__()
        choices = [
            "read",
            "first",
            "restored",
            "same",
            "try",
            "generator",
            "args",
            "local",
            "counter",
            "list",
            "random",
            "numpy",
            "seed",
            "keeps",
            "outside",
            "print",
            "attribute",
            "deletes",
            "tensor_counter",
            "mode",
            "iterator",
            "own_random",
            "own_numpy",
            "nonlocal",
            "class_counter",
            "seed_again",
            "get_state",
            "default_list",
        ]
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
        kinds = [
            "state_dict",
            "load",
            "tensor_in_forward",
            "forward",
            "pre",
            "backward",
            "parameter",
            "post_accumulate",
        ]
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
        self.tells = draw.choice(
            [
                "bound",
                "overridden",
                "partial",
                "getattr",
                "property",
                "recursive",
                "module_call",
                "tensor_subclass",
                "parameter_made",
                "list_of_modules",
                "hidden",
                "call_unbound",
            ]
        )
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
