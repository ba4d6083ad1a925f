"""Assembly of a map from a solver's result: the time of each op, and the time that each tensor saves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from placewright.lab.memory_levels.bounds import ALONE, alone_bound
from placewright.lab.memory_levels.compilers import COMPILERS
from placewright.lab.memory_levels.problem import Int64, Levels, MemoryProblem
from placewright.lab.memory_levels.record import MappedOp, MappedTensor, MemoryMap
from placewright.lab.memory_levels.run import MapResult
from placewright.lab.memory_levels.solvers.exact import is_proven
from placewright.version import VERSION


def assemble_map(
    problem: MemoryProblem,
    result: MapResult,
    *,
    solver: str,
    seconds: float,
    options: Mapping[str, Any] | None = None,
) -> MemoryMap:
    """Return the map of a result. options: of the run, JSON values; they become part of its configuration."""
    of_rules = {name: problem.evaluate_one(rule(problem)) for name, rule in COMPILERS.items()}
    best_rule = min(of_rules, key=lambda name: of_rules[name][0])
    compiler_ps, _, compiler = of_rules[best_rule]
    bound_ps, bound_reason = max((result.bound_ps, result.bound_reason), (alone_bound(problem), ALONE))
    return MemoryMap(
        graph_name=problem.graph.name,
        graph_fingerprint=problem.graph.fingerprint,
        num_graph_ops=len(problem.graph.ops),
        chip=problem.chip,
        ops=_ops(problem, result.levels, compiler),
        tensors=_tensors(problem, result.levels, compiler),
        latency_ps=result.latency_ps,
        compiler=best_rule,
        compiler_ps=compiler_ps,
        others=dict(result.baselines),
        bound_ps=bound_ps,
        bound_reason=bound_reason,
        status="optimal" if is_proven(result.latency_ps, bound_ps) else "feasible",
        solver=solver,
        found_by=result.found_by,
        seed=result.seed,
        evaluations=result.evaluations,
        seconds=seconds,
        stopped_because=result.stopped_because,
        configuration={**result.configuration, **(options or {})},
        version=VERSION,
    )


def _ops(problem: MemoryProblem, levels: Levels, compiler: Levels) -> tuple[MappedOp, ...]:
    times, before = problem.op_times(levels), problem.op_times(compiler)
    return tuple(
        MappedOp(
            name=problem.graph.ops[index].name,
            kind=problem.graph.ops[index].kind,
            module=problem.graph.ops[index].module,
            time_ps=int(times[op]),
            compute_ps=int(problem.compute_ps[op]),
            compiler_ps=int(before[op]),
        )
        for op, index in enumerate(problem.graph_op.tolist())
    )


def _tensors(problem: MemoryProblem, levels: Levels, compiler: Levels) -> tuple[MappedTensor, ...]:
    saved = saved_by_each(problem, levels, compiler)
    return tuple(
        MappedTensor(
            name=problem.tensor_names[tensor],
            op=int(problem.node[tensor]),
            is_weight=bool(problem.is_weight[tensor]),
            size_bytes=int(problem.size_bytes[tensor]),
            first=int(problem.first[tensor]),
            last=int(problem.last[tensor]),
            level=int(levels[tensor]),
            compiler_level=int(compiler[tensor]),
            saved_ps=int(saved[tensor]),
        )
        for tensor in range(problem.num_tensors)
    )


def saved_by_each(problem: MemoryProblem, levels: Levels, other: Levels) -> Int64:
    """Return by tensor how much longer the latency would be if it alone were where `other` has it, whether or not it
    fits."""
    changed = np.flatnonzero(levels != other)
    if not len(changed):
        return np.zeros(problem.num_tensors, np.int64)
    maps = np.repeat(levels[None], len(changed) + 1, axis=0)
    maps[np.arange(len(changed)), changed] = other[changed]
    latency = problem.time_as_they_are(maps)
    saved = np.zeros(problem.num_tensors, np.int64)
    saved[changed] = latency[:-1] - latency[-1]
    return saved
