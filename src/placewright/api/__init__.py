"""What Python callers use: `plan()`, `compile()`, `profile()`, `inspect()` and so on, and what these return."""

from placewright.api.fitting import fit
from placewright.api.frontiers import frontier
from placewright.api.functions import as_machine, inspect, load, plan, save
from placewright.api.onnx_running import compile_onnx
from placewright.api.ordering import inductor_options, inductor_pass
from placewright.api.running import compile, profile
from placewright.api.training_setups import alternatives

__all__ = [
    "alternatives",
    "as_machine",
    "compile",
    "compile_onnx",
    "fit",
    "frontier",
    "inductor_options",
    "inductor_pass",
    "inspect",
    "load",
    "plan",
    "profile",
    "save",
]
