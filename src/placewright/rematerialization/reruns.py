"""Reruns of ops and moves of tensors to the host, and the graph in which every run and move is an op of its own."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from placewright.graph import HOST_TARGET, LEAVE_TARGET, Graph, Op, ops_in_order
from placewright.problem.streaming import streamable
from placewright.support.errors import InputError, shown

AnyInt = TypeVar("AnyInt", bound=np.signedinteger)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """A later run of an op.

    Attributes
    ----------
    name
        Name of the run: that of the op followed by "@2", "@3" ...
    op
        The op of the graph that runs again.
    before
        The op of the graph whose first run comes next; in the given order, after all reruns listed earlier for it.
    tensors
        Tensors that later readers on its device get from this run; its other results are freed when it ends.
    """

    name: str
    op: str
    before: str
    tensors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A tensor that is moved to the host's memory, and back for its later readers; or a weight that lies there, and
    comes for its readers.

    Attributes
    ----------
    tensor
        What is moved, from its first run on, by the device that makes it; the move begins as soon as it is made.
    leaves_before
        The run, an op or a rerun, before which it has left the device; None for a weight.
    returns_before
        Runs before which it begins to come back, each time as soon as the run before has ended.
    """

    tensor: str
    leaves_before: str | None
    returns_before: tuple[str, ...]

    @property
    def runs(self) -> tuple[str, ...]:
        """All the runs that it names."""
        return self.returns_before if self.leaves_before is None else (self.leaves_before, *self.returns_before)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rewritten:
    """A graph whose reruns and moves are ops.

    Attributes
    ----------
    graph
        Tensors of the original keep their places; those of reruns and moves follow.
    op_of
        Per op, the index of the original op that it is a run of; -1 for ops of moves.
    tensor_of
        Per tensor, the index of the original tensor whose content it has.
    """

    graph: Graph
    op_of: tuple[int, ...]
    tensor_of: tuple[int, ...]


def rewritten(
    graph: Graph, reruns: Sequence[Rerun], moves: Sequence[Move] = (), device_of: Mapping[str, int] | None = None
) -> Rewritten:
    """The graph with its reruns and moves as ops: each reader gets what the latest run or return before it gave.

    device_of: of ops, by name, in the order of their first runs; by default all are on one device, in the order of the
    graph. A rerun runs on the device of its op, and its results go to readers there; those on other devices get what
    the first run made.

    That order is kept. A rerun waits for what its op waits for, and an op that overwrites memory waits for the reruns
    that read it. Views of tensors that were made again are made again, too.

    A move is an op on the host that reads the tensor, one on the device that waits for it and holds the tensor until
    then, and one on the host for each return, which waits for the run before it on that device and makes the tensor
    anew for readers there.
    Without reruns and moves it is the graph as it is. Raises InputError naming the rerun or move whose op, tensor or
    place does not exist.
    """
    if not reruns and not moves:
        return Rewritten(graph=graph, op_of=tuple(range(len(graph.ops))), tensor_of=tuple(range(len(graph.tensors))))
    return _Rewriting(graph, _Rewrites(graph, reruns, moves, device_of or {})).done()


