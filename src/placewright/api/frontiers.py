"""`frontier`: memory limit against step time on one device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placewright.analysis.basis import basis_words
from placewright.analysis.frontier import Frontier, FrontierPoint, Rival
from placewright.api.arguments import globs
from placewright.api.functions import as_graph
from placewright.api.pass_captures import PassCaptures, is_torch_module
from placewright.api.questions import Answer, answer
from placewright.bounds import least_limit
from placewright.costs import count_sources
from placewright.costs.measured import with_workspaces
from placewright.importers.forward_backward import training_step
from placewright.machines.host import HostMemory, usual_host
from placewright.machines.specification import as_machine
from placewright.problem import Problem, make_problem
from placewright.problem.objective import Metrics
from placewright.rematerialization.blocks import checkpointed, merged, module_blocks
from placewright.rematerialization.proofs import bound_of_reruns, some_may_move, some_may_run_again
from placewright.rematerialization.solve import (
    in_order,
    order_of_least_memory,
    rematerialize,
    rerun_evaluations,
    with_reruns,
)
from placewright.search.run.budget import UNLIMITED, Budget, Interrupted, OnProgress
from placewright.search.run.result import measure
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError, shown
from placewright.support.interruption import until_interrupted
from placewright.support.quantities import counted, whole_number

if TYPE_CHECKING:
    from placewright.api.functions import Model
    from placewright.machine import Machine

#: How many limits are looked at.
_NUM_LIMITS = 10
#: How often the gap between the proven lower bound on the limit and the smallest limit found is halved.
_NUM_HALVINGS = 4
#: Numbers of blocks that are tried: all, half of them, a quarter and so on.
_NUM_BLOCKINGS = 4
#: Larger modules are not captured again for PyTorch's own reruns and for smaller batches: that takes long.
_MOST_OPS = 2000
#: Values of PyTorch's `activation_memory_budget`; 1 means no budget.
_BUDGETS = (0.75, 0.5, 0.25)
#: Numbers of passes that are tried, as far as they divide the batch.
_ACCUMULATIONS = (2, 4)


def frontier(
    model: Model,
    devices: Machine | str | Path | Sequence[str],
    *,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    training: bool = False,
    keep: Sequence[str] = (),
    evaluations: int | None = None,
    seed: int = 0,
    measured: str | Path | None = None,
    dims: Mapping[str, int] | None = None,
    on_progress: OnProgress | None = None,
    on_stage: Callable[[str], None] | None = None,
    interrupted: Interrupted | None = None,
) -> Answer[Frontier]:
    """Find the step time within each memory limit when ops may run again, from the smallest possible limit on.

    Parameters
    ----------
    model, args, kwargs, training, dims
        As `plan` takes them.
    devices
        A machine of one device, as `plan` takes it.
    keep
        Globs over names of ops or modules: these run once.
    evaluations
        Budget of each limit. By default about a second's worth.
    seed
        Seed of all random choices.
    measured
        A CSV file of measured op times.
    on_progress
        Called now and then with the best so far.
    on_stage
        Called with a description of what is captured now.
    interrupted
        Asked now and then; True ends the search with what it has.

    Returns
    -------
    Answer
        `facts` are what `placewright fit --json` prints.

    Raises
    ------
    InputError
        For bad input, and for a machine of several devices.

    Examples
    --------
    >>> print(placewright.frontier("example:inception-v3-train", "h100"))  # doctest: +SKIP
    """
    from placewright.terminal.frontier_table import frontier_table

    machine = as_machine(devices)
    if machine.num_devices > 1:
        raise InputError(f"'{shown(machine.name)}' has {machine.num_devices} devices; ops run again on one, as in h100")
    show = on_stage or (lambda stage: None)
    show("capturing the step")
    graph = as_graph(model, args=args, kwargs=kwargs, training=training, dims=dims)
    times = None if measured is None else Path(measured)
    problem = make_problem(with_workspaces(graph, times), machine, measured=times)
    some_may_run_again(problem, keep := globs("keep", keep))
    host = usual_host(machine)
    budget = rerun_evaluations(problem) if evaluations is None else evaluations
    problem = replace(problem, memory_limits_bytes=(None,))
    searches = _Searches(
        problem=problem,
        budget=Budget(evaluations=whole_number("evaluations", budget, 1, UNLIMITED)),
        seed=whole_number("seed", seed, 0, 2**64 - 1),
        keep=keep,
        host=host if some_may_move(problem, keep, host) else None,
        on_progress=on_progress,
        interrupted=interrupted,
    )
    rivals: list[tuple[str, _Runs]] = []
    with until_interrupted(interrupted):
        accumulated = times is None
        for rival in _rivals(model, args, kwargs or {}, problem, show, captured=training, accumulated=accumulated):
            rivals.append(rival)  # each by itself: what was made stays when the next is cut short
    found = _found(searches, rivals)
    return answer(found, frontier_table(found))


@dataclass(frozen=True, kw_only=True)
class _Runs:
    """One way to run a step: its metrics, the number of ops that run again, and of tensors moved to the host.

    accumulation: how many passes it has. parts: how many parts a stretch runs in. With several of either it is no plan
    of the captured step.
    """

    metrics: Metrics
    num_reruns: int
    num_moves: int = 0
    accumulation: int = 1
    parts: int = 1


@dataclass(frozen=True, kw_only=True)
class _Searches:
    """Searches with one budget each. problem: without a limit. host: where tensors may be moved to."""

    problem: Problem
    budget: Budget
    seed: int
    keep: Sequence[str]
    host: HostMemory | None
    on_progress: OnProgress | None
    interrupted: Interrupted | None

    def within(self, limit: int) -> _Runs:
        run = SearchRun(self.budget, seed=self.seed, on_progress=self.on_progress, interrupted=self.interrupted)
        again = rematerialize(self.limited(limit), run, self.keep, self.host, [self.order])
        return _Runs(metrics=again.result.metrics, num_reruns=len(again.reruns), num_moves=len(again.moves))

    def is_interrupted(self) -> bool:
        return self.interrupted is not None and self.interrupted()

    def least_time(self, limit: int) -> int:
        """A proven lower bound on the step time of every plan within the limit.

        It may be below the time of the captured order: where a host launches ops, another order can take less.
        """
        return bound_of_reruns(self.limited(limit), fits=True, host=self.host).value

    @cached_property
    def order(self) -> NDArray[np.int32]:
        return order_of_least_memory(self.problem)

    def limited(self, limit: int) -> Problem:
        return replace(self.problem, memory_limits_bytes=(limit,))


def _found(searches: _Searches, rivals: Sequence[tuple[str, _Runs]]) -> Frontier:
    problem = searches.problem
    once = _Runs(metrics=measure(problem, in_order(problem)), num_reruns=0)
    peak, (least, op) = once.metrics.peak_memory_bytes, least_limit(problem, searches.host)
    runs = [once]
    with until_interrupted(searches.interrupted):
        for found in () if searches.is_interrupted() else _searched(searches, least, once, rivals):
            runs.append(found)  # each by itself: what was found stays when the next is cut short
    smallest = min(each.metrics.peak_memory_bytes for each in runs)
    if searches.is_interrupted():
        limits = sorted({each.metrics.peak_memory_bytes for each in runs})
        # A proof for each limit takes long; that of the largest holds for all.
        least_times = [searches.least_time(peak)] * len(limits)
    else:
        limits = _limits(smallest, peak)
        least_times = [searches.least_time(limit) for limit in limits]
    machine, origin = problem.machine, problem.time_origin
    sources = None if origin is None else count_sources(origin[problem.lowered.graph_op, 0])
    return Frontier(
        schema_version=1,
        graph=problem.graph.name,
        machine=machine.name,
        basis=basis_words(sources, machine),
        memory_bytes=machine.devices[0].memory_bytes,
        peak_bytes=peak,
        step_time_ns=once.metrics.step_time_ns,
        least_possible_bytes=least,
        least_possible_op=op,
        least_found_bytes=smallest,
        points=tuple(
            _point(limit, runs, once, least_time) for limit, least_time in zip(limits, least_times, strict=True)
        ),
        rivals=tuple(_rival(name, each, runs, once) for name, each in (("everything kept", once), *rivals)),
        seed=searches.seed,
    )


def _searched(searches: _Searches, least: int, once: _Runs, rivals: Sequence[tuple[str, _Runs]]) -> Iterator[_Runs]:
    """Searches for the peaks of rivals, for the smallest limit, and for those from there to the peak."""
    peak = smallest = once.metrics.peak_memory_bytes
    others = {each.metrics.peak_memory_bytes for _, each in rivals}
    for limit in sorted(limit for limit in others if least <= limit < peak):
        yield (found := searches.within(limit))
        smallest = min(smallest, found.metrics.peak_memory_bytes)
    for found in _smallest(searches, least, smallest):
        yield found
        smallest = min(smallest, found.metrics.peak_memory_bytes)
    yield from (searches.within(limit) for limit in _limits(smallest, peak)[:-1])


def _limits(smallest: int, peak: int) -> list[int]:
    return sorted({smallest + (peak - smallest) * step // (_NUM_LIMITS - 1) for step in range(_NUM_LIMITS)})


def _smallest(searches: _Searches, least: int, known: int) -> Iterator[_Runs]:
    """Searches for the smallest feasible limit, between the proven lower bound and the smallest known one."""
    limit = least
    for _ in range(_NUM_HALVINGS):
        if limit >= known:
            return
        yield (found := searches.within(limit))
        known = min(known, found.metrics.peak_memory_bytes)
        least = max(least, min(limit, known))
        limit = (least + known) // 2


def _fastest(runs: Sequence[_Runs], limit: int) -> _Runs | None:
    """The fastest runs within a limit, whichever limit they were searched for; None where there are none."""
    return min(
        (each for each in runs if each.metrics.peak_memory_bytes <= limit),
        key=lambda each: (each.metrics.step_time_ns, each.num_reruns + each.num_moves, each.metrics.peak_memory_bytes),
        default=None,
    )


def _point(limit: int, found: Sequence[_Runs], once: _Runs, least: int) -> FrontierPoint:
    runs = _fastest(found, limit)
    assert runs is not None, limit
    time, before = runs.metrics.step_time_ns, once.metrics.step_time_ns
    return FrontierPoint(
        limit_bytes=limit,
        share=limit / max(1, once.metrics.peak_memory_bytes),
        peak_bytes=runs.metrics.peak_memory_bytes,
        step_time_ns=time,
        extra_time=_more(time, before),
        least_time_ns=least,
        least_extra_time=_more(least, before),
        num_reruns=runs.num_reruns,
        num_moves=runs.num_moves,
    )


def _rival(name: str, own: _Runs, runs: Sequence[_Runs], once: _Runs) -> Rival:
    peak = own.metrics.peak_memory_bytes
    is_plan = own.accumulation == own.parts == 1
    planned = _fastest([*runs, own] if is_plan else runs, peak)
    return Rival(
        name=name,
        accumulation=own.accumulation,
        parts=own.parts,
        peak_bytes=peak,
        step_time_ns=own.metrics.step_time_ns,
        extra_time=_more(own.metrics.step_time_ns, once.metrics.step_time_ns),
        num_reruns=own.num_reruns,
        planned_time_ns=None if planned is None else planned.metrics.step_time_ns,
    )


def _more(time_ns: int, before_ns: int) -> float:
    return time_ns / before_ns - 1 if before_ns else 0.0


def _rivals(
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any],
    problem: Problem,
    show: Callable[[str], None],
    *,
    captured: bool,
    accumulated: bool,
) -> Iterator[tuple[str, _Runs]]:
    """Yields what people do without a plan, by name.

    captured: where the module is at hand, also what needs more captures of it; accumulated: with smaller batches and in
    parts.
    """
    yield from _blockings(problem)
    if captured and is_torch_module(model) and len(problem.graph.ops) <= _MOST_OPS:
        show("capturing what torch.compile would compute again")
        yield from _budgets(model, args, kwargs, problem)
        if accumulated:
            show("capturing smaller batches")
            yield from _accumulations(PassCaptures(model, args, kwargs), problem)
            show("capturing the step in parts")
            yield from _in_parts(model, args, kwargs, problem)


def _blockings(problem: Problem) -> Iterator[tuple[str, _Runs]]:
    """Block checkpointing with fewer and fewer blocks."""
    blocks = list(module_blocks(problem.graph).values())
    counts = [count for halvings in range(_NUM_BLOCKINGS) if (count := len(blocks) >> halvings) > 1]
    for count in counts:
        reruns = checkpointed(problem, merged(blocks, count))
        checked = with_reruns(problem, reruns)
        metrics = measure(checked, in_order(checked))
        yield f"{counted(count, 'block')} checkpointed", _Runs(metrics=metrics, num_reruns=len(reruns))


def _budgets(model: Any, args: Any, kwargs: Mapping[str, Any], problem: Problem) -> Iterator[tuple[str, _Runs]]:
    """Yields the step with the reruns that PyTorch's partitioner chooses, for each budget."""
    from placewright.api.memory_budgets import budget_reruns

    for budget, reruns in budget_reruns(model, args, kwargs, problem, _BUDGETS):
        checked = with_reruns(problem, reruns)
        metrics = measure(checked, in_order(checked))
        yield f"budget {budget:g} of torch.compile", _Runs(metrics=metrics, num_reruns=len(reruns))


