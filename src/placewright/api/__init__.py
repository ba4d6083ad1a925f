"""What Python callers use: `plan()`, `compile()`, `inspect()`, `save()`, `load()`, and what these return."""

from placewright.api.functions import as_machine, inspect, load, plan, save
from placewright.api.running import compile

__all__ = ["as_machine", "compile", "inspect", "load", "plan", "save"]
