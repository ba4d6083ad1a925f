"""`auto` with some of its baselines, which scripts beside this one compare."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.problem import Problem
from placewright.search import portfolio
from placewright.search.auto import Auto
from placewright.search.constructive.baseline import Baseline
from placewright.search.constructive.baselines import BASELINES
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.search_run import SearchRun


def step_time_ns(problem: Problem, baselines: Sequence[Baseline], seconds: float, seed: int) -> int:
    """Of `auto` within the limit, with these baselines alone before its search."""
    names = vars(portfolio)
    names["BASELINES"] = tuple(baselines)
    try:
        run = SearchRun(Budget(evaluations=UNLIMITED, seconds=seconds), seed=seed)
        return Auto().solve(problem, run).metrics.step_time_ns
    finally:
        names["BASELINES"] = BASELINES
