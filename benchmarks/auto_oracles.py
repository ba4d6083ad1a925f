"""Gain of `auto` from knowing what a policy could learn: `python benchmarks/auto_oracles.py OUT [--cuts]`.

Plans some graphs of each suite with `auto` as it is and with `auto` that has other shares of its time for baselines,
one baseline alone, other clusters or another share for a plan within limits, each with the same seconds of processor
time and several seeds. The oracle knows for each graph the way whose mean over all seeds but one is least, and is
judged by that one, each seed in turn; "one for all" is the way that is best over all other graphs. Prints by how much
their steps are shorter than those of `auto` with the same seed, in percent: means with a 95% interval by graph, over
the graphs that both plan within limits; and on how many graphs each keeps them.

--cuts: the worth of the edges that the plan of a long search cuts, on large graphs without limits. Ops that its uncut
edges join are a piece. Only the pieces are kept, not their devices: each goes to the device with least to do, or where
its first op finishes first, and the ops are dispatched, or inserted with a queue at each link. Compared with that plan
itself, its devices with ops ordered anew, `auto` that begins with the plan made of the cuts, and `layers`.

OUT/rows.jsonl holds a row for each run; runs with a row are not repeated.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from large_graphs import random_layers, transformer
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import placewright._core as _core
from placewright.graph import Graph
from placewright.importers.graph_set import read_graph_set
from placewright.lab.bench.suite import Suite, read_suite
from placewright.lab.datasets.problem_set import spread
from placewright.lab.learning.regal.features import edges_of
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.search.auto import Auto
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.baselines import BASELINES
from placewright.search.constructive.layers import LAYERS
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.method import Method
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun
from placewright.support.files import locked_folder

HERE = Path(__file__).parent
SUITES = tuple(HERE / "suites" / f"{name}.toml" for name in ("real-nvlink-4", "real-pcie-4", "real-memory-60"))
ALONE = ("etf", "insertion", "cluster-list", "cluster-partition", "layers", "contiguous-split")
_SHARE, _BASELINES = "placewright.search.portfolio._SHARE", "placewright.search.auto.run_baselines"
_FEASIBLE, _ANNEALING = (
    "placewright.search.auto._FEASIBILITY_SHARE",
    "placewright.search.metaheuristics.default_first.ScheduleAnnealing",
)
#: A limit in seconds that no method reaches.
ENOUGH = 1e6
#: The large graphs: numbers of ops of those that are made, and real networks by the set that holds them.
SIZES = (5_000, 50_000)
REAL = {
    "real-networks": ("gnmt4-training", "gnmt8-training"),
    "zoo-test": ("glow-training", "densenet201-training", "hourglass8-training"),
    "zoo-valid": ("turing_machine-training", "randwire_ba-training"),
    "libraries/test": ("transformers_granite_docling-4-training", "timm_xcit_large_24_p8_224-training"),
}
Float = NDArray[np.float64]
Int = NDArray[np.int64]
Row = dict[str, Any]


def ways(has_limits: bool) -> dict[str, Mapping[str, Any]]:
    """Variants of `auto` by name: the new value of each attribute that they replace."""
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


def planned(
    problem: Problem, seconds: float, seed: int = 0, way: Mapping[str, Any] | None = None, method: Method | None = None
) -> tuple[Result, float]:
    """The result of `auto`, or of `method` if given, and its processor time in s. Processor time is its limit as well,
    so that other work on the machine changes nothing."""
    assert problem.core.num_ops > 0  # made here, so that it is part of no method's time
    with ExitStack() as patches:
        for target, value in {"time.perf_counter": time.process_time, **(way or {})}.items():
            patches.enter_context(mock.patch(target, value))
        began = time.process_time()
        run = SearchRun(Budget(evaluations=UNLIMITED, seconds=seconds), seed=seed)
        return (method or Auto()).solve(problem, run), time.process_time() - began


@dataclass(frozen=True)
class Rows:
    """The rows of a file; a missing one is made and appended."""

    path: Path

    def of(self, wanted: Mapping[str, Callable[[], Row]]) -> Iterator[Row]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        known = {row["run"]: row for row in map(json.loads, lines)}
        for name, make in wanted.items():
            if name not in known:
                known[name] = {"run": name, **make()}
                with self.path.open("a") as file:
                    file.write(json.dumps(known[name]) + "\n")
            yield known[name]


def runs(suite: Suite, name: str, arguments: argparse.Namespace) -> dict[str, Callable[[], Row]]:
    def run(graph: Graph, way: str, patches: Mapping[str, Any], seed: int) -> Row:
        # A problem of its own, which knows no bound that another run has paid for.
        found, took = planned(suite.problem(graph), arguments.seconds, seed, patches)
        step_time = found.metrics.step_time_ns if found.metrics.bytes_over_limit == 0 else None
        return {"graph": graph.name, "way": way, "seed": seed, "ns": step_time, "seconds": round(took, 4)}

    return {
        f"{name} {graph.name} {arguments.seconds:g} s {way} {seed}": partial(run, graph, way, patches, seed)
        for graph in (suite.graph(index) for index in spread(len(suite.labels), arguments.take))
        for way, patches in ways(suite.memory_share is not None).items()
        for seed in range(arguments.seeds)
    }


def report(suite: str, rows: list[Row], seconds: float) -> None:
    graphs, names = (list(dict.fromkeys(row[key] for row in rows)) for key in ("graph", "way"))
    cost = np.full((len(graphs), len(names), 1 + max(row["seed"] for row in rows)), np.inf)
    for row in rows:
        cost[graphs.index(row["graph"]), names.index(row["way"]), row["seed"]] = np.log(row["ns"] or np.inf)
    oracle, common = np.full_like(cost[:, 0], np.inf), np.full_like(cost[:, 0], np.inf)
    finite = np.where(np.isfinite(cost), cost, 1e3)
    for graph in range(len(graphs)):
        gained = np.delete(finite - finite[:, :1], graph, axis=0).mean(axis=(0, 2))
        for seed in range(cost.shape[2]):
            known = np.delete(finite[graph], seed, axis=1).mean(axis=1)
            oracle[graph, seed] = cost[graph, known.argmin(), seed]
            common[graph, seed] = cost[graph, gained.argmin(), seed]
    print(f"\n| {suite}, {seconds:g} s, {len(graphs)} graphs | shorter than auto, % | within limits | seconds |")
    print("|---|---:|---:|---:|")
    for label, own in {
        "oracle": oracle,
        "one for all": common,
        **dict(zip(names, cost.swapaxes(0, 1), strict=True)),
    }.items():
        both = np.isfinite(own) & np.isfinite(cost[:, 0])
        gains = [(auto - mine)[has].mean() for mine, auto, has in zip(own, cost[:, 0], both, strict=True) if has.any()]
        taken = [row["seconds"] for row in rows if row["way"] == label]
        within = np.isfinite(own).mean() * len(graphs)
        shorter = interval(100 * (1 - np.exp(-np.array(gains))))
        print(f"| {label} | {shorter} | {within:.1f} | {f'{np.mean(taken):.2f}' if taken else ''} |")


def interval(gains: Float) -> str:
    error = 1.96 * gains.std(ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else np.inf
    return f"{gains.mean():+.2f} ± {error:.2f}"


def large_graphs(arguments: argparse.Namespace) -> Iterator[tuple[Graph, str]]:
    """The large graphs, each with the machine that it is planned for."""
    for size in arguments.sizes:
        yield transformer(size), "8xa100/nvlink"
        yield random_layers(size), "8xa100/nvlink"
    for name in arguments.sets:
        found = read_graph_set(HERE / "instances" / f"{name}.graphs.gz")
        for label in REAL[name]:
            yield found[found.labels.index(label)], "4xv100-32g/pcie3" if name == "real-networks" else "4xp100/pcie3"


def without_limits(graph: Graph, machine: str) -> Problem:
    found = load_machine(machine)
    devices = tuple(replace(device, memory_bytes=None) for device in found.devices)
    return make_problem(graph, replace(found, devices=devices), control="signal")


def pieces(problem: Problem, device_of: Int) -> Int:
    """The piece of each op, [ops], numbered in the order of first ops; ops that must share a device are in one."""
    source, target, _ = edges_of(problem)
    uncut, first = device_of[source] == device_of[target], problem.groups[0]
    ends = np.concatenate([source[uncut], np.arange(len(first))]), np.concatenate([target[uncut], first])
    found: Int = connected_components(coo_array((np.ones(len(ends[0])), ends), shape=(len(first),) * 2))[1]
    return found


def by_load(problem: Problem, piece: Int) -> Iterator[Int]:
    """Two placements, with the largest pieces first and in the order of first ops: each piece goes to the device with
    least to do."""
    load = np.bincount(piece, problem.time_ns[problem.lowered.graph_op].mean(axis=1))
    for order in (np.argsort(-load, kind="stable"), np.arange(len(load))):
        device, busy = np.zeros(len(load), np.int64), [(0.0, each) for each in range(problem.core.num_devices)]
        for own in order.tolist():
            time_ns, device[own] = heapq.heappop(busy)
            heapq.heappush(busy, (time_ns + load[own], int(device[own])))
        yield device[piece]


def by_first_op(problem: Problem, piece: Int) -> Int:
    """A placement of each piece where its first op finishes first, in bottom-level order, without queues at links."""
    lowered, link = problem.lowered, problem.machine.links[0][1]
    times, free = problem.time_ns[lowered.graph_op], np.zeros(problem.core.num_devices)
    late = link.latency_ns + lowered.transfer_bytes * link.inverse_bandwidth / 2**32
    inputs = np.split(lowered.inputs, lowered.input_begin[1:-1])
    device, done = np.full(int(piece.max()) + 1, -1), np.zeros(len(piece))
    for op in _core.bottom_level_order(problem.core).tolist():
        made, own = lowered.producer[inputs[op]], int(device[piece[op]])
        ends = {
            each: max(free[each], (done[made] + (device[piece[made]] != each) * late[inputs[op]]).max(initial=0.0))
            + times[op, each]
            for each in (range(len(free)) if own < 0 else (own,))
        }
        where = min(ends, key=ends.__getitem__)
        device[piece[op]], free[where], done[op] = where, ends[where], ends[where]
    return device[piece]


class Known(Baseline):
    """Given placements, each with a given order, or else with ops dispatched, and inserted with queues at the links."""

    name = "known"

    def __init__(self, placements: Sequence[Int], order: NDArray[np.int32] | None = None) -> None:
        self._placements, self._order = [each.astype(np.int32) for each in placements], order

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        core = problem.core
        for each in self._placements:
            orders = [self._order]
            if self._order is None:
                inserted = _core.insertion_schedule(core, _core.bottom_level_order(core), True, each)[1]
                orders = [_core.dispatch_order(core, each), inserted]
            yield from (Candidate(name=self.name, device_of=each, order=order) for order in orders if order is not None)


def cuts(graph: Graph, machine: str, seconds: float, long: float) -> Row:
    short, took = planned(without_limits(graph, machine), seconds)
    problem = without_limits(graph, machine)
    best, _ = planned(problem, long)
    device_of = best.solution.device_of.astype(np.int64)
    piece = pieces(problem, device_of)
    decoded = Known([*by_load(problem, piece), by_first_op(problem, piece)])
    found, _ = planned(problem, ENOUGH, method=decoded)
    start = Known([found.solution.device_of.astype(np.int64)], found.solution.order)
    begins = {"placewright.search.portfolio.BASELINES": (start, *BASELINES)}
    results = {
        "the long search's plan": best,
        "its devices, ordered anew": planned(problem, ENOUGH, method=Known([device_of]))[0],
        "decoded from its cuts": found,
        "`auto` that begins with these": planned(without_limits(graph, machine), seconds, way=begins)[0],
        "`layers`": planned(without_limits(graph, machine), seconds, method=LAYERS)[0],
    }
    step_time = short.metrics.step_time_ns
    shorter = {label: 100 * (1 - each.metrics.step_time_ns / step_time) for label, each in results.items()}
    return {"ops": len(piece), "pieces": int(piece.max()) + 1, "seconds of auto": took, **shorter}


def report_cuts(rows: Sequence[Row]) -> None:
    names = list(rows[0])[1:]
    print(f"| graph | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for row in rows:
        values = [f"{row[name]:.2f}" if isinstance(row[name], float) else f"{row[name]:,}" for name in names]
        print(f"| {row['run']} | {' | '.join(values)} |")
    means = [interval(np.array([row[name] for row in rows])) for name in names[3:]]
    print(f"| mean of {len(rows)} | | | | {' | '.join(means)} |")


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--suites", nargs="+", type=Path, default=SUITES)
    options.add_argument("--take", type=int, default=12, help="how many graphs of each suite")
    options.add_argument("--seconds", type=float, default=0.1, help="of processor time")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--cuts", action="store_true", help="what cuts are worth on large graphs")
    options.add_argument("--long", type=float, default=5.0, help="seconds of the search whose cuts are known")
    options.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="ops of large graphs that are made")
    options.add_argument("--sets", nargs="*", default=tuple(REAL), help="of large real networks")
    return options


def main() -> None:
    arguments = parser().parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with locked_folder(arguments.out, "another comparison writes to"):
        rows = Rows(arguments.out / "rows.jsonl")
        if arguments.cuts:
            limits = arguments.seconds, arguments.long
            wanted = {f"{graph.name}, {at}": partial(cuts, graph, at, *limits) for graph, at in large_graphs(arguments)}
            report_cuts(list(rows.of(wanted)))
            return
        for suite in arguments.suites:
            found = list(rows.of(runs(read_suite(suite), suite.stem, arguments)))
            report(suite.stem, found, arguments.seconds)


if __name__ == "__main__":
    main()
