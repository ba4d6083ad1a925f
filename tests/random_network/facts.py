"""Accounts of the state before and after a call, and how two of them differ."""

from __future__ import annotations

import collections
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

_OF_MODULES = frozenset(vars(nn.Module())) - {"_parameters", "_buffers", "training"}


class Facts:
    """The state by path: values of tensors and of Python, and which of them share memory."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.ids: dict[str, int] = {}
        self._first: dict[int, str] = {}
        self._memory: dict[int, str] = {}
        self.ties: dict[str, str] = {}
        self.memory: dict[str, str] = {}
        self._alive: list[Any] = []

    def module(self, model: Any) -> Facts:
        for path, module in model.named_modules(remove_duplicate=False):
            for key, value in vars(module).items():
                # PyTorch's old hooks of weights keep there what the last call has computed.
                if key not in _OF_MODULES and not (key == "weight" and type(module) is nn.Linear):
                    self.read(f"{path}.{key}", value)
            for key in _OF_MODULES - {"_modules"}:
                if isinstance(found := vars(module).get(key), dict):
                    self.values[f"{path}.{key}"] = len(found)
            self.values[f"{path}()"] = (type(module).__name__, list(dict(module.named_children())))
        return self

    def read(self, path: str, value: Any, depth: int = 0) -> None:
        self._alive.append(value)
        if isinstance(value, torch.Tensor):
            self._tensor(path, value)
        elif depth > 7 or isinstance(value, (nn.Module, type)) or callable(value):
            self.values[path] = type(value)
        elif isinstance(value, dict):
            self.values[path] = [type(value), [str(key) for key in value]]
            for key, each in value.items():
                self.read(f"{path}.{key}", each, depth + 1)
        elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
            self.values[path] = [type(value), len(value)]
            for key, each in enumerate(value):
                self.read(f"{path}.{key}", each, depth + 1)
        elif hasattr(value, "__dict__") and type(value).__module__.split(".")[0] not in ("torch", "numpy"):
            self.values[path] = type(value)
            self.read(f"{path}.", vars(value), depth + 1)
        elif hasattr(value, "__slots__"):
            for key in value.__slots__:
                self.read(f"{path}.{key}", getattr(value, key, None), depth + 1)
        else:
            self.values[path] = (type(value), repr(value))

    def _tensor(self, path: str, tensor: Any) -> None:
        self.values[path] = Seen(tensor)
        self.ids[path] = id(tensor)
        self.ties[path] = self._first.setdefault(id(tensor), path)
        if tensor.numel() and not tensor.is_sparse:
            self.memory[path] = self._memory.setdefault(tensor.untyped_storage().data_ptr(), path)
        if tensor.is_leaf and tensor.grad is not None:
            self.read(f"{path}.grad", tensor.grad)

    def generators(self) -> Facts:
        self.values["python's generator"] = random.getstate()
        self.values["numpy's generator"] = repr(np.random.get_state())
        self.values["pytorch's generator"] = Seen(torch.get_rng_state())
        self.values["modes"] = (
            torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"),
            torch.get_default_dtype(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(),
        )  # fmt: skip
        return self


class Seen:
    """A tensor as it was."""

    def __init__(self, tensor: Any) -> None:
        self.requires_grad, self.dtype, self.shape = tensor.requires_grad, tensor.dtype, tuple(tensor.shape)
        self.kind, self.leaf = type(tensor), tensor.is_leaf
        strides = tensor.stride() if tensor.layout == torch.strided else ()
        self.stride = tuple(stride for stride, size in zip(strides, tensor.shape, strict=False) if size > 1)
        dense = tensor.detach()
        self.value = (dense.to_dense() if tensor.is_sparse else dense).clone().resolve_conj()

    def difference(self, other: Any, tolerance: float = 0.0) -> str | None:
        if not isinstance(other, Seen):
            return f"tensor and {other!r}"
        for what in ("kind", "dtype", "shape", "requires_grad", "leaf"):
            if getattr(self, what) != getattr(other, what):
                return f"{what} {getattr(self, what)} != {getattr(other, what)}"
        one, two = self.value, other.value
        if torch.equal(one, two) or same_bits(one, two):
            return None if self.stride == other.stride or one.numel() < 2 else f"stride {self.stride} != {other.stride}"
        gap = (one.to(torch.complex128) - two.to(torch.complex128)).abs().nan_to_num(9e9).max().item()
        return None if gap <= tolerance else f"bits: {gap:.3g}"


def same_bits(one: Any, two: Any) -> bool:
    return bool(((one == two) | ((one != one) & (two != two))).all())


def differences(eager: Facts, ours: Facts, tolerance: float = 0.0, *, ids: bool = False) -> Iterator[str]:
    for path in {**eager.values, **ours.values}:
        if path not in eager.values or path not in ours.values:
            yield f"{path}: only {'ours' if path in ours.values else 'eager'}"
            continue
        one, two = eager.values[path], ours.values[path]
        if isinstance(one, Seen):
            if why := one.difference(two, tolerance):
                yield f"{path}: {why}"
        elif isinstance(two, Seen) or one != two:
            yield f"{path}: {str(one)[:60]} != {str(two)[:60]}"
    for path in eager.ties:
        if path in ours.ties and eager.ties[path] != ours.ties[path]:
            yield f"{path}: tie {eager.ties[path]} != {ours.ties[path]}"
    for path in eager.memory:
        if path in ours.memory and eager.memory[path] != ours.memory[path]:
            yield f"{path}: memory {eager.memory[path]} != {ours.memory[path]}"
    if ids:
        for path in eager.ids:
            if path in ours.ids and eager.ids[path] != ours.ids[path]:
                yield f"{path}: another tensor"
