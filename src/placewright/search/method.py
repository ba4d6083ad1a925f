"""The seam where methods plug in, and the table of those there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from placewright.errors import InputError
from placewright.policies.features import FEATURE_EVALUATIONS
from placewright.policies.policy import Policy
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.search import auto
from placewright.search.annealing import Annealing
from placewright.search.auto import Auto
from placewright.search.baselines import BASELINES
from placewright.search.brkga import BRKGA_BY_DECODER, Brkga
from placewright.search.budget import Budget, Interrupted, OnProgress, key_search_evaluations
from placewright.search.cp_sat import CpSat, CpWindows
from placewright.search.cpop import Cpop
from placewright.search.graph_partition import GP_DFS, METIS_DFS
from placewright.search.heft import Heft
from placewright.search.local_search import LocalSearch
from placewright.search.m_etf import MemoryEtf
from placewright.search.m_topo import MemoryTopo
from placewright.search.peak_search import PeakSearch
from placewright.search.random_search import RandomSearch
from placewright.search.regal import Regal
from placewright.search.result import Result
from placewright.search.schedule_annealing import ScheduleAnnealing
from placewright.search.superstep_annealing import SuperstepAnnealing
from placewright.search.tuned_brkga import TUNED_BRKGA
from placewright.suggestion import did_you_mean


class Method(Protocol):
    """Anything that solves a problem. The same problem, seed and evaluations give the same solution, bit for bit."""

    @property
    def name(self) -> str: ...

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
        """The best solution found within the budget; always one, feasible or not.

        proposal: guides methods that draw random keys; the others ignore it. on_progress is called now and then with
        the best so far; `interrupted` is asked now and then, and True ends the search with what it has.
        """
        ...


_ALL: tuple[Method, ...] = (
    Auto(),
    Brkga(),
    TUNED_BRKGA,
    *BRKGA_BY_DECODER,
    Regal(),
    Regal(name="idrs", search=RandomSearch()),
    Regal(name="gas", network="sequence"),
    *BASELINES,
    Heft(),
    Cpop(),
    MemoryTopo(),
    MemoryEtf(),
    RandomSearch(),
    CpSat(),
    CpWindows(),
    LocalSearch(),
    Annealing(),
    ScheduleAnnealing(),
    SuperstepAnnealing(),
    PeakSearch(),
    GP_DFS,
    METIS_DFS,
)

#: Every method by the name users give, with its default configuration.
METHODS: dict[str, Method] = {method.name: method for method in _ALL}


def default_evaluations(method: Method, problem: Problem) -> int:
    """The budget where none is given: about a second's for the default method, that of the paper for the others, twice
    what features take at least where a policy guides."""
    if isinstance(method, Auto):
        return auto.default_evaluations(problem)
    evaluations = key_search_evaluations(problem.core.num_keys)
    return max(evaluations, 2 * FEATURE_EVALUATIONS) if isinstance(method, Regal) else evaluations


def make_method(name: str, *, threads: int = 1, policy: Policy | None = None) -> Method:
    """The method of that name, on so many threads where it can use them, and guided by the policy where one is given.
    Raises InputError when there is no such method, or it does not take that policy."""
    if name not in METHODS:
        raise InputError(f"there is no solver '{name}'{did_you_mean(name, METHODS)}")
    method = METHODS[name]
    if policy is not None and not (isinstance(method, Regal) and method.takes(policy)):
        raise InputError(f"solver '{name}' does not take policy '{policy.name}'")
    if isinstance(method, Regal):
        return replace(method, threads=threads, policy=policy)
    if isinstance(method, Auto | Brkga | RandomSearch):
        return replace(method, threads=threads)
    return method
