"""A learned list scheduler on families of networks that it has not seen, beside m-ETF.

    python benchmarks/learned_list.py OUT [--policy FILE] [--part test] [--take N] [--split]

Deals the zoo's graphs (instances/) to train.graphs.gz, valid.graphs.gz and test.graphs.gz in OUT by family: of the
families in alphabetical order the first of every four goes to the validation, the third to the test, all others are to
be learned from with `placewright train learned-list --data OUT`; --split does only that. Then measures on a part step
times of what the policy plans at once over those of m-ETF, geometric means, beside list schedulers that learn nothing.
OUT/rows.jsonl holds a row for each run; what is there is not run again. Times are stated for a P100; those of other
devices are scaled (`on_machine` in learned_list/trainings.py).
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placewright.graph import Graph
from placewright.importers.graph_set import SUFFIX, read_graph_set, write_graph_set
from placewright.lab.datasets.problem_set import spread
from placewright.lab.learning.learned_list.policy import LearnedListPolicy, scored, untrained
from placewright.lab.learning.learned_list.solver import LearnedList, shipped
from placewright.lab.learning.learned_list.trainings import on_machine
from placewright.machines import load_machine
from placewright.methods.policies import Policy
from placewright.methods.policy_file import read_policy
from placewright.methods.table import make_method
from placewright.problem import Problem, make_problem
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.method import Method
from placewright.search.run.search_run import SearchRun
from placewright.support.files import locked_folder

INSTANCES = Path(__file__).parent / "instances"
PARTS = ("valid", "train", "test", "train")
STATED_FOR = "p100"
MACHINES = ("2xp100", "4xp100", "v100-32g+p100", "2xv100-32g+2xp100")
OTHERS = ("etf", "cluster-list")
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    graph: str
    machine: str
    label: str
    method: Method

    @property
    def name(self) -> str:
        return f"{self.graph} {self.machine} {self.label}"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--policy", type=Path, help="in place of the one that is shipped")
    options.add_argument("--part", choices=sorted(set(PARTS)), default="test")
    options.add_argument("--graphs", type=Path, help="a graph set in place of the part")
    options.add_argument("--take", type=int, help="so many graphs, of all sizes")
    options.add_argument("--split", action="store_true", help="only deal the graphs to the parts")
    return options


def main() -> None:
    arguments = parser().parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.graphs is None and not (arguments.out / f"{arguments.part}{SUFFIX}").exists():
        split(arguments.out)
    if arguments.split:
        return
    policy = shipped() if arguments.policy is None else read_policy(arguments.policy)
    assert isinstance(policy, LearnedListPolicy)
    graphs = read_graph_set(arguments.graphs or arguments.out / f"{arguments.part}{SUFFIX}")
    chosen = [graphs[index] for index in spread(len(graphs), arguments.take)]
    with locked_folder(arguments.out, "another comparison writes to"):
        path = arguments.out / "rows.jsonl"
        alone = rows_of(chosen, MACHINES, zero_shot(policy), path)
    print_over(alone, "m-etf", MACHINES, f"step time over m-ETF's, {len(chosen)} graphs")
    print_times(chosen, policy)


def split(out: Path) -> None:
    """Writes the three parts."""
    with (INSTANCES / "families.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["set"].startswith("zoo-")]
    families = sorted({row["family"] for row in rows})
    part_of = {family: PARTS[place % len(PARTS)] for place, family in enumerate(families)}
    family_of = {(row["set"], row["graph"]): row["family"] for row in rows}
    parts: dict[str, list[Graph]] = {part: [] for part in PARTS}
    for name in ("zoo-train", "zoo-valid", "zoo-test"):
        for graph in read_graph_set(INSTANCES / f"{name}{SUFFIX}"):
            parts[part_of[family_of[name, graph.name]]].append(graph)
    for part, found in parts.items():
        found.sort(key=lambda graph: (len(graph.ops), graph.name))
        own = [family for family in families if part_of[family] == part]
        write_graph_set(out / f"{part}{SUFFIX}", found, {"families": own})
        print(f"{part}: {len(found)} graphs of {', '.join(own)}")


def zero_shot(policy: Policy) -> dict[str, Method]:
    assert isinstance(policy, LearnedListPolicy)
    before = untrained(policy.configuration)
    return {
        "m-etf": make_method("m-etf"),
        f"learned-list {policy.title}": LearnedList(policy=policy),
        "learned-list, not trained": LearnedList(policy=before),
        f"placer {policy.title}": make_method("placer", policy=policy),
        "placer, not trained": make_method("placer", policy=before),
        **{name: make_method(name) for name in OTHERS},
    }


def rows_of(graphs: Sequence[Graph], machines: Sequence[str], methods: dict[str, Method], path: Path) -> list[Row]:
    """Those of the runs, in their order; what is missing is run and written down."""
    known = {row["run"]: row for row in map(json.loads, path.read_text().splitlines())} if path.exists() else {}
    found = []
    for graph in graphs:
        for machine in machines:
            runs = [
                Run(graph=graph.name, machine=machine, label=label, method=method) for label, method in methods.items()
            ]
            missing = [run for run in runs if run.name not in known]
            if missing:
                with path.open("a") as file:
                    for run in missing:
                        # A problem of its own, which knows no bound that another run has paid for.
                        known[run.name] = row_of(run, problem_of(graph, machine))
                        file.write(json.dumps(known[run.name]) + "\n")
            found += [known[run.name] for run in runs]
    return found


def problem_of(graph: Graph, machine: str) -> Problem:
    stated = load_machine(STATED_FOR)
    problem = on_machine(make_problem(graph, stated), load_machine(machine), stated.devices[0])
    assert problem.core.num_ops > 0  # made here, so that it is part of no method's time
    return problem


def row_of(run: Run, problem: Problem) -> Row:
    began = time.perf_counter()
    result = run.method.solve(problem, SearchRun(Budget(evaluations=UNLIMITED)))
    return {
        "run": run.name,
        "machine": run.machine,
        "label": run.label,
        "ops": problem.core.num_ops,
        "step_time_ns": result.metrics.step_time_ns,
        "bytes_over_limit": result.metrics.bytes_over_limit,
        "seconds": round(time.perf_counter() - began, 4),
    }


def print_over(rows: Sequence[Row], reference: str, machines: Sequence[str], title: str) -> None:
    """Geometric means over graphs of the ratio to the reference's step time; and how many plans exceed a limit."""
    if not rows:
        print(f"\n{title}: none")
        return
    print(f"\n| {title} | {' | '.join(machines)} | all | better, worse | over a limit | seconds |")
    print("|---|" + "---:|" * (len(machines) + 4))
    for label in dict.fromkeys(row["label"] for row in rows):
        ratios = {machine: list(ratios_of(rows, label, reference, machine)) for machine in machines}
        every = [ratio for found in ratios.values() for ratio in found]
        own = [row for row in rows if row["label"] == label]
        means = [f"{statistics.geometric_mean(found):.3f}" for found in (*ratios.values(), every)]
        sides = f"{sum(ratio < 0.9995 for ratio in every)}, {sum(ratio > 1.0005 for ratio in every)}"
        over = sum(row["bytes_over_limit"] > 0 for row in own)
        seconds = statistics.mean(row["seconds"] for row in own)
        print(f"| {label} | {' | '.join(means)} | {sides} | {over} | {seconds:.2f} |")


