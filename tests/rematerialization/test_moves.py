"""Plans that move tensors to the host's memory and back: searched, simulated, checked, kept in files, and refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import sketch
from numpy.typing import NDArray
from training_steps import ONE_DEVICE, host_at, limited, spans, training_step

import placewright
from placewright.analysis.outcome import gain_words
from placewright.bounds import Bound, least_limit, moved_time
from placewright.execution.steps import Fetch, Leave, Left, Release, Run, steps_of
from placewright.graph import HOST_TARGET, LEAVE_TARGET, Graph, Op, Tensor
from placewright.machine import Link
from placewright.machines import load_machine
from placewright.machines.host import HostMemory, parted, usual_host, with_host
from placewright.machines.limits import host_and_limits
from placewright.machines.presets import find_link
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.file import read_plan, write_plan
from placewright.plans.provenance import match_graph, planned_graph
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.problem.running_again import again_before, may_move
from placewright.rematerialization.proofs import bound_of_reruns, kept_in_place, some_may_move
from placewright.rematerialization.reruns import Move, Rerun, rewritten
from placewright.rematerialization.solve import (
    Rematerialized,
    core_search,
    in_order,
    least_memory,
    rematerialize,
    with_reruns,
)
from placewright.search.run.budget import Budget
from placewright.search.run.result import measure
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.verification.checker import check_plan
from placewright.verification.reruns import about_reruns

EVALUATIONS = 40


@dataclass(frozen=True, kw_only=True)
class Case:
    """A problem of one device with a limit, and its host."""

    problem: Problem
    host: HostMemory
    keep: tuple[str, ...]
    seed: int

    @property
    def limit(self) -> int:
        (limit,) = self.problem.memory_limits_bytes
        assert limit is not None
        return limit


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Links that are slow, fast and late, a host with and without a limit, and reruns allowed or not."""
    seed = draw(st.integers(0, 2**32))
    problem = limited(training_step(seed, draw(st.integers(1, 8))), draw(st.sampled_from([0.8, 0.5, 0.3, 0.1, 0.0])))
    there = draw(st.sampled_from([0.3e9, 1e9, 3e9, 10e9]))
    host = HostMemory(
        there=(Link(bandwidth_bytes_per_s=there, latency_ns=draw(st.sampled_from([0, 1, 3]))),),
        back=(
            Link(bandwidth_bytes_per_s=there * draw(st.sampled_from([1, 2])), latency_ns=draw(st.sampled_from([0, 2]))),
        ),
        memory_bytes=draw(st.sampled_from([None, None, 40])),
    )
    return Case(problem=problem, host=host, keep=draw(st.sampled_from([(), (), ("recompute:*",)])), seed=seed)


def found(case: Case) -> Rematerialized:
    run = SearchRun(Budget(evaluations=EVALUATIONS), seed=case.seed)
    return rematerialize(case.problem, run, case.keep, case.host)


def limits_of(limit: int, host: HostMemory | None) -> dict[str, int]:
    """Return memory limits as the configuration of a plan records them."""
    return {"cpu0": limit} | ({} if host is None or host.memory_bytes is None else {"host": host.memory_bytes})


def planned(problem: Problem, again: Rematerialized, host: HostMemory, keep: Sequence[str] = ()) -> Plan:
    result = make_method("input-order").solve(problem, SearchRun())
    limit = problem.memory_limits_bytes[0]
    options = {"keep": list(keep), "memory_limit": None if limit is None else limits_of(limit, host)}
    return assemble_plan(problem, result, solver="auto", seconds=0.0, again=again, host=host, options=options)


def plan_of(case: Case) -> Plan:
    return planned(case.problem, found(case), case.host, case.keep)


