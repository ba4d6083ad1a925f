"""What a decoder is worth: BRKGA over each of them on synthetic graphs, against the paper's.

    python benchmarks/decoders.py [--graphs 100] [--evaluations 5000]

The paper's benchmark: two devices, free blocking transfers, both readings of control dependencies, both objectives; the
committed test graphs unless others are named. Prints a Markdown table: mean improvement over the paper's decoder, and
mean gap to the lower bound where time is the objective (the bound of peak memory says little there).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from placewright.bounds import lower_bound
from placewright.decoder import DECODERS
from placewright.graph import Graph
from placewright.importers.graph_set import read_graph_set
from placewright.lab.peers.brkga import Brkga
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.problem.objective import ControlMode, Objective
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

TEST_GRAPHS = Path(__file__).parent / "instances" / "synthetic-test.graphs.gz"
OBJECTIVES: tuple[Objective, ...] = ("step-time", "peak-memory")
CONTROLS: tuple[ControlMode, ...] = ("order", "transfer")


def problems(graphs: list[Graph], objective: Objective, control: ControlMode) -> list[Problem]:
    machine = load_machine("2xideal/free")
    return [make_problem(graph, machine, objective=objective, control=control) for graph in graphs]


def column(cases: list[Problem], budget: Budget) -> list[str]:
    """A cell per decoder."""
    bounds = np.array([lower_bound(problem).value for problem in cases])
    found = [_objectives(cases, budget, Brkga(decoder=decoder)) for decoder in DECODERS]
    better = [100 * float(np.mean(1 - values / found[0])) for values in found]
    gaps = [100 * float(np.mean(values / bounds - 1)) for values in found]
    by_time = cases[0].objective == "step-time"
    return [f"{b:+.1f}% / {gap:.2f}" if by_time else f"{b:+.1f}%" for b, gap in zip(better, gaps, strict=True)]


def _objectives(cases: list[Problem], budget: Budget, method: Brkga) -> NDArray[np.float64]:
    results = [method.solve(problem, SearchRun(budget)) for problem in cases]
    return np.array([r.metrics.objective_value(p.objective) for p, r in zip(cases, results, strict=True)], np.float64)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("graph_set", type=Path, nargs="?", default=TEST_GRAPHS)
    options.add_argument("--graphs", type=int, default=100, help="how many of the set")
    options.add_argument("--evaluations", type=int, default=5000)
    return options


def main() -> None:
    arguments = parser().parse_args()
    graphs = list(read_graph_set(arguments.graph_set))[: arguments.graphs]
    budget = Budget(evaluations=arguments.evaluations)
    settings = [(objective, control) for objective in OBJECTIVES for control in CONTROLS]
    columns = [column(problems(graphs, *setting), budget) for setting in settings]
    print(f"| decoder | {' | '.join(f'{objective}, {control}' for objective, control in settings)} |")
    print("|---" * (len(settings) + 1) + "|")
    for decoder, *cells in zip(DECODERS, *columns, strict=True):
        print(f"| {decoder} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
