"""Builders of the small networks of `library_steps.toml`, with batches of random inputs for each.

`library_steps.py` and `fit_inductor.py` import this. Weights and inputs are random: nothing is downloaded.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from placewright.lab.datasets.zoo.libraries import import_torchvision

LIST = Path(__file__).with_name("library_steps.toml")
LIBRARIES = ("transformers", "timm", "torchvision", "pytorchcv", "torch_geometric")
#: Words are below _WORDS in a vocabulary of _VOCABULARY, so that special tokens at its end come only where wanted.
_WORDS, _VOCABULARY, _CLASSES = 200, 256, 4
_CHANNELS = 16


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a network's inputs, where its settings do not give them. side: of pictures."""

    batch: int = 2
    tokens: int = 16
    frames: int = 128
    samples: int = 4_000
    side: int = 64
    nodes: int = 40
    edges: int = 160


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of the list. settings: how this network is built, beyond what all of its library have in common."""

    library: str
    name: str
    settings: Mapping[str, Any]
    sizes: Sizes = Sizes()

    @property
    def label(self) -> str:
        return f"{self.library}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Example:
    """A network with random weights, and the batches of its steps: arguments in order, and by name."""

    module: nn.Module
    batches: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]


def entries(path: Path = LIST) -> list[Entry]:
    """The list, one network of each library in turn, so that rows cut short have a bit of everything."""
    tables = tomllib.loads(path.read_text())
    found = []
    for library in LIBRARIES:
        for place, (name, said) in enumerate(tables[library].items()):
            settings = {"class": said} if isinstance(said, str) else said
            found.append((place / len(tables[library]), Entry(library=library, name=name, settings=settings)))
    return [entry for _, entry in sorted(found, key=lambda each: each[0])]


def built(entry: Entry, seed: int, steps: int) -> Example:
    """The network in training mode; the same weights and inputs for the same seed."""
    import_torchvision()
    seed_all(seed)
    module, batch = _BUILDERS[entry.library](entry)
    batches = []
    for number in range(steps):
        seed_all(seed + 1 + number)
        batches.append(batch())
    return Example(module=module.train(), batches=batches)


def import_libraries(listed: Sequence[Entry]) -> None:
    """Import the libraries; call this before processes are forked, so that each has them."""
    import_torchvision()
    for library in {each.library for each in listed}:
        importlib.import_module(library)


def seed_all(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    importlib.import_module("numpy").random.seed(seed)


def default_loss(output: Any) -> Any:
    """The output's `.loss`, or the scalar that it is, or the sum of the means of its floating-point tensors."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    if isinstance(output, torch.Tensor) and output.numel() == 1:
        return output.squeeze()
    leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
    return sum(leaf.mean() for leaf in leaves)


Batch = Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]


def _timm(entry: Entry) -> tuple[nn.Module, Batch]:
    import timm

    settings = dict(entry.settings)
    sizes = entry.sizes
    channels, side, _ = settings.pop("input", (3, sizes.side, sizes.side))
    model = timm.create_model(entry.name, **settings)
    return model, lambda: ((torch.randn(sizes.batch, channels, side, side),), {})


def _torchvision(entry: Entry) -> tuple[nn.Module, Batch]:
    from torchvision import models

    settings = dict(entry.settings)
    sizes = entry.sizes
    shape = settings.pop("input", [sizes.batch, 3, sizes.side, sizes.side])
    count, kind = settings.pop("inputs", 1), settings.pop("kind", "")
    module, _, kind_of = settings.pop("class", "").partition(".")
    make = getattr(getattr(models, module), kind_of) if module else models.get_model_builder(entry.name)
    named = inspect.signature(make).parameters
    weights = {name: None for name in ("weights", "weights_backbone") if name in named}
    model = make(**weights, **settings)
    if kind == "detection":
        return model, lambda: (([*torch.rand(shape)], [_boxes(shape[-1]) for _ in range(shape[0])]), {})
    return model, lambda: (tuple(torch.randn(shape) for _ in range(count)), {})


