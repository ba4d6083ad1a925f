"""Every function of the core with arrays that contradict each other: each call answers or refuses, none may crash."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from strategies import problems

import placewright._core as _core
from placewright.decoder import DECODERS
from placewright.problem import Problem

#: The core's errors for bad arguments: a value or a type is wrong, no answer exists yet, memory does not suffice.
REFUSALS = (ValueError, TypeError, RuntimeError, MemoryError)
WHOLE = (0, 1, -1, 2, 3, 7, 64, 65, 1000, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
#: Used for sizes and numbers of members: the core makes as many as it is asked for.
FEW = (0, 1, -1, 2, 3, 7, 20, -(2**31))
REAL = (0.0, 0.5, 1.0, -1.0, 1e-300, 1e300, math.nan, math.inf, -math.inf)


def arrays_of(problem: Problem) -> dict[str, Any]:
    """Return copies of what the core is given for a problem; callers may change them."""
    with patch("placewright.problem.problem._core.Problem", dict):
        given: Any = problem.core
    del problem.__dict__["core"]
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()}


class Breaker:
    """Draws changes of arrays and numbers."""

    def __init__(self, number: int) -> None:
        self.draw = np.random.default_rng(number)

    def any_of(self, values: Any) -> Any:
        return values[int(self.draw.integers(len(values)))]

    def broken(self, value: Any) -> Any:
        """Return the value with one thing wrong, or right by chance."""
        if isinstance(value, np.ndarray):
            return self._broken_array(value)
        if isinstance(value, bool):
            return not value
        return self.any_of(REAL) if isinstance(value, float) else self.any_of(WHOLE)

    def _broken_array(self, array: np.ndarray) -> Any:
        how = self.draw.integers(10)
        changed = array.copy()
        if how < 5 and array.size:
            bounds = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
            values = [v for v in WHOLE if bounds is None or bounds.min <= v <= bounds.max]
            near = [len(array), len(array) - 1, int(self.any_of(array.ravel())), int(self.any_of(array.ravel())) + 1]
            value = self.any_of([*values, *[v for v in near if bounds is None or bounds.min <= v <= bounds.max]])
            changed.flat[int(self.draw.integers(array.size))] = value
            return changed
        if how == 5 and array.size:
            self.draw.shuffle(changed)
            return changed
        return self.any_of(
            [
                changed[: len(changed) // 2],
                changed[:0],
                np.concatenate([changed, changed[-1:]]),
                changed[:-1],
                changed[::-1],
                changed[::2],
                changed.reshape(-1),
                changed.T,
                changed[None],
                np.asfortranarray(changed),
                changed.astype(np.float32),
                changed.astype(np.int64) if changed.dtype.kind in "iu" else changed.astype(object),
                None,
            ]
        )

    def launching(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Let hosts launch in half of the problems: each device draws a host or none."""
        devices = arrays["num_devices"]
        if self.draw.integers(2) == 0:
            return arrays
        hosts = self.draw.integers(-1, devices, devices).astype(np.int32)
        return {**arrays, "host_of": hosts, "launch_ns": self.draw.integers(6, size=devices)}

    def one_broken(self, arguments: dict[str, Any], times: int) -> dict[str, Any]:
        arguments = dict(arguments)
        for _ in range(times):
            name = self.any_of(list(arguments))
            arguments[name] = self.broken(arguments[name])
        return arguments


