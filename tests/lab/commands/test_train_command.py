"""`placewright train`, and what it says of bad input."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import PATIENCE_S, wait_until

from placewright.cli import run
from placewright.importers.graph_set import SUFFIX, write_graph_set
from placewright.importers.json_graph import save_graph
from placewright.lab.datasets.synthetic import random_graph
from placewright.methods.policy_file import find_policy, read_policy


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for split, first in (("train", 0), ("valid", 2)):
        write_graph_set(folder / f"{split}{SUFFIX}", [random_graph(0, first), random_graph(0, first + 1)], {})
    return folder


def test_a_policy_is_trained_and_plans_with_it(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert run(["train", "regal", "--data", str(data), "-o", str(out), "--steps", "2", "--processes", "1"]) == 0
    policy = out / "best.safetensors"
    assert capsys.readouterr().out == f"policy: {policy}\n"
    trained = read_policy(policy)
    assert trained.record["step"] == 2
    assert trained.name == "runtime-synthetic/run", "not like one that is shipped"
    graph = tmp_path / "graph.json"
    save_graph(random_graph(0, 9), graph)
    plan = ["plan", str(graph), "--devices", "2xideal/free", "--solver", "regal", "--policy", str(policy)]
    assert run([*plan, "--evaluations", "500", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["found_by"] == f"regal: {trained.title}"


def test_a_training_that_is_ended_by_signal_says_nothing(data: Path, tmp_path: Path) -> None:
    """Python's own process that frees its semaphores used to report how many there were."""
    out = tmp_path / "run"
    command = ["train", "regal", "--data", str(data), "-o", str(out), "--steps", "100000", "--processes", "1", "-q"]
    running = subprocess.Popen([sys.executable, "-m", "placewright", *command], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: (out / "metrics.jsonl").exists())
    running.terminate()
    # Until all that write there have ended.
    _, err = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, err) == (-signal.SIGTERM, "")


def test_fewer_steps_than_imitate_all_imitate(data: Path, tmp_path: Path) -> None:
    short = ["--config", "runtime-zoo-affinity", "--steps", "1", "--processes", "1"]
    assert run(["train", "regal", "--data", str(data), "-o", str(tmp_path / "run"), *short]) == 0
    assert read_policy(tmp_path / "run" / "best.safetensors").record["training"]["imitation_steps"] == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--config", "runtime-zo"], "there is no configuration 'runtime-zo'; did you mean runtime-zoo?"),
        (["--steps", "0"], "steps is 0; it must be a whole number from 1"),
        (["--seed", "-1"], "seed is -1"),
        (["--processes", "0"], "processes is 0"),
    ],
)
def test_bad_options_get_a_sentence(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    assert run(["train", "regal", "--data", str(data), "-o", str(tmp_path / "run"), *options]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_ctrl_c_says_what_is_usable_and_how_to_go_on(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from placewright.cli.exit_codes import INTERRUPTED
    from placewright.lab.learning import trainer

    out = tmp_path / "run"

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "train", interrupted)
    command = ["train", "regal", "--data", str(data), "-o", str(out)]
    assert run(command) == INTERRUPTED
    assert "there is no policy yet; the same command begins anew" in capsys.readouterr().err
    out.mkdir()
    (out / "best.safetensors").touch()
    (out / "checkpoint.pt").touch()
    assert run(command) == INTERRUPTED
    said = capsys.readouterr().err
    assert f"{out / 'best.safetensors'} is usable; the same command goes on from the last checkpoint" in said


def test_guided_solvers_plan_without_pytorch(tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None\nfrom placewright.cli import run\nsys.exit(run(sys.argv[1:]))\n"
    save_graph(random_graph(0, 9), tmp_path / "graph.json")
    plan = ["plan", str(tmp_path / "graph.json"), "--devices", "2xideal/free", "--solver", "regal"]
    planned = subprocess.run(
        [sys.executable, "-c", code, *plan, "--policy", "runtime-synthetic", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["found_by"] == f"regal: {find_policy('runtime-synthetic').title}"
