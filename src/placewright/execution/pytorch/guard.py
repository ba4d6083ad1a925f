"""Whether a module is still what a plan was made of: its layers, its hooks, the values of its attributes, and what its
own code and the loss read beside them.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import dis
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from itertools import chain
from operator import is_
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as every_module

from placewright.execution.pytorch.runnable import HOOKS
from placewright.importers.torch.calls import layers_noted
from placewright.importers.torch.held import GONE, Held, is_equal
from placewright.importers.torch.outside import Place

#: Values inside each other are followed so far from what code names.
_DEPTH = 6
#: Arrays are compared up to so many bytes, which takes a few microseconds.
_MAX_ARRAY_BYTES = 1 << 16
_CHANGING = (dict, list, set, deque)
#: What holds nothing that anybody else changes, or is watched elsewhere.
_PLAIN = (int, float, str, bool, complex, bytes, type(None), torch.Tensor, types.BuiltinFunctionType)
_DESCRIPTORS = (staticmethod, classmethod, property, cached_property)
#: Has run before there is anything to watch, but for what forward makes itself.
_CONSTRUCTOR = "__init__"
#: Whose classes' objects are as PyTorch and NumPy make them.
_LIBRARIES = ("torch", "numpy", "placewright", "builtins")
#: Folders of packages that are not the user's own, beside those of Python.
_PACKAGES = frozenset({"site-packages", "dist-packages"})


class Guard:
    """Knows a module and the loss as they were; most calls find the same objects everywhere, which is all that is
    looked at then."""

    def __init__(self, model: nn.Module, loss: Callable[[Any], Any] | None = None) -> None:
        self._model, self._loss = model, loss
        self._read()

    def _read(self) -> None:
        self._hooks = [getattr(module, attribute) for module in self._model.modules() for attribute in HOOKS]
        self._num_hooks = [len(hooks) for hooks in self._hooks]
        self._of_all_modules = _hooks_of_all_modules()
        watched = _Watched(self._model, self._loss)
        self._ties = _ties(watched.held)
        self._containers, self._places, self._arrays = watched.containers, watched.places, watched.arrays
        holders = [place.holder for _, place in self._containers]
        # As places, which who looks for references to a tensor passes over; views of dictionaries show what is there.
        self._now = Place(
            [holder.values() if isinstance(holder, dict) else holder for holder in holders],
            [holder for holder in holders if isinstance(holder, dict)],
            tuple(chain.from_iterable(place.value for _, place in self._containers)),
        )
        self._keys = [key for _, place in self._containers if isinstance(place.holder, dict) for key in place.key]
        self._sizes = [len(holder) for holder in holders]

    def change(self) -> str | None:
        """The name of what is no longer what it was; None where all is. Tensors may be others: whether these fit is
        asked where they are read."""
        if list(map(len, self._hooks)) != self._num_hooks or _hooks_of_all_modules() != self._of_all_modules:
            self._read()
            return "hooks"
        now = self._now
        if (
            list(map(len, now.holder)) == self._sizes
            and all(map(is_, chain.from_iterable(now.holder), now.value))
            and all(map(is_, chain.from_iterable(now.key), self._keys))
            and all(place.is_there for _, place in self._places)
            and all(place.holder.tobytes() == place.value for _, place in self._arrays)
        ):
            return None
        ties, found = self._ties, self._changed()
        self._read()
        if found is None and self._ties != ties:
            found = "shared parameters"
        return found

    def _changed(self) -> str | None:
        """The first value that is another one."""
        for path, place in self._containers:
            if (key := _difference(place)) is not None:
                return f"{path}.{key}".strip(".") or "the module"
        for path, place in self._places:
            if not place.is_there and not _is_alike(_value_at(place.holder, place.key), place.value):
                return path
        return next((path for path, place in self._arrays if place.holder.tobytes() != place.value), None)


class _Watched:
    """What is looked at before a call, each with its name: containers with keys and values, places of single values,
    and arrays with their bytes. held: what the module's attributes reach.

    Of objects outside of the module only the attributes that some code names which the module or the loss reaches: what
    one function passes on, another one reads.
    """

    def __init__(self, model: nn.Module, loss: Callable[[Any], Any] | None) -> None:
        self._own = {id(module) for module in model.modules()}
        #: By all code that has been reached so far.
        self._named: set[str] = set()
        num_named = -1
        while num_named < len(self._named):
            num_named = len(self._named)
            self._read_all(model, loss)

    def _read_all(self, model: nn.Module, loss: Callable[[Any], Any] | None) -> None:
        self.containers: list[tuple[str, Place]] = []
        self.places: list[tuple[str, Place]] = []
        self.arrays: list[tuple[str, Place]] = []
        #: What has been looked at, by identity; kept, so that identities stay its own.
        self._seen: dict[int, Any] = {}
        self._placed: set[tuple[int, str]] = set()
        self.held = self._module("", model)
        if loss is not None:
            self._named.add("__call__")
            self._value("loss", loss, 1)

    def _module(self, path: str, module: nn.Module) -> Held:
        held = Held(module)
        modules = [(_joined(path, name), each) for name, each in module.named_modules()]
        self._add(path, held.containers())
        for name, each in modules:
            self._add(name, [("", each._modules)])
            if id(each) not in self._own:
                self._add(name, (("", getattr(each, attribute)) for attribute in HOOKS))
                self._place(_joined(name, "training"), vars(each), "training")
            self._class(name, type(each))
        for slot, value in held.values:
            if not isinstance(value, (*_CHANGING, tuple, frozenset)):
                self._value(_joined(path, slot.name), value, 0)
        return held

    def _add(self, path: str, containers: Iterable[tuple[str, Any]]) -> None:
        for name, container in containers:
            if isinstance(container, _CHANGING):
                values = container.values() if isinstance(container, dict) else container
                self.containers.append((_joined(path, name), Place(container, tuple(container), tuple(values))))

    def _class(self, path: str, kind: type) -> None:
        """What code of a module's own class reads, and its attributes: plain values, and whatever some code names."""
        for each in kind.__mro__:
            if _is_of_library(each) or self._is_known(each):
                continue
            for name, value in list(vars(each).items()):
                function = _function_of(value)
                if function is not None:
                    if name != _CONSTRUCTOR:
                        self._code(name, function)
                elif not name.startswith("__") and (name in self._named or isinstance(value, _PLAIN)):
                    self._read(_joined(path, name), each, name, 1)

    def _code(self, path: str, function: types.FunctionType) -> None:
        """The plain values, and what holds more of them, that a function reads beside its arguments."""
        wrapped = getattr(function, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType):
            self._code(path, wrapped)
        if _is_installed(function.__code__.co_filename) or self._is_known(function):
            return
        if str(function.__module__).split(".")[0] == "placewright":
            return
        self._named.update(_names(function.__code__))
        for name in ("__defaults__", "__kwdefaults__"):
            self._read(path, function, name, 1)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._read(name, cell, "cell_contents", 1)
        for name in sorted(_globals(function.__code__) & function.__globals__.keys()):
            self._read(name, function.__globals__, name, 1)

    def _read(self, path: str, holder: Any, key: str, depth: int) -> None:
        value = _value_at(holder, key)
        if value is GONE or isinstance(value, torch.Tensor):
            return
        if not isinstance(value, (types.ModuleType, types.BuiltinFunctionType, type)):
            self._place(path, holder, key)
        self._value(path, value, depth)

    def _value(self, path: str, value: Any, depth: int) -> None:
        """depth: 0 for what stands in the module, of which containers and attributes are looked at already."""
        if isinstance(value, _PLAIN) or depth > _DEPTH:
            return
        if isinstance(value, types.FunctionType):
            self._code(path, value)
        elif id(value) in self._own or self._is_known(value):
            return
        elif isinstance(value, nn.Module):
            self._module(path, value)
        elif isinstance(value, types.MethodType):
            self._value(path, value.__func__, depth)
            self._value(path, value.__self__, depth + 1)
        elif isinstance(value, partial):
            for each in (value.func, value.args, value.keywords):
                self._value(path, each, depth + 1)
        elif isinstance(value, np.ndarray):
            if value.dtype != object and value.nbytes <= _MAX_ARRAY_BYTES:
                self.arrays.append((path, Place(value, None, value.tobytes())))
        elif isinstance(value, (*_CHANGING, tuple, frozenset)):
            self._add(path, [("", value)])
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, each in list(items):
                self._value(f"{path}.{key}", each, depth + 1)
        else:
            self._object(path, value, depth)

    def _object(self, path: str, value: Any, depth: int) -> None:
        kind = value if isinstance(value, type) else type(value)
        if isinstance(value, types.ModuleType):
            if (file := getattr(value, "__file__", None)) is None or _is_installed(file):
                return
        elif _is_of_library(kind):
            return
        own = getattr(value, "__dict__", {})
        slots = {name for each in kind.__mro__ for name in _slots_of(each)}
        for name in sorted(slots if depth == 0 else self._named & {*slots, *own}):
            holder = own if isinstance(own, dict) and name in own and not isinstance(value, types.ModuleType) else value
            self._read(f"{path}.{name}", holder, name, depth + 1)
        for each in kind.__mro__ if depth and not isinstance(value, types.ModuleType) else ():
            for name in sorted(self._named & vars(each).keys()) if not _is_of_library(each) else ():
                if name == _CONSTRUCTOR and value is not kind:
                    continue
                function = _function_of(vars(each)[name])
                if function is None:
                    self._read(f"{path}.{name}", each, name, depth + 1)
                else:
                    self._code(name, function)

    def _place(self, path: str, holder: Any, key: str) -> None:
        if (id(holder), key) not in self._placed:
            self._placed.add((id(holder), key))
            self.places.append((path, Place(holder, key, _value_at(holder, key))))

    def _is_known(self, value: Any) -> bool:
        """Whether it has been looked at; from now on it has."""
        is_known = id(value) in self._seen
        self._seen[id(value)] = value
        return is_known


