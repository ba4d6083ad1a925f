"""REGAL (Paliwal et al. 2020): a policy that has never seen the graph proposes distributions, BRKGA draws from them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from placewright.decoder import DecoderName
from placewright.learning.protocols import Policy
from placewright.learning.regal.configuration import Network
from placewright.learning.regal.features import FEATURE_EVALUATIONS, Context, context_after, search_for_features
from placewright.learning.regal.policy import RegalPolicy
from placewright.learning.shipped import shipped_policy
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search.brkga import Brkga
from placewright.search.budget import Budget, Interrupted, OnProgress, Progress
from placewright.search.pausable import result_of, run
from placewright.search.random_search import RandomSearch
from placewright.search.result import Result, Solution, TracePoint, measure
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Regal:
    """400 evaluations of uniform BRKGA are features for the policy (A.2); the rest of the budget is for BRKGA with its
    proposal, which begins with what the first found where the policy says so. The better of the two is the result.

    policy: None for the one that is shipped for the problem's objective and number of devices. network: of a policy
    that is shipped; "sequence" makes it GAS (section 5.2). search: what draws from the proposal, with the decoder that
    the policy is for; random search makes it IDRS. threads: that evaluate; the result does not depend on it.
    """

    name: str = "regal"
    policy: Policy | None = None
    network: Network = "graph"
    search: Brkga | RandomSearch = field(default_factory=Brkga)
    threads: int = 1

    def takes(self, policy: Policy) -> bool:
        """Whether a policy that is given is of its kind: GAS sees a sequence, all others a graph."""
        is_sequence = policy.family == "regal" and policy.configuration.network == "sequence"
        return policy.family == "regal" and is_sequence == (self.network == "sequence")

    def solve(
        self,
        problem: Problem,
        budget: Budget,
        seed: int,
        proposal: Proposal | None = None,
        *,
        on_progress: OnProgress | None = None,
        interrupted: Interrupted | None = None,
    ) -> Result:
        """Raises InputError for a budget that features alone would spend, and where no policy fits the problem. A
        given proposal does not matter."""
        began = time.perf_counter()
        if budget.evaluations <= FEATURE_EVALUATIONS:
            raise InputError(
                f"a budget of {budget.evaluations} evaluations leaves none to search with: "
                f"the features of '{self.name}' take {FEATURE_EVALUATIONS}"
            )
        policy = cast(RegalPolicy, self.policy or shipped_policy(problem, self.network))
        policy.check(problem)
        decoder = policy.configuration.decoder
        search = search_for_features(problem, seed, decoder)
        first = replace(budget, evaluations=FEATURE_EVALUATIONS)
        ran = run(search, self.name, first, began, on_progress, interrupted, first_batch=self.threads)
        if ran.stopped_because != "evaluations":
            solution = _decoded(problem, search.best_keys(), decoder)
            facts = {"policy": policy.title}
            return result_of(self.name, facts, problem, search, ran, solution, seed=seed, began=began)
        context = context_after(problem, search, decoder, with_leanings=policy.configuration.with_leanings)
        own = policy.guide(problem, context, seed)
        followed = time.perf_counter() - began
        guided = replace(self.search, name=self.name, decoder=decoder, threads=self.threads)
        solve = guided.solve
        if isinstance(guided, Brkga) and policy.configuration.keeps_best:
            solve = partial(guided.solve, seeds=[_decoded(problem, context.keys, decoder)])
        found = solve(
            problem,
            _rest(budget, followed),
            seed,
            own,
            on_progress=None if on_progress is None else partial(_report, on_progress, context, followed),
            interrupted=interrupted,
        )
        return replace(
            _better(problem, context, found, decoder),
            found_by=f"{self.name}: {policy.title}",
            evaluations=FEATURE_EVALUATIONS + found.evaluations,
            seconds=time.perf_counter() - began,
            configuration={**found.configuration, "policy": policy.title},
            trace=_trace(ran.trace, found.trace, followed),
        )


def _rest(budget: Budget, spent: float) -> Budget:
    return replace(
        budget,
        evaluations=budget.evaluations - FEATURE_EVALUATIONS,
        seconds=None if budget.seconds is None else max(1e-3, budget.seconds - spent),
    )


def _report(on_progress: OnProgress, context: Context, followed: float, progress: Progress) -> None:
    """As of both searches together; the second began after so many seconds."""
    over, best = min((progress.bytes_over_limit, progress.best), (context.bytes_over_limit, context.objective))
    on_progress(
        replace(
            progress,
            evaluations=FEATURE_EVALUATIONS + progress.evaluations,
            seconds=followed + progress.seconds,
            best=best,
            bytes_over_limit=over,
        )
    )


def _better(problem: Problem, context: Context, found: Result, decoder: DecoderName) -> Result:
    """The result, with the solution of the search for features where that is better."""
    own = (found.metrics.bytes_over_limit, found.metrics.objective_value(problem.objective))
    if own <= (context.bytes_over_limit, context.objective):
        return found
    solution = _decoded(problem, context.keys, decoder)
    return replace(found, solution=solution, metrics=measure(problem, solution))


def _decoded(problem: Problem, keys: NDArray[np.uint32], decoder: DecoderName) -> Solution:
    device_of, order = problem.core.decode(keys, decoder)
    return Solution(device_of=device_of, order=order)


def _trace(first: tuple[TracePoint, ...], then: tuple[TracePoint, ...], followed: float) -> tuple[TracePoint, ...]:
    """The best of both searches over time."""
    points = list(first)
    for point in then:
        if (point.bytes_over_limit, point.best) < (points[-1].bytes_over_limit, points[-1].best):
            later = replace(
                point, evaluations=FEATURE_EVALUATIONS + point.evaluations, seconds=followed + point.seconds
            )
            points.append(later)
    return tuple(points)
