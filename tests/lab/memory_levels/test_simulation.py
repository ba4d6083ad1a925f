"""Maps are timed as the model says: by hand, and compared with a slow simulator that starts from the graph."""

from dataclasses import replace

import numpy as np
import pytest
from instances import sketch
from small_problems import chip_of, overwriting_graph, random_chip, random_graph, two_ops

from placewright.graph import Graph
from placewright.lab.memory_levels.assemble import assemble_map
from placewright.lab.memory_levels.checker import check_map
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.record import MemoryMap
from placewright.lab.memory_levels.run import MapResult
from placewright.support.errors import InputError

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
        # b's weight does not fit next to the 100 B and is moved.
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


def drawn_maps(problem: MemoryProblem, seed: int, count: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.integers(0, problem.num_levels, (count, problem.num_tensors), np.uint8)


def assembled(problem: MemoryProblem, levels: np.ndarray, latency_ps: int, seed: int) -> MemoryMap:
    """Return a drawn map as a file would hold it."""
    result = MapResult(
        solver="drawn",
        levels=levels,
        latency_ps=latency_ps,
        found_by="drawn",
        evaluations=20,
        seconds=0.0,
        stopped_because="complete",
        seed=seed,
    )
    return assemble_map(problem, result, solver="drawn", seconds=0.0)


@pytest.mark.parametrize("seed", range(60))
def test_any_map_is_timed_and_bounded_as_by_the_slow_simulator(seed: int) -> None:
    graph, chip = random_graph(seed), random_chip(seed)
    problem = make_memory_problem(graph, chip)
    found = problem.evaluate(drawn_maps(problem, seed, 20))
    best = int(np.argmin(found.latency_ps))
    made = assembled(problem, found.maps[best], int(found.latency_ps[best]), seed)
    assert check_map(made, graph) == []
    assert made.bound_ps <= made.latency_ps
    assert check_map(replace(made, latency_ps=made.latency_ps + 1), graph) != []
    if len(made.tensors) > 1:
        crowded = tuple(replace(tensor, level=0) for tensor in made.tensors)
        assert check_map(replace(made, tensors=crowded), graph) != []


def cache_step() -> Graph:
    """A step that overwrites its cache of 100 B with a token of 4 B, and then reads it."""
    return sketch(
        *("token -> token=4 | kind=input", "cache=100", "update cache token -> written=100:cache! | kind=elementwise"),
        *("attend written -> read=4! | kind=matmul",),
        name="cache",
    )


@pytest.mark.parametrize(
    ("cache", "result", "microseconds"),
    [
        # The token of 4 B comes from DRAM. update: 100 B read and 100 B written, 2 us in parallel with 0.4 us. attend:
        # 100 B read from SRAM and 4 B written there, 1.04 us; or written to DRAM, max(1, 0.4) us.
        (SRAM, SRAM, 2 + 1.04),
        (SRAM, DRAM, 2 + 1),
        # 204 B of DRAM, 20.4 us; then 100 B, 10 us in parallel with 0.04 us; or 104 B, 10.4 us.
        (DRAM, SRAM, 20.4 + 10),
        (DRAM, DRAM, 20.4 + 10.4),
    ],
)
def test_a_parameter_that_is_overwritten_is_written_and_then_read_where_it_lives(
    cache: int, result: int, microseconds: float
) -> None:
    graph = cache_step()
    problem = make_memory_problem(graph, chip_of(("SRAM", 200, 100e6), ("DRAM", 10**6, 10e6)))
    assert problem.tensor_names == ("cache", "read")
    latency_ps, _, levels = problem.evaluate_one(np.array([cache, result], np.uint8))
    assert latency_ps / 1e6 == pytest.approx(microseconds, abs=1e-5)
    assert check_map(assembled(problem, levels, latency_ps, 0), graph) == []


def test_what_the_op_before_overwrites_is_not_fetched_early() -> None:
    # As above, but DRAM fetches early and every op takes 20 us more, in which its port could give 200 B. Neither the
    # update nor what reads the new value can begin before: both take as long as without fetching.
    graph = cache_step()
    chip = chip_of(("SRAM", 200, 100e6), ("DRAM", 10**6, 10e6), overhead_ns=20_000, prefetched=True)
    problem = make_memory_problem(graph, chip)
    latency_ps, _, levels = problem.evaluate_one(np.array([DRAM, SRAM], np.uint8))
    assert latency_ps / 1e6 == pytest.approx(20 + 20.4 + 20 + 10, abs=1e-5)
    assert check_map(assembled(problem, levels, latency_ps, 0), graph) == []


def check_overwriting(seed: int) -> int:
    """Compare maps of a graph that overwrites in place with the slow simulator; count the weights it overwrites."""
    graph, chip = overwriting_graph(seed), random_chip(seed)
    try:
        problem = make_memory_problem(graph, chip)
    except InputError:
        assert all(op.kind in ("view", "input") for op in graph.ops)
        return 0
    found = problem.evaluate(drawn_maps(problem, seed, 3))
    for levels, latency_ps in zip(found.maps, found.latency_ps.tolist(), strict=True):
        made = assembled(problem, levels, latency_ps, seed)
        assert check_map(made, graph) == [], seed
        assert made.bound_ps <= latency_ps, seed
        assert problem.time_as_they_are(levels[None])[0] == latency_ps, seed
    written = {graph.base_of[t] for op in graph.ops if op.kind != "view" for t in op.outputs}
    return sum(graph.tensors[base].role != "activation" for base in written)


def test_maps_of_graphs_that_overwrite_in_place_are_timed_as_by_the_slow_simulator() -> None:
    assert sum(check_overwriting(seed) for seed in range(400)) > 400


@pytest.mark.long
def test_maps_of_many_graphs_that_overwrite_in_place_are_timed_as_by_the_slow_simulator() -> None:
    assert sum(check_overwriting(seed) for seed in range(400, 8000)) > 7600


@pytest.mark.parametrize("seed", range(30))
def test_rectified_maps_fit_and_stay_as_they_are(seed: int) -> None:
    problem = make_memory_problem(random_graph(seed), random_chip(seed))
    drawn = drawn_maps(problem, seed, 50)
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
