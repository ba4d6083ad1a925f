"""`placewright run`."""

import json
from pathlib import Path

import pytest
from command_line import Placewright
from test_lists import assert_fits

from placewright.cli.schemas import schema_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "towers.py"
NET = """
import torch

def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)), torch.ones(2, 8)

def named():
    model, arguments = build()
    return model, (), {"input": arguments[0]}

def clash():
    return torch.nn.Linear(1, 1), (), {"steps": torch.ones(1)}

def nothing():
    return torch.nn.Linear(1, 1)

number = 3
"""


pytestmark = pytest.mark.heavy


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def test_a_run_is_told_beside_its_plan(placewright: Placewright, net: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    made = placewright("run", f"{net}:build", "--steps", "2", "-o", plan)
    assert made.code == 0, made.err
    assert "Sequential on cpu:0, cpu:1" in made.out
    for row in ("as planned", "on the first device alone", "PyTorch, an op on all cores"):
        assert row in made.out
    again = placewright("run", f"{net}:build", plan, "--steps", "2", "--json")
    found = json.loads(again.out)
    schema = schema_of("run")
    assert_fits(found, schema, schema["$defs"], "run")
    assert found["planned_ns"] == json.loads(plan.read_text())["metrics"]["step_time_ns"]
    assert [device["device"] for device in found["devices"]] == ["cpu:0", "cpu:1"]
    assert sum(device["num_ops"] for device in found["devices"]) == len(json.loads(plan.read_text())["ops"]["name"])


def test_arguments_by_name_are_run_and_measured(placewright: Placewright, net: Path, tmp_path: Path) -> None:
    run = placewright("run", f"{net}:named", "--steps", "1", "--calibrate")
    assert run.code == 0, run.err
    assert "as planned" in run.out
    profiled = placewright("profile", f"{net}:named", "-o", tmp_path / "here")
    assert profiled.code == 0, profiled.err


def test_the_example_runs_as_a_training_step(placewright: Placewright) -> None:
    outcome = placewright("run", f"{EXAMPLE}:build", "--training", "--steps", "1")
    assert outcome.code == 0, outcome.err
    assert "Towers on cpu:0, cpu:1" in outcome.out


def test_a_training_step_runs_within_a_limit(placewright: Placewright, tmp_path: Path) -> None:
    source, plan = tmp_path / "deep.py", tmp_path / "plan.json"
    source.write_text(
        "import torch\n\ndef build():\n"
        "    layers = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()) for _ in range(6)]\n"
        "    return torch.nn.Sequential(*layers), torch.ones(512, 32)\n"
    )
    options = ("-d", "cpu:0", "--training", "--steps", "2", "-o", plan)
    assert placewright("run", f"{source}:build", *options).code == 0
    peak = json.loads(plan.read_text())["metrics"]["peak_memory_bytes"]
    limit = ("--memory-limit", f"{peak * 7 // 10}B")
    within = placewright("run", f"{source}:build", *options, *limit)
    assert within.code == 0, within.err
    assert json.loads(plan.read_text())["reruns"]["name"]
    kept = placewright("run", f"{source}:build", *options, *limit, "--keep", "*")
    assert kept.code == 2
    assert "no plan can fit: " in kept.err


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        ("{net}", (), "' does not name a function; write it like net.py:build"),
        ("{net}:bild", (), "net.py' has no function 'bild'"),
        ("{net}:number", (), "net.py' has no function 'number'"),
        ("{net}:nothing", (), "net.py:nothing' must return a module and its arguments, not a Linear"),
        ("{net}:clash", (), "gives its module 'steps' by name, which `run` takes for its own; give it by position"),
        ("absent.py:build", (), "cannot read 'absent.py': No such file or directory"),
        ("{net}:build", ("-d", "gpu:0"), "device 'gpu:0' cannot run a plan; cpu:0, cpu:1, cuda:0 and so on can"),
        ("{net}:build", ("-d", "cpu:0,cuda:99"), "device 'cuda:99' is not there: "),
        ("{net}:build", ("absent.json",), "cannot read 'absent.json'"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(
    placewright: Placewright, net: Path, model: str, options: tuple[str, ...], sentence: str
) -> None:
    outcome = placewright("run", model.format(net=net), *options)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_a_plan_for_something_else_is_refused(placewright: Placewright, net: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert placewright("run", f"{net}:build", "--steps", "1", "-o", plan).code == 0
    outcome = placewright("run", f"{EXAMPLE}:build", plan)
    assert outcome.code == 2
    assert "the plan of 'Sequential' is for another module or other arguments" in outcome.err
    outcome = placewright("run", f"{net}:build", plan, "-d", "cpu:0")
    assert outcome.code == 2
    assert "the plan is for 2 devices, and devices names 1" in outcome.err


def test_profile_tells_what_it_measured_and_run_takes_it(placewright: Placewright, net: Path, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    outcome = placewright("profile", f"{net}:build", "-o", folder, "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    schema = schema_of("profile")
    assert_fits(found, schema, schema["$defs"], "profile")
    assert found["num_timed"] > 0
    printed = placewright("profile", f"{net}:build", "-o", folder)
    assert "0 sorts of ops timed now" in printed.out
    assert "matmul" in printed.out
    report, trace = tmp_path / "r.html", tmp_path / "t.json"
    outputs = ("--report", report, "--trace", trace)
    outcome = placewright("run", f"{net}:build", "--steps", "1", "--profile", folder, "--calibrate", *outputs)
    assert outcome.code == 0, outcome.err
    assert "first plan" in outcome.out
    assert "Planned and measured" in report.read_text()
    assert "cpu:1, measured" in trace.read_text()
    plan = tmp_path / "plan.json"
    assert placewright("run", f"{net}:build", "--steps", "1", "--profile", folder, "--calibrate", "-o", plan).code == 0
    checked = placewright("check", folder / "Sequential-inference.json.gz", plan)
    assert checked.code == 0, checked.out


def test_profile_into_a_file_is_refused(placewright: Placewright, net: Path) -> None:
    outcome = placewright("profile", f"{net}:build", "-o", net)
    assert outcome.code == 2
    assert "cannot make folder" in outcome.err


def test_a_function_that_raises_is_named_with_its_line(placewright: Placewright, tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("import torch\n\ndef build():\n    return torch.nn.Linear('no', 2)\n")
    outcome = placewright("run", f"{path}:build")
    assert outcome.code == 2
    assert f"'{path}:build' failed: TypeError: " in outcome.err
    assert "(net.py:4)" in outcome.err
    path.write_text("import nowhere_to_be_found\n")
    assert (
        "failed: ModuleNotFoundError: No module named 'nowhere_to_be_found' (net.py:1)"
        in placewright("run", f"{path}:build").err
    )
