"""Ops that have no kernel on their planned device: they run on the host, with inputs and results moved.

Only an op that changes nothing but its results may do so. PyTorch finds out that a kernel is missing before the op has
done anything, or in the middle of its component ops; run again on the host, it starts from unchanged inputs. Imported
only where torch is known to be present.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from placewright.execution.pytorch.batch_norm import kernel_on_gpu
from placewright.execution.pytorch.layout import moved
from placewright.execution.pytorch.places import HOST, Driver, Place
from placewright.execution.pytorch.program import TorchProgram
from placewright.support.errors import InputError

#: Messages by which PyTorch says that it has no kernel for a device or for a dtype on it.
_MISSING = re.compile(r"Could not run '.+' with arguments from the|not implemented for|not (currently )?supported on")


def lacks_kernel(error: BaseException) -> bool:
    """True if an op raised because there is no kernel for the device and dtype of its arguments."""
    if isinstance(error, torch.OutOfMemoryError):
        return False
    return isinstance(error, NotImplementedError) or (
        isinstance(error, RuntimeError) and _MISSING.search(str(error)) is not None
    )


class Fallbacks:
    """The ops of a program that run on the host instead of their device: `reasons`, by name of the op. `proven` holds
    the ops and places of those that have run on their device; a step's shapes and dtypes are always the same."""

    def __init__(self, program: TorchProgram) -> None:
        self._program = program
        self.reasons: dict[str, str] = {}
        self.proven: set[tuple[int, Place]] = set()

    def function(self, op: int, place: Place) -> Callable[..., Any]:
        """The function for an op's call on a place: the op's own on the host, one that may fall back elsewhere."""
        function = self._program.calls[op].function
        if place.driver is None:
            return function
        function = kernel_on_gpu(function)
        if (op, place) in self.proven:
            return function
        return _MayFallBack(self, op, function, place, place.driver)

    def name_of(self, op: int) -> str:
        """The name of an op."""
        return self._program.graph.ops[op].name

    def fall(self, op: int, place: Place, error: BaseException) -> None:
        """Records that an op falls back, and warns of it. Raises InputError for an op that must not."""
        name, first = self.name_of(op), str(error).strip().splitlines()[0]
        if self._changes_in_place(op):
            raise InputError(
                f"the op '{name}' has no kernel on {place.name} and changes a tensor in place, so that it cannot fall "
                "back to the CPU; pin it to a CPU device"
            ) from error
        if name not in self.reasons:
            self.reasons[name] = f"{place.name}: {first}"
            warnings.warn(f"the op '{name}' has no kernel on {place.name} and runs on the CPU", stacklevel=2)

    def _changes_in_place(self, op: int) -> bool:
        """True if an op writes to an argument or returns a view of one; on the host it would do so to a copy."""
        if self._program.graph.ops[op].kind == "view":
            return True
        schema = getattr(self._program.calls[op].function, "_schema", None)
        return bool(schema is not None and schema.is_mutable)


class _MayFallBack:
    """A call on an accelerator, or on the host once there is no kernel for it."""

    def __init__(
        self, fallbacks: Fallbacks, op: int, function: Callable[..., Any], place: Place, driver: Driver
    ) -> None:
        self._fallbacks = fallbacks
        self._op = op
        self._function = function
        self._place = place
        self._driver = driver

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._fallbacks.name_of(self._op) not in self._fallbacks.reasons:
            try:
                made = self._function(*args, **kwargs)
                self._fallbacks.proven.add((self._op, self._place))
                return made
            except (NotImplementedError, RuntimeError) as error:
                if not lacks_kernel(error):
                    raise
                self._fallbacks.fall(self._op, self._place, error)
        args, kwargs = pytree.tree_map(self._on_host, (args, kwargs))
        driver = self._driver
        # The copies are done when the host has waited for the stream that they were launched on.
        driver.finish(driver.recorded(driver.current_stream()))
        return pytree.tree_map(self._back, self._function(*args, **kwargs))

    def _on_host(self, value: Any) -> Any:
        if isinstance(value, torch.device):
            return HOST
        if isinstance(value, torch.Tensor) and self._driver.holds(value):
            return moved(value, self._driver.sent_home)
        return value

    def _back(self, value: Any) -> Any:
        return moved(value, self._driver.brought) if isinstance(value, torch.Tensor) else value
