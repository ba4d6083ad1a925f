"""What one worker process does: solves an instance with one method after another and checks every plan."""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from placewright.bench.rows import Key, Row
from placewright.bench.suite import Suite, read_suite
from placewright.learning.guided import Regal
from placewright.learning.how_trained import training_of
from placewright.learning.protocols import Policy
from placewright.learning.shipped import find_policy
from placewright.methods.built_in import GUIDED
from placewright.methods.plugins import load_plugins
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.method import Method
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import MissingExtraError, PlacewrightError
from placewright.support.processes import end_with_parent
from placewright.verification.checker import check_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A solver under its limits, None for none, with one seed. code: of the solver (code_version.py)."""

    solver: str
    evaluations: int | None
    seconds: float | None
    seed: int
    code: str = ""

    def key(self, label: str) -> Key:
        """Of the row this run gives on the instance of that label."""
        return (label, self.solver, self.evaluations, self.seconds, self.seed)

    @property
    def budget(self) -> Budget:
        return Budget(evaluations=self.evaluations or UNLIMITED, seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All runs that are wanted of one instance, by its index in the suite."""

    instance: int
    label: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that gives no row, with the reason; run is None where none of the job's can be made."""

    label: str
    run: Run | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the whole work must end: a solver's package is missing, or the suite cannot be read any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a job."""


Message = Row | Failure | Refusal | Done


def serve(
    suite_path: Path,
    devices: str | None,
    dims: Mapping[str, int],
    plugins: Sequence[Path],
    connection: Connection,
) -> None:
    """The main function of a worker: takes jobs from the connection and answers with messages until the parent ends."""
    # The parent hears Ctrl-C too and ends its workers; until here they were started with it blocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        for message in _answers(suite_path, devices, dims, plugins, connection):
            connection.send(message)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # The parent is gone; what it kept is kept.


def _answers(
    suite_path: Path,
    devices: str | None,
    dims: Mapping[str, int],
    plugins: Sequence[Path],
    connection: Connection,
) -> Iterator[Message]:
    try:
        load_plugins(plugins)
        suite = read_suite(suite_path, devices, dims)
    except PlacewrightError as error:
        yield Refusal(reason=str(error))
        return
    while True:
        yield from _messages(suite, connection.recv())
        yield Done()


def _messages(suite: Suite, job: Job) -> Iterator[Message]:
    try:
        problem = suite.problem(suite.graph(job.instance))
    except PlacewrightError as error:
        yield Failure(label=job.label, run=None, reason=str(error))
        return
    assert problem.core.num_ops > 0  # The core's problem is made here, so that no method's time includes it.
    for run in job.runs:
        try:
            yield _row(problem, job.label, run, suite)
        except MissingExtraError as error:
            yield Refusal(reason=str(error))
        except _WrongPlanError as error:
            yield Failure(label=job.label, run=run, reason=f"WRONG PLAN: {error}")
        except PlacewrightError as error:
            yield Failure(label=job.label, run=run, reason=str(error))
        except Exception:
            # Whatever a method throws is its defect; the other rows are worth having, and the reason is kept.
            yield Failure(label=job.label, run=run, reason=traceback.format_exc().strip())


class _WrongPlanError(Exception):
    """The checker refutes a plan."""


def _row(problem: Problem, label: str, run: Run, suite: Suite) -> Row:
    """Solves and checks. Raises _WrongPlanError with what the checker says."""
    method = method_of(run.solver, suite.policies)
    began = time.process_time()
    result = method.solve(problem, SearchRun(run.budget, seed=run.seed))
    # Of the processor, not of the wall: what else the machine does then matters little.
    seconds = time.process_time() - began
    plan = assemble_plan(problem, result, solver=run.solver, seconds=seconds)
    if complaints := check_plan(plan, problem.graph, problem.time_ns):
        raise _WrongPlanError("; ".join(complaints[:3]))
    trained = training_of(method.policy_for(problem)) if isinstance(method, Regal) else ""
    return _row_of(plan, label, run, suite.optima.get(label, 0), trained)


def method_of(solver: str, policies: Sequence[Policy] = ()) -> Method:
    """The method that a run names. Raises InputError for a solver or policy there is none of."""
    return make_method(solver.partition(":")[0], policy=policy_of(solver, policies))


def policy_of(solver: str, policies: Sequence[Policy] = ()) -> Policy | None:
    """What guides the method that a run names: the policy after a colon, by name or path, else of the policies the one
    with its network; None where nothing does, or the policy that is shipped for the problem.

    Raises InputError where there is no such policy.
    """
    name, colon, policy = solver.partition(":")
    if colon:
        return find_policy(policy)
    return next((policy for policy in policies if name in GUIDED and GUIDED[name].takes(policy)), None)


def _row_of(plan: Plan, label: str, run: Run, optimum: int, trained: str) -> Row:
    return Row(
        graph=label,
        num_ops=len(plan.ops),
        solver=run.solver,
        evaluations_limit=run.evaluations,
        time_limit_s=run.seconds,
        seed=run.seed,
        objective=plan.metrics.objective_value(plan.objective),
        step_time_ns=plan.metrics.step_time_ns,
        peak_memory_bytes=plan.metrics.peak_memory_bytes,
        bytes_over_limit=plan.metrics.bytes_over_limit,
        bound=max(plan.lower_bound, optimum),
        evaluations=plan.evaluations,
        seconds=round(plan.seconds, 6),
        status=plan.status,
        found_by=plan.found_by,
        stopped_because=plan.stopped_because,
        version=plan.version,
        code=run.code,
        trained=trained,
    )
