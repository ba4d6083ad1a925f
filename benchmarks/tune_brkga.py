"""The grid search behind `tuned-brkga` (REGAL, A.10): 648 settings on training graphs, 5,000 evaluations each.

    python benchmarks/tune_brkga.py out/synthetic/train.graphs.gz --graphs 200

Each graph's results are kept in --kept as they come, and a rerun goes on from there; at the end tuned_brkga.csv in
--results has a line per setting, best first.

The decoder only compares keys, and one Beta distribution for all keys maps every uniform draw by the same rising
function, so the two Beta parameters change nothing but which draws fall together on the grid of 32-bit keys:
results/tuned_brkga_betas.md says how many results differ from those with a uniform Beta. All 648 settings take 20 s of
one core per graph; beyond the first --all-betas graphs only the 72 settings of everything else run.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from placewright.lab.bench.suite import Suite, read_suite
from placewright.lab.peers.brkga import Brkga
from placewright.proposal import Proposal
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.files import write_atomically

#: The uniform one first.
UNIFORM = (1.0, 1.0)
BETAS = (UNIFORM, *(pair for pair in product((0.5, 1.0, 2.0), (0.5, 1.0, 2.0)) if pair != UNIFORM))
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


def improvements(path: str, index: int, betas: Sequence[tuple[float, float]], evaluations: int) -> list[float]:
    """% over BRKGA 5K of every setting and Beta on one graph, Betas running fastest."""
    suite, budget = suite_of(path), Budget(evaluations=evaluations)
    problem = suite.problem(suite.graph(index))
    reference = Brkga().solve(problem, SearchRun(budget, seed=1)).metrics.step_time_ns
    values = [
        setting.method.solve(problem, SearchRun(budget, guide=scalar(alpha, beta, problem.core.num_keys)))
        for setting in settings()
        for alpha, beta in betas
    ]
    return [round(100 * (1 - value.metrics.step_time_ns / reference), 4) for value in values]


def scalar(alpha: float, beta: float, num_keys: int) -> Proposal:
    """The same Beta distribution for every key."""
    return Proposal(alpha=np.array([alpha]), beta=np.array([beta]), row=np.zeros(num_keys, np.uint16))


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("graphs_file", nargs="?", default="out/synthetic/train.graphs.gz")
    options.add_argument("--graphs", type=int, default=200)
    options.add_argument("--all-betas", type=int, default=200)
    options.add_argument("--evaluations", type=int, default=5000)
    options.add_argument("--kept", type=Path, default=Path("out/tuned_brkga.jsonl"))
    options.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    return options


def main() -> None:
    arguments = parser().parse_args()
    kept, results = arguments.kept, arguments.results
    kept.parent.mkdir(parents=True, exist_ok=True)
    done = dict(whole_lines(kept))
    betas: list[Sequence[tuple[float, float]]]
    betas = [BETAS if index < arguments.all_betas else (UNIFORM,) for index in range(arguments.graphs)]
    missing = [i for i, own in enumerate(betas) if len(done.get(i, ())) < len(settings()) * len(own)]
    with ProcessPoolExecutor(os.cpu_count()) as pool, kept.open("a") as file:
        running = {
            pool.submit(improvements, arguments.graphs_file, index, betas[index], arguments.evaluations): index
            for index in missing
        }
        for future in as_completed(running):
            done[running[future]] = future.result()
            file.write(json.dumps([running[future], future.result()]) + "\n")
            file.flush()
    of_all_betas = [values for values in done.values() if len(values) == len(settings()) * len(BETAS)]
    write_betas(results / "tuned_brkga_betas.md", np.array(of_all_betas).reshape(len(of_all_betas), -1, len(BETAS)))
    uniform = [values[:: len(values) // len(settings())] for _, values in sorted(done.items())]
    write_table(results / "tuned_brkga.csv", np.array(uniform))


def whole_lines(path: Path) -> Iterator[tuple[int, list[float]]]:
    """Index and results of each graph kept; a last line that a kill cut short is passed over."""
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            index, values = json.loads(line)
            yield index, values


def write_betas(path: Path, improvements: NDArray[np.float64]) -> None:
    """improvements: float64 [num graphs, 72, 9], the uniform Beta first. Says how much the Beta matters."""
    others = improvements[:, :, 1:]
    differing = (others != improvements[:, :, :1]).sum()
    lines = [
        "# What the two Beta parameters change in tuned BRKGA",
        "",
        f"All 648 settings on {len(improvements)} training graphs (`python benchmarks/tune_brkga.py`).",
        f"Of {others.size:,} results with another Beta than the uniform one {differing:,} differ from those with it.",
        "",
        "| Beta | % over BRKGA 5K |",
        "|---|---:|",
        *(
            f"| {alpha:g}, {beta:g} | {mean:+.3f} |"
            for (alpha, beta), mean in zip(BETAS, improvements.mean(axis=(0, 1)), strict=True)
        ),
    ]
    write_atomically(path, ("\n".join(lines) + "\n").encode())
    print("\n".join(lines))


def write_table(path: Path, improvements: NDArray[np.float64]) -> None:
    """improvements: float64 [num graphs, 72], with a uniform Beta. One line per setting; prints the best."""
    error = improvements.std(axis=0, ddof=1) / len(improvements) ** 0.5
    table = [
        {
            **asdict(setting),
            "graphs": len(improvements),
            "improvement_percent": f"{improvements[:, i].mean():.3f}",
            "standard_error": f"{error[i]:.3f}",
        }
        for i, setting in enumerate(settings())
    ]
    table.sort(key=lambda row: -float(row["improvement_percent"]))
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    write_atomically(path, text.getvalue().encode())
    for row in table[:8]:
        print(row)


if __name__ == "__main__":
    main()
