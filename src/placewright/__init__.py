"""placewright plans which device runs each op of a neural network, in what order, and when tensors move."""

import placewright.support.early_interrupt  # noqa: F401, before anything else is imported

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

from placewright.support.errors import DeviceError, InputError, MissingExtraError, PlacewrightError
from placewright.version import VERSION

if TYPE_CHECKING:
    from placewright.api.fitting import fit
    from placewright.api.frontiers import frontier
    from placewright.api.functions import inspect, load, plan, save
    from placewright.api.questions import Plan
    from placewright.api.running import compile, profile
    from placewright.api.training_setups import alternatives, fits
    from placewright.execution.pytorch.offloaded_states import offload_states
    from placewright.execution.pytorch.step_in_backward import step_in_backward
    from placewright.export import export_plan
    from placewright.graph import Graph, Op, Tensor
    from placewright.importers import load_graph, save_graph
    from placewright.importers.jax.function import from_jax
    from placewright.importers.torch.module import from_torch
    from placewright.machine import Device, Link, Machine
    from placewright.machines import load_machine
    from placewright.methods.policies import register_policy_family
    from placewright.methods.table import register_method

__version__ = VERSION

__all__ = [
    "Device",
    "DeviceError",
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
    "alternatives",
    "compile",
    "export_plan",
    "fit",
    "fits",
    "from_jax",
    "from_torch",
    "frontier",
    "inspect",
    "load",
    "load_graph",
    "load_machine",
    "offload_states",
    "plan",
    "profile",
    "register_method",
    "register_policy_family",
    "save",
    "save_graph",
    "step_in_backward",
]

#: Imported when first asked for, so that importing the package takes a moment whatever is wanted of it.
_MODULE_OF = {
    **dict.fromkeys(("inspect", "load", "plan", "save"), "placewright.api.functions"),
    **dict.fromkeys(("compile", "profile"), "placewright.api.running"),
    **dict.fromkeys(("Graph", "Op", "Tensor"), "placewright.graph"),
    **dict.fromkeys(("Device", "Link", "Machine"), "placewright.machine"),
    **dict.fromkeys(("load_graph", "save_graph"), "placewright.importers"),
    "Plan": "placewright.api.questions",
    **dict.fromkeys(("alternatives", "fits"), "placewright.api.training_setups"),
    "export_plan": "placewright.export",
    "fit": "placewright.api.fitting",
    "from_jax": "placewright.importers.jax.function",
    "from_torch": "placewright.importers.torch.module",
    "frontier": "placewright.api.frontiers",
    "load_machine": "placewright.machines",
    "offload_states": "placewright.execution.pytorch.offloaded_states",
    "register_method": "placewright.methods.table",
    "register_policy_family": "placewright.methods.policies",
    "step_in_backward": "placewright.execution.pytorch.step_in_backward",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'placewright' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
