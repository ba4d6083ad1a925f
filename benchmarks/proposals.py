"""What proposals are worth that no policy made: `python benchmarks/proposals.py [TAKE]`.

For TAKE (20) of the zoo's training graphs up to 1,500 ops, percent over uniform BRKGA, 5,000 evaluations each, in the
mean: a near-optimal plan itself; levels of A.6 made of its devices and order, by the number of levels that affinities
have; and what `runtime-zoo-leanings` is taught, next to the same of ops that lean each for itself.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from placewright.bench.suite import Suite, read_suite, spread
from placewright.datasets.graph_set import read_graph_set
from placewright.policies.actions import ActionSpace
from placewright.policies.features import FEATURE_EVALUATIONS, Context, context_of, guided_search
from placewright.problem import Problem
from placewright.search.budget import Budget
from placewright.search.result import Solution
from placewright.search.superstep_annealing import SuperstepAnnealing
from placewright.training.teacher import taught_actions

HERE = Path(__file__).parent
EVALUATIONS, MOST_OPS = 5000, 1500
REFERENCE_SEEDS = (1, 2)
SCHEDULING_LEVELS = 16


def objective_of(problem: Problem, space: ActionSpace, actions: NDArray[np.int64], context: Context) -> int:
    search = guided_search(problem, space.proposal(problem, actions, context.fixed_op), seed=1)
    search.advance(EVALUATIONS - FEATURE_EVALUATIONS)
    return min(search.best_objective, context.objective)


def uniform(problem: Problem) -> float:
    objectives = []
    for seed in REFERENCE_SEEDS:
        search = guided_search(problem, None, seed)
        search.advance(EVALUATIONS)
        objectives.append(search.best_objective)
    return float(np.mean(objectives))


def actions_of(solution: Solution, levels: int, context: Context) -> NDArray[np.int64]:
    """Its devices with extreme means and the least variance, its order in the lower half of the priorities."""
    device_of = np.asarray(solution.device_of)
    if context.fixed_op is not None and device_of[context.fixed_op] == 1:
        device_of = 1 - device_of
    ops = [int(step) for step, destination in solution.order if destination < 0]
    level = np.empty(len(ops), np.int64)
    level[ops] = np.round(np.linspace(SCHEDULING_LEVELS // 2 - 1, 0, len(ops)))
    none = np.zeros(len(ops), np.int64)
    return np.column_stack([(levels - 1) * (1 - device_of), none, (levels - 1) * device_of, none, level, none])


def gains(problem: Problem, seed: int) -> dict[str, float]:
    """Percent over uniform BRKGA by what it is of."""
    context, reference = context_of(problem, seed, with_leanings=True), uniform(problem)
    plan = SuperstepAnnealing().solve(problem, Budget(evaluations=2_000_000), 1)
    found = {"the near-optimal plan": float(plan.metrics.step_time_ns)}
    for levels in (2, 4, 16):
        space = ActionSpace(num_devices=2, placement_levels=levels, scheduling_levels=SCHEDULING_LEVELS)
        found[f"made of it, {levels} levels"] = objective_of(
            problem, space, actions_of(plan.solution, levels, context), context
        )
    space = ActionSpace(num_devices=2, placement_levels=5, scheduling_levels=SCHEDULING_LEVELS)
    alone = context.features.op.copy()
    alone[:, -2:] = alone[:, 8:10]  # shares of the individuals, by device
    for name, features in (
        ("leanings together", context.features),
        ("leanings of each op alone", replace(context.features, op=alone)),
    ):
        found[name] = objective_of(problem, space, taught_actions(features, space), context)
    return {name: 100 * (1 - objective / reference) for name, objective in found.items()}


def main(take: int) -> None:
    suite: Suite = replace(
        read_suite(HERE / "suites" / "zoo.toml"),
        graphs=read_graph_set(HERE / "instances" / "zoo-train.graphs.gz"),
        copies=0,
    )
    small = [index for index in range(len(suite.graphs)) if len(suite.graphs[index].ops) <= MOST_OPS]
    totals: dict[str, list[float]] = defaultdict(list)
    for index in (small[number] for number in spread(len(small), take)):
        for name, gain in gains(suite.problem(suite.graph(index)), index).items():
            totals[name].append(gain)
    for name, values in totals.items():
        print(f"{name}: {np.mean(values):+.2f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.2f} (standard error)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
