"""A problem and a measure for tests of learned placers."""

from __future__ import annotations

from typing import Any

import numpy as np
from instances import graph_of, machine_of, problem_of

from placewright.lab.learning.environments.first_come import FirstComeEnvironment
from placewright.lab.learning.placers.colocation import units_of
from placewright.lab.learning.placers.placer import LearnedPlacer, Task
from placewright.machine import Link
from placewright.problem import Problem
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun


def columns(count: int = 6, latency_ns: int = 20, **rest: Any) -> Problem:
    """Return `count` chains of three ops of 10 ns; two devices that share the chains take half the time of one."""
    ops: dict[str, tuple[str, int]] = {}
    for chain in range(count):
        ops |= {f"a{chain}": ("", 4), f"b{chain}": (f"a{chain}", 4), f"c{chain}": (f"b{chain}", 4)}
    return problem_of(graph_of(ops), machine_of(2, Link(latency_ns=latency_ns)), 10, **rest)


def solved(method: LearnedPlacer, problem: Problem, evaluations: int, seed: int = 0) -> int:
    result = method.solve(problem, SearchRun(Budget(evaluations=evaluations), seed=seed))
    assert result.evaluations == evaluations
    return result.metrics.step_time_ns


def task_of(problem: Problem, rules: tuple[str, ...] = (), seed: int = 0) -> Task:
    return Task(problem=problem, units=units_of(problem, rules), seed=seed, evaluations=1000)


def costs_of_proposals(method: LearnedPlacer, problem: Problem, steps: int) -> list[float]:
    """Return the mean cost of the proposals, step by step; one device counts 1."""
    environment, task = FirstComeEnvironment(problem), task_of(problem)
    environment.reference = float(environment.measure(np.zeros((1, problem.core.num_ops), np.int32)).objective[0])
    learner = method.proposals(task)
    devices, costs = next(learner), []
    for _ in range(steps):
        trials = environment.measure(task.units.placements(devices))
        costs.append(float(trials.cost.mean()))
        devices = learner.send(trials)
    learner.close()
    return costs
