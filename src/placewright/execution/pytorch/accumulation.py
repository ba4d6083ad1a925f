"""Gradients that are there when a training step begins, and which of them the step itself adds to.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from placewright.execution.pytorch.layout import is_laid_out_for
from placewright.execution.pytorch.places import Driver
from placewright.importers.torch.graph import gradient_name
from placewright.importers.torch.held import Slot
from placewright.importers.torch.rehearsal import State


@dataclass(frozen=True, kw_only=True)
class _GradientSlot(Slot):
    """The place of a parameter's gradient. within: that of the parameter."""

    def get(self) -> Any:
        """The gradient now; None where there is none."""
        parameter = None if self.within is None else self.within.get()
        return None if parameter is None else parameter.grad


def gradient_state(parameter: State) -> State:
    """The gradient of a parameter, as a tensor that lives on between calls."""
    name = gradient_name(parameter.name)
    return State(
        name=name, tensor=None, slot=_GradientSlot(name=name, container=None, key="grad", within=parameter.slot)
    )


@dataclass(frozen=True, kw_only=True)
class FoundGradients:
    """The gradients that a step finds.

    addable: names of the parameters to whose gradient an op of the step can add a new one, as autograd does. num_bytes:
    of all gradients.
    """

    addable: tuple[str, ...] = ()
    num_bytes: int = 0


def found_gradients(model: nn.Module, tensors: Sequence[Any], driver: Driver | None) -> FoundGradients:
    """What the parameters of a module and the tensors that it is called with have as gradients. driver: of the device
    that computes; None for the host."""
    parameters = list(model.named_parameters(remove_duplicate=False))
    holders = {id(tensor): tensor for tensor in (*(tensor for _, tensor in parameters), *tensors)}.values()
    found = {id(tensor): tensor.grad for tensor in holders if tensor.is_leaf and tensor.grad is not None}
    if not found:
        return FoundGradients()
    in_use = Counter(_memory_of((*holders, *model.buffers(), *found.values())))
    addable = (
        name
        for name, parameter in parameters
        if id(parameter) in found and _is_addable(found[id(parameter)], parameter, in_use, driver)
    )
    dense = (gradient for gradient in found.values() if not gradient.is_sparse)
    return FoundGradients(addable=tuple(addable), num_bytes=sum(gradient.nbytes for gradient in dense))


def also_read(gradients: Mapping[str, Any], others: Iterable[Any]) -> frozenset[str]:
    """Names of the parameters whose gradients lie where one of the other tensors lies, too, which a step reads under
    another name: added to early, later ops would see it."""
    memory = set(_memory_of(others))
    return frozenset(name for name, gradient in gradients.items() if not memory.isdisjoint(_memory_of([gradient])))


def _is_addable(gradient: Any, parameter: Any, in_use: Counter[int], driver: Driver | None) -> bool:
    """Whether an op can add to a gradient where it lies, and nothing else sees that."""
    if type(gradient) is not torch.Tensor or gradient.layout != torch.strided:
        return False
    if gradient.requires_grad or gradient.is_inference() or gradient.is_conj() or gradient.is_neg():
        return False
    if gradient.dtype != parameter.dtype or not is_laid_out_for(gradient, parameter):
        return False
    there = gradient.device.type == "cpu" if driver is None else driver.holds(gradient)
    return there and in_use[next(_memory_of([gradient]))] == 1


def _memory_of(tensors: Iterable[Any]) -> Any:
    return (tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.layout == torch.strided)
