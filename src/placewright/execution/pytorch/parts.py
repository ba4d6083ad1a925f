"""Forward and backward of one captured graph, run as steps of the plan that was made of both together.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from placewright.execution.pytorch.joint_rewriting import RUN
from placewright.execution.pytorch.program import TorchProgram, signature, tensor_placeholders
from placewright.execution.pytorch.step import TorchStep
from placewright.plans.assemble import assemble_plan
from placewright.plans.record import Plan
from placewright.problem import Problem, make_problem
from placewright.search.run.result import Result, Solution, measure
from placewright.support.errors import InputError


class Part:
    """A graph that is called with a list of its arguments, which it empties, and returns a list of its results.

    runs: for each node, by name, its run in the plan of both parts; None for a graph that has a plan of its own.
    is_new: whether it has not run. step: runs it, on the arguments that are tensors. before: called with these before
    each run. instead: runs in place of the step. kept: places of results that backward also reads. left: their bytes in
    the latest run, by address.
    """

    def __init__(
        self, module: torch.fx.GraphModule, program: TorchProgram, runs: Mapping[str, str] | None = None
    ) -> None:
        self.module = module
        self.program = program
        self.runs = runs
        self.is_new = True
        self.step: TorchStep | None = None
        self.before: Callable[[list[Any]], None] = lambda _: None
        self.instead: Callable[[list[Any]], list[Any]] | None = None
        self.kept: Sequence[int] = ()
        self.left: dict[int, int] = {}
        self.names = [node.name for node in tensor_placeholders(module.graph)]
        #: The results of the graph, which include None and sizes besides tensors.
        self._end = module.graph.output_node().args[0]

    def fits(self, given: Sequence[Any]) -> bool:
        """True if the tensors among the arguments have the dtypes and shapes that were traced."""
        _, tensors = self.program.split(given)
        wanted = self.program.input_signature
        return all(each == own or 0 in own[0] for each, own in zip(signature(tensors), wanted, strict=True))

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Runs the step."""
        given = [value for value in arguments if isinstance(value, torch.Tensor)]
        self.before(given)
        if self.instead is not None:
            return self.instead(arguments)
        arguments.clear()
        parameters, tensors = self.program.split(given)
        del given
        assert self.step is not None
        self.left.clear()
        out = self.step.run(parameters, tensors, taken=True)
        results = iter([out[tensor] for tensor in self.program.results])
        found = [next(results) if isinstance(end, torch.fx.Node) else end for end in self._end]
        for storage in (found[place].untyped_storage() for place in self.kept):
            self.left[storage.data_ptr()] = storage.nbytes()
        return found


def boxed(run: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
    """A function for PyTorch to call with a list, of which PyTorch keeps nothing, so that its contents can be freed."""

    def call(arguments: list[Any]) -> list[Any]:
        return run(arguments)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


class _WithoutBackward(torch.autograd.Function):
    """Results of an inference, which raise an error where their gradient is requested."""

    @staticmethod
    def forward(ctx: Any, anchor: Any, *tensors: Any) -> Any:
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise InputError(
            "this tensor was computed by a plan, which keeps nothing for a backward pass of one's own; compile the "
            "module with training=True, or call it in torch.no_grad() where no gradient is meant"
        )


def without_backward(run: Callable[..., Sequence[Any]], wanted: Sequence[bool]) -> Callable[..., Sequence[Any]]:
    """An inference on a graph whose results would have gradients in the module itself; requesting these gradients
    raises InputError. wanted: which results."""

    def call(*arguments: Any) -> list[Any]:
        with torch.no_grad():
            found = list(run(*arguments))
        places = [place for place, is_wanted in enumerate(wanted) if is_wanted]
        with torch.enable_grad():
            made = _WithoutBackward.apply(torch.empty(0, requires_grad=True), *(found[place] for place in places))
        for place, tensor in zip(places, made, strict=True):
            found[place] = tensor
        return found

    return call


def plan_of_part(program: TorchProgram, runs: Mapping[str, str], plan: Plan) -> Plan:
    """The plan of both parts for the program of one: the same devices and the same order.

    runs: for each op of the program the name of its run in the plan. An op that the plan does not name runs on the
    device of its inputs, as soon as these are there.
    """
    problem = make_problem(program.graph, plan.machine)
    device_of, ops = _solution(problem, runs, plan)
    solution = Solution(device_of=device_of, order=problem.core.with_transfers(device_of, ops, True))
    result = Result(
        method=plan.solver,
        solution=solution,
        metrics=measure(problem, solution),
        found_by=plan.found_by,
        evaluations=0,
        seconds=0.0,
        stopped_because="complete",
        seed=plan.seed,
    )
    return assemble_plan(problem, result, solver=plan.solver, seconds=0.0)


def runs_of(module: torch.fx.GraphModule) -> dict[str, str]:
    """The run of each node of a part, by name."""
    return {node.name: node.meta.get(RUN, node.name) for node in module.graph.nodes}


def _solution(
    problem: Problem, runs: Mapping[str, str], plan: Plan
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:  # fmt: skip
    """Device of every scheduled op, and their order."""
    lowered, graph = problem.lowered, problem.graph
    planned = {op.name: op for op in plan.ops}
    names = [graph.ops[index].name for index in lowered.graph_op]
    known = [planned.get(_run_of(name, runs)) for name in names]
    before = _predecessors(problem)
    device_of = np.zeros(len(names), np.int32)
    for op, own in enumerate(known):
        device_of[op] = own.device if own is not None else max((device_of[each] for each in before[op]), default=0)
    turn = [own.position if own is not None else -1 for own in known]
    return _of_groups(problem, device_of), np.array(_in_turn(before, turn), np.int32)


def _run_of(name: str, runs: Mapping[str, str]) -> str:
    """The run of an op: an input may be the result of another op of the plan."""
    kind, _, source = name.rpartition(":")
    return runs.get(source, name) if kind == "input" else runs.get(name, name)


def _predecessors(problem: Problem) -> list[set[int]]:
    """The predecessors of each scheduled op: those that it reads from and those that it waits for."""
    lowered = problem.lowered
    found = []
    for op in range(len(lowered.graph_op)):
        read = lowered.inputs[lowered.input_begin[op] : lowered.input_begin[op + 1]]
        found.append({int(lowered.producer[tensor]) for tensor in read})
    for op in range(len(lowered.graph_op)):
        for later in lowered.controls[lowered.control_begin[op] : lowered.control_begin[op + 1]]:
            found[int(later)].add(op)
    return found


def _of_groups(problem: Problem, device_of: NDArray[np.int32]) -> NDArray[np.int32]:
    """The devices, where ops that must share one are on that of the first of them."""
    first: dict[int, int] = {}
    group = problem.groups[0]
    return np.array([device_of[first.setdefault(int(group[op]), op)] for op in range(len(device_of))], np.int32)


def _in_turn(before: Sequence[set[int]], turn: Sequence[int]) -> list[int]:
    """The ops in order of their turns, each after those that it waits for."""
    after: list[list[int]] = [[] for _ in before]
    missing = [len(each) for each in before]
    for op, each in enumerate(before):
        for earlier in each:
            after[earlier].append(op)
    ready = [(turn[op], op) for op in range(len(before)) if not missing[op]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, op = heapq.heappop(ready)
        order.append(op)
        for later in after[op]:
            missing[later] -= 1
            if not missing[later]:
                heapq.heappush(ready, (turn[later], later))
    return order
