"""The reference that rows of an objective are compared with, and the format of the objective's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import get_args

from placewright.lab.bench.solver_setting import SolverSetting
from placewright.lab.memory_levels.compilers import BASELINE
from placewright.lab.memory_levels.solvers.exact import TOLERANCE
from placewright.lab.memory_levels.words import format_ps
from placewright.problem.objective import Objective, format_objective
from placewright.support.errors import InputError, shown

#: The objective of maps, in ps; the objectives of placements have the same names as in a problem.
LATENCY = "latency"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The reference of an objective, and the format of its values.

    reference, reference_name: what improvements are measured against, and its name for readers. write: formats a value
    with its unit. tolerance: of the solver that proves bounds; a value at most this share above its bound is optimal.
    """

    reference: SolverSetting
    reference_name: str
    write: Callable[[int], str]
    tolerance: float = 0.0

    def is_optimal(self, value: float, bound: float) -> bool:
        return value <= bound * (1 + self.tolerance)


_BRKGA_5K = SolverSetting("brkga", 5000)
#: By objective, as headers of results name it; the reference of placements as in REGAL 5.3.
MEASURES: Mapping[str, Measure] = {
    name: Measure(reference=_BRKGA_5K, reference_name="BRKGA 5K", write=partial(format_objective, name))
    for name in get_args(Objective)
} | {LATENCY: Measure(reference=SolverSetting(BASELINE), reference_name=BASELINE, write=format_ps, tolerance=TOLERANCE)}


def measure_of(objective: str) -> Measure:
    """Return the measure of an objective. Raises InputError for one that this placewright does not know."""
    if objective not in MEASURES:
        raise InputError(f"the objective '{shown(objective)}' is none of {', '.join(MEASURES)}")
    return MEASURES[objective]
