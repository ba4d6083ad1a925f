"""Rows that actors of a Ray cluster make: those of processes, whatever dies."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placewright.importers.graph_set import write_graph_set
from placewright.lab.bench.protocol import Run
from placewright.lab.bench.rows import Results, Row
from placewright.lab.bench.runner import Pool, missing_jobs
from placewright.lab.bench.suite import Suite, read_suite
from placewright.lab.bench.work import Failure, Job
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.processes import ProcessActors
from placewright.support.errors import InputError, PlacewrightError

pytest.importorskip("ray", reason="the ray extra is not installed")

import ray
from ray import cloudpickle

from placewright.lab.ray_cluster import RayActor, RayActors, _Host, connect

RUN = Run(solver="brkga", evaluations=200, seconds=None, seed=0)


pytestmark = pytest.mark.usefixtures("ray_cluster")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "some.graphs.gz"
    write_graph_set(path, [random_graph(3, index) for index in range(3)], {})
    return path


def pool_of(actors: RayActors, suite: Suite, workers: int) -> Pool:
    return Pool(actors, workers, (), pickle.loads, actors.shared(cloudpickle.dumps(suite)))


def handle_of(pool: Pool) -> Any:
    worker = pool._seats[0].worker
    assert isinstance(worker, RayActor)
    return worker.handle


def made(
    suite: Suite, jobs: list[Job], pool: Pool, out: Path, on_row: Any = lambda row: None
) -> tuple[dict[Any, Row], list[Failure], list[str]]:
    results, failures, deaths = Results(out, suite.header()), list[Failure](), list[str]()
    pool.run(jobs, results, on_row, failures.append, deaths.append)
    results.close()
    return {key: replace(row, seconds=0.0) for key, row in results.rows.items()}, failures, deaths


def test_rows_are_those_of_processes(path: Path, tmp_path: Path) -> None:
    suite = read_suite(path)
    jobs = missing_jobs(suite.labels, range(3), [RUN, replace(RUN, seed=1), replace(RUN, solver="etf")], [])
    with ProcessActors() as actors:
        of_processes = made(suite, jobs, Pool(actors, 1, (), read_suite, path), tmp_path / "a")
    path.unlink()  # the suite has travelled
    with RayActors("local", 2) as there:
        of_actors = made(suite, jobs, pool_of(there, suite, 2), tmp_path / "b")
    assert of_actors == of_processes
    assert len(of_actors[0]) == 9


def test_an_actor_that_is_killed_is_replaced_and_its_run_made_again(path: Path, tmp_path: Path) -> None:
    suite = read_suite(path)
    jobs = missing_jobs(suite.labels, range(3), [RUN, replace(RUN, seed=1, evaluations=20_000)], [])
    with RayActors("local", 1) as actors:
        pool, killed = pool_of(actors, suite, 1), list[int]()

        def kill_once(row: Row) -> None:
            if not killed:
                killed.append(ray.get(handle_of(pool).__ray_call__.remote(lambda _: os.getpid())))
                os.kill(killed[0], signal.SIGKILL)

        rows, failures, deaths = made(suite, jobs, pool, tmp_path / "r", kill_once)
    assert (len(rows), failures) == (6, [])
    # It answers what it is asked next before it is asked for its number, so that another run dies.
    assert deaths[0].endswith("was lost; the run is tried once more")
    assert deaths[1:] == ["no worker is left; waiting for a node of the Ray cluster with a free core, 300 s at most"]


def without_a_core(actors: RayActors, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on actors need what no node has, as where nodes are lost."""

    def make(kind: Any, *arguments: Any) -> RayActor:
        return RayActor(ray.remote(_Host).options(resources={"absent": 1}).remote(kind, list(arguments)))

    monkeypatch.setattr(actors, "make", make)


def kill(actor: Any) -> None:
    os.kill(ray.get(actor.__ray_call__.remote(lambda _: os.getpid())), signal.SIGKILL)


def test_the_run_of_a_lost_actor_goes_to_one_that_lives(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for an actor to take the lost one's place, for which there is no node, while the other was idle."""
    suite = read_suite(path)
    jobs = missing_jobs(suite.labels, range(3), [RUN, replace(RUN, seed=1, evaluations=20_000)], [])
    with RayActors("local", 2) as actors:
        pool, killed = pool_of(actors, suite, 2), list[Any]()

        def kill_once(row: Row) -> None:
            if not killed:
                without_a_core(actors, monkeypatch)
                killed.append(handle_of(pool))
                kill(killed[0])

        rows, failures, deaths = made(suite, jobs, pool, tmp_path / "r", kill_once)
    assert (len(rows), failures, len(killed)) == (6, [], 1)
    assert not any("waiting" in death for death in deaths)


def test_without_an_actor_and_a_node_for_one_the_end_is_a_sentence(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = read_suite(path)
    jobs = missing_jobs(suite.labels, range(3), [RUN, replace(RUN, seed=1, evaluations=20_000)], [])
    deaths = list[str]()
    results = Results(tmp_path / "r", suite.header())
    with RayActors("local", 1) as actors:
        pool = pool_of(actors, suite, 1)
        without_a_core(actors, monkeypatch)
        monkeypatch.setattr(actors, "seconds_to_start", 1)
        lost = [handle_of(pool)]

        def kill_once(row: Row) -> None:
            if lost:
                kill(lost.pop())

        with pytest.raises(PlacewrightError, match=r"all actors were lost, .* in 1 s; the rows so far are kept"):
            pool.run(jobs, results, kill_once, lambda failure: None, deaths.append)
    results.close()
    assert deaths[-1] == "no worker is left; waiting for a node of the Ray cluster with a free core, 1 s at most"
    assert results.rows


@pytest.mark.parametrize("ends", ["os._exit(1)", "connection.end([])"])
def test_an_end_by_ray_is_told(ends: str) -> None:
    """Where the cluster's head is gone Ray ends the process at once, as os._exit does."""
    code = "import os; from placewright.lab.ray_cluster import Connection\n"
    code += f"connection = Connection(is_own=True, watched='head:6379')\n{ends}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    told = (
        "placewright: error: the program was ended from outside, as Ray does when the head of its cluster (head:6379)"
    )
    assert (ended.stderr.startswith(told), ended.stderr.count("\n")) == ((True, 1) if ended.returncode else (False, 0))
    assert ended.returncode == ("exit" in ends)


def test_an_address_may_be_as_ray_prints_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[str]()

    def init(address: str, **options: object) -> None:
        tried.append(address)

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    # No machine of these names has to be there.
    monkeypatch.setattr(socket, "create_connection", lambda address, timeout: socket.socket())
    for address in ("192.0.2.2:42449", "head:6379", "ray://head:10001"):
        connect(address, 1).end([])
    assert tried == ["192.0.2.2:42449", "head:6379", "ray://head:10001"]
    for address in ("head", "head:", ":6379", "head:port"):
        with pytest.raises(
            InputError, match=r"is not the address of a Ray cluster; allowed are auto, local, HOST:PORT"
        ):
            connect(address, 1)
