"""Where a tensor that a module reads stands outside of it: a global, a closure, a container.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import gc
import sys
import types
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import is_
from typing import Any

from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

#: Containers inside each other are followed so far.
_DEPTH = 8
_NEAR = 3
#: What holds a value for good.
_FIXED = (tuple, frozenset)
_CHANGING = (dict, list, deque)
_FAKE = (FakeTensor, FunctionalTensor)
#: What a function holds beside its closure.
_DEFAULTS = ("__defaults__", "__kwdefaults__")
_UNNAMED = (*_DEFAULTS, "cell_contents")
#: What holds values and is no place that anybody reads them from, and where else the way from a tensor ends.
_PASSING = (types.FrameType, types.GeneratorType, types.CoroutineType)
_LAST = (*_PASSING, types.FunctionType, types.MethodType, types.ModuleType, types.CellType, type)


class Place:
    """A reference to a value. holder: a dictionary, list, set, cell, function, or object without a dictionary. key: of
    the value in it; of a set all that it holds."""

    __slots__ = ("holder", "key", "value")

    def __init__(self, holder: Any, key: Any, value: Any) -> None:
        self.holder, self.key, self.value = holder, key, value

    @property
    def name(self) -> str:
        """What the holder calls the value, or nothing."""
        return self.key if isinstance(self.key, str) and self.key not in _UNNAMED else ""

    @property
    def is_there(self) -> bool:
        """Whether it is still a reference to the value."""
        holder = self.holder
        try:
            if isinstance(holder, _CHANGING):
                return holder[self.key] is self.value
            if isinstance(holder, set):
                return len(holder) == len(self.key) and all(map(is_, holder, self.key))
            return getattr(holder, self.key) is self.value
        except (KeyError, IndexError, ValueError, AttributeError):
            return False

    def restore(self) -> None:
        """Makes it one again."""
        holder = self.holder
        if isinstance(holder, _CHANGING):
            owner = next((each for each in gc.get_referrers(holder) if isinstance(each, type)), None)
            if owner is None:
                holder[self.key] = self.value
            else:
                setattr(owner, self.key, self.value)
        elif isinstance(holder, set):
            holder.clear()
            holder.update(self.key)
        else:
            setattr(holder, self.key, self.value)


@dataclass(frozen=True, kw_only=True)
class Outside:
    """The references to a tensor when a plan was made, and those to what holds them. name: what the first of them calls
    it, or nothing."""

    name: str
    tensor: Any
    references: Sequence[Place]

    @property
    def is_there(self) -> bool:
        """Whether all of them are still there; one that is not may be the one that forward reads."""
        return all(place.is_there for place in self.references)


@contextmanager
def fakes_removed(model: nn.Module) -> Iterator[None]:
    """A context after which the globals and closures of the modules' code, the containers in them and the attributes of
    objects in them hold no fake tensor that they did not hold before."""
    # As places, which who looks for references to a tensor passes over.
    kept = [Place(held, None, _before(held)) for held in _containers_of(model)]
    try:
        yield
    finally:
        for each in kept:
            held, before = each.holder, each.value
            if isinstance(held, dict):
                for key in [key for key, value in held.items() if _is_new_fake(value, before.get(key))]:
                    if key in before:
                        held[key] = before[key].value
                    else:
                        del held[key]
            elif any(isinstance(value, _FAKE) for value in held) and not any(isinstance(one, _FAKE) for one in before):
                held.clear()
                (held.update if isinstance(held, set) else held.extend)(before)


def _before(held: Any) -> Any:
    return {key: Place(held, key, value) for key, value in held.items()} if isinstance(held, dict) else tuple(held)


def _is_new_fake(value: Any, before: Place | None) -> bool:
    return isinstance(value, _FAKE) and (before is None or before.value is not value)


def _containers_of(model: nn.Module) -> list[Any]:
    """Those that the code of a module's own classes can reach by a global name or a closure, and what is near."""
    found: dict[int, Any] = {}

    def add(value: Any, depth: int) -> None:
        if not isinstance(value, (*_CHANGING, set)):
            is_ours = type(value).__module__.split(".")[0] in ("torch", "placewright")
            if is_ours or isinstance(value, (nn.Module, *_LAST)):
                return
            value = getattr(value, "__dict__", None)
        if isinstance(value, (*_CHANGING, set)) and id(value) not in found:
            found[id(value)] = value
            for each in list(value.values() if isinstance(value, dict) else value) if depth else ():
                add(each, depth - 1)

    for kind in {kind for module in model.modules() for kind in type(module).__mro__}:
        for function in vars(kind).values() if not kind.__module__.startswith("torch.") else ():
            if isinstance(function, types.FunctionType):
                add(function.__globals__, _NEAR)
                for cell in function.__closure__ or ():
                    if cell != types.CellType():
                        add(cell.cell_contents, _NEAR)
    return list(found.values())


