"""Explanations of reruns: the memory not held meanwhile, the cost of the rerun, and the cost of leaving it out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.graph import HOST_TARGET, LEAVE_TARGET, Graph, Op
from placewright.machines.host import parted
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.problem.constraints import recorded_constraints
from placewright.problem.objective import Metrics
from placewright.rematerialization.reruns import Move, Rerun, Rewritten, rewritten
from placewright.rematerialization.solve import in_order, with_reruns
from placewright.search.run.result import measure


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunExplanation:
    """An explanation of one rerun of an op.

    Attributes
    ----------
    name
        Name of the rerun.
    before
        The op that comes next.
    readers
        The ops that read its results.
    tensors
        The results of it that are kept.
    size_bytes
        The size of these, which is not held meanwhile.
    held_until
        The last op that reads the results of the run before; then they are freed.
    num_ops
        Number of ops that run between that op and this rerun.
    not_held_ns
        Time between that op and this rerun.
    time_ns
        Time of this rerun.
    peak_bytes_without, step_time_ns_without, bytes_over_limit_without
        Cost of the plan without this rerun, where the results of the run before are held instead.
    """

    name: str
    before: str
    readers: tuple[str, ...]
    tensors: tuple[str, ...]
    size_bytes: int
    held_until: str
    num_ops: int
    not_held_ns: int
    time_ns: int
    peak_bytes_without: int
    step_time_ns_without: int
    bytes_over_limit_without: int


def explain_reruns(plan: Plan, graph: Graph, time_ns: NDArray[np.int64], name: str) -> tuple[RerunExplanation, ...]:
    """Explain all reruns of the op of that name, or the rerun of that name.

    graph: the plan's graph without its reruns. time_ns: int64 [num graph ops, num devices].
    """
    chosen = [rerun for rerun in plan.reruns if name in (rerun.name, rerun.op)]
    if not chosen:
        return ()
    found = rewritten(graph, plan.reruns, plan.moves, plan.device_of)
    return tuple(_explained(plan, graph, time_ns, rerun, found) for rerun in chosen)


def _explained(
    plan: Plan, graph: Graph, time_ns: NDArray[np.int64], rerun: Rerun, found: Rewritten
) -> RerunExplanation:
    on, host = plan.device_of, parted(plan.machine)[0].num_devices
    runs = [op for op in found.graph.ops if op.kind != "view" and on[op.name] in (on[rerun.op], host)]
    place = {op.name: index for index, op in enumerate(runs)}
    own = place[rerun.name]
    original = {graph.tensors[tensor].name: tensor for tensor in range(len(graph.tensors))}
    wanted = {original[tensor] for tensor in rerun.tensors}
    until = max(_last_use(found, tensor, rerun.name, place) for tensor in wanted)
    made = {tensor for tensor in runs[own].outputs if found.tensor_of[tensor] in wanted}
    readers = [op.name for op in runs[own + 1 :] if not made.isdisjoint(found.graph.base_of[t] for t in op.inputs)]
    times = {op.name: op for op in plan.ops}
    without = _without(plan, graph, time_ns, rerun, runs[own + 1 :])
    return RerunExplanation(
        name=rerun.name,
        before=rerun.before,
        readers=tuple(readers),
        tensors=rerun.tensors,
        size_bytes=sum(graph.tensors[tensor].held_bytes for tensor in wanted),
        held_until=runs[until].name,
        num_ops=own - until - 1,
        not_held_ns=times[rerun.name].start_ns - times[runs[until].name].finish_ns,
        time_ns=times[rerun.name].finish_ns - times[rerun.name].start_ns,
        peak_bytes_without=without.peak_memory_bytes,
        step_time_ns_without=without.step_time_ns,
        bytes_over_limit_without=without.bytes_over_limit,
    )


def _last_use(found: Rewritten, tensor: int, rerun: str, place: dict[str, int]) -> int:
    """Find the last run that makes or reads a copy of a tensor of the graph before a rerun of its op. Returns its
    place, or -1."""
    earlier = set[int]()
    last = -1
    for op in found.graph.ops:
        if op.name == rerun:
            break
        earlier |= set(_copies(found, op.outputs, tensor))
        touches = any(found.graph.base_of[each] in earlier for each in (*op.inputs, *op.outputs))
        if op.name in place and touches:
            last = place[op.name]
    return last


def _copies(found: Rewritten, tensors: Sequence[int], of: int) -> Iterator[int]:
    return (tensor for tensor in tensors if found.tensor_of[tensor] == of)


def _without(plan: Plan, graph: Graph, time_ns: NDArray[np.int64], rerun: Rerun, later: Sequence[Op]) -> Metrics:
    """Measure the plan without one of its reruns. later: the runs after that rerun; moves before it then come before
    the next of these."""
    machine, host = parted(plan.machine)
    problem = Problem(
        graph=graph,
        machine=machine,
        time_ns=np.ascontiguousarray(time_ns[:, : machine.num_devices]),
        objective=plan.objective,
        control=plan.control,
        memory_limits_bytes=plan.memory_limits_bytes[: machine.num_devices],
        constraints=recorded_constraints(plan.configuration),
    )
    following = next(op.name for op in later if op.target not in (HOST_TARGET, LEAVE_TARGET))

    def now(name: str) -> str:
        return following if name == rerun.name else name

    moves = tuple(
        Move(
            tensor=move.tensor,
            leaves_before=None if move.leaves_before is None else now(move.leaves_before),
            returns_before=tuple(map(now, move.returns_before)),
        )
        for move in plan.moves
    )
    fewer, on = tuple(each for each in plan.reruns if each is not rerun), plan.device_of
    changed = with_reruns(problem, fewer, moves, host, on)
    runs = (changed.graph.ops[run].name for run in changed.lowered.graph_op)
    return measure(changed, in_order(changed, np.array([on[run] for run in runs], np.int32)))
