"""`placewright plan`: what it prints, writes and returns."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from command_line import Outcome, Placewright, chain_graph

from placewright import load
from placewright.bounds.bound import BoundReason
from placewright.importers import save_graph
from placewright.importers.graph_set import write_graph_set
from placewright.plans.file import write_plan
from placewright.report import write_report


def test_the_default_output_is_one_table_of_at_most_25_lines_and_100_columns(
    placewright: Placewright, model: Path
) -> None:
    outcome = placewright("plan", model, "--devices", "2xp100", "--evaluations", "50")
    lines = outcome.out.splitlines()
    assert outcome.code == 0
    assert outcome.err == ""
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in outcome.out


def test_it_names_before_after_devices_baselines_bound_and_time(placewright: Placewright, model: Path) -> None:
    # 30 ops of 200 us: 6 ms before.
    text = placewright("plan", model, "-d", "2xp100", "--evaluations", "50").out
    for part in (
        "one device: gpu0 (p100), captured order",
        "6.00 ms",
        "best baseline:",
        "plan, found by",
        "lower bound:",
        "gap",
    ):
        assert part in text
    for part in ("gpu0", "gpu1", "load", "peak", "limit", "15.9 GiB", "moved between devices: ", "took "):
        assert part in text
    for baseline in ("single-device", "dfs", "bfs", "lpmf", "xla-list", "reverse-greedy", "contiguous-split", "etf"):
        assert baseline in text


@pytest.mark.parametrize("columns", [80, 120])
def test_even_64_devices_and_long_names_fit_on_the_screen(
    columns: int, placewright: Placewright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    save_graph(chain_graph(130, towers=64, name="a_graph_with_" + 9 * "a_very_long_name_"), tmp_path / "wide.json")
    lines = placewright("plan", tmp_path / "wide.json", "-d", "64xa100-80g", "--evaluations", "1").out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= min(columns, 100)
    assert any("of 64 devices compute" in line or "median" in line for line in lines)


def test_the_gain_does_not_depend_on_which_device_is_named_first(placewright: Placewright, tmp_path: Path) -> None:
    """A lone matrix product: the H100 alone is best, so there is nothing to gain, whatever the CPU alone would take."""
    sizes = {"size_bytes": 2**20, "shape": [512, 512], "dtype": "float32"}
    tensors = [{"name": "x", **sizes}, {"name": "w", **sizes, "role": "parameter"}, {"name": "y", **sizes}]
    product = {"kind": "matmul", "attributes": {"batch": 1, "m": 512, "n": 512, "k": 512}}
    ops = [
        {"name": "feed", "kind": "input", "outputs": ["x"]},
        {"name": "product", "inputs": ["x", "w"], "outputs": ["y"], **product},
    ]
    graph = {"schema_version": 1, "name": "one", "tensors": tensors, "ops": ops}
    (tmp_path / "one.json").write_text(json.dumps(graph))
    heads = {}
    for machine in ("cpu+h100", "h100+cpu"):
        heads[machine] = placewright("plan", tmp_path / "one.json", "-d", machine).out.splitlines()
        assert heads[machine][0].removeprefix(f"one on {machine}: ") == heads["cpu+h100"][0].removeprefix(
            "one on cpu+h100: "
        )
        assert heads[machine][0].endswith("optimal, no gain over gpu0 alone")
        assert any(line.startswith("one device: gpu0 (h100), captured order ") for line in heads[machine])
    assert any(line.startswith("as named: cpu0 (cpu), captured order ") for line in heads["cpu+h100"])
    assert not any(line.startswith("as named") for line in heads["h100+cpu"])


@pytest.mark.parametrize("reason", get_args(BoundReason))
def test_at_80_columns_no_bound_loses_part_of_its_name(
    reason: BoundReason, placewright: Placewright, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    write_plan(replace(load(saved), bound_reason=reason), saved)
    (line,) = [line for line in placewright("show", saved).out.splitlines() if line.startswith("lower bound: ")]
    assert "…" not in line


def test_json_is_all_there_is_on_stdout(placewright: Placewright, model: Path) -> None:
    outcome = placewright("plan", model, "-d", "2xp100@graphs", "--evaluations", "50", "--json")
    summary = json.loads(outcome.out)
    assert outcome.err == ""
    # The bound counts the transfer that brings the towers together, so it proves what the baselines find.
    assert (summary["status"], summary["objective"], summary["graph"]) == ("optimal", "step-time", "towers")
    assert summary["before"]["metrics"]["step_time_ns"] == 6_000_000
    assert (summary["before"]["device"], summary["before"]["order"]) == ("gpu0", "input-order")
    assert summary["gain"] == 1 - summary["metrics"]["step_time_ns"] / 6_000_000
    assert summary["metrics"]["step_time_ns"] <= summary["best_baseline"]["metrics"]["step_time_ns"]
    assert summary["lower_bound"] <= summary["metrics"]["step_time_ns"]
    assert len(summary["baselines"]) >= 11


def test_one_graph_of_a_set_is_planned_by_its_name(placewright: Placewright, tmp_path: Path) -> None:
    path = tmp_path / "two.graphs.gz"
    write_graph_set(path, [chain_graph(4, name="first"), chain_graph(6, name="second")], {})
    outcome = placewright("plan", f"{path}:second", "-d", "2xp100", "--evaluations", "20", "--json")
    assert (json.loads(outcome.out)["graph"], json.loads(outcome.out)["num_graph_ops"]) == ("second", 7)
    assert placewright("inspect", f"{path}:first", "-d", "2xp100").code == 0
    refused = placewright("plan", path, "-d", "2xp100")
    assert refused.code == 2
    assert "holds 2 graphs; name one, as in" in refused.err
    assert "(known: first, second)" in refused.err
    overwriting = placewright("plan", f"{path}:first", "-d", "2xp100", "-o", path)
    assert "which is an input of this command" in overwriting.err


def test_plan_report_and_trace_are_written(placewright: Placewright, model: Path, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("p.json.gz", "r.html", "t.json.gz")]
    options = ["-o", paths[0], "--report", paths[1], "--trace", paths[2]]
    outcome = placewright("plan", model, "-d", "2xp100", "--evaluations", "50", *options)
    assert outcome.out.endswith(f"wrote plan {paths[0]}, report {paths[1]}, trace {paths[2]}\n")
    assert load(paths[0]).graph_name == "towers"
    assert paths[1].read_text().startswith("<!DOCTYPE html>") or paths[1].read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.json.gz", "r.html", "t.json.gz", "towers.json"]


def test_pins_forbids_and_colocations_are_kept(placewright: Placewright, model: Path, tmp_path: Path) -> None:
    rules = ["--pin", "op0=gpu1", "--forbid", "op1=1", "--colocate", "op28,op29"]
    assert placewright("plan", model, "-d", "2xp100", *rules, "-o", tmp_path / "p.json").code == 0
    device = load(tmp_path / "p.json").device_of
    assert (device["op0"], device["op1"]) == (1, 0)
    assert device["op28"] == device["op29"]


def test_the_plan_remembers_how_it_was_asked_for(placewright: Placewright, model: Path, tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("op,device,time_us\nop*,*,7\n")
    options = ["--measured", tmp_path / "times.csv", "--pin", "op0=1", "--evaluations", "60", "--memory-limit", "1GiB"]
    placewright("plan", model, "-d", "2xp100", *options, "-o", tmp_path / "p.json")
    asked = load(tmp_path / "p.json").configuration
    assert asked["measured"] == str(tmp_path / "times.csv")
    assert (asked["pins"], asked["evaluations"], asked["memory_limit"]) == (
        {"op0": "1"},
        60,
        {"gpu0": 2**30, "gpu1": 2**30},
    )
    assert load(tmp_path / "p.json").metrics.busy_ns[0] % 7000 == 0


def test_a_solver_that_runs_for_long_says_so_first(placewright: Placewright, model: Path) -> None:
    planned = ("plan", model, "-d", "2xp100", "--pin", "*=0", "--solver", "cp-sat")
    assert "cp-sat takes some 60 s, more on a busy machine or a large graph; --time-limit" in placewright(*planned).err
    assert "takes some" not in placewright(*planned, "--time-limit", "1s").err
    assert "takes some" not in placewright(*planned, "--quiet").err


def test_limits_and_forbidden_devices_are_given_per_device(
    placewright: Placewright, model: Path, tmp_path: Path
) -> None:
    rules = ["--memory-limit", "gpu0=3GiB,cpu=4GiB", "--forbid", "op0=0,gpu0", "--forbid", "op1=1", "--forbid", "op1=2"]
    placewright("plan", model, "-d", "cpu+2xp100", *rules, "--evaluations", "20", "-o", tmp_path / "p.json")
    plan = load(tmp_path / "p.json")
    assert plan.memory_limits_bytes == (4 * 2**30, 3 * 2**30, 16280 * 2**20)
    assert (plan.device_of["op0"], plan.device_of["op1"]) == (2, 0)
    for wrong in ("op0", "=0", "op0=0,"):
        assert (
            "is not understood; write it like 'layers.0.*=gpu0'"
            in placewright("plan", model, "-d", "2xp100", "--forbid", wrong).err
        )


def not_fitting(placewright: Placewright, model: Path, *options: str | Path) -> Outcome:
    """Every op needs its input and output at once: 2 MiB, where only 1.5 are allowed."""
    limit = ["--memory-limit", "1.5MiB", "--evaluations", "50"]
    return placewright("plan", model, "-d", "2xp100", *limit, *options)


def test_nothing_feasible_is_code_3_with_what_is_missing_per_device(
    placewright: Placewright, model: Path, tmp_path: Path
) -> None:
    outcome = not_fitting(placewright, model, "-o", tmp_path / "p.json")
    assert outcome.code == 3
    assert "no plan can fit (proven)" in outcome.out
    assert ["device", "needed", "available", "missing"] in [line.split() for line in outcome.out.splitlines()]
    assert outcome.err.startswith("placewright: error: no plan can fit: ")
    assert load(tmp_path / "p.json").status == "infeasible"
    assert "every plan needs at least 2.00 MiB on its fullest device" in outcome.out
    assert "every plan needs at least 2.00 MiB on its fullest device" in outcome.err
    assert "This plan would fit under a memory limit of 2MiB, which the devices have." in outcome.out
    assert len(outcome.out.splitlines()) <= 25


def test_nothing_says_optimal_or_gap_of_a_plan_that_does_not_fit(
    placewright: Placewright, model: Path, tmp_path: Path
) -> None:
    outcome = not_fitting(placewright, model, "-o", tmp_path / "p.json")
    # Even where the bound is reached: of a plan that breaks the limits this says nothing.
    plan = load(tmp_path / "p.json")
    write_plan(replace(plan, lower_bound=plan.metrics.step_time_ns), tmp_path / "p.json")
    texts = [outcome.out, *(placewright(command, tmp_path / "p.json").out for command in ("show", "explain"))]
    assert not any(re.search(r"\b(optimal|gap)\b", text) for text in texts)
    assert "no plan can fit (proven): every plan needs at least 2.00 MiB on its fullest device" in texts[2]


def test_json_says_per_device_what_is_missing(placewright: Placewright, model: Path) -> None:
    outcome = not_fitting(placewright, model, "--json")
    *devices, host = json.loads(outcome.out)["devices"]
    assert outcome.code == 3
    assert (host["name"], host["available_bytes"], host["missing_bytes"]) == ("host", None, 0)
    assert [device["available_bytes"] for device in devices] == [3 * 2**19, 3 * 2**19]
    assert all(d["missing_bytes"] == max(0, d["needed_bytes"] - d["available_bytes"]) for d in devices)
    assert max(device["missing_bytes"] for device in devices) >= 2**19


def test_ops_without_formula_are_warned_of_on_stderr(placewright: Placewright, tmp_path: Path) -> None:
    graph = {"schema_version": 1, "name": "odd", "tensors": [{"name": "t", "size_bytes": 8}]}
    ops = [{"name": "strange", "kind": "other", "outputs": ["t"]}]
    (tmp_path / "odd.json").write_text(json.dumps({**graph, "ops": ops}))
    outcome = placewright("plan", tmp_path / "odd.json", "-d", "p100", "--evaluations", "1", "--json")
    assert outcome.err.startswith("placewright: warning: no formula for the time of 1 op")
    assert json.loads(outcome.out)["warnings"] == [outcome.err.removeprefix("placewright: warning: ").strip()]


def test_one_solver_alone_says_that_no_baseline_ran(placewright: Placewright, model: Path) -> None:
    text = placewright("plan", model, "-d", "2xp100", "--solver", "etf").out
    assert "no baselines ran beside this solver" in text
    assert "one device: gpu0 (p100), captured order" in text


def test_control_characters_in_names_do_not_reach_the_terminal(placewright: Placewright, tmp_path: Path) -> None:
    save_graph(chain_graph(4, name="evil\x1b[31m\nname"), tmp_path / "evil.json")
    outcome = placewright("plan", tmp_path / "evil.json", "-d", "p100", "--evaluations", "1")
    assert "evil\\x1b[31m\\nname" in outcome.out
    assert "\x1b" not in outcome.out


def test_outside_of_a_terminal_nothing_is_cut(placewright: Placewright, tmp_path: Path) -> None:
    save_graph(chain_graph(30, name="a_graph_with_quite_a_long_name"), tmp_path / "g.json")
    options = ["-d", "2xp100", "--objective", "peak-memory", "--solver", "segment-fill"]
    head = placewright("plan", tmp_path / "g.json", *options).out.splitlines()
    assert head[0].startswith("a_graph_with_quite_a_long_name on 2xp100: peak memory ")
    assert not any("…" in line for line in head)
    assert any(line.startswith("lower bound: largest op ") for line in head)


def test_the_variant_of_a_method_stands_in_parentheses(placewright: Placewright, saved: Path) -> None:
    write_plan(replace(load(saved), found_by="segment-fill: one starves"), saved)
    assert "plan, found by segment-fill (one starves) " in placewright("show", saved).out


def test_any_number_of_seconds_can_be_shown(placewright: Placewright, saved: Path, tmp_path: Path) -> None:
    write_plan(replace(load(saved), seconds=1e308), saved)
    assert placewright("show", saved).code == 0
    write_report(load(saved), tmp_path / "r.html")
    assert (tmp_path / "r.html").exists()


def test_a_line_tells_what_running_ops_again_costs(placewright: Placewright, step: Path) -> None:
    plan = ("plan", step, "-d", "p100@graphs", "--memory-limit", "130")
    lines = placewright(*plan).out.splitlines()
    words = r"fits by running \d ops? again: [\d.]+% more time than without the limit(, at least [\d.]+% \(proven\))?"
    assert re.fullmatch(words, lines[1])
    found = json.loads(placewright(*plan, "--json").out)
    assert found["num_reruns"] > 0
    assert 0 <= found["least_extra_time"] <= found["extra_time"]
    assert found["metrics"]["peak_memory_bytes"] <= 130


def test_ops_run_again_on_several_devices_and_a_line_says_so(placewright: Placewright, step: Path) -> None:
    plan = ("plan", step, "-d", "2xp100@graphs", "--memory-limit", "86", "--evaluations", "50")
    saved = step.parent / "plan.json"
    assert placewright(*plan, "--keep", "*").code == 3
    outcome = placewright(*plan, "-o", saved)
    assert outcome.code == 0
    assert re.fullmatch(r"fits by running \d+ ops? again", outcome.out.splitlines()[1])
    assert placewright("check", step, saved).code == 0
    assert max(load(saved).peak_bytes) <= 86


def test_a_limit_above_the_peak_changes_nothing_and_the_plan_says_so(placewright: Placewright, step: Path) -> None:
    lines = placewright("plan", step, "-d", "p100", "--memory-limit", "1GiB").out.splitlines()
    assert lines[1] == "the memory limit changes nothing: the captured order needs 142 B"


def test_what_is_kept_runs_once(placewright: Placewright, step: Path) -> None:
    outcome = placewright("plan", step, "-d", "p100", "--memory-limit", "130", "--keep", "*", "--json")
    assert outcome.code == 3
    assert json.loads(outcome.out)["num_reruns"] == 0


def test_where_nothing_fits_the_op_that_needs_too_much_is_named(placewright: Placewright, step: Path) -> None:
    outcome = placewright("plan", step, "-d", "p100", "--memory-limit", "40")
    assert outcome.code == 3
    assert "no plan can fit (proven)" in outcome.out
    assert "every plan needs at least 90 B while 'matmul21' runs, whatever runs again" in outcome.err
