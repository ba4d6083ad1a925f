"""All networks of the zoo, read from the table networks.toml. Of two with one topology the earlier counts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placewright.lab.datasets.zoo.libraries import READS_VALUES, built_module
from placewright.lab.datasets.zoo.network import Network
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn

PATH = Path(__file__).with_name("networks.toml")

Shapes = Sequence[str] | Mapping[str, str]


@cache
def all_networks() -> tuple[Network, ...]:
    """Return the networks in the order of the table. No library is imported before one of its networks is built. Raises
    InputError when two networks share a name."""
    return networks_of(PATH)


def networks_of(path: Path) -> tuple[Network, ...]:
    """Read a table in the format of networks.toml. Raises InputError when two networks share a name."""
    networks = tuple(_networks(tomllib.loads(path.read_text())))
    names = [network.name for network in networks]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(f"the zoo has two networks named '{name}'")
    return networks


def _networks(families: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[Network]:
    for family, entries in families.items():
        for name, entry in entries.items():
            yield _network(name, family, **entry)


def _network(
    name: str,
    family: str,
    *,
    library: str,
    builder: str,
    inputs: Shapes,
    arguments: Mapping[str, Any] | None = None,
    loss: str = "cross_entropy",
    reads_values: bool = False,
) -> Network:
    """Make the network of one line of the table; networks.toml explains the columns."""

    def build() -> tuple[nn.Module, tuple[Tensor, ...]]:
        from placewright.lab.datasets.zoo.objectives import supervised

        shapes = tuple(inputs.values() if isinstance(inputs, Mapping) else inputs)
        names = tuple(inputs) if isinstance(inputs, Mapping) else ()
        module = built_module(library, builder, arguments or {})
        return supervised(module, loss, names), tuple(_tensor(shape) for shape in shapes)

    reads_values = reads_values or library in READS_VALUES
    return Network(name=name, family=family, library=library, build=build, reads_values=reads_values)


def _tensor(shape: str) -> Tensor:
    """Return zeros, float32 or int64, for a text such as "8 3 224 224" or "int64 8 128"."""
    import torch

    words = shape.split()
    whole = words[0] == "int64"
    return torch.zeros([int(word) for word in words[whole:]], dtype=torch.int64 if whole else torch.float32)