class _Rewrites:
    """The reruns and moves of a graph, found in it and checked.

    order: ops as they first run. before: by op the reruns before its first run, each with its op and what it gives.
    leaves, returns: by the name of a run the tensors that have left, and that begin to come back, before it. at_host:
    weights that lie there.
    """

    def __init__(
        self, graph: Graph, reruns: Sequence[Rerun], moves: Sequence[Move], device_of: Mapping[str, int]
    ) -> None:
        self.graph = graph
        self._device_of = device_of
        self._streamable = set(streamable(graph)) if moves else set()
        self._op_named = {op.name: index for index, op in enumerate(graph.ops)}
        self._tensor_named = {tensor.name: index for index, tensor in enumerate(graph.tensors)}
        self._op_of_run = {rerun.name: rerun.op for rerun in reruns}
        self.order = ops_in_order(graph, device_of) if device_of else range(len(graph.ops))
        self._turn = {op: turn for turn, op in enumerate(self.order)}
        self.before: dict[int, list[tuple[Rerun, int, set[int]]]] = {}
        for rerun in reruns:
            self.before.setdefault(self._op(rerun, rerun.before), []).append(self._resolved(rerun))
        self.leaves: dict[str, list[int]] = {}
        self.returns: dict[str, list[int]] = {}
        self.at_host: set[int] = set()
        for move in moves:
            tensor = self._moved(move)
            if move.leaves_before is None:
                self.at_host.add(tensor)
            else:
                self.leaves.setdefault(move.leaves_before, []).append(tensor)
            for name in move.returns_before:
                self.returns.setdefault(name, []).append(tensor)

    def device(self, op: str) -> int:
        return self._device_of.get(op, 0)

    def _op(self, rerun: Rerun, name: str) -> int:
        if name not in self._op_named:
            raise InputError(f"the rerun '{shown(rerun.name)}' names the op '{shown(name)}', which is not in the graph")
        return self._op_named[name]

    def _resolved(self, rerun: Rerun) -> tuple[Rerun, int, set[int]]:
        op = self._op(rerun, rerun.op)
        if self._turn[op] >= self._turn[self._op(rerun, rerun.before)]:
            raise InputError(f"the rerun '{shown(rerun.name)}' comes before the first run of '{shown(rerun.op)}'")
        kept = {self._tensor_named.get(name, -1) for name in rerun.tensors}
        if not kept or len(kept) < len(rerun.tensors) or not kept <= set(self.graph.ops[op].outputs):
            raise InputError(f"the rerun '{shown(rerun.name)}' gives something that '{shown(rerun.op)}' does not make")
        return rerun, op, kept

    def _moved(self, move: Move) -> int:
        tensor = self._tensor_named.get(move.tensor, -1)
        if move.leaves_before is None:
            if tensor not in self._streamable:
                raise InputError(f"a move names '{shown(move.tensor)}', which is no weight that may be at the host")
        elif tensor < 0 or self.graph.producer_of[tensor] < 0:
            raise InputError(f"a move names the tensor '{shown(move.tensor)}', which no op of the graph makes")
        if self.graph.tensors[tensor].alias_of is not None:
            raise InputError(f"a move names the tensor '{shown(move.tensor)}', which has no memory of its own")
        for name in move.runs:
            if name not in self._op_named and name not in self._op_of_run:
                raise InputError(f"the move of '{shown(move.tensor)}' names the op '{shown(name)}', which never runs")
        self._check_device(move, tensor)
        return tensor

    def _check_device(self, move: Move, tensor: int) -> None:
        """Check that what makes a tensor and its moves share a device, and that weights move for one device only."""
        maker = self.graph.producer_of[tensor]
        runs = {self.device(self._op_of_run.get(name, name)): name for name in move.runs}
        if maker < 0:
            if len({self._device_of[name] for name in self._op_named if name in self._device_of}) > 1:
                raise InputError(
                    f"the weight '{shown(move.tensor)}' is at the host, which it is beside one device only"
                )
            return
        runs.pop(self.device(self.graph.ops[maker].name), None)
        for name in runs.values():
            raise InputError(
                f"the move of '{shown(move.tensor)}' names the op '{shown(name)}', which runs on another device than "
                f"what makes it"
            )


@dataclass
class _Device:
    """The tensor that readers on a device get now for each of the graph's, and the latest run there, -1 before any."""

    current: list[int]
    latest: int = -1


