"""Why one op stands where it does, and what each other device would cost: it is moved, alone with those that share its
device, and the same order simulated again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.graph import Graph
from placewright.plans.record import Plan, ScheduledOp
from placewright.problem import Problem
from placewright.problem.constraints import OpNames, recorded_constraints
from placewright.search.result import Solution, measure
from placewright.support.errors import InputError, shown
from placewright.support.suggestion import did_you_mean

Step = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpInput:
    """A tensor the op reads. device: where it was made. moved: whether a transfer brought it. available_ns: from when
    it was on the op's device."""

    tensor: str
    producer: str
    device: int
    size_bytes: int
    moved: bool
    available_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The op, with its group, on one device and everything else as it is; its own device is among them.

    op_time_ns: what the op takes there. allowed: whether constraints let it go there; the rest is None where they do
    not. step_time_ns, peak_bytes (of that device), bytes_moved (over all links), bytes_over_limit: of the whole plan.
    """

    device: int
    op_time_ns: int
    allowed: bool
    step_time_ns: int | None = None
    peak_bytes: int | None = None
    bytes_moved: int | None = None
    bytes_over_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpExplanation:
    """constraints: in words, what the user and in-place updates demand of it. group: names of the other ops that must
    share its device. device_free_ns: when its device was done with what ran before. waited_for: name of the op or
    tensor that decided its start, "" when it starts at 0. inputs: in its own order."""

    op: ScheduledOp
    constraints: tuple[str, ...]
    group: tuple[str, ...]
    device_free_ns: int
    waited_for: str
    inputs: tuple[OpInput, ...]
    alternatives: tuple[Alternative, ...]


def explain_op(plan: Plan, graph: Graph, time_ns: NDArray[np.int64], name: str) -> OpExplanation:
    """time_ns: int64 [num graph ops, num devices]. Raises InputError when the plan schedules no op of that name."""
    found = {op.name: op for op in plan.ops}
    if name not in found:
        raise InputError(f"the plan schedules no op '{shown(name)}'{did_you_mean(name, found, list(found)[:8])}")
    op = found[name]
    problem = Problem(
        graph=graph,
        machine=plan.machine,
        time_ns=time_ns,
        objective=plan.objective,
        control=plan.control,
        memory_limits_bytes=plan.memory_limits_bytes,
        constraints=recorded_constraints(plan.configuration),
    )
    graph_ops = [graph.ops[index] for index in problem.lowered.graph_op]
    number = next(index for index, node in enumerate(graph_ops) if node.name == name)
    group = np.flatnonzero(problem.groups[0] == problem.groups[0][number])
    return OpExplanation(
        op=op,
        constraints=tuple(_constraints(problem, number)),
        group=tuple(graph_ops[member].name for member in group if member != number),
        device_free_ns=max((before.finish_ns for before in _before(plan, op)), default=0),
        waited_for=_step_name(plan, op.waits_for),
        inputs=tuple(_inputs(plan, problem, op, number)),
        alternatives=tuple(_alternatives(plan, problem, op, number, group)),
    )


def _before(plan: Plan, op: ScheduledOp) -> Iterator[ScheduledOp]:
    """What ran on its device before it."""
    return (other for other in plan.ops if other.device == op.device and other.position < op.position)


def _constraints(problem: Problem, number: int) -> Iterator[str]:
    """The rules that match the op or one of its group."""
    lowered, group = problem.lowered, problem.groups[0]
    names = OpNames(problem.graph.ops[index] for index in lowered.graph_op)

    def concerns(pattern: str) -> bool:
        return any(group[match] == group[number] for match in names.matching(pattern))

    yield from (f"pinned to {d} by '{p}'" for p, d in problem.constraints.pins if concerns(p))
    yield from (f"forbidden on {d} by '{p}'" for p, d in problem.constraints.forbids if concerns(p))
    for patterns in problem.constraints.colocations:
        if any(concerns(pattern) for pattern in patterns):
            yield f"colocated by {', '.join(repr(pattern) for pattern in patterns)}"
    if any(group[first] == group[number] for first, _ in lowered.together):
        yield "shares its device with the ops that hold the parameter it updates"


def _step_name(plan: Plan, position: int) -> str:
    """Of the op or transfer there; "" for -1."""
    names = {op.position: op.name for op in plan.ops}
    names |= {t.position: f"{t.tensor} from {plan.machine.devices[t.source].name}" for t in plan.transfers}
    return names.get(position, "")


def _inputs(plan: Plan, problem: Problem, op: ScheduledOp, number: int) -> Iterator[OpInput]:
    lowered, graph = problem.lowered, problem.graph
    made = {other.name: other for other in plan.ops}
    arrived = {(t.tensor, t.producer): t for t in plan.transfers if t.destination == op.device}
    for tensor in lowered.inputs[lowered.input_begin[number] : lowered.input_begin[number + 1]]:
        producer = made[graph.ops[lowered.graph_op[lowered.producer[tensor]]].name]
        name = _tensor_name(problem, int(tensor))
        transfer = arrived.get((name, producer.name))
        yield OpInput(
            tensor=name,
            producer=producer.name,
            device=producer.device,
            size_bytes=int(lowered.remote_bytes[tensor]),
            moved=transfer is not None,
            available_ns=producer.finish_ns if transfer is None else transfer.finish_ns,
        )


def _tensor_name(problem: Problem, tensor: int) -> str:
    lowered, graph = problem.lowered, problem.graph
    index = int(lowered.graph_tensor[tensor])
    if index >= 0:
        return graph.tensors[index].name
    return f"control of {graph.ops[lowered.graph_op[lowered.producer[tensor]]].name}"


def _alternatives(
    plan: Plan, problem: Problem, op: ScheduledOp, number: int, group: NDArray[np.int64]
) -> Iterator[Alternative]:
    lowered, allowed = problem.lowered, int(problem.groups[1][number])
    number_of = {problem.graph.ops[index].name: number for number, index in enumerate(lowered.graph_op)}
    tensor_of = {
        (_tensor_name(problem, tensor), int(lowered.producer[tensor])): tensor
        for tensor in range(len(lowered.graph_tensor))
    }
    device_of = np.empty(len(number_of), np.int32)
    for other in plan.ops:
        device_of[number_of[other.name]] = other.device
    steps = {other.position: (number_of[other.name], -1) for other in plan.ops}
    for transfer in plan.transfers:
        tensor = tensor_of[transfer.tensor, number_of[transfer.producer]]
        steps[transfer.position] = (tensor, transfer.destination)
    order = [steps[position] for position in sorted(steps)]
    for device in range(plan.machine.num_devices):
        time_ns = int(problem.time_ns[lowered.graph_op[number], device])
        if not allowed >> device & 1:
            yield Alternative(device=device, op_time_ns=time_ns, allowed=False)
            continue
        moved = device_of.copy()
        moved[group] = device
        solutions = (Solution(device_of=moved, order=repaired) for repaired in _repaired(problem, moved, order))
        metrics = min((measure(problem, s) for s in solutions), key=lambda found: found.fitness(plan.objective))
        yield Alternative(
            device=device,
            op_time_ns=time_ns,
            allowed=True,
            step_time_ns=metrics.step_time_ns,
            peak_bytes=metrics.peak_bytes[device],
            bytes_moved=metrics.bytes_moved,
            bytes_over_limit=metrics.bytes_over_limit,
        )


def _repaired(problem: Problem, device_of: NDArray[np.int32], order: list[Step]) -> Iterator[NDArray[np.int32]]:
    """The order with the transfers that this placement needs: those that it has where they still do, others right
    behind what makes the tensor, or right before what first reads it."""
    lowered = problem.lowered
    wanted: list[list[Step]] = [[] for _ in device_of]
    for op, tensor in zip(lowered.reader.tolist(), lowered.inputs.tolist(), strict=True):
        if device_of[lowered.producer[tensor]] != device_of[op]:
            wanted[op].append((tensor, int(device_of[op])))
    in_time = _in_time(order, wanted)
    ops_and_kept = [step for step in order if step[1] < 0 or step in in_time]
    missing = dict.fromkeys(step for steps in wanted for step in steps if step not in in_time)
    behind: list[list[Step]] = [[] for _ in device_of]
    for step in missing:
        behind[lowered.producer[step[0]]].append(step)
    early = [each for step in ops_and_kept for each in (step, *(behind[step[0]] if step[1] < 0 else ()))]
    yield np.array(early, np.int32)
    late: list[Step] = []
    for step in ops_and_kept:
        if step[1] < 0:
            first = [transfer for transfer in dict.fromkeys(wanted[step[0]]) if transfer in missing]
            late += first
            for transfer in first:
                del missing[transfer]
        late.append(step)
    yield np.array(late, np.int32)


def _in_time(order: list[Step], wanted: list[list[Step]]) -> set[Step]:
    """The transfers of the order that come before all that want them, and that something does want."""
    before, too_late = set[Step](), set[Step]()
    for step in order:
        if step[1] >= 0:
            before.add(step)
        else:
            too_late.update(transfer for transfer in wanted[step[0]] if transfer not in before)
    return (before - too_late) & {step for steps in wanted for step in steps}
