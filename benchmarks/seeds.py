"""How much the plan of `auto` depends on the seed: `python benchmarks/seeds.py [SUITE ...] [--seeds 5]`, at the
default budget of evaluations (or --evaluations) and at four times it.

For each suite the mean over its graphs of the gain over the best baseline, and of the standard deviation between seeds
in percent of the step time; how many graphs have more than 1%, and by how much more evaluations gave a worse plan, at
most.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from placewright.lab.bench.suite import read_suite
from placewright.problem import Problem
from placewright.search.default_budget import default_evaluations
from placewright.search.metaheuristics.default_first import DefaultFirst
from placewright.search.portfolio import run_baselines
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun

SUITES = [
    Path(__file__).parent / "suites" / f"{name}.toml"
    for name in ("real-nvlink-2", "real-nvlink-4", "real-pcie-2", "real-pcie-4")
]
TIMES = (1, 4)


def step_times(problem: Problem, seeds: int, evaluations: int | None) -> tuple[int, NDArray[np.float64]]:
    """Of the best baseline, and [times the default budget, seed]."""
    baselines: list[Result] = sorted(run_baselines(problem, SearchRun()), key=lambda r: r.metrics.fitness("step-time"))
    best = baselines[0].metrics.step_time_ns
    default = evaluations or default_evaluations(problem)
    search = DefaultFirst(baselines=baselines, evaluations=UNLIMITED)
    found = np.empty((len(TIMES), seeds))
    for index, times in enumerate(TIMES):
        budget = Budget(evaluations=default * times)
        for seed in range(seeds):
            result = search.solve(problem, SearchRun(budget, seed=seed))
            found[index, seed] = min(best, result.metrics.step_time_ns)
    return best, found


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("suites", type=Path, nargs="*", default=SUITES)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--evaluations", type=int, help="in place of the default budget")
    return options


def main() -> None:
    arguments = parser().parse_args()
    for path in arguments.suites:
        suite, name = read_suite(path), path.stem
        gains, spreads, losses = [], [], []
        for index, label in enumerate(suite.labels):
            best, found = step_times(suite.problem(suite.graph(index)), arguments.seeds, arguments.evaluations)
            gains.append(100 * (1 - found.mean(axis=1) / best))
            spreads.append(100 * found.std(axis=1, ddof=1) / found.mean(axis=1))
            losses.append(100 * (found[1] / found[0] - 1).max())
            print(f"  {label}: gain {gains[-1].round(2).tolist()} spread {spreads[-1].round(2).tolist()}", flush=True)
        for column, times in enumerate(TIMES):
            spread, gain = np.array(spreads)[:, column], np.array(gains)[:, column]
            print(
                f"{name}, {times} x default: gain {gain.mean():.2f}%, standard deviation {spread.mean():.2f}% of the"
                f" step time, above 1% on {(spread > 1).sum()} of {len(spread)}"
            )
        print(f"{name}: worse with more evaluations by {max(losses):.2f}% at most")


if __name__ == "__main__":
    main()
