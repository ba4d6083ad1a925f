"""Memory limits per device, in every way people write them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import placewright
from placewright.graph import Graph, Op, Tensor
from placewright.machines import load_machine
from placewright.machines.limits import memory_limits
from placewright.support.errors import InputError

GIB = 2**30


def limits(value: Any, machine: str = "cpu+2xt4") -> dict[str, int] | None:
    found = memory_limits(value, load_machine(machine))
    return None if found is None else {name: size // GIB for name, size in found.items()}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("10GiB", {"gpu0": 10, "gpu1": 10}),
        (10 * GIB, {"gpu0": 10, "gpu1": 10}),
        ("gpu0=10GiB", {"gpu0": 10}),
        ("gpu0=10GiB,cpu=64GiB", {"cpu0": 64, "gpu0": 10}),
        ("gpu0=10GiB, 8GiB", {"gpu0": 10, "gpu1": 8}),
        ("gpu=10GiB,gpu1=8GiB", {"gpu0": 10, "gpu1": 8}),
        ("t4=10GiB,gpu=8GiB", {"gpu0": 10, "gpu1": 10}),
        ("1=10GiB,cpu0=64GiB", {"cpu0": 64, "gpu0": 10}),
        ({"gpu0": "10GiB", "cpu": 64 * GIB}, {"cpu0": 64, "gpu0": 10}),
        ({1: "10GiB", 2: "8GiB", "cpu": "64GiB"}, {"cpu0": 64, "gpu0": 10, "gpu1": 8}),
        ({}, {}),
        (["64GiB", None, 8 * GIB], {"cpu0": 64, "gpu1": 8}),
    ],
)
def test_a_limit_is_for_the_devices_it_names_and_one_without_a_name_for_all_but_cpus(value: Any, expected: Any) -> None:
    assert limits(value) == expected


def test_a_machine_of_cpus_alone_is_limited_by_a_size_alone() -> None:
    assert limits("10GiB", "2xcpu") == {"cpu0": 10, "cpu1": 10}


def test_accelerates_numbers_are_those_of_a_machine_that_names_its_gpus_first() -> None:
    assert limits({0: "10GiB", 1: "8GiB", "cpu": "64GiB"}, "2xt4+cpu") == {"gpu0": 10, "gpu1": 8, "cpu0": 64}
    with pytest.raises(InputError, match="memory_limit names device 0, which is cpu0; write cpu0 if it is meant"):
        limits({0: "10GiB", "cpu": "64GiB"}, "cpu+2xt4")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("gpu7=1GiB", "memory_limit names 'gpu7', which machine 'cpu+2xt4' does not have; did you mean gpu1?"),
        (
            {3: "1GiB"},
            "memory_limit names '3', which machine 'cpu+2xt4' does not have; known are cpu0, cpu, gpu0, t4, gpu1",
        ),
        ("gpu0=1GiB,1=2GiB", "memory_limit gives device 'gpu0' two sizes, 1073741824 and 2147483648 bytes"),
        ("1GiB,2GiB", "memory_limit gives device 'gpu0' two sizes"),
        ("gpu0=much", "size 'much' is not understood"),
        ("=1GiB", "memory_limit names ''; name devices, as in gpu0=30GiB"),
        (["1GiB"], "memory_limit has 1 entries for 3 devices"),
        (b"8GiB", "memory_limit is b'8GiB'; it must be a number of bytes, or text like '8GiB'"),
        # As a list it would have an entry per device.
        (b"888", "memory_limit is b'888'; it must be a number of bytes, or text like '8GiB'"),
        ({"gpu0": bytearray(b"8GiB")}, "memory_limit is bytearray(b'8GiB'); it must be a number of bytes"),
        (-1, "memory_limit is -1; it must be a whole number from 0"),
        ({"gpu0": True}, "memory_limit is True; it must be a whole number from 0"),
        ({None: "1GiB"}, "memory_limit names None; name devices"),
    ],
)
def test_a_limit_that_is_none_is_one_clear_sentence(value: Any, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        limits(value)
    assert str(caught.value).startswith(sentence)


def small_graph() -> Graph:
    ops = tuple(Op(name=f"op{i}", kind="other", outputs=(i,), time_ns=10) for i in range(3))
    return Graph(name="small", ops=ops, tensors=tuple(Tensor(name=f"t{i}", size_bytes=GIB) for i in range(3)))


def test_a_plan_keeps_the_limit_of_each_device_and_remembers_it(tmp_path: Path) -> None:
    graph = small_graph()
    plan = placewright.plan(graph, "cpu+2xt4", memory_limit={"gpu0": "2GiB", "cpu": "1GiB"}, evaluations=20)
    assert plan.memory_limits_bytes == (GIB, 2 * GIB, 15 * GIB)
    assert plan.configuration["memory_limit"] == {"cpu0": GIB, "gpu0": 2 * GIB}
    placewright.save(plan, tmp_path / "plan.json")
    assert placewright.load(tmp_path / "plan.json") == plan
    assert plan.check(graph).facts.correct
    for changed in ({"gpu0": 2 * GIB}, 2 * GIB, {"gpu9": GIB}, {"cpu0": "much", "gpu0": 2 * GIB}):
        other = replace(plan, configuration={**plan.configuration, "memory_limit": changed})
        assert not other.check(graph).facts.correct


def test_one_size_of_an_earlier_plan_is_for_every_device() -> None:
    graph = small_graph()
    plan = placewright.plan(graph, "cpu+2xt4", memory_limit=["4GiB"] * 3, evaluations=20)
    earlier = replace(plan, configuration={**plan.configuration, "memory_limit": 4 * GIB})
    assert earlier.check(graph).facts.correct


def test_a_pattern_may_be_forbidden_on_several_devices() -> None:
    graph = small_graph()
    plan = placewright.plan(graph, "3xt4", forbids={"op0": [0, "gpu1"], "op1": 0}, evaluations=20)
    assert plan.device_of["op0"] == 2
    assert plan.configuration["forbids"] == {"op0": ["0", "gpu1"], "op1": "0"}
    assert plan.check(graph).facts.correct
    wrong = replace(plan, configuration={**plan.configuration, "forbids": {"op0": ["1", "2"]}})
    assert not wrong.check(graph).facts.correct
    with pytest.raises(InputError, match=r"pins gives 'op0' \[0, 1\], where one device belongs"):
        placewright.plan(graph, "3xt4", pins={"op0": [0, 1]})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="leave no device for op 'op0'"):
        placewright.plan(graph, "2xt4", forbids={"op0": [0, 1]})
