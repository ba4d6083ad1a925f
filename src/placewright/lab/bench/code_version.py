"""A digest of the code that made a row: it hashes what a method does with a few small problems.

A digest of sources would call every row stale after each commit, and a number raised by hand would be forgotten. The
decisions of a method on the probes change when its plans change, and stay the same when its code is only written
differently; they also depend on a policy and on a package that the method needs. The digest misses a change that shows
only on larger graphs or under a time limit: after such a change, make the rows anew in another folder.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from placewright.graph import Graph, Op, Tensor
from placewright.lab.bench.plan_rows import method_of
from placewright.lab.learning.regal.features import FEATURE_EVALUATIONS
from placewright.lab.methods import GUIDED, PLACERS
from placewright.machines import load_machine
from placewright.methods.policies import Policy
from placewright.problem import Problem, make_problem
from placewright.search.run.budget import Budget
from placewright.search.run.method import Method
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError, MissingExtraError

#: Enough for several generations, and for a guided method after the evaluations for its features.
_EVALUATIONS = 300
#: For a learner, whose evaluations are slow.
_LEARNING_EVALUATIONS = 40
#: Deterministic effort of CP-SAT without a time limit, by the names of the settings.
_EFFORT = {"effort": 0.02, "total_effort": 0.05}
_DIGITS = 12
_LARGEST_BYTES, _LONGEST_NS = 2**20, 100_000


def code_of(solver: str, policies: Sequence[Policy] = ()) -> str:
    """Return the digest for the method that a run names, as in `method_of`. Raises as that does, and MissingExtraError
    where the method's package is not installed."""
    method = method_of(solver, policies)
    name = solver.partition(":")[0]
    evaluations = _LEARNING_EVALUATIONS if name in PLACERS else _EVALUATIONS
    budget = Budget(evaluations=evaluations + (FEATURE_EVALUATIONS if name in GUIDED else 0))
    decided = [_decisions(_quick(method), problem, budget) for problem in _probes()]
    return digest_of(decided)


def digest_of(decided: list[Any]) -> str:
    """Return the digest of decisions given as JSON values."""
    return hashlib.sha256(json.dumps(decided).encode()).hexdigest()[:_DIGITS]


def _decisions(method: Method, problem: Problem, budget: Budget) -> Any:
    """Return devices, order, cost and number of evaluations; None where the method cannot plan such a problem. Bounds
    are left out: a row with a weaker one is still right."""
    try:
        result = method.solve(problem, SearchRun(budget))
    except MissingExtraError:
        raise
    except InputError:
        return None
    except Exception as error:  # a method's defect is reported with the graph on which it shows
        return type(error).__name__
    decided = result.solution
    cost = [result.metrics.step_time_ns, max(result.metrics.peak_bytes), result.metrics.bytes_over_limit]
    return [decided.device_of.tolist(), decided.order.tolist(), cost, result.evaluations]


def _quick(method: Method) -> Method:
    for name, effort in _EFFORT.items():
        if hasattr(method, name):
            method = replace(method, **{name: effort})  # type: ignore[type-var]
    return method


@cache
def _probes() -> tuple[Problem, ...]:
    """The paper's machine for both objectives, links of a real machine with and without a tight memory limit, and a
    graph large enough to be coarsened."""
    small, large = _graph("small", 40), _graph("large", 240)
    free, linked, four = map(load_machine, ("2xideal/free", "2xv100-32g/nvlink", "4xv100-32g/pcie3"))
    return (
        make_problem(small, free, objective="step-time", control="order"),
        make_problem(small, free, objective="peak-memory", control="order"),
        make_problem(small, linked, objective="step-time", control="signal"),
        make_problem(small, four, objective="step-time", control="signal", memory_limit=4 * _LARGEST_BYTES),
        make_problem(large, linked, objective="step-time", control="signal"),
    )


def _graph(name: str, num_ops: int) -> Graph:
    """Make a graph whose ops read up to three of the eight ops before them; every tenth op also waits for another. Uses
    only `random()`, whose numbers Python promises to keep."""
    draw = random.Random(name).random
    ops = []
    for index in range(num_ops):
        near = [index - 1 - int(8 * draw()) for _ in range(3)]
        inputs = tuple(sorted({tensor for tensor in near if tensor >= 0}))
        waits = index - 9 - int(8 * draw())
        ops.append(
            Op(
                name=f"op{index}",
                kind="other",
                inputs=inputs,
                outputs=(index,),
                controls=(waits,) if waits >= 0 and draw() < 0.1 else (),
                time_ns=1 + int(_LONGEST_NS * draw()),
            )
        )
    tensors = tuple(Tensor(name=f"t{index}", size_bytes=1 + int(_LARGEST_BYTES * draw())) for index in range(num_ops))
    return Graph(name=name, ops=tuple(ops), tensors=tensors)
