"""Placements as rows: a method by its name, what it finds, and what the checker reports."""

from __future__ import annotations

import time
from collections.abc import Sequence

from placewright.lab.bench.protocol import Run, WrongPlanError, row_of
from placewright.lab.bench.rows import Row
from placewright.lab.learning.guided import Regal
from placewright.lab.learning.verdict import verdict_on
from placewright.lab.methods import GUIDED
from placewright.methods.policies import Policy, family_of
from placewright.methods.policy_file import find_policy
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.problem import Problem
from placewright.search.run.method import Method
from placewright.search.run.search_run import SearchRun
from placewright.verification.checker import check_plan


def method_of(solver: str, policies: Sequence[Policy] = ()) -> Method:
    """Return the method that a run names. Raises InputError for an unknown solver or policy."""
    return make_method(solver.partition(":")[0], policy=policy_of(solver, policies))


def policy_of(solver: str, policies: Sequence[Policy] = ()) -> Policy | None:
    """Return the policy that guides the method that a run names: the policy after a colon, by name or path, else the
    first of the policies that fits the method. None where no policy guides it, or the shipped policy for the problem
    does.

    Raises InputError where there is no such policy.
    """
    name, colon, policy = solver.partition(":")
    if colon:
        return find_policy(policy)
    return next((policy for policy in policies if name in GUIDED and GUIDED[name].takes(policy)), None)


def plan_row(problem: Problem, label: str, run: Run, policies: Sequence[Policy], optimum: int) -> Row:
    """Solve a problem and check the plan. Raises WrongPlanError with the checker's complaints."""
    policy = policy_of(run.solver, policies)
    method = make_method(run.solver.partition(":")[0], policy=policy)
    began = time.process_time()
    result = method.solve(problem, SearchRun(run.budget, seed=run.seed))
    # Processor time, not wall time: other load on the machine then matters little.
    seconds = time.process_time() - began
    plan = assemble_plan(problem, result, solver=run.solver, seconds=seconds)
    if complaints := check_plan(plan, problem.graph, problem.time_ns):
        raise WrongPlanError("; ".join(complaints[:3]))
    guide = method.policy_for(problem) if isinstance(method, Regal) else policy
    metrics = plan.metrics
    return row_of(
        plan,
        label,
        run,
        objective=metrics.objective_value(plan.objective),
        step_time_ns=metrics.step_time_ns,
        peak_memory_bytes=metrics.peak_memory_bytes,
        bytes_over_limit=metrics.bytes_over_limit,
        bound=max(plan.lower_bound, optimum),
        trained=training_of(guide) if guide is not None else "",
    )


RULE = "a rule, no network"
UNKNOWN = "not recorded"


def training_of(policy: Policy) -> str:
    """Describe a policy's training: "imitation", its family's algorithm ("REINFORCE", say), "imitation, then
    REINFORCE", that it is a rule, or that its record does not say. After a semicolon comes the verdict on its training,
    where there is one (verdict.py)."""
    if not policy.weights:
        return RULE
    training = policy.record.get("training")
    steps = policy.record.get("step")
    if not isinstance(training, dict) or not isinstance(steps, int):
        return UNKNOWN
    imitated = training.get("imitation_steps")
    if not isinstance(imitated, int):
        return UNKNOWN
    if imitated >= steps:
        return "imitation"
    algorithm = family_of(policy.family).algorithm
    how = f"imitation, then {algorithm}" if imitated else algorithm
    learned = policy.record.get("learned")
    verdict = verdict_on(learned) if isinstance(learned, dict) else ""
    return f"{how}; {verdict}" if verdict else how