def _hooks_of_all_modules() -> list[Any]:
    """But those by which another thread may trace a module now."""
    every = (getattr(every_module, f"_global{attribute}") for attribute in HOOKS)
    return [
        hook
        for hooks in every
        for hook in hooks.values()
        if getattr(hook, "__module__", None) != layers_noted.__module__
    ]


def _globals(code: types.CodeType) -> set[str]:
    """Names that a function and those within it look up outside of themselves, attributes not among them."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return found.union(*(_globals(each) for each in code.co_consts if isinstance(each, types.CodeType)))


def _names(code: types.CodeType) -> Iterator[str]:
    """Of globals and attributes in a function and in those within it."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names(each)


def _function_of(value: Any) -> types.FunctionType | None:
    """The code of a method, a property, or a static or a class method."""
    for name in ("__func__", "fget", "func"):
        value = getattr(value, name, value) if isinstance(value, _DESCRIPTORS) else value
    return value if isinstance(value, types.FunctionType) else None


def _is_of_library(kind: type) -> bool:
    return str(kind.__module__).split(".")[0] in _LIBRARIES


def _is_installed(file: str) -> bool:
    folders = Path(file).parents
    return Path(sysconfig.get_path("stdlib")) in folders or any(folder.name in _PACKAGES for folder in folders)


