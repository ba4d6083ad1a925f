"""Memory levels from Python: `map_memory`, and the methods of a map."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from placewright.api.arguments import budget, recorded_options
from placewright.api.functions import as_graph
from placewright.api.questions import Answer, Check, answer
from placewright.graph import Graph
from placewright.lab.memory_levels.assemble import assemble_map
from placewright.lab.memory_levels.chip import Chip
from placewright.lab.memory_levels.chips import load_chip
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.record import MemoryMap as MapRecord
from placewright.lab.memory_levels.solvers.table import default_map_evaluations, make_map_solver
from placewright.methods.policy_file import read_policy
from placewright.plans.provenance import recorded_graph
from placewright.search.run.budget import Interrupted, OnProgress
from placewright.search.run.search_run import MAX_THREADS, SearchRun
from placewright.support.errors import InputError
from placewright.support.quantities import whole_number

if TYPE_CHECKING:
    from rich.console import RenderableType

    from placewright.api.functions import Model
    from placewright.lab.memory_levels.explain import MapExplanation

Tables: TypeAlias = "Iterable[RenderableType | None]"


class MemoryMap(MapRecord):
    """A map with methods to save, explain and check it; `map_memory` returns one."""

    @classmethod
    def of(cls, found: MapRecord) -> MemoryMap:
        """Make a MemoryMap of the same record.

        Parameters
        ----------
        found
            The record of a map.
        """
        return cls(**{field.name: getattr(found, field.name) for field in fields(found)})

    def save(self, path: str | Path) -> None:
        """Write the map as JSON; equal maps give equal bytes.

        Parameters
        ----------
        path
            The file, gzipped when its name ends in .gz.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        from placewright.lab.memory_levels.file import write_map

        write_map(self, path)

    def explain(self) -> Answer[MapExplanation]:
        """Explain the parts of the latency, the use of levels, and the tensors that moved."""
        return answer(*explanation(self))

    def check(self, model: Graph | str | Path | None = None) -> Answer[Check]:
        """Time the map anew with a slow, independent simulator.

        Parameters
        ----------
        model
            The graph that the map is for, or its file; None for the file that the map was made from. A map cannot
            make Python code run: "net.py:build" must be named here.

        Raises
        ------
        InputError
            Where the map is for another graph, or names no file.
        """
        return answer(*judgement(self, model))


def map_memory(
    model: Model,
    chip: Chip | str | Path,
    *,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    solver: str = "auto",
    evaluations: int | None = None,
    time_limit: float | str | None = None,
    seed: int = 0,
    threads: int = 1,
    policy: str | Path | None = None,
    dims: Mapping[str, int] | None = None,
    on_progress: OnProgress | None = None,
    interrupted: Interrupted | None = None,
) -> MemoryMap:
    """Find the memory level of a chip for every weight and every activation.

    The same graph, chip, solver, seed and number of evaluations give the same map.

    Parameters
    ----------
    model, args, kwargs, dims
        As `plan` takes them.
    chip
        A Chip, the name of a preset such as "nnpi", or the path of a TOML file.
    solver
        "auto", "exact", "annealing", "marginal", "density", "alike", "local-search", "greedy-dp", "random", one that
        learns: "ea", "pg", "egrl", or a compiler's rules: "h0", "h1" or "h6". With a policy: "zero-shot" or "egrl".
    evaluations
        Budget: the most maps or moves that are timed. By default about a second's worth, unless there is a time limit.
    time_limit
        Budget in seconds, or text like "1s". Only without one is the map reproducible.
    seed
        Seed of all random choices.
    threads
        Number of threads that a solver may use.
    policy
        A file of a trained policy of EGRL: "zero-shot" makes the map that it proposes, "egrl" goes on learning from it.
    on_progress
        Called from time to time with the best latency so far, in ps.
    interrupted
        Called from time to time; True ends the search with the best map so far.

    Returns
    -------
    MemoryMap
        A map that fits; one always exists, with everything in the slowest level.

    Raises
    ------
    InputError
        For bad input: one sentence that names the file or argument.
    MissingExtraError
        Where the model or the solver needs a package that is not installed.
    """
    began = time.perf_counter()
    seed = whole_number("seed", seed, 0, 2**64 - 1)
    method = make_map_solver(solver, None if policy is None else read_policy(policy))
    limits = budget(evaluations, time_limit, default_evaluations=1)
    own_chip = chip if isinstance(chip, Chip) else load_chip(chip)
    problem = make_memory_problem(as_graph(model, args=args, kwargs=kwargs, dims=dims), own_chip)
    if evaluations is None and limits.seconds is None:
        limits = replace(limits, evaluations=default_map_evaluations(solver, problem))
    cores = whole_number("threads", threads, 1, MAX_THREADS)
    run = SearchRun(limits, seed=seed, threads=cores, on_progress=on_progress, interrupted=interrupted)
    result = method.solve(problem, run)
    options = recorded_options(model, dims, limits)
    seconds = time.perf_counter() - began
    return MemoryMap.of(assemble_map(problem, result, solver=solver, seconds=seconds, options=options))


def load_map(path: str | Path) -> MemoryMap:
    """Read a saved map.

    Parameters
    ----------
    path
        A file that `MemoryMap.save` or `placewright map -o` wrote.

    Raises
    ------
    InputError
        Naming the file, when it is no map.
    """
    from placewright.lab.memory_levels.file import read_map

    return MemoryMap.of(read_map(path))


def explanation(found: MapRecord) -> tuple[MapExplanation, Tables]:
    """Explain a map, as values and as tables."""
    from placewright.lab.memory_levels.explain import explain_map
    from placewright.lab.memory_levels.tables import map_explanation_tables

    explained = explain_map(found)
    return explained, map_explanation_tables(found, explained)


def judgement(
    found: MapRecord,
    model: Graph | str | Path | None = None,
    dims: Mapping[str, int] | None = None,
    *,
    name: str = "the map",
) -> tuple[Check, Tables]:
    """Time a map anew with a slow, independent simulator.

    model, dims: its graph, or the graph's file with the sizes of its open dimensions; by default what the map was made
    from. name: the map's name in errors.
    """
    from placewright.lab.memory_levels.bounds import PROGRAM
    from placewright.lab.memory_levels.checker import check_map
    from placewright.lab.memory_levels.words import format_ps
    from placewright.terminal.check_table import verdict_table

    asked = "check {file} MAP, in Python check({graph})"
    graph = recorded_graph(found.configuration, model, dims, name=name, asked=asked)
    if graph.fingerprint != found.graph_fingerprint:
        raise InputError(f"{name} is for another graph than '{graph.name}': for '{found.graph_name}' as it was then")
    problems = tuple(check_map(found, graph))
    claim = f"a lower bound of {found.bound_ps / 1e6:,.6g} us, {found.bound_reason}"
    unchecked = (claim,) if found.bound_reason == PROGRAM else ()
    confirmed = f"{format_ps(found.latency_ps)}, every level within its capacity"
    checked = Check(correct=not problems, problems=problems, unchecked=unchecked)
    return checked, verdict_table(confirmed, problems, unchecked)
