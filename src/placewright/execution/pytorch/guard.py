"""Whether a module is still what a plan was made of: its layers, its hooks, and the values of its attributes.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from typing import Any

import torch
from torch import nn

from placewright.execution.pytorch.runnable import HOOKS
from placewright.importers.torch.held import Held

_COMPARED = (int, float, str, bool, complex, bytes, type(None))


class Guard:
    """Knows a module as it was; most calls find the same objects everywhere, which is all that is looked at then."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._read()

    def _read(self) -> None:
        held = Held(self._model)
        modules = list(self._model.named_modules())
        self._hooks = [getattr(module, attribute) for _, module in modules for attribute in HOOKS]
        self._num_hooks = [len(hooks) for hooks in self._hooks]
        named = [*held.containers(), *((path, module._modules) for path, module in modules)]
        self._known = [(path, container, tuple(_values(container))) for path, container in named]
        self._ties = _ties(held)

    def change(self) -> str | None:
        """The name of what is no longer what it was; None where all is. Tensors may be others: whether these fit is
        asked where they are read."""
        if list(map(len, self._hooks)) != self._num_hooks:
            self._read()
            return "hooks"
        if all(_are(container, known) for _, container, known in self._known):
            return None
        before, ties = self._known, self._ties
        found = next(
            (name for path, container, known in before if (name := _difference(path, container, known)) is not None),
            None,
        )
        self._read()
        if found is None and self._ties != ties:
            found = "shared parameters"
        return found


def _are(container: Any, known: tuple[Any, ...]) -> bool:
    return len(container) == len(known) and all(map(is_, _values(container), known))


def _values(container: Any) -> Iterator[Any]:
    return iter(container.values() if isinstance(container, dict) else container)


def _difference(path: str, container: Any, known: tuple[Any, ...]) -> str | None:
    """The first value that is another one."""
    keys = list(container) if isinstance(container, dict) else list(range(len(container)))
    if len(container) != len(known):
        return path or "the module"
    for key, now, before in zip(keys, _values(container), known, strict=True):
        if key != "training" and not _is_alike(now, before):
            return f"{path}.{key}" if path else str(key)
    return None


def _is_alike(now: Any, before: Any) -> bool:
    if now is before or (isinstance(now, torch.Tensor) and isinstance(before, torch.Tensor)):
        return True
    if type(now) is not type(before):
        return False
    if isinstance(now, (list, tuple)):
        return len(now) == len(before) and all(map(_is_alike, now, before))
    return isinstance(now, _COMPARED) and bool(now == before)


def _ties(held: Held) -> list[int]:
    """Of each tensor the place of the first that is the same one."""
    first: dict[int, int] = {}
    return [first.setdefault(id(tensor), place) for place, (_, tensor) in enumerate(held.tensors())]
