"""What a candidate of each baseline takes: `python benchmarks/baseline_costs.py`, ns of processor time per scheduled op
on two and four V100 over NVLink, for real networks and large graphs (or those of a set, --graphs). search/portfolio.py
plans with these figures."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from large_graphs import random_layers, transformer

from placewright.graph import Graph
from placewright.importers.graph_set import read_graph_set
from placewright.machines import load_machine
from placewright.problem import make_problem
from placewright.search.constructive.baseline import Trial
from placewright.search.constructive.baselines import BASELINES
from placewright.search.run.search_run import SearchRun

NETWORKS = ("lstm2-training", "gnmt4-training", "nasnet_a_large-training", "bert_large-training")
MACHINES = ("2xv100-32g/nvlink", "4xv100-32g/nvlink")


def graphs(graph_set: Path | None) -> Iterator[Graph]:
    if graph_set:
        yield from read_graph_set(graph_set)
        return
    path = Path(__file__).parent / "instances" / "zoo-train.graphs.gz"
    yield from (graph for graph in read_graph_set(path) if graph.name in NETWORKS)
    yield transformer(20_000)
    yield random_layers(10_000)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--graphs", type=Path, help="a graph set")
    return options


def main() -> None:
    chosen = graphs(parser().parse_args().graphs)
    problems = [make_problem(graph, load_machine(machine)) for graph in chosen for machine in MACHINES]
    sizes = [problem.core.num_ops for problem in problems]  # what is lowered late is lowered now
    print("| baseline | candidates | ns per op and candidate: least, mean, most | ns per op in all: mean |")
    print("| --- | ---: | ---: | ---: |")
    for method in BASELINES:
        costs, candidates = [], []
        for problem, num_ops in zip(problems, sizes, strict=True):
            trial, made, began = Trial(method, problem, SearchRun()), 0, time.process_time()
            while trial.advance():
                made += 1
            costs.append((time.process_time() - began) / num_ops * 1e9)
            candidates.append(made)
        each = [cost / made for cost, made in zip(costs, candidates, strict=True)]
        print(
            f"| {method.name} | {min(candidates)}-{max(candidates)} | {min(each):.0f}, {sum(each) / len(each):.0f},"
            f" {max(each):.0f} | {sum(costs) / len(costs):.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
