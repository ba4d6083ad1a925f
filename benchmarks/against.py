"""Speed of the current core as a ratio to an earlier commit's, both run in turn: `make bench-against BASE=93c3b0d`.

    python benchmarks/against.py FOLDER [--ops 150 2000 20000] [--rounds N]

FOLDER holds the package of the earlier commit, as `pip install --target FOLDER` puts it there. Each of the two runs in
a process of its own and plans the same random graphs of so many ops on the paper's machine, on one thread, with
random-search (decode and simulate of random chromosomes), brkga and annealing. What counts is the processor time of a
plan with many evaluations less that of one with a single evaluation, each the least of several rounds in which the two
packages take turns. Prints one line per figure, "case; what; value; unit; target", as core_speed does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
from collections import defaultdict
from itertools import product
from pathlib import Path

SOLVERS = {"random-search": "decode + simulate", "brkga": "BRKGA", "annealing": "annealing"}
#: Evaluations that take a few tenths of a second, and rounds.
EVALUATIONS = {150: 20_000, 2_000: 1_500, 20_000: 200}
ROUNDS = {150: 15, 2_000: 11, 20_000: 7}
#: The most by which two runs of the same package differ on a machine that is not quite quiet.
TARGET = "<= 1.03"


class Package:
    """A process with the package of a folder; without one, that of this interpreter. worker: the script of this folder
    that it runs, which answers each line with one."""

    def __init__(self, folder: Path | None, worker: str) -> None:
        command, environment = [sys.executable], dict(os.environ)
        if folder is not None:
            # Without site (-S) nothing that is installed for this interpreter takes the place of the folder.
            command.append("-S")
            environment["PYTHONPATH"] = os.pathsep.join([str(folder), sysconfig.get_path("purelib")])
        command.append(str(Path(__file__).parent / worker))
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def plan(self, *asked: object) -> tuple[float, int]:
        """Seconds of processor time, and the step time of the plan in ns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*asked, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().split()
        if len(answer) != 2:
            raise SystemExit(f"the package did not plan {' '.join(map(str, asked))}; see the message above")
        return float(answer[0]), int(answer[1])

    def close(self) -> None:
        self._process.communicate()


def seconds_of_both(packages: tuple[Package, Package], solver: str, num_ops: int, rounds: int) -> tuple[float, float]:
    """Processor seconds of many evaluations less those of one, with the base and with the current package; says on
    stderr if their plans differ."""
    many = EVALUATIONS.get(num_ops, max(100, 3_000_000 // num_ops))
    taken: dict[tuple[Package, int], list[float]] = defaultdict(list)
    found: dict[tuple[Package, int], int] = {}
    for number in range(rounds + 1):
        in_turn = packages if number % 2 else packages[::-1]
        for evaluations, package in product((1, many), in_turn):
            seconds, found[package, evaluations] = package.plan(solver, num_ops, evaluations)
            if number:  # the first round fills caches
                taken[package, evaluations].append(seconds)
    if len({found[package, many] for package in packages}) > 1:
        print(f"{solver}, {num_ops} ops: the plans of the two differ", file=sys.stderr)
    base, now = (min(taken[package, many]) - min(taken[package, 1]) for package in packages)
    return base, now


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("base", type=Path, metavar="FOLDER")
    options.add_argument("--ops", type=int, nargs="+", default=list(EVALUATIONS))
    options.add_argument("--rounds", type=int, help="15, 11 and 7 for the three sizes without")
    return options


def main() -> None:
    arguments = parser().parse_args()
    if not (arguments.base / "placewright").is_dir():
        raise SystemExit(f"'{arguments.base}' holds no package 'placewright'")
    packages = Package(arguments.base, "timed_plans.py"), Package(None, "timed_plans.py")
    for num_ops, (solver, what) in product(arguments.ops, SOLVERS.items()):
        rounds = arguments.rounds or ROUNDS.get(num_ops, 7)
        base, now = seconds_of_both(packages, solver, num_ops, rounds)
        print(f"{num_ops} ops; {what}, against {arguments.base.name}; {now / base:.3f}; times; {TARGET}", flush=True)
    for package in packages:
        package.close()


if __name__ == "__main__":
    main()
