"""Actors of Ray in place of processes: the same weights, and what is said when something is wrong with them."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_trainer import CONFIGURATION, lines

from placewright.lab.learning.trainer import BEST, train
from placewright.lab.learning.training_state import TrainingState
from placewright.lab.learning.workers import RolloutTask, Workers, problem_sets_of
from placewright.support.errors import InputError, MissingExtraError, PlacewrightError

SHORT = replace(CONFIGURATION, steps=2, checkpoint_interval=1)


def kill(actor: Any) -> None:
    """Its process."""
    import ray

    os.kill(ray.get(actor.__ray_call__.remote(lambda _: os.getpid())), signal.SIGKILL)


def test_without_ray_the_extra_is_named(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "placewright.lab.ray_cluster", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"--ray needs Ray: pip install 'path/to/placewright\[ray\]'"):
        train(data, SHORT, tmp_path, name="small", ray="local")


@pytest.mark.usefixtures("ray_cluster")
def test_any_number_of_actors_comes_to_the_weights_of_one_process(data: Path, tmp_path: Path) -> None:
    first, other = tmp_path / "first", tmp_path / "other"
    train(data, replace(SHORT, steps=1), first, name="small")
    train(data, replace(SHORT, steps=1), other, name="small", ray="local", processes=3)
    assert (other / "checkpoint.pt").read_bytes() == (first / "checkpoint.pt").read_bytes()
    # The second step by the other kind each.
    train(data, SHORT, first, name="small", ray="local")
    train(data, SHORT, other, name="small")
    assert (other / "checkpoint.pt").read_bytes() == (first / "checkpoint.pt").read_bytes()
    assert (other / BEST).read_bytes() == (first / BEST).read_bytes()
    assert lines(other) == lines(first)


@pytest.mark.usefixtures("ray_cluster")
def test_actors_that_fail_or_die_end_the_training_with_a_sentence(data: Path, tmp_path: Path) -> None:
    from placewright.lab.ray_cluster import RayActors

    problem_sets = problem_sets_of(data, SHORT)
    weights = TrainingState(SHORT, 0).weights
    with pytest.raises(InputError, match="the Ray cluster has 5 cores, too few for 6 actors"):
        RayActors("local", 6)
    with RayActors("local", 1) as actors:
        workers = Workers(actors, problem_sets, SHORT, 1)
        with pytest.raises(IndexError):  # as of a process
            workers.gradients(weights, [RolloutTask(graph=9, imitates=False, seeds=(0, 1))])
        [worker] = workers.workers
        kill(worker.handle)  # type: ignore[attr-defined]
        with pytest.raises(PlacewrightError, match="a worker of the training has died; its last checkpoint goes on"):
            workers.gradients(weights, [RolloutTask(graph=0, imitates=False, seeds=(0, 1))])
