"""Answers in Python about a plan or a graph: short at the prompt, whole when asked, the same as on the command line."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from instances import graph_of, machine_of, problem_of
from plans import small_plan

import placewright
from placewright import cli
from placewright.api.questions import Plan, judge
from placewright.importers import load_graph, save_graph
from placewright.importers.graph_set import read_graph_set, write_graph_set
from placewright.plans.record import OneDevice
from placewright.plans.record import Plan as PlanRecord
from placewright.problem.objective import Metrics
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.search.run.search_run import SearchRun


@pytest.fixture
def plan() -> Plan:
    return Plan.of(small_plan())


def test_a_plan_at_the_prompt_is_one_short_line(plan: Plan) -> None:
    # The ten thousand ops of a real plan would be megabytes of text.
    assert repr(plan) == "Plan('layered network' on '2xp100': feasible, 229 us, peak 5.00 MiB, 4 ops)"


def test_graphs_machines_problems_results_and_sets_are_short_too(tmp_path: Path) -> None:
    graph = graph_of({"a": ("", 10), "b": ("a", 10)})
    problem = problem_of(graph, machine_of(2), 5)
    result = INPUT_ORDER.solve(problem, SearchRun())
    assert repr(graph) == "Graph('tiny': 2 ops, 2 tensors)"
    assert repr(problem.machine) == "Machine('tiny': 2 x any, overlapped transfers)"
    assert repr(problem) == f"Problem({graph!r}, {problem.machine!r}, step-time)"
    assert repr(result.solution) == "Solution(2 ops on 1 device)"
    # a and b one after the other, 5 ns each; b's input and output are alive together.
    assert repr(result).startswith("Result('input-order': 10 ns, peak 20 B, ")
    write_graph_set(tmp_path / "s.graphs.gz", [graph], {})
    assert repr(read_graph_set(tmp_path / "s.graphs.gz")) == "GraphSet('s': 1 graph)"


def test_a_plan_gives_its_step_time_and_peaks_by_name(plan: Plan) -> None:
    assert plan.step_time_ns == plan.metrics.step_time_ns == 228_764
    assert plan.peak_bytes == plan.metrics.peak_bytes


def outcome(step_time_ns: int, over: int = 0) -> Metrics:
    return replace(small_plan().metrics, step_time_ns=step_time_ns, bytes_over_limit=over)


def test_the_speedup_is_over_the_best_single_device_if_the_graph_fits_there() -> None:
    def speedup(metrics: Metrics) -> float | None:
        one = OneDevice(device=1, order="input-order", num_elsewhere=0, metrics=metrics)
        return Plan.of(replace(small_plan(), one_device=one)).speedup

    # 457,528 ns are twice the plan's 228,764.
    assert speedup(outcome(457_528)) == 2.0
    assert speedup(outcome(457_528, over=1)) is None
    assert Plan.of(small_plan()).speedup is None


def test_a_plan_at_the_prompt_says_what_it_gains_or_that_no_single_device_fits() -> None:
    def told(metrics: Metrics) -> str:
        one = OneDevice(device=1, order="input-order", num_elsewhere=0, metrics=metrics)
        return repr(Plan.of(replace(small_plan(), one_device=one)))

    assert told(outcome(457_528)).endswith("4 ops; 50.0% less than gpu1 alone)")
    assert told(outcome(457_528, over=1)).endswith("4 ops; where no order tried fits one device)")
    # A ten-thousandth of 228,764 ns is a gain that has no tenth of a percent.
    assert told(outcome(228_787)).endswith("4 ops; under 0.1% less than gpu1 alone)")


def test_a_plan_saves_itself(plan: Plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan.json")
    loaded = placewright.load(tmp_path / "plan.json")
    assert loaded == plan
    assert isinstance(loaded, Plan)


def test_a_plan_equals_its_record(plan: Plan) -> None:
    assert type(small_plan()) is PlanRecord
    assert plan == small_plan()
    assert plan != replace(plan, seed=plan.seed + 1)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    cli.run([str(argument) for argument in arguments])
    return capsys.readouterr().out.rstrip("\n")


def test_explain_and_diff_answer_as_the_command_line_does(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    plan.save(tmp_path / "p.json")
    explained = plan.explain()
    assert str(explained) == repr(explained) == printed(capsys, "explain", tmp_path / "p.json")
    assert explained.facts.path.num_steps > 0
    difference = plan.diff(plan)
    assert str(difference) == printed(capsys, "diff", tmp_path / "p.json", tmp_path / "p.json")
    assert difference.facts.num_moved == 0


def test_inspect_answers_as_the_command_line_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    found = placewright.inspect("example:resnet50-onnx", "2xp100")
    assert str(found) == printed(capsys, "inspect", "example:resnet50-onnx", "-d", "2xp100")
    assert found.facts.num_ops == len(load_graph("example:resnet50-onnx").ops)


@pytest.fixture
def planned(tmp_path: Path) -> tuple[Plan, Path]:
    """A plan made from a graph file."""
    graph = replace(graph_of({"a": ("", 10), "b": ("a", 10)}))
    timed = replace(graph, ops=tuple(replace(op, time_ns=5) for op in graph.ops))
    save_graph(timed, tmp_path / "tiny.json")
    return placewright.plan(str(tmp_path / "tiny.json"), "2xideal/free", evaluations=5), tmp_path / "tiny.json"


def test_a_plan_checks_itself_against_the_file_it_was_made_from(planned: tuple[Plan, Path]) -> None:
    plan, path = planned
    for model in (None, path, load_graph(path)):
        found = plan.check(model)
        assert found.facts.correct
        assert str(found).splitlines() == [
            "correct: 2 ops and 0 transfers simulate to the same plan",
            "not checked: what baselines reach",
        ]


def test_a_check_says_what_is_wrong(planned: tuple[Plan, Path]) -> None:
    plan, _ = planned
    late = replace(plan.ops[1], finish_ns=plan.ops[1].finish_ns + 1)
    found = replace(plan, ops=(plan.ops[0], late)).check()
    assert not found.facts.correct
    assert str(found).startswith("wrong: ")
    assert f"- {found.facts.problems[0]}" in str(found)


def test_a_plan_of_no_file_asks_which_graph_it_is_for(plan: Plan) -> None:
    with pytest.raises(placewright.InputError, match=r"was made in Python, not from a file, so say which graph"):
        plan.check()
    with pytest.raises(placewright.InputError, match=r"the plan is not a plan for 'tiny'"):
        judge(plan, graph_of({"a": ("", 10)}))


def test_answers_have_the_values_that_json_has(plan: Plan) -> None:
    facts = asdict(plan.explain().facts)
    assert set(facts) == {"peaks", "path", "idle", "gap"}


def test_only_public_names_are_listed() -> None:
    assert dir(placewright) == sorted(placewright.__all__)
    assert all(hasattr(placewright, name) for name in placewright.__all__)
