"""Share of a reward's variance that is the luck of its search: `python benchmarks/reward_luck.py SUITE POLICY`.

Draws some samples for each of the suite's graphs (for so many with --take) from a REGAL policy, and judges each with a
reward's search and each of some seeds. A training step compares the rewards of the samples of one graph. Prints the
shares of their variance that are the search's luck and not the actions' worth: if each sample has a seed of its own,
and if all samples of a graph share one, as REINFORCE has it. Both with the evaluations of a reward in one search, and
divided among some, whose mean counts; and how the samples' mean rewards correlate with those of one search with other
seeds, which says whether the same samples are worth more.

A two-way analysis of variance separates actions, seeds and the rest in a table of samples by seeds, in squares of
percent, means over graphs. In brackets 95% intervals by graph, of 1,000 draws of graphs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from placewright.lab.bench.suite import read_suite
from placewright.lab.datasets.problem_set import spread
from placewright.lab.learning.environments.guided_search import GuidedSearch, uniform_objective
from placewright.lab.learning.regal.features import FEATURE_EVALUATIONS
from placewright.lab.learning.regal.forward import logits_of
from placewright.lab.learning.regal.policy import RegalPolicy, sample
from placewright.methods.policy_file import find_policy
from placewright.problem import Problem

Float = NDArray[np.float64]
SEARCHES = (1, 2, 6)
#: Label of one search with other seeds.
AGAIN = "1 again"


def rewards_of(policy: RegalPolicy, problem: Problem, graph: int, arguments: argparse.Namespace) -> dict[str, Float]:
    """Rewards in percent, [samples, seeds], by the number of searches."""
    own, core = policy.configuration, problem.core
    context = policy.observe(problem, graph)
    logits = logits_of(policy.weights, own, context.features)
    actions = [sample(logits, own.action_space, 1000 * graph + number) for number in range(arguments.samples)]
    guides = [own.action_space.proposal(problem, each, context.fixed_op) for each in actions]
    reference = uniform_objective(problem, arguments.evaluations, 1)
    kept = (core.encode(*core.decode(context.keys, own.decoder), own.decoder),) if own.warm_start else ()

    def judged(searches: int, first: int = 0) -> Float:
        environment = GuidedSearch(
            problem=problem,
            observation=context,
            decoder=own.decoder,
            reference=reference,
            evaluations=arguments.evaluations - FEATURE_EVALUATIONS,
            found_before=context.objective,
            searches=searches,
            initial_keys=kept,
        )
        seeds = range(first, first + arguments.seeds * searches, searches)
        return 100 * np.array([environment.rewards(guides, [seed] * len(guides)) for seed in seeds]).T

    return {**{f"{count}": judged(count) for count in SEARCHES}, AGAIN: judged(1, first=1_000_000)}


def components(rewards: Float) -> Float:
    """Variances between samples, between seeds, and of the rest: the part of a seed's luck that varies by sample."""
    count, seeds = rewards.shape
    by_sample, by_seed, mean = rewards.mean(axis=1), rewards.mean(axis=0), rewards.mean()
    rest = ((rewards - by_sample[:, None] - by_seed + mean) ** 2).sum() / ((count - 1) * (seeds - 1))
    return np.array([by_sample.var(ddof=1) - rest / seeds, by_seed.var(ddof=1) - rest / count, rest])


def own_seeds(mean: Float) -> float:
    return float((mean[1] + mean[2]) / (mean.sum() or 1.0))


def shared_seed(mean: Float) -> float:
    return float(mean[2] / (mean[0] + mean[2] or 1.0))


def interval(found: Float, share: Callable[[Float], float]) -> str:
    """The share of the mean components, with its interval, in words. found: [graphs, components]"""
    draw = np.random.default_rng(0).integers(len(found), size=(1000, len(found)))
    low, high = np.percentile([share(found[rows].mean(axis=0)) for rows in draw], [2.5, 97.5])
    return f"{100 * share(found.mean(axis=0)):.0f}% ({100 * low:.0f} to {100 * high:.0f})"


def agreement(one: Float, other: Float) -> float:
    """Correlation of the samples' means; 0 if the means of one do not differ."""
    means = one.mean(axis=1), other.mean(axis=1)
    return float(np.corrcoef(*means)[0, 1]) if min(each.std() for each in means) > 0 else 0.0


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("suite", type=Path)
    options.add_argument("policy", help="a name or a file")
    options.add_argument("--take", type=int, default=14, help="how many graphs of the suite")
    options.add_argument("--max-ops", type=int, default=600, help="graphs of more are left out, as in trainings")
    options.add_argument("--samples", type=int, default=8)
    options.add_argument("--seeds", type=int, default=8)
    options.add_argument("--evaluations", type=int, default=1000, help="of a reward, those for features among them")
    return options


def main() -> None:
    arguments = parser().parse_args()
    policy, suite = find_policy(arguments.policy), read_suite(arguments.suite)
    assert isinstance(policy, RegalPolicy)
    small = [index for index in range(len(suite.labels)) if len(suite.graph(index).ops) <= arguments.max_ops]
    chosen = [small[place] for place in spread(len(small), arguments.take)]
    found = [rewards_of(policy, suite.problem(suite.graph(index)), index, arguments) for index in chosen]
    print("| searches | actions, seeds, rest | luck: own seeds | luck: one seed | agrees with one search |")
    print("|---|---:|---:|---:|---:|")
    for label in map(str, SEARCHES):
        parts = np.array([components(each[label]) for each in found])
        agrees = np.mean([agreement(each[label], each[AGAIN]) for each in found])
        mean = ", ".join(f"{value:.2f}" for value in parts.mean(axis=0))
        print(f"| {label} | {mean} | {interval(parts, own_seeds)} | {interval(parts, shared_seed)} | {agrees:.2f} |")


if __name__ == "__main__":
    main()
