"""A hundred times kill -9 at random moments: continued runs end as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from placewright.importers.graph_set import write_graph_set
from placewright.lab.datasets.synthetic import random_graph

#: Kills of each command; together more than a hundred.
KILLS = 35


def rows(out: Path) -> list[tuple[object, ...]]:
    """Return the rows of a folder, sorted, without seconds, traces and dates."""
    lines = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    timed = {"seconds", "trace", "date"}
    return sorted(tuple(sorted((k, repr(v)) for k, v in line.items() if k not in timed)) for line in lines)


def weights(out: Path) -> object:
    steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return (out / "best.safetensors").read_bytes(), [step["step"] for step in steps]


def sets(out: Path) -> object:
    return {path.name: path.read_bytes() for path in out.glob("*.graphs.gz")}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for part, first, count in (("train", 0, 2), ("valid", 2, 2), ("test", 4, 8)):
        graphs = [random_graph(0, index) for index in range(first, first + count)]
        write_graph_set(tmp_path / "data" / f"{part}.graphs.gz", graphs, {})
    return tmp_path / "data"


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, so that its workers can be killed with it."""
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-m", "placewright", *command], stdout=nowhere, stderr=nowhere, start_new_session=True
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("bench run DATA --devices 2xideal/free --solvers brkga,etf,auto --evaluations 20000 --jobs 2 --out", rows),
        ("train regal --data DATA --steps 120 --processes 2 --out", weights),
        ("dataset synthetic --count 12 --seed 3 --out", sets),
    ],
    ids=["bench", "train", "dataset"],
)
def test_killed_at_any_moment_a_command_comes_to_the_same_end(
    command: str, end: Callable[[Path], object], data: Path, tmp_path: Path
) -> None:
    words = command.replace("DATA", str(data)).split()
    began = time.monotonic()
    # A policy is named after its folder.
    undisturbed, out = tmp_path / "undisturbed" / "out", tmp_path / "killed" / "out"
    undisturbed.parent.mkdir()
    out.parent.mkdir()
    assert start([*words, str(undisturbed)]).wait() == 0
    seconds = time.monotonic() - began
    moments = random.Random(0)
    for _ in range(KILLS):
        running = start([*words, str(out)])
        try:
            running.wait(timeout=moments.uniform(0, 1.2 * seconds))
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, moments.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
            running.wait()
    assert start([*words, str(out)]).wait() == 0
    assert end(out) == end(undisturbed)
