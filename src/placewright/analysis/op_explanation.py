"""Explanations of where an op, or all ops of a module, are placed, and what each other device would cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.analysis.relocation import Alternative, alternatives, group_of
from placewright.analysis.rerun_explanation import RerunExplanation
from placewright.graph import Graph, Op
from placewright.plans.record import Plan, ScheduledOp
from placewright.plans.retimed import tensor_name
from placewright.problem import Problem
from placewright.problem.constraints import OpNames, recorded_constraints
from placewright.support.errors import InputError, did_you_mean, shown

#: How many ops of a module are listed, and how many names a sentence lists.
_NUM_LONGEST = 8
_NUM_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OpInput:
    """A tensor that the op reads.

    Attributes
    ----------
    tensor, producer
        Names of the tensor and of the op that makes it.
    device
        The device that made it.
    size_bytes
        Size of its transfer.
    moved
        True if a transfer brought it.
    available_ns
        When it became available on the op's device.
    """

    tensor: str
    producer: str
    device: int
    size_bytes: int
    moved: bool
    available_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpExplanation:
    """An explanation of an op's placement, and of what each other device would cost.

    Attributes
    ----------
    op
        Its row in the plan.
    view
        The name asked for, if it is a view of the op's result; otherwise "".
    constraints
        The demands of the user and of in-place updates on its placement, in words.
    group
        Names of the other ops that must share its device.
    device_free_ns
        When its device finished the ops before it.
    waited_for
        Name of the op or tensor that decided its start; "" when it starts at 0 or when it was launched.
    inputs
        In the order of the op's inputs.
    alternatives
        One per device, its own included.
    reruns
        The explanation of each rerun of the op; if a rerun was asked for by name, of that rerun alone.
    """

    op: ScheduledOp
    view: str
    constraints: tuple[str, ...]
    group: tuple[str, ...]
    device_free_ns: int
    waited_for: str
    inputs: tuple[OpInput, ...]
    alternatives: tuple[Alternative, ...]
    reruns: tuple[RerunExplanation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleExplanation:
    """An explanation of all scheduled ops of a module and of its submodules.

    Attributes
    ----------
    module
        Path of the module.
    num_ops, time_ns
        Number of ops and their time, per device.
    longest
        Some of its ops, the longest first.
    group
        Names of ops outside the module that must share a device with some of its ops.
    alternatives
        One per device, with the whole module on it.
    """

    module: str
    num_ops: tuple[int, ...]
    time_ns: tuple[int, ...]
    longest: tuple[ScheduledOp, ...]
    group: tuple[str, ...]
    alternatives: tuple[Alternative, ...]


def explain_op(plan: Plan, graph: Graph, time_ns: NDArray[np.int64], name: str) -> OpExplanation | ModuleExplanation:
    """Explain the op of that name, the op whose result the view of that name shows, or the module of that path.

    time_ns: int64 [num graph ops, num devices]. Raises InputError for any other name, and for a view of a parameter or
    a constant.
    """
    problem = Problem(
        graph=graph,
        machine=plan.machine,
        time_ns=time_ns,
        objective=plan.objective,
        control=plan.control,
        memory_limits_bytes=plan.memory_limits_bytes,
        constraints=recorded_constraints(plan.configuration),
    )
    ops = [graph.ops[index] for index in problem.lowered.graph_op]
    number_of = {op.name: number for number, op in enumerate(ops)}
    if name in number_of:
        return _explain_one(plan, problem, number_of[name], "")
    view = next((op for op in graph.ops if op.name == name), None)
    if view is not None:
        return _explain_one(plan, problem, number_of[_shown_by(graph, view).name], name)
    members = [number for number, op in enumerate(ops) if f"{op.module}.".startswith(f"{name}.")]
    if not members or not name:
        modules = {module for op in ops for module in _with_parents(op.module)}
        hint = did_you_mean(name, [*number_of, *sorted(modules)], list(number_of)[:8])
        raise InputError(f"the plan schedules no op or module '{shown(name)}'{hint}")
    return _explain_module(plan, problem, name, np.array(members))


def _with_parents(module: str) -> Iterator[str]:
    while module:
        yield module
        module = module.rpartition(".")[0]


def _shown_by(graph: Graph, view: Op) -> Op:
    """Find the op that makes the tensor a view shows. Raises InputError if that is a parameter or a constant."""
    base = graph.base_of[view.outputs[0]]
    if (producer := graph.producer_of[base]) >= 0:
        return graph.ops[producer]
    readers = [op.name for op in graph.ops if op.kind != "view" and base in {graph.base_of[t] for t in op.inputs}]
    asked = f"; ask for an op that reads it: {_named([shown(name) for name in readers])}" if readers else ""
    held = f"'{shown(graph.tensors[base].name)}', which is held wherever it is read"
    raise InputError(f"'{shown(view.name)}' is a view of {held}{asked}")


def _explain_one(plan: Plan, problem: Problem, number: int, view: str) -> OpExplanation:
    graph_ops = [problem.graph.ops[index] for index in problem.lowered.graph_op]
    op = next(op for op in plan.ops if op.name == graph_ops[number].name)
    asked = np.array([number])
    group = group_of(plan, problem, asked)
    return OpExplanation(
        op=op,
        view=view,
        constraints=tuple(_constraints(problem, number, group)),
        group=tuple(graph_ops[member].name for member in group if member != number),
        device_free_ns=max((before.finish_ns for before in _before(plan, op)), default=0),
        waited_for=_step_name(plan, op.waits_for),
        inputs=tuple(_inputs(plan, problem, op, number)),
        alternatives=tuple(alternatives(plan, problem, asked)),
    )


def _explain_module(plan: Plan, problem: Problem, module: str, members: NDArray[np.int64]) -> ModuleExplanation:
    names = [problem.graph.ops[index].name for index in problem.lowered.graph_op]
    own = {names[member] for member in members}
    ops = sorted((op for op in plan.ops if op.name in own), key=lambda op: (op.start_ns - op.finish_ns, op.position))
    counts, times = [0] * plan.machine.num_devices, [0] * plan.machine.num_devices
    for op in ops:
        counts[op.device] += 1
        times[op.device] += op.finish_ns - op.start_ns
    return ModuleExplanation(
        module=module,
        num_ops=tuple(counts),
        time_ns=tuple(times),
        longest=tuple(ops[:_NUM_LONGEST]),
        group=tuple(names[other] for other in group_of(plan, problem, members) if names[other] not in own),
        alternatives=tuple(alternatives(plan, problem, members)),
    )


def _before(plan: Plan, op: ScheduledOp) -> Iterator[ScheduledOp]:
    """Yield the ops that ran on the op's device before it."""
    return (other for other in plan.ops if other.device == op.device and other.position < op.position)


