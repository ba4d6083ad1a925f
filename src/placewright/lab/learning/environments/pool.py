"""The environments of a set of problems."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from placewright.lab.datasets.problem_set import ProblemSet
from placewright.lab.learning.protocols import Environment
from placewright.problem import Problem


class EnvironmentPool:
    """Environments by number of the problem, each made once and kept while there is room. Not for several threads.

    make: from a problem and its number. max_ops: those used last are kept, up to so many ops in all.
    """

    def __init__(self, problems: ProblemSet, make: Callable[[Problem, int], Environment], max_ops: int) -> None:
        self._problems, self._make, self._max_ops = problems, make, max_ops
        self._kept: OrderedDict[int, Environment] = OrderedDict()
        self._ops_kept = 0

    def __getitem__(self, index: int) -> Environment:
        if index in self._kept:
            self._kept.move_to_end(index)
            return self._kept[index]
        environment = self._make(self._problems.problem(self._problems.graph(index)), index)
        self._kept[index] = environment
        self._ops_kept += environment.problem.core.num_ops
        while self._ops_kept > self._max_ops and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._ops_kept -= oldest.problem.core.num_ops
        return environment
