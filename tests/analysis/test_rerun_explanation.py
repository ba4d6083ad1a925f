"""Reasons for an op to run again: what is not held meanwhile, what it costs, and what leaving it out would cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from instances import machine_of, sketch

import placewright
from placewright.analysis.op_explanation import OpExplanation
from placewright.api.questions import Plan
from placewright.graph import Graph
from placewright.machine import Link
from placewright.support.errors import InputError
from placewright.terminal.op_tables import rerun_words


def chain() -> Graph:
    """Forward a, b, c, d; backward d', c', which read what c and b made, then a', which reads what a made.

    All take 10 ns but b, which takes 7. What a makes are 8 bytes, b 40, c 8, d 30; each gradient 8.
    """
    return sketch(
        *("a -> a:0=8", "b a:0 -> b:0=40 | time_ns=7 phase=forward", "c b:0 -> c:0=8", "d c:0 -> d:0=30"),
        *("gd d:0 c:0 -> gd:0=8 | phase=backward", "gc gd:0 b:0 -> gc:0=8 | phase=backward"),
        "ga gc:0 a:0 -> ga:0=8! | phase=backward",
        kind="elementwise",
        phase="forward",
        time_ns=10,
        name="chain",
    )


# Everything kept: while d runs a, b, c and d are held, 86 bytes; while gd runs gd's 8 beside them, 94.
# With b run again before gc: after c ran b is dropped. gd holds a, c, d, gd = 54; b@2 a, gd, b = 56; gc a, gd, b, gc =
# 64; c holds a, b, c = 56. So the peak is 64.
_PEAK, _KEPT = 64, 94


@pytest.fixture
def plan() -> Plan:
    return placewright.plan(chain(), machine_of(1), memory_limit=70)


def explained(plan: Plan, name: str) -> OpExplanation:
    found = plan.explain_op(name, chain()).facts
    assert isinstance(found, OpExplanation)
    return found


def test_what_is_not_held_meanwhile_and_what_it_costs(plan: Plan) -> None:
    assert [rerun.name for rerun in plan.reruns] == ["b@2"]
    assert plan.metrics.peak_memory_bytes == _PEAK
    (rerun,) = explained(plan, "b").reruns
    assert (rerun.name, rerun.before, rerun.readers) == ("b@2", "gc", ("gc",))
    assert (rerun.tensors, rerun.size_bytes) == (("b:0",), 40)
    # b is dropped when c is done, at 27; d and gd run; b runs again at 47.
    assert (rerun.held_until, rerun.num_ops, rerun.not_held_ns) == ("c", 2, 20)
    assert rerun.time_ns == 7


def test_what_keeping_it_would_cost_is_simulated(plan: Plan) -> None:
    (rerun,) = explained(plan, "b").reruns
    assert rerun.peak_bytes_without == _KEPT
    assert rerun.bytes_over_limit_without == _KEPT - 70
    assert rerun.step_time_ns_without == plan.step_time_ns - 7


def test_a_rerun_and_a_tensor_are_asked_for_by_their_names(plan: Plan) -> None:
    (rerun,) = explained(plan, "b").reruns
    again = explained(plan, "b@2")
    assert again.op.name == "b@2"
    assert again.reruns == (rerun,)
    assert explained(plan, "b:0") == explained(plan, "b")
    assert explained(plan, "a").reruns == ()
    with pytest.raises(InputError, match="the plan schedules no op or module 'b:1'"):
        explained(plan, "b:1")


def test_it_is_said_in_sentences(plan: Plan) -> None:
    (rerun,) = explained(plan, "b").reruns
    assert list(rerun_words(plan, rerun)) == [
        "'b@2' runs it again before 'gc'; that takes 7 ns.",
        "'b:0', 40 B, is not held from the end of 'c' on, over 2 ops and 20 ns.",
        "Without this rerun the peak would be 94 B, 30 B more and 24 B over the limit, and the step 7 ns shorter.",
    ]
    for sentence in rerun_words(plan, rerun):
        assert sentence in " ".join(plan.explain_op("b", chain()).text.split())


def test_all_runs_of_an_op_move_together() -> None:
    """Between two devices a transfer takes longer than the step, so that all ops are on one of them."""
    plan = placewright.plan(chain(), machine_of(2, Link(latency_ns=10**6)), memory_limit=70)
    # 67 ns for each op once, 7 for b@2; apart from that the limit is kept by two transfers, which take 2 ms.
    assert [rerun.name for rerun in plan.reruns] == ["b@2"]
    assert plan.step_time_ns == 67 + 7
    for name, other in (("b", "b@2"), ("b@2", "b")):
        found = explained(plan, name)
        assert found.group == (other,)
        (elsewhere,) = (each for each in found.alternatives if each.device != found.op.device)
        # What a makes goes there, and what both runs of b make comes back.
        assert elsewhere.bytes_moved == 8 + 40 + 40


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_of_a_network_every_rerun_is_explained(share: float, tmp_path: Path) -> None:
    whole = placewright.plan("example:inception-v3-train", "p100", solver="input-order")
    limit = int(whole.metrics.peak_memory_bytes * share)
    plan = placewright.plan("example:inception-v3-train", "p100", memory_limit=limit, evaluations=20)
    assert plan.reruns
    for rerun in plan.reruns[:: max(1, len(plan.reruns) // 8)]:
        found = plan.explain_op(rerun.name).facts
        assert isinstance(found, OpExplanation)
        (own,) = found.reruns
        assert (own.name, own.tensors) == (rerun.name, rerun.tensors)
        assert own.num_ops >= 0
        assert own.not_held_ns >= 0
        assert own.readers
        # Leaving a run out takes none of the others' time.
        assert own.step_time_ns_without <= plan.step_time_ns
        assert own.bytes_over_limit_without == max(0, own.peak_bytes_without - limit)