def _constraints(problem: Problem, number: int, members: Sequence[int] | NDArray[np.int64]) -> Iterator[str]:
    """Yield the rules that match the op or another op of its group."""
    lowered, group = problem.lowered, problem.groups[0]
    names = OpNames(problem.graph.ops[index] for index in lowered.graph_op)

    def concerns(pattern: str) -> bool:
        return any(group[match] == group[number] for match in names.matching(pattern))

    yield from (f"pinned to {d} by '{p}'" for p, d in problem.constraints.pins if concerns(p))
    yield from (f"forbidden on {d} by '{p}'" for p, d in problem.constraints.forbids if concerns(p))
    for patterns in problem.constraints.colocations:
        if any(concerns(pattern) for pattern in patterns):
            yield f"colocated by {', '.join(repr(pattern) for pattern in patterns)}"
    yield from _in_place(problem, number, members)


def _in_place(problem: Problem, number: int, members: Sequence[int] | NDArray[np.int64]) -> Iterator[str]:
    """Yield the demands of in-place updates on an op: it shares the device of the updated memory."""
    graph, lowered = problem.graph, problem.lowered
    own = int(lowered.graph_op[number])
    writers: defaultdict[int, list[int]] = defaultdict(list)
    for index in map(int, lowered.graph_op[members]):
        for tensor in graph.ops[index].outputs:
            if graph.tensors[tensor].alias_of is not None:
                writers[graph.base_of[tensor]].append(index)
    begin, end = lowered.resident_begin[number : number + 2]
    held = {int(lowered.graph_resident[resident]) for resident in lowered.residents[begin:end]}
    updated = [base for base, ops in writers.items() if own in ops]
    others = [base for base in writers if base not in updated]
    for what, bases in (
        ("updates {} in place, so shares a device with what makes or reads it", updated),
        (
            "makes {}, which {} updates in place, so shares its device",
            [b for b in others if graph.producer_of[b] == own],
        ),
        ("reads {}, which {} updates in place, so shares its device", [b for b in others if b in held]),
    ):
        if bases:
            yield what.format(
                _named([graph.tensors[b].name for b in bases]), _named([graph.ops[writers[b][0]].name for b in bases])
            )


def _named(names: Sequence[str]) -> str:
    """List the first few of the names."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - _NUM_NAMED
    return ", ".join(f"'{name}'" for name in distinct[:_NUM_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _step_name(plan: Plan, position: int) -> str:
    """Name the op or transfer at a position; "" for -1."""
    names = {op.position: op.name for op in plan.ops}
    names |= {t.position: f"{t.tensor} from {plan.machine.devices[t.source].name}" for t in plan.transfers}
    return names.get(position, "")


def _inputs(plan: Plan, problem: Problem, op: ScheduledOp, number: int) -> Iterator[OpInput]:
    lowered, graph = problem.lowered, problem.graph
    made = {other.name: other for other in plan.ops}
    arrived = {(t.tensor, t.producer): t for t in plan.transfers if t.destination == op.device}
    for tensor in lowered.inputs[lowered.input_begin[number] : lowered.input_begin[number + 1]]:
        producer = made[graph.ops[lowered.graph_op[lowered.producer[tensor]]].name]
        name = tensor_name(problem, int(tensor))
        transfer = arrived.get((name, producer.name))
        yield OpInput(
            tensor=name,
            producer=producer.name,
            device=producer.device,
            size_bytes=int(lowered.transfer_bytes[tensor]),
            moved=transfer is not None,
            available_ns=producer.finish_ns if transfer is None else transfer.finish_ns,
        )
