"""Planning again with what was measured in the run of a plan, until both agree.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from placewright.api.arguments import constraints
from placewright.api.beside_one_device import beside_first_device
from placewright.api.functions import plan as make_plan
from placewright.api.planned_graphs import GraphPlanner, PlannedGraph
from placewright.api.profiles import mode_name
from placewright.api.questions import Plan
from placewright.costs.measured import write_measured
from placewright.execution.comparison import CalibrationRound
from placewright.execution.pytorch.machine import cores_by_device
from placewright.execution.pytorch.profile import as_passes, unchanged
from placewright.execution.pytorch.run_times import machine_of_run, op_times_of_run
from placewright.execution.pytorch.step import TorchStep
from placewright.execution.workers import Workers
from placewright.graph import Graph
from placewright.machine import Machine
from placewright.machines.limits import memory_limits
from placewright.plans.retimed import retimed
from placewright.problem import make_problem

#: Plans after the first.
ROUNDS = 2
#: Planned and measured agree when they differ by no more than this share.
AGREEMENT = 0.03


def calibrate_graph(graph: PlannedGraph, values: Sequence[Any], planner: GraphPlanner, steps: int) -> None:
    """Gives a graph the best of its calibrated plans, compared with its first device, and what each round measured.

    values: of the graph's placeholders. steps: how many each plan is run.
    """
    devices, program = planner.devices, graph.program
    parameters, tensors = program.split(values)
    workers = Workers(cores_by_device(devices.machine)[:1])
    with planner.kept_times() as folder:
        name = mode_name(program.graph)
        try:
            for_one = partial(TorchStep, program, workers=workers, places=devices.places[:1])
            one = Calibration(graph.graph, for_one, parameters, tensors, folder / f"{name}-alone-run", {}, steps)
            graph.alone = one.retimed(one.run(graph.alone))
        finally:
            workers.close()
        for_all = partial(TorchStep, program, workers=devices.workers, places=devices.places)
        files = folder / f"{name}-run"
        every = Calibration(graph.graph, for_all, parameters, tensors, files, planner.options_beside(), steps)
        plan, graph.rounds = every.best(graph.plan)
    planner.run_by(graph, Plan.of(beside_first_device(plan, graph.alone)))


@dataclass(frozen=True, kw_only=True)
class _Ran:
    """A plan that was run: the measured step time, and the plan as simulated with the op times of the run."""

    plan: Plan
    measured_ns: int
    times: Path
    machine: Machine

    @property
    def agrees(self) -> bool:
        return abs(self.measured_ns / max(1, self.plan.step_time_ns) - 1) <= AGREEMENT


class Calibration:
    """Plans of one program, each made from the measurements of the run before it."""

    def __init__(
        self,
        graph: Graph,
        step_of: Callable[[Plan], TorchStep],
        parameters: Sequence[Any],
        tensors: Sequence[Any],
        files: Path,
        options: Mapping[str, Any],
        steps: int,
    ) -> None:
        """Calibrates one graph with its measured workspaces.

        step_of: makes the step that runs a plan. files: of op times, without the number of the run. options: as `plan`
        takes them.
        """
        self._graph = graph
        self._step_of = step_of
        self._parameters = parameters
        self._tensors = tensors
        self._files = files
        self._num_runs = 0
        self._options = options
        self._steps = steps

    def best(self, first: Plan) -> tuple[Plan, tuple[CalibrationRound, ...]]:
        """The plan with the fastest steps; its times are those that its own run measured, unless it agreed anyway."""
        ran = [self.run(first)]
        while len(ran) <= ROUNDS and not ran[-1].agrees:
            latest = ran[-1]
            again = make_plan(self._graph, latest.machine, measured=latest.times, **self._options)
            ran.append(self.run(again))
        kept = min(ran, key=lambda each: each.measured_ns)
        rounds = tuple(
            CalibrationRound(
                planned_ns=each.plan.step_time_ns,
                measured_ns=each.measured_ns,
                link_latency_ns=each.plan.machine.links[0][1].latency_ns if each.plan.machine.num_devices > 1 else None,
                kept=each is kept,
            )
            for each in ran
        )
        return kept.plan if kept.agrees else self.retimed(kept), rounds

    def run(self, plan: Plan) -> _Ran:
        """Runs a plan, and keeps the times of its ops and links."""
        step = self._step_of(plan)
        taken = []
        with unchanged(step.overwritten(self._parameters, self._tensors), places=step.places):
            for _ in range(self._steps + 1):
                began = time.perf_counter_ns()
                step.run(self._parameters, self._tensors)
                taken.append(time.perf_counter_ns() - began)
            passes = as_passes(step.timed(self._parameters, self._tensors, self._steps))
        self._num_runs += 1
        times = self._files.with_name(f"{self._files.name}-{self._num_runs}.csv")
        write_measured(times, op_times_of_run(plan, self._graph, passes), plan.machine.devices[0].kind)
        return _Ran(
            plan=plan,
            measured_ns=int(median(taken[1:])),
            times=times,
            machine=machine_of_run(plan, self._graph, passes),
        )

    def retimed(self, ran: _Ran) -> Plan:
        """The plan with the op times and links of its own run."""
        options = self._options
        problem = make_problem(
            self._graph,
            ran.machine,
            objective=ran.plan.objective,
            control=ran.plan.control,
            memory_limit=memory_limits(options.get("memory_limit"), ran.machine),
            constraints=constraints(options.get("pins"), options.get("forbids"), options.get("colocate", ())),
            measured=ran.times,
        )
        configuration = {**ran.plan.configuration, "measured": str(ran.times)}
        return Plan.of(retimed(replace(ran.plan, machine=ran.machine, configuration=configuration), problem))
