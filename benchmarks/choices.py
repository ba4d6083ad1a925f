"""What it is worth to choose for each graph: which rule guides BRKGA, which baseline `auto` begins with when time is
short, how often schedule annealing moves what, and how memory limits that hardly fit are met.

    python benchmarks/choices.py TASK [--take 24] [--seeds 3]

TASK is rules, baselines, moves or limits. Training graphs, of libraries for the first and else of the zoo, are solved
with each option and each seed of the search. In percent shorter steps than with the first option, mean and standard
error over the graphs: the best option for all, found on other families; for each graph the option that was best with
one seed, with the others, which is what a run on the graph itself tells; for each graph the option that a ridge
regression on features of whole graphs predicts to be best, learned on other families; and the best with the same seed,
which nothing can predict. `baselines` has a limit in seconds and wants a quiet machine. A plan over its limits counts
as all ops one after another.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
from find_rule import by_hand
from numpy.typing import NDArray
from some_baselines import step_time_ns

from placewright.bounds import lower_bound
from placewright.importers.graph_set import read_graph_set
from placewright.lab.datasets.problem_set import ProblemSet
from placewright.lab.learning.regal.features import FEATURE_EVALUATIONS, Context, context_of, guided_search
from placewright.lab.learning.rule.policy import found_rule
from placewright.lab.learning.rule.rule import RuleConfiguration, rule_actions
from placewright.machines import load_machine
from placewright.problem import Problem
from placewright.problem.objective import ControlMode
from placewright.search.auto import Auto
from placewright.search.constructive.baseline import Baseline
from placewright.search.constructive.baselines import BASELINES
from placewright.search.metaheuristics.default_first import NUM_STARTS
from placewright.search.metaheuristics.peak_search import PeakSearch
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.run.budget import Budget
from placewright.search.run.result import Result, fitness_in
from placewright.search.run.search_run import SearchRun

Float = NDArray[np.float64]
#: Of a problem and a seed, a step time in ns.
Option = Callable[[Problem, int], float]
INSTANCES = Path(__file__).parent / "instances"
SHUFFLE_SEED = 1
#: Of the ridge regression, where features have a variance of 1.
PENALTY = 3.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """options: by name, the usual one first. ops: of the graphs, least and most. memory_share: as a suite has it."""

    machine: str
    control: ControlMode
    options: Mapping[str, Option]
    ops: tuple[int, int]
    graphs: str = "zoo-train.graphs.gz"
    memory_share: float | None = None


# ---- Options


def rules(evaluations: int = 5000) -> dict[str, Option]:
    """No rule, and those that were found or made by hand."""
    by_name = {name: found_rule(name).configuration for name in ("rule-runtime-libraries", "rule-runtime-zoo")}
    by_name["rule-runtime-synthetic"] = found_rule("rule-runtime-synthetic").configuration
    like = RuleConfiguration(objective="step-time", affinity=0)
    by_name |= {f"by hand {index}": rule for index, rule in enumerate(by_hand(like))}
    by_name["libraries, no affinity"] = replace(by_name["rule-runtime-libraries"], affinity=None)

    def guided(rule: RuleConfiguration) -> Option:
        def solve(problem: Problem, seed: int) -> float:
            context = _context(problem, seed)
            proposal = rule.action_space.proposal(problem, rule_actions(rule, context.features), context.fixed_op)
            search = guided_search(problem, proposal, seed)
            search.advance(evaluations - FEATURE_EVALUATIONS)
            return float(min(search.best_objective, context.objective))

        return solve

    def uniform(problem: Problem, seed: int) -> float:
        search = guided_search(problem, None, seed)
        search.advance(evaluations)
        return float(search.best_objective)

    return {"no rule": uniform, **{name: guided(rule) for name, rule in by_name.items()}}


@cache
def _context(problem: Problem, seed: int) -> Context:
    return context_of(problem, seed, with_affinities=True)


_ALONE = ("list", "etf", "segment-fill", "heft", "cluster-list", "cluster-partition", "layers")


def baselines(seconds: float = 0.1) -> dict[str, Option]:
    """All of them, as `auto` has it, and one of them alone before the search."""

    def after(chosen: Sequence[Baseline]) -> Option:
        return lambda problem, seed: float(step_time_ns(problem, chosen, seconds, seed))

    alone = {method.name: after([method]) for method in BASELINES if method.name in _ALONE}
    return {"all": after(BASELINES), **alone}


def moves(evaluations: int = 20_000) -> dict[str, Option]:
    """Weights of moves of devices, of orders, of sendings, and exchanges."""

    def weighted(weights: tuple[int, int, int, int]) -> Option:
        def solve(problem: Problem, seed: int) -> float:
            starts = [result.solution for result in _starts(problem)]
            run = SearchRun(Budget(evaluations=evaluations), seed=seed, initial_solutions=starts)
            return float(ScheduleAnnealing(move_weights=weights).solve(problem, run).metrics.step_time_ns)

        return solve

    usual = ScheduleAnnealing().move_weights
    others = [(75, 15, 5, 5), (20, 65, 8, 7), (35, 30, 30, 5), (30, 30, 5, 35), (50, 50, 0, 0), (60, 33, 0, 7)]
    return {" ".join(map(str, weights)): weighted(weights) for weights in (usual, *others)}


@cache
def _starts(problem: Problem) -> list[Result]:
    return sorted((method.solve(problem, SearchRun()) for method in BASELINES), key=fitness_in(problem))[:NUM_STARTS]


def limits(evaluations: int = 20_000) -> dict[str, Option]:
    """`auto`, and peak search with a share of the evaluations, then schedule annealing from the best plans so far,
    with the usual coarse problems and with fewer. Those have the baselines' plans for nothing; `auto` pays for them."""

    def auto(problem: Problem, seed: int) -> float:
        return _within(problem, Auto().solve(problem, SearchRun(Budget(evaluations=evaluations), seed=seed)))

    def led_back(share: float, ops_per_cluster: tuple[int, ...]) -> Option:
        def solve(problem: Problem, seed: int) -> float:
            run = SearchRun(Budget(evaluations=evaluations), seed=seed)
            found = PeakSearch().solve(problem, run.part(share))
            starts = sorted([*_starts(problem), found], key=fitness_in(problem))[:NUM_STARTS]
            rest = SearchRun(Budget(evaluations=run.evaluations_left), seed=seed)
            rest.initial_solutions = [start.solution for start in starts]
            annealed = ScheduleAnnealing(ops_per_cluster=ops_per_cluster).solve(problem, rest)
            return _within(problem, min(annealed, *starts, key=fitness_in(problem)))

        return solve

    clusters = {"": (4, 2), ", no clusters": (), ", clusters of 4": (4,)}
    led = {f"peak {s:.0%}{name}": led_back(s, ops) for s in (0.1, 0.5) for name, ops in clusters.items()}
    return {"auto": auto, **led}


