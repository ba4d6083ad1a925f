"""Summaries of each solver's results by graph, and comparisons between solvers (REGAL 5.3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

from placewright.lab.bench.paper import NOT_IN_PAPER, paper_position
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.bench.rows import Row
from placewright.lab.bench.solver_setting import (
    BEST_HEURISTIC,
    ONE_DEVICE,
    SolverSetting,
    setting_of,
)
from placewright.lab.statistics import Mean, clustered_mean
from placewright.support.errors import InputError, shown
from placewright.support.quantities import counted


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The results of one solver under one limit, by graph.

    value: mean objective over the seeds whose plan is feasible; graphs without any are left out. seconds: mean over all
    seeds. num_infeasible: plans over the memory limits, which have no objective. code: that made all of its rows.
    trained: the training of the policy that guided it.
    """

    setting: SolverSetting
    value: Mapping[str, float]
    seconds: Mapping[str, float]
    num_infeasible: int
    code: str = ""
    trained: str = ""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One solver under one limit, compared with the others. All in percent, by graph; empty where there is nothing to
    compare with.

    improvement: over the mean of the reference. gap_best: from the least objective that any solver reached. gap_bound:
    from the largest bound that any solver proved. gain: over the best heuristic of each graph. share: of the objective
    on one device, which may be over the memory limits.
    """

    results: ResultSet
    entry: Entry
    improvement: Mapping[str, float]
    gap_best: Mapping[str, float]
    gap_bound: Mapping[str, float]
    gain: Mapping[str, float]
    share: Mapping[str, float]

    @property
    def setting(self) -> SolverSetting:
        return self.entry.setting

    def mean(self, values: Mapping[str, float]) -> Mean | None:
        """Return the mean with its confidence interval, clustered by topology."""
        return clustered_mean(values, self.results.topology_of)

    @cached_property
    def mean_improvement(self) -> Mean | None:
        return self.mean(self.improvement)

    @property
    def num_optimal(self) -> int:
        """The number of graphs on which the solver reaches the largest bound."""
        return sum(gap <= 100 * self.results.measure.tolerance for gap in self.gap_bound.values())

    @property
    def percent_matched(self) -> float | None:
        """Percentage of the graphs on which it is at least as good as the reference."""
        if not self.improvement:
            return None
        return 100 * sum(value >= 0 for value in self.improvement.values()) / len(self.improvement)

    @property
    def seconds(self) -> float:
        """Mean over all graphs."""
        return fmean(self.entry.seconds.values())

    def unaugmented_seconds(self) -> tuple[float, float] | None:
        """Return mean and median seconds over the graphs that are not noisy copies."""
        chosen = [value for graph, value in self.entry.seconds.items() if not self.results.is_copy(graph)]
        return (fmean(chosen), median(chosen)) if chosen else None


def summaries(results: ResultSet) -> list[Summary]:
    """Return the paper's methods in the paper's order, then the others by improvement, the best first.

    Raises InputError when a row contradicts a bound that another one proves, or rows of one solver under one limit were
    made by different code.
    """
    entries = _entries(results.rows)
    bases = _bases(results, entries)
    return sorted((_standing(results, entry, bases) for entry in entries), key=_sequence)


def best_heuristic(results: ResultSet) -> Summary | None:
    """Return the summary of BEST_HEURISTIC, which takes as long as all heuristics together; None where none ran."""
    entries = _entries(results.rows)
    heuristics = [entry for entry in entries if entry.setting.is_heuristic]
    if not heuristics:
        return None
    bases = _bases(results, entries)
    seconds: dict[str, float] = defaultdict(float)
    for entry in heuristics:
        for graph, own in entry.seconds.items():
            seconds[graph] += own
    return _standing(
        results, Entry(setting=BEST_HEURISTIC, value=bases.heuristic, seconds=seconds, num_infeasible=0), bases
    )


@dataclass(frozen=True, kw_only=True)
class _Bases:
    """The objectives that a summary compares with, by graph."""

    reference: Mapping[str, float]
    best: Mapping[str, float]
    bound: Mapping[str, float]
    heuristic: Mapping[str, float]
    one_device: Mapping[str, float]


def _bases(results: ResultSet, entries: Sequence[Entry]) -> _Bases:
    best, bound = _best_and_bound(results.rows)
    heuristic: dict[str, float] = {}
    for entry in entries:
        for graph, value in entry.value.items() if entry.setting.is_heuristic else ():
            heuristic[graph] = min(value, heuristic.get(graph, value))
    return _Bases(
        reference=next((entry.value for entry in entries if entry.setting == results.measure.reference), {}),
        best=best,
        bound=bound,
        heuristic=heuristic,
        one_device={row.graph: row.objective for row in results.rows if setting_of(row) == ONE_DEVICE},
    )


def _standing(results: ResultSet, entry: Entry, bases: _Bases) -> Summary:
    return Summary(
        results=results,
        entry=entry,
        improvement=_over(entry.value, bases.reference, sign=-1),
        gap_best=_over(entry.value, bases.best),
        gap_bound=_over(entry.value, bases.bound),
        gain=_over(entry.value, bases.heuristic, sign=-1),
        share={graph: 100 + over for graph, over in _over(entry.value, bases.one_device).items()},
    )


def num_proven(results: ResultSet) -> int:
    """Count graphs whose best known objective is proven optimal: it equals the largest bound."""
    best, bound = _best_and_bound(results.rows)
    return sum(results.measure.is_optimal(best[graph], bound[graph]) for graph in best)


def _best_and_bound(rows: Iterable[Row]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the least objective of a feasible plan and the largest bound by graph, checked against each other."""
    best: dict[str, Row] = {}
    bound: dict[str, Row] = {}
    for row in rows:
        if row.bytes_over_limit == 0 and (row.graph not in best or row.objective < best[row.graph].objective):
            best[row.graph] = row
        if row.graph not in bound or row.bound > bound[row.graph].bound:
            bound[row.graph] = row
    for graph, row in best.items():
        _check(row, bound[graph])
    return {g: row.objective for g, row in best.items()}, {g: row.bound for g, row in bound.items()}


