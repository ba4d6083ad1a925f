"""What proposals are worth that no policy made: `python benchmarks/proposals.py`.

For --take of the zoo's training graphs up to 1,500 ops, as --suite has it, percent over uniform BRKGA, --evaluations
each, in the mean: a near-optimal plan itself; uniform BRKGA with --decoder (paper, or another that reads affinities),
and with it levels of A.6 made of that plan's devices and order, by the number of levels that affinities have; and what
policies with affinities imitate. For step time these are proposals of smoothed affinities, next to those of each op's
own affinity, and what eight and sixteen rounds of search from the first of these find, with the percentage of ops for
which both prefer one device; for peak memory each of the proposals that the expert tries, and the one that it takes,
with another seed.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from placewright.decoder import WITH_AFFINITIES, DecoderName
from placewright.importers.graph_set import read_graph_set
from placewright.lab.bench.suite import Suite, read_suite
from placewright.lab.datasets.problem_set import spread
from placewright.lab.learning.environments.guided_search import GuidedSearch
from placewright.lab.learning.regal.actions import ActionSpace
from placewright.lab.learning.regal.expert import affinity_actions, candidate_actions, demonstrate
from placewright.lab.learning.regal.features import (
    FEATURE_EVALUATIONS,
    Context,
    context_of,
    guided_search,
    num_op_features,
)
from placewright.problem import Problem
from placewright.search.metaheuristics.peak_search import PeakSearch
from placewright.search.metaheuristics.superstep_annealing import SuperstepAnnealing
from placewright.search.run.budget import Budget
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun

HERE = Path(__file__).parent
MAX_OPS = 1500
REFERENCE_SEEDS = (1, 2)
SCHEDULING_LEVELS = 16
EXPERT_ROUNDS = (8, 16)
#: Levels, [ops, choices], by what they are of.
Proposals = dict[str, NDArray[np.int64]]


def objective_of(
    problem: Problem, space: ActionSpace, actions: NDArray[np.int64], context: Context, evaluations: int
) -> int:
    search = guided_search(problem, space.proposal(problem, actions, context.fixed_op), 1, space.decoder)
    search.advance(evaluations - FEATURE_EVALUATIONS)
    return min(search.best_objective, context.objective)


def uniform(problem: Problem, decoder: DecoderName, evaluations: int) -> float:
    objectives = []
    for seed in REFERENCE_SEEDS:
        search = guided_search(problem, None, seed, decoder)
        search.advance(evaluations)
        objectives.append(search.best_objective)
    return float(np.mean(objectives))


def near_optimal(problem: Problem) -> Result:
    if problem.objective == "peak-memory":
        return PeakSearch().solve(problem, SearchRun(Budget(evaluations=20_000), seed=1))
    return SuperstepAnnealing().solve(problem, SearchRun(Budget(evaluations=2_000_000), seed=1))


def actions_of(solution: Solution, space: ActionSpace, context: Context) -> NDArray[np.int64]:
    """Its devices with extreme means and the least variance, its order in the lower half of the priorities where
    transfers have some too."""
    levels, first = space.placement_levels, space.scheduling_levels // (2 if space.decoder == "paper" else 1) - 1
    device_of = np.asarray(solution.device_of)
    if context.fixed_op is not None and device_of[context.fixed_op] == 1:
        device_of = 1 - device_of
    ops = [int(step) for step, destination in solution.order if destination < 0]
    level = np.empty(len(ops), np.int64)
    level[ops] = np.round(np.linspace(first, 0, len(ops)))
    none = np.zeros(len(ops), np.int64)
    return np.column_stack([(levels - 1) * (1 - device_of), none, (levels - 1) * device_of, none, level, none])


def prefers_first(actions: NDArray[np.int64]) -> NDArray[np.bool_]:
    return actions[:, 0] > actions[:, 2]


def expert_for_time(environment: GuidedSearch, space: ActionSpace) -> tuple[Proposals, dict[str, float]]:
    """Levels by what they are of, and for rounds of search the percentage of ops on the device of their affinity."""
    features = environment.observation.features
    alone = features.op.copy()
    first = num_op_features("step-time", 2) - 3  # shares of the individuals by device; their position is last
    alone[:, -2:] = alone[:, first : first + 2]
    affinities = affinity_actions(features, space)
    proposals = {
        "smoothed affinities": affinities,
        "affinities of each op alone": affinity_actions(replace(features, op=alone), space),
    }
    agreed = {}
    for rounds in EXPERT_ROUNDS:
        what = f"what {rounds} rounds of the expert's search found"
        proposals[what] = demonstrate(environment, space, rounds).actions
        same = prefers_first(proposals[what]) == prefers_first(affinities)
        agreed[f"{what}: ops of it on the device of their affinity"] = 100 * float(np.mean(same))
    return proposals, agreed


def expert_for_memory(environment: GuidedSearch, space: ActionSpace) -> tuple[Proposals, dict[str, float]]:
    """The same; there are no rounds."""
    all_uniform, *of_affinities = candidate_actions(environment.observation.features, space)
    proposals = {"all uniform, after the search for features": all_uniform}
    for number, actions in enumerate(of_affinities):
        proposals[f"affinities of kind {number // 2}, {('weakly', 'surely')[number % 2]}"] = actions
    return {**proposals, "what the expert takes": demonstrate(environment, space, 0).actions}, {}


def gains(problem: Problem, seed: int, decoder: DecoderName, evaluations: int) -> dict[str, float]:
    """Percent over uniform BRKGA by what it is of."""
    context, reference = (
        context_of(problem, seed, decoder, with_affinities=True),
        uniform(problem, "paper", evaluations),
    )
    plan = near_optimal(problem)
    found = {"the near-optimal plan": float(plan.metrics.objective_value(problem.objective))}
    if decoder != "paper":
        found[f"uniform, {decoder}"] = uniform(problem, decoder, evaluations)
    space_of = partial(ActionSpace, num_devices=2, scheduling_levels=SCHEDULING_LEVELS, decoder=decoder)
    for levels in (2, 4, 16):
        space = space_of(placement_levels=levels)
        found[f"made of it, {levels} levels"] = objective_of(
            problem, space, actions_of(plan.solution, space, context), context, evaluations
        )
    space = space_of(placement_levels=5)
    environment = GuidedSearch(
        problem=problem,
        observation=context,
        decoder=decoder,
        reference=reference,
        evaluations=evaluations - FEATURE_EVALUATIONS,
        found_before=context.objective,
    )
    of_expert = expert_for_memory if problem.objective == "peak-memory" else expert_for_time
    proposals, agreed = of_expert(environment, space)
    found |= {name: objective_of(problem, space, actions, context, evaluations) for name, actions in proposals.items()}
    gained = {name: 100 * (1 - objective / reference) for name, objective in found.items()}
    return {**gained, **agreed}


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--take", type=int, default=20, help="how many graphs")
    options.add_argument("--suite", type=Path, default=HERE / "suites" / "zoo.toml", help="its machine and objective")
    options.add_argument("--graphs", type=Path, default=HERE / "instances" / "zoo-train.graphs.gz", help="a graph set")
    options.add_argument("--decoder", default="paper", choices=WITH_AFFINITIES)
    options.add_argument("--evaluations", type=int, default=5000)
    return options


def main() -> None:
    arguments = parser().parse_args()
    take = arguments.take
    suite: Suite = replace(read_suite(arguments.suite), graphs=read_graph_set(arguments.graphs), copies=0)
    small = [index for index in range(len(suite.graphs)) if len(suite.graphs[index].ops) <= MAX_OPS]
    totals: dict[str, list[float]] = defaultdict(list)
    for index in (small[number] for number in spread(len(small), take)):
        for what, gain in gains(
            suite.problem(suite.graph(index)), index, arguments.decoder, arguments.evaluations
        ).items():
            totals[what].append(gain)
    for what, values in totals.items():
        print(f"{what}: {np.mean(values):+.2f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.2f} (standard error)")


if __name__ == "__main__":
    main()
