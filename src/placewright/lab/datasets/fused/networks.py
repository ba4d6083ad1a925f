"""The fused networks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from placewright.graph import Graph
from placewright.lab.datasets.fused.bert import bert_base
from placewright.lab.datasets.fused.resnet import resnet
from placewright.support.errors import InputError, did_you_mean, shown

#: Functions that make the networks, by name.
FUSED: Mapping[str, Callable[[], Graph]] = MappingProxyType(
    {
        **{f"resnet{depth}-int8": partial(resnet, depth) for depth in (18, 34, 50, 101, 152)},
        **{f"bert-base-{tokens}-int8": partial(bert_base, tokens) for tokens in (128, 384)},
    }
)


def fused_network(name: str) -> Graph:
    """Return the network of that name. Raises InputError that suggests the nearest."""
    if name not in FUSED:
        raise InputError(f"unknown network '{shown(name)}'{did_you_mean(name, FUSED)}")
    return FUSED[name]()
