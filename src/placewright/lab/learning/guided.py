"""REGAL (Paliwal et al. 2020): a policy that has never seen the graph proposes distributions, BRKGA draws from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from placewright.decoder import DecoderName
from placewright.lab.learning.regal.configuration import Network
from placewright.lab.learning.regal.features import FEATURE_EVALUATIONS, context_after, search_for_features
from placewright.lab.learning.regal.policy import RegalPolicy
from placewright.lab.learning.rule.policy import RulePolicy, shipped_rule
from placewright.lab.learning.shipped import shipped_policy
from placewright.lab.peers.brkga import Brkga
from placewright.lab.peers.random_search import RandomSearch
from placewright.methods.policies import Policy
from placewright.problem import Problem
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Regal:
    """A search guided by a policy. 400 evaluations of uniform BRKGA give features for the policy (A.2); the rest of the
    budget is for BRKGA with its proposal, which starts from the first search's best plan where the policy says so. The
    better of the two plans is the result.

    policy: None for the shipped one for the problem's objective and number of devices. family: of the policies that it
    accepts; those of "rule" have no network. network: of a shipped policy; "sequence" makes it GAS (section 5.2).
    search: draws from the proposal, with the decoder that the policy is for; random search makes it IDRS.
    """

    name: str = "regal"
    policy: Policy | None = None
    family: Literal["regal", "rule"] = "regal"
    network: Network = "graph"
    search: Brkga | RandomSearch = field(default_factory=Brkga)

    def takes(self, policy: Policy) -> bool:
        """True if a given policy is of its kind: GAS reads a sequence, all others a graph."""
        is_sequence = policy.family == "regal" and policy.configuration.network == "sequence"
        return policy.family == self.family and is_sequence == (self.network == "sequence")

    def policy_for(self, problem: Problem) -> RegalPolicy | RulePolicy:
        """Return the given policy, else the shipped one. Raises InputError where none is for such a problem."""
        if self.policy is not None:
            return cast(RegalPolicy | RulePolicy, self.policy)
        return shipped_rule(problem) if self.family == "rule" else shipped_policy(problem, self.network)

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does. Raises InputError for a budget that features alone would spend, and where no
        policy fits the problem."""
        if run.budget.evaluations <= FEATURE_EVALUATIONS:
            raise InputError(
                f"a budget of {run.budget.evaluations} evaluations leaves none to search with: "
                f"the features of '{self.name}' take {FEATURE_EVALUATIONS}"
            )
        policy = self.policy_for(problem)
        policy.check(problem)
        own = policy.configuration
        search = search_for_features(problem, run.seed, own.decoder)
        features = run.part(evaluations=FEATURE_EVALUATIONS)
        reason = drive(features, search, self.name, first_batch=run.threads)
        best, settings = _decoded(problem, search.best_keys(), own.decoder), {"policy": policy.title}
        if reason != "evaluations":
            return run.result(problem, self.name, best, stopped_because=reason, configuration=settings)
        context = context_after(problem, search, own.decoder, with_affinities=own.with_affinities)
        found = replace(self.search, name=self.name, decoder=own.decoder).solve(
            problem,
            run.part(
                guide=policy.guide(problem, context, run.seed), initial_solutions=[best] if own.warm_start else ()
            ),
        )
        reached = (found.metrics.bytes_over_limit, found.metrics.objective_value(problem.objective))
        if reached <= (context.bytes_over_limit, context.objective):
            best = found.solution
        result = run.result(
            problem,
            self.name,
            best,
            stopped_because=found.stopped_because,
            configuration={**found.configuration, **settings},
        )
        return replace(result, found_by=f"{self.name}: {policy.title}")


def _decoded(problem: Problem, keys: NDArray[np.uint32], decoder: DecoderName) -> Solution:
    device_of, order = problem.core.decode(keys, decoder)
    return Solution(device_of=device_of, order=order)
