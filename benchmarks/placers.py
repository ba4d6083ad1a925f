"""Learned placers against methods without learning, at equal numbers of evaluations: ColocRL's and GDP's tables, and
all methods.

    python benchmarks/placers.py OUT [--workloads NAME ...] [--machines NAME ...] [--gdp-cases] [--methods NAME ...]
                                 [--seeds 3] [--evaluations 1000] [--seconds 10]

Prints tables of the step times of the plans that methods end with, over those of the best single device; and the
evaluations and the seconds of networks and of simulation that they took. OUT holds rows.jsonl, a row as soon as its run
ends. Killed and started again it goes on from there, and with more of anything it makes the rows that are missing, one
seed of all before the next; --report makes none. The independent checker judges every plan, and its placement under
blocking transfers too. A machine with a share behind it, 4xp100@1.2, has that many times an equal part of the memory of
what one device would need alone; times are in ms if no single device holds the network. Seconds are of the
processor. Needs the extras `zoo` and `metis`.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import placewright._core as _core
from placewright.graph import Graph
from placewright.lab.datasets.zoo.workloads import capture_workload, with_variables, workloads
from placewright.lab.learning.environments.first_come import FirstComeEnvironment
from placewright.lab.learning.placers.placer import LearnedPlacer
from placewright.machines import load_machine
from placewright.methods.table import METHODS, make_method
from placewright.plans.assemble import assemble_plan
from placewright.problem import Problem, make_problem
from placewright.search.constructive.baseline import Baseline
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.method import Method
from placewright.search.run.result import Result, measure
from placewright.search.run.search_run import SearchRun
from placewright.support.files import locked_folder
from placewright.support.modules import load_extensions
from placewright.verification.checker import check_plan

LEARNERS = ("post", "hdp", "colocrl", "placeto", "gdp", "spotlight")
#: GDP that learns nothing from what it draws, GDP without the noise that neighbours share, and both.
GDP_VARIANTS: dict[str, dict[str, Any]] = {
    "gdp-untrained": {"learning_rate": 0.0},
    "gdp-without-noise": {"shared_noise": 0.0},
    "gdp-untrained-without-noise": {"learning_rate": 0.0, "shared_noise": 0.0},
}
SEARCHES = (
    "random-placement",
    "shared-noise-placement",
    "annealed-placement",
    "brkga-placement",
    "auto",
)
CHEAP = ("single-device", "layer-wise", "contiguous-split", "metis-dfs", "gp-dfs", "heft", "m-topo", "m-etf", "m-sct")
#: Methods that also run under a limit in seconds.
TIMED = ("annealed-placement", "auto")
#: Methods in table 2 of ColocRL's paper other than the single devices and ColocRL itself.
TABLE_2 = {"Scotch (here METIS)": "metis-dfs", "MinCut (here gp-dfs)": "gp-dfs", "Expert": "layer-wise"}
#: The networks of GDP's table, each with the devices that it has there.
GDP_CASES = (
    ("rnnlm2", "2xp100"),
    ("rnnlm4", "4xp100"),
    ("gnmt2", "2xp100"),
    ("gnmt4", "4xp100"),
    ("gnmt8", "8xp100"),
    ("transformer-xl2", "2xp100"),
    ("transformer-xl4", "4xp100"),
    ("transformer-xl8", "8xp100"),
    ("inception-v3", "2xp100"),
    ("amoebanet-d", "4xp100"),
    ("wavenet2x18", "2xp100"),
    ("wavenet4x36", "4xp100"),
)
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run. seconds: its time limit, in place of evaluations."""

    workload: str
    machine: str
    method: str
    seed: int
    evaluations: int
    seconds: float | None = None

    @property
    def name(self) -> str:
        limit = f"{self.seconds:g}s" if self.seconds else f"{self.evaluations}"
        return f"{self.workload} {self.machine} {self.label} {limit} seed{self.seed}"

    @property
    def label(self) -> str:
        """Name of its line in the tables."""
        return f"{self.method} {self.seconds:g} s" if self.seconds else self.method

    @property
    def case(self) -> str:
        return f"{self.workload}, {self.machine}"

    @property
    def budget(self) -> Budget:
        return Budget(evaluations=UNLIMITED if self.seconds else self.evaluations, seconds=self.seconds)


