"""What `auto` would gain from knowing of each graph what suits it best: `python benchmarks/auto_oracles.py OUT`.

Plans some graphs of each suite with `auto` as it is and with `auto` that has other shares of its time for baselines,
one baseline alone, other clusters or another share for a plan within limits, each with the same seconds of processor
time and several seeds. The oracle knows of each graph the way whose mean over all seeds but one is least, and is judged
by that one, each seed in turn; "one for all" is the way that is best over all other graphs. Prints by how much their
steps are shorter than those of `auto` with the same seed, in percent: means with a 95% interval by graph,
over the graphs that both plan within limits; and on how many graphs each keeps them.

OUT/rows.jsonl holds a row for each run; what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from placewright.lab.bench.suite import read_suite
from placewright.lab.datasets.problem_set import spread
from placewright.problem import Problem
from placewright.search.auto import Auto
from placewright.search.constructive.baseline import Baseline
from placewright.search.constructive.baselines import BASELINES
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun
from placewright.support.files import locked_folder

SUITES = tuple(
    Path(__file__).parent / "suites" / f"{name}.toml" for name in ("real-nvlink-4", "real-pcie-4", "real-memory-60")
)
ALONE = ("etf", "insertion", "cluster-list", "cluster-partition", "layers", "contiguous-split")
_SHARE, _BASELINES = "placewright.search.portfolio._SHARE", "placewright.search.auto.run_baselines"
_FEASIBLE, _ANNEALING = (
    "placewright.search.auto._FEASIBILITY_SHARE",
    "placewright.search.metaheuristics.default_first.ScheduleAnnealing",
)
Float = NDArray[np.float64]
Row = dict[str, Any]


def ways(has_limits: bool) -> dict[str, Mapping[str, Any]]:
    """Names, and what takes the place of what in `auto`."""
    found: dict[str, Mapping[str, Any]] = {"auto": {}}
    found |= {f"{share:.0%} for baselines": {_SHARE: share} for share in (0.1, 0.25, 0.75)}
    found |= {f"{each.name} alone": {_BASELINES: alone(each)} for each in BASELINES if each.name in ALONE}
    for clusters in ((), (8, 4, 2)):
        found[f"clusters of {clusters or 'none'}"] = {_ANNEALING: partial(ScheduleAnnealing, ops_per_cluster=clusters)}
    if has_limits:
        found |= {f"{share:.0%} for limits": {_FEASIBLE: share} for share in (0.1, 0.7)}
    return found


def alone(baseline: Baseline) -> Callable[..., list[Result]]:
    return lambda problem, run: [baseline.solve(problem, run.part(0.5))]


def planned(problem: Problem, way: Mapping[str, Any], seconds: float, seed: int) -> Row:
    with ExitStack() as patches:
        # Of processor time, which other work on the machine takes none of.
        for target, value in {"time.perf_counter": time.process_time, **way}.items():
            patches.enter_context(mock.patch(target, value))
        assert problem.core.num_ops > 0  # made here, so that it is part of no method's time
        began = time.process_time()
        metrics = Auto().solve(problem, SearchRun(Budget(evaluations=UNLIMITED, seconds=seconds), seed=seed)).metrics
        return {
            "ns": metrics.step_time_ns if metrics.bytes_over_limit == 0 else None,
            "seconds": round(time.process_time() - began, 4),
        }


def rows_of(suite: Path, arguments: argparse.Namespace) -> Iterator[Row]:
    path: Path = arguments.out / "rows.jsonl"
    known = {row["run"]: row for row in map(json.loads, path.read_text().splitlines())} if path.exists() else {}
    problems = read_suite(suite)
    with path.open("a") as file:
        for index in spread(len(problems.labels), arguments.take):
            graph = problems.graph(index)
            for way, patches in ways(problems.memory_share is not None).items():
                for seed in range(arguments.seeds):
                    run = f"{suite.stem} {graph.name} {arguments.seconds:g} s {way} {seed}"
                    if run not in known:
                        # A problem of its own, which knows no bound that another run has paid for.
                        own = planned(problems.problem(graph), patches, arguments.seconds, seed)
                        known[run] = {"run": run, "graph": graph.name, "way": way, "seed": seed, **own}
                        file.write(json.dumps(known[run]) + "\n")
                        file.flush()
                    yield known[run]


def report(suite: str, rows: list[Row], seconds: float) -> None:
    graphs, names = (list(dict.fromkeys(row[key] for row in rows)) for key in ("graph", "way"))
    cost = np.full((len(graphs), len(names), 1 + max(row["seed"] for row in rows)), np.inf)
    for row in rows:
        cost[graphs.index(row["graph"]), names.index(row["way"]), row["seed"]] = np.log(row["ns"] or np.inf)
    oracle, common = np.full_like(cost[:, 0], np.inf), np.full_like(cost[:, 0], np.inf)
    for graph in range(len(graphs)):
        others = np.delete(cost, graph, axis=0)
        gained = np.where(np.isfinite(others), others, 1e3) - np.where(np.isfinite(others[:, :1]), others[:, :1], 1e3)
        for seed in range(cost.shape[2]):
            known = np.delete(cost[graph], seed, axis=1).mean(axis=1)
            oracle[graph, seed] = cost[graph, known.argmin(), seed]
            common[graph, seed] = cost[graph, gained.mean(axis=(0, 2)).argmin(), seed]
    print(f"\n| {suite}, {seconds:g} s, {len(graphs)} graphs | shorter than auto, % | within limits | seconds |")
    print("|---|---:|---:|---:|")
    found = {"oracle": oracle, "one for all": common, **{name: cost[:, at] for at, name in enumerate(names)}}
    for label, own in found.items():
        taken = [row["seconds"] for row in rows if row["way"] == label]
        print(
            f"| {label} | {shorter(own, cost[:, 0])} | {np.isfinite(own).mean() * len(graphs):.1f} "
            f"| {f'{np.mean(taken):.2f}' if taken else ''} |"
        )
    chosen = [names[np.where(np.isfinite(each), each, 1e3).mean(axis=1).argmin()] for each in cost]
    print("best:", ", ".join(f"{name} {chosen.count(name)}" for name in names if name in chosen))


def shorter(own: Float, other: Float) -> str:
    both = np.isfinite(own) & np.isfinite(other)
    gains = [(there - mine)[has].mean() for mine, there, has in zip(own, other, both, strict=True) if has.any()]
    return interval(100 * (1 - np.exp(-np.array(gains))))


def interval(gains: Float) -> str:
    error = 1.96 * gains.std(ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else np.inf
    return f"{gains.mean():+.2f} ± {error:.2f}"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--suites", nargs="+", type=Path, default=SUITES)
    options.add_argument("--take", type=int, default=12, help="how many graphs of each suite")
    options.add_argument("--seconds", type=float, default=0.1, help="of processor time")
    options.add_argument("--seeds", type=int, default=3)
    return options


def main() -> None:
    arguments = parser().parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with locked_folder(arguments.out, "another comparison writes to"):
        for suite in arguments.suites:
            report(suite.stem, list(rows_of(suite, arguments)), arguments.seconds)


if __name__ == "__main__":
    main()
