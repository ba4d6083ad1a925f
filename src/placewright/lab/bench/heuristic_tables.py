"""Tables that the paper does not have: comparison with the best of all heuristics, and by limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from placewright.lab.bench.columns import BenchTable, Column, Value
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.bench.solver_setting import SolverSetting
from placewright.lab.bench.summaries import Summary, best_heuristic
from placewright.lab.bench.tables import CONTESTANT, GAP_BOUND, MS, extremes

NO_HEURISTIC = "no heuristic, such as single-device or etf, is among these results"


def heuristics_table(results: ResultSet, found: Sequence[Summary]) -> BenchTable[Summary] | str:
    """Return gain over the best heuristic of each graph, share of one device, plans within the limits and optimal
    ones."""
    best = best_heuristic(results)
    if best is None:
        return NO_HEURISTIC
    columns = [CONTESTANT, _FEASIBLE, _GAIN, *extremes("gain", spare=4)]
    if any(summary.share for summary in (best, *found)):
        columns.append(_SHARE)
    return BenchTable(
        name="table-heuristics",
        title="Beside the best of all heuristics",
        results=results,
        columns=(*columns, GAP_BOUND, _OPTIMAL, MS),
        rows=(best, *sorted(found, key=by_gain)),
        notes=tuple(_heuristics_notes(results, found)),
    )


def _heuristics_notes(results: ResultSet, found: Sequence[Summary]) -> list[str]:
    names = sorted(summary.setting.solver for summary in found if summary.setting.is_heuristic)
    notes = [f"The best heuristic of each graph is taken of {', '.join(names)}; its time is that of all of them."]
    graphs = {row.graph for row in results.rows}
    feasible = {graph for summary in found for graph in summary.entry.value}
    if feasible != graphs:
        notes.append(f"Some solver found a feasible plan on {len(feasible):,} of {len(graphs):,} graphs.")
    return notes


def limits_table(results: ResultSet, found: Sequence[Summary]) -> BenchTable[str] | str:
    """Return solvers by their limits, in evaluations and in seconds; a sentence where no solver ran under two."""
    by_solver: dict[str, dict[str, Summary]] = {}
    for summary in sorted(found, key=lambda summary: _by_limit(summary.setting)):
        if not summary.setting.is_heuristic:
            by_solver.setdefault(summary.setting.solver, {})[summary.setting.limit] = summary
    if all(len(own) < 2 for own in by_solver.values()):
        return "no solver ran under several limits"
    limits = {s.setting.limit: s.setting for own in by_solver.values() for s in own.values()}

    def column(limit: str) -> Column[str]:
        def value(solver: str) -> Value:
            summary = by_solver[solver].get(limit)
            return None if summary is None else summary.mean(summary.gap_best)

        meaning = "mean of 100 * (objective / best - 1) under that limit, in evaluations (K: thousands) or seconds"
        return Column(name=f"gap_best_percent_{limit.replace(' ', '')}", heading=limit, meaning=meaning, value=value)

    solver = Column[str](name="solver", heading="solver", meaning="the method", value=lambda solver: solver)
    return BenchTable(
        name="table-limits",
        title="% gap best, by limit",
        results=results,
        columns=(solver, *(column(limit) for limit in sorted(limits, key=lambda limit: _by_limit(limits[limit])))),
        rows=tuple(sorted(by_solver)),
    )


def by_gain(summary: Summary) -> float:
    """Sort key: the largest gain over the best heuristic comes first."""
    return -fmean(summary.gain.values()) if summary.gain else float("inf")


def _by_limit(setting: SolverSetting) -> tuple[float, float]:
    """Sort key: evaluations before seconds, both ascending."""
    return setting.time_limit_s or 0.0, setting.evaluations_limit or 0.0


def _of_graphs(count: Callable[[Summary], int]) -> Callable[[Summary], str]:
    """Write "3 of 9": a count out of the graphs that the solver ran on."""
    return lambda summary: f"{count(summary):,} of {len(summary.entry.seconds):,}"


_FEASIBLE = Column[Summary](
    name="feasible",
    heading="feasible",
    meaning="on how many of the graphs it ran on it has a plan within the memory limits",
    value=_of_graphs(lambda summary: len(summary.entry.value)),
    spare=2,
)
_GAIN = Column[Summary](
    name="gain_percent",
    heading="% over H",
    meaning="100 * (1 - objective / objective of the best heuristic of that graph); higher is better",
    value=lambda summary: summary.mean(summary.gain),
    sign="+",
)
_SHARE = Column[Summary](
    name="share_percent",
    heading="% of one device",
    meaning="100 * objective / objective of one device, which may be over the memory limits; lower is better",
    value=lambda summary: summary.mean(summary.share),
    spare=3,
)
_OPTIMAL = Column[Summary](
    name="optimal",
    heading="optimal",
    meaning="on how many of the graphs it ran on it reaches the largest bound, so that its plan is proven optimal",
    value=_of_graphs(lambda summary: summary.num_optimal),
    spare=3,
)
