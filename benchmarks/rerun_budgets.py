"""Gain of the search for reruns from more evaluations (the room for a policy that guides it) and from the order.

    python benchmarks/rerun_budgets.py                          training steps of benchmarks/instances/libraries
    python benchmarks/rerun_budgets.py --set FILE --take 20     of another set, so many of them, some of each size
    python benchmarks/rerun_budgets.py --table                  the table of the rows that there are

One A100, times of its roofline. The limit is a share of the way from the least that is not ruled out to the least peak
of the orders of compilers. Budgets are multiples of the default, which is about a second's. Of each row: the extra time
over the step without a limit at each budget, None where the limit is not kept, the same at the default budget with
first runs in the captured order, and the proven least.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from placewright.bounds import least_limit, rematerialized_time
from placewright.importers.graph_set import read_graph_set
from placewright.lab.datasets.problem_set import spread
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.rematerialization.solve import (
    in_order,
    order_of_least_memory,
    peak_in_order,
    rematerialize,
    rerun_evaluations,
)
from placewright.search.run.budget import Budget
from placewright.search.run.result import measure
from placewright.search.run.search_run import SearchRun

ROOT = Path(__file__).parent
SET, OUT = ROOT / "instances" / "libraries" / "test.graphs.gz", ROOT / "results" / "fit" / "budgets.jsonl"
DEVICE, SHARES, BUDGETS = "a100", (0.6, 0.3), (0.1, 1.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One training step under one limit. extra: the extra time by budget. captured: the same with first runs in the
    captured order. bound: the proven least. All are shares of the time without a limit."""

    graph: str
    num_ops: int
    share: float
    extra: tuple[float | None, ...]
    captured: float | None
    bound: float


def row_of(problem: Problem, name: str, share: float, limit: int, order: NDArray[np.int32]) -> Row:
    limited = replace(problem, memory_limits_bytes=(limit,))
    once_ns = measure(problem, in_order(problem)).step_time_ns

    def extra(budget: float, orders: Sequence[NDArray[np.int32]]) -> float | None:
        run = SearchRun(Budget(evaluations=max(1, round(budget * rerun_evaluations(limited)))))
        found = rematerialize(limited, run, orders=orders).result.metrics
        return None if found.bytes_over_limit else found.step_time_ns / once_ns - 1

    return Row(
        graph=name,
        num_ops=problem.core.num_ops,
        share=share,
        extra=tuple(extra(budget, [order]) for budget in BUDGETS),
        captured=extra(1.0, []),
        bound=max(0.0, rematerialized_time(limited).value / once_ns - 1),
    )


def rows_of(path: Path, take: int, most_ops: int, done: set[tuple[str, float]]) -> Iterator[Row]:
    graphs = [graph for graph in read_graph_set(path) if graph.metadata.get("mode") != "inference"]
    graphs = sorted((graph for graph in graphs if len(graph.ops) <= most_ops), key=lambda graph: len(graph.ops))
    for index in spread(len(graphs), take):
        graph = graphs[index]
        wanted = [share for share in SHARES if (graph.name, share) not in done]
        if not wanted:
            continue
        problem = make_problem(graph, load_machine(DEVICE))
        order, least = order_of_least_memory(problem), least_limit(problem)[0]
        peak = peak_in_order(problem, order)
        for share in wanted:
            yield row_of(problem, graph.name, share, int(least + share * (peak - least)), order)


def read_rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [Row(**{**json.loads(line), "extra": tuple(json.loads(line)["extra"])}) for line in path.open()]


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown, in percent of the step without a limit. Means are over rows that every budget finds a plan for."""
    names = " | ".join(f"{budget:g} of the budget" for budget in BUDGETS)
    yield f"| share | found | {names} | proven least | {BUDGETS[0]:g} against 1: mean, most | captured order |"
    yield "|---|---:|" + "---:|" * (len(BUDGETS) + 3)
    for share in SHARES:
        of_share = [row for row in rows if row.share == share]
        found = [(row, [each for each in row.extra if each is not None]) for row in of_share]
        whole = [(row, extra) for row, extra in found if len(extra) == len(BUDGETS)]
        if not whole:
            continue
        means = [100 * fmean(extra[at] for _, extra in whole) for at in range(len(BUDGETS))]
        left = [100 * (extra[0] - extra[1]) for _, extra in whole]
        cells = [f"{share:.0%}", f"{len(whole)} of {len(of_share)}", *(f"+{mean:.2f}" for mean in means)]
        cells += [f"+{100 * fmean(row.bound for row, _ in whole):.2f}", f"{fmean(left):.2f}, {max(left):.2f}"]
        both = [(row.captured, extra[1]) for row, extra in whole if row.captured is not None]
        captured = f"+{100 * fmean(of for of, _ in both):.2f} instead of +{100 * fmean(of for _, of in both):.2f}"
        cells.append(f"found {len(both)}, {captured}" if both else "found 0")
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", type=Path, default=SET, help="of graphs")
    parser.add_argument("--take", type=int, default=40, help="so many graphs")
    parser.add_argument("--most-ops", type=int, default=2500, help="of a graph")
    parser.add_argument("--out", type=Path, default=OUT, help="file of rows")
    parser.add_argument("--table", action="store_true", help="print the table of the rows, and make none")
    options = parser.parse_args()
    done = {(row.graph, row.share) for row in read_rows(options.out)}
    if not options.table:
        for row in rows_of(options.set, options.take, options.most_ops, done):
            with options.out.open("a") as file:
                file.write(f"{json.dumps(asdict(row))}\n")
    if rows := read_rows(options.out):
        print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
