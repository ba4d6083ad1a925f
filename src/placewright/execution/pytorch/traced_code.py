"""The classes whose code PyTorch interpreted when it captured a module, and whether their methods are what they were.

PyTorch guards objects and what they hold, and takes it that classes stay what they are. Imported only where torch is
known to be present.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partialmethod
from types import CodeType, FunctionType
from typing import Any

from torch.nn.modules import module as every_module

#: What PyTorch calls hooks of all modules, which it does not guard.
_HOOKS = [name for name in vars(every_module) if name.startswith("_global_") and name.endswith("_hooks")]
_DESCRIPTORS = (FunctionType, property, staticmethod, classmethod, cached_property, partialmethod)


class TracedClasses:
    """Knows classes as they were when their code was interpreted. kinds: of objects that PyTorch reads in any case."""

    def __init__(self, kinds: Iterable[type] = ()) -> None:
        self._kinds = set(kinds)
        self._known: set[CodeType] = set()
        self._watched: dict[type, tuple[tuple[type, ...], tuple[str, ...], tuple[Any, ...]]] = {}
        self._functions: dict[FunctionType, CodeType] = {}
        self._hooks = _hooks_of_all_modules()

    def add(self, traced: Sequence[CodeType]) -> None:
        """Notes the classes that hold such code, and what these inherit from."""
        new = {code for code in traced if code not in self._known}
        self._known |= new
        names = {code.co_name for code in new}
        found = set(self._kinds)
        for kind in _all_classes() if new else ():
            own = vars(kind)
            for name in names & own.keys():
                if any(function.__code__ in new for function in _functions_of(own[name])):
                    found.add(kind)
        inherited = {each for kind in found for each in kind.__mro__}
        for kind in inherited - self._watched.keys() - {object}:
            methods = {name: value for name, value in vars(kind).items() if isinstance(value, _DESCRIPTORS)}
            self._watched[kind] = kind.__bases__, tuple(methods), tuple(methods.values())
            for function in (each for value in methods.values() for each in _functions_of(value)):
                if function.__code__ in self._known:
                    self._functions[function] = function.__code__

    def have_changed(self) -> bool:
        """Whether one of them has other bases or another method, a method other code, or all modules other hooks."""
        return not (
            self._hooks == _hooks_of_all_modules()
            and all(
                kind.__bases__ == bases and tuple(map(vars(kind).get, names)) == values
                for kind, (bases, names, values) in self._watched.items()
            )
            and all(function.__code__ is code for function, code in self._functions.items())
        )


def _hooks_of_all_modules() -> list[list[Any]]:
    return [list(getattr(every_module, name).values()) for name in _HOOKS]


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
