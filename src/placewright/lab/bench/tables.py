"""The paper's tables 1 and 3 with our figures next to its own, as columns that can be written in several formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from placewright.lab.bench.columns import BenchTable, Column
from placewright.lab.bench.paper import paper_row
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.bench.summaries import Summary, num_proven
from placewright.support.quantities import counted, format_time_ns


def table_1(results: ResultSet, found: Sequence[Summary]) -> BenchTable[Summary]:
    """Return quality: improvement over the reference, gaps from the best known and from the bound, time."""
    columns = [CONTESTANT, _GRAPHS]
    if any(summary.entry.trained for summary in found):
        columns.insert(1, _TRAINED)
    if any(summary.entry.num_infeasible for summary in found):
        columns.append(_INFEASIBLE)
    columns += [_improvement(results), *_paper_columns(results)[:1], _GAP_BEST, *_paper_columns(results)[1:], GAP_BOUND]
    columns += [_matched(results), *extremes("improvement", spare=5), MS, _CODE]
    notes = [
        *_reference_notes(results, found),
        f"Proven optimal: the best known on {_of_graphs(num_proven(results), results)}.",
    ]
    return BenchTable(
        name="table-1",
        title="Table 1: quality",
        results=results,
        columns=tuple(columns),
        rows=tuple(found),
        notes=tuple(notes),
    )


def table_3(results: ResultSet, found: Sequence[Summary]) -> BenchTable[Summary]:
    """Return seconds per graph, for graphs that are not noisy copies."""
    columns = [CONTESTANT, _UNAUGMENTED, _MEAN_SECONDS, _MEDIAN_SECONDS]
    if results.header.paper:
        columns.append(_PAPER_SECONDS)
    return BenchTable(
        name="table-3",
        title="Table 3: time per graph",
        results=results,
        columns=tuple(columns),
        rows=tuple(found),
    )


def _of_graphs(count: int, results: ResultSet) -> str:
    return f"{count:,} of {len({row.graph for row in results.rows}):,} graphs"


def _reference_notes(results: ResultSet, found: Sequence[Summary]) -> list[str]:
    """Return notes on a reference that did not run on all graphs."""
    name = results.measure.reference_name
    reference = next((summary for summary in found if summary.setting == results.measure.reference), None)
    if reference is None or not reference.entry.value:
        return [f"No improvements: {name}, which they are measured against, is not among these results."]
    missing = {graph for summary in found for graph in summary.entry.value} - set(reference.entry.value)
    if missing:
        return [f"Improvements leave out {counted(len(missing), 'graph')} on which there is nothing of {name}."]
    return []


def _paper_columns(results: ResultSet) -> list[Column[Summary]]:
    """Return the paper's improvement and gap on this test set; none where it has no such set."""
    name = results.header.paper
    if not name:
        return []

    def improvement(summary: Summary) -> float | None:
        row = paper_row(summary.setting)
        return None if row is None else row.improvement[name]

    def gap(summary: Summary) -> float | None:
        row = paper_row(summary.setting)
        return None if row is None else row.gap_best[name]

    where = f"the paper's figure on its {name} test set (table 1; CP-SAT there ran for up to 24 hours)"
    return [
        Column(
            name="paper_improvement_percent",
            heading="paper",
            meaning=where,
            value=improvement,
            show=_as_printed,
            spare=2,
        ),
        Column(name="paper_gap_best_percent", heading="paper", meaning=where, value=gap, show=_as_printed, spare=4),
    ]


def _as_printed(percent: float | None) -> str:
    """Format a percentage as the paper prints it."""
    return "" if percent is None else f"{percent:.2f}"


def _time(seconds: float | None) -> str:
    """Format a time; rows keep whole microseconds, and some systems measure in steps of milliseconds."""
    if seconds is None:
        return ""
    return format_time_ns(round(seconds * 1e9)) if seconds >= 1e-6 else "under 1 us"


def _paper_seconds(summary: Summary) -> str:
    row = paper_row(summary.setting)
    return "" if row is None else row.seconds


def _unaugmented(summary: Summary, index: int) -> float | None:
    seconds = summary.unaugmented_seconds()
    return None if seconds is None else seconds[index]


