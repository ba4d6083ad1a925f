"""Strong settings of two baselines, found on training graphs: BRKGA with a Beta distribution for each part of its
chromosome, and local search.

    python benchmarks/tune_strong.py brkga
    python benchmarks/tune_strong.py local-search --take 96

`--candidates` settings drawn at random, the defaults among them, at 5,000 evaluations on --take synthetic training
graphs (seed 1, filtered, two equal devices, free blocking transfers): all on a few graphs, one in four of them on four
times as many, until all graphs are used (halving.py). Those that were tried on all graphs are written to --out, best
first, as % over BRKGA 5K. `brkga-betas` and `local-search-strong` are the best of each.
"""

from __future__ import annotations

import argparse
import csv
import io
import random
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from halving import Scored, halved

from placewright.lab.datasets.headroom import PAPER_MACHINE
from placewright.lab.datasets.synthetic import interesting_graphs
from placewright.lab.learning.regal.actions import beta_parameters
from placewright.lab.peers.brkga import Brkga, KeyBetas
from placewright.lab.peers.local_search import ANYWHERE, LocalSearch
from placewright.machines import load_machine
from placewright.problem import make_problem
from placewright.search.run.budget import Budget
from placewright.search.run.method import Method
from placewright.search.run.search_run import SearchRun
from placewright.support.files import make_folder, write_atomically

TRAINING_SEED = 1
#: Of the means and variances of Beta distributions, as the paper's actions have (A.6).
LEVELS = 16


def brkgas(draw: random.Random) -> Iterator[Brkga]:
    """The paper's settings and those of tuned-brkga, both also with Beta distributions that were found by hand, then
    random ones, every other one near those by hand."""
    for own in (Brkga(), Brkga(population=60, elites=21, mutants=5)):
        yield own
        yield replace(own, betas=KeyBetas(priority=_beta(12, 15), transfer=_beta(3, 0)))
    for near in cycle((False, True)):
        population = draw.choice((30, 60, 100, 200))
        yield Brkga(
            population=population,
            elites=max(1, round(draw.choice((0.1, 0.2, 0.35)) * population)),
            mutants=max(1, round(draw.choice((0.03, 0.08, 0.15)) * population)),
            elite_bias=draw.choice((0.6, 0.7, 0.8)),
            betas=_near(draw) if near else _anywhere(draw),
        )


def _near(draw: random.Random) -> KeyBetas:
    return KeyBetas(
        priority=_beta(draw.randint(9, 15), draw.randint(12, 15)),
        transfer=_beta(draw.randint(0, 6), draw.randint(0, 3)),
    )


def _anywhere(draw: random.Random) -> KeyBetas:
    """Each part uniform one time in three."""
    parts = [
        (1.0, 1.0) if draw.random() < 1 / 3 else _beta(draw.randrange(LEVELS), draw.randrange(LEVELS)) for _ in range(3)
    ]
    return KeyBetas(affinity=parts[0], priority=parts[1], transfer=parts[2])


def _beta(mean: int, variance: int) -> tuple[float, float]:
    """alpha and beta of levels of a mean and a variance."""
    alpha, beta = beta_parameters(LEVELS)
    return round(float(alpha[mean * LEVELS + variance]), 4), round(float(beta[mean * LEVELS + variance]), 4)


def local_searches(draw: random.Random) -> Iterator[LocalSearch]:
    yield LocalSearch()
    while True:
        yield LocalSearch(
            starts=draw.choice((1, 2, 3, 5)),
            device_share=draw.choice((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
            reach=draw.choice((1, 5, 20, 50, ANYWHERE)),
            accept_equal=draw.random() < 0.75,
        )


FAMILIES: dict[str, Any] = {"brkga": brkgas, "local-search": local_searches}


class Trial:
    """Training problems, with what BRKGA reaches on each."""

    def __init__(self, take: int, evaluations: int) -> None:
        machine = load_machine(PAPER_MACHINE)
        graphs = islice(interesting_graphs(seed=TRAINING_SEED), take)
        self._problems = [make_problem(graph, machine, control="order") for graph in graphs]
        self._budget = Budget(evaluations=evaluations)

    @cache  # noqa: B019, a trial lives as long as the script
    def _reference(self, index: int) -> int:
        return self._step_time(Brkga(), index, seed=1)

    def _step_time(self, method: Method, index: int, seed: int) -> int:
        return method.solve(self._problems[index], SearchRun(self._budget, seed=seed)).metrics.step_time_ns

    def gain(self, method: Method, index: int) -> float:
        return 100 * (1 - self._step_time(method, index, seed=0) / self._reference(index))


def table(found: list[Scored[Any]]) -> str:
    rows = []
    for scored in found:
        settings = {name: value for name, value in asdict(scored.candidate).items() if name != "name"}
        parts = settings.pop("betas", None) or {}
        betas = {f"{part}_beta": f"{alpha:g} {beta:g}" for part, (alpha, beta) in parts.items()}
        gained = {
            "graphs": len(scored.gains),
            "improvement_percent": f"{scored.mean:.3f}",
            "standard_error": f"{scored.error:.3f}",
        }
        rows.append({**settings, **betas, **gained})
    names = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("method", choices=FAMILIES)
    options.add_argument("--candidates", type=int, default=64)
    options.add_argument("--take", type=int, default=48, help="training graphs")
    options.add_argument("--evaluations", type=int, default=5000)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    return options


def main() -> None:
    arguments = parser().parse_args()
    make_folder(arguments.out)
    drawn = islice(FAMILIES[arguments.method](random.Random(0)), arguments.candidates)
    trial = Trial(arguments.take, arguments.evaluations)
    found = halved(list(drawn), arguments.take, trial.gain)
    path = arguments.out / f"tuned_strong_{arguments.method.replace('-', '_')}.csv"
    write_atomically(path, table(found).encode())
    print("\n".join(table(found).splitlines()[:6]))


if __name__ == "__main__":
    main()