def _accumulations(captures: PassCaptures, problem: Problem) -> Iterator[tuple[str, _Runs]]:
    """The same samples in several passes, whose gradients are added up; of a module that can be captured for them."""
    for count in (each for each in _ACCUMULATIONS if captures.samples % each == 0):
        try:
            graph = training_step(captures.get(captures.samples // count), "adam", count)
        except InputError:
            return
        whole = replace(make_problem(graph, problem.machine), memory_limits_bytes=(None,))
        name = f"batch {captures.samples // count} x {count}, accumulated"
        yield name, _Runs(metrics=measure(whole, in_order(whole)), num_reruns=0, accumulation=count)


def _in_parts(model: Any, args: Any, kwargs: Mapping[str, Any], problem: Problem) -> Iterator[tuple[str, _Runs]]:
    """Yields the step with a stretch of ops in parts, where that needs less, as `compile` and `fit` do with `split`."""
    from placewright.importers.torch.module import graphs_in_parts

    least = measure(problem, in_order(problem)).peak_memory_bytes
    for name, parts, graph in graphs_in_parts(model, args, kwargs, "adam"):
        whole = replace(make_problem(graph, problem.machine), memory_limits_bytes=(None,))
        metrics = measure(whole, in_order(whole))
        if metrics.peak_memory_bytes < least:
            yield f"{name} in {parts} parts", _Runs(metrics=metrics, num_reruns=0, parts=parts)
