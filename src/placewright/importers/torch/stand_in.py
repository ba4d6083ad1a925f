"""Lets a module without memory, on the meta device, be traced as if its tensors stood on a real one.

PyTorch has no backward formula there for some ops, cross-entropy among them: it would trace the forward pass alone.
Imported only where torch is known to be present.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree


@contextlib.contextmanager
def off_meta(model: Any, leaves: Sequence[Any]) -> Iterator[tuple[list[Any], Any]]:
    """The leaves with fake tensors for those on the meta device, and the context to call the model in; for the time
    being the model holds fake tensors, too, which keep shape, strides, ties and `requires_grad`.

    A model built under a FakeTensorMode has its real arguments made fake, so that both can meet.
    """
    held = [tensor for module in model.modules() for tensor in tensors_of(vars(module))]
    tensors = [*held, *tensors_of(leaves)]
    on_meta = [tensor for tensor in tensors if tensor.is_meta]
    device = next((tensor.device for tensor in tensors if not tensor.is_meta), torch.device("cpu"))
    mode = next((tensor.fake_mode for tensor in tensors if isinstance(tensor, FakeTensor)), None)
    if on_meta and mode is None:
        mode = FakeTensorMode(allow_non_fake_inputs=True)
    context = _InsteadOfMeta(device) if on_meta else contextlib.nullcontext()
    stand_ins = {id(tensor): _stand_in(tensor, mode, device) for tensor in on_meta}
    meta_is_default = torch.get_default_device().type == "meta"
    with _attributes_replaced(model, stand_ins), torch.device(device) if meta_is_default else contextlib.nullcontext():
        yield [_faked(stand_ins.get(id(leaf), leaf), mode) for leaf in leaves], context


def tensors_of(tree: Any) -> list[Any]:
    """The tensors in containers, in order."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _stand_in(tensor: Any, mode: Any, device: Any) -> Any:
    """A fake tensor like it on `device`; the mode gives a tensor it has seen the same one again, which keeps ties."""
    fake = mode.from_tensor(tensor)
    fake.fake_device = device
    return fake


def _faked(leaf: Any, mode: Any) -> Any:
    if mode is None or not isinstance(leaf, torch.Tensor) or isinstance(leaf, FakeTensor):
        return leaf
    return mode.from_tensor(leaf)


@contextlib.contextmanager
def _attributes_replaced(model: Any, stand_ins: Mapping[int, Any]) -> Iterator[None]:
    """Every attribute of the model's modules that holds a tensor with a stand-in (parameters, buffers, plain
    attributes, containers of tensors) holds the stand-in; afterwards each module has the attributes it had before."""
    if not stand_ins:
        yield
        return
    before = [(module, dict(vars(module))) for module in model.modules()]
    for module, attributes in before:
        for name, value in attributes.items():
            if any(id(tensor) in stand_ins for tensor in tensors_of(value)):
                vars(module)[name] = pytree.tree_map(lambda leaf: stand_ins.get(id(leaf), leaf), value)
    try:
        yield
    finally:
        for module, attributes in before:
            vars(module).clear()
            vars(module).update(attributes)


class _InsteadOfMeta(TorchFunctionMode):
    """The model's own calls that name the meta device name another one instead."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map(self._instead, (args, kwargs or {}))
        return function(*args, **kwargs)

    def _instead(self, value: Any) -> Any:
        names_meta = isinstance(value, (str, torch.device)) and str(value).startswith("meta")
        return self._device if names_meta else value
