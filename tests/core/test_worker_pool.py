"""Threads of a search: they change how long it takes and nothing else."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from searches import random_problem, search
from waiting import wait_until

STATUS = Path("/proc/self/status")


def outcome(threads: int, at_most: int = 10**6, **settings: Any) -> tuple[int, int, list[int]]:
    evolving = search(random_problem(30, 4), threads=threads, **settings)
    while evolving.evaluations < 777:
        evolving.advance(777, at_most)
    return evolving.best_objective, evolving.generation, evolving.best_keys().tolist()


@pytest.mark.parametrize("settings", [{}, {"populations": 3, "exchanged": 2}], ids=["one population", "three"])
@pytest.mark.parametrize("threads", [2, 3, 7, 64])
def test_any_number_of_threads_finds_the_same(threads: int, settings: dict[str, Any]) -> None:
    assert outcome(threads, **settings) == outcome(1, **settings)


@pytest.mark.parametrize("at_most", [1, 100, 173])
def test_any_division_into_calls_finds_the_same(at_most: int) -> None:
    assert outcome(2, at_most=at_most) == outcome(1)


def test_searches_side_by_side_do_not_disturb_each_other() -> None:
    alone = outcome(2)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: outcome(2), range(8)))
    assert together == [alone] * 8


def test_python_goes_on_while_a_search_runs() -> None:
    evolving = search(random_problem(300, 4), threads=2)
    running = threading.Thread(target=evolving.advance, args=(20_000, 10**6))
    running.start()
    turns = 0
    while running.is_alive():
        turns += 1
    running.join()
    # With the lock held there would be one turn at most before the thread is dead.
    assert turns > 10


def num_system_threads() -> int:
    fields = dict(line.split(":", 1) for line in STATUS.read_text(encoding="ascii").splitlines())
    return int(fields["Threads"])


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux counts a process's threads there")
def test_a_search_that_is_dropped_ends_its_threads() -> None:
    problem = random_problem(10, 1)
    before = num_system_threads()
    for evaluations in (0, 100):
        kept = search(problem, threads=4)
        kept.advance(evaluations)
        assert num_system_threads() == before + 3
        del kept
        wait_until(lambda: num_system_threads() == before)  # the system may count a thread a little longer


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_a_number_of_threads_that_cannot_be_is_refused(threads: int) -> None:
    with pytest.raises(ValueError, match="threads"):
        search(random_problem(10, 1), threads=threads)


def test_waiting_threads_do_not_keep_results_apart() -> None:
    evolving = search(random_problem(20, 2), threads=3)
    reference = search(random_problem(20, 2))
    for generation in range(1, 40):
        evolving.evolve(1)
        reference.evolve(1)
        threading.Event().wait(0.002 * (generation % 3))  # long enough for the threads to fall asleep
        assert np.array_equal(evolving.best_keys(), reference.best_keys())
