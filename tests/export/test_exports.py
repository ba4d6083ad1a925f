"""The contents of each export, read back by the tool it is for or by its own rules."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import sketch
from plans import MIB, Node, layered_plan, machine_of, plan_of, small_plan
from runs import slow_run

from placewright import cli
from placewright.api.functions import plan
from placewright.export import TARGETS, export_plan
from placewright.export.csv import to_bytes as to_csv
from placewright.export.device_map import device_map
from placewright.export.perfetto import _microseconds, write_run_trace
from placewright.export.perfetto import to_bytes as to_perfetto
from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device
from placewright.machines import load_machine
from placewright.plans.record import Plan
from placewright.support.errors import InputError
from placewright.support.spreadsheet import guarded, unguarded

#: Targets that need the plan alone; the others have tests of their own.
ALONE = [name for name, target in TARGETS.items() if not target.rewrite and (target.write or target.arrange)]
NASTY_NAMES = ('</script><b>"x"', "a,b\nc", "naïve \u2028 \\ 'q' 模型", "tab\there\r")


def events_of(plan: Plan, phase: str, graph: Graph | None = None) -> list[dict[str, Any]]:
    return [event for event in json.loads(to_perfetto(plan, graph))["traceEvents"] if event["ph"] == phase]


def nasty_plan() -> Plan:
    nodes = [Node(name=name, module=f"m.{index}") for index, name in enumerate(NASTY_NAMES)]
    return plan_of(nodes, machine_of(2))


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ALONE)
def test_every_target_writes_a_file_that_is_the_same_each_time(target: str, tmp_path: Path) -> None:
    plan = layered_plan(200, 3)
    for name in ("one", "two"):
        export_plan(plan, target, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() != b""


def test_help_and_documents_name_every_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["export", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    documented = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    for name, target in TARGETS.items():
        assert f"{name} ({target.summary})" in told
        assert f"\n| `{name}` | " in documented


@pytest.mark.parametrize("target", ALONE)
def test_names_with_quotes_line_breaks_and_unicode_survive_every_target(target: str, tmp_path: Path) -> None:
    export_plan(nasty_plan(), target, tmp_path / "out")
    assert (tmp_path / "out").stat().st_size > 0


def test_an_unknown_target_is_refused_with_the_list_of_targets(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot export to 'excel': it is one of perfetto, csv, device-map"):
        export_plan(small_plan(), "excel", tmp_path / "x")


def test_a_folder_that_does_not_exist_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing"):
        export_plan(small_plan(), "csv", tmp_path / "missing" / "x.csv")


# --- perfetto --------------------------------------------------------------------------------------------------------


def test_perfetto_slices_carry_the_plans_times_in_microseconds() -> None:
    """b runs from 10 to 30 us on the first device; a's transfer takes 89.382 us on its link to the second."""
    slices = {event["name"]: event for event in events_of(small_plan(), "X") if event["cat"] != "critical path"}
    assert (slices["b"]["ts"], slices["b"]["dur"], slices["b"]["pid"]) == (10, 20, 1)
    assert slices["a:0"]["dur"] == pytest.approx(89.382, abs=1e-9)
    assert slices["a:0"]["pid"] == 1
    assert slices["a:0"]["tid"] != slices["b"]["tid"]


@given(st.integers(0, 10**13))
def test_perfetto_times_give_whole_nanoseconds_back_when_a_reader_truncates(time_ns: int) -> None:
    assert int(_microseconds(time_ns) * 1000) == time_ns
    assert round(_microseconds(time_ns) * 1000) == time_ns


def test_perfetto_slices_never_overlap_on_a_track() -> None:
    tracks = defaultdict(list)
    for event in events_of(layered_plan(2_000, 4), "X"):
        start = int(event["ts"] * 1000)
        tracks[event["pid"], event["tid"]].append((start, start + int(event["dur"] * 1000)))
    assert len(tracks) > 4
    for slices in tracks.values():
        for (_, finish), (start, _) in pairwise(sorted(slices)):
            assert finish <= start


def test_perfetto_counters_reach_each_devices_peak() -> None:
    plan = layered_plan(500, 3)
    highest: dict[int, int] = defaultdict(int)
    for event in events_of(plan, "C"):
        highest[event["pid"]] = max(highest[event["pid"]], event["args"]["bytes"])
    assert tuple(highest[pid] for pid in (1, 2, 3)) == plan.metrics.peak_bytes