class _Rewriting:
    """The ops and tensors of the graph with reruns and moves, one after the other.

    here: the device of the current op. number: that of the latest run of an op. number_of_return: that of the latest
    return of a tensor. place_of, host_op: the place among the new ops of an op's first run and of a tensor's move to
    the host. awaited: weights that have not come yet. readers: the places of reruns that read each piece of memory
    since it was last written.
    """

    def __init__(self, graph: Graph, rewrites: _Rewrites) -> None:
        self.graph = graph
        self.rewrites = rewrites
        self.ops: list[Op] = []
        self.op_of: list[int] = []
        self.tensors = list(graph.tensors)
        self.tensor_of = list(range(len(graph.tensors)))
        self.devices: defaultdict[int, _Device] = defaultdict(lambda: _Device(list(range(len(graph.tensors)))))
        self.here = self.devices[0]
        self.number: dict[int, int] = {}
        self.number_of_return: dict[int, int] = {}
        self.place_of: dict[int, int] = {}
        self.host_op: dict[int, int] = {}
        self.awaited = set(rewrites.at_host)
        self.readers: dict[int, list[int]] = {}

    def done(self) -> Rewritten:
        for index in self.rewrites.order:
            op = self.graph.ops[index]
            for rerun, original, kept in self.rewrites.before.get(index, ()):
                self._turn_to(rerun.op)
                self._move_before(rerun.name)
                self._add_again(original, kept, rerun.name)
            self._turn_to(op.name)
            self._move_before(op.name)
            inputs = op.inputs if op.kind == "view" else tuple(map(self._now, op.inputs))
            self.place_of[index] = len(self.ops)
            controls = [self.place_of[control] for control in op.controls]
            controls += [place for base in self._overwritten(op) for place in self.readers.pop(base, ())]
            unique = tuple(dict.fromkeys(controls))
            is_as_before = inputs == op.inputs and unique == op.controls
            self._add(index, op if is_as_before else replace(op, inputs=inputs, controls=unique))
        return Rewritten(
            graph=replace(self.graph, ops=tuple(self.ops), tensors=tuple(self.tensors)),
            op_of=tuple(self.op_of),
            tensor_of=tuple(self.tensor_of),
        )

    def _turn_to(self, op: str) -> None:
        self.here = self.devices[self.rewrites.device(op)]

    def _add(self, original: int, op: Op) -> None:
        if op.kind != "view" and op.target != HOST_TARGET:
            self.here.latest = len(self.ops)
        self.ops.append(op)
        self.op_of.append(original)

    def _move_before(self, name: str) -> None:
        """Add moves that end before a run, then returns that begin. The host gets only what the first run made."""
        for tensor in self.rewrites.leaves.get(name, ()):
            own, maker = self.graph.tensors[tensor].name, self.graph.producer_of[tensor]
            if tensor in self.host_op or self.here.current[tensor] != tensor or maker not in self.place_of:
                raise InputError(f"the tensor '{shown(own)}' leaves before it is made, or after it was made again")
            self.host_op[tensor] = len(self.ops)
            self._add(-1, _move(f"{own}@host", HOST_TARGET, inputs=(tensor,)))
            here = (self.host_op[tensor],)
            self._add(-1, _move(f"{own}@leave", LEAVE_TARGET, inputs=(tensor,), controls=here))
        for tensor in self.rewrites.returns.get(name, ()):
            record = self.graph.tensors[tensor]
            if tensor not in self.host_op and tensor not in self.rewrites.at_host:
                raise InputError(f"the tensor '{shown(record.name)}' comes back before it has left")
            number = self.number_of_return[tensor] = self.number_of_return.get(tensor, 0) + 1
            own = f"{record.name}@back{number}"
            self.tensors.append(replace(record, name=own, role="activation", is_output=False))
            self.tensor_of.append(tensor)
            back = self.here.current[tensor] = len(self.tensors) - 1
            self.awaited.discard(tensor)
            before = (self.host_op.get(tensor, -1), self.here.latest)
            controls = tuple(dict.fromkeys(op for op in before if op >= 0))
            self._add(-1, _move(own, HOST_TARGET, inputs=(tensor,), outputs=(back,), controls=controls))

    def _add_again(self, original: int, kept: Collection[int], name: str | None = None) -> None:
        """Add a rerun by its name, or a view made again, which has none. kept: what later readers get from it."""
        op = self.graph.ops[original]
        inputs = tuple(map(self._now, op.inputs))
        number = self.number[original] = self.number.get(original, 1) + 1
        shows = [self._now(self._alias_of(tensor)) if name is None else None for tensor in op.outputs]
        outputs = tuple(self._copy_of(tensor, number, alias) for tensor, alias in zip(op.outputs, shows, strict=True))
        for tensor, copy in zip(op.outputs, outputs, strict=True):
            if tensor in kept:
                self.here.current[tensor] = copy
        for tensor in inputs if name is not None else ():
            self.readers.setdefault(self._base(tensor), []).append(len(self.ops))
        controls = tuple(self.place_of[control] for control in op.controls)
        name = f"{op.name}@{number}" if name is None else name
        self._add(original, replace(op, name=name, inputs=inputs, outputs=outputs, controls=controls))

    def _now(self, tensor: int) -> int:
        """Return the tensor that the next reader gets for one of the original graph; make a view again if need be."""
        op = self.graph.producer_of[tensor]
        if tensor in self.awaited:
            name = self.graph.tensors[tensor].name
            raise InputError(f"the weight '{shown(name)}' is read before it comes from the host")
        if op < 0 or self.graph.ops[op].kind != "view":
            return self.here.current[tensor]
        shown_now = self._now(self._alias_of(tensor))
        if self.tensors[self.here.current[tensor]].alias_of != shown_now:
            self._add_again(op, self.graph.ops[op].outputs)
        return self.here.current[tensor]

    def _alias_of(self, tensor: int) -> int:
        alias = self.graph.tensors[tensor].alias_of
        assert alias is not None, tensor
        return alias

    def _copy_of(self, tensor: int, number: int, alias: int | None) -> int:
        record = self.graph.tensors[tensor]
        self.tensors.append(replace(record, name=f"{record.name}@{number}", alias_of=alias, is_output=False))
        self.tensor_of.append(tensor)
        return len(self.tensors) - 1

    def _base(self, tensor: int) -> int:
        while (alias := self.tensors[tensor].alias_of) is not None:
            tensor = alias
        return tensor

    def _overwritten(self, op: Op) -> Iterable[int]:
        if op.kind == "view":
            return ()
        return {self._base(tensor) for tensor in op.outputs if self.graph.tensors[tensor].alias_of is not None}


