"""Colocation groups by name, on graphs whose groups are plain to see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import graph_of, machine_of, problem_of
from strategies import problems

from placewright.graph import Graph, Phase
from placewright.lab.learning.placers.colocation import RULES, units_of
from placewright.lab.learning.placers.features import unit_features
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.support.errors import InputError


def described(graph: Graph, where: dict[str, tuple[str, str]], phase: Phase = "forward") -> Graph:
    """op -> (module, target); those that are missing have neither. Names that end in ' are of the backward pass."""
    ops = [
        replace(
            op,
            module=where.get(op.name, ("", ""))[0],
            target=where.get(op.name, ("", ""))[1],
            phase="backward" if op.name.endswith("'") else phase,
        )
        for op in graph.ops
    ]
    return replace(graph, ops=tuple(ops))


def groups(problem: Problem, *rules: str) -> list[str]:
    """The names of each unit's ops."""
    units = units_of(problem, rules)
    names = [problem.graph.ops[i].name for i in problem.lowered.graph_op]
    return [" ".join(np.array(names)[units.of_op == unit]) for unit in range(units.count)]


def test_an_op_joins_its_only_consumer_again_and_again_until_nothing_joins() -> None:
    # a goes to b only, b to c and d; c and d to e only; then b is read by that group alone.
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("b", 1), "d": ("b", 1), "e": ("c d", 1)})
    assert groups(problem_of(graph, machine_of(2)), "only-consumer") == ["a b c d e"]


def test_an_op_that_two_groups_read_joins_neither() -> None:
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("a", 1)})
    assert groups(problem_of(graph, machine_of(2)), "only-consumer") == ["a", "b", "c"]


def unrolled() -> Graph:
    """Two steps of a cell of two ops each, and their gradients from the last step to the first."""
    graph = graph_of(
        {
            "m0": ("", 1),
            "t0": ("m0", 1),
            "m1": ("t0", 1),
            "t1": ("m1", 1),
            "t1'": ("t1", 1),
            "m1'": ("t1' m1", 1),
            "t0'": ("m1' t0", 1),
            "m0'": ("t0'", 1),
        }
    )
    names = [op.name for op in graph.ops]
    cell = {name: ("cell", "matmul" if name[0] == "m" else "tanh") for name in names}
    return described(graph, cell)


def test_a_module_called_twice_makes_a_group_at_each_time_step_and_gradients_join_theirs() -> None:
    problem = problem_of(unrolled(), machine_of(2))
    assert groups(problem, "module") == ["m0 t0", "m1 t1", "t1'", "m1'", "t0'", "m0'"]
    # t1' needs t1, m1' needs m1, t0' needs t0, m0' only another gradient, of its own module.
    assert groups(problem, "module", "gradients") == ["m0 t0 t0' m0'", "m1 t1 t1' m1'"]


def test_a_layer_of_a_module_counts_to_it_where_both_are_called_as_often() -> None:
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("b", 1)})
    once = described(graph, {"a": ("block.conv", "conv"), "b": ("block.norm", "norm"), "c": ("block", "relu")})
    assert groups(problem_of(once, machine_of(2)), "module") == ["a b c"]
    # The layer is called twice and the block once: two steps within it.
    twice = described(graph, {"a": ("block.cell", "cell"), "b": ("block.cell", "cell"), "c": ("block", "relu")})
    assert groups(problem_of(twice, machine_of(2)), "module") == ["a", "b", "c"]


def test_branches_are_chains_between_where_paths_fork_and_meet() -> None:
    graph = graph_of(
        {"a": ("", 1), "l": ("a", 1), "L": ("l", 1), "r": ("a", 1), "R": ("r", 1), "j": ("L R", 1), "z": ("j", 1)}
    )
    assert groups(problem_of(graph, machine_of(2)), "branches") == ["a", "l L", "r R", "j z"]


def test_groups_that_no_device_could_hold_together_stay_apart() -> None:
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("b", 1)})
    constraints = Constraints(pins=(("a", "d0"), ("c", "d1")))
    problem = problem_of(graph, machine_of(2), constraints=constraints)
    units = units_of(problem, ("only-consumer",))
    assert groups(problem, "only-consumer") == ["a", "b c"]
    assert units.allowed.tolist() == [[True, False], [False, True]]


def test_a_rule_that_does_not_exist_is_refused_with_its_name() -> None:
    problem = problem_of(graph_of({"a": ("", 1)}), machine_of(2))
    with pytest.raises(InputError, match="no colocation rule 'modul'; did you mean"):
        units_of(problem, ("modul",))


@settings(max_examples=40)
@given(problem=problems(), rules=st.permutations(sorted(RULES)))
def test_units_keep_what_the_problem_keeps_together_and_leave_every_unit_a_device(
    problem: Problem, rules: list[str]
) -> None:
    units = units_of(problem, rules)
    first, allowed = problem.groups
    assert np.array_equal(units.of_op, units.of_op[first])
    assert units.allowed.any(1).all()
    for op, mask in enumerate(allowed.tolist()):
        may = [bool(mask >> device & 1) for device in range(problem.machine.num_devices)]
        assert all(may[device] for device in np.flatnonzero(units.allowed[units.of_op[op]]))
    assert units.first_op.tolist() == sorted(units.first_op.tolist())


@settings(max_examples=40)
@given(problem=problems())
def test_features_are_sums_over_the_ops_of_a_unit(problem: Problem) -> None:
    units = units_of(problem, ("only-consumer",))
    features = unit_features(problem, units)
    lowered = problem.lowered
    across: dict[tuple[int, int], set[int]] = {}
    for place, tensor in enumerate(lowered.inputs.tolist()):
        pair = int(units.of_op[lowered.producer[tensor]]), int(units.of_op[lowered.reader[place]])
        if pair[0] != pair[1]:
            across.setdefault(pair, set()).add(tensor)
    assert [tuple(edge) for edge in features.edges.T.tolist()] == sorted(across)
    moved = [sum(int(lowered.transfer_bytes[t]) for t in across[pair]) for pair in sorted(across)]
    assert features.bytes_on.tolist() == moved
    made = [0.0] * units.count
    for tensor, size in enumerate(lowered.allocated_bytes.tolist()):
        made[units.of_op[lowered.producer[tensor]]] += size
    assert features.output_bytes.tolist() == made
    assert features.kinds.sum() == problem.core.num_ops
