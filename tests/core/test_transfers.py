"""The positions of transfers when the core is given only devices and an order of ops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from reference import Order, decode, rule_broken_by, structure_of
from strategies import chromosomes, problems

from placewright.problem import Problem


@st.composite
def placed(draw: st.DrawFn) -> tuple[Problem, list[int], list[int]]:
    """A problem, devices, and ops in a valid order."""
    problem = draw(problems())
    device_of, order = decode(problem, draw(chromosomes(problem.core.num_keys)))
    return problem, device_of, [index for index, destination in order if destination < 0]


def whole_order(problem: Problem, device_of: list[int], ops: list[int], early: bool) -> Order:
    order = problem.core.with_transfers(np.array(device_of, np.int32), np.array(ops, np.int32), early)
    return [(index, destination) for index, destination in order.tolist()]


@given(placed(), st.booleans())
def test_the_order_is_valid_and_keeps_the_order_of_ops(case: tuple[Problem, list[int], list[int]], early: bool) -> None:
    problem, device_of, ops = case
    order = whole_order(problem, device_of, ops, early)
    assert [index for index, destination in order if destination < 0] == ops
    assert rule_broken_by(problem, device_of, order) is None


@given(placed())
def test_early_transfers_follow_their_producer_in_tensor_then_device_order(
    case: tuple[Problem, list[int], list[int]],
) -> None:
    problem, device_of, ops = case
    structure = structure_of(problem)
    needed = structure.needed_transfers(device_of)
    expected = []
    for op in ops:
        expected += [(op, -1), *((t, device) for t, device in needed if structure.producer[t] == op)]
    assert whole_order(problem, device_of, ops, early=True) == expected


@given(placed())
def test_late_transfers_stand_right_before_the_first_op_that_reads_them(
    case: tuple[Problem, list[int], list[int]],
) -> None:
    problem, device_of, ops = case
    structure = structure_of(problem)
    waiting = set(structure.needed_transfers(device_of))
    block: set[tuple[int, int]] = set()
    for index, destination in whole_order(problem, device_of, ops, early=False):
        if destination >= 0:
            block.add((index, destination))
            continue
        first_read_here = {(t, device_of[index]) for t in structure.inputs[index]} & waiting
        assert block == first_read_here
        waiting -= block
        block = set()
    assert not waiting
    assert not block
