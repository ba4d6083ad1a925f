"""What Python callers use: `plan()`, `inspect()`, `save()`, `load()`, and the plan that answers questions."""

from placewright.api.functions import as_machine, inspect, load, plan, save

__all__ = ["as_machine", "inspect", "load", "plan", "save"]
