"""Maps of tensors to memory levels: what `auto` reaches in a second, what is proven, and what timing one map costs.

    python benchmarks/memory_levels.py [--chip nnpi] [--networks NAME ...] [--seconds 1] [--proof-seconds 60]
    python benchmarks/memory_levels.py --write-graphs benchmarks/instances/fused-int8.graphs.gz

The second form writes the networks as a graph set, on which `placewright bench run` compares solvers at equal numbers
of evaluations (suites/memory-levels.toml). Needs the extra `levels`. Times are microseconds of the model; seconds are
of the wall, so let nothing else run.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from placewright.importers.graph_set import write_graph_set
from placewright.lab.datasets.fused.networks import FUSED, fused_network
from placewright.lab.memory_levels.chips import load_chip
from placewright.lab.memory_levels.compilers import BASELINE, COMPILERS
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.run import MapResult
from placewright.lab.memory_levels.solvers.table import make_map_solver
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.search_run import SearchRun


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--chip", default="nnpi")
    options.add_argument("--networks", nargs="+", choices=list(FUSED), default=list(FUSED))
    options.add_argument("--seconds", type=float, default=1.0, help="for auto")
    options.add_argument("--proof-seconds", type=float, default=60.0, help="for the exact solver")
    options.add_argument("--write-graphs", type=Path, help="writes the networks, and runs nothing")
    return options


def main() -> None:
    arguments = parser().parse_args()
    networks = [fused_network(name) for name in arguments.networks]
    if arguments.write_graphs is not None:
        write_graph_set(arguments.write_graphs, networks, {"source": "placewright.datasets.fused"})
        return
    problems = {graph.name: make_memory_problem(graph, load_chip(arguments.chip)) for graph in networks}
    quick_and_proven(problems, arguments.seconds, arguments.proof_seconds)


def quick_and_proven(problems: dict[str, MemoryProblem], seconds: float, proof_seconds: float) -> None:
    print(
        "| network | ops | us per map | h6 | h0 | h1 | auto | x of h6 | found by | seconds | best known | bound "
        "| auto above best | best above bound |"
    )
    print("|---|" + "---:|" * 13)
    for name, problem in problems.items():
        compilers = {known: problem.evaluate_one(rules(problem))[0] for known, rules in COMPILERS.items()}
        quick = solved(problem, "auto", seconds=seconds)
        long = solved(problem, "exact", seconds=proof_seconds)
        best, bound = min(quick.latency_ps, long.latency_ps), max(quick.bound_ps, long.bound_ps)
        cells = [
            f"{problem.num_ops}",
            f"{us_per_map(problem):.2f}",
            *(f"{compilers[known] / 1e6:.1f}" for known in ("h6", "h0", "h1")),
            f"{quick.latency_ps / 1e6:.3f}",
            f"{compilers[BASELINE] / quick.latency_ps:.3f}",
            quick.found_by,
            f"{quick.seconds:.2f}",
            f"{best / 1e6:.3f}",
            f"{bound / 1e6:.3f}",
            f"{quick.latency_ps / best - 1:.3%}",
            f"{best / bound - 1:.3%}",
        ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def solved(problem: MemoryProblem, solver: str, *, seconds: float) -> MapResult:
    run_of = make_map_solver(solver)
    assert problem.core.num_ops > 0  # made here, so that it is part of no solver's time
    return run_of.solve(problem, SearchRun(Budget(evaluations=UNLIMITED, seconds=seconds)))


def us_per_map(problem: MemoryProblem, maps: int = 2000, rounds: int = 5) -> float:
    """Processor time of rectifying and timing one random map on one core, the quickest of a few rounds."""
    drawn = np.random.default_rng(0).integers(0, problem.num_levels, (maps, problem.num_tensors), np.uint8)
    problem.evaluate(drawn[:10])
    took = []
    for _ in range(rounds):
        began = time.process_time()
        problem.evaluate(drawn)
        took.append(time.process_time() - began)
    return min(took) / maps * 1e6


if __name__ == "__main__":
    main()
