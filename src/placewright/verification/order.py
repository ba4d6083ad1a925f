"""The checker's first half: checks that a plan is a valid schedule of its graph, before anything is simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from placewright.graph import HOST_TARGET, LEAVE_TARGET, Graph
from placewright.plans.record import Plan, ScheduledOp, Transfer
from placewright.support.errors import InputError
from placewright.verification.evidence import about_configuration
from placewright.verification.replay import Demands, Step, demands, in_place_memory, moved_bytes


def require_order(plan: Plan, graph: Graph, *, name: str = "the plan") -> None:
    """Raise InputError unless the ops and transfers of a plan are those of the graph, in an order in which they can
    run, under the constraints that the plan records. A plan file may violate this even if the graph's fingerprint is
    right. name: how the error calls the plan."""
    if problems := about_order(plan, graph, demands(graph, plan.control)) or about_configuration(plan, graph):
        raise InputError(f"{name} does not fit its graph: {problems[0]}; check lists all that is wrong")


def about_order(plan: Plan, graph: Graph, wanted: Demands) -> list[str]:
    """List the reasons why the plan cannot run in its order, one sentence each."""
    return (
        _about_header(plan, graph)
        or _about_placement(plan, graph, wanted)
        or _about_tensor_names(plan, graph)
        or _about_positions(plan, graph, wanted, steps_of(plan, graph))
    )


def _about_header(plan: Plan, graph: Graph) -> list[str]:
    if plan.graph_fingerprint != graph.fingerprint:
        return [f"the plan is for graph '{plan.graph_name}', whose fingerprint is not that of graph '{graph.name}'"]
    if plan.num_graph_ops != len(graph.ops):
        return [f"the plan counts {plan.num_graph_ops} graph ops; there are {len(graph.ops)}"]
    if len(plan.memory_limits_bytes) != plan.machine.num_devices:
        return [f"the plan has {len(plan.memory_limits_bytes)} memory limits for {plan.machine.num_devices} devices"]
    return [
        f"device '{device.name}' has {device.memory_bytes} bytes but the plan allows {limit}"
        for device, limit in zip(plan.machine.devices, plan.memory_limits_bytes, strict=True)
        if device.memory_bytes is not None and (limit is None or limit > device.memory_bytes)
    ]


def _about_placement(plan: Plan, graph: Graph, wanted: Demands) -> list[str]:
    """Check that every op runs once on an existing device, in-place results are where their memory is, and moves where
    they happen."""
    count = Counter(op.name for op in plan.ops)
    expected = [graph.ops[op].name for op in wanted.reads]
    problems = [
        f"op '{name}' is in the plan but not an op to schedule" for name in sorted(count.keys() - set(expected))
    ]
    problems += [f"op '{name}' is scheduled {count[name]} times, not once" for name in expected if count[name] != 1]
    num_devices = plan.machine.num_devices
    strays = [op for op in plan.ops if not 0 <= op.device < num_devices]
    problems += [f"op '{op.name}' is on device {op.device}, the machine has {num_devices}" for op in strays]
    if problems:
        return problems
    device_of = plan.device_of
    device = {op: device_of[graph.ops[op].name] for op in wanted.reads}
    if problems := [*_about_hosts(plan, graph, device)]:
        return problems
    return [
        f"op '{graph.ops[op].name}' writes in place on device {device[op]}, but op '{graph.ops[other].name}', which "
        f"shares that memory, is on device {device[other]}"
        for writers, sharers in in_place_memory(graph, wanted)
        if len({device[op] for op in (*writers, *sharers)}) > 1
        for op in writers
        for other in sharers
        if device[op] != device[other]
    ]


def _about_hosts(plan: Plan, graph: Graph, device: Mapping[int, int]) -> Iterator[str]:
    """Check that only the ops of moves to the host are on the host, and that a tensor leaves the device of the op that
    makes it."""
    for index, where in device.items():
        op = graph.ops[index]
        if plan.machine.devices[where].is_host != (op.target == HOST_TARGET):
            yield f"op '{op.name}' is on device {where}, " + (
                "which is the host's memory" if op.target != HOST_TARGET else "and belongs to the host's memory"
            )
        elif op.target == LEAVE_TARGET and where != device[graph.producer_of[op.inputs[0]]]:
            yield f"op '{op.name}' is on device {where}, which does not make what leaves"


def _about_tensor_names(plan: Plan, graph: Graph) -> list[str]:
    """Check that a transfer moves a tensor of the graph, or the control tensor of its producer under its one name."""
    ops, tensors = {op.name for op in graph.ops}, {tensor.name for tensor in graph.tensors}
    return [
        f"{label(record)} moves no tensor of the graph and not the control tensor of '{record.producer}'"
        for record in plan.transfers
        if record.tensor not in tensors
        and not (record.producer in ops and record.tensor == _control_name(record.producer))
    ]


def _control_name(op: str) -> str:
    return f"control of {op}"


def steps_of(plan: Plan, graph: Graph) -> list[Step]:
    """List the steps of the order; a value that is no tensor of the graph is a control tensor."""
    op_of = {op.name: index for index, op in enumerate(graph.ops)}
    tensor_of = {tensor.name: index for index, tensor in enumerate(graph.tensors)}
    steps = []
    for record in records_of(plan):
        if isinstance(record, Transfer):
            op = op_of.get(record.producer, -1)
            value = tensor_of.get(record.tensor, -1 - op)
            steps.append(Step(op=op, value=value, source=record.source, destination=record.destination))
        else:
            steps.append(Step(op=op_of[record.name], value=None, source=record.device, destination=record.device))
    return steps


def records_of(plan: Plan) -> list[ScheduledOp | Transfer]:
    return sorted((*plan.ops, *plan.transfers), key=lambda record: record.position)


def label(record: ScheduledOp | Transfer) -> str:
    if isinstance(record, Transfer):
        return f"the transfer of '{record.tensor}' to device {record.destination}"
    return f"op '{record.name}'"


def _about_positions(plan: Plan, graph: Graph, wanted: Demands, steps: Sequence[Step]) -> list[str]:
    if [record.position for record in records_of(plan)] != list(range(len(steps))):
        return ["the positions of ops and transfers are not 0, 1, 2 and so on, each once"]
    device = {step.op: step.source for step in steps if step.value is None}
    problems = _about_transfers(plan, graph, wanted, steps, device)
    problems = problems or _about_dependencies(plan, graph, wanted, steps, device)
    for what, positions in (
        ("ops", [o.position for o in plan.ops]),
        ("transfers", [t.position for t in plan.transfers]),
    ):
        if positions != sorted(positions):
            problems.append(f"the plan's {what} are not sorted by position")
    return problems


def _about_transfers(
    plan: Plan, graph: Graph, wanted: Demands, steps: Sequence[Step], device: Mapping[int, int]
) -> list[str]:
    """Check that there is exactly one transfer per value and device that reads it without making it."""
    needed = {
        (value, device[op]): wanted.maker[value]
        for op, own in wanted.reads.items()
        for value in own
        if device[wanted.maker[value]] != device[op]
    }
    count = Counter((step.value, step.destination) for step in steps if step.value is not None)
    problems = [
        f"the transfer of {_value_name(graph, value)} to device {destination} stands {count[value, destination]} times "
        "in the order, not once"
        for value, destination in sorted(needed)
        if count[value, destination] != 1
    ]
    for record, step in zip(records_of(plan), steps, strict=True):
        if not isinstance(record, Transfer) or step.value is None:
            continue
        if (step.value, step.destination) not in needed:
            problems.append(f"{label(record)} is not needed")
            continue
        maker = needed[step.value, step.destination]
        expected = (graph.ops[maker].name, device[maker], moved_bytes(graph, step.value))
        found = (record.producer, record.source, record.size_bytes)
        if found != expected:
            problems.append(f"{label(record)} has producer, source and bytes {found}, expected {expected}")
    return problems


def _value_name(graph: Graph, value: int) -> str:
    name = graph.tensors[value].name if value >= 0 else _control_name(graph.ops[-1 - value].name)
    return f"'{name}'"


def _about_dependencies(
    plan: Plan, graph: Graph, wanted: Demands, steps: Sequence[Step], device: Mapping[int, int]
) -> list[str]:
    """Check that every step comes after all it needs."""
    ran: set[int] = set()
    present: set[tuple[int, int]] = set()
    problems = []
    for record, step in zip(records_of(plan), steps, strict=True):
        if step.value is None:
            missing = [
                f"{_value_name(graph, value)} is on its device"
                for value in wanted.reads[step.op]
                if (value, step.source) not in present
                and not (device[wanted.maker[value]] == step.source and wanted.maker[value] in ran)
            ]
            missing += [f"op '{graph.ops[before].name}'" for before in wanted.waits[step.op] - ran]
            ran.add(step.op)
        else:
            missing = [] if step.op in ran else [f"op '{graph.ops[step.op].name}', which makes it"]
            present.add((step.value, step.destination))
        problems += [f"{label(record)} stands before {what}" for what in missing]
    return problems