def exercise(problem: _core.Problem, breaker: Breaker, seen: Counter[str]) -> None:
    """Call every function on a problem, with right and with broken arguments."""

    def answer(name: str, function: Callable[..., Any], breakable: dict[str, Any], **fixed: Any) -> Any:
        times = breaker.any_of([0, 0, 1, 2]) if breakable else 0
        try:
            result = function(**fixed, **breaker.one_broken(breakable, times))
        except REFUSALS:
            seen[f"{name} refused"] += 1
            return None
        seen[name] += 1
        return result

    ops, device_of = _orders(problem, breaker, answer)
    whole = problem.with_transfers(device_of, ops, True)
    placed = {"device_of": device_of, "ops": ops}
    answer("simulate", problem.simulate, {"device_of": device_of, "order": whole})
    answer("check_order", problem.check_order, {"device_of": device_of, "order": whole})
    answer("with_transfers", problem.with_transfers, placed, early=False)
    answer("best_transfers", _core.best_transfers, {**placed, "evaluations_left": 2}, problem=problem)
    answer("list_schedule", _core.list_schedule, {"ops": ops, "least_peak": True}, problem=problem)
    answer("dispatch_order", _core.dispatch_order, {"device_of": device_of}, problem=problem)
    order = {"device_of": device_of, "order": whole}
    answer("with_remote_inputs_first", _core.with_remote_inputs_first, order, problem=problem)
    aside = answer("set_inputs_aside", _core.set_inputs_aside, {"with_first_reader": True}, problem=problem)
    if aside is not None:
        answer("whole_ops", aside.whole_ops, placed)
        answer("whole_order", aside.whole_order, order)
    target = np.zeros(problem.num_devices, np.int64)
    answer("with_evictions", _core.with_evictions, {**placed, "target": target}, problem=problem)
    _keys(problem, breaker, answer, device_of, whole)
    _bounds_and_clusters(problem, answer, placed)
    _searches(problem, breaker, answer, device_of, ops)


