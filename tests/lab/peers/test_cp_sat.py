"""CP-SAT's models against brute force and answers proved elsewhere, and the method around them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import islice
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from instances import devices_by_name, graph_of, machine_of, problem_of
from reference import every_solution, simulate
from reference_data import certified_rows, known_peaks, needs_reference_data, task_graph
from strategies import problems

import placewright._core as _core
from placewright.lab.datasets.synthetic import random_graph
from placewright.lab.peers.cp_sat import CP_SAT_COLD, CpSat
from placewright.lab.peers.cp_sat.structure import structure_of
from placewright.machine import Link
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.problem.objective import ControlMode, Objective
from placewright.search.run.budget import Budget, Progress
from placewright.search.run.result import Solution, measure
from placewright.support.errors import MissingExtraError

pytest.importorskip("ortools")

from placewright.lab.peers.cp_sat import intervals, memory, parallel, segments
from placewright.lab.peers.cp_sat.running import Limits, solve_model
from placewright.search.run.search_run import SearchRun

BY_BRUTE_FORCE = 500


def weak_start(problem: Problem) -> Solution:
    """Everything on one device in the order of the graph, so that the models have all the work to do."""
    device_of = _core.all_on(problem.core, 0)
    ops = np.arange(problem.core.num_ops, dtype=np.int32)
    return Solution(device_of=device_of, order=problem.core.with_transfers(device_of, ops, True))


def solved_by(model: ModuleType, problem: Problem, is_hinted: bool = True) -> tuple[int, int]:
    """The best objective of what the model found, measured, and its bound; from a weak start, without other bounds."""
    start = weak_start(problem)
    at_most = measure(problem, start).objective_value(problem.objective)
    formulation = model.formulate(structure_of(problem), start if is_hinted else None, 0, at_most)
    assert formulation.bounds_all
    found: list[int] = []
    ended = solve_model(
        formulation,
        Limits(seconds=None, effort=20, workers=1, seed=3),
        lambda solution: found.append(measure(problem, solution).objective_value(problem.objective)),
        None,
    )
    assert ended.exhausted
    assert ended.bound is not None
    return min(found), ended.bound


def by_brute_force(problem: Problem) -> int:
    """The least objective of all solutions, where they are few enough to try."""
    by_time = problem.objective == "step-time"
    solutions = list(islice(every_solution(problem), BY_BRUTE_FORCE + 1))
    assume(len(solutions) <= BY_BRUTE_FORCE)
    outcomes = [simulate(problem, *solution) for solution in solutions]
    return min(outcome.step_time_ns if by_time else outcome.peak_memory_bytes for outcome in outcomes)


def exact_models(problem: Problem) -> list[ModuleType]:
    models = (memory,) if problem.objective == "peak-memory" else (segments, intervals)
    return [model for model in models if model.fits(structure_of(problem), weak_start(problem))]


@settings(max_examples=40)
@given(problem=problems(max_ops=4), is_hinted=st.booleans())
def test_every_model_finds_and_proves_what_brute_force_finds(problem: Problem, is_hinted: bool) -> None:
    unlaunched = replace(problem.machine, launch="graphs")
    problem = replace(problem, machine=unlaunched, memory_limits_bytes=(None,) * problem.machine.num_devices)
    optimum = by_brute_force(problem)
    for model in exact_models(problem):
        assert solved_by(model, problem, is_hinted) == (optimum, optimum), model.__name__


@pytest.mark.parametrize("objective", ["step-time", "peak-memory"])
@pytest.mark.parametrize("control", ["order", "transfer", "signal"])
@pytest.mark.parametrize("num_devices", [2, 3])
@pytest.mark.parametrize("link", [Link(), Link(bandwidth_bytes_per_s=1e9, latency_ns=1)], ids=["free", "slow"])
def test_blocking_transfers_with_controls_are_solved_as_by_brute_force(
    objective: Objective, control: ControlMode, num_devices: int, link: Link
) -> None:
    # Two pairs joined crosswise by controls, of which three devices get one: the oracle tries every order.
    controls = {"d": "a", "c": "b"} if num_devices == 2 else {"d": "a"}
    ops = {"a": ("", 2), "b": ("", 3), "c": ("a", 1), "d": ("b" if num_devices == 2 else "", 2)}
    graph = graph_of(ops, controls=controls)
    machine = machine_of(num_devices, link, "blocking")
    problem = problem_of(graph, machine, [3, 7, 6, 2], objective=objective, control=control)
    outcomes = (simulate(problem, *solution) for solution in every_solution(problem))
    optimum = min(o.step_time_ns if objective == "step-time" else o.peak_memory_bytes for o in outcomes)
    models = exact_models(problem)
    assert models
    for model in models:
        assert solved_by(model, problem) == (optimum, optimum), model.__name__


@pytest.mark.parametrize(("control", "step_time_ns"), [("order", 12), ("signal", 17)])
@pytest.mark.parametrize("num_devices", [2, 3])
def test_who_only_stands_later_in_the_order_may_start_earlier(
    control: ControlMode, step_time_ns: int, num_devices: int
) -> None:
    # x (10), then its reader a (2), on d0: a runs from 10 to 12. b (5) comes after a. By order alone it may run on
    # d1 from 0; if it waits for a signal it starts at 12 on any device.
    graph = graph_of({"x": ("", 1), "a": ("x", 1), "b": ("", 1)}, controls={"b": "a"})
    machine = machine_of(num_devices, transfer_model="blocking")
    problem = problem_of(graph, machine, [10, 2, 5], control=control)
    for model in exact_models(problem):
        assert solved_by(model, problem) == (step_time_ns, step_time_ns)


@settings(max_examples=20)
@given(problem=problems(max_ops=4))
def test_the_whole_method_is_optimal_where_it_says_so_and_its_bound_holds(problem: Problem) -> None:
    solutions = list(islice(every_solution(problem), BY_BRUTE_FORCE + 1))
    assume(len(solutions) <= BY_BRUTE_FORCE)
    outcomes = [simulate(problem, *solution) for solution in solutions]
    by_time = problem.objective == "step-time"
    fitting = [o.step_time_ns if by_time else o.peak_memory_bytes for o in outcomes if o.bytes_over_limit == 0]
    result = CpSat(warm_evaluations=1).solve(problem, SearchRun())
    if result.stopped_because == "optimal":
        assert result.metrics.bytes_over_limit == 0
        assert result.metrics.objective_value(problem.objective) == min(fitting)
    if result.proven_bound is not None and fitting:
        assert result.proven_bound <= min(fitting)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=problems(max_ops=4))
def test_a_model_made_smaller_claims_no_bound_that_does_not_hold(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The models are cut as for large problems: too few segments to bound anything, and orders left out, which only
    relaxes."""
    monkeypatch.setattr(segments, "MAX_LITERALS", 0)
    monkeypatch.setattr(intervals, "MAX_PAIRS", -1)
    problem = replace(problem, objective="step-time")
    start = weak_start(problem)
    for model in exact_models(problem):
        formulation = model.formulate(structure_of(problem), start, 0, measure(problem, start).step_time_ns)
        ended = solve_model(formulation, Limits(seconds=None, effort=20, workers=1, seed=3), lambda _: None, None)
        if formulation.bounds_all:
            assert ended.bound is not None
            assert ended.bound <= by_brute_force(problem)


