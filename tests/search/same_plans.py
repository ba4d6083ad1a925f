"""Digests of what every method makes of 23 small problems, and of what every shipped policy proposes for its own.
Learned placers are left out: another processor rounds differently while they learn, and they then draw other
placements.

Code that must change no plan is held to these digests. `python tests/search/same_plans.py` writes `same_plans.json`
anew after an intended change of plans.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from same_problems import PROBLEMS

from placewright.lab.learning.regal.features import context_of
from placewright.lab.learning.regal.policy import RegalPolicy
from placewright.lab.learning.rule.policy import RulePolicy, rule_names
from placewright.lab.learning.shipped import shipped_names
from placewright.lab.methods import PLACERS
from placewright.lab.peers.cp_sat import CP_SAT_COLD, CpSat, CpWindows
from placewright.methods.policy_file import find_policy
from placewright.methods.table import ENTRIES, METHODS, make_method
from placewright.plans.assemble import assemble_plan
from placewright.problem import Problem
from placewright.problem.objective import Metrics
from placewright.proposal import Proposal
from placewright.search.run.budget import Budget
from placewright.search.run.method import Method
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.support.modules import load_extensions

load_extensions()
GUIDED = ("regal", "idrs", "gas", "rule")
FILE = Path(__file__).with_suffix(".json")
#: More than the 400 evaluations that the features of a policy take.
EVALUATIONS = 500
#: A second budget for searches of cheap moves: enough for the rounds and the proofs that `auto` ends with.
MANY_EVALUATIONS = 5_000
SEARCHES_OF_MOVES = ("auto", "peak-search", "schedule-annealing", "superstep-annealing")
#: With one worker, and a limit in its own deterministic time, one version of OR-tools gives the same answer each time.
#: Larger models take longer than all else together.
CP_METHODS: dict[str, Method] = {
    "cp-sat": CpSat(effort=0.02),
    "cp-sat-cold": replace(CP_SAT_COLD, effort=0.02),
    "cp-windows": CpWindows(effort=0.01, total_effort=0.05),
}
MAX_OPS_FOR_CP = {"cp-sat": 43, "cp-sat-cold": 43, "cp-windows": 60}
#: Another processor may sum the products of a policy's network in another order, and its float32 numbers then differ by
#: some 1e-6 of their size. Actions are drawn from them, so what is drawn is compared exactly, and only where weights
#: that are off by ten times as much draw the same: each problem has the first seed with which they do.
RELATIVE_ERROR = 1e-5
NUM_ERRONEOUS = 3


def solutions(problem: Problem, seed: int) -> dict[str, str]:
    """Return described results by method: those of `_methods`, and searches of moves with more evaluations."""
    made = {name: _solved(problem, method, EVALUATIONS, seed) for name, method in _methods(problem)}
    for name in SEARCHES_OF_MOVES:
        made[f"{name} {MANY_EVALUATIONS}"] = _solved(problem, METHODS[name], MANY_EVALUATIONS, seed)
    return made


def _solved(problem: Problem, method: Method, evaluations: int, seed: int) -> str:
    return _described(problem, method.solve(problem, SearchRun(Budget(evaluations=evaluations), seed=seed)))


def _methods(problem: Problem) -> Iterator[tuple[str, Method]]:
    for name in sorted(ENTRIES.keys() & METHODS.keys()):
        if name in GUIDED:
            for policy in _policies(problem):
                with suppress(InputError):  # the method does not take the policy
                    yield f"{name}:{policy.name}", make_method(name, policy=policy)
        elif name not in CP_METHODS and name not in PLACERS:
            yield name, METHODS[name]
        elif name in CP_METHODS and problem.core.num_ops <= MAX_OPS_FOR_CP[name] and ortools_version() is not None:
            yield name, CP_METHODS[name]


def _described(problem: Problem, result: Result) -> str:
    """Return what a reader compares, then a digest of all but the trace, which depends on the clock."""
    plan = assemble_plan(problem, result, solver=result.method, seconds=0.0)
    facts = [
        plan.status,
        f"{plan.metrics.step_time_ns} ns",
        f"{plan.metrics.peak_memory_bytes} bytes",
        f"{plan.evaluations} evaluations",
        plan.stopped_because,
    ]
    digest = _digest(
        [result.solution.device_of.tolist(), result.solution.order.tolist()],
        [[op.name, op.device, op.position, op.start_ns, op.finish_ns] for op in plan.ops],
        [[move.tensor, move.source, move.destination, move.start_ns, move.finish_ns] for move in plan.transfers],
        [plan.lower_bound, plan.bound_reason, plan.memory_floor_bytes, _costs(plan.metrics), facts],
        [[baseline.name, _costs(baseline.metrics)] for baseline in plan.baselines],
    )
    return ", ".join([*facts, digest])


def _costs(metrics: Metrics | None) -> list[Any]:
    assert metrics is not None
    costs = [metrics.step_time_ns, metrics.bytes_over_limit, metrics.bytes_moved, metrics.num_transfers]
    return [*costs, *metrics.peak_bytes, *metrics.busy_ns]


def proposals(problem: Problem, seed: int) -> dict[str, str]:
    """Return a digest of the distributions proposed by each shipped policy that takes such a problem."""
    return {policy.name: _proposed(policy, problem, seed) for policy in _policies(problem)}


def _policies(problem: Problem) -> Iterator[RegalPolicy | RulePolicy]:
    for name in (*shipped_names(), *rule_names()):
        policy = find_policy(name)
        assert isinstance(policy, RegalPolicy | RulePolicy)
        with suppress(InputError):
            policy.check(problem)
            yield policy


def _proposed(policy: RegalPolicy | RulePolicy, problem: Problem, seed: int) -> str:
    own = policy.configuration
    context = context_of(problem, seed, own.decoder, with_affinities=own.with_affinities)
    return _proposal_digest(policy.guide(problem, context, seed))


def _proposal_digest(proposal: Proposal) -> str:
    return _digest(proposal.alpha.tolist(), proposal.beta.tolist(), proposal.row.tolist(), proposal.elite_bias)


def _digest(*facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def robust_seed(problem: Problem) -> int:
    """Return the first seed with which small errors in the weights change no policy's proposal."""
    for seed in count(7):
        expected = proposals(problem, seed)
        if all(_proposed(policy, problem, seed) == expected[name] for name, policy in _erroneous(expected)):
            return seed
    raise AssertionError


def _erroneous(names: dict[str, str]) -> Iterator[tuple[str, RegalPolicy]]:
    random = np.random.default_rng(0)
    for name in names:
        policy = find_policy(name)
        if not isinstance(policy, RegalPolicy):
            continue  # a rule has no weights
        for _ in range(NUM_ERRONEOUS):
            weights = {
                key: (value * (1 + RELATIVE_ERROR * random.standard_normal(value.shape))).astype(np.float32)
                for key, value in policy.weights.items()
            }
            yield name, replace(policy, weights=weights)


def ortools_version() -> str | None:
    try:
        return version("ortools")
    except PackageNotFoundError:
        return None


def main() -> None:
    recorded: dict[str, Any] = {"ortools": ortools_version(), "problems": {}}
    for name, make in PROBLEMS.items():
        problem = make()
        seed = robust_seed(problem)
        recorded["problems"][name] = {
            "seed": seed,
            "solutions": solutions(problem, seed),
            "proposals": proposals(problem, seed),
        }
    FILE.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
