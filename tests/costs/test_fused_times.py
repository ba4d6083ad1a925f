"""A clock for compilers that fuse: elementwise ops take a share of what their bytes take, others what they took."""

from placewright.costs import estimate_costs
from placewright.costs.fused import with_fused_times
from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device, Link, Machine

#: 1 TFLOP/s and 100 GB/s, 1 us between kernels.
PLAIN = Machine(
    name="plain",
    devices=(
        Device(
            name="plain",
            kind="plain",
            peak_flops_per_s={"default": 1e12},
            memory_bandwidth_bytes_per_s=100e9,
            kernel_gap_ns=1000,
        ),
    ),
    links=((Link(),),),
)


def test_elementwise_ops_take_a_share_of_the_time_of_their_bytes() -> None:
    """An input of 4 MB, its square, a view of it, and the sum: the square moves 8 MB, which take 80 us at 100 GB/s, 2%
    of which are 1,600 ns without a gap between kernels; the sum reads 4 MB in 40 us after a gap."""
    shape = (1_000_000,)
    tensors = tuple(Tensor(name=name, size_bytes=4_000_000, shape=shape, dtype="float32") for name in "xy")
    tensors += (Tensor(name="v", size_bytes=4_000_000, shape=shape, dtype="float32", alias_of=1),)
    tensors += (Tensor(name="s", size_bytes=4, shape=(), dtype="float32"),)
    ops = (
        Op(name="x", kind="input", outputs=(0,)),
        Op(name="square", kind="elementwise", inputs=(0,), outputs=(1,), attributes={"function": "square"}),
        Op(name="view", kind="view", inputs=(1,), outputs=(2,)),
        Op(name="sum", kind="reduction", inputs=(2,), outputs=(3,), attributes={"function": "sum", "axes": [0]}),
    )
    graph = with_fused_times(Graph(name="g", ops=ops, tensors=tensors), PLAIN, 0.02)
    assert estimate_costs(graph, PLAIN).time_ns[:, 0].tolist() == [0, 1600, 0, 41_001]
    assert graph.metadata["fused_share"] == 0.02
