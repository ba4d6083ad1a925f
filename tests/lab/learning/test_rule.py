"""Rules: levels of priorities and affinities straight from features, and `rule`, which they guide."""

from __future__ import annotations

import importlib
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab.learning.networks import random_policy

from placewright.lab.datasets.problem_set import PAPER_MACHINE
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.learning.guided import Regal
from placewright.lab.learning.regal.expert import affinity_actions
from placewright.lab.learning.regal.features import FEATURE_EVALUATIONS, Features, context_of
from placewright.lab.learning.rule.policy import RulePolicy, found_rule, rule_names
from placewright.lab.learning.rule.rule import RuleConfiguration, rule_actions
from placewright.machines import load_machine
from placewright.methods.policy_file import find_policy
from placewright.methods.table import METHODS, make_method
from placewright.problem import Problem, make_problem
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
find_rule: Any = importlib.import_module("find_rule")
TIME = RuleConfiguration(objective="step-time", weights={"own": 1})


def features_of(**columns: list[float]) -> Features:
    """Return features of four ops on two devices for step time, without affinities: zeros except these columns."""
    names = ("inputs", "outputs", "workspace", "", "before", "after", "own", "", "", "", "position")
    op = np.zeros((4, len(names)), np.float32)
    for name, values in columns.items():
        op[:, names.index(name)] = values
    none = np.zeros(0, np.int32)
    return Features(op=op, edge=np.zeros((0, 3), np.float32), source=none, target=none)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem(random_graph(3, 1), load_machine(PAPER_MACHINE), control="order")


def test_a_line_goes_from_the_first_level_to_the_last_with_the_rank() -> None:
    # Ranks of 5, 1, 3 and 3 among four are 1, 0 and, shared, 1/2; levels 2 + 8 * rank.
    rule = replace(TIME, first_level=2, last_level=10, variance_level=3)
    assert rule_actions(rule, features_of(own=[5, 1, 3, 3])).tolist() == [[10, 3], [2, 3], [6, 3], [6, 3]]


def test_halves_have_one_level_each() -> None:
    # Ranks 1, 0, 1/3 and 2/3: those above the middle have the last level.
    rule = replace(TIME, shape="halves", first_level=15, last_level=0, variance_level=15)
    assert rule_actions(rule, features_of(own=[9, 1, 2, 8]))[:, 0].tolist() == [0, 15, 15, 0]


def test_ranks_of_several_features_are_added_by_their_weights() -> None:
    # own: 0, 1/3, 2/3, 1; before, minus twice: 0, -2/3, -4/3, -2. The sums fall, so the ranks are 1, 2/3, 1/3, 0.
    rule = replace(TIME, weights={"own": 1, "before": -2}, first_level=0, last_level=9)
    assert rule_actions(rule, features_of(own=[1, 2, 3, 4], before=[1, 2, 3, 4]))[:, 0].tolist() == [9, 6, 3, 0]


def test_affinities_are_those_that_the_expert_begins_with(problem: Problem) -> None:
    rule = replace(TIME, affinity=4)
    features = context_of(problem, 1, with_affinities=True).features
    # A mean of 5/6 is the last of five levels, a third of the variance the second.
    assert rule.action_space.levels == (5, 5, 5, 5, 16, 16)
    assert (rule_actions(rule, features)[:, :4] == affinity_actions(features, rule.action_space)[:, :4]).all()


def test_what_a_rule_leaves_out_stays_uniform(problem: Problem) -> None:
    context = context_of(problem, 1, with_affinities=True)
    for rule, levels in ((TIME, (16, 16)), (replace(TIME, weights={}, affinity=0), (5, 5, 5, 5))):
        assert rule.action_space.levels == levels
        assert rule_actions(rule, context.features).shape == (problem.core.num_ops, len(levels))


def test_rule_spends_the_budget_as_regal_does_and_says_what_guided_it(problem: Problem) -> None:
    rule = RulePolicy(name="mine", configuration=replace(TIME, shape="halves", first_level=15, last_level=0))
    result = make_method("rule", policy=rule).solve(problem, SearchRun(Budget(evaluations=1000), seed=3))
    assert (result.evaluations, result.found_by) == (1000, f"rule: {rule.title}")
    other = replace(rule, configuration=replace(rule.configuration, last_level=1))
    assert rule.title != other.title
    with pytest.raises(InputError, match=f"take {FEATURE_EVALUATIONS}"):
        make_method("rule", policy=rule).solve(problem, SearchRun(Budget(evaluations=FEATURE_EVALUATIONS)))


def test_regal_takes_no_rule_and_rule_no_network() -> None:
    rule, policy = find_policy(rule_names()[0]), random_policy()
    with pytest.raises(InputError, match="solver 'regal' does not take policy"):
        make_method("regal", policy=rule)
    with pytest.raises(InputError, match="solver 'rule' does not take policy"):
        make_method("rule", policy=policy)


@pytest.mark.parametrize("name", rule_names())
def test_a_rule_that_was_found_says_by_which_command(name: str) -> None:
    rule = found_rule(name)
    assert str(rule.record["command"]).startswith(f"python benchmarks/find_rule.py {name} ")
    assert rule.record["graphs"] > 1
    assert rule.gain == rule.record["improvement_percent"]


def test_rule_takes_the_one_for_the_objective(problem: Problem) -> None:
    method = METHODS["rule"]
    assert isinstance(method, Regal)
    assert method.policy_for(problem).name.startswith("rule-runtime-zoo")
    memory = make_problem(problem.graph, problem.machine, objective="peak-memory", control="order")
    assert method.policy_for(memory).name.startswith("rule-peak-memory-zoo")
    four = make_problem(problem.graph, load_machine("4xideal/free"), control="order")
    with pytest.raises(InputError, match="no rule was found for step-time on 4 devices"):
        method.policy_for(four)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"weights": {"colour": 1}}, "has a weight for 'colour', which is no feature"),
        ({"objective": "peak-memory"}, "a rule for peak-memory has a weight for 'own'"),
        ({"shape": "curve"}, "shape is 'curve'"),
        ({"first_level": 16}, "must be from 0 to 15"),
        ({"affinity": 5}, "a rule has affinity 5; there are 5"),
        ({"affinity": 0, "affinity_level": 5}, "must be from 0 to 4"),
        ({"weights": {}}, "not all 0"),
        ({"affinity": 0, "decoder": "segment-fill"}, "chooses devices itself"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        replace(TIME, **changed)  # type: ignore[arg-type]


def test_candidates_of_a_part_leave_the_other_uniform() -> None:
    def drawn(part: str) -> list[RuleConfiguration]:
        found: list[RuleConfiguration] = find_rule.candidates(TIME, 40, random.Random(0), part)
        return found

    assert [bool(rule.weights) for rule in drawn("placement")] == [False] * 40
    assert [rule.affinity for rule in drawn("scheduling")] == [None] * 40
    assert any(rule.weights and rule.affinity is not None for rule in drawn("both"))
