"""What is proven of plans of one device whose ops may run again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from placewright.bounds import Bound, bound_with_reruns, rematerialized_time
from placewright.problem import Problem
from placewright.problem.constraints import OpNames
from placewright.problem.running_again import again_before
from placewright.support.errors import InputError, shown


def bound_of_reruns(problem: Problem, *, fits: bool) -> Bound:
    """The best lower bound on the objective when ops may run again. fits: only of plans that keep the limits."""
    bound = bound_with_reruns(problem)
    if not fits or problem.objective != "step-time":
        return bound
    return max(bound, rematerialized_time(problem), key=lambda each: each.value)


def some_may_run_again(problem: Problem, keep: Sequence[str]) -> bool:
    """Whether an op may run again: on one device, where not all are kept. keep: as in `kept`, which says what it
    raises."""
    once = kept(problem, keep)
    return problem.machine.num_devices == 1 and bool((again_before(problem)[~once] >= 0).any())


def kept(problem: Problem, keep: Sequence[str]) -> NDArray[np.bool_]:
    """Which scheduled ops are to run once. keep: globs over names of ops and modules. Raises InputError for one that
    matches none."""
    names = OpNames(problem.graph.ops[index] for index in problem.lowered.graph_op)
    found = np.zeros(len(problem.lowered.graph_op), np.bool_)
    for pattern in keep:
        if not (matched := names.matching(pattern)):
            raise InputError(f"keep names '{shown(pattern)}', which matches no op of '{shown(problem.graph.name)}'")
        found[matched] = True
    return found
