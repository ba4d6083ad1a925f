"""A policy's proposals in a search: what it spends, what it keeps, and whom it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of
from lab.learning.networks import SMALL, random_policy

import placewright
from placewright.decoder import DECODERS, WITH_AFFINITIES, DecoderName
from placewright.graph import Graph
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.learning.guided import Regal
from placewright.lab.learning.regal.configuration import Network
from placewright.lab.learning.regal.features import context_of
from placewright.lab.learning.regal.policy import RegalPolicy
from placewright.lab.peers.brkga import Brkga
from placewright.lab.peers.random_search import RandomSearch
from placewright.methods.policy_file import find_policy
from placewright.methods.table import make_method
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.run.budget import Budget
from placewright.search.run.result import measure
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

TINY = problem_of(graph_of({"a": ("", 4), "b": ("a", 3), "c": ("a", 5), "d": ("b c", 1)}), machine_of(2), (3, 4, 5, 6))


def synthetic(index: int = 0) -> Problem:
    graph = random_graph(0, index)
    return problem_of(graph, machine_of(2, transfer_model="blocking"), [op.time_ns or 0 for op in graph.ops])


def test_features_take_400_evaluations_of_the_budget() -> None:
    result = Regal(policy=random_policy()).solve(synthetic(), SearchRun(Budget(evaluations=1000)))
    assert result.evaluations == 1000
    assert [point.evaluations for point in result.trace] == sorted(point.evaluations for point in result.trace)


def test_a_time_limit_and_an_interrupt_end_the_search_for_features_too() -> None:
    method, problem = Regal(policy=random_policy()), synthetic()
    stopped = method.solve(problem, SearchRun(Budget(evaluations=1000), interrupted=lambda: True))
    assert (stopped.stopped_because, stopped.found_by) == ("interrupted", "regal")
    assert stopped.evaluations < 400
    late = method.solve(problem, SearchRun(Budget(evaluations=1000, seconds=1e-6)))
    assert late.stopped_because == "time"
    assert late.evaluations < 400


@pytest.mark.parametrize("evaluations", [1, 399, 400])
def test_a_budget_that_features_would_spend_is_refused(evaluations: int) -> None:
    with pytest.raises(InputError, match=f"budget of {evaluations} evaluations leaves none .* take 400"):
        Regal(policy=random_policy()).solve(TINY, SearchRun(Budget(evaluations=evaluations)))


@pytest.mark.parametrize("seed", range(5))
def test_the_result_is_never_worse_than_what_the_features_search_found(seed: int) -> None:
    problem = synthetic(seed)
    # One evaluation with a random policy hardly ever beats the best of 400.
    result = Regal(policy=random_policy()).solve(problem, SearchRun(Budget(evaluations=401), seed=seed))
    assert result.metrics.step_time_ns <= context_of(problem, seed).objective
    assert result.trace[-1].best == result.metrics.step_time_ns


def test_the_result_names_the_policy_and_does_not_depend_on_threads() -> None:
    problem, budget = synthetic(), Budget(evaluations=900)
    one, two = (
        Regal(policy=random_policy()).solve(problem, SearchRun(budget, seed=3, threads=threads)) for threads in (1, 2)
    )
    assert np.array_equal(one.solution.order, two.solution.order)
    assert (one.method, one.found_by) == ("regal", f"regal: {random_policy().title}")
    assert one.configuration["policy"] == random_policy().title
    assert random_policy().title.startswith("random ")
    assert random_policy().title == random_policy().title != random_policy(seed=1).title
    assert random_policy().title != random_policy(replace(SMALL, rounds=3)).title
    # Rows name it: a setting that is added must not change what policies without it are called.
    assert find_policy("runtime-synthetic").title == "runtime-synthetic 6400a93c"


def test_expected_levels_do_not_depend_on_a_seed() -> None:
    problem = synthetic()
    context = context_of(problem, 0)

    def rows(policy: RegalPolicy) -> list[list[int]]:
        return [policy.guide(problem, context, seed).row.tolist() for seed in range(2)]

    drawn, expected = rows(random_policy()), rows(random_policy(replace(SMALL, action_selection="mean")))
    assert drawn[0] != drawn[1]
    assert expected[0] == expected[1]
    with pytest.raises(InputError, match="action_selection of an autoregressive network must be 'sample'"):
        replace(SMALL, network="autoregressive", action_selection="mean")
    with pytest.raises(InputError, match="action_selection is 'best'; known are sample, mean"):
        replace(SMALL, action_selection="best")  # type: ignore[arg-type]


def test_random_search_in_place_of_evolution_is_idrs() -> None:
    problem, budget = synthetic(), Budget(evaluations=3000)
    evolved = Regal(policy=random_policy()).solve(problem, SearchRun(budget))
    drawn = Regal(name="idrs", policy=random_policy(), search=RandomSearch()).solve(problem, SearchRun(budget))
    assert drawn.found_by == f"idrs: {random_policy().title}"
    assert drawn.metrics.step_time_ns > evolved.metrics.step_time_ns


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_policy_searches_with_its_own_decoder(decoder: DecoderName) -> None:
    placement_levels = SMALL.placement_levels if decoder in WITH_AFFINITIES else 0
    policy = random_policy(replace(SMALL, decoder=decoder, placement_levels=placement_levels))
    problem = synthetic()
    result = Regal(policy=policy).solve(problem, SearchRun(Budget(evaluations=1200)))
    assert result.configuration["decoder"] == decoder
    metrics = measure(problem, result.solution)
    assert result.metrics == metrics
    # Even with random weights: another decoder leaves less to chance than the paper's with as many evaluations.
    paper = Brkga().solve(problem, SearchRun(Budget(evaluations=1200)))
    assert decoder == "paper" or metrics.step_time_ns < paper.metrics.step_time_ns


def test_a_proposal_s_elite_bias_takes_the_place_of_the_search_s() -> None:
    problem, budget = synthetic(), Budget(evaluations=1500)
    rows = np.zeros(problem.core.num_keys, np.uint16)
    uniform = Proposal(alpha=np.ones(1), beta=np.ones(1), row=rows, elite_bias=0.9)
    given, own = (
        Brkga().solve(problem, SearchRun(budget, guide=uniform)),
        Brkga(elite_bias=0.9).solve(problem, SearchRun(budget)),
    )
    assert np.array_equal(given.solution.order, own.solution.order)
    assert given.configuration["elite_bias"] == 0.9
    assert not np.array_equal(given.solution.order, Brkga().solve(problem, SearchRun(budget)).solution.order)
    for wrong in (0.4, 1.0, float("nan")):
        with pytest.raises(InputError, match="elite bias"):
            replace(uniform, elite_bias=wrong)


def test_a_policy_for_other_problems_is_refused() -> None:
    for_three = random_policy(replace(SMALL, num_devices=3))
    with pytest.raises(InputError, match="policy 'random' is for step-time on 3 devices, not for step-time on 2"):
        Regal(policy=for_three).solve(TINY, SearchRun())
    for_memory = random_policy(replace(SMALL, objective="peak-memory"))
    with pytest.raises(InputError, match="is for peak-memory on 2 devices, not for step-time on 2"):
        Regal(policy=for_memory).solve(TINY, SearchRun())


def tiny_graph() -> Graph:
    return random_graph(0, 1)


def test_a_policy_there_is_not_and_a_machine_none_is_shipped_for_are_named() -> None:
    with pytest.raises(InputError, match=r"there is no policy 'runtime-synthetik'.*runtime-synthetic"):
        placewright.plan(tiny_graph(), "2xideal/free", solver="regal", policy="runtime-synthetik")
    with pytest.raises(InputError, match="step-time on 7 devices; --policy takes a file, or one of: peak-memory-"):
        placewright.plan(tiny_graph(), "7xideal/free", solver="regal")


@pytest.mark.parametrize(
    ("network", "solver", "other"), [("autoregressive", "regal", "gas"), ("sequence", "gas", "regal")]
)
def test_a_method_takes_policies_of_its_kind(network: Network, solver: str, other: str) -> None:
    policy = random_policy(replace(SMALL, network=network))
    method = make_method(solver, policy=policy)
    assert isinstance(method, Regal)
    assert method.policy is policy
    with pytest.raises(InputError, match=f"solver '{other}' does not take policy"):
        make_method(other, policy=policy)