def test_perfetto_counters_of_kinds_add_up_to_all_memory() -> None:
    """gpu0's peak of 5 MiB is made of the weights of a and b, the outputs of b and d, and c's copy."""
    latest: dict[str, int] = {}
    at_peak: dict[str, int] = {}
    for event in events_of(small_plan(), "C"):
        if event["pid"] == 1 and event["ts"] <= 218.764:
            latest[event["name"]] = event["args"]["bytes"]
            at_peak = dict(latest)
    assert at_peak == {
        "memory in use": 5 * MIB,
        "memory: parameters": 2 * MIB,
        "memory: tensors": 2 * MIB,
        "memory: copies": MIB,
    }
    plan = layered_plan(500, 3)
    for pid in (1, 2, 3):
        kinds: dict[str, int] = {}
        by_time: dict[float, dict[str, int]] = defaultdict(dict)
        for event in (event for event in events_of(plan, "C") if event["pid"] == pid):
            by_time[event["ts"]][event["name"]] = event["args"]["bytes"]
        for changed in by_time.values():
            kinds |= changed
            assert kinds["memory in use"] == sum(size for name, size in kinds.items() if name != "memory in use")


def test_perfetto_marks_each_devices_peak() -> None:
    instants = [(event["pid"], event["name"], event["ts"]) for event in events_of(small_plan(), "i")]
    assert instants == [(1, "peak 5.00 MiB", pytest.approx(218.764)), (2, "peak 3.00 MiB", pytest.approx(99.382))]


def test_perfetto_has_the_critical_path_as_a_process_of_its_own() -> None:
    path = [event for event in events_of(small_plan(), "X") if event["cat"] == "critical path"]
    assert [(event["name"], event["args"]["where"]) for event in path] == [
        ("a", "gpu0"),
        ("a:0", "gpu0 to gpu1"),
        ("c", "gpu1"),
        ("c:0", "gpu1 to gpu0"),
        ("d", "gpu0"),
    ]
    assert {event["pid"] for event in path} == {3}
    names = {event["pid"]: event["args"] for event in events_of(small_plan(), "M") if event["name"] == "process_name"}
    assert names[3] == {"name": "critical path"}


def test_perfetto_flows_lead_from_a_transfer_to_all_that_read_it_where_the_graph_says_who_does() -> None:
    """y's MiB crosses for z and for u; only the first of them waited for it, since nobody waits for a launch."""
    machine = replace(load_machine("2xh100"), launch="graphs")
    graph = flowing_graph()
    more = (*graph.ops, Op(name="u", kind="other", inputs=(1,), outputs=(5,)))
    graph = replace(graph, ops=more, tensors=(*graph.tensors, Tensor(name="u:0", size_bytes=1)))
    found = plan(graph, machine, pins={"x": 0, "y": 0, "w": 1, "z": 1, "u": 1}, evaluations=1)
    (sent,) = found.transfers
    ends = sorted(event["ts"] for event in events_of(found, "f", graph))
    readers = [op.start_ns / 1000 for op in found.ops if op.name in "zu"]
    assert ends == pytest.approx(sorted([sent.start_ns / 1000, *readers]))
    assert len(events_of(found, "f")) == 2
    assert len(events_of(found, "f", graph)) == 3


def test_perfetto_flows_come_in_pairs_inside_slices_of_their_track() -> None:
    plan = layered_plan(500, 3)
    tracks = defaultdict(list)
    for event in events_of(plan, "X"):
        tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    starts, ends = events_of(plan, "s"), events_of(plan, "f")
    assert sorted(event["id"] for event in starts) == sorted(event["id"] for event in ends)
    assert len({event["id"] for event in starts}) == len(starts) >= len(plan.transfers)
    for event in starts + ends:
        assert any(begin <= event["ts"] < end for begin, end in tracks[event["pid"], event["tid"]])


def test_perfetto_names_every_device_and_engine() -> None:
    named = {(e["pid"], e.get("tid")): e["args"]["name"] for e in events_of(small_plan(), "M") if "name" in e["args"]}
    assert named[1, None] == "gpu0 (p100)"
    assert named[1, 100] == "compute"
    assert named[1, 102] == "link to gpu1"
    assert named[2, 201] == "link to gpu0"


