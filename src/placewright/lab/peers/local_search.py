"""Local search as in REGAL's comparison (Paliwal et al. 2020, section 5.2 and A.10)."""

from __future__ import annotations

from dataclasses import dataclass

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError

#: A reach larger than the number of places in any graph.
ANYWHERE = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class LocalSearch:
    """A search by greedy moves of an op to another device or place in the order, from random placements in captured
    order.

    Each move costs a whole evaluation, even one that dependencies or constraints forbid; ops that share their device
    move together. The paper leaves open how transfers are carried along, how far an op moves and which moves are kept.
    Here the schedule is an order of ops, and each tensor leaves right after its producer; an op swaps places with its
    neighbour; only improvements are kept. With this reading it is 1.0% better than BRKGA 5K on synthetic training
    graphs; the paper reports 0.08% on its test graphs. Other readings are stronger: 5% with moves to any place, 9% when
    equals are kept too, 15% when transfers are steps that are moved themselves.

    starts: random restarts, among which the evaluations are divided. device_share: of the moves, in [0, 1]; the others
    change the order. reach: the most places that an op moves; for no limit, the number of ops. accept_equal: keep a
    move that changes nothing. starts and device_share are the best on training graphs.
    """

    name: str = "local-search"
    starts: int = 5
    device_share: float = 0.8
    reach: int = 1
    accept_equal: bool = False

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise InputError(f"a local search with {self.starts} starts never begins: at least 1 is needed")
        if not 0 <= self.device_share <= 1:
            raise InputError(f"a share of {self.device_share} device moves lies outside [0, 1]")
        if not 1 <= self.reach <= ANYWHERE:
            raise InputError(f"a reach of {self.reach} places lies outside 1 to 2**31 - 1")

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does. A time limit that ends first leaves out the last starts."""
        search = _core.LocalSearch(
            problem=problem.core,
            seed=run.seed,
            evaluations_per_start=-(-run.budget.evaluations // self.starts),
            device_share=self.device_share,
            reach=self.reach,
            accept_equal=self.accept_equal,
        )
        reason = drive(run, search, self.name)
        device_of, order = search.best()
        solution = Solution(device_of=device_of, order=order)
        return run.result(problem, self.name, solution, stopped_because=reason, configuration=settings_of(self))


#: The best of 64 random settings on synthetic training graphs: 9.1% better than BRKGA 5K there.
STRONG_LOCAL_SEARCH = LocalSearch(
    name="local-search-strong", starts=1, device_share=0.4, reach=ANYWHERE, accept_equal=True
)