def _slots_of(kind: type) -> tuple[str, ...]:
    names = vars(kind).get("__slots__", ())
    return (names,) if isinstance(names, str) else tuple(names)


def _value_at(holder: Any, key: str) -> Any:
    """What stands there; GONE for nothing."""
    if isinstance(holder, dict):
        return holder.get(key, GONE)
    try:
        return getattr(holder, key, GONE)
    except ValueError:  # An empty cell.
        return GONE


def _difference(place: Place) -> Any:
    """The first key of a container under which another value stands; an empty one where keys are others."""
    container = place.holder
    if tuple(container) != place.key if isinstance(container, dict) else len(container) != len(place.key):
        return ""
    values = container.values() if isinstance(container, dict) else container
    for number, (now, before) in enumerate(zip(values, place.value, strict=True)):
        key = place.key[number] if isinstance(container, dict) else number
        if key != "training" and not _is_alike(now, before):
            return key
    return None


def _is_alike(now: Any, before: Any, depth: int = 0) -> bool:
    """Whether a value holds the same plain values as the one before, and tensors where that has tensors."""
    if now is before or (isinstance(now, torch.Tensor) and isinstance(before, torch.Tensor)):
        return True
    if type(now) is not type(before) or depth > _DEPTH:
        return False
    if isinstance(now, (dict, list, tuple)) or _is_of_fields(now):
        one, other = _fields(now), _fields(before)
        return list(one) == list(other) and all(_is_alike(one[key], other[key], depth + 1) for key in one)
    return is_equal(now, before)


def _is_of_fields(value: Any) -> bool:
    """Whether an object is no more than its attributes."""
    kind = type(value)
    if isinstance(value, (type, nn.Module, types.FunctionType, types.MethodType, *_CHANGING)) or _is_of_library(kind):
        return False
    return hasattr(value, "__dict__") or any(map(_slots_of, kind.__mro__))


def _fields(value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    slots = (name for kind in type(value).__mro__ for name in _slots_of(kind) if hasattr(value, name))
    return {name: getattr(value, name) for name in slots} | getattr(value, "__dict__", {})


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}".strip(".")


def _ties(held: Held) -> list[int]:
    """Of each tensor the place of the first that is the same one."""
    first: dict[int, int] = {}
    return [first.setdefault(id(tensor), place) for place, (_, tensor) in enumerate(held.tensors())]