def parser() -> argparse.ArgumentParser:
    load_extensions()  # the laboratory's methods are choices too
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--workloads", nargs="+", choices=[*workloads(), "tiny"], metavar="NAME", help="of the zoo")
    options.add_argument("--machines", nargs="+", metavar="NAME")
    options.add_argument("--gdp-cases", action="store_true", help="instead, the networks and devices of GDP's table")
    options.add_argument("--methods", nargs="+", choices=[*METHODS, *GDP_VARIANTS], metavar="NAME")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--evaluations", type=int, default=1000)
    options.add_argument("--seconds", type=float, default=10.0, help=f"of the wall, of {' and '.join(TIMED)} once more")
    options.add_argument("--report", action="store_true", help="only print the tables of the rows that are there")
    options.add_argument("--quick", action="store_true", help="something tiny")
    return options


def main() -> None:
    arguments = parser().parse_args()
    if arguments.quick:
        arguments.workloads, arguments.machines = ["tiny"], ["2xp100"]
        arguments.seeds, arguments.evaluations, arguments.seconds = 1, 20, 0.05
    arguments.workloads = arguments.workloads or ["rnnlm2", "nmt2", "inception-v3"]
    arguments.machines = arguments.machines or ["2xp100", "4xp100"]
    arguments.methods = arguments.methods or [*LEARNERS, *SEARCHES, *CHEAP]
    jobs = jobs_of(arguments)
    with locked_folder(arguments.out, "another comparison writes to"):
        rows = rows_of(jobs, arguments.out / "rows.jsonl", make=not arguments.report)
    print_tables(rows, [job for job in jobs if job.name in rows])


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """All jobs, those with the first seed before any with the second; methods that draw nothing have one seed."""
    crossed = [(workload, machine) for workload in arguments.workloads for machine in arguments.machines]
    cases = GDP_CASES if arguments.gdp_cases else crossed
    # The tables show times over those of the single device.
    limits = [(method, None) for method in dict.fromkeys([*arguments.methods, "single-device"])]
    limits += [(method, arguments.seconds) for method in arguments.methods if method in TIMED and arguments.seconds]
    return [
        Job(
            workload=workload,
            machine=machine,
            method=method,
            seed=seed,
            evaluations=arguments.evaluations,
            seconds=seconds,
        )
        for seed in range(arguments.seeds)
        for method, seconds in sorted(limits, key=lambda limit: limit[0] in LEARNERS)
        if seed == 0 or not isinstance(METHODS.get(method), Baseline)
        for workload, machine in cases
    ]


def rows_of(jobs: Sequence[Job], path: Path, *, make: bool) -> dict[str, Row]:
    """The rows by the name of their job. make: whether those that are not on disk are made and appended."""
    rows = {row["run"]: row for row in whole_rows(path)}
    for job in jobs:
        if make and job.name not in rows:
            rows[job.name] = row_of(job)
            with path.open("a") as file:
                file.write(json.dumps(rows[job.name]) + "\n")
            print(f"{job.name}: {rows[job.name]['step_time_ns'] / 1e6:.2f} ms", flush=True)
    return rows


