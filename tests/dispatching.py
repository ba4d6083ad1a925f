"""accelerate's `dispatch_model` on two or more GPUs that do not exist."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from accelerate import dispatch_model
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from placewright.export.device_map import Place


class OnGpu(torch.Tensor):
    """A tensor that says which GPU it is on where there is none: it computes on the CPU, stays where it is put, and
    refuses operands from different devices, as a tensor on a GPU does."""

    place: str
    _is_param: bool

    @staticmethod
    def __new__(cls, data: torch.Tensor, place: str = "cpu", requires_grad: bool = False) -> OnGpu:
        with torch._C.DisableTorchFunctionSubclass():
            made = torch.Tensor._make_subclass(cls, data.detach(), requires_grad)
        made.place = getattr(data, "place", place)
        # PyTorch takes a tensor with this attribute for a parameter.
        made._is_param = getattr(data, "_is_param", False)
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == torch.Tensor.device.__get__:
            return torch.device(args[0].place)
        if func is torch.Tensor.to and isinstance(args[1], str | torch.device):
            with torch._C.DisableTorchFunctionSubclass():
                moved = OnGpu(args[0].clone().as_subclass(torch.Tensor), str(args[1]))
                moved._is_param = getattr(args[0], "_is_param", False)
                return moved
        operands = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, OnGpu)]
        with torch._C.DisableTorchFunctionSubclass():
            # PyTorch lets one number on the CPU meet tensors elsewhere.
            places = sorted({operand.place for operand in operands if operand.place != "cpu" or operand.dim()})
            if len(places) > 1:
                raise RuntimeError(f"{func.__name__}: operands on {', '.join(places)}")
            result = func(*args, **(kwargs or {}))

        def mark(leaf: Any) -> Any:
            return OnGpu(leaf, places[0] if places else "cpu") if isinstance(leaf, torch.Tensor) else leaf

        return pytree.tree_map(mark, result)


class OnGpuFromTheStart(TorchFunctionMode):
    """A mode in which tensors that are created on a GPU are `OnGpu`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if "cuda" in str(given.get("device")) and func is not torch.Tensor.to:
            place = str(given.pop("device"))
            return OnGpu(func(*args, **given), place)
        return func(*args, **given)


def on_gpus(model: nn.Module, made: dict[int, OnGpu]) -> nn.Module:
    """A copy whose tensors can be moved to GPUs that do not exist. made: keeps these tensors alive before they are
    moved, since accelerate knows a tied one by its address."""
    moved = copy.deepcopy(model)
    for module in moved.modules():
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    found = made.setdefault(id(tensor), OnGpu(tensor.data))
                    found._is_param = isinstance(tensor, nn.Parameter)
                    held[name] = found
    return moved


def dispatched(model: nn.Module, mapping: Mapping[str, Place], args: tuple[Any, ...]) -> tuple[Any, nn.Module]:
    """The result of the model dispatched over GPUs, and that model. GPUs are named "cuda:N", since without a GPU
    PyTorch does not take 0 for one."""
    made: dict[int, OnGpu] = {}
    moved = on_gpus(model, made)
    named = {path: place if place == "cpu" else f"cuda:{place}" for path, place in mapping.items()}
    dispatch_model(moved, named, main_device=min(named.values()), force_hooks=True)
    with torch.no_grad(), OnGpuFromTheStart():
        result = moved(*(OnGpu(argument) for argument in args))
    with torch._C.DisableTorchFunctionSubclass():
        return getattr(result, "logits", result).as_subclass(torch.Tensor), moved
