"""Results that REGAL's paper reports (Paliwal et al., ICLR 2020), tables 1 and 3, to compare with our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placewright.lab.bench.solver_setting import SolverSetting
from placewright.support.errors import InputError, did_you_mean, shown

#: The test sets of table 1, by the names that suites give in `paper`.
COLUMNS = ("tf-runtime", "tf-peak-memory", "synthetic-runtime")
_EVALUATIONS = 5000


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """One method in the paper. limited: it had the 5,000 evaluations that all but GP + DFS and CP-SAT had.

    improvement, gap_best: percent over BRKGA 5K and from the best known, by test set. seconds: table 3, as printed.
    """

    name: str
    solver: str
    limited: bool
    improvement: Mapping[str, float]
    gap_best: Mapping[str, float]
    seconds: str

    def covers(self, setting: SolverSetting) -> bool:
        """True if the setting runs this method of the paper under the same limit; GP + DFS and CP-SAT match under any
        limit."""
        if setting.solver != self.solver:
            return False
        own = (setting.evaluations_limit, setting.time_limit_s)
        return not self.limited or own == (_EVALUATIONS, None)


def _row(
    name: str, solver: str, figures: tuple[float, float, float, float, float, float], seconds: str, limited: bool = True
) -> PaperRow:
    """Make a row from the figures in the order of table 1: improvement and gap, test set by test set."""
    return PaperRow(
        name=name,
        solver=solver,
        limited=limited,
        improvement=dict(zip(COLUMNS, figures[0::2], strict=True)),
        gap_best=dict(zip(COLUMNS, figures[1::2], strict=True)),
        seconds=seconds,
    )


#: In the paper's order.
PAPER_ROWS: tuple[PaperRow, ...] = (
    _row("CP-SAT 24hr", "cp-sat", (15.85, 1.00, -1.48, 8.06, 19.50, 0.00), "~2 hours", limited=False),
    _row("GP + DFS", "gp-dfs", (-37.32, 66.98, -6.51, 14.77, -55.8, 93.66), "144 sec", limited=False),
    _row("Local Search", "local-search", (-1.66, 22.63, 0.63, 7.24, 0.08, 24.60), "122 sec"),
    _row("BRKGA 5K", "brkga", (0.00, 20.19, 0.00, 7.98, 0.00, 24.63), "0.89 sec"),
    _row("Tuned BRKGA", "tuned-brkga", (3.20, 16.40, 0.80, 7.11, 3.11, 20.76), "1.04 sec"),
    _row("GAS", "gas", (3.79, 15.24, 0.16, 7.67, 0.80, 23.48), "1.04 sec"),
    _row("IDRS", "idrs", (-6.87, 28.60, -3.16, 12.39, -12.12, 39.72), ""),
    _row("REGAL", "regal", (7.09, 11.04, 3.56, 4.44, 4.81, 18.57), "1.04 sec"),
)
NOT_IN_PAPER = len(PAPER_ROWS)


def paper_row(setting: SolverSetting) -> PaperRow | None:
    """Return the paper's method that the setting corresponds to; None where there is none."""
    return next((row for row in PAPER_ROWS if row.covers(setting)), None)


def paper_position(setting: SolverSetting, reference: SolverSetting) -> int:
    """Return the method's position in the paper's order, or NOT_IN_PAPER, which comes last; always NOT_IN_PAPER where
    the reference is not the paper's BRKGA."""
    row = paper_row(setting) if paper_row(reference) else None
    return NOT_IN_PAPER if row is None else PAPER_ROWS.index(row)


def check_column(column: str) -> None:
    """Raise InputError for a test set that the paper's table 1 does not have; "" means none."""
    if column and column not in COLUMNS:
        raise InputError(f"the paper has no test set '{shown(column)}'{did_you_mean(column, COLUMNS)}")
