"""Policies that come with the package, measured from their files alone."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placewright.lab.bench.suite import Suite, read_suite
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.learning.guided import Regal
from placewright.lab.learning.shipped import shipped_names, shipped_policy
from placewright.lab.peers.brkga import Brkga
from placewright.methods.policy_file import find_policy
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

SUITES = Path(__file__).parents[3] / "benchmarks" / "suites"
#: Policy, suite, instances, and the percent over BRKGA 5K gained at least; docs/lab/notes/policies.md has all.
SCORES = [
    ("runtime-synthetic", "synthetic", 40, 6.0),
    ("runtime-synthetic-sequence", "synthetic", 40, 6.0),
    ("runtime-synthetic-lazy", "synthetic", 40, 13.0),
    ("runtime-zoo-affinity", "zoo", 49, 0.5),
    ("runtime-zoo-affinity-lazy", "zoo", 49, 4.0),
    ("peak-memory-zoo-affinity", "zoo-peak-memory", 49, 0.5),
    ("peak-memory-zoo-affinity-evict", "zoo-peak-memory", 49, 1.5),
]
#: By suite: a search with evicting takes a second of each graph.
MARKS: dict[str, Any] = {"synthetic": (), "zoo": pytest.mark.heavy, "zoo-peak-memory": pytest.mark.long}


@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_policy_says_how_it_was_trained(name: str) -> None:
    policy = find_policy(name)
    assert policy.name == name
    assert policy.record["improvement_percent"] > 0
    assert policy.record["training"]["steps"] >= policy.record["step"] > 0


def test_every_shipped_policy_has_a_score() -> None:
    assert {name for name, *_ in SCORES} == set(shipped_names())


def suite_of(name: str) -> Suite:
    """A suite of the benchmarks; without its graphs the test is skipped."""
    path = SUITES / f"{name}.toml"
    graphs = SUITES / tomllib.loads(path.read_text())["graphs"]
    if not graphs.exists():
        pytest.skip(f"{graphs.name} is not in the tree; make instances brings it")
    return read_suite(path)


def test_of_several_policies_for_a_problem_the_one_of_the_best_validation_is_taken() -> None:
    problem = suite_of("zoo").problem(random_graph(0, 0))
    taken, other = shipped_policy(problem, "graph"), find_policy("runtime-zoo-affinity")
    assert taken.name == "runtime-zoo-affinity-lazy"
    assert taken.record["improvement_percent"] > other.record["improvement_percent"]


@pytest.mark.parametrize(
    ("name", "suite_name", "take", "least"), [pytest.param(*score, marks=MARKS[score[1]]) for score in SCORES]
)
def test_a_shipped_policy_has_its_score(name: str, suite_name: str, take: int, least: float) -> None:
    suite, policy = suite_of(suite_name), find_policy(name)
    gains = []
    for index in range(0, len(suite.labels), len(suite.labels) // take):
        problem = suite.problem(suite.graph(index))
        guided, uniform = (
            method.solve(problem, SearchRun(Budget(evaluations=5000))).metrics.objective_value(problem.objective)
            for method in (Regal(policy=policy), Brkga())
        )
        gains.append(100 * (1 - guided / uniform))
    assert np.mean(gains) > least
