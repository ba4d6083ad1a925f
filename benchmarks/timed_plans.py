"""Makes and times plans on request, for against.py; it uses nothing but the public interface, so that it runs with the
package of an earlier commit too.

Reads lines "SOLVER OPS EVALUATIONS" and answers each with the seconds of processor time that `placewright.plan` takes
on one thread, and the step time of the plan in ns. The graph of so many ops, the same each time, is made beforehand.
"""

from __future__ import annotations

import random
import sys
import time
from functools import lru_cache

import placewright
from placewright import Device, Graph, Link, Machine, Op, Tensor


@lru_cache
def random_graph(num_ops: int) -> Graph:
    """A graph in which every op takes 1 to 1000 ns, makes one tensor, and reads up to three of the 200 before it."""
    draw = random.Random(num_ops)
    tensors = tuple(Tensor(name=f"t{index}", size_bytes=draw.randint(1, 100)) for index in range(num_ops))
    ops = tuple(
        Op(
            name=f"op{index}",
            kind="other",
            inputs=tuple({draw.randrange(max(0, index - 200), index) for _ in range(draw.randint(1, 3)) if index}),
            outputs=(index,),
            time_ns=draw.randint(1, 1000),
        )
        for index in range(num_ops)
    )
    return Graph(name=f"random-{num_ops}", ops=ops, tensors=tensors)


def paper_machine() -> Machine:
    """Two equal devices, free blocking transfers."""
    devices = tuple(Device(name=f"d{index}", kind="any") for index in range(2))
    return Machine(name="two", devices=devices, links=((Link(),) * 2,) * 2, transfer_model="blocking")


def main() -> None:
    machine = paper_machine()
    for line in sys.stdin:
        solver, num_ops, evaluations = line.split()
        graph = random_graph(int(num_ops))
        began = time.process_time()
        plan = placewright.plan(graph, machine, solver=solver, evaluations=int(evaluations), control="order", threads=1)
        print(time.process_time() - began, plan.metrics.step_time_ns, flush=True)


if __name__ == "__main__":
    main()