def _boxes(side: int) -> dict[str, Any]:
    corners = torch.rand(3, 2) * side / 2
    return {"boxes": torch.cat([corners, corners + side / 4], dim=1), "labels": torch.randint(1, _CLASSES, (3,))}


def _pytorchcv(entry: Entry) -> tuple[nn.Module, Batch]:
    from pytorchcv import model_provider

    settings = dict(entry.settings)
    shape = settings.pop("input", None)
    model = model_provider._models[entry.name](**settings)
    sizes = entry.sizes
    size = getattr(model, "in_size", (sizes.side, sizes.side))
    shape = shape or (sizes.batch, getattr(model, "in_channels", 3), *size)
    return model, lambda: ((torch.randn(shape),), {})


class Convolutions(nn.Module):
    """Two graph convolutions of one class; edges: whether they read features of edges, too."""

    def __init__(self, kind: type[nn.Module], edges: bool, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.first, self.second = (kind(_CHANNELS, _CHANNELS, **settings) for _ in range(2))
        self.edges = edges

    def forward(self, x: Any, edge_index: Any, edge_attr: Any) -> Any:  # [nodes, channels], [2, edges], [edges, ...]
        given = (edge_index, edge_attr) if self.edges else (edge_index,)
        return self.second(self.first(x, *given).relu(), *given)


def _geometric(entry: Entry) -> tuple[nn.Module, Batch]:
    from torch_geometric.nn import conv, models

    settings, sizes = dict(entry.settings), entry.sizes
    edges, kind = settings.pop("edges", 0), settings.pop("class")

    def nodes() -> Any:
        return torch.randn(sizes.nodes, _CHANNELS)

    def graph() -> Any:
        return torch.randint(sizes.nodes, (2, sizes.edges))

    if kind.endswith("Conv"):
        model: nn.Module = Convolutions(getattr(conv, kind), bool(edges), settings)
        return model, lambda: ((nodes(), graph(), torch.randn(sizes.edges, edges)), {})
    model = getattr(models, kind)(**settings)
    extra = settings.get("edge_dim", 0)
    if kind == "SchNet" or kind.startswith("DimeNet"):
        atoms = torch.arange(2).repeat_interleave(6)
        return model, lambda: ((torch.randint(1, 9, (12,)), torch.randn(12, 3) * 2, atoms), {})
    if kind == "AttentiveFP":
        of = torch.arange(sizes.batch).repeat_interleave(sizes.nodes // sizes.batch)
        return model, lambda: ((nodes(), graph(), torch.randn(sizes.edges, extra), of), {})
    if kind == "LightGCN":
        return model, lambda: ((graph(),), {})
    return model, lambda: ((nodes(), graph()), {})


def _transformers(entry: Entry) -> tuple[nn.Module, Batch]:
    """A model whose configuration is made small; `config` of the entry overrides it."""
    import transformers

    transformers.logging.set_verbosity_error()
    settings = entry.settings
    make = getattr(transformers, settings["class"])
    small = tomllib.loads(LIST.read_text())["small"]
    sizes = {name: size for table in small.values() for name, size in table.items()}
    if settings.get("sizes") == "few":
        sizes = small["few"]
    values = smaller(make.config_class().to_dict(), sizes)
    config = make.config_class(**merged(values, settings.get("config", {})))
    return make(config), lambda: ((), _inputs(make, config, entry))


def merged(values: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    nested = {name: merged(values[name], each) for name, each in others.items() if isinstance(values.get(name), dict)}
    return {**values, **others, **nested}


def smaller(values: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """The values of a configuration that make it small, those of the configurations in it too."""
    layers = sizes.get("num_hidden_layers", 2)
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and name.endswith("_config"):
            found[name] = {**value, **smaller(value, sizes)}
        elif name in ("layer_types", "mlp_layer_types") and isinstance(value, list):
            found[name] = value[:layers]
        elif type(value) is int and name in sizes and value > sizes[name]:
            found[name] = sizes[name]
        elif type(value) is int and name.endswith("token_id") and value >= _VOCABULARY:
            found[name] = _VOCABULARY - 1
    return found


def _inputs(make: Any, config: Any, entry: Entry) -> dict[str, Any]:
    """Inputs by name: the class's main input, labels or decoder ids if it needs them, and those of the entry."""
    settings, sizes = entry.settings, entry.sizes
    named = inspect.signature(make.forward).parameters
    found: dict[str, Any] = {}
    if not settings.get("only"):
        found[make.main_input_name] = _main_input(make.main_input_name, config, sizes)
        if getattr(config, "is_encoder_decoder", False) and "labels" not in named:
            found["decoder_input_ids"] = _tokens(sizes)
        if "labels" in named:
            labels = labels_of(make.__name__, config, found, sizes)
            found |= {} if labels is None else {"labels": labels}
    for name, said in settings.get("inputs", {}).items():
        found[name] = as_said(said)
    return found


def _tokens(sizes: Sizes) -> Any:
    return torch.randint(3, _WORDS, (sizes.batch, sizes.tokens))


def _main_input(name: str, config: Any, sizes: Sizes) -> Any:
    if name == "input_ids":
        return _tokens(sizes)
    if name == "input_values":
        return torch.randn(sizes.batch, sizes.samples)
    if name == "input_features":
        return torch.randn(sizes.batch, _number(config, "num_mel_bins", 80), sizes.frames)
    side, channels = _number(config, "image_size", sizes.side), _number(config, "num_channels", 3)
    if name == "pixel_values_videos":
        return torch.randn(sizes.batch, _number(config, "frames_per_clip", 2), channels, side, side)
    return torch.randn(sizes.batch, channels, side, side)


def _number(config: Any, name: str, default: int) -> int:
    value = getattr(config, name, None)
    return default if value is None else int(value[0] if isinstance(value, list | tuple) else value)


def labels_of(kind: str, config: Any, inputs: Mapping[str, Any], sizes: Sizes) -> Any:
    """Labels for the task of a class of transformers; None for tasks in which each class has its own form of labels."""
    classes = _number(config, "num_labels", 2)
    if kind.endswith(("CausalLM", "MaskedLM", "LMHeadModel", "ForConditionalGeneration", "Seq2SeqLM")):
        tokens = inputs.get("input_ids")
        return _tokens(sizes) if tokens is None or getattr(config, "is_encoder_decoder", False) else tokens.clone()
    if kind.endswith(("ImageClassification", "VideoClassification", "SequenceClassification")):
        return torch.randint(classes, (sizes.batch,))
    if kind.endswith("TokenClassification"):
        return torch.randint(classes, (sizes.batch, sizes.tokens))
    if kind.endswith("ForSemanticSegmentation"):
        return torch.randint(classes, (sizes.batch, *next(iter(inputs.values())).shape[-2:]))
    if kind.endswith("ForCTC"):
        return torch.randint(1, 20, (sizes.batch, 3))
    return None


def as_said(said: Any) -> Any:
    """An input as the list writes it: "floats 2 3 64 64", "words 2 16", "below 10 2", "ones 2 16", or a value itself.

    "words 2 16 with 255 4" has token 255 in the four places after the first one, where an image goes.
    """
    if not isinstance(said, str):
        return torch.tensor(said) if isinstance(said, list) else copy.copy(said)
    sort, *rest = said.split()
    if sort == "below":
        return torch.randint(int(rest[0]), tuple(map(int, rest[1:])))
    places = rest[rest.index("with") + 1 :] if "with" in rest else []
    shape = tuple(map(int, rest[: rest.index("with")] if places else rest))
    if sort == "floats":
        return torch.randn(shape)
    made = torch.ones(shape, dtype=torch.int64) if sort == "ones" else torch.randint(3, _WORDS, shape)
    if places:
        made[:, 1 : 1 + int(places[1])] = int(places[0])
    return made


_BUILDERS = {
    "transformers": _transformers,
    "timm": _timm,
    "torchvision": _torchvision,
    "pytorchcv": _pytorchcv,
    "torch_geometric": _geometric,
}
