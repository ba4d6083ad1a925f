"""Rows and folders of results as a run would leave them, for the tests of reports."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from placewright.lab.bench.result_set import ResultSet
from placewright.lab.bench.rows import SCHEMA_VERSION, Header, Row

HEADER = Header(
    suite="toy",
    digest="0123456789abcdef",
    num_graphs=3,
    copies=0,
    machine="2xideal/free",
    objective="step-time",
    control="order",
    paper="",
    started="2026-11-20T20:00:00+00:00",
    processor="Some CPU, 2 cores",
)


def row(graph: str, solver: str, objective: int, evaluations: int | None = None, **changes: object) -> Row:
    """Return a feasible row with bound 1 that took 10 ms, with these changes."""
    plain = Row(
        graph=graph,
        num_ops=10,
        solver=solver,
        evaluations_limit=evaluations,
        time_limit_s=None,
        seed=0,
        objective=objective,
        step_time_ns=objective,
        peak_memory_bytes=1,
        bytes_over_limit=0,
        bound=1,
        evaluations=evaluations or 1,
        seconds=0.01,
        status="feasible",
        found_by=solver,
        stopped_because="done",
        version="0.1",
        code="unknown",
        trained="",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def results_of(rows: Iterable[Row], copies: int = 0) -> ResultSet:
    """Return a result set of these rows, without files."""
    header = replace(HEADER, copies=copies)
    return ResultSet(name="toy", header=header, rows=tuple(rows), started=("today",), processors=("some",))


def write_results(folder: Path, rows: Iterable[Row], header: Header = HEADER) -> Path:
    """Write a folder as `bench run` leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"schema_version": SCHEMA_VERSION, **asdict(header)}))
    (folder / "rows.jsonl").write_text("".join(json.dumps(asdict(one)) + "\n" for one in rows))
    return folder


#: (solver, evaluations, seconds of the limit, mean and spread of the gap to the bound, seconds it takes)
_PLAUSIBLE = (
    ("cp-sat", None, 60.0, 0.004, 0.004, 55.0),
    ("gp-dfs", None, None, 0.95, 0.25, 0.004),
    ("local-search", 5000, None, 0.24, 0.05, 0.03),
    ("local-search", 50000, None, 0.20, 0.05, 0.3),
    ("brkga", 1000, None, 0.45, 0.08, 0.01),
    ("brkga", 5000, None, 0.25, 0.05, 0.05),
    ("brkga", 10000, None, 0.20, 0.04, 0.1),
    ("brkga", 50000, None, 0.13, 0.03, 0.45),
    ("tuned-brkga", 1000, None, 0.40, 0.06, 0.011),
    ("tuned-brkga", 5000, None, 0.21, 0.05, 0.055),
    ("tuned-brkga", 10000, None, 0.17, 0.04, 0.11),
    ("tuned-brkga", 50000, None, 0.115, 0.03, 0.5),
    ("random-search", 5000, None, 0.47, 0.07, 0.045),
    ("etf", None, None, 0.065, 0.03, 0.0001),
    ("heft", None, None, 0.072, 0.03, 0.00011),
    ("segment-fill", None, None, 0.026, 0.015, 0.00009),
    ("lpmf", None, None, 0.9, 0.2, 0.00015),
    ("dfs", None, None, 0.93, 0.2, 0.00012),
    ("bfs", None, None, 0.91, 0.2, 0.00012),
    ("superstep-annealing", 5000, None, 0.003, 0.002, 0.0004),
    ("superstep-annealing", 50000, None, 0.0015, 0.001, 0.003),
    ("superstep-annealing", 500000, None, 0.0005, 0.0003, 0.021),
    ("auto", 5000, None, 0.004, 0.003, 0.04),
)


def plausible_rows(num_graphs: int, num_seeds: int = 2, seed: int = 0) -> list[Row]:
    """Return rows of as many methods as a full comparison has, with the gaps measured for them."""
    draw = random.Random(seed)
    rows = []
    for index in range(num_graphs):
        bound = draw.randrange(500_000, 2_000_000)
        hardness = draw.uniform(0.6, 1.4)
        for solver, evaluations, limit, gap, spread, seconds in _PLAUSIBLE:
            for number in range(num_seeds if evaluations else 1):
                own = max(0.0, draw.gauss(gap * hardness, spread / 2))
                rows.append(
                    row(
                        f"graph-{index}",
                        solver,
                        round(bound * (1 + own)),
                        evaluations,
                        time_limit_s=limit,
                        seed=number,
                        bound=bound,
                        seconds=seconds * draw.uniform(0.7, 1.3),
                    )
                )
    return rows