def _move(
    name: str,
    target: str,
    *,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...] = (),
    controls: tuple[int, ...] = (),
) -> Op:
    return Op(
        name=name, kind="copy", target=target, inputs=inputs, outputs=outputs, controls=controls, phase="", time_ns=0
    )


#: Suffixes to the name of an op or a tensor in the names of its runs, its moves and their tensors.
_OF_RUNS, _OF_MOVES, _OF_RETURNS = r"@\d+", r"@(host|leave|back\d+)", r"@back\d+"


def check_names(graph: Graph, *, moves: bool) -> None:
    """Raises InputError where something in a graph has a name that a rerun, or with `moves` a move, would have."""
    for what, name in made_names(graph, moves=moves):
        raise InputError(
            f"the {what} '{shown(name)}' has the name that a plan under a memory limit gives to what it makes "
            f"of '{shown(name.rpartition('@')[0])}'; rename it"
        )


def made_names(graph: Graph, *, moves: bool) -> list[tuple[str, str]]:
    """Pairs of "op" or "tensor" and the name of one in the graph that a rerun or a move would have."""
    ops, tensors = {op.name for op in graph.ops}, {tensor.name for tensor in graph.tensors}
    cases = [("op", ops, ops, _OF_RUNS), ("tensor", tensors, tensors, _OF_RUNS)]
    cases += [("op", ops, tensors, _OF_MOVES), ("tensor", tensors, tensors, _OF_RETURNS)] if moves else []
    found = []
    for what, names, known, pattern in cases:
        for name in sorted(names):
            begin, at, rest = name.rpartition("@")
            if begin in known and re.fullmatch(pattern, at + rest):
                found.append((what, name))
    return found


def names_of_move(move: Move) -> Iterator[str]:
    """The names of the ops of a move: at the host, at the device, and one for each return; of a weight only these."""
    if move.leaves_before is not None:
        yield from (f"{move.tensor}@host", f"{move.tensor}@leave")
    yield from (f"{move.tensor}@back{number}" for number in range(1, len(move.returns_before) + 1))


def of_runs(known: NDArray[AnyInt], op_of: Sequence[int], num_devices: int) -> NDArray[AnyInt]:
    """Spread values of ops to their runs: 0 for moves, and on the host where nothing is known of it.

    known: integers [num ops, num_devices], or one column fewer. Returns [num runs, num_devices].
    """
    found = np.zeros((len(op_of), num_devices), known.dtype)
    found[:, : known.shape[1]] = np.append(known, np.zeros((1, known.shape[1]), known.dtype), axis=0)[list(op_of)]
    return found


def names_of_runs(graph: Graph, ops: Sequence[int]) -> Iterator[str]:
    """The name of each run of ops of the graph, in the order in which they run; that of a first run is the op's."""
    number: dict[int, int] = {}
    for op in ops:
        number[op] = number.get(op, 0) + 1
        name = graph.ops[op].name
        yield name if number[op] == 1 else f"{name}@{number[op]}"
