"""Which networks the libraries have, and how one of them is built: by name, so that another process can build it.

`library_captures.py` and `library_networks.py` import this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import library_transformers

from placewright.lab.datasets.zoo.libraries import built_module, check_library, import_torchvision
from placewright.lab.datasets.zoo.network import Network

if TYPE_CHECKING:
    from torch import Tensor, nn

#: Where a library does not say what size its images have.
_IMAGE = (3, 224, 224)
_IMAGES, _CLIPS, _FRAMES = 16, 4, 16
#: Weights of other bits or data sets make no other topology; of detectors only some parts can be traced.
_LEFT_OUT = ("quantized_", "_cifar100", "_svhn")
#: Ops and edges of torch_geometric's basic networks, as the zoo has them.
_NODES, _EDGES, _CHANNELS, _CLASSES = 4096, 32768, 128, 40
_GNNS = ("GCN", "GraphSAGE", "GAT", "GIN", "EdgeCNN")
_GNN_DEPTHS, _JUMPS, _NORMS = (2, 3, 4, 6, 8, 12), (None, "cat", "max"), (None, "batch_norm", "layer_norm")

Built = tuple["nn.Module", "tuple[Tensor, ...]"]


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A network by its library's name for it. family: the module of the library, in which networks are alike."""

    library: str
    name: str
    family: str

    @property
    def label(self) -> str:
        """Unique among all libraries, and the start of its graphs' names."""
        return f"{self.library}_{self.name}"


def all_listed(libraries: Sequence[str]) -> list[Listed]:
    """Networks of these libraries; first one of each family, then a second, so that a capture that is cut short has a
    bit of everything."""
    found = []
    for library in libraries:
        seen: Counter[str] = Counter()
        for name, family in LIBRARIES[library].names():
            found.append((seen[family], family, library, Listed(library=library, name=name, family=family)))
            seen[family] += 1
    return [listed for *_, listed in sorted(found, key=lambda each: each[:3])]


def network_of(listed: Listed) -> Network:
    """What is captured. Libraries are imported when it is built."""
    source = LIBRARIES[listed.library]
    return Network(
        name=listed.label,
        family=listed.family,
        library=listed.library,
        build=partial(source.build, listed.name),
        reads_values=source.reads_values,
    )


def _timm_names() -> Iterator[tuple[str, str]]:
    import_torchvision()
    import timm

    for name in timm.list_models():
        yield name, timm.models.model_entrypoint(name).__module__.rpartition(".")[2]


def _timm(name: str) -> Built:
    from library_outputs import Whole

    model = built_module("timm", name, {})
    return Whole(model), (_zeros(_IMAGES, *model.pretrained_cfg.get("input_size", _IMAGE)),)


def _pytorchcv_names() -> Iterator[tuple[str, str]]:
    check_library("pytorchcv")
    import_torchvision()
    from pytorchcv import model_provider

    for name, make in model_provider._models.items():
        if not name.endswith(_LEFT_OUT):
            yield name, make.__module__.rpartition(".")[2]


def _pytorchcv(name: str) -> Built:
    import_torchvision()
    from library_outputs import Whole
    from pytorchcv import model_provider

    model = model_provider._models[name]()
    channels, size = getattr(model, "in_channels", _IMAGE[0]), getattr(model, "in_size", _IMAGE[1:])
    return Whole(model), (_zeros(_IMAGES, channels, *size),)


def _torchvision_names() -> Iterator[tuple[str, str]]:
    check_library("torchvision")
    import_torchvision()
    from torchvision import models

    for name in models.list_models():
        if not name.startswith(_LEFT_OUT):
            yield name, models.get_model_builder(name).__module__.rpartition(".")[2]


def _torchvision(name: str) -> Built:
    import_torchvision()
    from library_outputs import Whole
    from torchvision import models

    from placewright.lab.datasets.zoo.objectives import Detector

    module = models.get_model_builder(name).__module__
    extra = {"weights_backbone": None} if "detection" in module or "segmentation" in module else {}
    model = models.get_model(name, weights=None, **extra)
    if "detection" in module:
        return Whole(Detector(model)), (_zeros(2, *_IMAGE),)
    if "optical_flow" in module:
        return Whole(model), (_zeros(1, 3, 128, 128), _zeros(1, 3, 128, 128))
    if "video" in module:
        size = 224 if name.startswith(("mvit", "swin")) else 112
        return Whole(model), (_zeros(_CLIPS, 3, _FRAMES, size, size),)
    return Whole(model), (_zeros(_IMAGES, *_IMAGE),)


def _geometric_names() -> Iterator[tuple[str, str]]:
    check_library("torch_geometric")
    for depth in _GNN_DEPTHS:
        for jump in _JUMPS:
            for norm in _NORMS:
                for kind in _GNNS:
                    yield "-".join((kind, str(depth), jump or "last", norm or "plain")), kind


def _geometric(name: str) -> Built:
    from library_outputs import Whole

    kind, depth, jump, norm = name.split("-")
    loops = {"add_self_loops": False} if kind in ("GCN", "GAT") else {}
    arguments = {
        "in_channels": _CHANNELS,
        "hidden_channels": _CHANNELS,
        "num_layers": int(depth),
        "out_channels": _CLASSES,
        "jk": None if jump == "last" else jump,
        "norm": None if norm == "plain" else norm,
        **loops,
    }
    return Whole(built_module("torch_geometric", f"models.{kind}", arguments)), (
        _zeros(_NODES, _CHANNELS),
        _zeros(2, _EDGES, whole=True),
    )


def _zeros(*shape: int, whole: bool = False) -> Tensor:
    import torch

    return torch.zeros(shape, dtype=torch.int64 if whole else torch.float32)


@dataclass(frozen=True, kw_only=True)
class _Source:
    """A library: its networks as name and family, and how one is built. reads_values: as in `Network`."""

    names: Callable[[], Iterator[tuple[str, str]]]
    build: Callable[[str], tuple[Any, tuple[Any, ...]]]
    reads_values: bool = False


LIBRARIES = {
    "timm": _Source(names=_timm_names, build=_timm, reads_values=True),
    "pytorchcv": _Source(names=_pytorchcv_names, build=_pytorchcv),
    "torchvision": _Source(names=_torchvision_names, build=_torchvision),
    "transformers": _Source(names=library_transformers.names, build=library_transformers.build),
    "torch_geometric": _Source(names=_geometric_names, build=_geometric, reads_values=True),
}
