"""Retiming of a plan: the same devices and the same order, simulated with other op times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.plans.assemble import assemble_plan
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.search.run.result import Result, Solution, measure

Step = tuple[int, int]


def retimed(plan: Plan, problem: Problem) -> Plan:
    """Simulate the plan with the times of the problem, which is for the same graph, machine and constraints."""
    device_of, order = solution_of(plan, problem)
    solution = Solution(device_of=device_of, order=np.array(order, np.int32))
    result = Result(
        method=plan.solver,
        solution=solution,
        metrics=measure(problem, solution),
        found_by=plan.found_by,
        evaluations=plan.evaluations,
        seconds=plan.seconds,
        stopped_because="complete",
        seed=plan.seed,
    )
    options = {key: value for key, value in plan.configuration.items() if key not in problem.constraints.record()}
    return assemble_plan(problem, result, solver=plan.solver, seconds=plan.seconds, options=options)


def solution_of(plan: Plan, problem: Problem) -> tuple[NDArray[np.int32], list[Step]]:
    """Return the device of every scheduled op, and the order of the plan in the numbers of the problem."""
    lowered = problem.lowered
    number_of = {problem.graph.ops[index].name: number for number, index in enumerate(lowered.graph_op)}
    tensor_of = {
        (tensor_name(problem, tensor), int(lowered.producer[tensor])): tensor
        for tensor in range(len(lowered.graph_tensor))
    }
    device_of = np.empty(len(number_of), np.int32)
    for op in plan.ops:
        device_of[number_of[op.name]] = op.device
    steps = {op.position: (number_of[op.name], -1) for op in plan.ops}
    for transfer in plan.transfers:
        tensor = tensor_of[transfer.tensor, number_of[transfer.producer]]
        steps[transfer.position] = (tensor, transfer.destination)
    return device_of, [steps[position] for position in sorted(steps)]


def tensor_name(problem: Problem, tensor: int) -> str:
    """Return a plan's name for a scheduled tensor; an empty tensor that only signals the end of an op is named after
    the op."""
    lowered, graph = problem.lowered, problem.graph
    index = int(lowered.graph_tensor[tensor])
    if index >= 0:
        return graph.tensors[index].name
    return f"control of {graph.ops[lowered.graph_op[lowered.producer[tensor]]].name}"
