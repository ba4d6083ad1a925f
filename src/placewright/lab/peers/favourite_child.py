"""Favourite children: the reader of each op that should follow it on its device, by a linear program (Hanen and Munier
1995, as Baechi uses it: Jeon et al., SoCC 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.problem import Problem
from placewright.support.errors import MissingExtraError

#: An edge with a share below this is taken to stay on one device.
_THRESHOLD = 0.5
_NS_PER_US = 1e3


def favourite_children(problem: Problem, seconds: float) -> NDArray[np.int32]:
    """Return for each op the reader that should follow it, or -1; each op is the child of one op at most.

    The program is solved within that many seconds; -1 everywhere where that is too short. Raises MissingExtraError
    without scipy.
    """
    source, target, cost = _edges(problem)
    shares = _solved(problem, source, target, cost, seconds)
    child = np.full(problem.core.num_ops, -1, np.int32)
    parent = np.full(problem.core.num_ops, -1, np.int32)
    # Rounding may give an op several; as in Baechi the last one is used.
    for edge in np.flatnonzero(shares < _THRESHOLD).tolist():
        one, other = int(source[edge]), int(target[edge])
        for taken, by in ((child, one), (parent, other)):
            if taken[by] >= 0:
                (parent if taken is child else child)[taken[by]] = -1
        child[one], parent[other] = other, one
    return child


def _edges(problem: Problem) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return producers and readers, each pair once, and the time in us of the pair's longest transfer over the mean
    link."""
    lowered, machine = problem.lowered, problem.machine
    source, target = lowered.producer[lowered.inputs].astype(np.int64), lowered.reader.astype(np.int64)
    between = [link for i, row in enumerate(machine.links) for j, link in enumerate(row) if i != j]
    latency = np.mean([link.latency_ns for link in between] or [0])
    per_byte = np.mean([link.inverse_bandwidth for link in between] or [0]) / 2**32
    moved = (latency + lowered.transfer_bytes[lowered.inputs] * per_byte) / _NS_PER_US
    keys, place = np.unique(source * problem.core.num_ops + target, return_inverse=True)
    cost = np.zeros(len(keys))
    np.maximum.at(cost, place, moved)
    return keys // problem.core.num_ops, keys % problem.core.num_ops, cost


def _solved(
    problem: Problem, source: NDArray[np.int64], target: NDArray[np.int64], cost: NDArray[np.float64], seconds: float
) -> NDArray[np.float64]:
    """Return for each edge the share of its transfer that takes place, from 0 to 1; 1 where the time was too short.

    Variables are these shares, then the start of each op, then the end of all. The last is minimised, an op starts
    after its inputs have arrived, and one transfer may be saved among an op's readers, and one among its producers.
    """
    optimize, sparse = _scipy()
    edges, ops = len(source), problem.core.num_ops
    time = problem.time_ns[problem.lowered.graph_op].mean(1) / _NS_PER_US
    place = np.arange(edges)
    # s_target - s_source - cost * x >= time of the source; end - s >= time of each.
    begins = sparse.coo_array(
        (
            np.concatenate([-cost, np.full(edges, -1.0), np.ones(edges)]),
            (np.tile(place, 3), np.concatenate([place, edges + source, edges + target])),
        ),
        shape=(edges, edges + ops + 1),
    )
    every = np.arange(ops)
    ends = sparse.coo_array(
        (
            np.concatenate([np.full(ops, -1.0), np.ones(ops)]),
            (np.tile(every, 2), np.concatenate([edges + every, np.full(ops, edges + ops)])),
        ),
        shape=(ops, edges + ops + 1),
    )
    spared = [
        sparse.coo_array((np.ones(edges), (whose, place)), shape=(ops, edges + ops + 1)) for whose in (source, target)
    ]
    least = [np.bincount(whose, minlength=ops) - 1.0 for whose in (source, target)]
    found = optimize.linprog(
        np.append(np.zeros(edges + ops), 1.0),
        A_ub=-sparse.vstack([begins, ends, *spared]).tocsr(),
        b_ub=-np.concatenate([time[source], time, *least]),
        bounds=[(0, 1)] * edges + [(0, None)] * (ops + 1),
        method="highs",
        options={"time_limit": seconds},
    )
    return np.ones(edges) if found.x is None else np.asarray(found.x[:edges])


def _scipy() -> tuple[Any, Any]:
    try:
        from scipy import optimize, sparse
    except ImportError as error:
        raise MissingExtraError("scipy", "levels", "solver 'm-sct'") from error
    return optimize, sparse