def test_perfetto_shows_a_run_as_processes_of_their_own_below_those_of_the_plan(tmp_path: Path) -> None:
    plan = small_plan()
    write_run_trace(plan, tmp_path / "trace.json.gz", slow_run(plan))
    events = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(names.values()) == ["gpu0 (p100), planned", "gpu1 (p100), planned", "critical path",
                                    "gpu0, measured", "gpu1, measured"]  # fmt: skip
    places = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    assert sorted(names, key=lambda process: places[process])[1:] == [1, 2, 4, 5]
    measured = [e for e in events if e["ph"] == "X" and names[e["pid"]].endswith("measured")]
    # Twice as late and long as planned: c runs for 30 us from 99,382 ns.
    assert {e["name"]: (e["ts"], e["dur"]) for e in measured}["c"] == (198.764, 60.0)
    assert {e["args"]["planned start"] for e in measured} == {op.start_ns for op in plan.ops}
    threads = [(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"]
    assert len({thread for _, thread in threads}) == len(threads)


def test_a_perfetto_trace_named_gz_is_compressed(tmp_path: Path) -> None:
    plan = small_plan()
    export_plan(plan, "perfetto", tmp_path / "trace.json.gz")
    assert gzip.decompress((tmp_path / "trace.json.gz").read_bytes()) == to_perfetto(plan)


# --- csv -------------------------------------------------------------------------------------------------------------


def test_csv_has_one_row_per_step_in_the_plans_order() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(small_plan()).decode())))
    assert [row["name"] for row in rows] == ["a", "b", "a:0", "c", "c:0", "d"]
    assert [int(row["position"]) for row in rows] == list(range(6))
    assert rows[2] | {"step": "transfer", "destination": "gpu1", "module": "encoder.first"} == rows[2]
    assert (rows[1]["start_ns"], rows[1]["duration_ns"], rows[1]["size_bytes"]) == ("10000", "20000", str(MIB))


def test_csv_gives_every_name_back_exactly() -> None:
    text = to_csv(nasty_plan()).decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [unguarded(row["name"]) for row in rows if row["step"] == "op"] == list(NASTY_NAMES)


# Excel, LibreOffice and Sheets run what begins with these; the apostrophe is their own mark for text.
FORMULAS = ("=HYPERLINK(1)", "+1", "-x", "@sum(1)", "\ttab", "\rreturn", "'=quoted", "''")


def test_no_cell_of_a_csv_begins_like_a_formula_but_numbers_stay_numbers() -> None:
    nodes = [Node(name=name, module=name, source=name) for name in FORMULAS]
    plan = plan_of(nodes, machine_of(1))
    header, *rows = csv.reader(io.StringIO(to_csv(plan).decode(), newline=""))
    for row, name in zip(rows, FORMULAS, strict=True):
        cells = dict(zip(header, row, strict=True))
        for column in ("name", "module", "source_line"):
            assert cells[column] == f"'{name}"
            assert unguarded(cells[column]) == name
        assert cells["kind"] == "matmul"
    assert rows[0][header.index("waits_for")] == "-1"


def test_an_ordinary_name_is_its_own_cell() -> None:
    for name in ("encoder.layer.0/MatMul", "it's", "a=b", "größe", ""):
        assert guarded(name) == unguarded(name) == name


# --- who reads what --------------------------------------------------------------------------------------------------


def flowing_graph() -> Graph:
    """x (encoder.0) -> y (encoder.1), through a view -> z (head), which also follows w without reading it."""
    return sketch(
        *(f"x -> x:0={MIB} | module=encoder.0.linear", f"y x:0 -> y:0={MIB} | module=encoder.1.linear"),
        *(f"v~ y:0 -> v:0={MIB}:y:0 | module=encoder.1.linear", f"w -> w:0={MIB}"),
        f"z v:0 -> z:0={MIB} < w | module=head.out",
        name="flow",
    )


