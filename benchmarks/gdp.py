"""GDP's tables (Zhou et al. 2020): alone, as one policy of several graphs, on graphs held out, and without its parts.

    python benchmarks/gdp.py OUT [--networks NAME ...] [--held-out NAME ...] [--seeds 1] [--evaluations 1200]
        [--steps 200] [--fine-tune 400] [--machine 2xp100] [--quick]

OUT holds the captured graphs, the trainings, and rows.jsonl, a row as soon as its run ends. Killed and started again it
goes on from there, and with more seeds or networks held out it makes the rows that are missing; with anything else that
is different it refuses. A run takes one core. --quick takes small made graphs and hardly trains: it only shows that all
of it runs. Needs the extras `train` and `zoo`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, log
from pathlib import Path
from typing import Any

from placers import whole_rows

from placewright.graph import Graph
from placewright.importers.graph_set import SUFFIX, read_graph_set, write_graph_set
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.datasets.zoo.workloads import capture_workload, workloads
from placewright.lab.learning.environments.placed_units import measured_on_one_device
from placewright.lab.learning.gdp.policy import GdpPolicy
from placewright.lab.learning.gdp.settings import NetworkSettings
from placewright.lab.learning.gdp.trainings import TRAININGS, GdpTraining
from placewright.lab.learning.placers.gdp import Gdp
from placewright.lab.learning.trainer import train
from placewright.machines import load_machine
from placewright.methods.policy_file import read_policy
from placewright.methods.table import make_method
from placewright.problem import Problem, make_problem
from placewright.search.run.budget import Budget
from placewright.search.run.method import Method
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import shown
from placewright.support.files import locked_folder, make_folder, write_atomically

NETWORKS = ("inception-v3", "transformer-xl2", "rnnlm2")
#: Ends of the names of trainings that leave something out.
VARIANTS = ("-without-noise", "-no-attention", "-no-superposition")
PEERS = ("layer-wise", "m-etf", "annealed-placement", "shared-noise-placement", "auto", "post", "hdp")
Row = dict[str, Any]
#: Name of the part, network, evaluations, and a function that makes the method.
Job = tuple[str, str, int, Callable[[], Method]]


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME", help=f"of {', '.join(workloads())}")
    options.add_argument("--held-out", nargs="*", metavar="NAME", help="of the networks; all by default")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--evaluations", type=int, default=1200, help="of a graph alone")
    options.add_argument("--steps", type=int, default=200, help="of a training over several graphs")
    options.add_argument("--fine-tune", type=int, default=400, help="evaluations after a training")
    options.add_argument("--machine", default="2xp100")
    options.add_argument("--quick", action="store_true")
    return options


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that the rows are made of. trainings: of the machine, by the end of their names, with as many steps as asked
    for."""

    out: Path
    problems: dict[str, Problem]
    graphs: dict[str, Graph]
    trainings: dict[str, GdpTraining]
    evaluations: int
    fine_tune: int

    def alone(self, variant: str = "") -> Gdp:
        policy = self.trainings[variant].policy
        return Gdp(network=policy.network, shared_noise=policy.shared_noise)

    def pre_trained(self, seed: int, variant: str = "", without: str = "") -> Gdp:
        return self.alone().with_policy(self._policy(seed, variant, without))

    def _policy(self, seed: int, variant: str, without: str) -> GdpPolicy:
        """A policy trained over all graphs but `without`; a training that was killed goes on from there."""
        name = f"all{variant}" if not without else f"without-{without}{variant}"
        name += f"-seed-{seed}" if seed else ""
        data = self.out / "data" / (without or "all")
        make_folder(data)
        kept = [graph for network, graph in self.graphs.items() if network != without]
        for split in ("train", "valid"):
            if not (path := data / f"{split}{SUFFIX}").exists():
                write_graph_set(path, kept, {})
        policy = read_policy(train(data, self.trainings[variant], self.out / "trainings" / name, name=name, seed=seed))
        assert isinstance(policy, GdpPolicy)
        if (stopped := policy.record["learned"]["stopped"]) is not None:
            print(f"the training {name} was stopped: {stopped}", flush=True)
        return policy


def main() -> None:
    arguments = parser().parse_args()
    with locked_folder(arguments.out, "another comparison writes to"):
        check_settings(arguments)
        comparison = comparison_of(arguments)
        held_out = list(comparison.graphs) if arguments.held_out is None else arguments.held_out
        held_out = held_out[:1] if arguments.quick else held_out
        rows = [row for seed in range(arguments.seeds) for row in rows_of(comparison, seed, held_out)]
        print_tables(rows, list(comparison.graphs))


def check_settings(arguments: argparse.Namespace) -> None:
    """Check that the rows of a folder are of the same networks, machine and budgets; else end the script."""
    path = arguments.out / "settings.json"
    names = ("networks", "machine", "evaluations", "steps", "fine_tune", "quick")
    asked = {name: getattr(arguments, name) for name in names} | {"networks": list(arguments.networks)}
    if not path.exists():
        write_atomically(path, json.dumps(asked).encode() + b"\n")
    elif different := [name for name, value in json.loads(path.read_bytes()).items() if asked[name] != value]:
        raise SystemExit(f"'{shown(path)}' has other {', '.join(different)}; take another folder")


