"""CP-SAT of OR-tools (Perron and Didier 2024): from a warm start the strongest search for small graphs, and proofs."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.bounds import lower_bound
from placewright.lab.peers.cp_sat.best import LEAST_SECONDS, Best
from placewright.lab.peers.cp_sat.require import require_ortools
from placewright.lab.peers.cp_sat.structure import Formulation, structure_of
from placewright.problem import Problem
from placewright.problem.objective import StopReason
from placewright.search.auto import Auto
from placewright.search.constructive.one_device import SingleDevice
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError

MAX_WORKERS = 1024
#: Share of a time limit for the warm start: without a good one CP-SAT is behind `auto` from some 45 ops on.
_WARM_SHARE = 0.2


@dataclass(frozen=True, kw_only=True)
class CpSat:
    """A search that runs `auto` for a fifth of the time, then CP-SAT from its plan. Only the former counts as
    evaluations.

    Without a warm start CP-SAT has all of the time and gets no hint. The plan of one device then gives the upper limit
    on the objective.

    Where no model fits, the start is returned unchanged, "complete": for peak memory with overlapped transfers on
    several devices, problems too large for a model, and step time where the start keeps no memory limit. Memory limits
    are part of the models of peak memory; those of step time leave them out, and solutions that break one are skipped.

    warm_evaluations: the most evaluations before CP-SAT starts, and never more than the budget has.
    effort: of CP-SAT where the budget has no time limit, in its own deterministic measure, about seconds; so that the
        result is reproducible with one worker.
    workers: threads of CP-SAT; with more than one the result depends on their timing.
    """

    name: str = "cp-sat"
    warm_start: bool = True
    warm_evaluations: int = 100_000
    effort: float = 60.0
    workers: int = 1

    def __post_init__(self) -> None:
        if self.warm_evaluations < 1:
            raise InputError(f"{self.warm_evaluations} evaluations start no search: at least 1 is needed")
        if not 0 < self.effort < float("inf"):
            raise InputError(f"an effort of {self.effort} is not a positive number")
        if not 1 <= self.workers <= MAX_WORKERS:
            raise InputError(f"{self.workers} workers cannot search: from 1 to {MAX_WORKERS} can")

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does. Raises MissingExtraError without OR-tools."""
        require_ortools(self.name)
        start = self._start(problem, run)
        best = Best(problem, run, start, self.name)
        reason = _reason_to_skip(problem, start, run)
        formulation = None if reason else _formulate(problem, start, self.warm_start)
        if formulation is not None:
            reason = self._improve(best, formulation, problem, run)
        return run.result(
            problem,
            self.name,
            stopped_because=reason or "complete",
            configuration=settings_of(self),
            proven_bound=best.proven_bound,
            baselines=start.baselines,
        )

    def _start(self, problem: Problem, run: SearchRun) -> Result:
        if not self.warm_start:
            return SingleDevice().solve(problem, run.part(evaluations=1))
        seconds = None if run.seconds_left is None else _WARM_SHARE * run.seconds_left
        return Auto().solve(problem, run.part(evaluations=self.warm_evaluations, seconds=seconds, threads=1))

    def _improve(self, best: Best, formulation: Formulation, problem: Problem, run: SearchRun) -> StopReason:
        """Run CP-SAT with the rest of the budget; return why it stopped."""
        from placewright.lab.peers.cp_sat.running import Limits, solve_model

        left = None if run.seconds_left is None else max(LEAST_SECONDS, run.seconds_left)
        limits = Limits(seconds=left, effort=self.effort, workers=self.workers, seed=run.seed)

        def offer(solution: Solution) -> None:
            found_by = f"{self.name}: {formulation.name}"
            run.offer(problem, solution, self.name, found_by=found_by, evaluations=0)

        ended = solve_model(formulation, limits, offer, run.is_interrupted)
        best.learn(ended.bound if formulation.bounds_all else None)
        if best.is_optimal:
            return "optimal"
        if ended.interrupted:
            return "interrupted"
        return "complete" if ended.exhausted or left is None else "time"


CP_SAT_COLD = CpSat(name="cp-sat-cold", warm_start=False)


def _reason_to_skip(problem: Problem, start: Result, run: SearchRun) -> StopReason | None:
    """Return why CP-SAT need not or may not run: "complete" where its models do not apply; None where it can run."""
    if start.stopped_because in ("optimal", "infeasible", "interrupted"):
        return start.stopped_because
    if run.seconds_left is not None and run.seconds_left <= 0:
        return "time"
    if problem.objective == "step-time" and start.metrics.bytes_over_limit > 0:
        return "complete"
    return None


def _formulate(problem: Problem, start: Result, is_hint: bool) -> Formulation | None:
    """Return the first model that fits, None without one. A solution may be as good as the start, but no worse."""
    from placewright.lab.peers.cp_sat import intervals, memory, parallel, segments

    structure, at_least = structure_of(problem), lower_bound(problem).value
    hint = start.solution if is_hint else None
    at_most = start.metrics.objective_value(problem.objective)
    if problem.objective == "peak-memory":
        if start.metrics.bytes_over_limit > 0:
            at_most = memory.max_bytes(structure)
        if not memory.fits(structure, hint):
            return None
        return memory.formulate(structure, hint, at_least, at_most)
    small = [intervals] if intervals.proves(structure) else []
    for model in (parallel, *small, segments, intervals):
        if model.fits(structure, hint):
            formulation: Formulation = model.formulate(structure, hint, at_least, at_most)
            return formulation
    return None
