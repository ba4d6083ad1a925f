"""The classes, functions and settings that PyTorch assumed to be constant when it captured a module.

PyTorch guards objects and what they hold, not classes, methods, builtins and settings of the process. Imported only
where torch is known to be present.
"""

from __future__ import annotations

import abc
import builtins
import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partialmethod
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.nn.modules import module as every_module

from placewright import _core

#: PyTorch's names for hooks of all modules, which it does not guard.
_HOOKS = [name for name in vars(every_module) if name.startswith("_global_") and name.endswith("_hooks")]
_TORCH = str(Path(torch.__file__).parent)
_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...))
#: Methods of a class that PyTorch calls when it captures, in place of interpreting them.
_CALLED = ("__class_getitem__", "__subclasshook__")


@dataclass(frozen=True)
class _Class:
    """The state of a class. names: of all attributes. values: of methods and of attributes that traced code names."""

    bases: tuple[type, ...]
    names: frozenset[str]
    values: Mapping[str, Any]
    #: Held so that no other object gets the identity of one of these.
    held: tuple[Any, ...] = field(compare=False)


class _Function:
    """The state of a function: its code, its defaults, and how much it holds."""

    def __init__(self, function: FunctionType) -> None:
        self._parts = function.__code__, function.__defaults__, function.__kwdefaults__
        self._held, self._annotations = len(function.__dict__), len(function.__annotations__)

    def is_of(self, function: FunctionType) -> bool:
        """True if a function has this state now."""
        code, defaults, keyword_defaults = self._parts
        return (
            function.__code__ is code
            and function.__defaults__ is defaults
            and function.__kwdefaults__ is keyword_defaults
            and len(function.__dict__) == self._held
            and len(function.__annotations__) == self._annotations
        )


class TracedCode:
    """The code that was interpreted, and the state of what it depends on.

    traced: the code that PyTorch interpreted.
    """

    def __init__(self, traced: Sequence[CodeType]) -> None:
        self._known = set(traced)
        self._names = {name for code in self._known for name in code.co_names}
        self._watched: dict[type, _Class] = {}
        #: Attributes of classes whose own code is called, which may read all of them.
        self._contents: dict[type, Any] = {}
        self._order: list[type] = []
        self._versions = _core.TypeVersions()
        self._functions: dict[FunctionType, _Function] = {}
        #: Names that code looks up among builtins, by the globals that lack them.
        self._not_in: dict[int, tuple[dict[str, Any], set[str]]] = {}
        self._builtins: dict[str, Any] = {}
        self._settings = self._settings_now()
        names = {code.co_name for code in self._known}
        for kind in _all_classes():
            own = vars(kind)
            for name in names & own.keys():
                if any(function.__code__ in self._known for function in _functions_of(own[name])):
                    self.watch(kind)

    def watch(self, kind: type) -> None:
        """Notes a class and what it inherits from."""
        for each in kind.__mro__:
            if each is not object and each not in self._watched:
                self._watched[each] = self._state(each)
                self._order.append(each)
                self._versions.add(each)
                for value in vars(each).values():
                    for function in _functions_of(value):
                        if function.__code__ in self._known:
                            self.watch_function(function)

    def watch_value(self, kind: type) -> None:
        """Notes a class that is read itself, not for its instances."""
        self.watch(kind)
        if _runs_its_own_code(kind):
            for each in (*kind.__mro__, *inspect.getmro(type(kind))):
                if _is_users(each):
                    self._contents[each] = _contents_of(each)

    def watch_function(self, function: FunctionType) -> None:
        """Notes the state of a user's function, and the builtins that its code reads."""
        if is_of_pytorch(function.__code__):
            return
        self._functions[function] = _Function(function)
        own = function.__globals__
        for name in function.__code__.co_names:
            if name not in own and name in vars(builtins):
                self._builtins[name] = vars(builtins)[name]
                self._not_in.setdefault(id(own), (own, set()))[1].add(name)

    def is_as_it_was(self) -> bool:
        """True if classes, functions and settings are unchanged."""
        return (
            all(self._is_same(place) for place in self._versions.changed())
            and all(state.is_of(function) for function, state in self._functions.items())
            and all(own.keys().isdisjoint(names) for own, names in self._not_in.values())
            and all(vars(builtins).get(name) is value for name, value in self._builtins.items())
            and all(_contents_of(kind) == contents for kind, contents in self._contents.items())
            and self._settings == self._settings_now()
        )

    def _settings_now(self) -> tuple[Any, ...]:
        """Settings of the process that PyTorch does not guard: hooks of all modules, the registry of virtual
        subclasses, autocast's dtypes, and the environment where code reads it."""
        return (
            [list(getattr(every_module, name).values()) for name in _HOOKS],
            abc.get_cache_token(),
            torch.get_autocast_dtype("cpu"),
            torch.get_autocast_dtype("cuda"),
            dict(os.environ) if "environ" in self._names else None,
        )

    def _is_same(self, place: int) -> bool:
        """True if a class whose version has changed is unchanged in what counts."""
        kind = self._order[place]
        was = self._watched[kind]
        is_same = was == self._state(kind)
        if is_same:
            self._versions.accept(place)
        return is_same

    def _state(self, kind: type) -> _Class:
        own = vars(kind)
        counts = {
            name: id(value)
            for name, value in own.items()
            if name in self._names or callable(value) or hasattr(type(value), "__get__")
        }
        return _Class(kind.__bases__, frozenset(own), counts, tuple(own.values()))


def is_of_pytorch(code: CodeType) -> bool:
    """True if code is PyTorch's own, of which users change whole methods at most."""
    return code.co_filename.startswith(_TORCH)


def content_of(value: Any) -> Any:
    """The content of a container of plain values, as an object that does not change with it; for anything else its
    identity."""
    if type(value) in _ATOMS:
        return type(value), repr(value)  # By their texts zero and minus zero differ.
    if type(value) in (tuple, list):
        return (type(value), *(content_of(each) for each in value))
    if type(value) in (set, frozenset):
        return (type(value), *sorted((content_of(each) for each in value), key=repr))
    if type(value) is dict:
        return (dict, *(content_of(each) for pair in value.items() for each in pair))
    return id(value)


def _runs_its_own_code(kind: type) -> bool:
    """True if PyTorch calls Python code of a class when the class itself is read, instead of interpreting it."""
    called = [vars(each).get(name) for name in _CALLED for each in kind.__mro__ if _is_users(each)]
    for each in inspect.getmro(type(kind)):
        called += vars(each).values() if _is_users(each) else ()
    return any(True for value in called for _ in _functions_of(value))


def _is_users(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in sys.stdlib_module_names


def _contents_of(kind: type) -> list[Any]:
    return [content_of(value) for value in vars(kind).values()]


def _all_classes() -> set[type]:
    seen: set[type] = {object}
    waiting: list[type] = [object]
    while waiting:
        below: list[type] = type.__subclasses__(waiting.pop())
        waiting += (each for each in below if each not in seen)
        seen.update(below)
    return seen


def _functions_of(value: Any) -> Iterator[FunctionType]:
    """The Python functions behind an attribute of a class."""
    if isinstance(value, property):
        found = [value.fget, value.fset, value.fdel]
    elif isinstance(value, (staticmethod, classmethod)):
        found = [value.__func__]
    elif isinstance(value, (cached_property, partialmethod)):
        found = [value.func]
    else:
        found = [value]
    for function in found:
        while isinstance(function, FunctionType):
            yield function
            function = getattr(function, "__wrapped__", None)
