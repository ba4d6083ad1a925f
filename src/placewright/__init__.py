"""placewright plans which device runs each op of a neural network, in what order, and when tensors move."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import placewright.support.early_interrupt  # noqa: F401, before what takes longer to import
from placewright.api import compile, inspect, load, plan, save
from placewright.api.questions import Plan
from placewright.graph import Graph, Op, Tensor
from placewright.importers import load_graph, save_graph
from placewright.importers.torch_module import from_torch
from placewright.learning.families import register_policy_family
from placewright.machine import Device, Link, Machine
from placewright.machines import load_machine
from placewright.methods.table import register_method
from placewright.support.errors import InputError, MissingExtraError, PlacewrightError
from placewright.version import VERSION

if TYPE_CHECKING:
    from placewright.export import export_plan
    from placewright.report import write_report

__version__ = VERSION

__all__ = [
    "Device",
    "Graph",
    "InputError",
    "Link",
    "Machine",
    "MissingExtraError",
    "Op",
    "PlacewrightError",
    "Plan",
    "Tensor",
    "__version__",
    "compile",
    "export_plan",
    "from_torch",
    "inspect",
    "load",
    "load_graph",
    "load_machine",
    "plan",
    "register_method",
    "register_policy_family",
    "save",
    "save_graph",
    "write_report",
]

#: Planning does not need these, so they are imported when first asked for.
_LATER = {"export_plan": "placewright.export", "write_report": "placewright.report"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'placewright' has no attribute '{name}'")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return __all__
