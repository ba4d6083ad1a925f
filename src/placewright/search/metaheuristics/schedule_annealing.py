"""Annealing of whole schedules: devices, order of ops and times at which tensors are sent, first for clusters of ops,
then for the ops themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.cluster_list import ClusterList
from placewright.search.constructive.inputs_aside import scopes
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution, measure
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError

#: Devices and an order of all ops, both int32 [num scheduled ops].
Placed = tuple[NDArray[np.int32], NDArray[np.int32]]
#: The number of candidates of cluster-list that are starts if none are given.
_NUM_CLUSTER_LISTS = 3
#: With fewer evaluations there is no coarse problem.
_FEWEST_EVALUATIONS = 50
#: Graphs of fewer ops are not coarsened.
_WORTH_CLUSTERING = 200


@dataclass(frozen=True, kw_only=True)
class ScheduleAnnealing:
    """Simulated annealing (Kirkpatrick, Gelatt & Vecchi 1983) over schedules, with moves evaluated on the disjunctive
    graph (Roy & Sussmann 1964) at the cost of what they change; docs/algorithms.md has the argument.

    The first two fifths of the budget go to coarse problems of clusters, each finer than the one before, where one move
    reorders or places many ops. Their results are starts for the ops themselves. With limits, bytes over them never
    rise.

    ops_per_cluster: mean number of ops in one op of each coarse problem. coarse_share: share of the budget for each.
    first_temperature, fine_temperature, last_temperature: in mean times of an op; from the first, or for the ops of a
    problem that was coarse before from the second, to the last, falling geometrically over each part of the budget.
    move_weights: how often moves change devices, the order on a device, when a tensor is sent, and exchange two ops.
    """

    name: str = "schedule-annealing"
    ops_per_cluster: tuple[int, ...] = (4, 2)
    coarse_share: float = 0.2
    first_temperature: float = 2.0
    fine_temperature: float = 1.0
    last_temperature: float = 0.02
    move_weights: tuple[int, int, int, int] = (45, 40, 8, 7)

    def __post_init__(self) -> None:
        if any(ops < 2 for ops in self.ops_per_cluster):
            raise InputError(f"clusters of {min(self.ops_per_cluster)} ops make nothing coarse: at least 2 are needed")
        if self.coarse_share < 0 or len(self.ops_per_cluster) * self.coarse_share >= 1:
            raise InputError(f"a share of {self.coarse_share} for each coarse problem leaves nothing for the ops")
        temperatures = (self.first_temperature, self.fine_temperature, self.last_temperature)
        if not all(0 < self.last_temperature <= temperature < float("inf") for temperature in temperatures):
            raise InputError(f"temperatures must be positive and fall, not be {temperatures}")
        if min(self.move_weights) < 0 or not 0 < sum(self.move_weights) < 2**32:
            raise InputError(f"weights of moves must be at least 0 and not all 0, not {self.move_weights}")

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Anneal from the best of the run's initial solutions, or if it has none, from earliest-task-first and
        cluster-list schedules."""
        starts = [_placed(solution) for solution in run.initial_solutions] or list(_list_schedules(problem))
        temperature = self.first_temperature
        if problem.core.num_ops >= _WORTH_CLUSTERING and run.budget.evaluations >= _FEWEST_EVALUATIONS:
            starts = self._solve_coarse(problem, run, starts)
            temperature = self.fine_temperature
        search = self._search(problem.core, starts, run.seed, temperature)
        # However early the search ends, it has seen two starts per coarse problem, with tensors sent late and early.
        search.advance(run.evaluations_left, at_most=4 * max(1, len(self.ops_per_cluster)))
        reason = drive(run, search, self.name)
        run.work += search.work
        solution = _with_inputs_first(problem, _solution(search))
        return run.result(problem, self.name, solution, stopped_because=reason, configuration=settings_of(self))

    def _solve_coarse(self, problem: Problem, run: SearchRun, starts: list[Placed]) -> list[Placed]:
        """Return the solutions of the coarse problems followed by the starts, the best first.

        With memory limits the first coarse problem is solved as if there were none: a way around the limits, starting
        from the best solution without them, often leads elsewhere than a search within them. If that solution exceeds a
        limit, it is a start of its own.
        """
        beyond_limits: list[Placed] = []
        for level, ops_per_cluster in enumerate(self.ops_per_cluster):
            clusters = _Clusters(problem.core, ops_per_cluster)

            def anneal(
                starts: Sequence[Placed], until: float, clusters: _Clusters = clusters, ignores_limits: bool = False
            ) -> Placed:
                search = self._search(clusters.core, starts, run.seed, self.first_temperature, ignores_limits)
                drive(run.part_until(until * self.coarse_share), search, self.name)
                run.work += search.work
                return clusters.expand(_placed(_solution(search)))

            placed = [*map(clusters.project, starts), *clusters.lists()]
            if level == 0 and _limits_memory(problem) and len(self.ops_per_cluster) > 1:
                found = [anneal(placed, 0.5, ignores_limits=True)]
                _, fitness, evaluations = _core.best_transfers(problem.core, *found[0], 2)
                run.spend(evaluations)
                if fitness[0] > 0:
                    beyond_limits, found = found, []
            else:
                found = [anneal([clusters.project(start)], level + 0.25) for start in beyond_limits]
                found.append(anneal(placed, level + 1))
            # Unchanged, and with their devices only and their ops ordered anew.
            anew = [(device_of, _core.dispatch_order(problem.core, device_of)) for device_of, _ in found]
            starts = [*found, *anew, *starts]
        return starts

    def _search(
        self,
        core: _core.Problem,
        starts: Sequence[Placed],
        seed: int,
        temperature: float,
        ignores_limits: bool = False,
    ) -> _core.ScheduleAnnealing:
        return _core.ScheduleAnnealing(
            problem=core,
            seed=seed,
            starts=list(starts),
            first_temperature=temperature,
            last_temperature=self.last_temperature,
            ignores_limits=ignores_limits,
            move_weights=self.move_weights,
        )


