"""Fixtures that tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Outcome, Placewright, chain_graph
from training_steps import training_step

from placewright import cli
from placewright.importers import save_graph


@pytest.fixture
def placewright(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Placewright:
    """Runs one command in this process, as in a pipe."""
    # Parallel test runners set it.
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: str | Path) -> Outcome:
        code = cli.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A graph file of 30 ops in two towers."""
    save_graph(chain_graph(30), tmp_path / "towers.json")
    return tmp_path / "towers.json"


@pytest.fixture
def saved(placewright: Placewright, model: Path, tmp_path: Path) -> Path:
    """A plan for the model on two P100."""
    path = tmp_path / "plan.json"
    assert placewright("plan", model, "-d", "2xp100", "--evaluations", "50", "-o", path).code == 0
    return path


@pytest.fixture
def step(tmp_path: Path) -> Path:
    """A training step that takes 142 bytes on one device, and 90 at least whatever runs again."""
    save_graph(training_step(5, 8), tmp_path / "step.json")
    return tmp_path / "step.json"
