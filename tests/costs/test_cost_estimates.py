"""Times from the roofline, on both sides of it, and where they come from otherwise."""

from dataclasses import replace
from typing import Any

import pytest

from placewright.costs import estimate_costs
from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device, Link, Machine
from placewright.machines import load_machine
from placewright.support.errors import InputError

#: 1 TFLOP/s and 100 GB/s at full efficiency, 1 us between kernels.
PLAIN = Device(
    name="plain",
    kind="plain",
    peak_flops_per_s={"default": 1e12, "float16": 8e12, "int8": 16e12, "float8": 32e12},
    memory_bandwidth_bytes_per_s=100e9,
    kernel_gap_ns=1000,
)


def machine(*devices: Device) -> Machine:
    links = tuple(tuple(Link() for _ in devices) for _ in devices)
    return Machine(name="machine", devices=devices, links=links)


def one_op(op: Op, *, size_bytes: int = 4000, dtype: str | None = "float32") -> Graph:
    """An input, the op, which reads it and a parameter, and its result; all three of one size and shape."""
    shape = (size_bytes // 4,)
    tensors = (
        Tensor(name="x", size_bytes=size_bytes, shape=shape, dtype=dtype),
        Tensor(name="w", size_bytes=size_bytes, shape=shape, dtype=dtype, role="parameter"),
        Tensor(name="y", size_bytes=size_bytes, shape=shape, dtype=dtype),
    )
    source = Op(name="source", kind="input", outputs=(0,))
    return Graph(name="one", ops=(source, replace(op, inputs=(0, 1, 0), outputs=(2,))), tensors=tensors)


def matmul(flops: int) -> Op:
    return Op(name="op", kind="matmul", attributes={"batch": 1, "m": 1, "n": 1, "k": flops // 2, "bias": False})


def time_ns(graph: Graph, device: Device) -> int:
    return int(estimate_costs(graph, machine(device)).time_ns[1, 0])


def test_efficiencies_slow_down_their_own_side() -> None:
    slow = replace(PLAIN, compute_efficiency=0.5, bandwidth_efficiency=0.25)
    assert time_ns(one_op(matmul(10_000_000)), slow) == 1000 + 20_000
    assert time_ns(one_op(matmul(2), size_bytes=4_000_000), slow) == 1000 + 480_000


def test_times_are_rounded_up_to_whole_nanoseconds() -> None:
    # 12 bytes at 100 GB/s: 0.12 ns
    assert time_ns(one_op(matmul(2), size_bytes=4), PLAIN) == 1001


@pytest.mark.parametrize(
    ("dtype", "compute_ns"),
    [("float32", 32_000), ("float16", 4000), ("float8_e4m3fn", 1000), ("int8", 2000), ("int64", 32_000)],
)
def test_the_peak_is_that_of_the_dtype_or_else_the_default(dtype: str, compute_ns: int) -> None:
    assert time_ns(one_op(matmul(32_000_000), dtype=dtype), PLAIN) == 1000 + compute_ns


def test_float32_convolutions_use_tensor_cores_where_the_device_has_them_but_products_do_not() -> None:
    # 2 * 64 * 64 * 9 * 56 * 56 * 64 images = 14.8 GFLOP, on an A100 at 70% of 156 or of 19.5 TFLOP/s
    shape, weight = (64, 64, 56, 56), (64, 64, 3, 3)
    tensors = (
        Tensor(name="x", size_bytes=4 * 64 * 64 * 56 * 56, shape=shape, dtype="float32"),
        Tensor(name="w", size_bytes=4 * 64 * 64 * 9, shape=weight, dtype="float32", role="parameter"),
        Tensor(name="y", size_bytes=4 * 64 * 64 * 56 * 56, shape=shape, dtype="float32"),
    )
    ops = (Op(name="source", kind="input", outputs=(0,)), Op(name="conv", kind="conv", inputs=(0, 1), outputs=(2,)))
    costs = estimate_costs(Graph(name="conv", ops=ops, tensors=tensors), load_machine("a100+v100"))
    flops = 64 * 231_211_008
    assert costs.flops[1] == flops
    assert costs.time_ns[1, 0] == pytest.approx(1500 + flops / (156e3 * 0.7), abs=1)
    assert costs.time_ns[1, 1] == pytest.approx(1500 + flops / (15.7e3 * 0.7), abs=1)
    product = one_op(matmul(flops))
    on_a100 = estimate_costs(product, load_machine("a100")).time_ns[1, 0]
    assert on_a100 == pytest.approx(1500 + flops / (19.5e3 * 0.7), abs=1)


def test_each_device_has_its_own_time() -> None:
    fast = replace(PLAIN, name="fast", peak_flops_per_s={"default": 2e12})
    costs = estimate_costs(one_op(matmul(10_000_000)), machine(PLAIN, fast))
    assert costs.time_ns.tolist() == [[0, 0], [11_000, 6000]]
    assert costs.flops.tolist() == [0, 10_000_000]
    assert costs.bytes_moved.tolist() == [0, 12_000]


def test_views_and_inputs_take_no_time() -> None:
    tensors = (
        Tensor(name="x", size_bytes=4000, shape=(1000,), dtype="float32"),
        Tensor(name="y", size_bytes=4000, shape=(10, 100), dtype="float32", alias_of=0),
    )
    ops = (Op(name="source", kind="input", outputs=(0,)), Op(name="view", kind="view", inputs=(0,), outputs=(1,)))
    costs = estimate_costs(Graph(name="view", ops=ops, tensors=tensors), machine(PLAIN))
    assert costs.time_ns.tolist() == [[0], [0]]
    assert costs.bytes_moved.tolist() == [0, 0]


def test_a_stated_time_holds_on_every_device_even_without_rates() -> None:
    costs = estimate_costs(one_op(replace(matmul(10_000_000), time_ns=77)), load_machine("2xideal+h100"))
    assert costs.time_ns.tolist() == [[0, 0, 0], [77, 77, 77]]
    assert costs.without_formula == ()


def test_an_op_without_time_on_a_device_without_rates_is_an_error() -> None:
    with pytest.raises(InputError, match=r"op 'op' states no time and device 'device0' \(ideal\) has no rates for it"):
        estimate_costs(one_op(matmul(2)), load_machine("ideal"))


def test_a_dtype_without_peak_and_no_default_is_an_error() -> None:
    half_only = replace(PLAIN, peak_flops_per_s={"float16": 1e12})
    assert time_ns(one_op(matmul(2), dtype="float16"), half_only) == 1001 + 119
    with pytest.raises(InputError, match="has no rates for it"):
        estimate_costs(one_op(matmul(2), dtype="float32"), machine(half_only))


@pytest.mark.parametrize(
    "op",
    [
        Op(name="op", kind="other"),
        Op(name="op", kind="control_flow"),
        Op(name="op", kind="attention"),
        Op(name="op", kind="optimizer", attributes={"function": "shampoo"}),
    ],
)
def test_an_op_without_formula_is_listed_and_costs_its_bytes(op: Op) -> None:
    costs = estimate_costs(one_op(op, size_bytes=4_000_000), machine(PLAIN))
    assert costs.without_formula == ("op",)
    assert costs.flops[1] == 0
    assert costs.time_ns[1, 0] >= 1000 + 120_000  # three tensors of 4 MB at 100 GB/s


def test_an_op_without_dtype_is_listed_and_computes_at_the_default_rate() -> None:
    costs = estimate_costs(one_op(matmul(10_000_000), dtype=None), machine(PLAIN))
    assert costs.without_formula == ("op",)
    assert costs.time_ns[1, 0] == 11_000


@pytest.mark.parametrize("attributes", [{"m": 2**40, "n": 2**40}, {"m": 2**61, "n": 1}])
def test_numbers_that_overflow_name_the_op(attributes: dict[str, Any]) -> None:
    op = Op(name="op", kind="matmul", attributes={"batch": 1, "k": 1, "bias": False} | attributes)
    with pytest.raises(InputError, match="op 'op'"):
        estimate_costs(one_op(op), machine(PLAIN))


def test_a_time_that_overflows_names_op_and_device() -> None:
    snail = replace(PLAIN, name="snail", memory_bandwidth_bytes_per_s=1e-9)
    with pytest.raises(InputError, match="op 'op' takes impossibly long on device 'snail'"):
        estimate_costs(one_op(matmul(2)), machine(snail))


def test_work_beyond_any_number_of_digits_is_refused_in_one_sentence() -> None:
    tensor = Tensor(name="t", size_bytes=4, shape=(2**60,) * 400, dtype="float32")
    ops = (Op(name="x", kind="input", outputs=(0,)), Op(name="relu", kind="elementwise", inputs=(0,)))
    graph = Graph(name="g", ops=(ops[0], replace(ops[1], kind="softmax")), tensors=(tensor,))
    with pytest.raises(InputError, match=r"op 'relu' is too large: a number of 24,004 bits operations"):
        estimate_costs(graph, load_machine("cpu"))


def test_only_a_device_that_launches_itself_spends_its_own_time_on_launching() -> None:
    # 10 MFLOP take 10 us, 1 us passes between kernels; a host thread's 5 us are none of the device's
    launched = replace(PLAIN, launch_overhead_ns=5000)
    assert time_ns(one_op(matmul(10_000_000)), launched) == 1000 + 10_000
    assert time_ns(one_op(matmul(10_000_000)), replace(launched, launches_itself=True)) == 6000 + 10_000
