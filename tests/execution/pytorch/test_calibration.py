"""Planning again with what a run measured."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from instances import sketch
from torch_modules import calls

import placewright
from placewright.costs.measured import MeasuredOp, write_measured
from placewright.execution.devices import available_cores
from placewright.execution.pytorch.run_times import machine_of_run, op_times_of_run
from placewright.machine import Device, Link, Machine
from placewright.plans.retimed import retimed
from placewright.problem import make_problem
from placewright.support.errors import InputError

TWO = "cpu:0,cpu:1"
needs_two_cores = pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each")


#: x is read by two ops; `join` reads the first result, and the second through a view.
GRAPH = sketch(
    *("x -> x=4000 | kind=input", "left x -> a=4000", "right x -> b=4000", "v~ b -> v=4000:b | time_ns=0"),
    *("join a v -> c=4000",),
    name="diamond",
    kind="elementwise",
    time_ns=50_000,
)
MACHINE = Machine(
    name="two",
    devices=(Device(name="cpu:0", kind="cpu-1-core"), Device(name="cpu:1", kind="cpu-1-core")),
    links=((Link(latency_ns=10_000, bandwidth_bytes_per_s=1e9),) * 2,) * 2,
)


def diamond_plan() -> placewright.Plan:
    pins = {"x": "cpu:0", "left": "cpu:0", "join": "cpu:0", "right": "cpu:1"}
    return placewright.plan(GRAPH, MACHINE, pins=pins, evaluations=10)


def run_of(times: dict[str, tuple[float, float]], steps: int = 3) -> Any:
    """Steps that all took the same time: [step, op, start and finish] in ns."""
    one = [times.get(op.name, (-1.0, -1.0)) for op in GRAPH.ops]
    return np.array([one] * steps, np.float64)


def test_an_op_takes_what_its_device_spent_on_it_in_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placewright.execution.pytorch.run_times.observer_ns", lambda: 0)
    monkeypatch.setattr("placewright.execution.pytorch.profile.observer_ns", lambda: 0)
    run = run_of({"x": (0, 100), "left": (200, 900), "right": (3000, 3600), "v": (5000, 5030), "join": (5100, 5600)})
    found = op_times_of_run(diamond_plan(), GRAPH, run)
    # On cpu:0 there are 100 ns between x and left in every step, and 4200 between left and join, where it waited: 100
    # pass between two ops. Join needs a view, which has its own 30 ns and passes 100 more.
    assert {name: measured.time_ns for name, measured in found.items()} == {
        "x": 100 + 100,
        "left": 700 + 100,
        "right": 600 + 100,
        "join": 500 + 100 + 30 + 100,
    }


def test_a_link_takes_what_devices_waited_for_it() -> None:
    plan = diamond_plan()
    run = run_of({"x": (0, 100), "left": (100, 200), "right": (30_100, 90_000), "v": (129_000, 129_500),
                  "join": (130_000, 140_000)})  # fmt: skip
    # right waited 30 us for x, and join 40 us for right: too few waits to say anything about the link.
    assert machine_of_run(plan, GRAPH, run) == plan.machine


def test_a_plan_keeps_devices_and_order_under_other_times(tmp_path: Path) -> None:
    plan = diamond_plan()
    times = tmp_path / "times.csv"
    write_measured(times, {name: MeasuredOp(time, 0) for name, time in
                           {"x": 0, "left": 7_000, "right": 9_000, "join": 5_000}.items()}, "cpu-1-core")  # fmt: skip
    again = retimed(plan, make_problem(GRAPH, MACHINE, measured=times))
    assert [(op.name, op.device) for op in again.ops] == [(op.name, op.device) for op in plan.ops]
    # x is sent in 10 us + 4 us; right takes 9 us; its tensor comes back in 14 us; join takes 5 us.
    assert again.step_time_ns == 14_000 + 9_000 + 14_000 + 5_000
    assert again.time_sources is not None
    assert again.time_sources.measured == 4


@needs_two_cores
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_calibration_keeps_one_of_its_plans_and_changes_no_result(training: bool) -> None:
    model, args, kwargs = calls()["branches"]()
    state = copy.deepcopy(model.state_dict())
    with placewright.compile(model, args, kwargs=kwargs, devices=TWO, training=training, evaluations=5) as compiled:
        rounds = compiled.calibrate(*args, steps=3, **kwargs)
        assert 1 <= len(rounds) <= 3
        assert [one.kept for one in rounds].count(True) == 1
        assert min(rounds, key=lambda one: one.measured_ns).kept
        assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
        found = compiled.compare(*args, steps=2, **kwargs)
        assert found.facts.rounds == rounds
        assert "first plan" in found.text
        assert found.facts.planned_ns == compiled.plan.step_time_ns
        assert compiled.plan.one_device is not None
        assert compiled.plan.one_device.metrics.step_time_ns == found.facts.one_device_planned_ns
        assert {op.name for op in found.facts.ops} <= {op.name for op in compiled.plan.ops}
        if not training:
            torch.testing.assert_close(compiled(*args, **kwargs)["sum"], model.eval()(*args, **kwargs)["sum"])


@needs_two_cores
def test_a_plan_that_was_given_is_not_made_again() -> None:
    model, args, kwargs = calls()["branches"]()
    with placewright.compile(model, args, kwargs=kwargs, devices=TWO, evaluations=5) as compiled:
        plan = compiled.plan
    with (
        placewright.compile(model, args, kwargs=kwargs, devices=TWO, plan=plan) as given,
        pytest.raises(InputError, match="a plan was given to be run as it is"),
    ):
        given.calibrate(*args, **kwargs)
