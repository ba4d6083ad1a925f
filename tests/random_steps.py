"""Random training steps: blocks one after the other, and a loss, some of which cannot be computed sample by sample."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Forward = Callable[["Step", Any, Any], Any]


class Block(nn.Module):
    """A function with the layers that it uses."""

    def __init__(self, function: Callable[..., Any], **layers: Any) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            if isinstance(layer, torch.Tensor) and not isinstance(layer, nn.Parameter):
                self.register_buffer(name, layer)
            else:
                setattr(self, name, layer)

    def forward(self, x: Any, given: dict[str, Any]) -> Any:
        return self.function(self, x, given)


class Sizes:
    """Random sizes of one step: samples, tokens of each, channels, words."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.samples = draw.choice((2, 3, 4, 4, 4, 5, 6, 6, 8))
        self.tokens = draw.choice((1, 2, 3, 4, 4, 6))
        self.channels = draw.choice((2, 4, 4, 6, 8))
        if draw.random() < 0.2:
            self.tokens = self.channels = self.samples = draw.choice((4, 6))
        self.words = draw.choice((5, 7, self.channels))


def _backward(change: Callable[[Any], Any]) -> Any:
    """A function that returns a copy of its argument and whose backward is `change`."""

    class Changed(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return change(gradient)

    return Changed.apply


class Saved(torch.autograd.Function):
    """A function whose backward reads what forward saved, and is linear."""

    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        context.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        (x,) = context.saved_tensors
        return gradient * x * 2 + gradient


BACKWARDS: dict[str, Callable[[Any], Any]] = {
    "clip": lambda g: g.clamp(-0.01, 0.01),
    "clip_norm": lambda g: g / (g.norm() + 1e-3),
    "clip_of_sample": lambda g: g / (g.flatten(1).norm(dim=1).view(-1, *[1] * (g.dim() - 1)) + 1e-3),
    "sign": lambda g: g.sign(),
    "positive": lambda g: g.relu(),
    "absolute": lambda g: g.abs(),
    "square": lambda g: g * g,
    "affine": lambda g: g + 1,
    "constant": lambda g: torch.ones_like(g),
    "filled": lambda g: g.masked_fill(torch.ones_like(g).cumsum(-1) > 1, 0.5),
    "where": lambda g: torch.where(g > 0, g, g * 0.1),
    "maximum": lambda g: torch.maximum(g, -g * 0.5),
    "reversed": lambda g: -g,
    "centred": lambda g: g - g.mean(0, keepdim=True),
    "mixed": lambda g: g.flip(0),
    "summed": lambda g: g.cumsum(0),
    "softmax": lambda g: g.softmax(-1),
    "softmax_of_batch": lambda g: g.softmax(0),
    "power": lambda g: g.pow(3),
    "tanh": lambda g: g.tanh(),
    "sorted": lambda g: g.sort(0)[0],
    "largest": lambda g: g * (g.abs() >= g.abs().amax()),
    "rounded": lambda g: (g * 100).round() / 100,
    "cast": lambda g: g.float().double(),
    "whole": lambda g: (g * 100).long().double(),
    "nan_to_num": lambda g: torch.nan_to_num(g, nan=0.0),
    "divides": lambda g: 0.01 / (g + 10),
    "scaled": lambda g: g * 3 / 2,
    "exponential": lambda g: g * g.exp(),
}


def _heads(x: Any, heads: int) -> Any:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _attention(sizes: Sizes) -> Block:
    draw, width = sizes.draw, sizes.channels
    heads = draw.choice([each for each in (1, 2) if width % each == 0])
    way = draw.choice(("plain", "causal", "padding", "square", "all", "manual", "manual_causal"))

    def function(self: Any, x: Any, given: dict[str, Any]) -> Any:
        q, k, v = (_heads(each, heads) for each in self.qkv(x).chunk(3, -1))
        mask = None
        if way == "padding":
            mask = torch.where(given["kept"], 0.0, -5.0)[:, None, None].to(x.dtype)
        elif way == "square":
            mask = given["square"]
        elif way == "all":
            mask = given["square"].expand(len(x), 1, -1, -1)
        if way.startswith("manual"):
            scores = q @ k.transpose(-1, -2)
            if way == "manual_causal":
                ones = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
                scores = scores.masked_fill(~ones, -1e4)
            found = scores.softmax(-1) @ v
        else:
            found = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=way == "causal")
        return x + self.out(found.transpose(1, 2).flatten(2))

    return Block(function, qkv=nn.Linear(width, 3 * width), out=nn.Linear(width, width))