def comparison_of(arguments: argparse.Namespace) -> Comparison:
    out, quick = arguments.out, arguments.quick
    names = ["made-0", "made-1"] if quick else list(arguments.networks)
    graphs = {name: made_graph(name) if quick else captured(out / "graphs", name) for name in names}
    machine = load_machine(arguments.machine)
    steps = 3 if quick else arguments.steps
    variants = ("", *(() if quick else VARIANTS))
    trainings = {variant: replace(TRAININGS[f"{arguments.machine}{variant}"], steps=steps) for variant in variants}
    if quick:
        network = NetworkSettings(width=8, rounds=1, layers=1, heads=2, segment=32, memory=32)
        trainings = {"": replace(trainings[""], policy=replace(trainings[""].policy, network=network))}
    return Comparison(
        out=out,
        problems={name: make_problem(graph, machine) for name, graph in graphs.items()},
        graphs=graphs,
        trainings=trainings,
        evaluations=40 if quick else arguments.evaluations,
        fine_tune=40 if quick else arguments.fine_tune,
    )


def captured(folder: Path, name: str) -> Graph:
    """The graph of a workload, which is captured once."""
    path = folder / f"{name}{SUFFIX}"
    if not path.exists():
        make_folder(folder)
        write_graph_set(path, [capture_workload(name)], {})
    return read_graph_set(path)[0]


def made_graph(name: str) -> Graph:
    return replace(random_graph(0, int(name.rpartition("-")[2])), name=name)


def rows_of(comparison: Comparison, seed: int, held_out: Sequence[str]) -> list[Row]:
    """All rows of one seed; those that are not on disk are made and appended."""
    path, rows = comparison.out / "rows.jsonl", []
    known = {(row["part"], row["network"], row["seed"]): row for row in whole_rows(path)}

    for part, network, evaluations, make in jobs_of(comparison, seed, held_out):
        if (part, network, seed) not in known:
            row = row_of(comparison.problems[network], make(), evaluations, seed)
            known[part, network, seed] = row = {"part": part, "network": network, "seed": seed, **row}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{part}, {network}: {row['step_time_ns'] / 1e6:.3f} ms in {row['seconds']:.0f} s", flush=True)
        rows.append(known[part, network, seed])
    return rows


def jobs_of(comparison: Comparison, seed: int, held_out: Sequence[str]) -> Iterator[Job]:
    """The jobs of a seed, cheap ones first; a training is only made when a row needs its policy."""
    evaluations = comparison.evaluations
    pre_trained = partial(comparison.pre_trained, seed)
    at_once = comparison.alone().zero_shot_evaluations(next(iter(comparison.problems.values())))
    for network in comparison.graphs:
        yield "untrained", network, at_once, comparison.alone
        yield "alone", network, evaluations, comparison.alone
        for peer in PEERS:
            yield peer, network, evaluations, partial(make_method, peer)
    for network in comparison.graphs:
        yield "batch", network, at_once, pre_trained
        yield "batch, fine-tuned", network, comparison.fine_tune, pre_trained
    for network in held_out:
        make = partial(pre_trained, without=network)
        yield "held out", network, at_once, make
        yield "held out, fine-tuned", network, comparison.fine_tune, make
    for variant in filter(None, comparison.trainings):
        for network in comparison.graphs:
            yield f"untrained{variant}", network, at_once, partial(comparison.alone, variant)
            yield f"alone{variant}", network, evaluations, partial(comparison.alone, variant)
            yield f"batch{variant}", network, at_once, partial(pre_trained, variant)


def row_of(problem: Problem, method: Method, evaluations: int, seed: int) -> Row:
    found: Result = method.solve(problem, SearchRun(Budget(evaluations=evaluations), seed=seed))
    return {
        "step_time_ns": found.metrics.step_time_ns,
        "bytes_over_limit": found.metrics.bytes_over_limit,
        "one_device_ns": int(measured_on_one_device(problem).reference),
        "found_by": found.found_by,
        "evaluations": found.evaluations,
        "seconds": round(found.seconds, 2),
        "trace": [
            [point.evaluations, point.seconds, point.best] for point in found.trace if not point.bytes_over_limit
        ],
    }


def print_tables(rows: Sequence[Row], networks: Sequence[str]) -> None:
    parts = list(dict.fromkeys(row["part"] for row in rows))
    print(f"\nStep time over that of one device, mean over seeds\n\n| | {' | '.join(networks)} | geometric mean |")
    print("|---|" + "---:|" * (len(networks) + 1))
    for part in parts:
        means = [mean_ratio(rows, part, network) for network in networks]
        shown = [f"{mean:.3f}" if mean else "" for mean in means]
        whole = [mean for mean in means if mean]
        print(f"| {part} | {' | '.join(shown)} | {exp(statistics.mean(log(mean) for mean in whole)):.3f} |")
    print("\nEvaluations until as good as the end of:\n\n| | " + " | ".join(networks) + " |")
    print("|---|" + "---:|" * len(networks))
    for part, goal in (
        ("alone", "hdp"),
        ("alone", "post"),
        ("batch, fine-tuned", "alone"),
        ("held out, fine-tuned", "alone"),
    ):
        print(f"| {part} as {goal} | {' | '.join(reached(rows, part, goal, network) for network in networks)} |")


def mean_ratio(rows: Sequence[Row], part: str, network: str) -> float | None:
    of_part = [row for row in rows if (row["part"], row["network"]) == (part, network)]
    return statistics.mean(row["step_time_ns"] / row["one_device_ns"] for row in of_part) if of_part else None


def reached(rows: Sequence[Row], part: str, goal: str, network: str) -> str:
    """Evaluations until `part` is as good as `goal` ends: the lower median of the seeds, "never" if half or more do not
    get there, and "" without such rows."""
    counts = []
    for row in (row for row in rows if (row["part"], row["network"]) == (part, network)):
        ends = [r["step_time_ns"] for r in rows if (r["part"], r["network"], r["seed"]) == (goal, network, row["seed"])]
        counts.append(next((at for at, _, best in row["trace"] if ends and best <= ends[0]), inf))
    if not counts:
        return ""
    return "never" if counts.count(inf) * 2 >= len(counts) else f"{statistics.median_low(counts)}"


if __name__ == "__main__":
    main()
