"""What a second thread gains in the same seconds: `python benchmarks/threads.py [SUITE ...] [--seconds 1]`, on a
machine with nothing else to do. Prints for each suite the mean gain over the best baseline with one thread and with
two, and the share of the step time that the second saves, with its standard error."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from placewright.lab.bench.suite import read_suite
from placewright.search.auto import Auto
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.search_run import SearchRun

SUITES = [
    Path(__file__).parent / "suites" / f"{name}.toml"
    for name in ("real-nvlink-2", "real-nvlink-4", "real-pcie-2", "real-pcie-4")
]
SEEDS = (0, 1)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("suites", type=Path, nargs="*", default=SUITES)
    options.add_argument("--seconds", type=float, default=1.0)
    return options


def main() -> None:
    arguments = parser().parse_args()
    for path in arguments.suites:
        suite = read_suite(path)
        times = []
        for index in range(len(suite.labels)):
            problem = suite.problem(suite.graph(index))
            Auto().solve(problem, SearchRun(Budget(evaluations=2_000)))  # what the problem keeps once made is made
            for seed in SEEDS:
                budget = Budget(evaluations=UNLIMITED, seconds=arguments.seconds)
                one, two = (Auto().solve(problem, SearchRun(budget, seed=seed, threads=threads)) for threads in (1, 2))
                best = min(baseline.metrics.step_time_ns for baseline in one.baselines)
                times.append((best, one.metrics.step_time_ns, two.metrics.step_time_ns))
        best, one, two = np.array(times, float).T
        saved = 100 * (1 - two / one)
        gains = [100 * np.mean(1 - found / best) for found in (one, two)]
        print(
            f"{path.stem}: gain {gains[0]:.2f}% with one thread, {gains[1]:.2f}% with two;"
            f" the second saves {saved.mean():.2f}% ± {saved.std() / len(saved) ** 0.5:.2f}"
        )


if __name__ == "__main__":
    main()
