"""Maps are timed as the model says: by hand, and beside a slow simulator that starts from the graph."""

from dataclasses import replace

import numpy as np
import pytest
from small_problems import chip_of, random_chip, random_graph, two_ops

from placewright.memory_levels.assemble import assemble_map
from placewright.memory_levels.checker import check_map
from placewright.memory_levels.lowering import make_memory_problem
from placewright.memory_levels.problem import MemoryProblem
from placewright.memory_levels.run import MapResult

SRAM, DRAM = 0, 1


def by_hand() -> MemoryProblem:
    """The chip of the documents: 100 B at 100 B/us, much at 10 B/us, 1 us per op."""
    return make_memory_problem(two_ops(), chip_of(("SRAM", 100, 100e6), ("DRAM", 10**6, 10e6), overhead_ns=1000))


@pytest.mark.parametrize(
    ("a_weight", "a_result", "b_weight", "b_result", "microseconds", "moved"),
    [
        # 1 + 100 / 10, then 1 + 110 / 10.
        (DRAM, DRAM, DRAM, DRAM, 23, 0),
        # 1 + 100 / 100, then 1 + max(40 / 100, 70 / 10).
        (SRAM, SRAM, DRAM, DRAM, 10, 0),
        # b's weight does not fit beside the 100 B and is moved.
        (SRAM, SRAM, SRAM, DRAM, 10, 50),
        # During b 50 + 40 + 20 B: its result is moved. 1 + 60 / 10, then 1 + max(90 / 100, 20 / 10).
        (DRAM, SRAM, SRAM, SRAM, 10, 20),
    ],
)
def test_the_example_of_the_documents(
    a_weight: int, a_result: int, b_weight: int, b_result: int, microseconds: int, moved: int
) -> None:
    problem = by_hand()
    assert problem.tensor_names == ("a.weight", "a", "b.weight", "b")
    levels = np.array([a_weight, a_result, b_weight, b_result], np.uint8)
    latency_ps, moved_bytes, _ = problem.evaluate_one(levels)
    # The time per byte is held to 2^-20 ps and rounded up.
    assert latency_ps / 1e6 == pytest.approx(microseconds, abs=1e-6)
    assert moved_bytes == moved


def test_prefetching_hides_a_weight_behind_the_op_before() -> None:
    # SRAM 100 B at 100 B/us, DRAM at 10 B/us. a: its 60 B of weight and 40 B of result in SRAM, 1 us, overhead 4 us:
    # 5 us during which DRAM could give 50 B; but SRAM is full, so nothing is fetched.
    chip = chip_of(("SRAM", 100, 100e6), ("DRAM", 10**6, 10e6), overhead_ns=4000, prefetched=True)
    problem = make_memory_problem(two_ops(), chip)
    full = np.array([SRAM, SRAM, DRAM, DRAM], np.uint8)
    assert problem.evaluate_one(full)[0] / 1e6 == pytest.approx(4 + 1 + 4 + 7, abs=1e-5)
    # With a's weight in DRAM, a takes 4 + 6 us, of which the port is idle for 4: 40 B of b's weight come early, and
    # b then reads 40 + 40 B from SRAM, and 10 B of weight and its result from DRAM: 3 us.
    early = np.array([DRAM, SRAM, DRAM, DRAM], np.uint8)
    assert problem.evaluate_one(early)[0] / 1e6 == pytest.approx(4 + 6 + 4 + 3, abs=1e-5)


@pytest.mark.parametrize("seed", range(60))
def test_any_map_is_timed_and_bounded_as_by_the_slow_simulator(seed: int) -> None:
    graph, chip = random_graph(seed), random_chip(seed)
    problem = make_memory_problem(graph, chip)
    random = np.random.default_rng(seed)
    drawn = random.integers(0, problem.num_levels, (20, problem.num_tensors), np.uint8)
    found = problem.evaluate(drawn)
    best = int(np.argmin(found.latency_ps))
    result = MapResult(
        solver="drawn",
        levels=found.maps[best],
        latency_ps=int(found.latency_ps[best]),
        found_by="drawn",
        evaluations=20,
        seconds=0.0,
        stopped_because="complete",
        seed=seed,
    )
    made = assemble_map(problem, result, solver="drawn", seconds=0.0)
    assert check_map(made, graph) == []
    assert made.bound_ps <= made.latency_ps
    assert check_map(replace(made, latency_ps=made.latency_ps + 1), graph) != []
    if len(made.tensors) > 1:
        crowded = tuple(replace(tensor, level=0) for tensor in made.tensors)
        assert check_map(replace(made, tensors=crowded), graph) != []


@pytest.mark.parametrize("seed", range(30))
def test_rectified_maps_fit_and_stay_as_they_are(seed: int) -> None:
    problem = make_memory_problem(random_graph(seed), random_chip(seed))
    random = np.random.default_rng(seed)
    drawn = random.integers(0, problem.num_levels, (50, problem.num_tensors), np.uint8)
    once = problem.evaluate(drawn)
    again = problem.evaluate(once.maps)
    assert (again.moved_bytes == 0).all()
    assert (again.latency_ps == once.latency_ps).all()
    # Tensors only move to slower levels, and what was moved is counted.
    assert (once.maps >= drawn).all()
    assert (once.moved_bytes == ((once.maps != drawn) * problem.size_bytes).sum(axis=1)).all()
    assert (problem.evaluate(drawn, threads=3).latency_ps == once.latency_ps).all()
    # What fits is timed the same without rectifying.
    assert (problem.time_as_they_are(once.maps) == once.latency_ps).all()


def test_actions_by_node_give_a_level_to_every_tensor() -> None:
    problem = by_hand()
    # Weight and result of a, then of b.
    nodes = np.array([[[0, 1], [1, 0]]], np.uint8)
    assert problem.from_nodes(nodes).tolist() == [[0, 1, 1, 0]]