def _within(problem: Problem, result: Result) -> float:
    metrics = result.metrics
    return float(problem.time_ns.max(axis=1).sum() if metrics.bytes_over_limit > 0 else metrics.step_time_ns)


def tasks() -> dict[str, Task]:
    four, two, paper = "4xp100-sxm/nvlink", "2xp100-sxm/nvlink", "2xideal/free"
    libraries = "libraries/train.graphs.gz"
    return {
        "rules": Task(machine=paper, control="order", options=rules(), ops=(200, 2500), graphs=libraries),
        "baselines": Task(machine=four, control="signal", options=baselines(), ops=(1000, 6000)),
        "moves": Task(machine=four, control="signal", options=moves(), ops=(500, 4000)),
        "limits": Task(machine=two, control="signal", options=limits(), ops=(500, 3000), memory_share=0.6),
    }


# ---- Graphs


def problems_of(task: Task, take: int) -> list[tuple[Problem, str]]:
    """The first so many of a shuffled list, with their families."""
    with (INSTANCES / "families.csv").open() as file:
        family_of = {row["graph"]: row["family"] for row in csv.DictReader(file) if row["set"] == "zoo-train"}
    problems = ProblemSet(
        name=task.graphs,
        graphs=read_graph_set(INSTANCES / task.graphs),
        machine=load_machine(task.machine),
        control=task.control,
        memory_share=task.memory_share,
    )
    order = list(range(len(problems.graphs)))
    random.Random(SHUFFLE_SEED).shuffle(order)
    least, most = task.ops
    fitting = (graph for graph in map(problems.graph, order) if least <= len(graph.ops) <= most)
    return [
        (problems.problem(graph), family_of.get(graph.name) or graph.metadata["family"])
        for graph in islice(fitting, take)
    ]