def times_on(plan: Plan, time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Repeat the op times for every device of the plan, the host included, on which no op of the graph runs."""
    return np.repeat(time_ns, plan.machine.num_devices, axis=1)


@given(cases())
def test_plans_with_moves_are_right(case: Case) -> None:
    plan = plan_of(case)
    assert check_plan(plan, case.problem.graph, times_on(plan, case.problem.time_ns)) == []
    assert match_graph(plan, case.problem.graph) == []


@given(cases())
def test_the_search_counts_as_the_simulation_does(case: Case) -> None:
    search, _, _ = core_search(case.problem, case.seed, case.keep, case.host)
    search.advance(EVALUATIONS)
    metrics = found(case).result.metrics
    assert search.best_objective == metrics.step_time_ns
    # A tensor may come back later than the run before which its return is listed.
    assert search.best_peak_bytes >= metrics.peak_bytes[0]
    assert search.best_bytes_over_limit >= metrics.bytes_over_limit


@given(cases())
def test_no_plan_is_below_what_is_proven(case: Case) -> None:
    metrics = found(case).result.metrics
    fits = metrics.bytes_over_limit == 0
    assert bound_of_reruns(case.problem, fits=fits, host=case.host).value <= metrics.step_time_ns
    if fits:
        assert least_limit(case.problem, case.host)[0] <= case.limit
        assert case.host.memory_bytes is None or metrics.peak_bytes[1] <= case.host.memory_bytes


@given(cases())
def test_a_search_gives_the_same_moves_again(case: Case) -> None:
    first, second = found(case), found(case)
    assert (first.reruns, first.moves) == (second.reruns, second.moves)


@given(cases(), st.sampled_from(["recompute:*", "move:*", "*", "matmul*", "move:matmul*", "recompute:matmul*"]))
def test_what_is_kept_neither_runs_again_nor_moves(case: Case, entry: str) -> None:
    about, _, pattern = entry.rpartition(":")
    graph = case.problem.graph
    names = {op.name for op in graph.ops if pattern == "*" or op.name.startswith("matmul")}
    if not any(op.name in names for op in graph.ops if op.kind != "view"):
        return
    again = found(replace(case, keep=(entry,)))
    if about in ("", "recompute"):
        assert names.isdisjoint(rerun.op for rerun in again.reruns)
    if about in ("", "move"):
        made = {graph.tensors[tensor].name for op in graph.ops if op.name in names for tensor in op.outputs}
        assert made.isdisjoint(move.tensor for move in again.moves)


@given(cases(), st.sampled_from([0.0, 0.1, 0.5]))
def test_the_least_memory_at_a_price_keeps_the_price(case: Case, price: float) -> None:
    problem = replace(case.problem, objective="peak-memory", memory_limits_bytes=(None,))
    once = make_method("input-order").solve(problem, SearchRun())
    again = least_memory(problem, SearchRun(Budget(evaluations=EVALUATIONS)), price, case.keep, case.host)
    if again is None:
        return
    plan = planned(problem, again, case.host, case.keep)
    assert plan.step_time_ns <= once.metrics.step_time_ns * (1 + price)
    assert plan.metrics.peak_memory_bytes <= once.metrics.peak_memory_bytes
    assert check_plan(plan, problem.graph, times_on(plan, problem.time_ns)) == []


@given(cases())
def test_what_the_executor_holds_is_within_what_is_planned(case: Case) -> None:
    plan = plan_of(case)
    graph = planned_graph(plan, case.problem.graph)
    weights = {move.tensor for move in plan.moves if move.leaves_before is None}
    at_host = sum(tensor.held_bytes for tensor in case.problem.graph.tensors if tensor.name in weights)
    held = peak = int(case.problem.lowered.resident_bytes.sum()) - at_host
    alive: dict[int, set[int]] = {}  # by piece of memory, the tensors of it that are not yet released

    def own(tensor: int) -> int:
        is_made = graph.tensors[tensor].alias_of is None and graph.producer_of[tensor] >= 0
        return graph.tensors[tensor].held_bytes if is_made else 0

    for step in steps_of(plan, graph).of_device[0]:
        if isinstance(step, Run | Fetch):
            for tensor in graph.ops[step.op].outputs if isinstance(step, Run) else (step.tensor,):
                alive.setdefault(base := graph.base_of[tensor], set()).add(tensor)
                held += own(tensor) if base == tensor else 0
            peak = max(peak, held + (graph.ops[step.op].workspace_bytes if isinstance(step, Run) else 0))
        elif isinstance(step, Release):
            for tensor in step.tensors:
                base = graph.base_of[tensor]
                if tensor in alive.get(base, ()):
                    alive[base].discard(tensor)
                    held -= 0 if alive[base] else own(base)
    assert peak <= plan.peak_bytes[0]


CHAIN = (
    *("x=10", "a x -> a=10 | time_ns=1 phase=forward", "b a -> b=10 | time_ns=2 phase=forward"),
    *("c b -> c=10 | time_ns=3 phase=forward", "d c -> d=1 | time_ns=4 phase=forward"),
    "e a d -> e=1 | time_ns=5 phase=backward",
)


def chain() -> Graph:
    """a -> b -> c -> d, and e reads a and d: a, b and c of 10 bytes, d and e of 1, and a parameter x of 10. The step
    trains, so that x stays."""
    return sketch(*CHAIN, kind="elementwise", name="chain")


def of_chain(limit: int = 31, graph: Graph | None = None) -> Problem:
    graph = graph or chain()
    times = np.array([[op.time_ns or 0] for op in graph.ops], np.int64)
    return Problem(graph=graph, machine=ONE_DEVICE, time_ns=times, memory_limits_bytes=(limit,))


def plan_chain(host: HostMemory, keep: Sequence[str] = (), limit: int = 31) -> Plan:
    problem = of_chain(limit)
    again = rematerialize(problem, SearchRun(Budget(evaluations=EVALUATIONS)), keep, host)
    plan = planned(problem, again, host, keep)
    assert check_plan(plan, problem.graph, times_on(plan, problem.time_ns)) == []
    return plan


A_MOVES = (Move(tensor="a", leaves_before="c", returns_before=("d",)),)


def test_over_a_fast_link_a_moves_and_nothing_waits() -> None:
    # While c runs: x, b and c are 30 bytes, 40 with a. Moved from 1 on it is at the host at 3, when c starts at the
    # earliest; from 6 on it comes back beside d, with x, c, a and d in 31 bytes, and is there at 8, before e at 10.
    plan = plan_chain(host_at(2))
    assert (plan.moves, plan.reruns) == (A_MOVES, ())
    assert (plan.step_time_ns, plan.peak_bytes, plan.status) == (1 + 2 + 3 + 4 + 5, (31, 20), "optimal")
    assert spans(plan) == {
        "a": (0, 1),
        ">a": (1, 3),
        "b": (1, 3),
        "a@host": (3, 3),
        "a@leave": (3, 3),
        "c": (3, 6),
        "a@back1": (6, 6),
        ">a@back1": (6, 8),
        "d": (6, 10),
        "e": (10, 15),
    }
    assert gain_words(plan).startswith("fits by moving 1 tensor to the host: no more time than without the")


def test_over_a_slow_link_the_step_waits_just_so_long() -> None:
    # Moved from 1 to 11; so c runs from 11 to 14, d to 18. Back from 14 to 24: e ends at 29, 8 + 6 later than in 15.
    plan = plan_chain(host_at(10), ["recompute:*"])
    assert (plan.moves, plan.reruns) == (A_MOVES, ())
    assert [spans(plan)[name] for name in (">a", "c", ">a@back1", "d", "e")] == [
        (1, 11),
        (11, 14),
        (14, 24),
        (14, 18),
        (24, 29),
    ]
    assert plan.step_time_ns == 29


def test_latencies_count_once_each_way() -> None:
    # Moved from 1 to 1 + 1 + 2 = 4; the device hears of it at 5. So c runs from 5 to 8, of which the host hears at 9;
    # back from 9 to 12, when d, from 8 on, ends as well: e ends at 17.
    plan = plan_chain(host_at(2, latency_ns=1), ["recompute:*"])
    assert [spans(plan)[name] for name in (">a", "a@host", "c", "a@back1", ">a@back1", "e")] == [
        (1, 4),
        (4, 4),
        (5, 8),
        (9, 9),
        (9, 12),
        (12, 17),
    ]


def test_over_a_slow_link_a_runs_again_where_that_is_cheaper() -> None:
    # A move waits until 5 with c and ends at 17; a takes 1 ns when it runs again: 16.
    plan = plan_chain(host_at(4))
    assert (plan.moves, [rerun.name for rerun in plan.reruns]) == ((), ["a@2"])
    assert plan.step_time_ns == 16
    assert plan_chain(host_at(4), ["recompute:*"]).step_time_ns == 17
    # Nothing is done that is not allowed.
    assert plan_chain(host_at(2), ["move:*"]).moves == ()
    assert plan_chain(host_at(2), ["a"]).status == "infeasible"


@pytest.mark.parametrize("room", [9, 10, 19])
def test_where_the_host_has_no_room_a_runs_again(room: int) -> None:
    # Besides what is kept there, the host holds what is on its way back: 20 bytes.
    plan = plan_chain(host_at(2, memory_bytes=room))
    assert (plan.moves, [rerun.name for rerun in plan.reruns], plan.status) == ((), ["a@2"], "feasible")


def test_where_it_fits_nothing_moves() -> None:
    plan = plan_chain(host_at(2), limit=40)
    assert (plan.moves, plan.reruns, plan.transfers) == ((), (), ())
    assert plan.metrics.peak_memory_bytes == 40
    # The machine has the host's memory all the same, in which nothing is.
    assert plan.peak_bytes == (40, 0)
    assert plan.machine.devices[-1].is_host


def test_what_must_be_moved_or_made_again_takes_what_is_proven() -> None:
    # While c runs, 9 bytes are too much. Made again they are nine tenths of a, 0.9 ns: with rounding down, nothing
    # beyond the 15 ns of all ops.
    problem = of_chain()
    assert moved_time(problem, host_at(1000)) == Bound(15, "tensors that must be moved or made again")
    # Where a cannot run again, they are moved: 45 ns there and 45 back, less 2 for rounding.
    fixed = of_chain(31, replace(chain(), ops=(replace(chain().ops[0], kind="other"), *chain().ops[1:])))
    assert again_before(fixed)[0] == -1
    assert moved_time(fixed, host_at(50)).value == 90 - 2
    # Where they come back in no time, d and e still run after they have left; where they leave in no time, a and b
    # before they come back.
    assert moved_time(fixed, replace(host_at(50), back=(Link(),))).value == 45 + 4 + 5 - 2
    assert moved_time(fixed, replace(host_at(50), there=(Link(),))).value == 1 + 2 + 45 - 2
    # While b runs x, a and b are held, whatever is moved.
    assert least_limit(problem, host_at(2)) == (30, "b")


def two_readers() -> Graph:
    """The chain, and the same once more after it: b2 reads e, d2 what c2 made of that, and e2 a and d2."""
    again = ("b2 e -> b2=10", "c2 b2 -> c2=10", "d2 c2 -> d2=1", "e2 a d2 -> e2=1")
    return sketch(*CHAIN, *(f"{line} | time_ns=3" for line in again), kind="elementwise", name="chain")


def test_what_has_left_comes_back_twice() -> None:
    # a is needed by e and by e2; while c and c2 run it is too much. It is moved there once and twice back.
    problem, host = of_chain(31, two_readers()), host_at(2)
    again = rematerialize(problem, SearchRun(Budget(evaluations=EVALUATIONS)), ["recompute:*"], host)
    plan = planned(problem, again, host, ["recompute:*"])
    assert plan.moves == (Move(tensor="a", leaves_before="c", returns_before=("d", "d2")),)
    assert [transfer.tensor for transfer in plan.transfers] == ["a", "a@back1", "a@back2"]
    assert (plan.step_time_ns, plan.peak_bytes[0]) == (15 + 4 * 3, 31)
    assert check_plan(plan, problem.graph, times_on(plan, problem.time_ns)) == []
    read = {op.name: [again.problem.graph.tensors[t].name for t in op.inputs] for op in again.problem.graph.ops}
    assert (read["b"], read["e"], read["e2"]) == (["a"], ["a@back1", "d"], ["a@back2", "d2"])


@pytest.mark.parametrize("size", [10, 1])
def test_what_is_read_through_a_view_comes_back_whole(size: int) -> None:
    # e reads a through a view, of a tenth of it: a comes back all the same, and the view is of that.
    graph = chain()
    tensors = (*graph.tensors, Tensor(name="v", size_bytes=size, alias_of=1))
    view = Op(name="v", kind="view", inputs=(1,), outputs=(6,))
    ops = (graph.ops[0], view, *graph.ops[1:4], replace(graph.ops[4], inputs=(6, 4)))
    problem, host = of_chain(31, replace(graph, ops=ops, tensors=tensors)), host_at(2)
    again = rematerialize(problem, SearchRun(Budget(evaluations=EVALUATIONS)), ["recompute:*"], host)
    plan = planned(problem, again, host, ["recompute:*"])
    assert plan.moves == A_MOVES
    assert [(transfer.tensor, transfer.size_bytes) for transfer in plan.transfers] == [("a", 10), ("a@back1", 10)]
    assert (plan.step_time_ns, plan.peak_bytes[0]) == (15, 31)
    found = planned_graph(plan, problem.graph)
    (made,) = (op for op in found.ops if op.name == "v@2")
    assert [found.tensors[tensor].name for tensor in made.inputs] == ["a@back1"]
    assert check_plan(plan, problem.graph, times_on(plan, problem.time_ns)) == []


def test_the_ops_of_a_move_wait_for_what_they_must() -> None:
    found = rewritten(chain(), (), A_MOVES)
    ops, name = found.graph.ops, [op.name for op in found.graph.ops]
    assert name == ["a", "b", "a@host", "a@leave", "c", "a@back1", "d", "e"]
    assert found.op_of == (0, 1, -1, -1, 2, -1, 3, 4)
    assert [ops[place].target for place in (2, 3, 5)] == [HOST_TARGET, LEAVE_TARGET, HOST_TARGET]
    # a@leave waits for the copy at the host, a@back1 for that copy and for the run before it.
    assert (ops[3].controls, ops[5].controls) == ((2,), (2, 4))
    assert found.graph.tensors[ops[5].outputs[0]].name == "a@back1"
    assert about_reruns(chain(), found) == []


def test_a_return_may_stand_before_a_rerun() -> None:
    # b runs again from the a that has come back.
    again = (Rerun(name="b@2", op="b", before="e", tensors=("b",)),)
    moves = (Move(tensor="a", leaves_before="c", returns_before=("b@2",)),)
    found = rewritten(chain(), again, moves)
    assert [op.name for op in found.graph.ops][4:] == ["c", "d", "a@back1", "b@2", "e"]
    problem, host = of_chain(99), host_at(2)
    rewritten_problem = with_reruns(problem, again, moves, host)
    assert about_reruns(chain(), found) == []
    assert in_order(rewritten_problem).device_of.tolist() == [0, 0, 1, 0, 0, 0, 1, 0, 0]


def test_the_steps_of_a_device_with_moves() -> None:
    plan = plan_chain(host_at(2))
    graph = planned_graph(plan, chain())
    names = []
    for step in steps_of(plan, graph).of_device[0]:
        if isinstance(step, Run):
            names.append(graph.ops[step.op].name)
        elif isinstance(step, Leave | Left | Fetch):
            names.append(f"{type(step).__name__} {graph.tensors[step.tensor].name}")
    assert names == ["a", "Leave a", "b", "Left a", "c", "Fetch a@back1", "d", "e"]


@pytest.mark.parametrize(
    ("moves", "sentence"),
    [
        (
            [Move(tensor="z", leaves_before="c", returns_before=("d",))],
            "a move names the tensor 'z', which no op of the graph makes",
        ),
        (
            [Move(tensor="x", leaves_before="c", returns_before=("d",))],
            "a move names the tensor 'x', which no op of the graph makes",
        ),
        (
            [Move(tensor="a", leaves_before="z", returns_before=("d",))],
            "the move of 'a' names the op 'z', which never runs",
        ),
        (
            [Move(tensor="a", leaves_before="c", returns_before=("d", "z"))],
            "the move of 'a' names the op 'z', which never runs",
        ),
        (
            [Move(tensor="b", leaves_before="a", returns_before=("c",))],
            "the tensor 'b' leaves before it is made, or after it was made again",
        ),
        ([Move(tensor="a", leaves_before="d", returns_before=("c",))], "the tensor 'a' comes back before it has left"),
        (
            [*A_MOVES, Move(tensor="a", leaves_before="d", returns_before=("e",))],
            "the tensor 'a' leaves before it is made, or after it was made again",
        ),
    ],
)
def test_moves_that_cannot_be_are_refused(moves: list[Move], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        rewritten(chain(), (), moves)
    plan = replace(plan_chain(host_at(2)), moves=tuple(moves))
    assert match_graph(plan, chain()) == [sentence]
    assert check_plan(plan, chain(), times_on(plan, of_chain().time_ns)) == [sentence]


def test_a_view_does_not_move() -> None:
    graph = chain()
    tensors = (*graph.tensors, Tensor(name="v", size_bytes=10, alias_of=1))
    ops = (graph.ops[0], Op(name="v", kind="view", inputs=(1,), outputs=(6,)), *graph.ops[1:])
    with pytest.raises(InputError, match="a move names the tensor 'v', which has no memory of its own"):
        rewritten(replace(graph, ops=ops, tensors=tensors), (), [replace(A_MOVES[0], tensor="v")])


def test_what_was_made_again_does_not_leave() -> None:
    again = [Rerun(name="a@2", op="a", before="d", tensors=("a",))]
    with pytest.raises(InputError, match="the tensor 'a' leaves before it is made, or after it was made again"):
        rewritten(chain(), again, [Move(tensor="a", leaves_before="d", returns_before=("e",))])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"moves": A_MOVES * 2}, "two moves are of one tensor"),
        ({"moves": (replace(A_MOVES[0], leaves_before="z"),)}, "the move of 'a' names 'z', which is no op of the plan"),
        (
            {"moves": (replace(A_MOVES[0], returns_before=("d", "z")),)},
            "the move of 'a' names 'z', which is no op of the plan",
        ),
    ],
)
def test_a_file_with_moves_that_are_not_in_its_plan_is_refused(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    write_plan(replace(plan_chain(host_at(2)), **changes), tmp_path / "plan.json")
    with pytest.raises(InputError, match=re.escape(f"plan.json': {says}")):
        read_plan(tmp_path / "plan.json")


def test_a_file_with_moves_and_no_host_is_refused(tmp_path: Path) -> None:
    problem = of_chain(99)
    result = make_method("input-order").solve(problem, SearchRun())
    plan = assemble_plan(problem, result, solver="auto", seconds=0.0)
    write_plan(replace(plan, moves=A_MOVES), tmp_path / "plan.json")
    with pytest.raises(InputError, match="there are moves, and no memory of the host"):
        read_plan(tmp_path / "plan.json")


def overwritten() -> Graph:
    """The chain, in which u writes what a made in place, before c, and e reads what u wrote."""
    graph = chain()
    tensors = (*graph.tensors, Tensor(name="u", size_bytes=10, alias_of=1))
    update = Op(name="u", kind="elementwise", inputs=(2,), outputs=(6,), controls=(1,), time_ns=1)
    ops = (*graph.ops[:2], update, *graph.ops[2:4], replace(graph.ops[4], inputs=(1, 4), controls=(2,)))
    return replace(graph, ops=ops, tensors=tensors)


def test_what_is_overwritten_is_not_moved_by_the_search() -> None:
    problem = of_chain(31, overwritten())
    movable = may_move(problem)
    names = [problem.graph.tensors[tensor].name for tensor in problem.lowered.graph_tensor]
    assert {name for name, may in zip(names, movable, strict=True) if may} == {"b", "c", "d", "e"}


def test_the_checker_finds_what_is_overwritten_after_it_left() -> None:
    # The host gets what a made, and e is to read what u wrote; or u writes while a is on its way.
    graph = overwritten()
    rule, wrong = "'a' is moved, and is overwritten in place", "op 'e' does not read what 'e' reads without reruns"
    late = [f"op 'a@{name}' moves what has been overwritten since it was made" for name in ("host", "leave")]
    for leaves_before, expected in (("u", [rule, wrong]), ("c", [*late, rule])):
        moves = (Move(tensor="a", leaves_before=leaves_before, returns_before=("d",)),)
        problem, host = of_chain(99, graph), host_at(2)
        moved = with_reruns(problem, (), moves, host)
        problems = about_reruns(graph, rewritten(graph, (), moves))
        assert problems == expected
        result = SearchRun().result(moved, "given", in_order(moved))
        again = Rematerialized(problem=moved, result=result, reruns=(), moves=moves)
        plan = replace(
            planned(replace(problem, memory_limits_bytes=(1,)), again, host),
            graph_fingerprint=moved.graph.fingerprint,
            moves=moves,
        )
        assert check_plan(plan, graph, times_on(plan, problem.time_ns)) == problems


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("a", "what op 'a' makes is moved, but the configuration keeps 'a'"),
        ("move:a", "what op 'a' makes is moved, but the configuration keeps 'move:a'"),
        ("recompute:a", None),
        ("move:z", "the configuration's keep names 'z', which matches no op"),
    ],
)
def test_the_checker_looks_at_what_is_kept(entry: str, says: str | None) -> None:
    plan = plan_chain(host_at(2))
    changed = replace(plan, configuration={**plan.configuration, "keep": [entry]})
    assert check_plan(changed, chain(), times_on(plan, of_chain().time_ns)) == ([] if says is None else [says])


def test_what_keep_names_must_be_there() -> None:
    with pytest.raises(InputError, match="keep names 'z', which matches no op of 'chain'"):
        kept_in_place(of_chain(), ["move:z"])


def test_the_checker_counts_moves_where_they_are_not() -> None:
    plan = plan_chain(host_at(2))
    (first, second) = plan.transfers
    early = replace(plan, transfers=(first, replace(second, start_ns=5, finish_ns=7)))
    assert check_plan(early, chain(), times_on(plan, of_chain().time_ns))


def test_which_machines_have_a_host_to_move_to() -> None:
    assert usual_host(load_machine("h100")) is not None
    for name in ("cpu", "h100+cpu", "64xh100"):
        assert usual_host(load_machine(name)) is None
    mixed = usual_host(load_machine("h100+a100"))
    assert mixed is not None
    assert mixed.there == mixed.back == (find_link("pcie5").link, find_link("pcie4").link)
    blocking = replace(load_machine("h100"), transfer_model="blocking")
    assert usual_host(blocking) is None
    problem = of_chain()
    assert some_may_move(problem, (), host_at(2))
    assert not some_may_move(problem, (), None)
    assert not some_may_move(problem, ("move:*",), host_at(2))
    assert not some_may_move(replace(problem, control="order"), (), host_at(2))


def test_the_host_is_parted_from_its_machine_again() -> None:
    host = HostMemory(
        there=(Link(bandwidth_bytes_per_s=1e9, latency_ns=3),), back=(Link(bandwidth_bytes_per_s=2e9),), memory_bytes=7
    )
    machine = with_host(ONE_DEVICE, host)
    assert [device.is_host for device in machine.devices] == [False, True]
    assert parted(machine) == (ONE_DEVICE, host)
    assert parted(ONE_DEVICE) == (ONE_DEVICE, None)


@pytest.mark.parametrize(
    ("given_limit", "on_host", "on_device"),
    [
        (None, None, None),
        ("8GiB", None, 8 * 2**30),
        ("gpu0=8GiB,host=64GiB", 64 * 2**30, 8 * 2**30),
        ({"host": "1GiB", 0: "8GiB"}, 2**30, 8 * 2**30),
        (["8GiB"], None, 8 * 2**30),
    ],
)
def test_the_limit_of_the_host_is_its_own(given_limit: Any, on_host: int | None, on_device: int | None) -> None:
    host, limits = host_and_limits(given_limit, load_machine("h100"))
    assert host is not None
    assert host.memory_bytes == on_host
    assert limits == (None if on_device is None else {"gpu0": on_device})


def test_a_machine_without_a_host_has_no_limit_of_one() -> None:
    with pytest.raises(InputError, match="memory_limit names 'host', which machine '2xcpu' does not have"):
        host_and_limits("host=1GiB", load_machine("2xcpu"))


def one_rerun_at_most(problem: Problem) -> list[tuple[Rerun, ...]]:
    """List no rerun, and each single rerun of an op at each place where it may run."""
    graph, lowered = problem.graph, problem.lowered
    names = [graph.ops[op].name for op in lowered.graph_op]
    found: list[tuple[Rerun, ...]] = [()]
    for op, until in enumerate(again_before(problem).tolist()):
        made = range(lowered.output_begin[op], lowered.output_begin[op + 1])
        own = tuple(graph.tensors[lowered.graph_tensor[t]].name for t in made if lowered.storage[t] == t)
        places = names[op + 1 : until + 1] if own else []
        found += [(Rerun(name=f"{names[op]}@2", op=names[op], before=place, tensors=own),) for place in places]
    return found


def two_moves_at_most(problem: Problem) -> list[tuple[Move, ...]]:
    """List all sets of moves in which each of up to two tensors leaves and comes back once, wherever it can."""
    graph, lowered = problem.graph, problem.lowered
    names = [graph.ops[op].name for op in lowered.graph_op]
    single = [
        Move(
            tensor=graph.tensors[lowered.graph_tensor[tensor]].name,
            leaves_before=names[leaves],
            returns_before=(names[returns],),
        )
        for tensor in np.flatnonzero(may_move(problem)).tolist()
        for leaves in range(int(lowered.producer[tensor]) + 1, len(names))
        for returns in range(leaves, len(names))
    ]
    pairs = [(one, two) for one, two in combinations(single, 2) if one.tensor != two.tensor]
    return [(), *((move,) for move in single), *pairs]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(60))
def test_all_plans_of_few_moves_are_no_better_than_the_search_and_no_less_than_the_bound(seed: int) -> None:
    problem = limited(training_step(seed, 1 + seed % 2), (0.6, 0.4, 0.2, 0.0)[seed % 4])
    plans = list(product(one_rerun_at_most(problem), two_moves_at_most(problem)))
    if problem.core.num_ops > 7 or len(plans) > 25_000:
        pytest.skip("more plans than can be looked at")
    link = Link(bandwidth_bytes_per_s=(1e9, 3e9, 10e9)[seed % 3], latency_ns=seed % 2)
    host = HostMemory(there=(link,), back=(link,))
    best = None
    for reruns, moves in plans:
        try:
            changed = with_reruns(problem, reruns, moves, host)
        except InputError:
            continue  # It would leave after it was made again.
        metrics = measure(changed, in_order(changed))
        if metrics.bytes_over_limit == 0:
            best = metrics.step_time_ns if best is None else min(best, metrics.step_time_ns)
    found = rematerialize(problem, SearchRun(Budget(evaluations=200), seed=0), (), host).result.metrics
    if best is not None:
        assert bound_of_reruns(problem, fits=True, host=host).value <= best
        assert found.bytes_over_limit == 0
        assert found.step_time_ns <= best


def test_the_device_that_computes_stands_before_a_host_that_holds_more(tmp_path: Path) -> None:
    step = training_step(5, 8)
    limit = placewright.plan(step, "p100@graphs").peak_bytes[0] * 8 // 10
    plan = placewright.plan(step, "p100@graphs", memory_limit=limit, keep=["recompute:*"], evaluations=10)
    # The host holds 60 bytes, and here ten times as many.
    plan = replace(plan, metrics=replace(plan.metrics, peak_bytes=(plan.peak_bytes[0], 600)))
    text = str(plan.explain())
    assert text.index("peak of gpu0") < text.index("peak of host")
    plan.write_report(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert f"on gpu0, of {limit}" in page
    assert "on host, " not in page


@pytest.mark.parametrize("mark", ["@2", "@host", "@leave", "@back1"])
def test_a_name_that_plans_make_is_refused(mark: str) -> None:
    step = training_step(5, 8)
    limit = placewright.plan(step, "p100@graphs").peak_bytes[0] * 8 // 10
    (first, *_, last) = step.ops
    of = first.name if mark == "@2" else step.tensors[first.outputs[0]].name
    taken = replace(step, ops=(*step.ops[:-1], replace(last, name=f"{of}{mark}")))
    with pytest.raises(InputError, match=f"the op '{of}{mark}' has the name that a plan under a memory limit .*rename"):
        placewright.plan(taken, "p100@graphs", memory_limit=limit, evaluations=10)
    other = replace(step, ops=(*step.ops[:-1], replace(last, name=f"other{mark}")))
    assert placewright.plan(other, "p100@graphs", memory_limit=limit, evaluations=10).status != "infeasible"


def test_a_machine_that_a_plan_has_is_planned_for_again() -> None:
    step = training_step(3, 4)
    machine = load_machine("p100@graphs")
    first = placewright.plan(step, machine, memory_limit=int(0.8 * placewright.plan(step, machine).peak_bytes[0]))
    assert first.machine.devices[-1].is_host
    again = placewright.plan(step, first.machine, memory_limit=first.memory_limits_bytes[0])
    assert again.ops == first.ops