def _improvement(results: ResultSet) -> Column[Summary]:
    name = results.measure.reference_name
    return Column(
        name="improvement_percent",
        heading=f"% vs {name}",
        meaning=f"100 * (1 - objective / mean objective of {name} over its seeds); higher is better",
        value=lambda summary: summary.mean_improvement,
        sign="+",
    )


def _matched(results: ResultSet) -> Column[Summary]:
    return Column(
        name="matched_percent",
        heading="% ≥",
        meaning=f"share of the graphs on which it is at least as good as {results.measure.reference_name}",
        value=lambda summary: summary.percent_matched,
        spare=3,
    )


def extremes(what: Literal["improvement", "gain"], spare: int) -> list[Column[Summary]]:
    """Return the columns of a solver's best and worst graph."""

    def column(most: str, end: str, pick: Callable[..., float | None]) -> Column[Summary]:
        return Column(
            name=f"{most}_{what}_percent",
            heading=f"{end} graph",
            meaning=f"its {most} {what} on a graph",
            value=lambda summary: pick(getattr(summary, what).values(), default=None),
            sign="+",
            spare=spare,
        )

    return [column("highest", "best", max), column("lowest", "worst", min)]


CONTESTANT = Column[Summary](
    name="setting",
    heading="solver",
    meaning="the method and its limit, in evaluations (K: thousands) or seconds",
    value=lambda summary: summary.setting.label,
)
_GRAPHS = Column[Summary](
    name="graphs",
    heading="graphs",
    meaning="how many of the graphs, noisy copies included, it has a feasible plan of; it is compared on those only",
    value=lambda summary: len(summary.entry.value),
)
_INFEASIBLE = Column[Summary](
    name="infeasible_plans",
    heading="infeasible",
    meaning="its plans over the memory limits, which have no objective and are left out of every mean",
    value=lambda summary: summary.entry.num_infeasible,
)
_GAP_BEST = Column[Summary](
    name="gap_best_percent",
    heading="% gap best",
    meaning="100 * (objective / best - 1), best: the least objective of any solver and seed here; lower is better",
    value=lambda summary: summary.mean(summary.gap_best),
    spare=1,
)
GAP_BOUND = Column[Summary](
    name="gap_bound_percent",
    heading="% gap bound",
    meaning="100 * (objective / bound - 1), bound: the largest lower bound that any solver proved; lower is better",
    value=lambda summary: summary.mean(summary.gap_bound),
)
MS = Column[Summary](
    name="ms_per_graph",
    heading="ms",
    meaning="mean processor time per graph in milliseconds, of the method alone, on one thread",
    value=lambda summary: 1000 * summary.seconds,
)
_TRAINED = Column[Summary](
    name="trained",
    heading="trained by",
    meaning="how the policy that guides it was trained, by the policy's own record",
    value=lambda summary: summary.entry.trained,
    spare=6,
)
_CODE = Column[Summary](
    name="code",
    heading="code",
    meaning="digest of what the method does with some small problems; unknown: of rows that do not say what made them",
    value=lambda summary: summary.entry.code,
    spare=7,
)
_UNAUGMENTED = Column[Summary](
    name="graphs",
    heading="graphs",
    meaning="how many graphs it ran on, noisy copies left out as in the paper",
    value=lambda summary: sum(not summary.results.is_copy(graph) for graph in summary.entry.seconds),
)
_MEAN_SECONDS = Column[Summary](
    name="mean_seconds",
    heading="mean",
    meaning="mean processor time per graph, of the method alone, on one thread",
    value=lambda summary: _unaugmented(summary, 0),
    show=_time,
)
_MEDIAN_SECONDS = Column[Summary](
    name="median_seconds",
    heading="median",
    meaning="median processor time per graph",
    value=lambda summary: _unaugmented(summary, 1),
    show=_time,
)
_PAPER_SECONDS = Column[Summary](
    name="paper_mean_seconds",
    heading="paper, TF peak memory",
    meaning="the paper's mean on its TF peak memory test set, on an Intel Xeon E5-1650 3.60GHz (table 3)",
    value=_paper_seconds,
)
