"""Placements that a solver tries, run on CPU devices of this host: `compile(..., measure_placements=True)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Any

from placewright.execution.comparison import times_in_turn
from placewright.execution.pytorch.profile import unchanged
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.pytorch.step import TorchStep
from placewright.execution.workers import Workers
from placewright.methods.table import ENTRIES
from placewright.plans.assemble import assemble_plan
from placewright.problem import Problem
from placewright.search.run.result import Solution
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError, shown
from placewright.support.modules import load_extensions

#: Steps of a placement; the first does not count (Mirhoseini et al. 2017, section 4.2).
STEPS = 10


def check_solver(name: str) -> None:
    """Raises InputError unless the solver tries placements."""
    load_extensions()
    known = [name for name, entry in ENTRIES.items() if entry.tries_placements]
    if name not in known:
        listed = ", ".join(known)
        raise InputError(f"solver '{shown(name)}' tries no placements that could be measured; these do: {listed}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Runner:
    """Runs placements of one program with one set of arguments."""

    program: TorchProgram
    parameters: Sequence[Any]
    tensors: Sequence[Any]
    workers: Workers

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of `plan` with `time_of`, so that its solver learns from measured times."""
        return {**options, "settings": {**(options.get("settings") or {}), "time_of": self.time_of}}

    def time_of(self, problem: Problem, solution: Solution) -> int:
        """The mean of all steps but the first, in ns."""
        result = SearchRun().result(problem, "placement", solution)
        step = TorchStep(self.program, assemble_plan(problem, result, solver="placement", seconds=0.0), self.workers)
        with unchanged(step.overwritten(self.parameters, self.tensors)):
            (taken,) = times_in_turn([partial(step.run, self.parameters, self.tensors)], STEPS - 1)
        return round(mean(taken))