def _of_layer(
    make: Callable[[Sizes], nn.Module], after: Callable[[Any], Any] = lambda x: x
) -> Callable[[Sizes], Block]:
    return lambda sizes: Block(lambda self, x, given: after(self.layer(x)), layer=make(sizes))


def _plain(function: Callable[[Any, dict[str, Any]], Any]) -> Callable[[Sizes], Block]:
    return lambda sizes: Block(lambda self, x, given: function(x, given))


def _image(sizes: Sizes) -> Block:
    """Each sample as an image of one channel."""
    way = sizes.draw.choice(("conv", "norm", "pool", "up", "strided", "transposed"))
    layers: dict[str, Any] = {"first": nn.Conv2d(1, 4, 3, padding=1), "last": nn.Conv2d(4, 1, 1)}
    if way == "norm":
        layers["norm"] = nn.GroupNorm(2, 4)
    if way == "transposed":
        layers["turned"] = nn.ConvTranspose2d(4, 4, 1)

    def function(self: Any, x: Any, given: dict[str, Any]) -> Any:
        image = self.first(x.unsqueeze(1))
        if way == "norm":
            image = self.norm(image).relu()
        elif way == "pool":
            image = functional.max_pool2d(image, 3, 1, 1)
        elif way == "up":
            image = functional.avg_pool2d(functional.interpolate(image, scale_factor=2), 2)
        elif way == "strided":
            image = image + functional.adaptive_avg_pool2d(image, 1)
        elif way == "transposed":
            image = self.turned(image).sigmoid()
        return x + self.last(image).squeeze(1)

    return Block(function, **layers)


def _loop(sizes: Sizes) -> Block:
    def function(self: Any, x: Any, given: dict[str, Any]) -> Any:
        state, found = torch.zeros_like(x[:, 0]), []
        for token in range(x.shape[1]):
            state = self.cell(x[:, token], state)
            found.append(state)
        return torch.stack(found, 1)

    return Block(function, cell=nn.GRUCell(sizes.channels, sizes.channels))


def _in_buffer(sizes: Sizes) -> Block:
    way = sizes.draw.choice(("mean", "count", "last", "largest"))

    def function(self: Any, x: Any, given: dict[str, Any]) -> Any:
        if way == "mean":
            self.held.mul_(0.9).add_(x.detach().mean((0, 1)), alpha=0.1)
        elif way == "count":
            self.held.add_(1)
        elif way == "last":
            self.held.copy_(x.detach()[-1, -1])
        else:
            self.held.copy_(torch.maximum(self.held, x.detach().amax((0, 1))))
        return x + self.held if sizes.samples % 2 else x

    return Block(function, held=torch.zeros(sizes.channels))


def _with_gradient(sizes: Sizes) -> Block:
    name = sizes.draw.choice(sorted(BACKWARDS))
    change = _backward(BACKWARDS[name])
    block = Block(lambda self, x, given: change(x))
    block.tells = name
    return block


def _one_by_one(x: Any, given: dict[str, Any]) -> Any:
    return torch.stack([each * (number + 1) for number, each in enumerate(x)])


def _mixture(sizes: Sizes) -> Block:
    """Two experts, of which the gate's best is added with its weight."""

    def function(self: Any, x: Any, given: dict[str, Any]) -> Any:
        weights, best = self.gate(x).softmax(-1).topk(1, -1)
        found = torch.stack([expert(x) for expert in self.experts], -2)
        return x + found.gather(-2, best.unsqueeze(-1).expand(*best.shape, x.shape[-1])).squeeze(-2) * weights

    experts = nn.ModuleList(nn.Linear(sizes.channels, sizes.channels) for _ in range(2))
    return Block(function, gate=nn.Linear(sizes.channels, 2), experts=experts)


def _swapped(x: Any, given: dict[str, Any]) -> Any:
    half = len(x) // 2
    first, second, rest = x[:half], x[half : 2 * half], x[2 * half :]
    return torch.cat([second * first.sigmoid(), first, rest])


