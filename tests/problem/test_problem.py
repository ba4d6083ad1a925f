"""Problems: what lowering makes of views, in-place results and controls; what constraints allow; what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from instances import sketch
from reference import structure_of
from strategies import problems

from placewright.graph import Graph
from placewright.machine import Device, Link, Machine
from placewright.problem import Problem
from placewright.problem.constraints import Constraints, placement_groups
from placewright.problem.lowering import Lowered, lower
from placewright.support.errors import InputError


def rows(begin: np.ndarray, values: np.ndarray) -> list[list[int]]:
    return [values[begin[row] : begin[row + 1]].tolist() for row in range(len(begin) - 1)]


def tensor_names(graph: Graph, lowered: Lowered) -> list[str]:
    return ["control" if t < 0 else graph.tensors[t].name for t in lowered.graph_tensor]


def index_of(graph: Graph, tensor: str) -> int:
    return [each.name for each in graph.tensors].index(tensor)


def test_a_view_as_large_as_its_base_is_folded_into_it() -> None:
    graph = sketch("a -> x=8", "reshape~ x -> v=8:x", "b v")
    lowered = lower(graph, "signal")
    assert lowered.graph_op.tolist() == [0, 2]
    assert tensor_names(graph, lowered) == ["x"]
    assert rows(lowered.input_begin, lowered.inputs) == [[], [0]]


def test_an_expanded_view_moves_its_base() -> None:
    graph = sketch("a -> x=8", "expand~ x -> v=800:x", "b v")
    assert lower(graph, "signal").transfer_bytes.tolist() == [8]


def test_a_smaller_view_moves_itself_and_takes_no_memory_at_home() -> None:
    graph = sketch("a -> x=8", "slice~ x -> v=3:x", "b v", "c x v")
    lowered = lower(graph, "signal")
    assert tensor_names(graph, lowered) == ["x", "v"]
    assert rows(lowered.input_begin, lowered.inputs) == [[], [1], [0, 1]]
    assert lowered.transfer_bytes.tolist() == [8, 3]
    assert lowered.allocated_bytes.tolist() == [8, 0]
    assert lowered.storage.tolist() == [0, 0]


def test_along_a_chain_of_views_the_smallest_and_earliest_moves() -> None:
    graph = sketch("a -> x=8", "slice~ x -> v=3:x", "expand~ v -> w=24:v", "reshape~ w -> u=3:w", "b u")
    assert tensor_names(graph, lower(graph, "signal")) == ["x", "v"]


def test_a_smaller_view_nobody_reads_is_left_out() -> None:
    graph = sketch("a -> x=8", "slice~ x -> v=3:x")
    assert tensor_names(graph, lower(graph, "signal")) == ["x"]


def test_views_of_a_parameter_are_the_parameter() -> None:
    graph = sketch("w=100", "unread=50", "slice~ w -> v=3:w", "a v", "b v w")
    lowered = lower(graph, "signal")
    assert tensor_names(graph, lowered) == []
    assert rows(lowered.resident_begin, lowered.residents) == [[0], [0]]
    assert lowered.graph_resident.tolist() == [index_of(graph, "w")]
    assert lowered.resident_bytes.tolist() == [100]


def test_an_input_read_twice_counts_once() -> None:
    graph = sketch("a -> x=8", "reshape~ x -> v=8:x", "b x v x")
    lowered = lower(graph, "signal")
    assert rows(lowered.input_begin, lowered.inputs) == [[], [0]]


def test_an_in_place_result_shares_memory_and_stands_with_its_base() -> None:
    graph = sketch("a -> x=8", "b x", "c x -> y=8:x!", "d y -> z=8:y")
    lowered = lower(graph, "signal")
    assert lowered.allocated_bytes.tolist() == [8, 0, 0]
    assert lowered.transfer_bytes.tolist() == [8, 8, 8]
    assert lowered.storage.tolist() == [0, 0, 0]
    assert lowered.live_out.tolist() == [1, 0, 0]  # y is an output, so the memory of x stays
    assert set(lowered.together) == {(2, 0), (3, 0)}


def test_an_op_that_overwrites_what_it_does_not_read_still_comes_after_it() -> None:
    graph = sketch("a -> x=8", "b -> y=8:x")
    lowered = lower(graph, "signal")
    assert rows(lowered.input_begin, lowered.inputs) == [[], [0]]


def test_two_outputs_of_one_op_that_share_memory_need_nothing_of_each_other() -> None:
    lowered = lower(sketch("a -> x=8 y=8:x"), "signal")
    assert lowered.inputs.tolist() == []
    assert lowered.storage.tolist() == [0, 0]
    assert lowered.allocated_bytes.tolist() == [8, 0]
    assert lowered.together == ()


def test_all_that_hold_a_changed_parameter_stand_together() -> None:
    graph = sketch("w=100", "u=10", "forward w u", "other u", "update -> w2=100:w!", "again w2 -> w3=100:w2")
    lowered = lower(graph, "signal")
    w, u = index_of(graph, "w"), index_of(graph, "u")
    assert [lowered.graph_resident[r] for r in lowered.residents] == [w, u, u, w, w]
    group, _ = placement_groups(graph, lowered, two_devices(), Constraints())
    assert group.tolist() == [0, 1, 0, 0]
    assert lowered.allocated_bytes.tolist() == [0, 0]
    assert lowered.live_out.tolist() == [0, 0]  # residents stay anyway


def test_a_graph_output_that_is_a_view_keeps_its_base() -> None:
    graph = sketch("a -> x=8 y=2", "slice~ x -> v=3:x!")
    assert lower(graph, "signal").live_out.tolist() == [1, 0]


def controlled() -> Graph:
    """b and c wait for a; b also reads its result."""
    return sketch("a -> x=8", "b x < a", "c < a b")


@pytest.mark.parametrize("control", ["order", "signal"])
def test_controls_are_edges_unless_a_tensor_says_the_same(control: str) -> None:
    lowered = lower(controlled(), control)
    assert rows(lowered.control_begin, lowered.controls) == [[2], [2], []]
    assert lowered.graph_tensor.tolist() == [0]


def test_in_transfer_mode_controls_are_one_empty_tensor_per_producing_op() -> None:
    graph = controlled()
    lowered = lower(graph, "transfer")
    assert tensor_names(graph, lowered) == ["x", "control", "control"]
    assert lowered.output_begin.tolist() == [0, 2, 3, 3]
    assert lowered.transfer_bytes.tolist() == [8, 0, 0]
    assert rows(lowered.input_begin, lowered.inputs) == [[], [0, 1], [1, 2]]
    assert lowered.controls.tolist() == []


def test_who_waits_for_a_view_waits_for_all_the_view_needs() -> None:
    graph = sketch("a -> x=8", "shape -> s=8", "c", "reshape~ x s -> v=8:x < c", "d < reshape")
    lowered = lower(graph, "order")
    assert rows(lowered.control_begin, lowered.controls) == [[3], [3], [3], []]


def test_who_reads_a_view_waits_for_what_the_view_needs_beside_its_base() -> None:
    graph = sketch("a -> x=8", "shape -> s=8", "c", "reshape~ x s -> v=8:x < c", "again~ v -> u=8:v", "d u")
    lowered = lower(graph, "order")
    assert rows(lowered.input_begin, lowered.inputs)[-1] == [0]
    assert rows(lowered.control_begin, lowered.controls) == [[], [3], [3], []]


def test_a_view_of_several_tensors_shows_each_output_its_own() -> None:
    graph = sketch("a -> x=8", "b -> y=8", "identity~ x y -> v=8:x u=8:y", "c u")
    lowered = lower(graph, "order")
    assert rows(lowered.input_begin, lowered.inputs)[-1] == [1]
    assert rows(lowered.control_begin, lowered.controls) == [[2], [], []]


@given(problems())
def test_every_op_stands_after_what_it_needs_in_the_lowered_numbering(problem: Problem) -> None:
    structure = structure_of(problem)
    for op in range(structure.num_ops):
        assert all(structure.producer[tensor] < op for tensor in structure.inputs[op])
        assert all(before < op for before in structure.predecessors[op])
        assert len(set(structure.inputs[op])) == len(structure.inputs[op])


def two_devices() -> Machine:
    devices = (Device(name="gpu0", kind="any"), Device(name="gpu1", kind="any", memory_bytes=50))
    return Machine(name="two", devices=devices, links=((Link(),) * 2,) * 2)


def layered() -> Graph:
    """Two ops in each of two layers, and a view; relu works in place on the result of linear."""
    return sketch(
        "embed -> e=8 | module=layers.0",
        "flatten~ e -> f=8:e | module=layers.0",
        "linear f -> x=8 | module=layers.1.linear",
        "relu x -> y=8:x | module=layers.1",
        "loss y",
    )


def groups_of(**fields: object) -> tuple[list[int], list[int]]:
    graph = layered()
    constraints = Constraints(**fields)  # type: ignore[arg-type]
    group, allowed = placement_groups(graph, lower(graph, "signal"), two_devices(), constraints)
    return group.tolist(), allowed.tolist()


def test_without_constraints_only_in_place_results_share_a_device() -> None:
    assert groups_of() == ([0, 1, 1, 3], [0b11] * 4)


@pytest.mark.parametrize("device", ["gpu1", "1"])
def test_a_pin_holds_for_the_whole_group_of_every_match(device: str) -> None:
    assert groups_of(pins=(("layers.1", device),)) == ([0, 1, 1, 3], [0b11, 0b10, 0b10, 0b11])
    assert groups_of(pins=(("l*", device),)) == ([0, 1, 1, 3], [0b10] * 4)


def test_a_forbidden_device_is_left_out() -> None:
    assert groups_of(forbids=(("embed", "gpu0"),)) == ([0, 1, 1, 3], [0b10, 0b11, 0b11, 0b11])


def test_colocated_matches_share_one_group_named_by_its_first_op() -> None:
    assert groups_of(colocations=(("loss", "relu"),)) == ([0, 1, 1, 1], [0b11] * 4)
    assert groups_of(colocations=(("loss", "embed"), ("linear", "loss"))) == ([0, 0, 0, 0], [0b11] * 4)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"pins": (("decoder.*", "0"),)}, "pin 'decoder.*' matches no op or module of graph 'sketch'"),
        ({"forbids": (("decoder", "0"),)}, "forbid 'decoder' matches no op or module"),
        ({"colocations": (("embed", "nothing"),)}, "colocate 'nothing' matches no op or module"),
        ({"pins": (("embed", "gpu2"),)}, "machine 'two' has no device 'gpu2'; it has gpu0, gpu1"),
        ({"pins": (("embed", "2"),)}, "machine 'two' has no device '2'"),
        ({"pins": (("embed", "-1"),)}, "machine 'two' has no device '-1'"),
        ({"pins": (("embed", "0"), ("e*", "1"))}, "the constraints leave no device for op 'embed': pin 'e*'"),
        ({"pins": (("linear", "0"), ("relu", "1"))}, "the constraints leave no device for op 'relu'"),
        ({"forbids": (("loss", "0"), ("loss", "1"))}, "the constraints leave no device for op 'loss'"),
        (
            {"pins": (("embed", "0"),), "forbids": (("loss", "0"),), "colocations": (("embed", "loss"),)},
            "the constraints leave no device for op 'loss': forbid 'loss'",
        ),
    ],
)
def test_constraints_that_match_nothing_or_contradict_are_refused(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        groups_of(**fields)
    assert sentence in str(error.value)


def make_problem(**fields: object) -> Problem:
    graph = layered()
    time_ns = np.ones((len(graph.ops), 2), np.int64)
    return Problem(**{"graph": graph, "machine": two_devices(), "time_ns": time_ns, **fields})  # type: ignore[arg-type]


def test_limits_are_the_memories_of_the_devices_unless_given() -> None:
    assert make_problem().memory_limits_bytes == (None, 50)
    assert make_problem(memory_limits_bytes=(3, None)).memory_limits_bytes == (3, None)


def test_the_core_has_the_sizes_of_the_lowered_graph() -> None:
    core = make_problem().core
    assert (core.num_ops, core.num_tensors, core.num_devices) == (4, 3, 2)  # e, x, y; flatten folded
    assert core.num_keys == 4 * 2 + 4 + 3 * 2


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"time_ns": np.ones((4, 2), np.int64)}, r"op times have shape \(4, 2\)"),
        ({"time_ns": np.ones((5, 1), np.int64)}, r"op times have shape \(5, 1\)"),
        ({"time_ns": np.full((5, 2), -1)}, "graph 'sketch' has an op with a negative time"),
        (
            {"time_ns": np.full((5, 2), 2**60)},
            r"the times of ops, transfers and launches add up to more than 2\*\*62 ns",
        ),
        ({"memory_limits_bytes": (None,)}, "1 memory limits? given for 2 devices"),
        ({"objective": "energy"}, "unknown objective 'energy'"),
        ({"control": "never"}, "unknown control mode .never."),
    ],
)
def test_a_problem_whose_parts_disagree_is_refused(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make_problem(**fields)


def test_a_graph_of_views_only_is_refused() -> None:
    graph = sketch("w=8", "reshape~ w -> v=8:w")
    with pytest.raises(InputError, match="graph 'sketch' has nothing to schedule: all its ops are views"):
        make_problem(graph=graph, time_ns=np.zeros((1, 2), np.int64))


def test_sizes_that_could_overflow_are_refused() -> None:
    graph = layered()
    huge = tuple(replace(tensor, size_bytes=2**60) for tensor in graph.tensors)
    with pytest.raises(InputError, match="the sizes of tensors add up to more than"):
        make_problem(graph=replace(graph, tensors=huge))


def test_transfers_that_could_overflow_are_refused() -> None:
    machine = replace(two_devices(), links=((Link(bandwidth_bytes_per_s=1.0),) * 2,) * 2)  # 2**30 ns a byte
    graph = layered()
    large = tuple(replace(tensor, size_bytes=2**40) for tensor in graph.tensors)
    with pytest.raises(InputError, match="the times of ops, transfers and launches add up"):
        make_problem(graph=replace(graph, tensors=large), machine=machine)


def test_memory_that_is_not_what_a_transfer_moves_counts_at_home_and_in_copies() -> None:
    graph = sketch("a -> x=8")
    tensor = replace(graph.tensors[0], memory_bytes=3)
    graph = replace(graph, tensors=(tensor,))
    lowered = lower(graph, "signal")
    assert (lowered.transfer_bytes.tolist(), lowered.allocated_bytes.tolist(), lowered.copy_bytes.tolist()) == (
        [8],
        [3],
        [3],
    )
    assert graph.fingerprint != replace(graph, tensors=(replace(tensor, memory_bytes=None),)).fingerprint