def test_neighbouring_segments_that_no_tensor_joins_are_one() -> None:
    # a and c on d0, b and d on d1. b reads a over the first barrier, d reads c over the second. c could be in the
    # first segment, but it comes after the first barrier, as b does; nothing joins these two, d is joined to c.
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("", 1), "d": ("c", 1)})
    problem = problem_of(graph, machine_of(2, transfer_model="blocking"))
    order = np.array([(0, -1), (0, 1), (1, -1), (2, -1), (2, 1), (3, -1)], np.int32)
    solution = Solution(device_of=np.array([0, 1, 0, 1], np.int32), order=order)
    assert segments.hinted_segments(structure_of(problem), solution) == [0, 1, 1, 2]
    # With both producers before both transfers one barrier is left.
    together = replace(solution, order=order[[0, 3, 1, 4, 2, 5]])
    assert segments.hinted_segments(structure_of(problem), together) == [0, 1, 0, 1]


@needs_reference_data
def test_the_known_least_peaks_are_found_and_proved() -> None:
    for name, (graph, optimum) in known_peaks().items():
        problem = problem_of(graph, machine_of(1), objective="peak-memory")
        assert solved_by(memory, problem) == (optimum, optimum), name
        result = CpSat().solve(problem, SearchRun())
        assert (result.metrics.peak_memory_bytes, result.proven_bound, result.stopped_because) == (
            optimum,
            optimum,
            "optimal",
        )