def _paired(x: Any, given: dict[str, Any]) -> Any:
    if len(x) % 2:
        return x
    pairs = x.view(len(x) // 2, 2, *x.shape[1:])
    return (pairs - pairs.mean(1, keepdim=True)).view(x.shape)


BLOCKS: dict[str, Callable[[Sizes], Block]] = {
    "linear": _of_layer(lambda s: nn.Linear(s.channels, s.channels), torch.tanh),
    "perceptron": _of_layer(
        lambda s: nn.Sequential(nn.Linear(s.channels, 8), nn.GELU(), nn.Linear(8, s.channels)), lambda x: x * 0.5
    ),
    "residual": lambda s: Block(
        lambda self, x, given: x + self.layer(self.norm(x)).relu(),
        layer=nn.Linear(s.channels, s.channels, bias=False),
        norm=nn.LayerNorm(s.channels),
    ),
    "norm_of_all": _of_layer(lambda s: nn.LayerNorm([s.tokens, s.channels])),
    "root_mean_square": _of_layer(lambda s: nn.RMSNorm(s.channels)),
    "group_norm": lambda s: Block(
        lambda self, x, given: self.norm(x.transpose(1, 2)).transpose(1, 2), norm=nn.GroupNorm(2, s.channels)
    ),
    "batch_norm": lambda s: Block(
        lambda self, x, given: self.norm(x.transpose(1, 2)).transpose(1, 2), norm=nn.BatchNorm1d(s.channels)
    ),
    "instance_norm": lambda s: Block(
        lambda self, x, given: self.norm(x) if x.shape[2] > 1 else x, norm=nn.InstanceNorm1d(s.tokens)
    ),
    "attention": _attention,
    "image": _image,
    "convolution": lambda s: Block(
        lambda self, x, given: self.layer(x.transpose(1, 2)).transpose(1, 2).sigmoid(),
        layer=nn.Conv1d(s.channels, s.channels, 3, padding=1, groups=s.draw.choice((1, 2))),
    ),
    "loop": _loop,
    "mixture": _mixture,
    "dropout": _of_layer(lambda s: nn.Dropout(0.3)),
    "dropout_of_samples": _plain(lambda x, given: functional.dropout1d(x, 0.3)),
    "shared": lambda s: Block(
        lambda self, x, given: self.layer(self.layer(x).relu()), layer=nn.Linear(s.channels, s.channels)
    ),
    "embedded": lambda s: Block(
        lambda self, x, given: x + self.table(given["words"]),
        table=nn.Embedding(
            s.words, s.channels, padding_idx=s.draw.choice((None, 0)), scale_grad_by_freq=s.draw.random() < 0.3
        ),
    ),
    "positions": lambda s: Block(
        lambda self, x, given: x + self.table[: x.shape[1]], table=nn.Parameter(torch.randn(8, s.channels))
    ),
    "of_class": lambda s: Block(
        lambda self, x, given: x + self.table.expand(len(x), -1, -1), table=nn.Parameter(torch.randn(1, 1, s.channels))
    ),
    "gradient": _with_gradient,
    "saved": _plain(lambda x, given: Saved.apply(x)),
    "buffer": _in_buffer,
    "detached": _plain(lambda x, given: x * x.detach().sigmoid()),
    "stopped": _plain(lambda x, given: x.detach() + x.detach().tanh() - x),
    "kept": _plain(lambda x, given: x * given["kept"].unsqueeze(-1)),
    "softmax": _plain(lambda x, given: x.softmax(-1)),
    "softmax_of_tokens": _plain(lambda x, given: x.softmax(1)),
    "softmax_of_batch": _plain(lambda x, given: x.softmax(0)),
    "sum_of_batch": _plain(lambda x, given: x.cumsum(0) * 0.3),
    "sum_of_tokens": _plain(lambda x, given: x.cumsum(1) * 0.3),
    "flipped": _plain(lambda x, given: x.flip(0)),
    "rolled": _plain(lambda x, given: x + x.roll(1, 0)),
    "rolled_tokens": _plain(lambda x, given: x + x.roll(1, 1)),
    "sorted": _plain(lambda x, given: x.sort(0)[0]),
    "mixed": _plain(lambda x, given: 0.7 * x + 0.3 * x[given["order"]]),
    "centred": _plain(lambda x, given: x - x.mean(0, keepdim=True)),
    "standard": _plain(lambda x, given: (x - x.mean()) / (x.std() + 0.1)),
    "by_largest": _plain(lambda x, given: x / (x.abs().max() + 1)),
    "by_number": _plain(lambda x, given: x / len(x)),
    "numbered": _plain(lambda x, given: x + torch.arange(len(x), dtype=x.dtype)[:, None, None]),
    "swapped": _plain(_swapped),
    "paired": _plain(_paired),
    "one_by_one": _plain(_one_by_one),
    "tokens_first": lambda s: Block(
        lambda self, x, given: self.layer(x.transpose(0, 1).contiguous()).relu().transpose(0, 1),
        layer=nn.Linear(s.channels, s.channels),
    ),
    "turned": _plain(lambda x, given: x.transpose(1, 2).reshape(x.shape)),
    "samples_turned": _plain(lambda x, given: x.transpose(0, 2).reshape(x.shape)),
    "of_first": _plain(lambda x, given: x + x[:1]),
    "of_last": _plain(lambda x, given: x + x[-1]),
    "of_others": _plain(lambda x, given: x + torch.einsum("btc,dtc,dte->bte", x, x, x) / len(x)),
    "two_layers": lambda s: Block(
        lambda self, x, given: self.a(x) * self.b(x).sigmoid(),
        a=nn.Linear(s.channels, s.channels),
        b=nn.Linear(s.channels, s.channels),
    ),
    "branch": _plain(lambda x, given: torch.where(x.mean() > 0, x, x * 0.5)),
    "padded": _plain(lambda x, given: functional.pad(x, (0, 0, 1, 0))[:, :-1]),
    "joined": _plain(lambda x, given: torch.cat([x, x * 2], 0)[: len(x)]),
    "repeated": _plain(lambda x, given: x.repeat(2, 1, 1)[::2].reshape(x.shape)),
    "weighted": _plain(lambda x, given: x * given["weights"][:, None, None]),
    "interleaved": _plain(lambda x, given: x.repeat_interleave(2, 0)[len(x) :] * 0.5),
    "scattered": _plain(lambda x, given: torch.zeros_like(x).index_add(0, given["order"], x)),
    "centroids": _plain(
        lambda x, given: (
            x - torch.zeros(5, *x.shape[1:], dtype=x.dtype).index_add(0, given["classes"], x)[given["classes"]]
        )
    ),
    "nothing": _plain(lambda x, given: x),
}

#: Blocks in which no sample depends on others are drawn more often.
_COMMON = """
linear perceptron residual norm_of_all root_mean_square group_norm attention image convolution shared embedded
positions kept softmax two_layers saved detached weighted tokens_first
"""
COMMON = _COMMON.split()


def _tokens(x: Any) -> Any:
    return x.flatten(0, 1)


_CLIPPED = _backward(BACKWARDS["clip"])

LOSSES: dict[str, Callable[[Any, Any, dict[str, Any]], Any]] = {
    "cross_entropy": lambda m, x, g: functional.cross_entropy(_tokens(m.head(x)), g["labels"].flatten()),
    "cross_entropy_sum": lambda m, x, g: functional.cross_entropy(
        _tokens(m.head(x)), g["labels"].flatten(), reduction="sum"
    ),
    "cross_entropy_each": lambda m, x, g: (
        functional.cross_entropy(m.head(x).transpose(1, 2), g["labels"], reduction="none").mean(1) * g["weights"]
    ).mean(),
    "of_images": lambda m, x, g: functional.cross_entropy(m.head(x).transpose(1, 2), g["labels"]),
    "smoothed": lambda m, x, g: functional.cross_entropy(
        _tokens(m.head(x)), g["labels"].flatten(), label_smoothing=0.1
    ),
    "class_weights": lambda m, x, g: functional.cross_entropy(_tokens(m.head(x)), g["labels"].flatten(), g["rates"]),
    "class_weights_sum": lambda m, x, g: functional.cross_entropy(
        _tokens(m.head(x)), g["labels"].flatten(), g["rates"], reduction="sum"
    ),
    "probabilities": lambda m, x, g: functional.cross_entropy(
        _tokens(m.head(x)), _tokens(m.head(g["target"])).softmax(-1)
    ),
    "shifted": lambda m, x, g: (
        functional.cross_entropy(_tokens(m.head(x)[:, :-1]), g["labels"][:, 1:].flatten())
        if x.shape[1] > 1
        else x.mean()
    ),
    "shifted_by_padding": lambda m, x, g: (
        functional.cross_entropy(
            _tokens(m.head(x)), functional.pad(g["labels"], (0, 1), value=-100)[:, 1:].flatten(), reduction="sum"
        )
        / g["labels"].numel()
    ),
    "tied": lambda m, x, g: functional.cross_entropy(_tokens(x @ m.table.weight.t()), g["labels"].flatten()),
    "of_samples": lambda m, x, g: functional.cross_entropy(m.head(x.mean(1)), g["classes"]),
    "of_last": lambda m, x, g: functional.cross_entropy(m.head(x[:, -1]), g["classes"]),
    "picked": lambda m, x, g: -m.head(x.mean(1)).log_softmax(-1)[torch.arange(len(x)), g["classes"]].mean(),
    "gathered": lambda m, x, g: -m.head(x.mean(1)).log_softmax(-1).gather(1, g["classes"][:, None]).mean(),
    "mean_square": lambda m, x, g: functional.mse_loss(x, g["target"]),
    "sum_of_squares": lambda m, x, g: functional.mse_loss(x, g["target"], reduction="sum"),
    "each_square": lambda m, x, g: (
        (functional.mse_loss(x, g["target"], reduction="none") * g["kept"][..., None]).sum()
        / g["kept"].sum().clamp(min=1)
    ),
    "smooth": lambda m, x, g: functional.smooth_l1_loss(x, g["target"]),
    "huber": lambda m, x, g: functional.huber_loss(x, g["target"], reduction="sum"),
    "absolute": lambda m, x, g: functional.l1_loss(x, g["target"]),
    "binary": lambda m, x, g: functional.binary_cross_entropy_with_logits(x, g["target"].sigmoid()),
    "binary_of_chances": lambda m, x, g: functional.binary_cross_entropy(x.sigmoid(), g["target"].sigmoid()),
    "divergence": lambda m, x, g: functional.kl_div(x.log_softmax(-1), g["target"].softmax(-1), reduction="batchmean"),
    "mean": lambda m, x, g: m.head(x).mean(),
    "sum": lambda m, x, g: m.head(x).square().sum(),
    "root": lambda m, x, g: functional.mse_loss(x, g["target"]).sqrt(),
    "square_of_mean": lambda m, x, g: m.head(x).mean().square(),
    "log_of_mean": lambda m, x, g: m.head(x).square().mean().log(),
    "exponential": lambda m, x, g: (-functional.mse_loss(x, g["target"])).exp(),
    "contrastive": lambda m, x, g: functional.cross_entropy(
        functional.normalize(x.flatten(1)) @ functional.normalize(g["target"].flatten(1)).t(), torch.arange(len(x))
    ),
    "contrastive_both": lambda m, x, g: sum(
        functional.cross_entropy(scores, torch.arange(len(x)))
        for scores in (x.flatten(1) @ g["target"].flatten(1).t(), g["target"].flatten(1) @ x.flatten(1).t())
    ),
    "variance": lambda m, x, g: x.var(0).mean() + x.mean(),
    "mean_twice": lambda m, x, g: ((x - x.mean(0)) * x.mean()).square().mean(),
    "ratio": lambda m, x, g: (x * g["target"]).sum() / (x.square().sum() + 1),
    "weighted_by_batch": lambda m, x, g: (
        (each := (x - g["target"]).square().mean((1, 2))) * (each.detach() / each.detach().sum())
    ).sum(),
    "weighted_by_softmax": lambda m, x, g: ((each := x.square().mean((1, 2))) * each.softmax(0)).sum(),
    "focal": lambda m, x, g: (
        (each := functional.cross_entropy(m.head(x.mean(1)), g["classes"], reduction="none")) * (1 - (-each).exp()) ** 2
    ).mean(),
    "largest": lambda m, x, g: x.square().mean((1, 2)).max(),
    "hardest": lambda m, x, g: x.square().mean((1, 2)).topk(2)[0].mean(),
    "logsumexp": lambda m, x, g: x.mean((1, 2)).logsumexp(0),
    "product": lambda m, x, g: functional.mse_loss(x, g["target"]) * m.head(x).square().mean(),
    "two": lambda m, x, g: (
        functional.mse_loss(x, g["target"]) + 0.3 * functional.cross_entropy(m.head(x.mean(1)), g["classes"])
    ),
    "itself": lambda m, x, g: (one := functional.mse_loss(x, g["target"])) + one.detach() * one,
    "by_itself": lambda m, x, g: (one := functional.mse_loss(x, g["target"])) / one.detach(),
    "with_weights": lambda m, x, g: functional.mse_loss(x, g["target"]) + 0.01 * m.head.weight.square().sum(),
    "clamped": lambda m, x, g: functional.mse_loss(x, g["target"]).clamp(max=0.5),
    "hinge": lambda m, x, g: (1 - x.mean((1, 2)) * g["weights"]).relu().mean(),
    "distilled": lambda m, x, g: (
        functional.kl_div(m.head(x).log_softmax(-1), m.head(g["target"]).detach().softmax(-1), reduction="sum") / len(x)
    ),
    "between_samples": lambda m, x, g: (x[1:] - x[:-1]).square().mean(),
    "ranked": lambda m, x, g: (1 + x.mean((1, 2))[:, None] - x.mean((1, 2))[None]).relu().mean(),
    "through_clip": lambda m, x, g: _CLIPPED(functional.mse_loss(_CLIPPED(x), g["target"])),
    "masked_mean": lambda m, x, g: (m.head(x).square().mean(-1) * g["kept"]).sum() / (g["kept"].sum() + 1),
    "cosine": lambda m, x, g: (1 - functional.cosine_similarity(x.flatten(1), g["target"].flatten(1))).mean(),
    "norms": lambda m, x, g: x.flatten(1).norm(dim=1).mean(),
    "norm": lambda m, x, g: x.norm(),
}

#: What a step returns: a scalar may come with others, which have gradients of their own where they are not detached.
RESULTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "loss": lambda m, x, loss: (loss,),
    "with_values": lambda m, x, loss: (loss, x.detach()),
    "with_head": lambda m, x, loss: (loss, m.head(x)),
    "values": lambda m, x, loss: (x,),
    "twice": lambda m, x, loss: (loss, loss * 2),
    "with_count": lambda m, x, loss: (loss, (x.detach() > 0).sum()),
    "each": lambda m, x, loss: (x.square().mean((1, 2)),),
    "scaled": lambda m, x, loss: (loss * 0.25 + 1,),
    "with_mean": lambda m, x, loss: (loss, x.mean()),
}