def places_of(tensor: Any, known: Collection[Any]) -> list[Place]:
    """The places where a tensor stands, and the nearest where these stand. known: as of `outside_of`."""
    return _found([tensor], known, _NEAR)[0]


def forget_unreached(places: list[Place]) -> None:
    """Drops those whose holders nobody else knows: what a function has made for itself is gone with its call."""
    before = -1
    while len(places) != before:
        before = len(places)
        own = Counter(id(each) for place in places for each in (place.holder, place.value))
        # The argument of the call is a reference, too.
        places[:] = [place for place in places if sys.getrefcount(place.holder) > own[id(place.holder)] + 1]


def outside_of(tensors: list[Any], known: Collection[Any]) -> Iterator[Outside]:
    """Of each tensor the places where it stands, and where these stand. known: modules and their
    containers, which are looked at otherwise."""
    for tensor, places in zip(tensors, _found(tensors, known, _DEPTH), strict=True):
        name = next((place.name for place in places if place.value is tensor and place.name), "")
        yield Outside(name=name, tensor=tensor, references=places)


def _found(values: list[Any], known: Collection[Any], depth: int) -> list[list[Place]]:
    """Of each value the places that lead to it. Objects in between are kept by their identities: whatever refers to
    them would be found, too."""
    places: dict[int, list[Place]] = {}
    above: dict[int, list[int]] = {}
    first = [id(value) for value in values]
    ends = set(map(id, known))
    seen = set(first)
    for _ in range(depth):
        wanted = set(map(id, values))
        following: list[Any] = []
        for holder in gc.get_referrers(*values):
            is_ours = holder is values or holder is following or id(holder) in ends
            if is_ours or isinstance(holder, (Place, type, *_PASSING)):
                continue
            for key, value in _items(holder):
                if id(value) not in wanted:
                    continue
                above.setdefault(id(value), []).append(id(holder))
                if key is not None:
                    within = vars(holder) if key in getattr(holder, "__dict__", ()) else holder
                    places.setdefault(id(value), []).append(Place(within, key, value))
            if id(holder) not in seen and _leads_on(holder):
                seen.add(id(holder))
                following.append(holder)
        if not following:
            break
        values = following
    return [[place for each in _behind(one, above) for place in places.get(each, ())] for one in first]


def _behind(start: int, above: dict[int, list[int]]) -> list[int]:
    """What is reached from one of them, in the order of the steps that it takes."""
    found = [start]
    for each in found:
        found += [other for other in dict.fromkeys(above.get(each, ())) if other not in found]
    return found


def _items(holder: Any) -> Iterator[tuple[Any, Any]]:
    """What an object refers to, each with the key of a place that can hold something else, or None."""
    if isinstance(holder, dict):
        yield from list(holder.items())
    elif isinstance(holder, (list, deque)):
        yield from enumerate(list(holder))
    elif isinstance(holder, set):
        yield from ((tuple(holder), value) for value in list(holder))
    elif isinstance(holder, _FIXED):
        yield from ((None, value) for value in holder)
    else:
        held = list(getattr(holder, "__dict__", {}).items())
        names = ["cell_contents"] if isinstance(holder, types.CellType) else list(_slots(type(holder)))
        if isinstance(holder, types.FunctionType):
            names = list(_DEFAULTS)
        yield from held
        yield from ((name, value) for name in names if (value := getattr(holder, name, None)) is not None)
        if dictionary := getattr(holder, "__dict__", None):
            yield None, dictionary


def _slots(kind: type) -> Iterator[str]:
    for each in kind.__mro__:
        names = vars(each).get("__slots__", ())
        yield from (names,) if isinstance(names, str) else names


def _leads_on(holder: Any) -> bool:
    """Whether what holds this matters, too."""
    if isinstance(holder, dict):
        return "__name__" not in holder and "__module__" not in holder  # Of a module of Python's, and of a class.
    if isinstance(holder, _LAST):
        return False
    return isinstance(holder, nn.Module) or type(holder).__module__.split(".")[0] not in ("torch", "placewright")