def whole_rows(path: Path) -> list[Row]:
    """The rows of the file; a last one that a kill has cut is removed."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    path.write_text("".join(line + "\n" for line in lines[:-1]))
    return [json.loads(line) for line in lines[:-1]]


@cache
def graph_of(workload: str) -> Graph:
    return tiny() if workload == "tiny" else capture_workload(workload)


def tiny() -> Graph:
    """A language model of two layers over four words."""
    import torch

    from placewright.importers.torch.module import from_torch
    from placewright.lab.datasets.zoo.unrolled import UnrolledLanguageModel

    words = torch.zeros(2, 4, dtype=torch.int64)
    model = UnrolledLanguageModel(layers=2, width=256, vocabulary=100)
    return with_variables(from_torch(model, (words, words), training=True))


@cache
def problem_of(workload: str, machine: str) -> Problem:
    name, _, share = machine.partition("@")
    problem = make_problem(graph_of(workload), load_machine(name))
    if share:
        limit = math.ceil(float(share) * one_device_bytes(problem) / problem.machine.num_devices)
        problem = replace(problem, memory_limits_bytes=(limit,) * problem.machine.num_devices)
    assert problem.core.num_ops > 0  # made here, so that it is part of no method's time
    return problem


def one_device_bytes(problem: Problem) -> int:
    """The least peak memory of one device that does everything, first come, first served."""
    alone = np.stack([_core.all_on(problem.core, device) for device in range(problem.machine.num_devices)])
    return int(FirstComeEnvironment(problem).measure(alone).other.min())


def row_of(job: Job) -> Row:
    problem = problem_of(job.workload, job.machine)
    with simulator_clock() as clock:
        began = time.process_time()
        result = method_of(job.method).solve(problem, SearchRun(job.budget, seed=job.seed))
        seconds = time.process_time() - began
    assert_right(job, problem, result)
    return {
        "run": job.name,
        "step_time_ns": result.metrics.step_time_ns,
        "bytes_over_limit": result.metrics.bytes_over_limit,
        "blocking_ns": blocking_ns(job, problem, result),
        "evaluations": result.evaluations,
        "seconds": round(seconds, 3),
        "simulator_seconds": round(clock[0], 3) if isinstance(METHODS.get(job.method), LearnedPlacer) else None,
        "found_by": result.found_by,
        "mean_drawn_costs": result.configuration.get("mean_drawn_costs"),
        "trace": [[point.evaluations, point.best] for point in result.trace if point.bytes_over_limit == 0],
    }


def method_of(name: str) -> Method:
    if name in GDP_VARIANTS:
        return make_method("gdp", settings=GDP_VARIANTS[name])
    return make_method(name)


@contextmanager
def simulator_clock() -> Iterator[list[float]]:
    """A context that counts the processor seconds spent in the environment of learned placers."""
    spent, whole = [0.0], {name: getattr(FirstComeEnvironment, name) for name in ("measure", "solution")}

    def timed(name: str, environment: FirstComeEnvironment, *arguments: Any) -> Any:
        began = time.process_time()
        found = whole[name](environment, *arguments)
        spent[0] += time.process_time() - began
        return found

    for name in whole:
        setattr(FirstComeEnvironment, name, lambda *rest, name=name: timed(name, *rest))
    try:
        yield spent
    finally:
        for name, function in whole.items():
            setattr(FirstComeEnvironment, name, function)


def assert_right(job: Job, problem: Problem, result: Result) -> None:
    plan = assemble_plan(problem, result, solver=job.method, seconds=0.0)
    wrong = check_plan(plan, problem.graph, problem.time_ns)
    if wrong:
        raise SystemExit(f"{job.name}: {wrong[0]}")


def blocking_ns(job: Job, problem: Problem, result: Result) -> int:
    """The step time of the same placement with blocking transfers, first come, first served."""
    blocking = replace(problem, machine=replace(problem.machine, transfer_model="blocking"))
    solution = FirstComeEnvironment(blocking).solution(result.solution.device_of)
    metrics = measure(blocking, solution)
    moved = replace(
        result, solution=solution, metrics=metrics, stopped_because="complete", baselines=(), proven_bound=None
    )
    assert_right(job, blocking, moved)
    return metrics.step_time_ns


def print_tables(rows: dict[str, Row], jobs: Sequence[Job]) -> None:
    """Prints all tables. jobs: those that have rows."""
    found: dict[tuple[str, str], list[Row]] = {}
    for job in jobs:
        found.setdefault((job.case, job.label), []).append(rows[job.name])
    table_2(found)
    gdp_table(found)
    all_methods(found)
    for learner in ("colocrl", "hdp"):
        evaluations_to_match(found, learner)


def step_ms(found: dict[tuple[str, str], list[Row]], case: str, label: str) -> float | None:
    """The median over seeds, where a plan over the limit counts as infinite; None without rows."""
    rows = found.get((case, label))
    if not rows:
        return None
    return statistics.median(
        row["step_time_ns"] / 1e6 if row["bytes_over_limit"] == 0 else float("inf") for row in rows
    )


def text_of(value: float | None, digits: int = 1) -> str:
    if value is None:
        return ""
    return "OOM" if value == float("inf") else f"{value:.{digits}f}"


def table_2(found: dict[tuple[str, str], list[Row]]) -> None:
    """Prints a table like ColocRL's: ms of a step, and how much longer the fastest other method and Expert take."""
    cases = list(dict.fromkeys(case for case, _ in found))
    print(f"| step time, ms | Single device | {' | '.join(TABLE_2)} | ColocRL | over the best of these | over Expert |")
    print("|---|" + "---:|" * (len(TABLE_2) + 4))
    for case in cases:
        others = [step_ms(found, case, name) for name in ("single-device", *TABLE_2.values())]
        own, known = step_ms(found, case, "colocrl"), [value for value in others if value is not None]
        if own is None or not known:
            continue
        fits = own < float("inf")
        gains = [f"{each / own - 1:+.1%}" if fits and each is not None else "" for each in (min(known), others[-1])]
        print(f"| {case} | {' | '.join(map(text_of, [*others, own]))} | {' | '.join(gains)} |")


