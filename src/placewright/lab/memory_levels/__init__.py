"""One device with memory levels, and the level of every tensor of a network (Khadka et al., EGRL, ICLR 2021).

A separate problem family, besides plans.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placewright.lab.memory_levels.maps import MemoryMap, load_map, map_memory

__all__ = ["MemoryMap", "load_map", "map_memory"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'placewright.lab.memory_levels' has no attribute '{name}'")
    return getattr(import_module("placewright.lab.memory_levels.maps"), name)