def _orders(problem: _core.Problem, breaker: Breaker, answer: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    for name in ("bfs", "dfs", "lpmf", "xla_list", "reverse_greedy"):
        answer(f"{name}_order", getattr(_core, f"{name}_order"), {"problem": problem})
    answer("bottom_levels", _core.bottom_levels, {}, problem=problem, outlook=breaker.any_of(list(_core.Outlook)))
    answer("bottom_level_order", _core.bottom_level_order, {}, problem=problem)
    answer("earliest_task_first", _core.earliest_task_first, {}, problem=problem)
    answer("segment_fill", _core.segment_fill, {"when_one_starves": True}, problem=problem)
    answer("runs_filling_memory", _core.runs_filling_memory, {}, problem=problem)
    answer("runs_balancing_memory", _core.runs_balancing_memory, {}, problem=problem)
    answer("all_on", _core.all_on, {"device": 0}, problem=problem)
    answer("partition", _core.partition, {"imbalance": 0.1, "passes": 2}, problem=problem)
    ops = breaker.any_of([_core.bfs_order, _core.dfs_order, _core.lpmf_order])(problem)
    return ops, _core.earliest_task_first(problem)[0]


def _keys(
    problem: _core.Problem, breaker: Breaker, answer: Callable[..., Any], device_of: np.ndarray, whole: np.ndarray
) -> None:
    decoder = breaker.any_of([*DECODERS, "none"])
    keys = answer("num_keys_of", problem.num_keys_of, {}, decoder=decoder) or 0
    drawn = breaker.draw.integers(2**32, size=keys, dtype=np.uint32)
    answer("decode", problem.decode, {"keys": drawn}, decoder=decoder)
    answer("encode", problem.encode, {"device_of": device_of, "order": whole}, decoder=decoder)


def _bounds_and_clusters(problem: _core.Problem, answer: Callable[..., Any], placed: dict[str, Any]) -> None:
    answer("live_memory_bound", _core.live_memory_bound, {"budget": 1000}, problem=problem)
    work = np.ones(problem.num_ops, np.int64)
    answer("time_bounds", _core.time_bounds, {"work": work, "scale": 1, "heaviest": 1, "budget": 1000}, problem=problem)
    answer("chain_clusters", _core.chain_clusters, {"cap_ns": 10}, problem=problem)
    coarsened = answer("coarsen", _core.coarsen, {"max_clusters": 3}, problem=problem)
    if coarsened is None:
        return
    coarse, cluster_of = coarsened
    answer("coarse_problem", _core.coarse_problem, {"cluster_of": cluster_of}, problem=problem)
    answer("project", _core.project, {"cluster_of": cluster_of, **placed}, fine=problem, coarse=coarse)
    ops, device_of = _core.bfs_order(coarse), _core.earliest_task_first(coarse)[0]
    few = {"cluster_of": cluster_of, "device_of": device_of, "ops": ops}
    answer("expand", _core.expand, few, fine=problem, coarse=coarse)


def _searches(
    problem: _core.Problem, breaker: Breaker, answer: Callable[..., Any], device_of: np.ndarray, ops: np.ndarray
) -> None:
    tables = answer("BetaTables", _core.BetaTables, {"alpha": np.array([1.0, 2.0]), "beta": np.array([3.0, 0.5])})
    if tables is not None:
        answer("draw", tables.draw, {"row": 1, "uniforms": np.array([0, 2**32 - 1], np.uint32)})
    decoder = breaker.any_of(DECODERS)
    keys = problem.num_keys_of(decoder)
    row = np.zeros(keys, np.uint16)
    guided = {"tables": tables, "row": row if breaker.draw.integers(4) else breaker.broken(row)}
    drawn = {"seed": 1, "problem": problem, "decoder": decoder, **(guided if tables is not None else {})}
    members = {name: breaker.any_of(FEW) for name in ("population", "elites", "mutants", "populations", "exchanged")}
    right = {"population": 8, "elites": 2, "mutants": 2, "populations": 1, "exchanged": 0}
    counts = {**right, **{name: members[name] for name in members if breaker.draw.integers(12) == 0}}
    seeds = [breaker.broken(np.zeros(keys, np.uint32))] if breaker.draw.integers(4) == 0 else []
    genetic = {"elite_bias": 0.7, "exchange_interval": 5}
    threads = breaker.any_of([1, 1, 1, 1, 2, 0])
    brkga = answer("Brkga", _core.Brkga, genetic, threads=threads, seeds=seeds, **counts, **drawn)
    cooling = {"first_temperature": 0.05, "last_temperature": 0.001}
    annealing = answer("Annealing", _core.Annealing, {"keys_per_move": 2, **cooling}, **drawn)
    moves = {"evaluations_per_start": 9, "device_share": 0.5, "reach": 5, "accept_equal": True}
    local = answer("LocalSearch", _core.LocalSearch, moves, problem=problem, seed=2)
    start = (breaker.broken(device_of), ops) if breaker.draw.integers(3) == 0 else (device_of, ops)
    starts = [start] if breaker.draw.integers(8) else []
    peak = answer(
        "PeakSearch", _core.PeakSearch, {"evaluations": 20, **cooling}, problem=problem, seed=3, starts=starts
    )
    schedule = answer("ScheduleAnnealing", _core.ScheduleAnnealing, cooling, problem=problem, seed=4, starts=starts)
    superstep = answer("SuperstepAnnealing", _core.SuperstepAnnealing, {"evaluations": 50}, problem=problem, seed=5)
    exact = answer("ExactOrder", _core.ExactOrder, {"start": ops, "least_bytes": 0}, problem=problem)
    placed = {"device_of": device_of, "order": problem.with_transfers(device_of, ops, True), "divisor_ns": 1}
    fastest = answer("ExactSchedule", _core.ExactSchedule, placed, problem=problem)
    for search in (brkga, annealing, local, peak, schedule, superstep, exact, fastest):
        if search is not None:
            _advance(search, answer)


def _advance(search: Any, answer: Callable[..., Any]) -> None:
    name = type(search).__name__
    for evaluations in (7, 30):
        answer(f"{name}.advance", search.advance, {"evaluations": evaluations}, at_most=20)
    for attribute in dir(search):
        if not attribute.startswith("_") and attribute != "advance":
            value = getattr(search, attribute)
            if callable(value):
                answer(f"{name}.{attribute}", value, {})


def run(number: int, examples: int, times: int = 20) -> Counter[str]:
    """Break that many valid problems, each several times; count the calls answered and refused."""
    seen: Counter[str] = Counter()

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(problem=problems(max_ops=10))
    def break_problem(problem: Problem) -> None:
        arrays = breaker.launching(arrays_of(problem))
        valid = _core.Problem(**arrays)
        seen["Problem with launches"] += bool((arrays["host_of"] >= 0).any())
        exercise(valid, breaker, seen)
        for _ in range(times):
            try:
                accepted = _core.Problem(**breaker.one_broken(arrays, 1 + int(breaker.draw.integers(2))))
            except REFUSALS:
                seen["Problem refused"] += 1
                continue
            seen["Problem"] += 1
            exercise(accepted, breaker, seen)

    breaker = Breaker(number)
    break_problem()
    return seen
