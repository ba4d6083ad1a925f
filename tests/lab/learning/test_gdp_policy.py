"""GDP as a family of policies: trained over several graphs, kept in a file, and what plans it answers with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lab.learning.test_gdp import SMALL, chains, network, observed

import placewright
from placewright.cli import run
from placewright.guide import Placement
from placewright.importers.json_graph import save_graph
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.learning.algorithms.ppo import Ppo, standard_advantage
from placewright.lab.learning.environments.placed_units import PlacedUnits, measured_on_one_device
from placewright.lab.learning.gdp.network import GraphPolicy, weight_shapes
from placewright.lab.learning.gdp.policy import GdpPolicy
from placewright.lab.learning.gdp.settings import GdpConfiguration
from placewright.lab.learning.gdp.trainings import TRAININGS, GdpTraining
from placewright.lab.learning.learner import Learner
from placewright.lab.learning.placers.colocation import units_of
from placewright.lab.learning.placers.gdp import Gdp
from placewright.lab.learning.placers.placer import Task
from placewright.lab.learning.records import Records
from placewright.lab.learning.trainer import BEST, train
from placewright.lab.learning.verdict import LINES
from placewright.methods.policy_file import read_policy, write_policy
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

TRAINING = GdpTraining(
    policy=GdpConfiguration(network=SMALL),
    machine="2xp100",
    control="signal",
    steps=4,
    batch=2,
    samples=3,
    epochs=3,
    learning_rate=1e-2,
    max_grad_norm=1.0,
    checkpoint_interval=2,
    validation_interval=2,
)


def policy_of(configuration: GdpConfiguration, seed: int = 3, name: str = "mine") -> GdpPolicy:
    learned = network(configuration.network, configuration.num_devices, seed)
    weights = {name: tensor.numpy() for name, tensor in learned.state_dict().items()}
    return GdpPolicy(name=name, configuration=configuration, weights=weights, record={})


def environment() -> PlacedUnits:
    problem = chains(4)
    return PlacedUnits(problem=problem, observation=observed(problem), measured=measured_on_one_device(problem))


def learner_of(training: GdpTraining = TRAINING) -> Learner:
    learner = Learner(training, 3)
    random = np.random.default_rng(3)
    learner.weights = (learner.weights + 0.2 * random.normal(size=len(learner.weights))).astype(np.float32)
    return learner


def test_a_steps_first_gradient_is_that_of_log_probabilities_weighed_by_advantages() -> None:
    learner, place = learner_of(replace(TRAINING, entropy=0.0)), environment()
    found = learner.policy_gradient(place, [1, 2, 5, 6])
    assert found.samples is not None
    devices = torch.from_numpy(np.stack([each[:, 0] for each in found.samples.actions]))
    log = torch.log_softmax(learner.network(place.observation), 1).expand(4, -1, -1)
    advantage = torch.from_numpy(standard_advantage(-np.array(found.rewards)))
    chosen = log.gather(2, devices[..., None])[..., 0]
    loss = -(advantage[:, None] * chosen).mean()
    loss.backward()
    expected = torch.cat([
        torch.zeros(weight.numel()) if weight.grad is None else weight.grad.reshape(-1)
        for weight in learner.network.parameters()
    ])  # fmt: skip
    np.testing.assert_allclose(found.gradient, expected.numpy(), atol=1e-6)


def test_passes_over_one_step_are_what_the_solvers_ppo_does() -> None:
    place, seeds = environment(), [1, 2, 5]
    apart, together = learner_of(), learner_of()
    rows = torch.nn.Parameter(torch.from_numpy(apart.weights))
    adam = torch.optim.Adam([rows], lr=1e-2)
    samples = None
    for _ in range(3):
        apart.weights = rows.detach().numpy().copy()
        found = apart.policy_gradient(place, seeds, samples)
        samples = found.samples
        gradient = torch.from_numpy(found.gradient)
        rows.grad = gradient * min(1.0, 1.0 / float(gradient.norm()))
        adam.step()
    assert samples is not None
    actions = torch.from_numpy(np.stack([each[:, 0] for each in samples.actions]))
    ppo = Ppo(GraphPolicy(together.network, place.observation), learning_rate=1e-2, epochs=3)
    ppo.step(actions, standard_advantage(-np.array(samples.rewards)))
    np.testing.assert_allclose(together.weights, rows.detach().numpy(), atol=1e-5)


def test_rewards_are_roots_while_learning_and_ratios_at_validations() -> None:
    # Four chains of 30 ns take 120 on one device; two on each 60.
    place, halved = environment(), np.repeat([0, 0, 1, 1], 3).astype(np.int32)
    guide = Placement(device_of=halved)
    assert place.rewards([guide]) == [-np.sqrt(0.5)]
    assert replace(place, root=False).rewards([guide]) == [-0.5]
    problem = chains(4, memory_limits_bytes=(None, 1))
    over = PlacedUnits(problem=problem, observation=observed(problem), measured=measured_on_one_device(problem))
    assert over.rewards([guide]) == [-10.0]


def test_a_training_that_was_interrupted_goes_on_to_the_same_weights(data: Path, tmp_path: Path) -> None:
    def stop(progress: Any) -> None:
        if progress.step == 3:
            raise KeyboardInterrupt

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(data, TRAINING, whole, name="small")
    with pytest.raises(KeyboardInterrupt):
        train(data, TRAINING, parts, name="small", on_progress=stop)
    train(data, TRAINING, parts, name="small", processes=2)
    assert (parts / BEST).read_bytes() == (whole / BEST).read_bytes()


def test_a_training_on_devices_that_are_alike_is_not_taken_for_one_that_failed(data: Path, tmp_path: Path) -> None:
    """One unit is on the first of the devices: it has no logits for the others, and no entropy."""
    train(data, replace(TRAINING, checkpoint_interval=1), tmp_path, name="small")
    facts = [line for line in Records(tmp_path, 4).lines if "entropy" in line]
    assert len(facts) == 4 > LINES
    assert np.isfinite([list(line.values()) for line in facts]).all()
    assert read_policy(tmp_path / BEST).record["learned"]["stopped"] is None


def test_a_policy_is_trained_by_the_command_and_plans(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRAININGS, "2xp100", replace(TRAINING, steps=2))
    out = tmp_path / "run"
    assert run(["train", "gdp", "--data", str(data), "-o", str(out), "--processes", "1", "-q"]) == 0
    policy = read_policy(out / BEST)
    assert (policy.family, policy.name, policy.record["step"]) == ("gdp", "2xp100/run", 2)
    graph = random_graph(0, 9)
    save_graph(graph, tmp_path / "graph.json")
    capsys.readouterr()
    plan = placewright.plan(graph, "2xp100", solver="gdp", policy=out / BEST)
    # Two single devices, the likeliest placement and fifteen that are drawn.
    assert plan.evaluations == 18
    assert plan.configuration["method"]["policy"] == policy.title
    assert placewright.plan(graph, "2xp100", solver="gdp", policy=out / BEST, evaluations=50).evaluations == 50
    with pytest.raises(InputError, match="policy '2xp100/run' is for step-time on 2 devices, not for step-time on 4"):
        placewright.plan(graph, "4xp100", solver="gdp", policy=out / BEST)
    with pytest.raises(InputError, match="solver 'regal' does not take policy '2xp100/run'"):
        placewright.plan(graph, "2xp100", solver="regal", policy=out / BEST)
    with pytest.raises(InputError, match="solver 'gdp' does not take policy 'runtime-synthetic'"):
        placewright.plan(graph, "2xp100", solver="gdp", policy="runtime-synthetic")


def test_what_a_policy_answers_first_is_its_likeliest_placement() -> None:
    problem = chains(10, 1)
    policy = policy_of(GdpConfiguration(network=SMALL))
    guide = policy.guide(problem, policy.observe(problem, 0), 0)
    task = Task(problem=problem, units=units_of(problem, ()), seed=1, evaluations=16)
    learner = Gdp().with_policy(policy).proposals(task)
    asked = next(learner)
    learner.close()
    assert asked.shape == (16, 30)
    assert asked[0].tolist() == guide.device_of.tolist()


def test_fine_tuning_begins_with_the_policys_weights_and_leaves_them_as_they_are() -> None:
    policy = policy_of(GdpConfiguration(network=SMALL))
    before = {name: array.copy() for name, array in policy.weights.items()}
    method = Gdp().with_policy(policy)
    first, second = (method.solve(chains(10, 1), SearchRun(Budget(evaluations=80), seed=4)) for _ in range(2))
    assert np.array_equal(first.solution.device_of, second.solution.device_of)
    assert all(np.array_equal(policy.weights[name], array) for name, array in before.items())


def test_a_policy_is_read_back_equal_and_a_spoilt_one_is_refused(tmp_path: Path) -> None:
    configuration = GdpConfiguration(network=SMALL, colocation=("module", "gradients"))
    policy, path = policy_of(configuration), tmp_path / "p.safetensors"
    write_policy(policy, path)
    back = read_policy(path)
    assert (back.title, back.configuration) == (policy.title, configuration)
    wider = replace(configuration, network=replace(SMALL, width=16))
    write_policy(replace_configuration(policy, wider), path)
    with pytest.raises(InputError, match=r"p.safetensors': policy 'mine': '.*' is not 16.* finite float32 numbers"):
        read_policy(path)


def replace_configuration(policy: GdpPolicy, configuration: GdpConfiguration) -> GdpPolicy:
    """Return a policy whose configuration contradicts its weights."""
    spoilt = policy_of(policy.configuration)
    object.__setattr__(spoilt, "configuration", configuration)
    return spoilt


def test_a_policy_of_ops_on_devices_maps_no_tensors() -> None:
    with pytest.raises(InputError, match="places ops on devices, and maps no tensors to memory levels"):
        policy_of(GdpConfiguration(network=SMALL)).check(object())


def test_the_shapes_of_weights_are_known_without_making_any() -> None:
    before = torch.get_rng_state()
    shapes = weight_shapes(GdpConfiguration(network=SMALL))
    assert torch.equal(torch.get_rng_state(), before)
    assert shapes == {name: tuple(tensor.shape) for name, tensor in network().state_dict().items()}
