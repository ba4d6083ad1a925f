"""ColocRL by several controllers: what the parameter server makes of their gradients, and that a training goes on."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab.learning.placer_cases import columns
from waiting import wait_until

from placewright.lab.learning.placers.colocrl import ColocRl
from placewright.search.run.budget import Budget
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

torch = pytest.importorskip("torch", reason="learned placers have networks")


def solved(evaluations: int = 103, seed: int = 3, **settings: Any) -> Result:
    method = ColocRl(hidden=8, samples=4, learning_rate=1e-2, colocation=(), **settings)
    return method.solve(columns(5), SearchRun(Budget(evaluations=evaluations), seed=seed))


def facts(result: Result) -> list[Any]:
    """All that two runs of one training have in common."""
    return [[(point.evaluations, point.best) for point in result.trace], result.solution.device_of.tolist()]


def gradient(version: int, *values: float) -> Any:
    from placewright.lab.learning.distributed.parameter_server import Gradient

    return Gradient(version=version, parts=[np.array([value], np.float32) for value in values])


def server(staleness: int = 20) -> Any:
    """Of two weights, 1 and 2, whose gradients are cut to a norm of 1 and whose first step by Adam is 0.1 each."""
    from placewright.lab.learning.distributed.parameter_server import ParameterServer

    return ParameterServer([np.array([1], np.float32), np.array([2], np.float32)], 0.1, 1.0, staleness)


def weights(of: Any) -> list[float]:
    return [round(float(part[0]), 4) for part in of.snapshot().weights]


def test_one_controller_learns_what_a_training_without_a_server_learns(tmp_path: Path) -> None:
    alone = facts(solved())
    assert facts(solved(checkpoint=str(tmp_path), updates="asynchronous")) == alone
    assert facts(solved(checkpoint=str(tmp_path / "s"), updates="synchronous")) == alone


@pytest.mark.parametrize("updates", ["asynchronous", "synchronous", "deterministic"])
def test_several_controllers_spend_the_budget_to_the_last_placement(updates: Any) -> None:
    result = solved(controllers=3, updates=updates)
    assert result.evaluations == 103
    assert result.stopped_because == "evaluations"
    assert result.configuration["controllers"] == 3
    assert facts(solved(controllers=3, updates=updates)) == facts(result)  # in one process each has its turn


def test_a_gradient_that_comes_too_late_is_dropped() -> None:
    found = server(staleness=1)
    for _ in range(2):
        found.learn(gradient(found.version, 1, 1))
    before = weights(found)
    found.learn(gradient(1, 1, 1))  # one update behind
    assert weights(found) != before
    before = weights(found)
    found.learn(gradient(1, 1, 1))  # two behind
    assert weights(found) == before
    assert (found.version, found.dropped, dict(found.ages)) == (3, 1, {0: 2, 1: 1, 2: 1})


def test_gradients_that_come_together_make_one_update_along_their_mean() -> None:
    together, one = server(), server()
    together.learn(gradient(0, 3, -1), gradient(0, -1, -3))
    one.learn(gradient(0, 1, -2))
    # Adam's first step is the learning rate against each sign.
    assert weights(together) == weights(one) == [0.9, 2.1]
    assert together.version == 1


def test_where_no_placement_counts_nothing_is_learned() -> None:
    from placewright.lab.learning.distributed.parameter_server import Gradient

    found = server()
    found.learn(Gradient(version=0, parts=[]))
    assert (weights(found), found.version) == ([1, 2], 0)


KILLED = """
from pathlib import Path
import sys
sys.path[:0] = {paths!r}
from lab.learning.test_distributed import solved
solved(evaluations=10**7, controllers=2, updates="deterministic", checkpoint=sys.argv[1])
"""


def test_a_training_that_is_killed_goes_on_to_the_same_plan(tmp_path: Path) -> None:
    here = Path(__file__).parent
    script = KILLED.format(paths=[str(here.parents[1]), str(here)])
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    try:
        wait_until(lambda: (tmp_path / "colocrl.pt").exists() or process.poll() is not None)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    spent = _spent(tmp_path)
    assert spent
    settings: Any = {"evaluations": spent + 100, "controllers": 2, "updates": "deterministic"}
    resumed, whole = solved(checkpoint=str(tmp_path), **settings), solved(**settings)
    assert resumed.evaluations == whole.evaluations == spent + 100
    assert resumed.trace[-1].best == whole.trace[-1].best
    assert resumed.solution.device_of.tolist() == whole.solution.device_of.tolist()
    solved(checkpoint=str(tmp_path / "whole"), **settings)
    one, other = (_state(folder)["server"]["weights"] for folder in (tmp_path, tmp_path / "whole"))
    assert all((a == b).all() for a, b in zip(one, other, strict=True))


def _state(folder: Path) -> dict[str, Any]:
    content = (folder / "colocrl.pt").read_bytes()[32:]  # behind the digest
    found: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)["state"]
    return found


def _spent(folder: Path) -> int:
    return int(_state(folder)["evaluations"])


def test_a_folder_of_another_training_is_refused(tmp_path: Path) -> None:
    solved(checkpoint=str(tmp_path), evaluations=20)
    with pytest.raises(InputError, match="is of a training with another seed: 3, not 4"):
        solved(checkpoint=str(tmp_path), seed=4)
    with pytest.raises(InputError, match="is of a training with another controllers: 1, not 2"):
        solved(checkpoint=str(tmp_path), controllers=2)
    (tmp_path / "colocrl.pt").write_bytes(b"none of ours")
    with pytest.raises(InputError, match="is not a checkpoint, or damaged: delete it to begin anew"):
        solved(checkpoint=str(tmp_path))
