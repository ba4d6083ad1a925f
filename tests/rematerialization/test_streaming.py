"""Weights of an inference that lie in the host's memory and come for their readers: searched, simulated and proven."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_steps import ONE_DEVICE, host_at, spans

from placewright.analysis.outcome import gain_words
from placewright.bounds import least_limit, moved_time
from placewright.graph import Graph, Op, Tensor
from placewright.machine import Link
from placewright.machines.host import HostMemory
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.problem.streaming import streamable
from placewright.rematerialization.reruns import Move, rewritten
from placewright.rematerialization.solve import in_order, rematerialize, with_reruns
from placewright.search.run.budget import Budget
from placewright.search.run.result import measure
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.verification.checker import check_plan
from placewright.verification.reruns import about_reruns


def layers(weights: Sequence[int], times: Sequence[int], reads: Sequence[Sequence[int]], phase: str = "") -> Graph:
    """A chain of ops with results of 1 byte, each of which reads some of the weights w0, w1 ..."""
    tensors = [Tensor(name=f"w{place}", size_bytes=size, role="parameter") for place, size in enumerate(weights)]
    ops = []
    for place, (time_ns, read) in enumerate(zip(times, reads, strict=True)):
        before = () if place == 0 else (len(tensors) - 1,)
        tensors.append(Tensor(name=f"x{place}", size_bytes=1))
        ops.append(
            Op(
                name=f"op{place}",
                kind="matmul",
                inputs=(*before, *read),
                outputs=(len(tensors) - 1,),
                time_ns=time_ns,
                phase=phase,  # type: ignore[arg-type]
            )
        )
    return Graph(name="layers", ops=tuple(ops), tensors=tuple(tensors))


def problem_of(graph: Graph, limit: int | None) -> Problem:
    times = np.array([[op.time_ns or 0] for op in graph.ops], np.int64)
    return Problem(graph=graph, machine=ONE_DEVICE, time_ns=times, memory_limits_bytes=(limit,))


def test_an_op_may_be_called_whatever_stands_for_weights_within_the_search() -> None:
    graph = layers([10, 10], [100, 100], [[0], [1]])
    plans = []
    for name in ("op1", "w0@made", "w0@"):
        named = replace(graph, ops=(graph.ops[0], replace(graph.ops[1], name=name)))
        plans.append(planned(problem_of(named, 14), host_at(50)))
    assert plans[0].moves
    assert len({plan.step_time_ns for plan in plans}) == 1


def planned(problem: Problem, host: HostMemory, keep: Sequence[str] = (), evaluations: int = 60) -> Plan:
    again = rematerialize(problem, SearchRun(Budget(evaluations=evaluations)), keep, host)
    result = make_method("input-order").solve(problem, SearchRun())
    on_host = {} if host.memory_bytes is None else {"host": host.memory_bytes}
    options = {"keep": list(keep), "memory_limit": {"cpu0": problem.memory_limits_bytes[0]} | on_host}
    plan = assemble_plan(problem, result, solver="auto", seconds=0.0, again=again, host=host, options=options)
    assert check_plan(plan, problem.graph, np.repeat(problem.time_ns, plan.machine.num_devices, axis=1)) == []
    return plan


#: Three layers with a weight of 10 bytes each.
THREE = layers([10, 10, 10], [4, 4, 4], [[0], [1], [2]])


def test_a_weight_comes_while_others_are_used() -> None:
    # All are 30 bytes; with op0's result and op1's, or op1's and op2's, 32. In 22 there is room for two. w0 comes at
    # the beginning and goes with op0 at 6; w2 comes beside op1, and is there before op2 begins. The step waits for w0.
    plan = planned(problem_of(THREE, 22), host_at(2))
    assert plan.moves == (
        Move(tensor="w0", leaves_before=None, returns_before=("op0",)),
        Move(tensor="w2", leaves_before=None, returns_before=("op1",)),
    )
    assert (plan.step_time_ns, plan.peak_bytes) == (14, (22, 30))
    assert spans(plan) == {
        "w0@back1": (0, 0),
        ">w0@back1": (0, 2),
        "op0": (2, 6),
        "w2@back1": (6, 6),
        ">w2@back1": (6, 8),
        "op1": (6, 10),
        "op2": (10, 14),
    }
    words = gain_words(plan)
    assert words == "fits by bringing 2 weights from the host: 16.7% more time than without the limit"


def test_a_step_begins_without_the_weights_that_come() -> None:
    # In 12 bytes there is room for one weight and two results: each comes when the layer before it has ended, the
    # first at the very beginning: 3 x (2 + 4).
    plan = planned(problem_of(THREE, 12), host_at(2))
    assert [move.returns_before for move in plan.moves] == [("op0",), ("op1",), ("op2",)]
    assert spans(plan) == {
        "w0@back1": (0, 0),
        ">w0@back1": (0, 2),
        "op0": (2, 6),
        "w1@back1": (6, 6),
        ">w1@back1": (6, 8),
        "op1": (8, 12),
        "w2@back1": (12, 12),
        ">w2@back1": (12, 14),
        "op2": (14, 18),
    }
    assert (plan.step_time_ns, plan.peak_bytes) == (18, (12, 40))


def test_what_is_proven_counts_each_weight_that_comes_once() -> None:
    # While op1 runs, w1 and two results are 12 bytes, and 12 are all there is: w0 and w2 come, 20 bytes in 40 ns. With
    # rounding down 2 less.
    assert moved_time(problem_of(THREE, 12), host_at(20)).value == 40 - 2
    assert least_limit(problem_of(THREE, 0), host_at(20)) == (12, "op1")
    assert least_limit(problem_of(THREE, 0)) == (32, "op1")


def test_weights_of_a_step_that_trains_stay() -> None:
    trains = layers([10, 10], [1, 1], [[0], [1]], phase="backward")
    assert streamable(trains) == ()
    assert planned(problem_of(trains, 12), host_at(2)).moves == ()
    with pytest.raises(InputError, match="a move names 'w0', which is no weight that may be at the host"):
        rewritten(trains, (), [Move(tensor="w0", leaves_before=None, returns_before=("op0",))])


def test_what_is_written_to_or_handed_out_stays() -> None:
    # Of w0 to w3, op1 writes to w1, w2 is an output, and nobody reads w3.
    graph = layers([10] * 4, [1, 1, 1], [[0], [1], [2]])
    tensors = list(graph.tensors)
    tensors[2] = replace(tensors[2], is_output=True)
    written = len(tensors)
    tensors.append(Tensor(name="written", size_bytes=10, alias_of=1))
    ops = (graph.ops[0], replace(graph.ops[1], outputs=(*graph.ops[1].outputs, written)), graph.ops[2])
    changed = replace(graph, ops=ops, tensors=tuple(tensors))
    assert streamable(changed) == (0,)
    assert streamable(graph) == (0, 1, 2)


@pytest.mark.parametrize(
    ("moves", "sentence"),
    [
        (
            [Move(tensor="w1", leaves_before=None, returns_before=("op2",))],
            "the weight 'w1' is read before it comes from the host",
        ),
        (
            [Move(tensor="x0", leaves_before=None, returns_before=("op2",))],
            "a move names 'x0', which is no weight that may be at the host",
        ),
        (
            [Move(tensor="w1", leaves_before=None, returns_before=("op9",))],
            "the move of 'w1' names the op 'op9', which never runs",
        ),
    ],
)
def test_moves_of_weights_that_cannot_be_are_refused(moves: list[Move], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        rewritten(THREE, (), moves)


@pytest.mark.parametrize("entry", ["weight:w0", "weight:*", "move:op0", "op0", "move:*"])
def test_weights_that_are_kept_stay(entry: str) -> None:
    plan = planned(problem_of(THREE, 22), host_at(2), [entry])
    stay = {"w0", "w1", "w2"} if entry.endswith("*") else {"w0"}
    assert stay.isdisjoint(move.tensor for move in plan.moves)


def test_what_keep_names_must_be_a_weight() -> None:
    with pytest.raises(InputError, match="keep names 'z', which matches no parameter of 'layers'"):
        planned(problem_of(THREE, 22), host_at(2), ["weight:z"])


def test_the_checker_looks_at_the_weights_that_are_kept() -> None:
    plan = planned(problem_of(THREE, 12), host_at(2))
    for entry, says in (
        ("weight:w0", "the weight 'w0' is at the host, but the configuration keeps 'weight:w0'"),
        ("move:op0", "the weight 'w0' is at the host, but the configuration keeps 'move:op0'"),
    ):
        changed = replace(plan, configuration={**plan.configuration, "keep": [entry]})
        assert check_plan(changed, THREE, np.repeat(problem_of(THREE, 12).time_ns, 2, axis=1)) == [says]


def test_the_checker_finds_a_weight_that_is_overwritten() -> None:
    tensors = (*THREE.tensors, Tensor(name="written", size_bytes=10, alias_of=0))
    ops = (*THREE.ops[:2], replace(THREE.ops[2], outputs=(*THREE.ops[2].outputs, len(THREE.tensors))))
    found = rewritten(THREE, (), [Move(tensor="w0", leaves_before=None, returns_before=("op0",))])
    assert about_reruns(THREE, found) == []
    assert about_reruns(replace(THREE, ops=ops, tensors=tensors), found)


def test_a_weight_that_only_a_view_reads_is_none() -> None:
    # Nothing reads what the view shows: no op holds the 50 bytes, and no bound counts them.
    tensors = (
        *THREE.tensors,
        Tensor(name="dead", size_bytes=50, role="parameter"),
        Tensor(name="v", size_bytes=50, alias_of=len(THREE.tensors)),
    )
    view = Op(name="v", kind="view", inputs=(len(THREE.tensors),), outputs=(len(THREE.tensors) + 1,))
    problem = problem_of(replace(THREE, ops=(view, *THREE.ops), tensors=tensors), 32)
    assert [problem.graph.tensors[weight].name for weight in streamable(problem.graph)] == ["w0", "w1", "w2"]
    plan = planned(problem, host_at(20))
    assert (plan.moves, plan.step_time_ns, plan.lower_bound) == ((), 12, 12)


def test_what_is_proven_counts_what_links_carry() -> None:
    # Weights hold 64 bytes, and 10 of each are carried: in 66 all come, 3 x (20 + 4). At least the two that op1 does
    # not read come: 20 bytes in 40 ns, less 2 for rounding.
    tensors = tuple(replace(each, memory_bytes=64) if each.role == "parameter" else each for each in THREE.tensors)
    plan = planned(problem_of(replace(THREE, tensors=tensors), 66), host_at(20))
    assert (plan.step_time_ns, plan.lower_bound, plan.metrics.bytes_over_limit) == (72, 38, 0)


def test_patterns_are_not_about_the_ops_of_moves() -> None:
    # "*1" is op1, and not w0@back1.
    plan = planned(problem_of(THREE, 22), host_at(2), ["move:*1"])
    assert [move.tensor for move in plan.moves] == ["w0", "w2"]


def test_constraints_of_the_device_are_not_about_the_host() -> None:
    constraints = Constraints(pins=(("*", "0"),), colocations=(("op0", "*"),))
    plan = planned(replace(problem_of(THREE, 22), constraints=constraints), host_at(2))
    assert [move.tensor for move in plan.moves] == ["w0", "w2"]
    assert plan.configuration["pins"] == {"*": "0"}


def test_where_all_else_fails_each_weight_comes_for_its_readers() -> None:
    # In 15 bytes op2 has w2 and x2, 14, and op3 w2, x1, x3: w0 is gone by then, and w2 comes last. Found only from the
    # start in which all weights come.
    graph = layers([3, 1, 11], [8, 7, 7, 8], [[], [0, 1], [2], [2]])
    sizes = {"x0": 2, "x1": 0, "x2": 3, "x3": 3}
    tensors = tuple(replace(each, size_bytes=sizes.get(each.name, each.size_bytes)) for each in graph.tensors)
    x = {each.name: place for place, each in enumerate(tensors)}
    ops = (*graph.ops[:2], replace(graph.ops[2], inputs=(x["w2"],)), replace(graph.ops[3], inputs=(x["w2"], x["x1"])))
    plan = planned(problem_of(replace(graph, ops=ops, tensors=tensors), 15), host_at(20), ["recompute:*"])
    assert (plan.metrics.bytes_over_limit, plan.step_time_ns) == (0, 52)


@st.composite
def inferences(draw: st.DrawFn) -> tuple[Graph, int, HostMemory]:
    """Up to five ops that read up to three weights, some of them twice; a limit; and a host memory."""
    weights = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    num_ops = draw(st.integers(2, 5))
    reads = [draw(st.lists(st.integers(0, len(weights) - 1), max_size=2, unique=True)) for _ in range(num_ops)]
    times = [draw(st.integers(1, 9)) for _ in range(num_ops)]
    host = HostMemory(
        there=(Link(bandwidth_bytes_per_s=1e9, latency_ns=draw(st.sampled_from([0, 2]))),),
        back=(
            Link(
                bandwidth_bytes_per_s=draw(st.sampled_from([0.5e9, 1e9, 4e9])), latency_ns=draw(st.sampled_from([0, 1]))
            ),
        ),
        memory_bytes=draw(st.sampled_from([None, None, 20])),
    )
    return layers(weights, times, reads), draw(st.integers(2, 2 + sum(weights))), host


def ways(graph: Graph) -> Iterator[tuple[Move, ...]]:
    """Each weight on the device all the time, or coming before each of every set of ops that reaches its readers."""
    names = [op.name for op in graph.ops]
    choices: list[list[Move | None]] = []
    for weight in streamable(graph):
        readers = [place for place, op in enumerate(graph.ops) if weight in op.inputs]
        choices.append([None])
        for count in range(1, len(readers) + 1):
            for places in combinations(range(readers[-1] + 1), count):
                if places[0] <= readers[0]:
                    move = Move(
                        tensor=graph.tensors[weight].name,
                        leaves_before=None,
                        returns_before=tuple(names[place] for place in places),
                    )
                    choices[-1].append(move)
    for chosen in product(*choices):
        yield tuple(move for move in chosen if move is not None)


def least_step(graph: Graph, limit: int, host: HostMemory) -> int | None:
    """The least step time within the limit of all ways, simulated one by one; None where none fits."""
    best = None
    for moves in ways(graph):
        # Returns come before an op in the order of the moves, so that all orders are tried.
        moved = with_reruns(problem_of(graph, limit), (), moves, host)
        metrics = measure(moved, in_order(moved))
        if metrics.bytes_over_limit == 0 and (best is None or metrics.step_time_ns < best):
            best = metrics.step_time_ns
    return best


@given(inferences())
def test_no_way_of_streaming_is_better_than_the_plan_or_below_what_is_proven(
    case: tuple[Graph, int, HostMemory],
) -> None:
    graph, limit, host = case
    plan = planned(problem_of(graph, limit), host, ["recompute:*"], 200)
    best = least_step(graph, limit, host)
    if best is None:
        return
    assert plan.metrics.bytes_over_limit == 0
    assert plan.lower_bound <= best
    assert least_limit(problem_of(graph, limit), host)[0] <= limit
    assert plan.step_time_ns <= best * 1.25
