"""Every network of the zoo, family by family. Of two with one topology the earlier counts."""

from __future__ import annotations

import importlib
from functools import cache

from placewright.datasets.zoo.network import Network
from placewright.support.errors import InputError

#: Modules of this package with a tuple NETWORKS each.
FAMILIES = (
    "residual",
    "dense",
    "modern",
    "inception",
    "mobile",
    "gated",
    "multiscale",
    "cells",
    "random_wiring",
    "light",
    "convolutional",
    "segmentation",
    "detection",
    "restoration",
    "generative",
    "diffusion",
    "audio",
    "video",
    "recurrent",
    "translation",
    "gnmt",
    "memories",
    "agents",
    "transformer",
    "published_transformers",
    "efficient_attention",
    "vision_transformers",
    "mixture_of_experts",
    "graph_networks",
    "recommenders",
)


@cache
def all_networks() -> tuple[Network, ...]:
    """Imports every family, for which PyTorch and transformers must be installed. Raises InputError when two networks
    share a name."""
    modules = [importlib.import_module(f"placewright.datasets.zoo.{family}") for family in FAMILIES]
    networks = tuple(network for module in modules for network in module.NETWORKS)
    names = [network.name for network in networks]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(f"the zoo has two networks named '{name}'")
    return networks