#: Where the bounds of the warm start do not meet it, or it is not optimal.
HARD_FOR_LISTS = (
    ("rand0002.stg", 2),
    ("rand0004.stg", 2),
    ("rand0013.stg", 2),
    ("rand0006.stg", 4),
    ("rand0007.stg", 4),
    ("rand0016.stg", 4),
    ("rand0030.stg", 8),
    ("rand0031.stg", 8),
    ("rand0050.stg", 8),
)


@needs_reference_data
@pytest.mark.parametrize(("instance", "num_processors"), HARD_FOR_LISTS)
def test_certified_makespans_that_no_baseline_proves_are_proved(instance: str, num_processors: int) -> None:
    optimum = {(i, p): optimum for i, p, optimum in certified_rows()}[instance, num_processors]
    graph = task_graph(instance)
    problem = problem_of(graph, machine_of(num_processors), [op.time_ns or 0 for op in graph.ops])
    result = CpSat(warm_evaluations=1).solve(problem, SearchRun())
    assert (result.metrics.step_time_ns, result.proven_bound) == (optimum, optimum)
    assert result.stopped_because == "optimal"


@needs_reference_data
@pytest.mark.parametrize("instance", ["rand0000.stg", "rand0001.stg", "rand0002.stg"])
def test_makespans_on_sixteen_processors_are_proved_from_one_device(instance: str) -> None:
    optimum = {(i, p): optimum for i, p, optimum in certified_rows()}[instance, 16]
    graph = task_graph(instance)
    problem = problem_of(graph, machine_of(16), [op.time_ns or 0 for op in graph.ops])
    assert solved_by(parallel, problem) == (optimum, optimum)


@pytest.mark.long
@needs_reference_data
@pytest.mark.parametrize("num_processors", [2, 4, 8, 16])
def test_nearly_all_certified_makespans_are_proved_and_none_is_undercut(num_processors: int) -> None:
    rows = [row for row in certified_rows() if row[1] == num_processors][:60]
    num_proved = 0
    for instance, _, optimum in rows:
        graph = task_graph(instance)
        problem = problem_of(graph, machine_of(num_processors), [op.time_ns or 0 for op in graph.ops])
        result = CpSat(effort=5.0).solve(problem, SearchRun())
        assert result.metrics.step_time_ns >= optimum
        assert result.proven_bound is None or result.proven_bound <= optimum
        num_proved += result.stopped_because == "optimal"
    assert num_proved >= 0.9 * len(rows)


def hard_problem(objective: Objective = "step-time") -> Problem:
    graph = random_graph(0, 3)
    times = [op.time_ns or 0 for op in graph.ops]
    return problem_of(graph, machine_of(2, transfer_model="blocking"), times, objective=objective, control="order")


@pytest.mark.parametrize("objective", ["step-time", "peak-memory"])
def test_a_time_limit_ends_it_and_the_warm_start_is_never_lost(objective: Objective) -> None:
    problem = hard_problem(objective)
    result = CpSat().solve(problem, SearchRun(Budget(seconds=1)))
    assert result.stopped_because in ("time", "optimal")
    value = result.metrics.objective_value(objective)
    assert result.proven_bound is None or result.proven_bound <= value
    assert all(result.metrics.fitness(objective) <= b.metrics.fitness(objective) for b in result.baselines)


def test_an_interrupt_ends_it_with_the_best_so_far() -> None:
    seen: list[Progress] = []
    problem = hard_problem("peak-memory")

    def after_an_improvement() -> bool:
        return len({progress.best for progress in seen if progress.method == "cp-sat"}) >= 2

    result = CpSat(warm_evaluations=1).solve(
        problem, SearchRun(on_progress=seen.append, interrupted=after_an_improvement)
    )
    assert result.stopped_because == "interrupted"
    assert result.found_by == "cp-sat: lifetimes"
    assert result.metrics.peak_memory_bytes == seen[-1].best
    assert result.metrics.peak_memory_bytes < min(b.metrics.peak_memory_bytes for b in result.baselines)


