"""The slow, obvious first-come, first-served schedule of a placement, and its costs. No launches."""

from __future__ import annotations

from reference import Order, Simulated, simulate, structure_of

from placewright.problem import Problem


def first_come(problem: Problem, device_of: list[int]) -> tuple[Order, Simulated]:
    """Return the whole order, and its reference simulation."""
    order = _with_transfers(problem, device_of, _ops(problem, device_of))
    return order, simulate(problem, device_of, order)


def _followers(problem: Problem) -> list[list[int]]:
    """Return the ops that wait for each op, through tensors or control dependencies."""
    structure = structure_of(problem)
    needs = [
        {structure.producer[t] for t in structure.inputs[op]} | set(structure.predecessors[op])
        for op in range(structure.num_ops)
    ]
    return [[op for op in range(structure.num_ops) if before in needs[op]] for before in range(structure.num_ops)]


def _goes_first(problem: Problem, device_of: list[int]) -> list[bool]:
    """Mark inputs that another device waits for: they take no time and wait only for such ops."""
    structure, followers = structure_of(problem), _followers(problem)
    time_ns = problem.time_ns[problem.lowered.graph_op]
    is_input = [False] * structure.num_ops
    for op in range(structure.num_ops):
        before = [structure.producer[t] for t in structure.inputs[op]] + structure.predecessors[op]
        is_input[op] = not time_ns[op].any() and all(is_input[b] for b in before)
    found = [False] * structure.num_ops
    for op in reversed(range(structure.num_ops)):
        found[op] = is_input[op] and any(device_of[f] != device_of[op] or found[f] for f in followers[op])
    return found


def _ops(problem: Problem, device_of: list[int]) -> list[int]:
    """Repeatedly take the device where an op can start earliest (ties: lowest), and its op that has waited longest."""
    structure, links = structure_of(problem), problem.machine.links
    time_ns = problem.time_ns[problem.lowered.graph_op]
    goes_first = _goes_first(problem, device_of)
    clock, link_free = [0] * problem.machine.num_devices, dict[tuple[int, int], int]()
    ready, order = [0] * structure.num_ops, list[int]()
    while len(order) < structure.num_ops:
        waiting = [
            op
            for op in range(structure.num_ops)
            if op not in order
            and all(structure.producer[t] in order for t in structure.inputs[op])
            and all(before in order for before in structure.predecessors[op])
        ]
        start, device = min((max(clock[device_of[op]], ready[op]), device_of[op]) for op in waiting)
        startable = [op for op in waiting if device_of[op] == device and ready[op] <= start]
        op = min(startable, key=lambda op: (not goes_first[op], ready[op] if not goes_first[op] else 0, op))
        clock[device] = finish = max(clock[device], ready[op]) + int(time_ns[op, device])
        order.append(op)
        for tensor in structure.outputs[op]:
            readers = [r for r in range(structure.num_ops) if tensor in structure.inputs[r]]
            arrival = {device: finish}
            for reader in readers:
                there = device_of[reader]
                if there not in arrival:
                    moving = links[device][there].transfer_time_ns(int(problem.lowered.transfer_bytes[tensor]))
                    arrival[there] = link_free[device, there] = max(link_free.get((device, there), 0), finish) + moving
                ready[reader] = max(ready[reader], arrival[there])
        for follower in range(structure.num_ops):
            if op in structure.predecessors[follower]:
                there = device_of[follower]
                signalled = finish + links[device][there].latency_ns if problem.control == "signal" else 0
                ready[follower] = max(ready[follower], finish if there == device else signalled)
    return order


def _with_transfers(problem: Problem, device_of: list[int], ops: list[int]) -> Order:
    return (
        _batched(problem, device_of, ops)
        if problem.machine.transfer_model == "blocking"
        else _early(problem, device_of, ops)
    )


def _early(problem: Problem, device_of: list[int], ops: list[int]) -> Order:
    """Send each tensor right after its producer, in tensor, then device order."""
    structure = structure_of(problem)
    needed = structure.needed_transfers(device_of)
    order: Order = []
    for op in ops:
        order += [(op, -1), *(step for step in needed if structure.producer[step[0]] == op)]
    return order


def _batched(problem: Problem, device_of: list[int], ops: list[int]) -> Order:
    """Send all waiting tensors between two devices when an op lacks one, those to the op's device first."""
    structure = structure_of(problem)
    unsent = structure.needed_transfers(device_of)
    order: Order = []
    done = list[int]()
    for op in ops:
        here = device_of[op]
        for tensor in structure.inputs[op]:
            if (tensor, here) not in unsent:
                continue
            there = device_of[structure.producer[tensor]]
            for source, destination in ((there, here), (here, there)):
                leaving = [
                    step
                    for maker in done
                    for step in unsent
                    if structure.producer[step[0]] == maker and device_of[maker] == source and step[1] == destination
                ]
                order += leaving
                unsent = [step for step in unsent if step not in leaving]
        order.append((op, -1))
        done.append(op)
    return order
