"""A placement policy from outside the package: it learns, is saved and loaded, and plans (examples/mlp_placer)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from instances import graph_of, machine_of, problem_of

import placewright
from placewright.cli import run
from placewright.guide import Placement
from placewright.importers.graph_set import SUFFIX, read_graph_set, write_graph_set
from placewright.lab.learning.environments.placement import SimulatedPlacement, allowed_devices
from placewright.lab.learning.learner import Learner
from placewright.machines import load_machine
from placewright.methods.plugins import load_plugins
from placewright.methods.policies import FAMILIES, family_of
from placewright.methods.policy_file import read_policy
from placewright.problem import Problem, make_problem
from placewright.problem.constraints import Constraints
from placewright.support.errors import InputError

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "examples" / "mlp_placer" / "mlp_placer.py"
NETWORKS = ("deep_interest-inference", "two_towers-inference", "dlrm-inference")


@pytest.fixture(scope="module")
def mlp_placer() -> ModuleType:
    import sys

    load_plugins([PLUGIN])
    return sys.modules["placewright_plugin_mlp_placer"]


def networks() -> list[placewright.Graph]:
    graphs = read_graph_set(ROOT / "tests" / "committed.graphs.gz")
    return [graphs[graphs.labels.index(name)] for name in NETWORKS]


def test_a_policy_learns_to_keep_together_what_belongs_together(mlp_placer: ModuleType) -> None:
    training = mlp_placer.TRAINING
    machine = load_machine(training.machine)
    environments = [training.environment(make_problem(graph, machine), 0, "train") for graph in networks()]
    learner = Learner(training, seed=0)
    weights = torch.nn.Parameter(torch.from_numpy(learner.weights))
    adam = torch.optim.Adam([weights], lr=training.learning_rate)
    rewards = []
    for step in range(20):
        learner.weights = weights.detach().numpy().copy()
        seeds = np.random.default_rng(step).integers(2**63, size=training.samples).tolist()
        estimates = [learner.policy_gradient(environment, seeds) for environment in environments]
        rewards.append(float(np.mean([estimate.rewards for estimate in estimates])))
        weights.grad = torch.from_numpy(np.mean([estimate.gradient for estimate in estimates], axis=0))
        adam.step()
    # Devices drawn at random take more than one and a half times as long as one device, as so much moves over PCIe.
    assert rewards[0] < -1.5
    assert rewards[-1] > -1.1


def test_a_policy_of_one_s_own_is_trained_saved_and_plans(
    mlp_placer: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "valid"):
        write_graph_set(tmp_path / f"{split}{SUFFIX}", networks()[:1], {})
    out, plugin = tmp_path / "run", ["--plugin", str(PLUGIN)]
    assert run(["train", "mlp-placer", *plugin, "--data", str(tmp_path), "-o", str(out), "--steps", "2", "-q"]) == 0
    policy = read_policy(out / "best.safetensors")
    assert (policy.family, policy.record["step"]) == ("mlp-placer", 2)
    graph = networks()[0]
    plan = placewright.plan(graph, "2xp100", solver="placer", policy=out / "best.safetensors")
    assert plan.found_by == f"placer: {policy.title}"
    with pytest.raises(InputError, match="solver 'regal' does not take policy 'default/run'"):
        placewright.plan(graph, "2xp100", solver="regal", policy=out / "best.safetensors")
    with pytest.raises(InputError, match="solver 'placer' needs a policy that chooses devices"):
        placewright.plan(graph, "2xp100", solver="placer")
    with pytest.raises(InputError, match="it chooses no devices"):
        placewright.plan(graph, "2xp100", solver="placer", policy="runtime-synthetic")


def test_a_file_of_a_family_that_is_not_loaded_says_what_to_do(
    mlp_placer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from placewright.methods.policy_file import write_policy

    configuration = mlp_placer.MlpConfiguration()
    weights = {name: part.numpy() for name, part in mlp_placer.MlpNetwork(configuration).state_dict().items()}
    policy = mlp_placer.MlpPolicy(name="mine", configuration=configuration, weights=weights, record={})
    write_policy(policy, tmp_path / "p.safetensors")
    monkeypatch.delitem(FAMILIES, "mlp-placer")
    with pytest.raises(InputError, match=r"p.safetensors': there is no family of policies 'mlp-placer'.*--plugin FILE"):
        read_policy(tmp_path / "p.safetensors")


def test_a_family_of_placewright_s_own_cannot_be_replaced() -> None:
    with pytest.raises(InputError, match="placewright has a family of policies 'regal' of its own"):
        placewright.register_policy_family(replace(family_of("regal")))


def environment() -> SimulatedPlacement:
    graph = graph_of({"a": ("", 4), "b": ("a", 3), "c": ("a", 5), "d": ("b c", 1)})
    problem = problem_of(graph, machine_of(2), (3, 4, 5, 6))
    return SimulatedPlacement(problem=problem, observation=None, reference=18.0)


def test_a_placement_s_reward_is_its_simulated_step_over_that_of_one_device() -> None:
    # 3 + 4 + 5 + 6 on one device, whichever it is.
    guides = [Placement(device_of=np.full(4, device, np.int32)) for device in (0, 1)]
    assert environment().rewards(guides) == [-1.0, -1.0]


def test_rewards_do_not_depend_on_threads() -> None:
    random = np.random.default_rng(0)
    guides = [Placement(device_of=random.integers(0, 2, 4).astype(np.int32)) for _ in range(20)]
    assert replace(environment(), threads=3).rewards(guides) == environment().rewards(guides)


def test_groups_and_forbidden_devices_come_before_a_policy_s_choice() -> None:
    graph = graph_of({"a": ("", 4), "b": ("a", 3), "c": ("a", 5), "d": ("b c", 1)})
    plain = problem_of(graph, machine_of(2), (3, 4, 5, 6))
    problem = Problem(
        graph=plain.graph,
        machine=plain.machine,
        time_ns=plain.time_ns,
        constraints=Constraints(pins=(("a", "d1"),), colocations=(("b", "c"),)),
    )
    # a is pinned to device 1; c goes with b, the first of its group.
    assert allowed_devices(problem, np.array([0, 1, 0, 0], np.int32)).tolist() == [1, 1, 1, 0]