def test_without_a_time_limit_the_same_effort_gives_the_same_solution() -> None:
    # Its baselines are at 292 bytes.
    rng, ops = np.random.default_rng(3), dict[str, tuple[str, int]]()
    for index in range(24):
        before = {f"op{other}" for other in rng.integers(max(0, index - 6), max(index, 1), 2) if other < index}
        ops[f"op{index}"] = (" ".join(sorted(before)), int(rng.integers(1, 100)))
    machine = machine_of(2, transfer_model="blocking")
    problem = problem_of(graph_of(ops), machine, objective="peak-memory", control="order")
    first, second = (CpSat(effort=0.05).solve(problem, SearchRun(Budget(evaluations=50), seed=5)) for _ in range(2))
    assert first.found_by == "cp-sat: lifetimes"
    assert np.array_equal(first.solution.device_of, second.solution.device_of)
    assert np.array_equal(first.solution.order, second.solution.order)
    assert [point.best for point in first.trace] == [point.best for point in second.trace]


def test_without_a_warm_start_it_improves_on_one_device_alone() -> None:
    # Two chains of 3 and 4 ns and no transfer: 7 ns on one device, 4 ns on two.
    problem = problem_of(
        graph_of({"a": ("", 1), "b": ("a", 1), "c": ("", 1), "d": ("c", 1)}),
        machine_of(2, transfer_model="blocking"),
        [1, 2, 1, 3],
    )
    result = CP_SAT_COLD.solve(problem, SearchRun())
    assert (result.metrics.step_time_ns, result.proven_bound, result.stopped_because) == (4, 4, "optimal")
    assert result.found_by.startswith("cp-sat-cold: ")
    assert result.trace[0].best == 7


def test_groups_pins_and_limits_are_part_of_the_memory_model() -> None:
    # Four producers of 4 bytes, read by e: with no more than 9 bytes on d0 and e pinned to d1, which has room for all.
    graph = graph_of({"a": ("", 4), "b": ("", 4), "c": ("", 4), "d": ("", 4), "e": ("a b c d", 1)})
    constraints = Constraints(pins=(("e", "d1"),), colocations=(("a", "b"),))
    problem = problem_of(
        graph,
        machine_of(2, transfer_model="blocking"),
        objective="peak-memory",
        constraints=constraints,
        memory_limits_bytes=(9, None),
    )
    # e holds its four inputs and its output on d1: 17 bytes, whatever the rest does.
    result = CpSat().solve(problem, SearchRun())
    assert (result.metrics.peak_memory_bytes, result.metrics.bytes_over_limit) == (17, 0)
    assert solved_by(memory, replace(problem, memory_limits_bytes=(None, None))) == (17, 17)
    device_of = devices_by_name(problem, result.solution.device_of)
    assert device_of["a"] == device_of["b"]
    assert device_of["e"] == 1


def test_what_no_model_fits_comes_back_as_the_warm_start_left_it() -> None:
    problem = replace(hard_problem("peak-memory"), machine=machine_of(2, transfer_model="overlapped"))
    result = CpSat(warm_evaluations=50).solve(problem, SearchRun())
    assert result.stopped_because == "complete"
    assert not result.found_by.startswith("cp-sat")
    assert result.proven_bound is None


def test_a_graph_too_large_for_a_model_is_left_to_the_warm_start() -> None:
    # 6,000 makers on d0, each with a reader on d1. All makers first: 2 segments, for which 4 are modelled, 96,000
    # literals. In 20 rounds of 300 makers and their readers: 21 segments, for which 28 are modelled, 672,000 literals.
    ops: dict[str, tuple[str, int]] = {}
    for index in range(6000):
        ops[f"a{index}"] = ("", 1)
    for index in range(6000):
        ops[f"b{index}"] = (f"a{index}", 1)
    problem = problem_of(graph_of(ops), machine_of(2, transfer_model="blocking"))
    structure = structure_of(problem)
    whole = np.repeat(np.array([0, 1], np.int32), 6000)
    moved = [(t, 1) for t in range(6000)]
    makers, readers = [(op, -1) for op in range(6000)], [(op, -1) for op in range(6000, 12000)]
    together = Solution(device_of=whole, order=np.array(makers + moved + readers, np.int32))
    assert segments.fits(structure, together)
    apart = [step for k in range(20) for part in (makers, moved, readers) for step in part[300 * k : 300 * (k + 1)]]
    assert not segments.fits(structure, Solution(device_of=whole, order=np.array(apart, np.int32)))


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    with pytest.raises(MissingExtraError, match=r"placewright\[cp\]'"):
        CpSat().solve(hard_problem(), SearchRun())


def test_the_table_of_methods_does_not_import_the_package() -> None:
    code = "import sys, placewright.methods.table; sys.exit('ortools' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
