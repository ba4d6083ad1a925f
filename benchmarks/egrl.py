"""EGRL's comparison (Khadka et al. 2021): methods at equal numbers of evaluations.

    python benchmarks/egrl.py OUT [--networks NAME ...] [--methods NAME ...] [--seeds 5] [--evaluations 4000]

`placewright bench run benchmarks/suites/egrl.toml` compares the same solvers; this script keeps what rows of `bench` do
not hold: checkpoints of runs that take hours, the policy at five stages, and of every run its trace and its map, which
the figures draw.

Prints the speed-ups over the compiler's map, mean and standard deviation over the seeds. OUT holds rows.jsonl, a row as
soon as its run ends; the checkpoints of runs that have not ended; and each graph policy at five stages. Killed and
started again it goes on from there, and with more networks, methods or seeds it makes the rows that are missing. A run
takes one core: start it once per core, with other --networks and another OUT. Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from placewright.lab.datasets.fused.networks import FUSED, fused_network
from placewright.lab.learning.algorithms.egrl import Egrl
from placewright.lab.learning.egrl.settings import GradientSettings, Mode
from placewright.lab.learning.egrl.solvers import MapLearner, policy_of
from placewright.lab.learning.environments.memory_map import MemoryMapEnvironment
from placewright.lab.memory_levels.chips import load_chip
from placewright.lab.memory_levels.compilers import BASELINE, COMPILERS
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.run import MapSolver
from placewright.lab.memory_levels.solvers.table import MAP_SOLVERS, make_map_solver
from placewright.methods.policy_file import write_policy
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.files import locked_folder, make_folder
from placewright.support.modules import load_extensions

PAPER_NETWORKS = ("resnet50-int8", "resnet101-int8", "bert-base-384-int8")
LEARNERS = ("egrl", "ea", "pg")
METHODS = (*LEARNERS, "greedy-dp", "local-search", "random")
STAGES = 5
Row = dict[str, Any]


def parser() -> argparse.ArgumentParser:
    load_extensions()  # the laboratory's methods are choices too
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--networks", nargs="+", choices=list(FUSED), default=PAPER_NETWORKS)
    options.add_argument("--methods", nargs="+", choices=list(MAP_SOLVERS), default=METHODS)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--evaluations", type=int, default=4000)
    options.add_argument("--mode", choices=["paper", "fixed"], default="fixed")
    options.add_argument("--gradient-steps", type=float, default=1.0, help="of the learners, per evaluation")
    options.add_argument("--chip", default="nnpi")
    return options


def main() -> None:
    arguments = parser().parse_args()
    problems = {
        name: make_memory_problem(fused_network(name), load_chip(arguments.chip)) for name in arguments.networks
    }
    with locked_folder(arguments.out, "another comparison writes to"):
        rows = missing_rows_made(arguments, problems)
        print_table(rows, arguments.methods, problems)


def missing_rows_made(arguments: argparse.Namespace, problems: dict[str, MemoryProblem]) -> list[Row]:
    """The rows that were asked for; those that are not on disk are made and appended."""
    path = arguments.out / "rows.jsonl"
    cut_row_removed(path)
    known = {row["run"]: row for row in whole_rows(path)}
    rows = []
    for seed in range(arguments.seeds):
        for network in problems:
            for method in arguments.methods:
                run = run_name(arguments, network, method, seed)
                if run not in known:
                    known[run] = row_of(arguments, problems[network], network, method, seed)
                    with path.open("a") as file:
                        file.write(json.dumps(known[run]) + "\n")
                rows.append(known[run])
    return rows


def whole_rows(path: Path) -> list[Row]:
    """The rows of the file, without the last one if a kill has cut it."""
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def cut_row_removed(path: Path) -> None:
    """Remove a last row that a kill has cut, so that the next one begins a line."""
    if path.exists():
        text = path.read_text()
        path.write_text(text[: text.rfind("\n") + 1])


def run_name(arguments: argparse.Namespace, network: str, method: str, seed: int) -> str:
    """A name that holds all that decides a row."""
    name = f"{arguments.chip.replace('/', '-')}-{network}-{method}-{arguments.evaluations}-seed{seed}"
    return f"{name}-{arguments.mode}-{arguments.gradient_steps:g}" if method in LEARNERS else name


def row_of(arguments: argparse.Namespace, problem: MemoryProblem, network: str, method: str, seed: int) -> Row:
    name = run_name(arguments, network, method, seed)
    solver: MapSolver = make_map_solver(method)
    checkpoint = arguments.out / "checkpoints" / f"{name}.pt"
    if method in LEARNERS:
        make_folder(checkpoint.parent)
        solver = learner(method, arguments, checkpoint, arguments.out / "policies" / name, network)
    before = problem.evaluate_one(COMPILERS[BASELINE](problem))[0]
    run = SearchRun(Budget(evaluations=arguments.evaluations), seed=seed)
    found = solver.solve(problem, run)
    checkpoint.unlink(missing_ok=True)
    row = {
        "run": name,
        "network": network,
        "method": method,
        "seed": seed,
        "mode": arguments.mode,
        "compiler_ps": before,
        "latency_ps": found.latency_ps,
        "evaluations": found.evaluations,
        "seconds_since_start": round(found.seconds, 1),
        "found_by": found.found_by,
        "trace": [[point.evaluations, point.best] for point in found.trace],
        "levels": found.levels.tolist(),
    }
    print(f"{name}: {before / found.latency_ps:.3f} in {found.seconds:.0f} s", flush=True)
    return row


def learner(method: Any, arguments: argparse.Namespace, checkpoint: Path, policies: Path, network: str) -> MapLearner:
    """A learner whose policy is written at each stage of its training, except for `ea`."""
    mode: Mode = arguments.mode

    def keep(of: Egrl, environment: MemoryMapEnvironment) -> None:
        stage = environment.run.evaluations * STAGES // arguments.evaluations
        path = policies / f"{stage}.safetensors"
        if stage >= 1 and not path.exists():
            make_folder(policies)
            record = {
                "network": network,
                "method": method,
                "mode": mode,
                "evaluations": environment.run.evaluations,
                "seed": environment.run.seed,
                "gradient_steps": arguments.gradient_steps,
            }
            write_policy(policy_of(of, f"{method}-{network}", record), path)

    return MapLearner(
        name=method,
        mode=mode,
        gradient=GradientSettings(gradient_steps=arguments.gradient_steps, mode=mode),
        checkpoint=checkpoint,
        on_generation=None if method == "ea" else keep,
    )


def print_table(rows: list[Row], methods: list[str], problems: dict[str, MemoryProblem]) -> None:
    print(f"\n| network | {' | '.join(methods)} |")
    print("|---|" + "---:|" * len(methods))
    for network in problems:
        cells = []
        for method in methods:
            gains = [speedup(row) for row in rows if (row["network"], row["method"]) == (network, method)]
            cells.append(f"{statistics.mean(gains):.3f} ± {statistics.pstdev(gains):.3f}")
        print(f"| {network} | {' | '.join(cells)} |")


def speedup(row: Row) -> float:
    return float(row["compiler_ps"] / row["latency_ps"])


if __name__ == "__main__":
    main()
