"""The grid search behind `tuned-brkga` (REGAL, A.10): 648 settings on training graphs, the best by mean improvement.

    python benchmarks/tune_brkga.py out/synthetic/train.graphs.gz --graphs 200

Writes results/tuned_brkga.csv beside this file. The decoder only compares keys, and one Beta distribution for all keys
maps each uniform draw by the same rising function, so the two Beta parameters cannot matter. That is not taken on
trust: on the first --all-betas graphs all 648 settings run, and the script fails if two that differ in the Beta alone
differ in their results; on the other graphs the 72 settings of everything else run.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np

from placewright.bench.suite import Suite, read_suite
from placewright.files import write_atomically
from placewright.proposal import Proposal
from placewright.search.brkga import Brkga
from placewright.search.budget import Budget

EVALUATIONS = Budget(evaluations=5000)
BETAS = tuple(product((0.5, 1.0, 2.0), repeat=2))
POPULATIONS = (1, 3)
CHROMOSOMES = (30, 60, 100, 200)
ELITE_SHARES = (0.1, 0.2, 0.35)
MUTANT_SHARES = (0.03, 0.08, 0.15)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One point of the grid, Beta parameters apart. chromosomes: in all populations together."""

    chromosomes: int
    elites: int
    mutants: int
    populations: int

    @property
    def method(self) -> Brkga:
        return Brkga(
            population=self.chromosomes // self.populations,
            elites=self.elites,
            mutants=self.mutants,
            populations=self.populations,
            exchange_interval=10,
            exchanged=1,
        )


def settings() -> list[Setting]:
    """72 settings; shares are of one population."""
    return [
        Setting(
            chromosomes=chromosomes,
            elites=max(1, round(elites * (chromosomes // populations))),
            mutants=max(1, round(mutants * (chromosomes // populations))),
            populations=populations,
        )
        for chromosomes, elites, mutants, populations in product(CHROMOSOMES, ELITE_SHARES, MUTANT_SHARES, POPULATIONS)
    ]


@lru_cache(maxsize=1)
def suite_of(path: str) -> Suite:
    return read_suite(path)


def improvements(path: str, index: int, all_betas: bool) -> list[float]:
    """% over BRKGA 5K of every setting on one graph. Raises AssertionError when a Beta matters."""
    suite = suite_of(path)
    problem = suite.problem(suite.graph(index))
    reference = Brkga().solve(problem, EVALUATIONS, seed=1).metrics.step_time_ns
    found = []
    for setting in settings():
        values = {
            setting.method.solve(
                problem, EVALUATIONS, seed=0, proposal=scalar(alpha, beta, problem.core.num_keys)
            ).metrics.step_time_ns
            for alpha, beta in (BETAS if all_betas else [(1.0, 1.0)])
        }
        assert len(values) == 1, f"graph {index}, {setting}: the Beta matters, {sorted(values)}"
        found.append(100 * (1 - values.pop() / reference))
    return found


def scalar(alpha: float, beta: float, num_keys: int) -> Proposal:
    """The same Beta distribution for every key."""
    return Proposal(alpha=np.array([alpha]), beta=np.array([beta]), row=np.zeros(num_keys, np.uint16))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("graphs_file")
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--all-betas", type=int, default=10)
    arguments = parser.parse_args()
    indices = range(arguments.graphs)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        rows = list(
            pool.map(
                improvements,
                [arguments.graphs_file] * len(indices),
                indices,
                [index < arguments.all_betas for index in indices],
            )
        )
    write_table(Path(__file__).parent / "results" / "tuned_brkga.csv", rows)


def write_table(path: Path, rows: list[list[float]]) -> None:
    """One line per setting, best first, with the mean over graphs and its standard error; prints the best."""
    table = []
    for setting, values in zip(settings(), zip(*rows, strict=True), strict=True):
        error = statistics.stdev(values) / len(values) ** 0.5
        table.append({**asdict(setting), "graphs": len(values), "improvement_percent": f"{statistics.mean(values):.3f}",
                      "standard_error": f"{error:.3f}"})  # fmt: skip
    table.sort(key=lambda row: -float(row["improvement_percent"]))
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    write_atomically(path, text.getvalue().encode())
    for row in table[:5]:
        print(row)


if __name__ == "__main__":
    main()
