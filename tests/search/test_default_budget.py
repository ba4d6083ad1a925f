"""The number of evaluations in the default budget: counted, not timed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from instances import graph_of, machine_of, problem_of

import placewright._core as _core
from placewright.graph import Graph
from placewright.importers import load_graph
from placewright.machine import Link
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.search.default_budget import (
    default_evaluations,
    first_evaluations,
    most_evaluations,
    second_evaluations,
)
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.run.budget import Budget
from placewright.search.run.result import Solution
from placewright.search.run.search_run import SearchRun

RANDWIRE = Path(__file__).parents[2] / "benchmarks" / "instances" / "real-networks.graphs.gz:randwire_ws-training"
SLOW = Link(bandwidth_bytes_per_s=10**9, latency_ns=5)


def unrolled(steps: int, layers: int) -> Graph:
    """A recurrent network: each op reads the one before it in its layer and the one below it."""
    return graph_of(
        {
            f"l{layer}t{step}": (
                " ".join([f"l{layer}t{step - 1}"] * (step > 0) + [f"l{layer - 1}t{step}"] * (layer > 0)),
                8,
            )
            for layer in range(layers)
            for step in range(steps)
        }
    )


def apart(num_ops: int) -> Graph:
    """Ops that nothing waits for."""
    return graph_of({f"op{index}": ("", 8) for index in range(num_ops)})


def problem(graph: Graph) -> Problem:
    return problem_of(graph, machine_of(4, SLOW), 10)


def test_where_a_move_changes_more_there_are_fewer_evaluations() -> None:
    # 600 ops each. Apart, an op that changes its device moves all behind it on two devices. In the network any split
    # costs 13 ns where an op takes 10, and most moves are refused before anything is changed.
    assert 2 * first_evaluations(problem(apart(600))) < first_evaluations(problem(unrolled(100, 6)))


def test_the_count_is_the_same_every_time_and_has_room_for_a_second_search() -> None:
    graph = unrolled(60, 5)
    first, most = first_evaluations(problem(graph)), most_evaluations(problem(graph))
    assert default_evaluations(problem(graph)) == first + most
    assert first <= most


def test_the_second_search_has_what_the_work_of_the_first_left() -> None:
    # 0.9 s less 5 ms for 300 ops and some 30 ms for their baselines, with 0.48 us per evaluation and 0.08 us per unit.
    own = problem(unrolled(60, 5))
    evaluations = [second_evaluations(own, 100_000, work) for work in (1_000_000, 4_000_000, 11_000_000)]
    most, some, none = evaluations
    assert most_evaluations(own) > most > 4 * some > 0 == none
    assert second_evaluations(own, 100_000, 0) == most_evaluations(own)


class Counting:
    """A maker of _core.ScheduleAnnealing that keeps all searches made."""

    searches: list[_core.ScheduleAnnealing]

    def __init__(self) -> None:
        self.searches = []
        self._make = _core.ScheduleAnnealing

    def __call__(self, **arguments: object) -> _core.ScheduleAnnealing:
        self.searches.append(self._make(**arguments))  # type: ignore[arg-type]
        return self.searches[-1]


@pytest.mark.parametrize("name", ["inception", "randwire", "apart"])
def test_the_first_search_of_the_default_does_half_a_second_of_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A unit of work takes some 0.05 us, so 10 million are half a second. Of 4,000 ops apart an evaluation takes some
    # 1,500 units; 250 million evaluations by the number of ops would be 90 million. The moves of a random network gain
    # much where they begin from a poor plan, and take some 500 units there; later they take 100.
    sources = {"inception": "example:inception-v3-train", "randwire": str(RANDWIRE)}
    own = problem(apart(4000))
    if name in sources:
        own = make_problem(load_graph(sources[name]), load_machine("2xv100"))
    evaluations = first_evaluations(own)
    counting = Counting()
    monkeypatch.setattr(_core, "ScheduleAnnealing", counting)
    device_of, order = _core.list_schedule(own.core, _core.bottom_level_order(own.core), False)
    start = Solution(device_of=device_of, order=np.column_stack([order, np.full_like(order, -1)]))
    ScheduleAnnealing().solve(own, SearchRun(Budget(evaluations=evaluations), initial_solutions=[start]))
    work = sum(search.work for search in counting.searches)
    assert 1_000_000 < work < 10_000_000
