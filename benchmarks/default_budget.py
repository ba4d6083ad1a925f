"""Time of the default budget of `auto`: `python benchmarks/default_budget.py`, on a machine with nothing else to do.

With --graphs, for the graphs of a set. Prints processor time by size: of the problem (costs, lowering), the baselines,
counting the budget, the search and all of `plan`; and of an evaluation and a unit of its work, by which
search/default_budget.py counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from large_graphs import random_layers, transformer

import placewright
from placewright.graph import Graph
from placewright.importers.graph_set import read_graph_set
from placewright.machines import load_machine
from placewright.problem import make_problem
from placewright.search.default_budget import first_evaluations, work_per_evaluation
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.portfolio import run_baselines
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

NETWORKS = ("gru1-training", "lstm2-training", "transformer_xl12-training", "nasnet_a_large-training", "gnmt4-training")
LARGE = (2_000, 5_000, 10_000, 20_000, 50_000, 100_000)


def cases(graph_set: Path | None) -> Iterator[tuple[Graph, str]]:
    if graph_set:
        yield from ((graph, "4xv100-32g/nvlink") for graph in read_graph_set(graph_set))
        return
    path = Path(__file__).parent / "instances" / "zoo-train.graphs.gz"
    for graph in read_graph_set(path):
        if graph.name in NETWORKS:
            yield graph, "4xv100-32g/nvlink"
    yield random_layers(20_000), "8xa100/nvlink"
    for num_ops in LARGE:
        yield transformer(num_ops), "8xa100/nvlink"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--graphs", type=Path, help="a graph set")
    return options


def main() -> None:
    chosen = cases(parser().parse_args().graphs)
    print("| graph | ops | problem | baselines | counting | search | plan | evaluations | us each | work each |")
    print("| --- | " + "---: | " * 9)
    clock = time.process_time
    for graph, devices in chosen:
        at = [clock()]
        problem = make_problem(graph, load_machine(devices))
        num_ops = problem.core.num_ops
        at.append(clock())
        baselines = run_baselines(problem, SearchRun())
        at.append(clock())
        evaluations = first_evaluations(problem)
        at.append(clock())
        best = min(baselines, key=lambda result: result.metrics.fitness("step-time"))
        ScheduleAnnealing().solve(
            problem, SearchRun(Budget(evaluations=evaluations), initial_solutions=[best.solution])
        )
        at.append(clock())
        placewright.plan(graph, devices)
        at.append(clock())
        parts = " | ".join(f"{after - before:.2f}" for before, after in pairwise(at))
        each = 1e6 * (at[4] - at[3]) / evaluations
        work = work_per_evaluation(problem)
        print(f"| {graph.name} | {num_ops} | {parts} | {evaluations} | {each:.1f} | {work:.0f} |", flush=True)


if __name__ == "__main__":
    main()
