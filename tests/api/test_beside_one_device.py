"""Plans with times that are measured with all devices at work are compared with one device timed alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from instances import graph_of, machine_of

from placewright.analysis.outcome import gain_words, one_device_words, rival_words
from placewright.api.beside_one_device import OpTimes, plan_beside_one_device
from placewright.api.questions import Plan
from placewright.costs.measured import MeasuredOp, write_measured

#: Two ops that need not wait for each other.
PAIR = graph_of({"a": ("", 4), "b": ("", 4)})
MACHINE = machine_of(2)


def planned(folder: Path, alone_ns: int, **options: Any) -> Plan:
    """Each op takes 100 ns while both devices compute."""
    times = OpTimes(alone=folder / "alone.csv", shared=folder / "shared.csv")
    for path, time_ns in ((times.alone, alone_ns), (times.shared, 100)):
        write_measured(path, {name: MeasuredOp(time_ns, 0) for name in "ab"}, "any")
    return plan_beside_one_device(PAIR, MACHINE, times, options)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith("beside_one_device")]


def test_a_plan_is_compared_with_times_of_one_device_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """100 ns on both; alone 2 * 60 = 120, not 2 * 100."""
    plan = planned(tmp_path, 60)
    assert plan.one_device is not None
    assert (plan.step_time_ns, plan.one_device.metrics.step_time_ns, plan.speedup) == (100, 120, 1.2)
    assert one_device_words(plan, plan.one_device) == "d0 (any), captured order, timed alone"
    assert gain_words(plan) == "16.7% less than d0 alone"
    assert plan.check(PAIR).facts.correct
    assert said(caplog) == []


def test_a_plan_that_one_device_alone_beats_is_not_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """100 ns on both; alone 2 * 40 = 80."""
    with caplog.at_level(logging.WARNING):
        plan = planned(tmp_path, 40)
    assert {op.device for op in plan.ops} == {0}
    assert (plan.step_time_ns, plan.machine, plan.gain) == (80, MACHINE, 0.0)
    assert said(caplog) == ["on several devices a step would take 100 ns, on d0 alone 80 ns: all ops run there"]
    assert plan.check(PAIR).facts.correct


@pytest.mark.parametrize(
    "options", [{"solver": "etf"}, {"pins": {"a": "d0", "b": "d1"}}], ids=["a solver that was asked for", "pins"]
)
def test_what_the_caller_decided_is_run_and_said_to_lose(tmp_path: Path, options: dict[str, Any]) -> None:
    plan = planned(tmp_path, 40, **options)
    assert {op.device for op in plan.ops} == {0, 1}
    said = ["d0 alone is faster: plan for any and no other device"] if "solver" in options else []
    assert list(rival_words(plan)) == said
    # With pins both devices compute meanwhile, so that times of one alone would be too short.
    assert plan.one_device is not None
    assert plan.one_device.metrics.step_time_ns == (80 if "solver" in options else 100)
