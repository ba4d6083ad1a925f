"""`placewright bench run` and `placewright dataset synthetic` as processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import limited, process
from lab.learning.networks import random_policy
from waiting import PATIENCE_S, wait_until

from placewright.importers.graph_set import read_graph_set, write_graph_set
from placewright.lab.bench.rows import read_results
from placewright.lab.datasets.synthetic import random_graph
from placewright.methods.policy_file import write_policy


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "some.graphs.gz"
    write_graph_set(path, [random_graph(3, index) for index in range(6)], {})
    return path


def arguments(suite: Path, *more: str) -> list[str | Path]:
    return ["bench", "run", suite, "--solvers", "brkga,etf", "--out", suite.parent / "r", *more]


def test_a_run_keeps_a_row_per_graph_solver_limit_and_seed(suite: Path) -> None:
    outcome = process(*arguments(suite, "--evaluations", "100,300", "--seeds", "2", "--jobs", "2"))
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout == f"30 rows in {suite.parent / 'r'}\n"  # 6 graphs: 2 limits with 2 seeds, and etf once.
    again = process(*arguments(suite, "--evaluations", "100,300", "--seeds", "2"))
    assert again.stdout == outcome.stdout


def test_open_dimensions_are_set_in_all_processes(tmp_path: Path) -> None:
    parser = pytest.importorskip("onnx.parser")
    body = "g (float[batch, 3] x) => (float[batch, 3] y) { y = Relu (x) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\n{body}')
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    words = ("-d", "2xh100", "--solvers", "etf", "--jobs", "1", "--out")
    run: list[str | Path] = ["bench", "run", tmp_path / "m.onnx", *words]
    assert "leaves dimensions of its inputs open: 'batch'" in process(*run, tmp_path / "open").stderr
    outcome = process(*run, tmp_path / "r", "--dim", "batch=8")
    assert (outcome.returncode, outcome.stdout) == (0, f"1 row in {tmp_path / 'r'}\n")
    # x and y of 8 x 3 floats each: 192 bytes.
    assert [row.peak_memory_bytes for row in read_results(tmp_path / "r")[1]] == [192]
    assert "holds results with another" in process(*run, tmp_path / "r", "--dim", "batch=4").stderr
    packed = process("dataset", "pack", tmp_path / "m.onnx", "--dim", "batch=8", "--out", tmp_path / "s.graphs.gz")
    assert packed.stdout == f"{tmp_path / 's.graphs.gz'}: 1 graph\n"


def test_rows_that_other_code_made_are_made_again(suite: Path) -> None:
    assert process(*arguments(suite, "--take", "2", "--evaluations", "100")).returncode == 0
    rows = suite.parent / "r" / "rows.jsonl"
    lines = rows.read_text().splitlines()
    made = [json.loads(line) for line in lines]
    code = {row["solver"]: row["code"] for row in made}
    # Both rows of brkga are older, and the code of one of etf's is unknown.
    older = [line.replace(code["brkga"], "0123456789ab") for line in lines]
    first = next(index for index, row in enumerate(made) if row["solver"] == "etf")
    older[first] = lines[first].replace(code["etf"], "unknown")
    rows.write_text("".join(f"{line}\n" for line in older))
    outcome = process(*arguments(suite, "--take", "2", "--evaluations", "100"))
    assert outcome.returncode == 0
    assert outcome.stderr == (
        f"placewright: 2 rows of 'brkga' were made by other code (0123456789ab, not {code['brkga']}): "
        "set aside in rows.stale and made again\n"
        f"placewright: 1 row of 'etf' was made by other code (unknown, not {code['etf']}): "
        "set aside in rows.stale and made again\n"
    )
    assert len((suite.parent / "r" / "rows.stale").read_text().splitlines()) == 3
    again = read_results(suite.parent / "r")[1]
    assert {(row.graph, row.solver, row.objective, row.code) for row in again} == {
        (row["graph"], row["solver"], row["objective"], row["code"]) for row in made
    }


def test_rows_that_nobody_asks_for_are_left_alone(suite: Path) -> None:
    assert process(*arguments(suite, "--take", "1", "--evaluations", "100")).returncode == 0
    rows = suite.parent / "r" / "rows.jsonl"
    rows.write_text(re.sub('"code":"[0-9a-f]*"', '"code":"0123456789ab"', rows.read_text()))
    outcome = process(*arguments(suite, "--take", "1", "--evaluations", "200", "--solvers", "brkga"))
    assert (outcome.returncode, outcome.stderr) == (0, "")
    codes = [row.code for row in read_results(suite.parent / "r")[1]]
    assert codes[:2] == ["0123456789ab"] * 2
    assert len(codes) == 3


def test_rows_of_another_policy_under_the_same_name_are_refused(suite: Path) -> None:
    path = suite.parent / "best.safetensors"
    first, second = (random_policy(seed=seed, name="mine") for seed in (0, 1))
    more = ("--solvers", f"regal:{path}", "--evaluations", "450")
    write_policy(first, path)
    assert process(*arguments(suite, *more, "--take", "1")).returncode == 0
    write_policy(second, path)
    outcome = process(*arguments(suite, *more, "--take", "2"))
    assert outcome.returncode == 2
    assert outcome.stderr == (
        f"placewright: error: 'regal:{path}' has rows of another policy there, 'regal: {first.title}', "
        f"not 'regal: {second.title}': another --out starts anew\n"
    )
    write_policy(first, path)
    assert process(*arguments(suite, *more, "--take", "2")).returncode == 0


def test_only_some_graphs_may_be_taken(suite: Path) -> None:
    assert process(*arguments(suite, "--take", "2", "--evaluations", "100")).returncode == 0
    rows = read_results(suite.parent / "r")[1]
    assert {row.graph for row in rows} == {"synthetic-3-0", "synthetic-3-3"}


def test_ctrl_c_keeps_the_rows_and_says_how_to_go_on(suite: Path) -> None:
    command = [sys.executable, "-m", "placewright", *map(str, arguments(suite, "--evaluations", "3000000"))]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    rows = suite.parent / "r" / "rows.jsonl"
    wait_until(rows.exists)
    time.sleep(0.5)
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert "rows are kept and the same command goes on from there" in err
    assert "Traceback" not in err


def test_workers_end_with_a_parent_that_is_killed(suite: Path) -> None:
    pytest.importorskip("ortools")
    options = ("--solvers", "cp-sat", "--time-limit", "100s", "--jobs", "1")
    command = [sys.executable, "-m", "placewright", *map(str, arguments(suite, *options))]
    # Workers inherit stderr, which so is at its end when the last of them is.
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    rows = suite.parent / "r" / "rows.jsonl"
    wait_until(rows.exists)
    time.sleep(2)  # The worker is at work.
    running.kill()
    running.communicate(timeout=PATIENCE_S)


def test_two_runs_at_once_do_not_mix_their_rows(suite: Path) -> None:
    command = [sys.executable, "-m", "placewright", *map(str, arguments(suite, "--evaluations", "3000000"))]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = suite.parent / "r" / "rows.jsonl"
    wait_until(rows.exists)
    second = process(*arguments(suite))
    assert (second.returncode, second.stdout) == (2, "")
    assert second.stderr.startswith("placewright: error: another run is adding rows to ")
    first.kill()
    first.wait()
    assert process(*arguments(suite, "--evaluations", "100")).returncode == 0


def test_much_damage_is_told_in_a_few_lines(suite: Path) -> None:
    assert process(*arguments(suite, "--evaluations", "100")).returncode == 0
    rows = suite.parent / "r" / "rows.jsonl"
    rows.write_bytes(b"\xff\n" * 1000)
    outcome = process(*arguments(suite, "--evaluations", "100"))
    assert outcome.returncode == 0
    assert len(outcome.stderr.splitlines()) == 6
    assert "and 995 more damaged lines, all kept in rows.damaged" in outcome.stderr


def test_a_full_disk_is_one_sentence_and_the_rows_before_it_are_kept(suite: Path) -> None:
    outcome = process(*arguments(suite, "--evaluations", "100", "--jobs", "1"), preexec_fn=limited(1200))
    assert outcome.returncode == 2
    assert "rows.jsonl': File too large; 3 rows are kept; the same command goes on from there" in outcome.stderr
    assert len(read_results(suite.parent / "r")[1]) == 3
    assert process(*arguments(suite, "--evaluations", "100")).returncode == 0
    assert len(read_results(suite.parent / "r")[1]) == 12


def test_an_unreadable_graph_is_named_and_the_exit_code_says_that_rows_are_missing(tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    for name in "ac":
        (folder / f"{name}.stg").write_text("1\n0 0 0\n1 5 1 0\n2 0 1 1\n")
    (folder / "b\x1b[31mred.stg").write_text("no graph")
    outcome = process(*arguments(folder, "--evaluations", "100"))
    assert outcome.returncode == 1
    assert outcome.stdout == f"4 rows in {tmp_path / 'r'}\n"
    assert "no row of any solver on 'b\\x1b[31mred.stg'" in outcome.stderr
    assert "\x1b" not in outcome.stderr, "nothing that a terminal would obey"
    assert "1 failure, named above; the same command tries again what is missing" in outcome.stderr


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        (("--solvers", "brkga,annealin"), "there is no solver 'annealin'"),
        (("--evaluations", "none"), "evaluations is 'none'; it must be a whole number from 1"),
        (("--time-limit", "soon"), "'soon'"),
        (("--seeds", "0"), "seeds"),
        (("--seeds", "100000"), "seeds"),
        (("--evaluations", ""), "evaluations is ''; it must be a whole number from 1"),
        (("--evaluations", "100,"), "evaluations is ''; it must be a whole number from 1"),
        (("--evaluations", "9" * 5000), "(5,000 characters)'; it must be a whole number from 1"),
        (("--time-limit", ""), "duration ''"),
        (("--solvers", "etf,"), "there is no solver ''"),
    ],
)
def test_what_is_wrong_with_an_option_is_said_before_anything_runs(
    suite: Path, changed: tuple[str, str], complaint: str
) -> None:
    outcome = process(*arguments(suite, *changed))
    assert outcome.returncode == 2
    assert complaint in outcome.stderr
    assert not (suite.parent / "r").exists()


def test_a_split_set_is_run_on_its_test_part(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for index, part in enumerate(("train", "valid", "test")):
        write_graph_set(folder / f"{part}.graphs.gz", [random_graph(3, index)], {})
    outcome = process("bench", "run", folder, "--solvers", "etf", "--out", tmp_path / "r")
    assert outcome.returncode == 0
    assert outcome.stderr == f"placewright: '{folder}' is a split set; this runs its test part, test.graphs.gz\n"
    header, rows = read_results(tmp_path / "r")[:2]
    assert header.suite == "set-test"
    assert [one.graph for one in rows] == [random_graph(3, 2).name]


def test_a_graph_and_an_example_are_run_on_devices_that_are_named(tmp_path: Path) -> None:
    run: list[str | Path] = ["bench", "run", "example:resnet50-onnx", "--solvers", "etf", "--out", tmp_path / "r"]
    untimed = process(*run)
    assert untimed.returncode == 1
    assert "on devices with rates, like 2xp100/free, times are estimated" in untimed.stderr
    outcome = process(*run, "--devices", "2xp100")
    assert outcome.returncode == 2  # rows of another machine
    outcome = process(*run[:-1], tmp_path / "s", "--devices", "2xp100")
    assert (outcome.returncode, outcome.stdout) == (0, f"1 row in {tmp_path / 's'}\n")


def test_a_suite_says_its_own_devices(suite: Path) -> None:
    (suite.parent / "own.toml").write_text('graphs = "some.graphs.gz"\n')
    outcome = process(*arguments(suite.parent / "own.toml", "--devices", "2xp100"))
    assert outcome.returncode == 2
    assert "is a suite, which says its own devices" in outcome.stderr


def test_workers_know_a_plugin(suite: Path) -> None:
    example = Path(__file__).parents[3] / "examples" / "own_method.py"
    run = arguments(suite, "--solvers", "near-inputs,etf", "--jobs", "1", "--take", "2")
    unknown = process(*run)
    assert unknown.returncode == 2
    assert "there is no solver 'near-inputs'" in unknown.stderr
    outcome = process(*run, "--plugin", example)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    rows = read_results(suite.parent / "r")[1]
    assert {row.solver for row in rows} == {"near-inputs", "etf"}
    assert len(rows) == 4
    plan = process(
        "plan", f"{suite}:{rows[0].graph}", "-d", "2xideal/free", "--plugin", example, "--solver", "near-inputs"
    )
    assert plan.returncode == 0
    assert "found by near-inputs" in plan.stdout


def test_a_report_with_nothing_in_it_says_why(suite: Path) -> None:
    run: list[str | Path] = ["bench", "run", suite, "--solvers", "brkga", "--evaluations", "50", "--take", "1"]
    assert process(*run, "--out", suite.parent / "r").returncode == 0
    outcome = process("bench", "report", suite.parent / "r", "--table", "graphs")
    assert outcome.returncode == 2
    assert "some: no table graphs: no heuristic, such as single-device or etf" in outcome.stderr
    assert "nothing to report: the warnings above say why" in outcome.stderr
    assert not list((suite.parent / "r" / "report").glob("*"))


def test_the_synthetic_set_is_made_by_one_command(tmp_path: Path) -> None:
    outcome = process("dataset", "synthetic", "--count", "12", "--seed", "4", "--out", tmp_path / "new" / "set")
    assert outcome.returncode == 0
    assert [len(read_graph_set(tmp_path / "new" / "set" / f"{s}.graphs.gz")) for s in ("train", "valid", "test")] == [
        10,
        1,
        1,
    ]
    refused = process("dataset", "synthetic", "--count", "3", "--out", tmp_path)
    assert refused.returncode == 2
    assert "3 graphs cannot be split 10 : 1 : 1" in refused.stderr
