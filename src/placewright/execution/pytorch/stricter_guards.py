"""Guards in addition to PyTorch's own, for what it assumes to be constant in the Python objects that a module reads.

PyTorch guards each value that it reads. It does not see that a new name appears, that a dictionary gets another order,
that a list within a tuple changes, or that a function or a class does. Imported only where torch is known to be
present.
"""

from __future__ import annotations

import random
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch._C._dynamo.guards import DictGuardManager
from torch._dynamo.source import (
    AttrSource,
    DictGetItemSource,
    GenericAttrSource,
    GetItemSource,
    LocalSource,
    NNModuleSource,
    TempLocalSource,
)
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.variables.user_defined import UserDefinedClassVariable
from torch._guards import Guard, TracingContext

from placewright.execution.pytorch.traced_code import TracedCode, content_of, is_of_pytorch
from placewright.support.errors import InputError, shown

#: The dictionaries with the names of a module's parts, besides its own attributes.
_PARTS = ("_parameters", "_buffers", "_modules")
#: Guards of a dictionary by which PyTorch knows how many entries it has.
_COUNTED = {"SEQUENCE_LENGTH", "DICT_KEYS_MATCH", "EMPTY_NN_MODULE_HOOKS_DICT"}


def add_stricter_guards() -> None:
    """Adds stricter guards to those of the graph that PyTorch captures now."""
    context = TracingContext.get()
    guards = context.guards_context.dynamo_guards
    traced = TracedCode(context.traced_code)
    read: dict[str, _Read] = {}
    for guard in list(guards):
        source = guard.originating_source
        read.setdefault(source.name, _Read(source)).kinds.add(guard.create_fn_name())
        while (source := getattr(source, "base", None)) is not None and not isinstance(source, TempLocalSource):
            read.setdefault(source.name, _Read(source)).has_parts = True
    names = _names_that_may_be_missing(context.traced_code)
    for name, own in read.items():
        if name and not name.endswith(_PARTS):
            make = partial(_guard_value, read=own, names=names, traced=traced)
            guards.add(Guard(own.source, make), collect_debug_stack=False)
    root = next(own.source for own in read.values() if not own.source.name)
    guards.add(Guard(root, partial(_guard_code, traced=traced)), collect_debug_stack=False)


def has_effects_outside() -> bool:
    """True if the code that PyTorch captures now changes anything but what it is called with.

    Raises InputError where it writes to a class, whose old values PyTorch has read through instances.
    """
    effects = InstructionTranslator.current_tx().output.side_effects
    changed = [each for each in effects.id_to_variable.values() if effects.is_modified(each)]
    for variable in changed:
        if isinstance(variable, UserDefinedClassVariable):
            names = ", ".join(shown(name) for name in effects.store_attr_mutations.get(variable, ()))
            raise InputError(
                f"the module sets {names} of the class {shown(variable.value.__name__)} while it runs, of which "
                "PyTorch would read the old value; keep it in the module itself"
            )
    return any(each.source is not None and not _is_copied(each.source) for each in changed)


def _is_copied(source: Any) -> bool:
    """True if a copy of the called object includes what is read there: not for globals, nor for functions."""
    while (base := getattr(source, "base", None)) is not None:
        if not isinstance(source, (AttrSource, GenericAttrSource, DictGetItemSource, GetItemSource)):
            return isinstance(source, NNModuleSource) and _is_copied(base)
        if isinstance(source, AttrSource) and source.member.startswith("__"):
            return False
        source = base
    return isinstance(source, LocalSource)


@dataclass(eq=False)
class _Read:
    """The source from which PyTorch read a value. kinds: its guards. has_parts: whether it also read parts of it."""

    source: Any
    kinds: set[str] = field(default_factory=set)
    has_parts: bool = False


def _guard_code(builder: Any, guard: Guard, *, traced: TracedCode) -> None:
    def check(_: Any) -> bool:
        return traced.is_as_it_was()

    builder.guard_manager.root.add_lambda_guard(check, ["___code_as_captured()"], guard.user_stack)


