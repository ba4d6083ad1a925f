"""Plan files: what is written comes back equal; what is not a plan is refused in one sentence."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from instances import graph_of, machine_of, problem_of
from plans import layered_plan, small_plan
from strategies import problems

from placewright.costs.estimate import TimeSources
from placewright.graph import Op
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.file import read_plan, write_plan
from placewright.plans.provenance import match_graph
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError


def plan_for(problem: Problem, solver: str = "auto") -> Plan:
    result = make_method(solver).solve(problem, SearchRun(Budget(evaluations=30)))
    return assemble_plan(problem, result, solver=solver, seconds=0.25, options={"measured": None, "dims": {"batch": 8}})


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """The JSON of a plan of four ops on two devices."""
    write_plan(small_plan(), tmp_path / "small.json")
    read: dict[str, Any] = json.loads((tmp_path / "small.json").read_text())
    return read


def refusal(document: object, tmp_path: Path) -> str:
    path = tmp_path / "changed.json"
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    with pytest.raises(InputError) as caught:
        read_plan(path)
    return str(caught.value).replace(str(path), "FILE")


@pytest.mark.parametrize("name", ["plan.json", "plan.json.gz"])
def test_a_plan_comes_back_equal(name: str, tmp_path: Path) -> None:
    plan = layered_plan(300, 3, memory_bytes=10**9)
    write_plan(plan, tmp_path / name)
    assert read_plan(tmp_path / name) == plan


def test_one_device_of_a_plan_is_one_of_its_machine(document: dict[str, Any], tmp_path: Path) -> None:
    one = {"device": 2, "order": "input-order", "num_elsewhere": 0, "metrics": document["metrics"]}
    assert refusal({**document, "one_device": one}, tmp_path) == "'FILE': one_device is device 2; there are 2"
    short = {**document["metrics"], "busy_ns": [1]}
    one |= {"device": 1, "metrics": short}
    told = "'FILE': one_device: busy_ns has 1 entries for 2 devices"
    assert refusal({**document, "one_device": one}, tmp_path) == told


def test_a_plan_says_where_its_times_come_from(document: dict[str, Any], tmp_path: Path) -> None:
    known = {**document, "time_sources": {"stated": 0, "measured": 1, "roofline": 2, "guessed": 1}}
    (tmp_path / "now.json").write_text(json.dumps(known))
    assert read_plan(tmp_path / "now.json").time_sources == TimeSources(stated=0, measured=1, roofline=2, guessed=1)


def wasteful_problem() -> Problem:
    """Two branches that the captured order runs side by side. In bytes: a 8, its readers 100 each, their readers 1."""
    ops = {"a": ("", 8), "v": ("a", 100), "w": ("a", 100), "x": ("v", 1), "y": ("w", 1)}
    return problem_of(graph_of(ops), machine_of(1), objective="peak-memory")


def test_a_plan_for_peak_memory_holds_the_memory_of_the_captured_order_over_time(tmp_path: Path) -> None:
    """a 8; v 108; w 208, then a is freed: 200; x 201, then v: 101; y 102, then w: 2, and x and y with nobody to read
    them are freed as they end. The plan runs v, x, w, y: at most 100 + 1 + 8 = 109 in the end of x, 108 when w starts.
    """
    plan = plan_for(wasteful_problem())
    assert plan.input_order_memory is not None
    points = list(zip(plan.input_order_memory.time_ns, plan.input_order_memory.bytes_in_use, strict=True))
    assert points[:5] == [(0, 0), (0, 8), (1, 108), (2, 208), (3, 200)]
    assert max(plan.input_order_memory.bytes_in_use) == 208
    assert plan.metrics.peak_memory_bytes == 109
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan


def test_a_plan_for_step_time_holds_no_such_curve() -> None:
    assert plan_for(replace(wasteful_problem(), objective="step-time")).input_order_memory is None


def test_a_curve_of_the_captured_order_that_is_none_is_refused(tmp_path: Path) -> None:
    write_plan(plan_for(wasteful_problem()), tmp_path / "plan.json")
    document = json.loads((tmp_path / "plan.json").read_text())
    document["input_order_memory"]["time_ns"].pop()
    assert refusal(document, tmp_path) == "'FILE': a memory curve needs as many times as values"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=problems())
def test_any_plan_comes_back_equal(problem: Problem, tmp_path: Path) -> None:
    plan = plan_for(problem)
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan


def test_the_largest_seed_comes_back(tmp_path: Path) -> None:
    write_plan(small_plan(seed=2**64 - 1), tmp_path / "p.json")
    assert read_plan(tmp_path / "p.json").seed == 2**64 - 1


def test_a_name_in_gz_is_compressed_and_equal_plans_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz", "a.json"):
        write_plan(small_plan(), tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "a.json").read_bytes()


def test_the_long_lists_are_columns(document: dict[str, Any]) -> None:
    assert document["schema_version"] == 2
    assert document["ops"]["name"] == ["a", "b", "c", "d"]
    assert document["ops"]["device"] == [0, 0, 1, 0]
    assert [len(column) for column in document["transfers"].values()] == [2] * 9


def put(*path: str | int, value: object) -> Any:
    def change(document: dict[str, Any]) -> None:
        for part in path[:-1]:
            document = document[part]  # type: ignore[index]
        document[path[-1]] = value  # type: ignore[index]

    return change


def change_of(kind: str, **values: object) -> Any:
    """Return a change of these values in the last buffer of a kind."""

    def change(document: dict[str, Any]) -> None:
        buffers = document["buffers"]
        last = max(row for row, found in enumerate(buffers["kind"]) if found == kind)
        for column, value in values.items():
            buffers[column][last] = value

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (put("schema_version", value=3), "FILE' has schema_version 3; this placewright reads version 2"),
        (put("schema_version", value=1), "and `placewright plan` makes a file of an earlier version anew"),
        (lambda d: d["machine"].pop("launch"), "machine: launch is missing"),
        (lambda d: d.pop("one_device"), "is not a whole plan: 'one_device' is missing"),
        (put("schema_version", value=True), "has schema_version true"),
        (lambda d: d.pop("schema_version"), "is not a plan: it has no schema_version"),
        (lambda d: d.pop("objective"), "is not a whole plan: 'objective' is missing"),
        (lambda d: d["ops"].pop("start_ns"), "is not a whole plan: 'ops.start_ns' is missing"),
        (put("objektive", value="x"), "has the unknown key 'objektive'"),
        (put("objective", value="speed"), "'objective' should be 'step-time' or 'peak-memory', not 'speed'"),
        (put("ops", "start_ns", 1, value=-5), "'ops.start_ns.1' should be greater than or equal to 0, not -5"),
        (put("ops", "start_ns", 1, value=2**62), "'ops.start_ns.1' should be less than 4611686018427387904"),
        (put("ops", "start_ns", 1, value=1.5), "'ops.start_ns.1' should be a valid integer, not 1.5"),
        (put("ops", "start_ns", 1, value="soon"), "'ops.start_ns.1' should be a valid integer, not 'soon'"),
        (put("seed", value=-1), "'seed' should be greater than or equal to 0, not -1"),
        (put("seed", value=2**64), "'seed' should be less than 18446744073709551616"),
        (put("ops", "device", 3, value=2), "op 'd' is on device 2; there are 2"),
        (put("ops", "name", 1, value="a"), "two ops have one name"),
        (put("ops", "position", 0, value=3), "steps are not sorted by position"),
        (put("ops", "waits_for", 1, value=7), "the step at position 1 waits for a later one"),
        (put("ops", "finish_ns", 1, value=0), "the step at position 1 finishes before it starts"),
        (lambda d: d["ops"]["kind"].pop(), "ops: 'kind' has 3 values but 'name' has 4"),
        (put("transfers", "destination", 0, value=9), "a transfer of 'a:0' goes from device 0 to 9"),
        (put("buffers", "kind", 0, value="pool"), "'buffers.kind.0' should be 'tensor', 'copy'"),
        (put("buffers", "device", 0, value=5), "is on device 5; there are 2"),
        (put("buffers", "op", 2, value="ghost"), "belongs to op 'ghost', which is not in the plan"),
        (put("buffers", "op", 2, value="\n"), "belongs to op '\\n', which is not in the plan"),
        (put("buffers", "freed_ns", 0, value=0), None),
        (change_of("tensor", op=""), "belongs to op '', which is not in the plan"),
        (change_of("resident", op="a"), "is resident and yet belongs to op 'a'"),
        (change_of("copy", device=0), "buffer 'a:0' is a copy that no transfer brings to device 0"),
        (put("transfers", "tensor", 0, value="b:0"), "buffer 'a:0' is a copy that no transfer brings to device 1"),
        (put("transfers", "destination", 0, value=0), "a transfer of 'a:0' goes from device 0 to 0; there are 2"),
        (put("transfers", "producer", 0, value="x"), "a transfer moves 'a:0' of op 'x', which is not in the plan"),
        (put("memory_curves", value=[]), "memory_curves has 0 entries for 2 devices"),
        (put("memory_curves", 0, "time_ns", value=[]), "a memory curve needs as many times as values"),
        (put("metrics", "peak_bytes", value=[1]), "metrics.peak_bytes has 1 entries for 2 devices"),
        (put("baselines", 0, "metrics", "busy_ns", value=[]), "baseline single-device: busy_ns has 0 entries"),
        (put("baselines", 0, "speed", value=1), "has the unknown key 'baselines.0.speed'"),
        (put("machine", value=3), "machine: 3 is not a table"),
        (put("machine", "devices", 0, "memory_bytes", value=-1), "impossible memory of -1 bytes"),
        (put("seconds", value=float("nan")), "is not valid JSON"),
        (put("configuration", value={"a": float("inf")}), "is not valid JSON"),
    ],
)
def test_a_changed_plan_is_refused_with_the_field_named(
    change: Any, sentence: str | None, document: dict[str, Any], tmp_path: Path
) -> None:
    change(document)
    if sentence is None:
        # A resident freed at 0 contradicts nothing that readers rely on; the checker finds it.
        path = tmp_path / "changed.json"
        path.write_text(json.dumps(document))
        assert read_plan(path).buffers[0].freed_ns == 0
    else:
        assert sentence in refusal(document, tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\x1f\x8b not gzip",
        b"\x89PNG\r\n",
        b"\xff\xfe{",
        b'{"schema_version":' + b"[" * 100_000,
        b'{"schema_version":1' + b"0" * 5000 + b"}",
        b'{"schema_version":1}',
    ],
)
def test_foreign_and_truncated_files_are_refused(content: bytes, tmp_path: Path) -> None:
    assert refusal(content, tmp_path).startswith("'FILE' ")


@pytest.mark.parametrize("name", ["plan.json", "plan.json.gz"])
def test_a_plan_cut_off_anywhere_is_refused(name: str, tmp_path: Path) -> None:
    write_plan(small_plan(), tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for length in range(0, len(whole) - 9, len(whole) // 40):
        assert "'FILE' is not" in refusal(whole[:length], tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*nowhere\.json': No such file"):
        read_plan(tmp_path / "nowhere.json")


def test_a_plan_matches_its_own_graph() -> None:
    problem = problem_of(graph_of({"a": ("", 8), "b": ("a", 8)}), machine_of(2))
    assert match_graph(plan_for(problem), problem.graph) == []


def test_ops_missing_added_and_changed_are_named() -> None:
    graph = graph_of({"a": ("", 8), "b": ("a", 8), "c": ("b", 8)})
    plan = plan_for(problem_of(graph, machine_of(2)))
    other = graph_of({"a": ("", 16), "b": ("a", 8), "d": ("b", 8), "e": ("d", 8)})
    assert match_graph(plan, other) == [
        "1 op of the plan is not in the graph: c",
        "2 ops of the graph are not in the plan: d, e",
        "1 op differs: a (output bytes 8, now 16)",
    ]


def test_of_many_differences_a_few_are_named_and_all_counted() -> None:
    graph = graph_of({"a": ("", 8)} | {f"x{i}": ("a", 8) for i in range(5)})
    plan = plan_for(problem_of(graph, machine_of(2)))
    assert match_graph(plan, graph_of({"a": ("", 8)})) == [
        "5 ops of the plan are not in the graph: x0, x1, x2 and 2 more"
    ]


def test_a_graph_that_differs_only_in_stated_times_is_told_apart() -> None:
    graph = graph_of({"a": ("", 8)})
    plan = plan_for(problem_of(graph, machine_of(1)))
    slower = replace(graph, ops=(Op(name="a", kind="other", outputs=(0,), time_ns=5),))
    assert match_graph(plan, slower) == [
        "the ops agree, but some of their inputs, sizes, attributes or stated times differ"
    ]


def test_a_file_name_that_is_no_text_leaves_a_plan_that_can_be_read(tmp_path: Path) -> None:
    write_plan(replace(small_plan(), graph_name="\udcff \U0001f600.json"), tmp_path / "p.json")
    assert read_plan(tmp_path / "p.json").graph_name == "\\udcff \U0001f600.json"


def test_a_number_of_thousands_of_digits_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    for key in ("schema_version", "num_evaluations"):
        text = json.dumps(document | {key: "HERE"}).replace('"HERE"', "1" * 5000)
        assert len(refusal(text.encode(), tmp_path)) < 300
