"""Tables with one line per graph: placements as shares of the objective on one device, maps as speed-ups over a
compiler's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from placewright.lab.bench.columns import BenchTable, Column
from placewright.lab.bench.heuristic_tables import NO_HEURISTIC, by_gain
from placewright.lab.bench.measure import LATENCY
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.bench.solver_setting import SolverSetting, setting_of
from placewright.lab.bench.summaries import Summary, best_heuristic

#: A result set with more graphs gets no such table.
_MAX_LINES = 100
_MAX_SEARCHES = 6


def graphs_table(results: ResultSet, found: Sequence[Summary]) -> BenchTable[str] | str:
    """Return the table of single graphs; a sentence where there are too many, or nothing to compare with."""
    num_graphs = len(_num_ops(results))
    if num_graphs > _MAX_LINES:
        return f"it is for up to {_MAX_LINES} graphs, and these are {num_graphs:,}"
    return _TABLES.get(results.header.objective, _shares_table)(results, found)


def _num_ops(results: ResultSet) -> dict[str, int]:
    return {row.graph: row.num_ops for row in results.rows}


def _graph_columns(num_ops: Mapping[str, int]) -> list[Column[str]]:
    return [
        Column(name="graph", heading="graph", meaning="its label in the suite", value=lambda graph: graph),
        Column(name="ops", heading="ops", meaning="to schedule", value=num_ops.__getitem__, spare=1),
    ]


def _speedups_table(results: ResultSet, found: Sequence[Summary]) -> BenchTable[str] | str:
    """Return the reference's latency and the speed-up of every solver's maps over it, with the spread over seeds."""
    measure, name = results.measure, results.measure.reference_name
    before = {row.graph: row.objective for row in results.rows if setting_of(row) == measure.reference}
    if not before:
        return f"{name}, which speed-ups are over, is not among these results"
    gains = _speedups(results, before)
    columns = [*_graph_columns(_num_ops(results)), _reference_column(results, before), _bound_column(results, before)]
    for summary in found:
        if summary.setting != measure.reference:
            columns += _speedup_columns(summary.setting, gains[summary.setting])
    return BenchTable(
        name="table-graphs",
        title=f"Speed-up over {name}, graph by graph",
        results=results,
        columns=tuple(columns),
        rows=tuple(sorted(before)),
    )


def _speedups(results: ResultSet, before: Mapping[str, int]) -> dict[SolverSetting, dict[str, list[float]]]:
    """Return speed-ups by setting and graph, one per seed."""
    gains: dict[SolverSetting, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in results.rows:
        if row.graph in before and row.objective:
            gains[setting_of(row)][row.graph].append(before[row.graph] / row.objective)
    return gains


def _reference_column(results: ResultSet, before: Mapping[str, int]) -> Column[str]:
    name = results.measure.reference_name
    return Column(
        name="reference",
        heading=name,
        meaning=f"what the map of {name} takes",
        value=lambda graph: results.measure.write(before[graph]),
        spare=2,
    )


def _bound_column(results: ResultSet, before: Mapping[str, int]) -> Column[str]:
    bound: dict[str, int] = defaultdict(int)
    for row in results.rows:
        bound[row.graph] = max(bound[row.graph], row.bound)
    return Column(
        name="highest_speedup",
        heading="at most",
        meaning="the speed-up that no map exceeds, by the largest bound that any solver proved",
        value=lambda graph: before[graph] / bound[graph] if bound[graph] else None,
        show=_three_decimals,
        spare=1,
    )


def _speedup_columns(setting: SolverSetting, gains: Mapping[str, list[float]]) -> list[Column[str]]:
    name = setting.label.replace(" ", "_")
    mean = Column[str](
        name=name,
        heading=setting.label,
        meaning="how many times as fast its map is, the mean of its seeds; higher is better",
        value=lambda graph: fmean(gains[graph]) if graph in gains else None,
        show=_three_decimals,
    )
    spread = Column[str](
        name=f"{name}_spread",
        heading="±",
        meaning="standard deviation over the seeds",
        value=lambda graph: pstdev(gains[graph]) if graph in gains else None,
        show=_three_decimals,
        spare=3,
    )
    return [mean, spread] if any(len(own) > 1 for own in gains.values()) else [mean]


def _three_decimals(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _shares_table(results: ResultSet, found: Sequence[Summary]) -> BenchTable[str] | str:
    """Return the objective on one device, and the best solvers' shares of it; a sentence where no row has one
    device."""
    num_ops = _num_ops(results)
    best = best_heuristic(results)
    if best is None:
        return NO_HEURISTIC
    if not best.share:
        return "no solver among these results uses one device alone; single-device does"
    searches = sorted((summary for summary in found if not summary.setting.is_heuristic), key=by_gain)
    shown = [best, *searches[:_MAX_SEARCHES]]
    write = results.measure.write
    fixed = [
        *_graph_columns(num_ops),
        Column[str](
            name="one_device",
            heading="one device",
            meaning="objective with everything on one device, in the best of the simple orders",
            value=lambda graph: (
                write(round(100 * best.entry.value[graph] / best.share[graph])) if graph in best.share else None
            ),
            spare=1,
        ),
        Column[str](
            name="found_by",
            heading="by",
            meaning="the heuristic that is best",
            value=lambda graph: _winner(graph, found),
            spare=2,
        ),
    ]
    return BenchTable(
        name="table-graphs",
        title="% of one device, graph by graph",
        results=results,
        columns=(*fixed, *(_share_of(summary) for summary in shown)),
        rows=tuple(sorted(num_ops)),
    )


def _share_of(summary: Summary) -> Column[str]:
    label = summary.setting.label
    return Column(
        name=label.replace(" ", "_"),
        heading=label,
        meaning="100 * objective / objective of one device; lower is better, nothing where no plan is feasible",
        value=summary.share.get,
        show=lambda share: "" if share is None else f"{share:.1f}",
    )


def _winner(graph: str, found: Sequence[Summary]) -> str:
    """Return the heuristic with the least objective on the graph, the first by name among equals; "" where none is
    feasible."""
    values = [
        (summary.entry.value[graph], summary.setting.solver)
        for summary in found
        if summary.setting.is_heuristic and graph in summary.entry.value
    ]
    return min(values)[1] if values else ""


#: By objective, where the table does not show shares of one device.
_TABLES = {LATENCY: _speedups_table}