def gdp_table(found: dict[tuple[str, str], list[Row]]) -> None:
    """Prints a table like GDP's: ms of a step, and how much less time GDP's takes than the experts' and HDP's, with the
    geometric means."""
    peers = {"METIS": "metis-dfs", "Expert": "layer-wise", "HDP": "hdp"}
    print(f"\n| step time, ms | Single device | {' | '.join(peers)} | GDP | over Expert | over HDP |")
    print("|---|" + "---:|" * (len(peers) + 4))
    ratios: dict[str, list[float]] = {"layer-wise": [], "hdp": []}
    for case in dict.fromkeys(case for case, label in found if label == "gdp"):
        own = step_ms(found, case, "gdp")
        others = {name: step_ms(found, case, name) for name in ("single-device", *peers.values())}
        gains = []
        for name, known in ratios.items():
            theirs = others[name]
            if own is None or theirs is None or max(own, theirs) == float("inf"):
                gains.append("")
            else:
                known.append(own / theirs)
                gains.append(f"{1 - known[-1]:+.1%}")
        print(f"| {case} | {' | '.join(map(text_of, [*others.values(), own]))} | {' | '.join(gains)} |")
    means = [f"{1 - statistics.geometric_mean(known):+.1%}" if known else "" for known in ratios.values()]
    print(f"| geometric mean |{' |' * (len(peers) + 2)} {' | '.join(means)} |")


def all_methods(found: dict[tuple[str, str], list[Row]]) -> None:
    """Prints step times over those of the best single device: medians over seeds, then the least and the most; and
    means of the evaluations and seconds of a run."""
    cases = list(dict.fromkeys(case for case, _ in found))
    print(
        f"\n| over the single device | {' | '.join(cases)} | blocking | evaluations | seconds | simulator | network |"
    )
    print("|---|" + "---:|" * (len(cases) + 5))
    for label in dict.fromkeys(label for _, label in found):
        cells = [ratios_of(found, case, label) for case in cases]
        own = [row for case in cases for row in found.get((case, label), [])]
        total, simulator = mean_of(own, "seconds"), mean_of(own, "simulator_seconds")
        network = None if total is None or simulator is None else total - simulator
        worth = statistics.mean(row["blocking_ns"] / row["step_time_ns"] for row in own)
        spent = [f"{worth:.2f}", f"{mean_of(own, 'evaluations'):,.0f}", *map(text_of, (total, simulator, network))]
        print(f"| {label} | {' | '.join([*cells, *spent])} |")


def mean_of(rows: Sequence[Row], column: str) -> float | None:
    """The mean over the rows that have the column; None if no row has it."""
    values = [row[column] for row in rows if row[column] is not None]
    return statistics.mean(values) if values else None


def ratios_of(found: dict[tuple[str, str], list[Row]], case: str, label: str) -> str:
    single, own = step_ms(found, case, "single-device"), step_ms(found, case, label)
    if not single or single == float("inf") or own is None:
        return text_of(own)
    ratios = [row["step_time_ns"] / 1e6 / single for row in found[case, label] if row["bytes_over_limit"] == 0]
    spread = f" ({min(ratios):.3f} to {max(ratios):.3f})" if len(ratios) > 1 else ""
    return text_of(own / single, 3) + spread


def evaluations_to_match(found: dict[tuple[str, str], list[Row]], learner: str) -> None:
    """Prints after how many evaluations each method is as good as the learner ends, seed by seed."""
    cases = list(dict.fromkeys(case for case, label in found if label == learner))
    if not cases:
        return
    print(f"\n| evaluations until as good as {learner}'s end | {' | '.join(cases)} |\n|---|" + "---:|" * len(cases))
    for label in dict.fromkeys(label for _, label in found):
        pairs = [list(zip(found.get((case, label), []), found[case, learner], strict=False)) for case in cases]
        if label in (*LEARNERS, *SEARCHES) and any(pairs):
            print(f"| {label} | {' | '.join(matched(each) for each in pairs)} |")


def matched(pairs: Sequence[tuple[Row, Row]]) -> str:
    """The median over seeds, "never" if half or more do not get there."""
    firsts = []
    for own, theirs in pairs:
        reached = [spent for spent, best in own["trace"] if best <= theirs["step_time_ns"]]
        firsts.append(min(reached, default=float("inf")))
    if not firsts:
        return ""
    median = statistics.median(firsts)
    return "never" if median == float("inf") else f"{median:,.0f}"


if __name__ == "__main__":
    main()
