"""What a second thread gains in the same seconds: `python benchmarks/threads.py [SECONDS]`, on a machine with nothing
else to do. Prints for each suite the mean gain over the best baseline with one thread and with two, and the share of
the step time that the second saves, with its standard error."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from placewright.bench.suite import read_suite
from placewright.search.auto import Auto
from placewright.search.budget import UNLIMITED, Budget

SUITES = ("real-nvlink-2", "real-nvlink-4", "real-pcie-2", "real-pcie-4")
SEEDS = (0, 1)


def main(seconds: float) -> None:
    for name in SUITES:
        suite = read_suite(Path(__file__).parent / "suites" / f"{name}.toml")
        times = []
        for index in range(len(suite.labels)):
            problem = suite.problem(suite.graph(index))
            Auto().solve(problem, Budget(evaluations=2_000), 0)  # what the problem keeps once made is made
            for seed in SEEDS:
                budget = Budget(evaluations=UNLIMITED, seconds=seconds)
                one, two = (Auto(threads=threads).solve(problem, budget, seed) for threads in (1, 2))
                best = min(baseline.metrics.step_time_ns for baseline in one.baselines)
                times.append((best, one.metrics.step_time_ns, two.metrics.step_time_ns))
        best, one, two = np.array(times, float).T
        saved = 100 * (1 - two / one)
        gains = [100 * np.mean(1 - found / best) for found in (one, two)]
        print(
            f"{name}: gain {gains[0]:.2f}% with one thread, {gains[1]:.2f}% with two;"
            f" the second saves {saved.mean():.2f}% ± {saved.std() / len(saved) ** 0.5:.2f}"
        )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
