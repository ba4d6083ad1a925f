"""Lets a module without memory, on the meta device, be captured as if its tensors were on a real one.

PyTorch has no backward formula there for some ops, such as cross-entropy: it would trace the forward pass alone.
Imported only where torch is known to be present.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from placewright.importers.torch.results import tensors_of


@contextlib.contextmanager
def off_meta(model: nn.Module, leaves: Sequence[Any]) -> Iterator[list[Any]]:
    """A context that gives the leaves with fake tensors for those on the meta device; meanwhile the model also holds
    fake tensors, which keep shape, strides, ties and `requires_grad`, and names another device wherever it names that
    one."""
    held = [tensor for module in model.modules() for tensor in tensors_of(vars(module))]
    on_meta = [tensor for tensor in (*held, *tensors_of(list(leaves))) if tensor.is_meta]
    device = next((tensor.device for tensor in (*held, *tensors_of(list(leaves))) if not tensor.is_meta), None)
    device = device or torch.device("cpu")
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    stand_ins = {id(tensor): _stand_in(tensor, mode, device) for tensor in on_meta}
    meta_is_default = torch.get_default_device().type == "meta"
    with (
        _attributes_replaced(model, stand_ins, device) if on_meta else contextlib.nullcontext(),
        torch.device(device) if meta_is_default else contextlib.nullcontext(),
    ):
        yield [stand_ins.get(id(leaf), leaf) for leaf in leaves]


def _stand_in(tensor: Any, mode: FakeTensorMode, device: torch.device) -> Any:
    """A fake tensor like it on `device`; the mode returns the same one for a tensor it has seen, which keeps ties."""
    fake: Any = mode.from_tensor(tensor)
    fake.fake_device = device
    return fake


@contextlib.contextmanager
def _attributes_replaced(model: nn.Module, stand_ins: Mapping[int, Any], device: torch.device) -> Iterator[None]:
    """A context in which every attribute of the model's modules that holds a tensor with a stand-in (parameters,
    buffers, plain attributes, containers of tensors) holds the stand-in; afterwards each module has the attributes it
    had before."""

    def instead(leaf: Any) -> Any:
        if isinstance(leaf, torch.device) and leaf.type == "meta":
            return device
        return stand_ins.get(id(leaf), leaf)

    before = [(module, dict(vars(module))) for module in model.modules()]
    for module, attributes in before:
        for name, value in attributes.items():
            leaves, structure = pytree.tree_flatten(value)
            now = [instead(leaf) for leaf in leaves]
            if any(new is not old for new, old in zip(now, leaves, strict=True)):
                vars(module)[name] = pytree.tree_unflatten(now, structure)
    try:
        yield
    finally:
        for module, attributes in before:
            vars(module).clear()
            vars(module).update(attributes)
