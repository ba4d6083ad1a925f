"""What a step of learning holds in memory at once, told before it is begun."""

from __future__ import annotations

import os

from placewright.lab.learning.gdp.observation import Observation
from placewright.lab.learning.gdp.settings import NetworkSettings
from placewright.support.errors import InputError
from placewright.support.quantities import format_bytes

_FLOAT_BYTES = 4
#: Rows of `width` numbers that are kept for gradients, counted in network.py: of a unit in a round of GraphSAGE, of an
#: edge there, of a unit in a layer of the placer without what is widened.
_IN_ROUND, _OF_EDGE, _IN_LAYER = 7, 2, 12


def learning_bytes(settings: NetworkSettings, num_units: int, num_edges: int) -> int:
    """Of all that is kept between the passes forward and back, about."""
    of_unit = settings.rounds * _IN_ROUND + settings.layers * (_IN_LAYER + 3 * settings.widening)
    of_unit += 2 * (1 + settings.widening)
    rows = num_units * of_unit + num_edges * settings.rounds * _OF_EDGE
    return _FLOAT_BYTES * settings.width * rows


def check_memory(solver: str, settings: NetworkSettings, observation: Observation, host_bytes: int) -> None:
    """Raises InputError where the host has less memory than learning takes."""
    units = observation.units.count
    needed = learning_bytes(settings, units, observation.edges.shape[1])
    if needed > host_bytes:
        raise InputError(
            f"solver '{solver}' needs some {format_bytes(needed)} to place {units:,} ops, and this host has "
            f"{format_bytes(host_bytes)}; a smaller network or colocation rules take less"
        )


def host_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
