"""Networks of libraries that the zoo does not list, made small enough to run; `run_equality.py` imports this.

Weights and inputs are random: nothing is downloaded.
"""

from __future__ import annotations

import copy
import itertools
import random
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from placewright.lab.datasets.libraries import transformers_networks
from placewright.lab.datasets.libraries.listing import LIBRARIES, Listed, all_listed, network_of
from placewright.lab.datasets.zoo.catalogue import PATH
from placewright.lab.datasets.zoo.libraries import import_torchvision
from placewright.lab.datasets.zoo.objectives import cross_entropy, squared_error

#: Networks with more parameters take longer than there is time.
_MAX_PARAMETERS = 5_000_000
#: Sides of images that are tried, before the one that the network is made for.
_SIDES = (64, 96, 128)
_BATCH, _TOKENS, _WORDS, _NODES, _EDGES, _SAMPLES, _FRAMES, _CHANNELS = 2, 12, 200, 40, 160, 4_000, 8, 16
#: What configurations of transformers call their sizes, by the value that makes a network small.
_SMALL: Mapping[int, Sequence[str]] = {
    64: ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "word_embed_proj_dim"),
    128: ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "hidden_dim", "n_inner"),
    4: (
        "num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads",
        "num_experts", "num_local_experts", "n_routed_experts",
    ),
    2: (
        "num_key_value_heads", "num_experts_per_tok", "num_hidden_layers", "n_layer", "n_layers", "num_layers",
        "encoder_layers", "decoder_layers", "num_decoder_layers", "num_encoder_layers",
    ),
    16: ("head_dim", "d_kv"),
    256: ("vocab_size",),
}  # fmt: skip
#: Of these, what no other size depends on.
_SAFE = frozenset({*_SMALL[2][2:], *_SMALL[256]})
#: A network of two convolutions of a class that torch_geometric has, beside the networks that it has itself.
_CONVOLUTION = "conv"


class NotRunnableError(Exception):
    """A network that cannot be built or called on its own, or is too large."""


@dataclass(frozen=True, kw_only=True)
class Runnable:
    """A module as its library makes it, and the batches of its steps: arguments in order, and by name."""

    module: Any
    batches: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]]


class Convolutions(nn.Module):
    """Two graph convolutions of one class."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.first, self.second = (kind(_CHANNELS, _CHANNELS) for _ in range(2))

    def forward(self, x: Any, edge_index: Any) -> Any:  # [nodes, channels], [2, edges] -> [nodes, channels]
        return self.second(self.first(x, edge_index).relu(), edge_index)


def loss_of(output: Any) -> Any:
    """Cross entropy of [batch, classes], squared error of every other floating-point tensor that wants a gradient."""
    tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
    losses = [cross_entropy(each) if each.dim() == 2 else squared_error(each) for each in tensors if each.requires_grad]
    return sum(losses[1:], losses[0])


def drawn(libraries: Sequence[str], seed: int) -> Iterator[Listed]:
    """All networks of these libraries outside of the zoo, one of each library in turn, and of each library one of each
    family before a second of any."""
    draw = random.Random(seed)
    known = _known_to_zoo()
    queues = []
    for library in libraries:
        by_family: dict[str, list[Listed]] = {}
        for listed in _listed(library):
            if not {listed.name, listed.name.rpartition("-")[0]} & known:
                by_family.setdefault(listed.family, []).append(listed)
        for family in by_family.values():
            draw.shuffle(family)
        families = draw.sample(list(by_family.values()), len(by_family))
        queues.append([each for layer in itertools.zip_longest(*families) for each in layer if each is not None])
    return (each for layer in itertools.zip_longest(*queues) for each in layer if each is not None)


def named(label: str) -> Listed:
    """The network with a label, such as "timm_resnet10t". Raises NotRunnableError where no library has it."""
    library = next((library for library in LIBRARIES if label.startswith(f"{library}_")), None)
    if library is None:
        raise NotRunnableError(f"'{label}' begins with the name of no library")
    return Listed(library=library, name=label.removeprefix(f"{library}_"), family="")


def runnable(listed: Listed, seed: int, steps: int) -> Runnable:
    """The network with random weights and a batch of random inputs for each step, the smallest with which it can be
    called in training. Raises NotRunnableError for one that cannot, or that is too large."""
    why = "it has no variant"
    for build in _variants(listed):
        try:
            with torch.device("meta"):
                count = sum(parameter.numel() for parameter in build()[0].parameters())
        except Exception:
            count = 0  # Its constructor reads values: what it has is counted when it is built.
        if count > _MAX_PARAMETERS:
            why = f"it has {count:,} parameters"
            continue
        try:
            torch.manual_seed(seed)
            model, given = build()
        except Exception as error:
            why = f"{type(error).__name__}: {str(error)[:200]}"
            continue
        count = sum(parameter.numel() for parameter in model.parameters())
        if count > _MAX_PARAMETERS:
            why = f"it has {count:,} parameters"
            continue
        module, names = getattr(model, "model", model), getattr(model, "names", ())
        for shapes in _shapes(listed.library, given):
            torch.manual_seed(seed)
            batches = [_batch(listed.library, shapes, given, names) for _ in range(steps)]
            try:
                _try(copy.deepcopy(module), batches[0])
            except Exception as error:
                why = f"{type(error).__name__}: {str(error)[:200]}"
                continue
            return Runnable(module=module, batches=batches)
    raise NotRunnableError(why)


def _try(module: Any, batch: tuple[Any, Mapping[str, Any]]) -> None:
    """One training step, of a copy."""
    args, kwargs = batch
    module.train()
    loss_of(module(*args, **kwargs)).backward()


def _listed(library: str) -> list[Listed]:
    found = all_listed([library])
    if library == "torch_geometric":
        from torch_geometric.nn import conv

        names = [name for name in conv.__all__ if name.endswith("Conv") and name[0].isupper()]
        found += [Listed(library=library, name=f"{_CONVOLUTION}-{name}", family=name) for name in names]
    return found


def _known_to_zoo() -> set[str]:
    """What the libraries call the zoo's networks; of transformers the types of its models."""
    entries = [entry for family in tomllib.loads(PATH.read_text()).values() for entry in family.values()]
    builders = {entry["builder"].rpartition(".")[2] for entry in entries}
    return builders | {kind for kind, made in transformers_networks._classes().items() if made in builders}


