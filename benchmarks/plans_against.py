"""Plans of `auto` beside those of an earlier commit, by default and within seconds of processor time:

    python benchmarks/plans_against.py FOLDER [--graphs SET] [--networks NAME ...] [--devices SPEC ...] [--seconds 1]
        [--seeds 3]

FOLDER holds the package of the earlier commit, as `make bench-against` puts it there. Both plan in turn, each in a
process of its own, on one thread. SET is a graph set, by default that of the 23 real networks.

A row for each network and machine, of the earlier package and of this one: mean step time by default and within the
limit, in percent of the earlier default; standard deviation of the limit's between seeds, in percent; processor
seconds of a default. Then means over the rows, and how often the limit is worse than the default.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
from against import Package
from numpy.typing import NDArray

from placewright.importers.graph_set import read_graph_set

REAL = Path(__file__).parent / "instances" / "real-networks.graphs.gz"
DEVICES = ("2xv100-32g/nvlink", "4xv100-32g/nvlink", "2xv100-32g/pcie3", "4xv100-32g/pcie3")


def step_times(
    packages: tuple[Package, Package], graph: str, devices: str, seconds: float, seeds: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[package, default or limit, seed] step times in ns, and [package] least seconds of processor time by default."""
    found, taken = np.empty((2, 2, seeds)), np.full(2, np.inf)
    for seed, column in product(range(seeds), range(2)):
        for row in (0, 1) if seed % 2 == 0 else (1, 0):
            limit = ("default", seconds)[column]
            cost, found[row, column, seed] = packages[row].plan(graph, devices, limit, seed)
            if column == 0:
                taken[row] = min(taken[row], cost)
    return found, taken


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("base", type=Path, metavar="FOLDER")
    options.add_argument("--graphs", type=Path, default=REAL, metavar="SET")
    options.add_argument("--networks", nargs="+", metavar="NAME", help="all of the set without")
    options.add_argument("--devices", nargs="+", default=DEVICES, metavar="SPEC")
    options.add_argument("--seconds", type=float, default=1.0)
    options.add_argument("--seeds", type=int, default=3)
    return options


def main() -> None:
    arguments = parser().parse_args()
    if not (arguments.base / "placewright").is_dir():
        raise SystemExit(f"'{arguments.base}' holds no package 'placewright'")
    packages = Package(arguments.base, "limited_plans.py"), Package(None, "limited_plans.py")
    names = arguments.networks or [graph.name for graph in read_graph_set(arguments.graphs)]
    means, deviations, worse = [], [], []
    print(f"| network, devices | default: before, now | {arguments.seconds:g} s | deviation | seconds of a default |")
    print("|---|---:|---:|---:|---:|")
    for name, devices in product(names, arguments.devices):
        found, taken = step_times(packages, f"{arguments.graphs}:{name}", devices, arguments.seconds, arguments.seeds)
        mean = found.mean(axis=2) * 100 / found[0, 0].mean()
        deviation = 100 * found[:, 1].std(axis=1, ddof=1) / found[:, 1].mean(axis=1)
        means.append(mean)
        deviations.append(deviation)
        worse.append((found[:, 1] > found[:, 0]).mean(axis=1))
        print(
            f"| {name}, {devices} | 100, {mean[1, 0]:.2f} | {mean[0, 1]:.2f}, {mean[1, 1]:.2f} |"
            f" {deviation[0]:.2f}, {deviation[1]:.2f} | {taken[0]:.2f}, {taken[1]:.2f} |",
            flush=True,
        )
    for row, label in enumerate(("before", "now")):
        default, limited = np.mean(means, axis=0)[row]
        spread = np.array(deviations)[:, row]
        print(
            f"{label}: default {default:.2f}, {arguments.seconds:g} s {limited:.2f}; deviation {spread.mean():.2f}%,"
            f" above 1% on {(spread > 1).sum()} of {len(spread)}; the limit is worse than the default in"
            f" {100 * np.mean(worse, axis=0)[row]:.0f}% of the runs"
        )
    for package in packages:
        package.close()


if __name__ == "__main__":
    main()
