"""Annealing of whole schedules: devices, order of ops and the moments at which tensors leave, for clusters of ops
first, then for the ops themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from placewright import _core
from placewright.errors import InputError
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.budget import Budget, Interrupted, OnProgress
from placewright.search.cluster_list import ClusterList
from placewright.search.pausable import result_of, run
from placewright.search.result import Result, Solution

#: Devices and an order of all ops, both int32 [num scheduled ops].
Placed = tuple[NDArray[np.int32], NDArray[np.int32]]
#: How many candidates of cluster-list are starts where none are given.
_NUM_CLUSTER_LISTS = 3
#: With fewer there is no coarse problem.
_FEWEST_EVALUATIONS = 50
#: Relative to the objective.
_FIRST_PLACEMENT_TEMPERATURE = 0.02
_LAST_PLACEMENT_TEMPERATURE = 0.0005
#: Graphs of fewer ops are not made coarse.
_WORTH_CLUSTERING = 200


@dataclass(frozen=True, kw_only=True)
class ScheduleAnnealing:
    """Simulated annealing (Kirkpatrick, Gelatt & Vecchi 1983) over schedules, with moves evaluated on the disjunctive
    graph (Roy & Sussmann 1964) at the cost of what they change; docs/algorithms.md has the argument and the figures.

    The first part of the budget goes to a coarse problem of clusters, where one move reorders or places many ops: to
    placements whose ops are dispatched anew each time, then to whole schedules. What is found there is a start for the
    ops themselves. With limits, bytes over them never rise.

    ops_per_cluster: how many ops are one op of the coarse problem on average. placement_share, coarse_share: of the
    budget, for placements and for schedules of the coarse problem.
    first_temperature, fine_temperature, last_temperature: in mean times of an op; from the first, or for the ops of a
    problem that was coarse before from the second, to the last, falling geometrically over the budget.
    """

    name: str = "schedule-annealing"
    ops_per_cluster: int = 4
    placement_share: float = 0.2
    coarse_share: float = 0.2
    first_temperature: float = 2.0
    fine_temperature: float = 0.3
    last_temperature: float = 0.02

    def __post_init__(self) -> None:
        if self.ops_per_cluster < 2:
            raise InputError(f"clusters of {self.ops_per_cluster} ops make nothing coarse: at least 2 are needed")
        shares = (self.placement_share, self.coarse_share)
        if min(shares) < 0 or sum(shares) >= 1:
            raise InputError(f"shares of {shares[0]} and {shares[1]} leave nothing for the ops themselves")
        temperatures = (self.first_temperature, self.fine_temperature, self.last_temperature)
        if not all(0 < self.last_temperature <= temperature < float("inf") for temperature in temperatures):
            raise InputError(f"temperatures must be positive and fall, not be {temperatures}")

    def solve(
        self,
        problem: Problem,
        budget: Budget,
        seed: int,
        proposal: Proposal | None = None,
        *,
        seeds: Sequence[Solution] = (),
        on_progress: OnProgress | None = None,
        interrupted: Interrupted | None = None,
    ) -> Result:
        """Anneal from the best of `seeds`, or where none are given from earliest-task-first and cluster-list schedules;
        the proposal does not matter."""
        began = time.perf_counter()
        spent = 0
        starts = [_placed(solution) for solution in seeds] or list(_list_schedules(problem))
        temperature = self.first_temperature
        if problem.core.num_ops >= _WORTH_CLUSTERING and budget.evaluations >= _FEWEST_EVALUATIONS:
            coarse, spent = self._solve_coarse(problem, budget, seed, starts, began, interrupted)
            # As it is, and with its devices only, their ops ordered anew.
            starts = [coarse, (coarse[0], _core.dispatch_order(problem.core, coarse[0])), *starts]
            temperature = self.fine_temperature
        search = self._search(problem.core, starts, seed, temperature)
        # Whatever ends the search, it has seen the first two starts, with tensors sent late and early.
        search.advance(budget.evaluations - spent, at_most=4)
        ran = run(search, self.name, budget, began, on_progress, interrupted, spent=spent)
        result = result_of(self.name, asdict(self), problem, search, ran, _solution(search), seed=seed, began=began)
        return replace(result, evaluations=spent + search.evaluations)

    def _solve_coarse(
        self,
        problem: Problem,
        budget: Budget,
        seed: int,
        starts: Sequence[Placed],
        began: float,
        interrupted: Interrupted | None,
    ) -> tuple[Placed, int]:
        """What the coarse problem's share of the budget finds, for the ops themselves; and the evaluations spent."""
        coarse, cluster_of = _core.coarsen(problem.core, problem.core.num_ops // self.ops_per_cluster)
        by_level = _core.list_schedule(coarse, _core.bottom_level_order(coarse), False)
        projected = [_core.project(problem.core, coarse, cluster_of, *start) for start in starts]
        starts = [*projected, _core.earliest_task_first(coarse), by_level]
        placements = _core.PlacementAnnealing(
            problem=coarse,
            seed=seed,
            starts=[device_of for device_of, _ in starts],
            first_temperature=_FIRST_PLACEMENT_TEMPERATURE,
            last_temperature=_LAST_PLACEMENT_TEMPERATURE,
        )
        share = _part(budget, self.placement_share, 0, time.perf_counter() - began)
        run(placements, self.name, share, began, None, interrupted)
        spent = placements.evaluations
        device_of = placements.best_device_of()
        search = self._search(
            coarse, [*starts, (device_of, _core.dispatch_order(coarse, device_of))], seed, self.first_temperature
        )
        rest = self.coarse_share / (1 - self.placement_share)
        share = _part(budget, rest, spent, time.perf_counter() - began)
        run(search, self.name, share, began, None, interrupted, spent=spent)
        placed = _core.expand(problem.core, coarse, cluster_of, *_placed(_solution(search)))
        return placed, spent + search.evaluations

    def _search(
        self, core: _core.Problem, starts: Sequence[Placed], seed: int, temperature: float
    ) -> _core.ScheduleAnnealing:
        return _core.ScheduleAnnealing(
            problem=core,
            seed=seed,
            starts=list(starts),
            first_temperature=temperature,
            last_temperature=self.last_temperature,
        )


def _part(budget: Budget, share: float, spent: int, elapsed: float) -> Budget:
    """The budget until a share of what is left of it is spent too."""
    seconds = budget.seconds
    return replace(
        budget,
        evaluations=max(1, min(budget.evaluations, spent + int((budget.evaluations - spent) * share))),
        seconds=None if seconds is None else max(1e-3, elapsed + (seconds - elapsed) * share),
    )


def _list_schedules(problem: Problem) -> Iterator[Placed]:
    """By earliest task first and of clusters."""
    yield _core.earliest_task_first(problem.core)
    for candidate in islice(ClusterList().candidates(problem), _NUM_CLUSTER_LISTS):
        yield candidate.device_of, candidate.order


def _placed(solution: Solution) -> Placed:
    return solution.device_of, np.ascontiguousarray(solution.order[solution.order[:, 1] < 0, 0])


def _solution(search: _core.ScheduleAnnealing) -> Solution:
    return Solution(device_of=search.best_device_of(), order=search.best_order())