def _guard_value(builder: Any, guard: Guard, *, read: _Read, names: Set[str], traced: TracedCode) -> None:
    try:
        value = builder.get(guard)
    except Exception:  # The source has no object now: PyTorch's own guards must suffice.
        return
    if isinstance(value, type):
        traced.watch_value(value)
    elif isinstance(value, FunctionType):
        traced.watch_function(value)
    elif not isinstance(value, ModuleType):
        traced.watch(type(value))
    for check in _checks(value, read, names):
        _add(builder, guard, read.source, check)


def _add(builder: Any, guard: Guard, source: Any, check: Callable[[Any], bool]) -> None:
    """Adds a check of the value of a source, or if PyTorch takes none there, of the source from which it is read."""
    manager = builder.get_guard_manager_from_source(source)
    if not isinstance(manager, DictGuardManager):
        manager.add_lambda_guard(check, [f"___as_captured({guard.name})"], guard.user_stack)
    elif isinstance(source, AttrSource):
        _add(builder, guard, source.base, lambda now: check(getattr(now, source.member)))
    elif isinstance(source, (DictGetItemSource, GetItemSource)):
        _add(builder, guard, source.base, lambda now: check(now[source.index]))


def _checks(value: Any, read: _Read, names: Set[str]) -> Iterator[Callable[[Any], bool]]:
    """The checks on a value that was read, in addition to PyTorch's."""
    if isinstance(value, (torch.Tensor, type, FunctionType)):
        return
    if (type(value) is float and value == 0) or type(value) is complex:
        words = repr(value)  # Zero equals minus zero.
        yield lambda now: repr(now) == words
    elif isinstance(value, tuple) and _is_mutable(value):
        content = content_of(value)
        yield lambda now: content_of(now) == content
    elif isinstance(value, dict):
        in_order: Callable[[Any], Any] = OrderedDict.keys if isinstance(value, OrderedDict) else dict.keys
        keys = tuple(in_order(value))
        if not keys and read.kinds & _COUNTED:
            return
        if read.kinds & _COUNTED or not read.has_parts:
            yield lambda now: tuple(in_order(now)) == keys
        elif absent := names - {*keys}:
            yield lambda now: dict.keys(now).isdisjoint(absent)
    elif isinstance(value, ModuleType):
        kind, absent, name = type(value), names - vars(value).keys(), value.__name__
        yield lambda now: type(now) is kind and vars(now).keys().isdisjoint(absent)
        if sys.modules.get(name) is value:
            yield lambda now: sys.modules.get(name) is now
    elif isinstance(value, random.Random):
        state = value.getstate()
        yield lambda now: now.getstate() == state
    elif isinstance(value, torch.nn.Module):
        if names and not type(value).__module__.startswith("torch."):
            counts = _counts(value)
            yield lambda now: _counts(now) == counts
    elif isinstance(getattr(value, "__dict__", None), dict):
        if isinstance(value, threading.local):
            held = tuple(vars(value))  # Other than the dictionary that PyTorch looks at.
            yield lambda now: tuple(vars(now)) == held
        if absent := names - vars(value).keys():
            yield lambda now: vars(now).keys().isdisjoint(absent)


def _counts(module: torch.nn.Module) -> list[int]:
    """The numbers of attributes and parts of a module."""
    held = vars(module)
    return [len(held), *(len(held[part]) for part in _PARTS if part in held)]


def _names_that_may_be_missing(codes: Sequence[CodeType]) -> frozenset[str]:
    """Names that code looks up where it can go on without them: within `try`, and by functions that take names."""
    found: set[str] = set()
    for code in codes:
        if is_of_pytorch(code):
            continue
        if code.co_exceptiontable:
            found.update(code.co_names)
        if not {"getattr", "hasattr", "vars", "__dict__"}.isdisjoint(code.co_names):
            found.update(each for each in code.co_consts if isinstance(each, str) and each.isidentifier())
    return frozenset(found)


def _is_mutable(value: Any) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return any(map(_is_mutable, value))
    return isinstance(value, (list, set, dict))
