"""What a policy adds to BRKGA's time: `python benchmarks/policy_time.py SUITE POLICY`.

For the suite's graphs nearest to 150, 600, 2,000 and 6,000 ops, views among them: milliseconds of processor time, the
least of five runs, of the uniform search with 5,000 evaluations, of `regal` with as many, and of what the policy does
in it: features, network, sampling. Quantile tables are made once in a process and not counted.

Run it with OPENBLAS_NUM_THREADS=1: the products of matrices are small here, and threads that wait for more of them
count as processor time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from placewright.lab.bench.suite import Suite, read_suite
from placewright.lab.learning.guided import Regal
from placewright.lab.learning.regal.features import context_after, search_for_features
from placewright.lab.learning.regal.policy import RegalPolicy
from placewright.lab.peers.brkga import Brkga
from placewright.methods.policy_file import find_policy
from placewright.problem import Problem
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

SIZES = (150, 600, 2000, 6000)


def milliseconds(work: Callable[[], object], runs: int) -> float:
    """The least of so many runs; the first one, in which tables are made, does not count."""
    work()
    least = float("inf")
    for _ in range(runs):
        began = time.process_time()
        work()
        least = min(least, time.process_time() - began)
    return 1e3 * least


def measure(problem: Problem, policy: RegalPolicy, budget: Budget, runs: int) -> str:
    own = policy.configuration
    search = search_for_features(problem, 0, own.decoder)
    search.advance(400)
    uniform = milliseconds(lambda: Brkga(decoder=own.decoder).solve(problem, SearchRun(budget)), runs)
    guided = milliseconds(lambda: Regal(policy=policy).solve(problem, SearchRun(budget)), runs)
    features = milliseconds(
        lambda: context_after(problem, search, own.decoder, with_affinities=own.with_affinities), runs
    )
    context = context_after(problem, search, own.decoder, with_affinities=own.with_affinities)
    proposal = milliseconds(lambda: policy.guide(problem, context, 0), runs)
    added, share = 100 * (guided / uniform - 1), 100 * (features + proposal) / uniform
    return (
        f"{problem.core.num_ops:,} scheduled ops: uniform {uniform:.1f} ms, regal {guided:.1f} ({added:+.1f}%), "
        f"features {features:.1f}, network and sampling {proposal:.1f} ({share:.1f}%)"
    )


def nearest(suite: Suite) -> list[int]:
    """Numbers of the graphs nearest to each size, once each."""
    ops = [len(suite.graphs[number].ops) for number in range(len(suite.graphs))]
    return sorted(
        {min(range(len(ops)), key=lambda number: abs(ops[number] - size)) for size in SIZES}, key=ops.__getitem__
    )


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("suite")
    options.add_argument("policy", help="a name or a file")
    options.add_argument("--evaluations", type=int, default=5000)
    options.add_argument("--runs", type=int, default=5)
    return options


def main() -> None:
    arguments = parser().parse_args()
    suite, policy = read_suite(arguments.suite), find_policy(arguments.policy)
    assert isinstance(policy, RegalPolicy)
    budget = Budget(evaluations=arguments.evaluations)
    for index in nearest(suite):
        print(measure(suite.problem(suite.graphs[index]), policy, budget, arguments.runs))


if __name__ == "__main__":
    main()
