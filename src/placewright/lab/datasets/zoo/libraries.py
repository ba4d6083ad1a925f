"""The libraries that the zoo's networks come from, each imported when one of its networks is built."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Mapping
from functools import cache, reduce
from typing import TYPE_CHECKING, Any

from placewright.support.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from torch import nn

#: Networks that no library has are defined in modules of this package.
OWN = "placewright"

#: The module below which a library's builders are named.
ROOTS = {
    "pytorchcv": "pytorchcv.models",
    "timm": "timm.models",
    "torch_geometric": "torch_geometric.nn",
    "torchvision": "torchvision.models",
    "transformers": "transformers",
    OWN: "placewright.lab.datasets.zoo",
}

#: What the extra `zoo` installs.
LIBRARIES = ("torch", *(library for library in ROOTS if library != OWN))

#: Libraries whose constructors read or copy the values of tensors; fake tensors have none.
READS_VALUES = frozenset({"timm", "torch_geometric"})

#: Operators of torchvision's compiled part for which its Python part registers formulas on import.
_COMPILED = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[Any] = []


def check_library(library: str) -> None:
    """Raise MissingExtraError where the library is not installed."""
    if importlib.util.find_spec(library) is None:
        raise MissingExtraError("PyTorch" if library == "torch" else library, "zoo", "capturing the zoo")


def built_module(library: str, builder: str, arguments: Mapping[str, Any]) -> nn.Module:
    """The network that a builder makes, with random weights.

    Parameters
    ----------
    library
        A key of `ROOTS`.
    builder
        Path of a function or class below the library's root, "resnet.resnet18". A class of transformers is made from
        its configuration class.
    arguments
        Arguments of the builder; in transformers, of the configuration.

    Raises
    ------
    MissingExtraError
        Without the library.
    InputError
        When the library has no such builder.
    """
    make = found_builder(library, builder)
    # Attention is computed with products and a softmax, as in the networks of the papers' time.
    if library == "timm":
        importlib.import_module("timm.layers").set_fused_attn(False)
    if library == "transformers":
        config = make.config_class(**{"attn_implementation": "eager", **arguments})
        config.use_cache = False
        return make(config)
    if library == "torchvision":
        named = inspect.signature(make).parameters
        return make(**{name: None for name in ("weights", "weights_backbone") if name in named}, **arguments)
    return make(**arguments)


def found_builder(library: str, builder: str) -> Any:
    """Return the function or class at that path. Raises as `built_module` does."""
    check_library(library)
    if library != OWN:
        import_torchvision()
    *modules, name = builder.split(".")
    try:
        module = reduce(_member, modules, importlib.import_module(ROOTS[library]))
        return getattr(module, name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{library} has no network builder '{builder}'") from error


@cache
def import_torchvision() -> None:
    """Import torchvision, if installed, even where its compiled part does not load.

    That part is built for one build of PyTorch, and the package index has it for CUDA only. With PyTorch for CPUs the
    import ends in an error, and so does every import of transformers and timm, which check for torchvision. The
    networks need none of its operators, so it is enough that the two named at import have a signature.
    """
    if importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        import torch

        library = torch.library.Library("torchvision", "DEF")
        for schema in _COMPILED:
            library.define(schema)
        _declared.append(library)  # The declarations last as long as the object.
        importlib.import_module("torchvision")


def _member(module: Any, name: str) -> Any:
    """Return a submodule, imported if needed, or a class."""
    found = getattr(module, name, None)
    return found if inspect.ismodule(found) else importlib.import_module(f"{module.__name__}.{name}")
