"""The contestants in a comparison: solvers under their limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath

from placewright.lab.bench.rows import Row


@dataclass(frozen=True, slots=True)
class SolverSetting:
    """A solver under its limits; None where it had none."""

    solver: str
    evaluations_limit: int | None = None
    time_limit_s: float | None = None

    @property
    def label(self) -> str:
        """The label, such as "brkga 5K", "cp-sat 60 s" or "etf"."""
        return " ".join(part for part in (self.solver, self.limit) if part)

    @property
    def short_label(self) -> str:
        """The label for little space: for a policy in a file, its name, or that of its training's folder."""
        name, colon, policy = self.solver.partition(":")
        path = PurePath(policy)
        if path.suffix == ".safetensors":
            policy = path.parent.name if path.stem == "best" and path.parent.name else path.stem
        return replace(self, solver=f"{name}{colon}{policy}").label

    @property
    def is_heuristic(self) -> bool:
        """True if the solver had no limit: a method that builds a few plans and is done."""
        return self.evaluations_limit is None and self.time_limit_s is None

    @property
    def limit(self) -> str:
        """The limit, such as "5K" or "60 s"; "" without one."""
        parts = []
        if self.evaluations_limit is not None:
            parts.append(format_evaluations(self.evaluations_limit))
        if self.time_limit_s is not None:
            parts.append(f"{self.time_limit_s:g} s")
        return " ".join(parts)


#: Represents whichever heuristic is best on a graph.
BEST_HEURISTIC = SolverSetting("best heuristic")
#: Everything on one device, in the best of the simple orders.
ONE_DEVICE = SolverSetting("single-device")


def setting_of(row: Row) -> SolverSetting:
    return SolverSetting(row.solver, row.evaluations_limit, row.time_limit_s)


def format_evaluations(count: int) -> str:
    """A number of evaluations as the paper writes it: "400", "5K", "1.5M"."""
    for factor, unit in ((10**6, "M"), (10**3, "K")):
        if count >= factor:
            return f"{count / factor:.6g}{unit}"
    return str(count)
