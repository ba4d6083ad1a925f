"""Which graphs leave anything to plan: the paper drops those "with no room for improvement" (A.1.2)."""

from __future__ import annotations

from placewright.bounds import lower_bound
from placewright.costs import estimate_costs
from placewright.graph import Graph
from placewright.machines import load_machine
from placewright.problem import Problem
from placewright.problem.objective import Objective
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.search.run.search_run import SearchRun

#: The paper's machine: two equal devices, transfers that block and take no time.
PAPER_MACHINE = "2xideal/free"


def has_room(graph: Graph, objective: Objective) -> bool:
    """Whether two devices could do better than one in the graph's own order, as far as the lower bound can tell.

    A single op and a chain have none in step time. Every op that is not free states its time. Raises InputError where
    it does not.
    """
    machine = load_machine(PAPER_MACHINE)
    times = estimate_costs(graph, machine).time_ns
    problem = Problem(graph=graph, machine=machine, time_ns=times, objective=objective, control="order")
    one_device = INPUT_ORDER.solve(problem, SearchRun()).metrics
    return lower_bound(problem).value < one_device.objective_value(objective)
