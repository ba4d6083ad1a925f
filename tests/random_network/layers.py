"""A part that is a layer of PyTorch's, and its ways of being called."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from typing import Any

import torch
from random_network.ops import fit
from random_network.parts import Part, part
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, rnn


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
