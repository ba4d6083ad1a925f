"""What a module holds from call to call: every tensor and value that its attributes reach.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

#: Attributes that every module has: children are modules of their own, hooks and modes are judged elsewhere.
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
#: Values that are taken as a whole.
_WHOLE = (
    type,
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.ModuleType,
    nn.Module,
    torch.Tensor,
)
_PLAIN = (int, float, str, bool, complex, bytes)
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)
#: Stands for a value that is no longer there.
GONE = object()
#: Containers and objects inside each other are followed so far.
_DEPTH = 6


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A place for a value: `container[key]`. name: the dotted path of it below the module. within: the slot of the
    container itself, where that is an attribute, too."""

    name: str
    container: Any
    key: Any
    within: Slot | None = None

    @property
    def is_settable(self) -> bool:
        """Whether another value can be put there: items of tuples and sets cannot be replaced."""
        return isinstance(self.container, (dict, list))

    def get(self) -> Any:
        """The value now; None where there is none any more."""
        container = self._container_now()
        if isinstance(container, dict):
            return container.get(self.key)
        items = container if isinstance(container, Sequence) else list(container)
        return items[self.key] if self.key < len(items) else None

    def set(self, value: Any) -> None:
        """Puts a value there, behind the last where a list has none yet."""
        container = self._container_now()
        if isinstance(container, list) and self.key == len(container):
            container.append(value)
        else:
            container[self.key] = value

    def _container_now(self) -> Any:
        """The container, or the one that stands in its place by now."""
        if self.within is None:
            return self.container
        value = self.within.get()
        return value if isinstance(value, _CONTAINERS) else getattr(value, "__dict__", {})


class Held:
    """The values that the attributes of a module reach, through containers and plain objects, as they are when this is
    made. values: each with its slot, parameters and buffers first."""

    def __init__(self, model: nn.Module) -> None:
        self.values: list[tuple[Slot, Any]] = []
        #: By identity: name, the container, its content, whether a change of it is one of the user's module, its slot.
        self._containers: dict[int, tuple[str, Any, Any, bool, Slot | None]] = {}
        modules = list(model.named_modules())
        for kind in ("_parameters", "_buffers"):
            for path, module in modules:
                self._read_container(vars(module)[kind], path, None, 0, True)
        for path, module in modules:
            own = vars(module)
            # What PyTorch's own layers keep in attributes they make again whenever it does not fit.
            is_watched = not _is_of_pytorch(type(module))
            self._containers[id(own)] = (path, own, dict(own), is_watched, None)
            for key in [key for key in own if key not in _OF_EVERY_MODULE]:
                self._read(Slot(name=_joined(path, key), container=own, key=key), own[key], 0, is_watched)

    def tensors(self) -> Iterator[tuple[Slot, Any]]:
        """The tensors among the values."""
        return ((slot, value) for slot, value in self.values if isinstance(value, torch.Tensor))

    def containers(self) -> Iterator[tuple[str, Any]]:
        """The dictionaries, lists and other containers that values stand in, each with its name."""
        return ((name, container) for name, container, *_ in self._containers.values())

    def changes(self) -> Iterator[tuple[Slot, Any, Any]]:
        """Where another value stands now, with the one before, or None, and the new one, or GONE."""
        for name, container, before, is_watched, within in self._containers.values():
            if not is_watched:
                if "training" in before and before["training"] is not container["training"]:
                    slot = Slot(name=_joined(name, "training"), container=container, key="training")
                    yield slot, before["training"], container["training"]
                continue
            if isinstance(container, (dict, list)):
                was, now = _items(before), _items(container)
                for key in [*was, *(key for key in now if key not in was)]:
                    old, new = was.get(key), now.get(key, GONE)
                    if old is not new and not is_equal(old, new):
                        yield Slot(name=_joined(name, key), container=container, key=key, within=within), old, new
            elif isinstance(container, (set, deque)) and not _holds_the_same(container, before):
                yield Slot(name=name, container=container, key=None), before, container

    def restore(self) -> None:
        """Puts every container back to what it held."""
        for _, container, before, _, _ in self._containers.values():
            if isinstance(container, (tuple, frozenset)) or _holds_the_same(container, before):
                continue
            if isinstance(container, list):
                container[:] = before
                continue
            container.clear()
            (container.extend if isinstance(container, deque) else container.update)(before)

    def _read(self, slot: Slot, value: Any, depth: int, is_watched: bool) -> None:
        self.values.append((slot, value))
        if isinstance(value, _WHOLE) or depth == _DEPTH:
            return
        if isinstance(value, _CONTAINERS):
            self._read_container(value, slot.name, slot, depth + 1, is_watched)
        elif type(getattr(value, "__dict__", None)) is dict and not _is_of_pytorch(type(value)):
            self._read_container(vars(value), slot.name, slot, depth + 1, is_watched)

    def _read_container(self, container: Any, name: str, within: Slot | None, depth: int, is_watched: bool) -> None:
        if id(container) in self._containers:
            return
        self._containers[id(container)] = (name, container, _copy(container), is_watched, within)
        for key, value in list(_items(container).items()):
            slot = Slot(name=_joined(name, key), container=container, key=key, within=within)
            self._read(slot, value, depth, is_watched)


def _is_of_pytorch(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "torch"


def _copy(container: Any) -> Any:
    return container if isinstance(container, (tuple, frozenset)) else container.copy()


def _items(container: Any) -> dict[Any, Any]:
    return dict(container) if isinstance(container, dict) else dict(enumerate(container))


def _holds_the_same(container: Any, before: Any) -> bool:
    """Whether two containers hold the same objects in the same order."""
    now, was = _items(container), _items(before)
    return len(now) == len(was) and all(
        now[one] is was[other] and (one is other or one == other) for one, other in zip(now, was, strict=True)
    )  # fmt: skip


def is_equal(old: Any, new: Any) -> bool:
    """Whether two plain values are the same, to the sign of a zero; nan is. Nothing else is asked, since comparing may
    be anything."""
    return type(old) is type(new) and isinstance(new, _PLAIN) and repr(old) == repr(new)


def _joined(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)
