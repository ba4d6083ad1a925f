"""`placewright run` and `export` of ONNX models."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import Placewright
from onnx_models import image, towers
from test_lists import assert_fits

from placewright.cli.schemas import schema_of

pytestmark = pytest.mark.heavy


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return towers(tmp_path / "towers.onnx", batch="batch")


def test_a_run_is_told_beside_its_plan_and_its_plan_runs_again(
    placewright: Placewright, model: Path, tmp_path: Path
) -> None:
    plan, feeds, times = tmp_path / "plan.json", tmp_path / "inputs.npz", tmp_path / "times.csv"
    np.savez(feeds, **image(batch=2))
    size = ["--dim", "batch=2"]
    made = placewright("run", model, *size, "--steps", "1", "--measured", times, "--feeds", feeds, "-o", plan)
    assert made.code == 0, made.err
    assert "towers.onnx on cpu:0, cpu:1" in made.out
    assert "ONNX Runtime's profile shows every op on its device and in its place" in made.out
    for row in ("as planned", "on the first device alone", "ONNX Runtime, an op on all cores", "taken in one piece"):
        assert row in made.out
    assert len(times.read_text().splitlines()) == 1 + 7
    assert "ONNX Runtime's parallel mode" in made.out
    report, trace = tmp_path / "run.html", tmp_path / "run.json"
    again = placewright("run", model, plan, *size, "--steps", "1", "--json", "--report", report, "--trace", trace)
    assert again.code == 0, again.err
    assert "ONNX Runtime&#x27;s parallel mode" in report.read_text()
    assert any("measured" in str(event) for event in json.loads(trace.read_text())["traceEvents"])
    found = json.loads(again.out)
    schema = schema_of("run")
    assert_fits(found, schema["$defs"]["OnnxComparison"], schema["$defs"], "run")
    assert found["planned_ns"] == json.loads(plan.read_text())["metrics"]["step_time_ns"]
    assert found["ran_as_planned"]
    written = placewright("export", plan, model, "--to", "onnx")
    assert written.code == 0, written.err
    assert (tmp_path / "plan.planned.onnx").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "'towers.onnx' leaves dimensions of its inputs open: 'batch' (of image)"),
        (["--dim", "width=2"], "'towers.onnx' has no dimension 'width'"),
        (["--dim", "batch=1", "--feeds", "nothing.npz"], "'nothing.npz' is no .npz file of arrays"),
        (["--dim", "batch=1", "--training"], "are for PyTorch modules, not ONNX files"),
        (["--dim", "batch=1", "-d", "cuda:0"], "device 'cuda:0' cannot run a plan"),
    ],
)
def test_bad_input_is_one_sentence(placewright: Placewright, model: Path, options: list[str], sentence: str) -> None:
    outcome = placewright("run", model, "-d", "cpu:0", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert outcome.err.count("\n") == 1


def test_options_of_onnx_models_are_refused_for_modules(placewright: Placewright) -> None:
    outcome = placewright("run", "net.py:build", "--dim", "batch=2")
    assert outcome.code == 2
    assert "--dim and --feeds are for ONNX files" in outcome.err