def _check(best: Row, bound: Row) -> None:
    if best.objective < bound.bound:
        raise InputError(
            f"impossible results on '{shown(best.graph)}': {shown(setting_of(best).label)} with seed {best.seed}"
            f" reached {best.objective:,}, below the lower bound {bound.bound:,} that"
            f" {shown(setting_of(bound).label)} with seed {bound.seed} proves; one of the two is wrong"
        )


def _entries(rows: Iterable[Row]) -> list[Entry]:
    by_setting: dict[SolverSetting, list[Row]] = defaultdict(list)
    for row in rows:
        by_setting[setting_of(row)].append(row)
    return [_entry(setting, own) for setting, own in by_setting.items()]


def _entry(setting: SolverSetting, rows: Sequence[Row]) -> Entry:
    values: dict[str, list[int]] = defaultdict(list)
    seconds: dict[str, list[float]] = defaultdict(list)
    num_infeasible = 0
    for row in rows:
        seconds[row.graph].append(row.seconds)
        if row.bytes_over_limit:
            num_infeasible += 1
        else:
            values[row.graph].append(row.objective)
    return Entry(
        setting=setting,
        value={graph: sum(own) / len(own) for graph, own in values.items()},
        seconds={graph: fmean(own) for graph, own in seconds.items()},
        num_infeasible=num_infeasible,
        code=_code_of(setting, rows),
        trained=", ".join(sorted({row.trained for row in rows} - {""})),
    )


def _code_of(setting: SolverSetting, rows: Iterable[Row]) -> str:
    """Return the code of the rows. Raises InputError for several codes: a mean over them would describe none of
    them."""
    count = Counter(row.code for row in rows)
    if len(count) > 1:
        told = " and ".join(f"{counted(number, 'row')} of {shown(code)}" for code, number in count.items())
        raise InputError(
            f"rows of '{shown(setting.label)}' were made by different code: {told}; `bench run` with the same options"
            " makes them alike, or leave out the folder with the older ones"
        )
    return next(iter(count))


def _over(values: Mapping[str, float], base: Mapping[str, float], sign: int = 1) -> dict[str, float]:
    """Return by how many percent the values are above the base (sign -1: below), where the base is there and above
    0."""
    return {
        graph: sign * 100 * (value - base[graph]) / base[graph]
        for graph, value in values.items()
        if base.get(graph, 0) > 0
    }


def _sequence(summary: Summary) -> tuple[int, float, float, str]:
    """Sort key: the paper's methods by their position there and their limits, the others by improvement, or else by
    their gap."""
    setting, position = summary.setting, paper_position(summary.setting, summary.results.measure.reference)
    if position < NOT_IN_PAPER:
        return position, setting.time_limit_s or 0.0, setting.evaluations_limit or 0.0, setting.label
    mean, gap = summary.mean_improvement, summary.mean(summary.gap_best)
    key = (float("inf") if mean is None else -mean.value, float("inf") if gap is None else gap.value)
    return position, *key, setting.label
