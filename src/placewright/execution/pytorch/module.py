"""A module that runs as planned: its parameters, its gradients, and what it returns.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import nn

from placewright.execution.pytorch.program import TorchProgram, attribute, describe_signature
from placewright.plans.record import Plan
from placewright.support.errors import InputError, shown


class RunsStep(Protocol):
    """What runs a plan for a program: devices of one process, or ranks."""

    program: TorchProgram
    plan: Plan

    def run(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> dict[int, Any]:
        """Runs one step and returns the outputs of the graph, by tensor."""


OneStep = TypeVar("OneStep", bound=RunsStep)


class PlannedModule(Generic[OneStep]):
    """A plan for one call of a module, or for one training step of it."""

    def __init__(self, step: OneStep, model: nn.Module) -> None:
        self.step = step
        self.parameters = Parameters(model, list(step.program.parameters.values()), trained=step.program.training)
        self._lock = threading.Lock()

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """Runs one step on the tensors that the module is called with, in order.

        Returns what the module returns, or the loss of a training step, whose gradients are added to those that the
        parameters have. Raises InputError when tensors or parameters are not what the plan was made for.
        """
        program = self.step.program
        with self._lock:
            parameters = self.parameters.now()
            out = self.step.run(parameters, tensors)
            if program.gradients:
                # Gradients of two parameters may be one tensor, or an input.
                shared = {_memory_of(tensor) for tensor in (*parameters, *tensors)}
                for name, tensor in program.gradients.items():
                    _accumulate(self.parameters.named(name), out[tensor], shared)
        return program.returned.filled([out[tensor] for tensor in program.results])


class Parameters:
    """Parameters and buffers of a module by name, as they are when a step begins.

    trained: whether it matters which of them want a gradient.
    """

    def __init__(self, model: nn.Module, names: Sequence[str], *, trained: bool = False) -> None:
        self._names = names
        self._trained = trained
        self._places = [_place(model, name) for name in names]
        self._number = {name: number for number, name in enumerate(names)}
        self._known = self._read()
        self._expected = [_sort_of(tensor, trained) for tensor in self._known]

    def now(self) -> list[Any]:
        """In the order of the names. Raises InputError where one is gone, or of another shape, dtype or device than it
        was, or frozen since then: `.to()` and `requires_grad_()` change a parameter without replacing it."""
        self._known = self._read()
        found = [_sort_of(tensor, self._trained) for tensor in self._known]
        if found != self._expected:
            for name, now, before in zip(self._names, found, self._expected, strict=True):
                if now != before:
                    raise InputError(
                        f"'{shown(name)}' is now {_described(now)}, and the plan was made for {_described(before)}; "
                        "compile the module again"
                    )
        return self._known

    def named(self, name: str) -> Any:
        """One of them."""
        return self._known[self._number[name]]

    def _read(self) -> list[Any]:
        return [held.get(key) for held, key in self._places]


#: Shape, dtype, device, and of a training step whether it wants a gradient.
_Sort = tuple[tuple[int, ...], Any, Any, bool]


def _sort_of(tensor: Any, trained: bool) -> _Sort | None:
    if not isinstance(tensor, torch.Tensor):
        return None
    return tensor.shape, tensor.dtype, tensor.device, trained and tensor.requires_grad


def _described(sort: _Sort | None) -> str:
    if sort is None:
        return "gone"
    shape, dtype, device, trained = sort
    where = "" if device.type == "cpu" else f" on {device}"
    return f"{describe_signature([(tuple(shape), dtype)])}{where}{', with a gradient' if trained else ''}"


def _place(model: nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """The dictionary that holds a parameter, buffer or plain attribute, and its key there."""
    path, _, key = name.rpartition(".")
    module = attribute(model, path) if path else model
    held = vars(module)
    for among in (held["_parameters"], held["_buffers"], held):
        if key in among:
            return among, key
    raise InputError(f"the module holds no tensor '{shown(name)}'")


def _accumulate(parameter: Any, gradient: Any, shared: set[int]) -> None:
    """Adds a gradient to that of a parameter, which gets memory of its own, laid out as the parameter is. shared: what
    memory is in use; that of the gradient comes to it."""
    if parameter.grad is not None:
        parameter.grad += gradient
        return
    whole = gradient.untyped_storage().nbytes() == gradient.numel() * gradient.element_size()
    if whole and gradient.stride() == parameter.stride() and _memory_of(gradient) not in shared:
        parameter.grad = gradient
    else:
        parameter.grad = torch.empty_like(parameter, requires_grad=False).copy_(gradient)
    shared.add(_memory_of(gradient))


def _memory_of(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())
