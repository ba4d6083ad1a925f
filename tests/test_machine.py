"""Devices, links and machines: what they accept, and exact transfer times."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placewright.machine import MAX_DEVICES, Device, Link, Machine
from placewright.support.errors import InputError


def machine_of(count: int) -> Machine:
    devices = tuple(Device(name=f"d{index}", kind="any") for index in range(count))
    return Machine(name="many", devices=devices, links=((Link(),) * count,) * count)


def test_a_link_without_bandwidth_takes_its_latency_only() -> None:
    assert Link(latency_ns=7).transfer_time_ns(10**12) == 7


def test_a_transfer_takes_latency_plus_size_over_bandwidth_rounded_up() -> None:
    link = Link(bandwidth_bytes_per_s=4e9, latency_ns=100)  # 0.25 ns a byte
    assert link.transfer_time_ns(0) == 100
    assert link.transfer_time_ns(1) == 101
    assert link.transfer_time_ns(4) == 101
    assert link.transfer_time_ns(5) == 102


@given(st.integers(10**6, 10**12), st.integers(0, 10**9))
def test_transfer_times_are_exact_to_a_quarter_of_a_nanosecond_per_gigabyte_and_rounded_up(
    bandwidth: int, size_bytes: int
) -> None:
    exact = Fraction(size_bytes * 10**9, bandwidth)
    found = Link(bandwidth_bytes_per_s=bandwidth).transfer_time_ns(size_bytes)
    # The time per byte is rounded to a multiple of 2**-32 ns, so a gigabyte is off by at most 10**9 / 2**32 < 0.25 ns.
    assert ceil(exact - Fraction(size_bytes, 2**32)) <= found <= ceil(exact + Fraction(size_bytes, 2**32))


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_larger_tensor_never_arrives_sooner(first: int, second: int) -> None:
    link = Link(bandwidth_bytes_per_s=25e9, latency_ns=5000)
    assert link.transfer_time_ns(min(first, second)) <= link.transfer_time_ns(max(first, second))


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, 0.5, float("inf"), float("nan")])
def test_an_impossible_bandwidth_is_refused(bandwidth: float) -> None:
    with pytest.raises(InputError, match="impossible bandwidth"):
        Link(bandwidth_bytes_per_s=bandwidth)


def test_an_impossible_latency_is_refused() -> None:
    with pytest.raises(InputError, match="impossible latency of -1 ns"):
        Link(latency_ns=-1)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"memory_bytes": 0}, "device 'd' has an impossible memory of 0 bytes"),
        ({"memory_bytes": 2**62}, "device 'd' has an impossible memory"),
        ({"launch_overhead_ns": -1}, "device 'd' has an impossible launch overhead of -1 ns"),
        ({"peak_flops_per_s": {"float32": 0.0}}, "device 'd' has a rate that is not a positive finite number"),
        ({"memory_bandwidth_bytes_per_s": float("nan")}, "device 'd' has a rate that is not a positive finite number"),
        ({"compute_efficiency": 0.0}, r"device 'd' has an efficiency of 0.0, outside \(0, 1\]"),
        ({"bandwidth_efficiency": 1.5}, "device 'd' has an efficiency of 1.5"),
    ],
)
def test_an_impossible_device_is_refused(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Device(name="d", kind="any", **fields)  # type: ignore[arg-type]


def test_a_machine_has_1_to_64_devices() -> None:
    assert machine_of(1).num_devices == 1
    assert machine_of(MAX_DEVICES).num_devices == 64
    for count in (0, MAX_DEVICES + 1):
        with pytest.raises(InputError, match=f"machine 'many' has {count} devices"):
            machine_of(count)


def test_a_machine_with_two_devices_of_one_name_is_refused() -> None:
    machine = machine_of(2)
    with pytest.raises(InputError, match="two devices of one name"):
        replace(machine, devices=(machine.devices[0],) * 2)


@pytest.mark.parametrize("links", [(), ((Link(),) * 2,), ((Link(),) * 2, (Link(),))])
def test_a_machine_without_a_link_for_every_pair_is_refused(links: tuple[tuple[Link, ...], ...]) -> None:
    with pytest.raises(InputError, match="machine 'many' needs 2 x 2 links"):
        replace(machine_of(2), links=links)


def test_an_unknown_transfer_model_is_refused() -> None:
    with pytest.raises(InputError, match="unknown transfer model 'eager'"):
        replace(machine_of(2), transfer_model="eager")  # type: ignore[arg-type]