class _Clusters:
    """A coarse problem, `core`, with conversions of solutions between it and the fine problem."""

    def __init__(self, fine: _core.Problem, ops_per_cluster: int) -> None:
        self._fine = fine
        self.core, self._cluster_of = _core.coarsen(fine, fine.num_ops // ops_per_cluster)

    def project(self, start: Placed) -> Placed:
        return _core.project(self._fine, self.core, self._cluster_of, *start)

    def expand(self, found: Placed) -> Placed:
        return _core.expand(self._fine, self.core, self._cluster_of, *found)

    def lists(self) -> Iterator[Placed]:
        """Yield schedules by earliest task first and by bottom level."""
        for scope in scopes(self.core):
            yield scope.with_inputs(*_core.earliest_task_first(scope.core))
            yield scope.with_inputs(*_core.list_schedule(scope.core, _core.bottom_level_order(scope.core), False))


def _limits_memory(problem: Problem) -> bool:
    """True if the time is to be minimized within limits that some plan exceeds."""
    return problem.objective == "step-time" and problem.core.needs_memory


def _list_schedules(problem: Problem) -> Iterator[Placed]:
    """Yield schedules by earliest task first and of clusters."""
    for scope in scopes(problem.core):
        yield scope.with_inputs(*_core.earliest_task_first(scope.core))
    for candidate in islice(ClusterList().candidates(problem), _NUM_CLUSTER_LISTS):
        yield candidate.device_of, candidate.order


def _placed(solution: Solution) -> Placed:
    return solution.device_of, np.ascontiguousarray(solution.order[solution.order[:, 1] < 0, 0])


def _solution(search: _core.ScheduleAnnealing) -> Solution:
    device_of, order = search.best()
    return Solution(device_of=device_of, order=order)


def _with_inputs_first(problem: Problem, found: Solution) -> Solution:
    """Return the better of the solution and a variant with inputs for other devices at the beginning: moves leave an
    input late where that delays nothing that matters yet."""
    order = _core.with_remote_inputs_first(problem.core, found.device_of, found.order)
    if np.array_equal(order, found.order):
        return found
    solutions = (found, Solution(device_of=found.device_of, order=order))
    return min(solutions, key=lambda solution: measure(problem, solution).fitness(problem.objective))
