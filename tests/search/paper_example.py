"""The example of Topcuoglu, Hariri and Wu 2002 (figure 2): ten tasks on three unequal processors."""

from __future__ import annotations

import numpy as np
from instances import machine_of

from placewright.graph import Graph, Op, Tensor
from placewright.machine import Link
from placewright.problem import Problem

#: ns on each processor, task by task.
TIMES = (
    (14, 16, 9),
    (13, 19, 18),
    (11, 13, 19),
    (13, 8, 17),
    (12, 13, 10),
    (13, 16, 9),
    (7, 15, 11),
    (5, 11, 14),
    (18, 12, 20),
    (21, 7, 16),
)
#: From task, to task (counted from 1): bytes, at 1 ns each.
EDGES = {
    (1, 2): 18,
    (1, 3): 12,
    (1, 4): 9,
    (1, 5): 11,
    (1, 6): 14,
    (2, 8): 19,
    (2, 9): 16,
    (3, 7): 23,
    (4, 8): 27,
    (4, 9): 23,
    (5, 9): 13,
    (6, 8): 15,
    (7, 10): 17,
    (8, 10): 11,
    (9, 10): 13,
}


def paper_problem() -> Problem:
    edges = list(EDGES)
    ops = tuple(
        Op(
            name=f"n{task}",
            kind="other",
            inputs=tuple(index for index, (_, target) in enumerate(edges) if target == task),
            outputs=tuple(index for index, (source, _) in enumerate(edges) if source == task),
        )
        for task in range(1, 11)
    )
    tensors = tuple(Tensor(name=f"n{a}-n{b}", size_bytes=EDGES[a, b]) for a, b in edges)
    machine = machine_of(3, Link(bandwidth_bytes_per_s=1e9))
    return Problem(graph=Graph(name="paper", ops=ops, tensors=tensors), machine=machine, time_ns=np.array(TIMES))
