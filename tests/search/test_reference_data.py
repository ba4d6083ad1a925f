"""Methods against answers proved elsewhere: certified makespans of task graphs, optimal peaks of tiny graphs."""

from __future__ import annotations

import pytest
from instances import machine_of, problem_of
from reference_data import certified_rows, known_peaks, needs_reference_data, task_graph

from placewright.bounds import lower_bound
from placewright.machine import TransferModel
from placewright.methods.table import METHODS
from placewright.search.constructive.one_device import ORDERS
from placewright.search.run.search_run import SearchRun


@needs_reference_data
@pytest.mark.parametrize(
    ("name", "transfer_model", "fewest_optimal"),
    [
        ("list", "overlapped", 470),
        ("etf", "overlapped", 510),
        ("segment-fill", "overlapped", 380),
        ("list", "blocking", 380),
        ("etf", "blocking", 510),
        ("segment-fill", "blocking", 380),
    ],
)
def test_most_certified_makespans_are_reached_and_none_is_undercut(
    name: str, transfer_model: TransferModel, fewest_optimal: int
) -> None:
    # Of 704 rows: list 497 (401 where transfers block), etf 538, segment-fill 399; plain highest-level-first 534.
    num_optimal = 0
    for instance, num_processors, optimum in certified_rows():
        graph = task_graph(instance)
        problem = problem_of(
            graph, machine_of(num_processors, transfer_model=transfer_model), [op.time_ns or 0 for op in graph.ops]
        )
        makespan = METHODS[name].solve(problem, SearchRun()).metrics.step_time_ns
        assert makespan >= optimum, f"{instance} on {num_processors}"
        num_optimal += makespan == optimum
    assert num_optimal >= fewest_optimal


@needs_reference_data
def test_no_certified_makespan_is_below_the_bound_and_most_meet_it() -> None:
    # 674 of 704 rows meet it; critical path and divided work alone meet 658.
    num_met = 0
    for instance, num_processors, optimum in certified_rows():
        graph = task_graph(instance)
        bound = lower_bound(problem_of(graph, machine_of(num_processors), [op.time_ns or 0 for op in graph.ops])).value
        assert bound <= optimum, f"{instance} on {num_processors}"
        num_met += bound == optimum
    assert num_met >= 674


@needs_reference_data
def test_the_best_of_the_simple_orders_reaches_every_known_optimal_peak() -> None:
    peaks = known_peaks()
    assert len(peaks) >= 7
    for name, (graph, optimum) in peaks.items():
        problem = problem_of(graph, machine_of(1), objective="peak-memory")
        assert METHODS["single-device"].solve(problem, SearchRun()).metrics.peak_memory_bytes == optimum, name


@needs_reference_data
@pytest.mark.parametrize("name", [method.name for method in ORDERS])
def test_no_order_undercuts_a_known_optimal_peak(name: str) -> None:
    for graph, optimum in known_peaks().values():
        problem = problem_of(graph, machine_of(1), objective="peak-memory")
        assert METHODS[name].solve(problem, SearchRun()).metrics.peak_memory_bytes >= optimum
