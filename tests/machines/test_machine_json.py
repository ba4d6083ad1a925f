"""Machines in JSON come back exactly, and damaged ones are refused with the place of the damage."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placewright.machine import Device, Link, Machine
from placewright.machines import load_machine, machine_from_json, machine_to_json
from placewright.support.errors import InputError

rates = st.floats(1, 1e18)
names = st.text(min_size=1, max_size=8)
devices = st.builds(
    Device,
    name=names,
    kind=names,
    memory_bytes=st.none() | st.integers(1, 2**62 - 1),
    peak_flops_per_s=st.dictionaries(names, rates, max_size=3),
    memory_bandwidth_bytes_per_s=st.none() | rates,
    launch_overhead_ns=st.integers(0, 10**9),
    kernel_gap_ns=st.integers(0, 10**9),
    launches_itself=st.booleans(),
    compute_efficiency=st.floats(0.01, 1),
    bandwidth_efficiency=st.floats(0.01, 1),
)
links = st.builds(Link, bandwidth_bytes_per_s=st.none() | rates, latency_ns=st.integers(0, 10**9))


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    chosen = draw(st.lists(devices, min_size=1, max_size=4, unique_by=lambda device: device.name))
    row = st.tuples(*[links] * len(chosen))
    return Machine(
        name=draw(names),
        devices=tuple(chosen),
        links=draw(st.tuples(*[row] * len(chosen))),
        transfer_model=draw(st.sampled_from(["blocking", "overlapped"])),
        launch=draw(st.sampled_from(["host-thread", "device-threads", "graphs"])),
    )


@given(machines())
def test_a_machine_survives_json_exactly(machine: Machine) -> None:
    assert machine_from_json(json.loads(json.dumps(machine_to_json(machine)))) == machine


def test_a_json_file_is_a_machine_too(tmp_path: Path) -> None:
    machine = load_machine("cpu+2xa100/nvlink")
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(machine_to_json(machine)))
    assert load_machine(path) == machine


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": None}, "name is missing"),
        ({"name": 3}, "name must be a non-empty text, not 3"),
        ({"devices": []}, "must have 0 rows"),
        ({"devices": [{}, {}]}, r"devices\[0\]: name is missing"),
        ({"transfer_model": "fast"}, "unknown transfer model 'fast'"),
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"link_latency_ns": [[0, 1.5], [0, 0]]}, "latency 1.5, which is not a whole number"),
        ({"link_latency_ns": [[0, 2**70], [0, 0]]}, "impossible latency"),
        ({"link_bandwidth_bytes_per_s": [[0, "x"], [0, 0]]}, "bandwidth"),
        ({"link_bandwidth_bytes_per_s": [[None]]}, "must have 2 rows of 2 values"),
    ],
)
def test_damage_is_named(change: dict[str, Any], why: str) -> None:
    data = machine_to_json(load_machine("2xv100")) | change
    with pytest.raises(InputError, match=why):
        machine_from_json(data)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_foreign_json_is_refused(data: Any) -> None:
    with pytest.raises(InputError):
        machine_from_json(data)
