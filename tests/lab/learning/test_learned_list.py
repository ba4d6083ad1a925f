"""Learned list scheduling: the score and what it sees against slow references, plans for any machine, trainings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from instances import graph_of, machine_of, plan_of, problem_of
from lab.learning.placer_cases import columns
from reference import rule_broken_by
from reference_pair_features import followed
from strategies import problems, tight_problems

import placewright
import placewright._core as _core
from placewright.cli import run
from placewright.guide import Placement
from placewright.importers.json_graph import save_graph
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.learning.algorithms.evolution_strategy import EvolutionStrategy
from placewright.lab.learning.learned_list.clusters import clusters_of
from placewright.lab.learning.learned_list.network import PairDistribution, ScoreNetwork, as_actions
from placewright.lab.learning.learned_list.policy import LearnedListPolicy, scored, untrained, weight_shapes
from placewright.lab.learning.learned_list.settings import LearnedListConfiguration
from placewright.lab.learning.learned_list.solver import LearnedList, shipped
from placewright.lab.learning.learned_list.trainings import (
    TRAININGS,
    DemonstratedPlacement,
    LearnedListTraining,
    on_machine,
)
from placewright.lab.learning.learner import Learner
from placewright.lab.learning.trainer import BEST
from placewright.machine import Link
from placewright.machines import load_machine
from placewright.methods.policy_file import read_policy, write_policy
from placewright.methods.table import make_method
from placewright.problem import Problem, make_problem
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.verification.checker import check_plan

SMALL = LearnedListConfiguration(hidden=4, window=3, parts=(8, 64))
TRAINING = LearnedListTraining(
    policy=SMALL,
    machine="p100",
    machines=("2xp100", "v100-32g+2xp100"),
    control="signal",
    augmentations=1,
    evaluations=30,
    steps=4,
    imitation_steps=2,
    batch=2,
    samples=2,
    checkpoint_interval=2,
    validation_interval=2,
)


def network_of(seed: int, configuration: LearnedListConfiguration = SMALL) -> ScoreNetwork:
    torch.manual_seed(seed)
    network = ScoreNetwork(configuration)
    with torch.no_grad():
        for weights in network.parameters():
            weights.normal_()
    return network


def policy_of(seed: int = 0, configuration: LearnedListConfiguration = SMALL) -> LearnedListPolicy:
    weights = {name: array.copy() for name, array in network_of(seed, configuration).arrays().items()}
    return LearnedListPolicy(name="mine", configuration=configuration, weights=weights)


def solved(problem: Problem, policy: LearnedListPolicy) -> Any:
    return LearnedList(policy=policy).solve(problem, SearchRun())


@settings(max_examples=60)
@given(problem=problems(max_ops=9), seed=st.integers(0, 99))
def test_features_are_those_of_the_slow_oracle(problem: Problem, seed: int) -> None:
    assume(problem.machine.transfer_model == "overlapped" and not problem.core.has_hosts)
    free = replace(problem, memory_limits_bytes=(None,) * problem.machine.num_devices, objective="step-time")
    device_of, ops = scored(free.core, policy_of(seed).weights, 3)
    rows, begin, chosen = _core.scored_steps(free.core, device_of, ops, 3)
    expected = followed(free, device_of, ops, 3)
    assert begin.tolist() == np.cumsum([0, *(len(step.pairs) for step in expected)]).tolist()
    np.testing.assert_allclose(rows, [row for step in expected for row in step.features], rtol=1e-4, atol=1e-5)
    pairs = [pair for step in expected for pair in step.pairs]
    assert [pairs[index] for index in chosen] == [step.chosen for step in expected]


@settings(max_examples=60)
@given(problem=problems(max_ops=9, max_devices=4), seed=st.integers(0, 99))
def test_the_core_places_what_the_network_in_pytorch_scores_highest(problem: Problem, seed: int) -> None:
    network = network_of(seed)
    device_of, ops = scored(problem.core, network.arrays(), SMALL.window)
    rows, begin, chosen = _core.scored_steps(problem.core, device_of, ops, SMALL.window)
    hidden = torch.nn.functional.linear(torch.from_numpy(rows), network.hidden.weight, network.hidden.bias)
    scores = (torch.from_numpy(rows) * network.linear).sum(1) + (hidden.clamp(min=0) * network.output).sum(1)
    torch.testing.assert_close(network(torch.from_numpy(rows)), scores)
    for first, end, pair in zip(begin[:-1], begin[1:], chosen, strict=True):
        assert scores[pair] >= scores[first:end].max() - 1e-3


@settings(max_examples=60)
@given(problem=problems(max_ops=10, max_devices=4), seed=st.integers(0, 99))
def test_every_plan_keeps_the_rules(problem: Problem, seed: int) -> None:
    problem = replace(problem, objective="step-time")
    result = solved(problem, policy_of(seed))
    order = [tuple(step) for step in result.solution.order.tolist()]
    assert rule_broken_by(problem, result.solution.device_of.tolist(), order) is None
    assert not check_plan(plan_of(problem, result.solution), problem.graph, problem.time_ns)


@settings(max_examples=60)
@given(problem=tight_problems(max_ops=9), seed=st.integers(0, 99))
def test_ops_within_limits_stay_and_no_op_exceeds_one_without_need(problem: Problem, seed: int) -> None:
    problem = replace(problem, objective="step-time")
    device_of, ops = scored(problem.core, policy_of(seed).weights, SMALL.window)
    kept, order = _core.within_limits(problem.core, device_of, ops)
    assert order.tolist() == ops.tolist()
    late = problem.core.with_transfers(kept, order, True)
    over = problem.core.simulate(kept, late).bytes_over_limit
    again, _ = _core.within_limits(problem.core, kept, ops)
    if over == 0:
        assert again.tolist() == kept.tolist()
    free = replace(problem, memory_limits_bytes=(None,) * problem.machine.num_devices)
    assert _core.within_limits(free.core, device_of, ops)[0].tolist() == device_of.tolist()


def test_an_op_that_does_not_fit_is_put_where_it_does() -> None:
    # Each op leaves 60 bytes to the end; a device holds 130, two of them.
    graph = graph_of({"a": ("", 60), "b": ("", 60), "c": ("", 60)})
    limited = problem_of(graph, machine_of(2), 10, memory_limits_bytes=(130, 130))
    outputs = replace(graph, tensors=tuple(replace(tensor, is_output=True) for tensor in graph.tensors))
    limited = replace(limited, graph=outputs)
    wanted = np.zeros(3, np.int32)
    device_of, _ = _core.within_limits(limited.core, wanted, np.arange(3, dtype=np.int32))
    assert device_of.tolist() == [0, 0, 1]


@pytest.mark.parametrize("num_devices", range(1, 9))
def test_a_policy_places_on_any_number_of_unequal_devices(num_devices: int) -> None:
    machine = machine_of(num_devices, Link(latency_ns=3))
    problem = problem_of(random_graph(0, 4), machine, 20)
    unequal = replace(problem, time_ns=problem.time_ns * np.arange(1, 1 + num_devices))
    first, second = (solved(unequal, policy_of(1)) for _ in range(2))
    assert first.solution.device_of.tolist() == second.solution.device_of.tolist()
    assert first.solution.order.tolist() == second.solution.order.tolist()
    assert first.metrics.bytes_over_limit == 0


def test_equal_devices_have_equal_scores_whatever_they_are_called() -> None:
    problem = columns(4, 50)
    clusters = clusters_of(problem, 64)
    device_of, ops = scored(clusters.core, untrained(SMALL).weights, 8)
    network = network_of(2)
    logs = [
        float(PairDistribution(network, clusters).evaluate([as_actions(devices, ops)])[0].detach())
        for devices in (device_of, 1 - device_of)
    ]
    assert set(device_of.tolist()) == {0, 1}
    assert logs[0] == pytest.approx(logs[1], abs=1e-3)


def test_before_it_learns_ops_go_where_they_start_first() -> None:
    # Two chains of 2 x 10 ns, whose tensors take 100 ns to another device.
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("", 1), "d": ("c", 1)})
    problem = problem_of(graph, machine_of(2, Link(latency_ns=100)), 10)
    result = solved(problem, untrained(SMALL))
    assert result.metrics.step_time_ns == 20


def test_the_likelihood_of_actions_is_a_softmax_over_what_is_compared() -> None:
    problem = columns(3)
    clusters, network = clusters_of(problem, 64), network_of(5)
    distribution = PairDistribution(network, clusters)
    actions = [distribution.sample(seed) for seed in (1, 2)]
    log_probability, decisions = distribution.evaluate(actions)
    expected, nats = [], []
    for each in actions:
        order = np.argsort(each[:, 1]).astype(np.int32)
        rows, begin, chosen = _core.scored_steps(clusters.core, each[:, 0].astype(np.int32), order, SMALL.window)
        scores = network(torch.from_numpy(rows)).detach().double().numpy()
        total, of_steps = 0.0, []
        for first, end, pair in zip(begin[:-1], begin[1:], chosen, strict=True):
            shares = np.exp(scores[first:end] - scores[first:end].max())
            shares /= shares.sum()
            total += float(np.log(shares[pair - first]))
            of_steps.append(-sum(share * np.log(share) for share in shares if share > 0))
        expected.append(total)
        nats.append(np.mean(of_steps))
    assert log_probability.tolist() == pytest.approx(expected, rel=1e-4)
    assert decisions.entropy == pytest.approx(np.mean(nats), rel=1e-4)


def test_samples_are_drawn_by_their_probability() -> None:
    # One op, two devices of 10 and 30 ns: two pairs, whose softmax the frequencies approach.
    problem = problem_of(graph_of({"a": ("", 1)}), machine_of(2), 10)
    problem = replace(problem, time_ns=np.array([[10, 30]]))
    network, clusters = network_of(3), clusters_of(problem, 1)
    network.linear.data[:] = 0
    network.output.data[:] = 0
    network.linear.data[7] = -1.0  # slowdown: log2 of 1 and 3
    distribution = PairDistribution(network, clusters)
    share = np.mean([distribution.sample(seed)[0, 0] == 0 for seed in range(2000)])
    expected = float(distribution.evaluate([np.array([[0, 0]])])[0].exp().detach())
    assert expected == pytest.approx(3**1.4427 / (1 + 3**1.4427), rel=1e-3)
    assert share == pytest.approx(expected, abs=0.04)


class Bowl:
    """An environment whose reward is minus the squared distance of the weights from a point."""

    problem: Any = None
    observation: Any = None

    def __init__(self, network: Point, target: np.ndarray) -> None:
        self.network, self.target = network, target

    def rewards(self, guides: Any, seeds: Any) -> list[float]:
        return [-float(((self.network.point.detach().numpy() - self.target) ** 2).sum())]


class Point(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.point = torch.nn.Parameter(torch.zeros(3))

    def distribution(self, observation: Any) -> Any:
        return self

    def choose(self, seed: int) -> None:
        return None

    def guide(self, problem: Any, observation: Any, actions: Any) -> None:
        return None


def test_an_evolution_strategys_gradient_is_that_of_the_rewards_and_leaves_the_weights() -> None:
    network = Point()
    environment = Bowl(network, np.array([1.0, -2.0, 0.5]))
    algorithm = EvolutionStrategy(network=network, networks=network, deviation=0.1)
    found = algorithm.gradient(environment, range(4000)).gradient
    assert network.point.tolist() == [0, 0, 0]
    # The loss falls towards the point: its gradient at 0 is -2 x the point, up to one factor.
    direction = found / np.linalg.norm(found)
    expected = -environment.target / np.linalg.norm(environment.target)
    assert direction == pytest.approx(expected, abs=0.05)
    assert algorithm.gradient(environment, [1, 2]).rewards == algorithm.gradient(environment, [1, 2]).rewards


def test_what_is_imitated_is_the_plan_of_auto_in_clusters() -> None:
    problem = columns(4, 50)
    environment = DemonstratedPlacement(
        problem=problem, observation=clusters_of(problem, 64), reference=1, evaluations=50
    )
    actions = environment.demonstration.actions
    device_of = environment.observation.placement(actions[:, 0].astype(np.int32))
    plan = make_method("auto").solve(problem, SearchRun(Budget(evaluations=50)))
    assert sorted(actions[:, 1].tolist()) == list(range(environment.observation.core.num_ops))
    assert device_of.tolist() == plan.solution.device_of.tolist()


def test_a_cluster_stands_where_most_of_its_time_is_spent() -> None:
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("b", 1)})
    problem = problem_of(graph, machine_of(2), [10, 30, 10])
    clusters = clusters_of(problem, 1)
    assert clusters.core.num_ops == 1
    device_of, order = clusters.projected(problem, np.array([0, 1, 0], np.int32), np.arange(3, dtype=np.int32))
    assert (device_of.tolist(), order.tolist()) == ([1], [0])


def test_imitation_makes_the_demonstration_likelier() -> None:
    learner = Learner(replace(TRAINING, policy=replace(SMALL, window=8)), 1)
    problem = columns(4, 50)
    environment = DemonstratedPlacement(
        problem=problem, observation=clusters_of(problem, 64), reference=1, evaluations=200
    )
    losses = []
    for _ in range(40):
        found = learner.imitation_gradient(environment)
        learner.weights = learner.weights - 0.3 * found.gradient
        losses.append(found.loss)
    assert losses[-1] < 0.7 * losses[0]


def test_a_policy_is_trained_by_the_command_and_plans(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRAININGS, "step-time", TRAINING)
    out = tmp_path / "run"
    assert run(["train", "learned-list", "--data", str(data), "-o", str(out), "--processes", "1", "-q"]) == 0
    policy = read_policy(out / BEST)
    assert (policy.family, policy.name) == ("learned-list", "step-time/run")
    save_graph(random_graph(0, 9), tmp_path / "graph.json")
    arguments = ["plan", str(tmp_path / "graph.json"), "--devices", "v100-32g+2xp100", "--policy", str(out / BEST)]
    for solver in ("learned-list", "placer"):
        capsys.readouterr()
        assert run([*arguments, "--solver", solver, "--evaluations", "20", "-o", str(tmp_path / "plan.json")]) == 0
    plan = placewright.plan(random_graph(0, 9), "2xp100", solver="learned-list", policy=out / BEST)
    assert policy.title in plan.found_by
    with pytest.raises(InputError, match="solver 'gdp' does not take policy 'step-time/run'"):
        placewright.plan(random_graph(0, 9), "2xp100", solver="gdp", policy=out / BEST)
    with pytest.raises(InputError, match="solver 'learned-list' does not take policy 'runtime-synthetic'"):
        placewright.plan(random_graph(0, 9), "2xp100", solver="learned-list", policy="runtime-synthetic")


def test_a_policy_is_read_back_equal(tmp_path: Path) -> None:
    write_policy(policy_of(), tmp_path / "p.safetensors")
    back = read_policy(tmp_path / "p.safetensors")
    assert (back.title, back.configuration) == (policy_of().title, SMALL)
    assert shipped().family == "learned-list"
    with pytest.raises(InputError, match="places ops on devices, and maps no tensors to memory levels"):
        policy_of().check(object())


def test_the_guide_is_the_first_plan_of_the_solver() -> None:
    problem = columns(5, 50)
    policy = policy_of(4)
    guide = policy.guide(problem, policy.observe(problem, 0), 0)
    assert isinstance(guide, Placement)
    assert guide.device_of.tolist() == next(LearnedList(policy=policy).candidates(problem)).device_of.tolist()


def test_the_core_refuses_weights_of_other_shapes() -> None:
    problem = columns(2)
    shapes = weight_shapes(4)
    assert {name: tuple(array.shape) for name, array in network_of(0).arrays().items()} == shapes
    linear, hidden, four = (np.zeros(shape, np.float32) for shape in (22, (21, 4), 4))
    with pytest.raises(ValueError, match="a score's weights do not have its shapes"):
        _core.scored_schedule(problem.core, linear, hidden, four, four, 3)


def test_stated_times_are_scaled_by_what_another_device_does_in_a_second() -> None:
    graph = graph_of({"a": ("", 4), "b": ("a", 4)})
    kinds = (
        replace(graph.ops[0], kind="matmul", time_ns=9300),
        replace(graph.ops[1], kind="elementwise", time_ns=7320),
    )
    stated = make_problem(replace(graph, ops=kinds), load_machine("p100"))
    moved = on_machine(stated, load_machine("v100+p100"), load_machine("p100").devices[0])
    # A V100 does 15.7 TFLOP/s and 900 GB/s, a P100 9.3 and 732.
    assert moved.time_ns.tolist() == [[5509, 9300], [5954, 7320]]
    assert (moved.objective, moved.control) == (stated.objective, stated.control)
    with pytest.raises(InputError, match="has no rate by which a stated time could be scaled"):
        on_machine(stated, load_machine("2xideal/free"), load_machine("p100").devices[0])