def _variants(listed: Listed) -> Iterator[Callable[[], tuple[Any, tuple[Any, ...]]]]:
    """Ways to build it, the smallest first."""
    import_torchvision()
    kind, _, name = listed.name.partition("-")
    if listed.library == "transformers":
        yield from (lambda known=known: _transformers(listed.name, known) for known in (None, _SAFE))
    elif kind == _CONVOLUTION:
        yield lambda: _convolutions(name)
    else:
        yield lambda: _with_fused_attention(*network_of(listed).build())


def _convolutions(name: str) -> tuple[Any, tuple[Any, ...]]:
    from torch_geometric.nn import conv

    return Convolutions(getattr(conv, name)), (torch.zeros(1, _CHANNELS), torch.zeros(2, 1, dtype=torch.int64))


def _with_fused_attention(model: Any, inputs: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """As timm makes it by default."""
    for module in model.modules():
        if isinstance(getattr(module, "fused_attn", None), bool):
            module.fused_attn = True
    return model, inputs


def _transformers(name: str, known: frozenset[str] | None) -> tuple[Any, tuple[Any, ...]]:
    """A model of small sizes, with attention and cache as they are by default. known: the only sizes that change."""
    import transformers

    kind, _, _ = name.rpartition("-")
    make = getattr(transformers, transformers_networks._classes()[kind])
    config = make.config_class(**_smaller(make.config_class().to_dict(), known))
    inputs = transformers_networks._inputs(make.main_input_name, config, name)
    model = make(config)
    model.names = tuple(inputs)
    return model, tuple(inputs.values())


def _smaller(values: Mapping[str, Any], known: frozenset[str] | None) -> dict[str, Any]:
    """The values of a configuration that make it small, those of the configurations in it too."""
    sizes = {name: size for size, names in _SMALL.items() for name in names if known is None or name in known}
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and name.endswith("_config"):
            found[name] = {**value, **_smaller(value, known)}
        elif name == "layer_types" and isinstance(value, list):
            found[name] = value[: sizes["num_hidden_layers"]]
        elif type(value) is int and name in sizes and value > sizes[name]:
            found[name] = sizes[name]
        elif type(value) is int and name.endswith("token_id") and value >= _SMALL_VOCABULARY:
            found[name] = _SMALL_VOCABULARY - 1
    return found


_SMALL_VOCABULARY = 256


def _shapes(library: str, given: Sequence[Any]) -> Iterator[list[tuple[int, ...]]]:
    """Shapes of inputs like those given, the smallest first."""
    if library == "torch_geometric":
        yield [(_NODES, given[0].shape[1]), (2, _EDGES)]
        return
    for side in (*_SIDES, None):
        shapes = [_smaller_shape(tensor, side) for tensor in given]
        yield shapes
        if not any(tensor.dim() >= 4 for tensor in given):
            break
    yield [tuple(tensor.shape) for tensor in given]


def _smaller_shape(tensor: Any, side: int | None) -> tuple[int, ...]:
    shape = tuple(tensor.shape)
    if tensor.dim() >= 4:  # Images, [batch, channels, height, width], or clips.
        places = shape[-2:] if side is None else tuple(min(side, given) for given in shape[-2:])
        return (_BATCH, *shape[1:-2], *places)
    if not tensor.is_floating_point():
        return (_BATCH, _TOKENS)
    return (_BATCH, *shape[1:-1], min(shape[-1], _SAMPLES))


def _batch(
    library: str, shapes: Sequence[tuple[int, ...]], given: Sequence[Any], names: Sequence[str]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    words = _NODES if library == "torch_geometric" else _WORDS
    tensors = [
        torch.randn(shape) if like.is_floating_point() else torch.randint(3, words, shape)
        for shape, like in zip(shapes, given, strict=True)
    ]
    return ((), dict(zip(names, tensors, strict=True))) if names else (tuple(tensors), {})
