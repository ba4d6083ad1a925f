"""Memory events replay to the plan's own curve, and the snapshot made of them is one that PyTorch's viewer reads."""

from __future__ import annotations

import pickle
import pickletools

import pytest
from plans import MIB, Node, layered_plan, machine_of, plan_of, small_plan

from placewright.analysis.memory_events import alive_at_peak, memory_events
from placewright.export.memory_viz import to_bytes as to_memory_viz

#: Opcodes that the reader of pytorch.org/memory_viz knows (torch/utils/viz/MemoryViz.js).
MEMORY_VIZ_OPCODES = """
APPENDS BINGET BININT BININT1 BININT2 EMPTY_DICT EMPTY_LIST FRAME LONG1 LONG_BINGET MARK MEMOIZE PROTO SETITEMS
SHORT_BINUNICODE STOP TUPLE2 APPEND NEWFALSE BINPUT BINUNICODE EMPTY_TUPLE NEWTRUE NONE BINFLOAT TUPLE TUPLE1 TUPLE3
LONG_BINPUT LIST DICT SETITEM
"""


@pytest.mark.parametrize("num_devices", [1, 2, 4])
def test_replayed_memory_events_pass_through_the_devices_peak_and_end_where_the_curve_ends(num_devices: int) -> None:
    plan = layered_plan(1_000, num_devices)
    for device, curve in enumerate(plan.memory_curves):
        in_use, peak = 0, 0
        for event in memory_events(plan, device):
            in_use += event.buffer.size_bytes if event.allocates else -event.buffer.size_bytes
            peak = max(peak, in_use)
        assert (peak, in_use) == (plan.metrics.peak_bytes[device], curve.bytes_in_use[-1])


def test_what_is_alive_at_the_peak_adds_up_to_it() -> None:
    """Device 0 is fullest when d starts at 218,764: weights of a and b, outputs of b and d, c's copy: 5 MiB."""
    time, alive = alive_at_peak(small_plan(), 0)
    assert time == 218_764
    assert [buffer.name for buffer in alive] == ["a.weight", "b.weight", "b:0", "c:0", "d:0"]
    assert sum(buffer.size_bytes for buffer in alive) == 5 * MIB


def test_what_one_op_frees_is_there_for_the_next_at_the_same_instant() -> None:
    """x -> y -> z with 2 MiB each: x is freed before z starts at the same instant, so the peak is 4 MiB, not 6."""
    nodes = [
        Node(name=name, inputs=inputs, output_bytes=2 * MIB) for name, inputs in (("x", ()), ("y", (0,)), ("z", (1,)))
    ]
    plan = plan_of(nodes, machine_of(1))
    assert plan.metrics.peak_bytes == (4 * MIB,)
    _, alive = alive_at_peak(plan, 0)
    assert sum(buffer.size_bytes for buffer in alive) == 4 * MIB


def test_the_memory_snapshot_replays_to_the_plans_peaks() -> None:
    plan = layered_plan(400, 3)
    snapshot = pickle.loads(to_memory_viz(plan))
    for device, trace in enumerate(snapshot["device_traces"]):
        live: dict[int, int] = {}
        peak = 0
        for event in trace:
            if event["action"] == "alloc":
                assert event["addr"] not in live
                live[event["addr"]] = event["size"]
            elif event["action"] == "free_completed":
                assert live.pop(event["addr"]) == event["size"]
            peak = max(peak, sum(live.values()))
        assert peak == plan.metrics.peak_bytes[device]
        segment = next(s for s in snapshot["segments"] if s["device"] == device)
        at_end = {b["address"]: b["size"] for b in segment["blocks"] if b["state"] == "active_allocated"}
        assert at_end == live


def test_the_memory_snapshot_uses_only_what_the_viewers_reader_knows() -> None:
    opcodes = {opcode.name for opcode, _, _ in pickletools.genops(to_memory_viz(layered_plan(3_000, 2)))}
    assert opcodes <= set(MEMORY_VIZ_OPCODES.split())


def test_pytorchs_own_tools_read_the_memory_snapshot() -> None:
    memory_viz = pytest.importorskip("torch.cuda._memory_viz", reason="PyTorch is not installed")
    snapshot = pickle.loads(to_memory_viz(small_plan()))
    assert "MemoryViz.js" in memory_viz.trace_plot(snapshot)
    assert "total_allocated: 3.0MiB" in memory_viz.segsum(snapshot)  # the weights of a, b and c stay to the end
    listing = memory_viz.trace(snapshot)
    assert "Device 0" in listing
    assert listing.count("1.0MiB") > 10
