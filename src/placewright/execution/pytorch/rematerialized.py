"""A program whose plan runs some ops again: every run is a call of its own.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import torch

from placewright.execution.pytorch.calls import Call, Value
from placewright.execution.pytorch.program import TorchProgram
from placewright.plans.record import Plan
from placewright.rematerialization.reruns import rewritten


def rewritten_program(program: TorchProgram, plan: Plan) -> TorchProgram:
    """The program with the plan's reruns and moves. Raises InputError where one names what the program does not
    have."""
    if not plan.reruns and not plan.moves:
        return program
    found = rewritten(program.graph, plan.reruns, plan.moves, plan.device_of)
    calls: dict[int, Call] = {}
    first: dict[int, Call] = {}
    draws: dict[int, _Draws] = {}
    random, lock = set(program.random), Lock()
    drawn_again = {op for op, count in Counter(found.op_of).items() if count > 1 and op in random}
    for place, op in enumerate(found.op_of):
        if op not in program.calls:
            continue
        now = dict(zip(program.graph.ops[op].inputs, found.graph.ops[place].inputs, strict=True))
        now |= dict(zip(program.graph.ops[op].outputs, found.graph.ops[place].outputs, strict=True))
        call = _with_tensors(program.calls[op], now)
        if drawn_again and op in random:
            draws.setdefault(op, _Draws(call.function, lock, keeps_state=op in drawn_again))
            call = replace(call, function=draws[op].again if op in first else draws[op].first)
        first.setdefault(op, call)
        calls[place] = call
    place_of = {op: place for place, op in reversed(list(enumerate(found.op_of)))}
    return replace(
        program,
        graph=found.graph,
        calls=calls,
        strides=_of_copies(program.strides, found.tensor_of),
        homes=_of_copies(program.homes, found.tensor_of),
        random=tuple(place_of[op] for op in program.random),
    )


class _Draws:
    """An op that draws random numbers, and draws the same ones when it runs again.

    lock: shared by all that draw. While one draws again, another thread would find the generator in a former state.
    keeps_state: whether it runs again; a state takes some kilobytes.
    """

    def __init__(self, function: Callable[..., Any], lock: Lock, *, keeps_state: bool) -> None:
        self._function = function
        self._lock, self._keeps_state = lock, keeps_state
        self._state: Any = None

    def first(self, *args: Any, **kwargs: Any) -> Any:
        """Draws, and remembers from what state of the generator where that is asked for again."""
        with self._lock:
            if self._keeps_state:
                self._state = _generator(args).get_state()
            return self._function(*args, **kwargs)

    def again(self, *args: Any, **kwargs: Any) -> Any:
        """Draws from that state; the generator goes on from where it was."""
        generator = _generator(args)
        with self._lock:
            now = generator.get_state()
            generator.set_state(self._state)
            try:
                return self._function(*args, **kwargs)
            finally:
                generator.set_state(now)


def _generator(args: Sequence[Any]) -> torch.Generator:
    """The generator that an op with such arguments draws from."""
    for each in args:
        if isinstance(each, torch.Tensor) and each.is_cuda:
            return torch.cuda.default_generators[each.get_device()]
    return torch.default_generator


def _of_copies(known: Mapping[int, Any], tensor_of: Sequence[int]) -> dict[int, Any]:
    """What is known of tensors, for what has their content as well."""
    return {place: known[tensor] for place, tensor in enumerate(tensor_of) if tensor in known}


def _with_tensors(call: Call, now: Mapping[int, int]) -> Call:
    def current(leaf: Any) -> Any:
        return Value(now[leaf.tensor]) if isinstance(leaf, Value) else leaf

    return replace(
        call,
        args=_mapped(call.args, current),
        kwargs={name: _mapped(value, current) for name, value in call.kwargs.items()},
        results=tuple(None if tensor is None else now[tensor] for tensor in call.results),
    )


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with its leaves changed, in sequences of the same sort."""
    if isinstance(value, torch.Size) or not isinstance(value, list | tuple | dict):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    return type(value)(_mapped(each, change) for each in value)