def features_of(problem: Problem) -> Float:
    """Of the whole graph: sizes, shape, times and bytes."""
    core, lowered = problem.core, problem.lowered
    times = np.sort(problem.time_ns[lowered.graph_op, 0].astype(np.float64))
    total = max(1.0, times.sum())
    bound = lower_bound(problem).value / (total / core.num_devices)
    moved = lowered.transfer_bytes[lowered.inputs].astype(np.float64)
    reads = np.bincount(lowered.reader, minlength=core.num_ops)
    return np.array(
        [
            np.log(core.num_ops),
            np.log(len(lowered.inputs) / core.num_ops),
            bound,
            np.log1p(total / core.num_ops),
            times[-core.num_ops // 20 :].sum() / total,
            np.log1p(moved.sum() / total),
            np.log1p(np.median(moved)),
            reads.max() / core.num_ops,
            (reads == 0).mean(),
            len(lowered.residents) / core.num_ops,
        ]
    )


# ---- What choosing is worth


def gains_of(task: Task, problems: Sequence[Problem], seeds: int) -> Float:
    """In percent over the first option's mean over the seeds. [graphs, options, seeds]"""
    found = []
    for index, problem in enumerate(problems):
        each = np.array([[solve(problem, seed) for seed in range(seeds)] for solve in task.options.values()])
        found.append(100 * (1 - each / each[0].mean()))
        print(f"{index + 1} of {len(problems)}: {problem.graph.name}", flush=True)
    return np.array(found)


def for_all(gains: Float, families: Sequence[str]) -> Float:
    """Of the option that is best in the mean on all other families. [graphs]"""
    mean = gains.mean(axis=2)
    return np.array([mean[index, mean[rest].mean(axis=0).argmax()] for index, rest in _others(families)])


def _others(families: Sequence[str]) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Each graph, and which are of other families, of which there is at least one."""
    own = np.array(families)
    for index, family in enumerate(families):
        yield index, own != family


def by_another_seed(gains: Float) -> Float:
    """Of the option that was best with one seed, with the others. [graphs]"""
    seeds = gains.shape[2]
    chosen = gains.argmax(axis=1)
    pairs = [
        np.take_along_axis(gains[:, :, there], chosen[:, here, None], axis=1)[:, 0]
        for here in range(seeds)
        for there in range(seeds)
        if here != there
    ]
    found: Float = np.mean(pairs, axis=0)
    return found


def predicted(gains: Float, features: Float, families: Sequence[str]) -> Float:
    """Of the option for which a ridge regression, fitted to all other families, predicts the most. [graphs]"""
    mean = gains.mean(axis=2)
    spread = features.std(axis=0)
    scaled = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1)
    found = []
    for index, rest in _others(families):
        known, offset = scaled[rest], mean[rest].mean(axis=0)
        penalty = PENALTY * np.eye(known.shape[1])
        weights = np.linalg.solve(known.T @ known + penalty, known.T @ (mean[rest] - offset))
        found.append(mean[index, (offset + scaled[index] @ weights).argmax()])
    return np.array(found)


def told(name: str, gains: Float) -> str:
    error = gains.std(ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else float("nan")
    return f"| {name} | {gains.mean():+.2f} ± {error:.2f} |"


def report(options: Sequence[str], gains: Float, features: Float, families: Sequence[str]) -> str:
    lines = ["| option | % over the first |", "|---|---:|"]
    lines += [told(name, gains[:, index].mean(axis=1)) for index, name in enumerate(options)]
    lines.append(told("the best for all, found on other families", for_all(gains, families)))
    if gains.shape[2] > 1:
        lines.append(told("by graph, what was best with another seed", by_another_seed(gains)))
    lines.append(told("by graph, predicted from features", predicted(gains, features, families)))
    lines.append(told("by graph, the best with the same seed", gains.max(axis=1).mean(axis=1)))
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("task", choices=tuple(tasks()))
    options.add_argument("--take", type=int, default=24, help="graphs")
    options.add_argument("--seeds", type=int, default=3)
    return options


def main() -> None:
    arguments = parser().parse_args()
    task = tasks()[arguments.task]
    problems, families = zip(*problems_of(task, arguments.take), strict=True)
    if len(set(families)) < 2:
        raise SystemExit(f"{len(problems)} graphs are of one family, and nothing is learned from others")
    gains = gains_of(task, problems, arguments.seeds)
    print(report(list(task.options), gains, np.array([features_of(problem) for problem in problems]), families))


if __name__ == "__main__":
    main()