def test_data_flow_of_another_graph_is_refused(tmp_path: Path) -> None:
    found = plan(flowing_graph(), "h100", evaluations=1)
    ops = flowing_graph().ops
    other = replace(flowing_graph(), ops=(*ops[:4], replace(ops[4], name="last")))
    with pytest.raises(InputError, match="1 op of the plan is not in the graph: z"):
        export_plan(found, "perfetto", tmp_path / "flow.json", graph=other)


# --- device map ------------------------------------------------------------------------------------------------------


def lookup(mapping: dict[str, Any], parameter: str) -> Any:
    """Look up the longest prefix of whole path components, as accelerate's readers do."""
    fitting = [key for key in mapping if key == "" or parameter == key or parameter.startswith(f"{key}.")]
    return mapping[max(fitting, key=len)]


def placed(*rows: tuple[str, int, int]) -> tuple[Plan, Graph]:
    """A plan of ops (module, device, microseconds), and its graph."""
    nodes = [
        Node(name=f"op{index}", module=module, device=device, time_ns=time * 1000)
        for index, (module, device, time) in enumerate(rows)
    ]
    ops = [
        Op(name=node.name, kind="other", module=node.module, time_ns=node.time_ns, outputs=(index,))
        for index, node in enumerate(nodes)
    ]
    tensors = [Tensor(name=f"{node.name}:0", size_bytes=4) for node in nodes]
    return plan_of(nodes, machine_of(3)), Graph(name="rows", ops=tuple(ops), tensors=tuple(tensors))


def test_a_model_on_one_device_is_one_entry() -> None:
    assert device_map(*placed(("encoder.0", 1, 5), ("encoder.1", 1, 5), ("head", 1, 1))) == {"": 1}


def test_a_module_goes_where_most_of_its_time_is_spent() -> None:
    """head: 3 + 3 us on device 2 against 5 us on device 0."""
    mapping = device_map(*placed(("body", 0, 9), ("head", 2, 3), ("head", 0, 5), ("head", 2, 3)))
    assert (lookup(mapping, "body.weight"), lookup(mapping, "head.weight")) == (0, 2)


def test_a_module_split_over_devices_is_listed_deeper() -> None:
    """No entry is above another: accelerate's hooks of an outer one would stay on the layers of an inner one."""
    rows = (("embed", 0, 1), ("layer.0.mlp", 0, 9), ("layer.1.mlp", 1, 9), ("layer.2.mlp", 1, 9), ("head", 0, 1))
    assert device_map(*placed(*rows)) == {"embed": 0, "head": 0, "layer.0": 0, "layer.1": 1, "layer.2": 1}


def test_the_map_is_sorted_by_path_with_numbers_by_value() -> None:
    rows = [(f"layer.{index}", int(index in (2, 9, 10)), 1) for index in reversed(range(12))]
    assert list(device_map(*placed(*rows))) == [f"layer.{index}" for index in range(12)]


def test_the_map_covers_parameters_of_modules_that_have_no_op() -> None:
    assert lookup(device_map(*placed(("a.b", 2, 1))), "never.run.weight") == 2


def test_a_cpu_is_called_cpu_and_accelerators_are_counted_without_it() -> None:
    plan, graph = placed(("a", 0, 1), ("b", 1, 1), ("c", 2, 1))
    devices = (Device(name="cpu0", kind="cpu"), *plan.machine.devices[1:])
    plan = replace(plan, machine=replace(plan.machine, devices=devices))
    mapping = device_map(plan, graph)
    assert [lookup(mapping, name) for name in "abc"] == ["cpu", 0, 1]


def test_a_plan_without_modules_has_no_device_map() -> None:
    with pytest.raises(InputError, match="no module paths"):
        device_map(*placed(("", 0, 1)))


@given(
    st.dictionaries(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(".".join),
        st.integers(0, 2),
        min_size=1,
        max_size=5,
    )
)
def test_the_map_has_every_module_once_and_where_it_was_put(modules: dict[str, int]) -> None:
    mapping = device_map(*placed(*((path, device, 1) for path, device in modules.items())))
    assert all(path == "" or not other.startswith(f"{path}.") for path in mapping for other in mapping)
    assert len(mapping) == 1 or "" not in mapping
    for path, device in modules.items():
        taken_apart = any(below.startswith(f"{path}.") for below in modules)
        assert taken_apart or lookup(mapping, path) == device
