"""Advice about a plan that does not fit."""

from __future__ import annotations

from dataclasses import replace

from plans import MIB, Node, machine_of, plan_of, small_plan

from placewright.analysis.advice import advice, peak_words
from placewright.plans.record import Plan

GIB = 2**30


def two_ops(limit: int, *, output: int, weight: int, phase: str = "forward") -> Plan:
    """a and b on gpu0, each with a weight: while b runs gpu0 holds two weights and two outputs."""
    nodes = [
        Node(name="a", phase=phase, output_bytes=output, parameter_bytes=weight, device=0),
        Node(name="b", inputs=(0,), output_bytes=output, parameter_bytes=weight, device=0),
    ]
    return plan_of(nodes, machine_of(2, limit))


def test_a_plan_that_fits_needs_no_advice() -> None:
    assert (advice(small_plan()), peak_words(small_plan())) == ((), ())


def test_it_is_said_what_fills_the_device_that_lacks_most_and_names_the_largest() -> None:
    """2 x 5 MiB of outputs and 2 x 2 MiB of weights, 14 MiB in all, on a device of 8 MiB."""
    contents, largest = peak_words(two_ops(8 * MIB, output=5 * MIB, weight=2 * MIB))
    assert (
        contents == "At its peak gpu0 holds 10.0 MiB of tensors between ops and 4.00 MiB of parameters and constants."
    )
    assert largest == "Largest there: a:0 (5.00 MiB), b:0 (5.00 MiB), a.weight (2.00 MiB)."


def test_where_the_devices_have_more_than_the_limit_the_limit_that_would_do_is_named() -> None:
    """14 MiB and a byte are 15 whole MiB; the devices have 16."""
    plan = two_ops(16 * MIB, output=5 * MIB, weight=2 * MIB)
    peaks = (14 * MIB + 1, 0)
    metrics = replace(plan.metrics, peak_bytes=peaks, bytes_over_limit=6 * MIB + 1)
    told = advice(replace(plan, memory_limits_bytes=(8 * MIB, 8 * MIB), metrics=metrics, status="infeasible"))
    assert "This plan would fit under a memory limit of 15MiB, which the devices have." in told


def test_where_the_devices_are_too_small_devices_that_would_hold_the_plan_are_named() -> None:
    """2 x 12 GiB of outputs and 2 x 1 GiB of weights: 26 GiB, beyond 24 GB cards."""
    told = " ".join(advice(two_ops(20 * GIB, output=12 * GIB, weight=GIB)))
    assert "Devices of 26.0 GiB or more would hold this plan, such as v100-32g (31.7 GiB)" in told
    assert "k80" not in told
    assert "a memory limit of" not in told


def test_what_no_known_device_holds_takes_more_devices() -> None:
    told = " ".join(advice(two_ops(20 * GIB, output=GIB, weight=400 * GIB)))
    assert "No preset holds the 802 GiB of this plan on one device: it takes more devices." in told


def test_a_smaller_batch_is_no_advice_where_the_parameters_alone_do_not_fit() -> None:
    """2 x 9 GiB of weights on two devices of 4 GiB: at least ceil(18 / 4) = 5 devices."""
    told = advice(two_ops(4 * GIB, output=GIB, weight=9 * GIB))[-1]
    assert told == (
        "Parameters and constants alone take 18.0 GiB, all devices have 8.00 GiB: "
        "no batch size fits, and it takes 5 devices at least."
    )


def test_a_smaller_batch_and_recomputing_are_named_where_activations_make_the_peak() -> None:
    told = advice(two_ops(8 * MIB, output=5 * MIB, weight=2 * MIB))[-1]
    assert told == "A smaller batch shrinks most of the 10.0 MiB beside parameters and constants."
    told = advice(two_ops(8 * MIB, output=5 * MIB, weight=2 * MIB, phase="backward"))[-1]
    assert "recomputing activations" in told