class Step(nn.Module):
    """The random training step of a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.draw = draw = random.Random(seed)
        self.sizes = sizes = Sizes(draw)
        names = [
            draw.choice(COMMON) if draw.random() < 0.75 else draw.choice(sorted(BLOCKS))
            for _ in range(draw.randint(1, 4))
        ]
        self.loss, self.gives = (
            draw.choice(sorted(LOSSES)),
            draw.choices(sorted(RESULTS), [1, 6, 1, 1, 1, 1, 1, 2, 2])[0],
        )
        self.gives = "loss" if draw.random() < 0.4 else self.gives
        self.blocks = nn.ModuleList(BLOCKS[name](sizes) for name in names)
        self.head = nn.Linear(sizes.channels, sizes.words, bias=draw.random() < 0.5)
        self.table = nn.Embedding(sizes.words, sizes.channels)
        blocks = [f"{name} {getattr(block, 'tells', '')}" for name, block in zip(names, self.blocks, strict=True)]
        self.tells = f"{blocks} {self.loss} {self.gives} "
        self.tells += f"{sizes.samples}x{sizes.tokens}x{sizes.channels}, {sizes.words} words"
        self.from_words = draw.random() < 0.3
        self.order = ("x", "words", "labels", "classes", "weights", "kept", "target", "square", "order", "rates")
        self.double()

    def arguments(self) -> tuple[Any, ...]:
        torch.manual_seed(self.draw.randrange(10**6))
        s = self.sizes
        labels = torch.randint(s.words, (s.samples, s.tokens))
        labels = torch.where(torch.rand(labels.shape) < 0.8, labels, -100)
        labels[0, 0] = 1
        labels[-1, -1] = 0
        made = {
            "x": torch.randn(s.samples, s.tokens, s.channels),
            "words": torch.randint(s.words, (s.samples, s.tokens)),
            "labels": labels,
            "classes": torch.randint(5, (s.samples,)),
            "weights": torch.rand(s.samples) + 0.5,
            "kept": torch.rand(s.samples, s.tokens) < 0.7,
            "target": torch.randn(s.samples, s.tokens, s.channels),
            "square": torch.randn(s.tokens, s.tokens),
            "order": torch.randperm(s.samples),
            "rates": torch.rand(s.words) + 0.5,
        }
        if self.words_are_classes:
            made["classes"] %= s.words
        return tuple(
            each.double() if each.is_floating_point() else each for each in (made[name] for name in self.order)
        )

    @property
    def words_are_classes(self) -> bool:
        return self.sizes.words < 5

    def forward(self, *values: Any) -> Any:
        given = dict(zip(self.order, values, strict=True))
        x = self.table(given["words"]) if self.from_words else given["x"]
        for block in self.blocks:
            x = block(x, given)
        return RESULTS[self.gives](self, x, LOSSES[self.loss](self, x, given))
