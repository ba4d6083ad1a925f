"""Plans of all methods for random problems, by the thousand, against the checker."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from lab.learning.networks import SMALL, random_policy
from strategies import problems, tight_problems

from placewright.lab.methods import GUIDED
from placewright.methods.table import METHODS
from placewright.plans.assemble import assemble_plan
from placewright.problem import Problem
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.verification.checker import check_plan

#: Plans in all; a million take hours.
PLANS = int(os.environ.get("PLACEWRIGHT_PLANS", "20000"))


def plan_problems(name: str, problem: Problem, evaluations: int) -> list[str]:
    """Return the problems that the checker finds in the method's plan."""
    method = METHODS[name]
    if name in GUIDED:
        own = replace(SMALL, objective=problem.objective, num_devices=problem.machine.num_devices)
        method = replace(GUIDED[name], policy=random_policy(replace(own, network=GUIDED[name].network)))
        evaluations += 400
    result = method.solve(problem, SearchRun(Budget(evaluations=evaluations), seed=evaluations))
    plan = assemble_plan(problem, result, solver=name, seconds=1.0)
    return check_plan(plan, problem.graph, problem.time_ns)


@pytest.mark.long
def test_no_plan_of_any_method_is_refused_by_the_checker() -> None:
    made: Counter[str] = Counter()

    @settings(
        max_examples=max(1, PLANS // len(METHODS)),
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(problem=problems() | tight_problems())
    def all_methods(problem: Problem) -> None:
        for name in METHODS:
            evaluations = 20 + sum(made.values()) % 100
            complaints = plan_problems(name, problem, evaluations)
            assert complaints == [], f"{name} with {evaluations} evaluations on {problem}"
            made[name] += 1

    all_methods()
    assert min(made.values()) >= min(100, PLANS // len(METHODS))
