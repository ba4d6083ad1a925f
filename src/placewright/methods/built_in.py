"""The methods that plan for users, each with its description and default budget. Methods of papers belong to the
laboratory (`placewright.lab.methods`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from placewright.methods.policies import Policy
from placewright.problem import Problem
from placewright.search import default_budget
from placewright.search.auto import Auto
from placewright.search.constructive.baselines import BASELINES
from placewright.search.metaheuristics.peak_search import PeakSearch
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.metaheuristics.superstep_annealing import SuperstepAnnealing
from placewright.search.run.budget import key_search_evaluations
from placewright.search.run.method import Method

#: "baseline": `auto` runs it first. "search of auto": `auto` may run it afterwards. "guided": by a policy. "peer": of
#: other authors, for comparison. "learner": learns on the given graph. "own": registered from outside.
Kind = Literal["default", "baseline", "search of auto", "guided", "peer", "learner", "own"]


def paper_evaluations(problem: Problem) -> int:
    """Return the budget of the paper, less for large problems."""
    return key_search_evaluations(problem.core.num_keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEntry:
    """The description of a method for users, and its options.

    summary: one line for the list that users choose from; docs/algorithms.md has the details. needs: its requirements
    besides placewright; "" for none. default_evaluations: the budget where none is given. evaluations_with_policy: the
    budget with a policy. with_policy: makes the method with a policy; returns None for a policy that it does not take.
    needs_policy: True if it does nothing without one. tries_placements: True if it has a setting `time_of`, a function
    of problem and solution that measures a step in ns, instead of the simulation.
    """

    method: Method
    kind: Kind
    summary: str
    needs: str = ""
    default_evaluations: Callable[[Problem], int] = paper_evaluations
    evaluations_with_policy: Callable[[Problem], int] | None = None
    with_policy: Callable[[Policy], Method | None] | None = None
    needs_policy: bool = False
    tries_placements: bool = False


_BASELINES = {
    "input-order": "the captured order on one device",
    "single-device": "the best of the simple orders on the best single device",
    "dfs": "depth first on one device, as XLA orders ops",
    "bfs": "first in, first out on one device",
    "lpmf": "least peak memory first on one device, as PyTorch Inductor orders ops",
    "xla-list": "XLA's list scheduler for memory on one device",
    "reverse-greedy": "from the last op backwards, least memory first, on one device",
    "contiguous-split": "one run of ops per device, by memory, as in a pipeline",
    "list": "list scheduling by the longest way to the end, each op where it finishes first",
    "etf": "earliest task first (Hwang et al. 1989)",
    "segment-fill": "runs of ops that follow each other, dealt to the devices",
    "heft": "heterogeneous earliest finish time (Topcuoglu et al. 2002)",
    "cpop": "critical path on a processor (Topcuoglu et al. 2002)",
    "insertion": "HEFT whose tensors queue at the links, with and without a look ahead",
    "cluster-list": "list scheduling of clusters of ops",
    "cluster-partition": "graph partitioning of clusters of ops",
    "layers": "whole layers on devices, at all time steps; moves of layers and of parts of them",
}


def _entries() -> Iterator[MethodEntry]:
    """Yield the entries in the order of the list."""
    yield MethodEntry(
        method=Auto(),
        kind="default",
        summary="every baseline, then the search that fits the problem; the best of all",
        default_evaluations=default_budget.default_evaluations,
    )
    for baseline in BASELINES:
        yield MethodEntry(method=baseline, kind="baseline", summary=_BASELINES[baseline.name])
    for search, summary in (
        (ScheduleAnnealing(), "annealing of a schedule by moves of single ops"),
        (SuperstepAnnealing(), "annealing for machines whose transfers are free and block"),
        (PeakSearch(), "search for the least peak memory, with a proof on small graphs"),
    ):
        yield MethodEntry(method=search, kind="search of auto", summary=summary)


OWN = tuple(_entries())
