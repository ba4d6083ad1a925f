"""The least limit on one device that is not proven to be too small when ops may run again."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from placewright.bounds.precedence import COLUMNS, OrderedPieces
from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.problem.pieces import Bools, Ints
from placewright.problem.streaming import streamable

_LEAST_LIMITS: WeakKeyDictionary[Problem, dict[bool, tuple[int, str]]] = WeakKeyDictionary()


def least_limit(problem: Problem, host: HostMemory | None = None) -> tuple[int, str]:
    """The least limit on one device that is not proven to be too small whatever runs again, and the op that needs it.

    While an op runs, residents, its inputs, outputs and workspace are held, and whatever cannot be made again and was
    made by an ancestor and is read by a descendant, or stays to the end. At the end all that stays is held. host: what
    can be moved there need not be held, nor weights that can be there.
    """
    known = _LEAST_LIMITS.setdefault(problem, {})
    if (moves := host is not None) not in known:
        known[moves] = _least_limit(problem, moves=moves)
    return known[moves]


def _least_limit(problem: Problem, *, moves: bool) -> tuple[int, str]:
    memory = OrderedPieces(problem, weights=streamable(problem.graph) if moves else ())
    needed = memory.own_bytes + _bound_bytes(memory, memory.may_be_at_host if moves else np.zeros_like(memory.stays))
    needed[: memory.num_weights] = 0
    at_end = int(memory.resident_bytes + memory.bytes[memory.stays & ~memory.is_weight].sum())
    op = int(needed.argmax())
    if at_end > needed[op]:
        return at_end, _name(memory, memory.num_ops - 1)
    return int(needed[op]), _name(memory, op)


def _bound_bytes(memory: OrderedPieces, can_go: Bools) -> Ints:
    """Per op what is held beside its own while it runs whatever is dropped. can_go: pieces that need not be held."""
    found = np.zeros(memory.num_ops, np.int64)
    until = memory.again_before[memory.maker]
    pieces = np.flatnonzero((memory.bytes > 0) & (~memory.may_go | (memory.last > until)) & ~can_go)
    for begin in range(0, len(pieces), COLUMNS):
        some = pieces[begin : begin + COLUMNS]
        last = np.zeros((memory.num_ops, len(some)), np.bool_)
        read, of = memory.readers(some)
        last[read, of] = True
        held = memory.after(memory.columns(memory.maker[some])) & (memory.before(last) | memory.stays[some])
        held[read, of] = False
        if len(limited := np.flatnonzero(memory.may_go[some])):
            over = memory.columns(until[some[limited]])
            held[:, limited] &= memory.after(over) | over
        found += held @ memory.bytes[some]
    return found


def _name(memory: OrderedPieces, op: int) -> str:
    return memory.problem.graph.ops[int(memory.problem.lowered.graph_op[op])].name