def ratios_of(rows: Sequence[Row], label: str, reference: str, machine: str) -> Iterator[float]:
    there = [row for row in rows if row["machine"] == machine]
    own = [row["step_time_ns"] for row in there if row["label"] == label]
    others = [row["step_time_ns"] for row in there if row["label"] == reference]
    yield from (mine / other for mine, other in zip(own, others, strict=True))


def print_times(graphs: Sequence[Graph], policy: LearnedListPolicy) -> None:
    """What the largest graph and the one nearest to 2,000 ops take on four devices, the least of five times."""
    nearest = min(graphs, key=lambda graph: abs(len(graph.ops) - 2000))
    for graph in (nearest, graphs[-1]):
        problem = problem_of(graph, "4xp100")
        clusters = policy.observe(problem, 0)
        times = []
        for _ in range(5):
            began = time.perf_counter()
            scored(clusters.core, policy.weights, policy.configuration.window)
            between = time.perf_counter()
            policy.observe(problem, 0)
            times.append((between - began, time.perf_counter() - between))
        score, make = (1e3 * min(column) for column in zip(*times, strict=True))
        ops, small = problem.core.num_ops, clusters.core.num_ops
        print(f"\n{graph.name}: {ops:,} ops, {small:,} clusters, made in {make:.1f} ms, placed in {score:.1f} ms")


if __name__ == "__main__":
    main()
