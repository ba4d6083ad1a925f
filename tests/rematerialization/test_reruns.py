"""Plans with reruns: simulated, checked and read as what they are, on graphs with all that a graph may hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import sketch
from overwriting_graphs import overwriting_graph
from training_steps import ONE_DEVICE, limited, training_step

import placewright
import placewright._core as _core
from placewright.analysis.comparison import compare
from placewright.analysis.outcome import bound_words, floor_words, gain_words, verdict_words
from placewright.bounds import nothing_fits
from placewright.graph import Graph, Op, Tensor
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.file import read_plan, write_plan
from placewright.plans.provenance import match_graph, planned_graph
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.problem.running_again import again_before, may_move, may_run_again
from placewright.rematerialization.reruns import Rerun, rewritten
from placewright.rematerialization.solve import least_memory, rematerialize
from placewright.report.frontier import frontier_html
from placewright.search.constructive.one_device import ORDERS, OneDeviceOrder
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.verification.checker import check_plan
from placewright.verification.reruns import about_reruns

some_orders = st.lists(st.sampled_from(ORDERS), max_size=2)


@st.composite
def tight_problems(draw: st.DrawFn) -> Problem:
    """Problems of one device, with a limit below what each op running once takes."""
    graph = training_step(draw(st.integers(0, 2**32)), draw(st.integers(2, 14)))
    return limited(graph, draw(st.sampled_from([0.9, 0.7, 0.5, 0.3, 0.1])))


@st.composite
def overwriting_problems(draw: st.DrawFn) -> Problem:
    """The same of graphs that overwrite what they have made."""
    graph = overwriting_graph(draw(st.integers(0, 2**32)), draw(st.integers(4, 12)))
    return limited(graph, draw(st.sampled_from([0.9, 0.7, 0.5, 0.3, 0.1])))


def planned(problem: Problem, evaluations: int = 12, orders: Sequence[OneDeviceOrder] = ()) -> Plan:
    result = make_method("input-order").solve(problem, SearchRun())
    run = SearchRun(Budget(evaluations=evaluations))
    again = rematerialize(problem, run, orders=[each.order(problem) for each in orders])
    return assemble_plan(problem, result, solver="auto", seconds=0.0, again=again)


@given(st.one_of(tight_problems(), overwriting_problems()), st.sampled_from([12, 40]), some_orders)
def test_plans_with_reruns_are_right(problem: Problem, evaluations: int, orders: list[OneDeviceOrder]) -> None:
    plan = planned(problem, evaluations, orders)
    assert check_plan(plan, problem.graph, problem.time_ns) == []
    assert match_graph(plan, problem.graph) == []


def simulated_and_counted(problem: Problem, seed: int) -> tuple[int, int]:
    """The peak of the best runs of a search, as simulated and as the search counts it; their time is the same."""
    ops, until = np.arange(problem.core.num_ops, dtype=np.int32), again_before(problem)
    search = _core.RematerializationSearch(problem=problem.core, order=ops, again_before=until, seed=seed)
    search.advance(30)
    found = rematerialize(problem, SearchRun(Budget(evaluations=30), seed=seed))
    assert int(found.problem.time_ns[found.problem.lowered.graph_op].sum()) == search.best_objective
    return found.result.metrics.peak_memory_bytes, search.best_peak_bytes


@given(tight_problems(), st.integers(0, 2**32))
def test_the_search_counts_as_the_simulation_does(problem: Problem, seed: int) -> None:
    simulated, counted = simulated_and_counted(problem, seed)
    assert simulated == counted


@given(overwriting_problems(), st.integers(0, 2**32))
def test_the_search_counts_no_less_than_the_simulation(problem: Problem, seed: int) -> None:
    simulated, counted = simulated_and_counted(problem, seed)
    assert simulated <= counted


@given(tight_problems())
def test_a_search_that_pauses_goes_where_it_would_have(problem: Problem) -> None:
    ops, until = np.arange(problem.core.num_ops, dtype=np.int32), again_before(problem)
    whole, halves = (
        _core.RematerializationSearch(problem=problem.core, order=ops, again_before=until, seed=1) for _ in range(2)
    )
    whole.advance(40)
    for _ in range(40):
        halves.advance(40, at_most=1)
    assert [array.tolist() for array in whole.best()] == [array.tolist() for array in halves.best()]


def chain() -> Graph:
    """a -> b -> c, and d reads a and c: all of 10 bytes but d's result, of 1."""
    return sketch(
        *("x=10", "a x -> a=10 | time_ns=1", "b a -> b=10 | time_ns=2", "c b -> c=10 | time_ns=3"),
        "d a c -> d=1 | time_ns=4",
        kind="elementwise",
        name="chain",
    )


def one_device(limit: int, graph: Graph | None = None) -> Problem:
    graph = graph or chain()
    times = np.array([[op.time_ns or 0] for op in graph.ops], np.int64)
    return Problem(graph=graph, machine=ONE_DEVICE, time_ns=times, memory_limits_bytes=(limit,))


TIMES = one_device(31).time_ns


def test_a_chain_runs_its_first_op_again() -> None:
    # x stays (10). While c runs: a (for d), b and c, 40 with x. Without a it is 30; d then needs a, c and d: 31.
    plan = planned(one_device(31))
    assert [op.name for op in plan.ops] == ["a", "b", "c", "a@2", "d"]
    assert plan.reruns == (Rerun(name="a@2", op="a", before="d", tensors=("a",)),)
    assert (plan.metrics.peak_memory_bytes, plan.step_time_ns, plan.status) == (31, 1 + 2 + 3 + 1 + 4, "optimal")
    assert plan.bound_reason == "tensors that must be dropped and made again"
    # Without the limit it takes 10.
    assert plan.extra_time == plan.least_extra_time == 11 / 10 - 1
    assert (
        gain_words(plan)
        == "fits by running 1 op again: 10.0% more time than without the limit, at least 10.0% (proven)"
    )


def interleaved() -> Graph:
    """x -> a -> s -> b -> t and p -> u; y reads x, t and u. p runs between a and s."""
    return sketch(
        *("x -> x=50 | time_ns=1", "a x -> a=100", "p -> p=100", "s a -> s=1", "b s -> b=120", "t b -> t=1"),
        *("u p -> u=1", "y x t u -> y=1"),
        kind="elementwise",
        time_ns=10,
        name="interleaved",
    )


def test_first_runs_are_in_another_order_where_that_costs_less() -> None:
    # While b runs, its 120 and s are held; x beside them is 171, so x, of 1 ns, runs again for y in any order. In this
    # one p's 100 would be held beside a's 100 as well, so that a and p, of 10 ns, run again; not so with p behind t.
    problem = one_device(160, interleaved())
    once = sum(op.time_ns or 0 for op in interleaved().ops)
    assert planned(problem, 100).step_time_ns == once + 1 + 10 + 10
    plan = planned(problem, 100, ORDERS)
    assert [rerun.name for rerun in plan.reruns] == ["x@2"]
    assert plan.step_time_ns == once + 1
    assert check_plan(plan, problem.graph, problem.time_ns) == []
    assert placewright.plan(interleaved(), ONE_DEVICE, memory_limit=160).step_time_ns == once + 1
    kept = placewright.plan(interleaved(), ONE_DEVICE, memory_limit=160, solver="input-order")
    assert kept.step_time_ns == once + 1 + 10 + 10


def test_ops_of_a_plan_in_another_order_are_explained_with_and_without_reruns() -> None:
    for limit in (160, 1000):
        plan = placewright.plan(interleaved(), ONE_DEVICE, memory_limit=limit, objective="peak-memory", solver="dfs")
        assert [op.name for op in plan.ops if "@" not in op.name] != [op.name for op in interleaved().ops]
        for op in plan.ops:
            assert plan.explain_op(op.name, interleaved()).facts


def launched() -> Graph:
    """x and big; ten ops one after the other; long reads big, and y reads long, x and the last of the ten. The host
    launches each op in 10 ns: behind the ten, long waits for its launch; before them, theirs are hidden by long."""
    names = ["x", "big", *(f"c{step}" for step in range(10)), "long", "y"]
    sizes = [500, 1000, *[300] * 10, 1, 1]
    reads: list[tuple[int, ...]] = [(), (0,), (), *((step + 2,) for step in range(9)), (1,), (0, 11, 12)]
    return Graph(
        name="launched",
        ops=tuple(
            Op(name=name, kind="elementwise", inputs=inputs, outputs=(place,), time_ns=200 if name == "long" else 1)
            for place, (name, inputs) in enumerate(zip(names, reads, strict=True))
        ),
        tensors=tuple(Tensor(name=f"{name}:0", size_bytes=size) for name, size in zip(names, sizes, strict=True)),
    )


def test_an_order_whose_launches_cost_less_is_chosen_and_no_bound_is_claimed_above_it() -> None:
    device = replace(ONE_DEVICE.devices[0], launch_overhead_ns=10, launches_itself=False)
    machine = replace(ONE_DEVICE, launch="host-thread", devices=(device,))
    plan = placewright.plan(launched(), machine, memory_limit=1500)
    captured = placewright.plan(launched(), machine, solver="input-order")
    assert plan.reruns
    assert plan.step_time_ns < captured.step_time_ns
    assert plan.extra_time is not None
    assert plan.extra_time < 0
    # Every op and x again take less than the captured order with its launches, so nothing is proven beyond that.
    assert plan.least_extra_time is None
    found = placewright.frontier(launched(), machine).facts
    for point in found.points:
        assert point.least_time_ns <= point.step_time_ns
        assert point.least_extra_time <= point.extra_time
    # The chart holds the bound as well: no place is below the axis.
    lowest = max(float(place.split(",")[1]) for place in re.findall(r"[\d.]+,[\d.]+", frontier_html(found)))
    assert lowest <= max(map(float, re.findall(r'y1="([\d.]+)"', frontier_html(found))))


def test_where_nothing_fits_at_a_price_the_bound_is_that_of_reruns() -> None:
    graph = training_step(2534541014, 2)
    for limit in (74, 60, 90):
        plan = placewright.plan(graph, ONE_DEVICE, objective="peak-memory", max_slowdown=0.1, memory_limit=limit)
        assert not plan.check(graph).facts.problems


def test_the_least_memory_at_a_price_is_optimal_only_where_no_rerun_could_need_less() -> None:
    # x (10), a, b and c take 9,960 more with c's workspace: 10,000. 10 less with a made again, which is within the
    # price, and less than the search looks for. No plan without reruns has less.
    graph = chain()
    large = replace(graph.ops[2], workspace_bytes=9960)
    graph = replace(graph, ops=(*graph.ops[:2], large, graph.ops[3]))
    plan = placewright.plan(graph, ONE_DEVICE, objective="peak-memory", max_slowdown=0.2)
    assert (plan.status, plan.metrics.peak_memory_bytes, plan.lower_bound) == ("feasible", 10000, 9980)
    assert plan.check(graph).facts.correct
    once = placewright.plan(graph, ONE_DEVICE, objective="peak-memory")
    assert (once.status, once.lower_bound) == ("optimal", 10000)
    assert bound_words(once)[0] == "No plan in which each op runs once can do with less than"


def test_the_checker_holds_a_plan_to_its_price() -> None:
    # With the price of one more run of a: without any, that run is too much.
    plan = placewright.plan(chain(), ONE_DEVICE, objective="peak-memory", max_slowdown=0.5)
    assert plan.reruns
    assert plan.check(chain()).facts.correct
    once = placewright.plan(chain(), ONE_DEVICE)
    assert once.memory_floor_bytes <= plan.metrics.peak_memory_bytes < once.metrics.peak_memory_bytes
    free = replace(plan, configuration={**plan.configuration, "max_slowdown": 0.0})
    (problem,) = free.check(chain()).facts.problems
    assert problem.endswith("by more than the max_slowdown of 0.0")


def test_the_example_of_the_semantics_is_what_is_planned() -> None:
    page = (Path(__file__).parents[2] / "docs/semantics.md").read_text()
    table = page.split("| run | time | reads | makes | held while it runs | bytes |\n|---|---|---|---|---|---|\n")[1]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.split("\n\n")[0].splitlines()]
    plan = planned(one_device(31))
    assert [(op.name, str(op.finish_ns - op.start_ns)) for op in plan.ops] == [(row[0], row[1]) for row in rows]
    for op, row in zip(plan.ops, rows, strict=True):
        held = [b for b in plan.buffers if b.allocated_ns <= op.start_ns and b.freed_ns >= op.finish_ns]
        assert sorted(buffer.name for buffer in held) == sorted(row[4].split())
        assert sum(buffer.size_bytes for buffer in held) == int(row[5])


def test_where_it_fits_nothing_runs_again() -> None:
    plan = planned(one_device(40))
    assert plan.reruns == ()
    assert plan.metrics.peak_memory_bytes == 40
    assert (plan.extra_time, plan.least_extra_time) == (None, None)


def test_that_nothing_fits_is_proven_of_reruns_and_names_the_op() -> None:
    # c needs x, b and c; d needs x, a, c and one byte more: 31. Both hold whatever runs again.
    plan = planned(one_device(30))
    assert (plan.status, plan.stopped_because) == ("infeasible", "infeasible")
    assert (plan.memory_floor_bytes, plan.memory_floor_op) == (31, "d")
    assert verdict_words(plan) == "no plan can fit (proven)"
    assert floor_words(plan) == "every plan needs at least 31 B while 'd' runs, whatever runs again"
    assert check_plan(plan, chain(), one_device(30).time_ns) == []


def test_that_each_op_fits_once_only_is_no_proof() -> None:
    # Each op running once it takes 40, which nothing without reruns goes below.
    problem = one_device(31)
    assert nothing_fits(problem)
    result = make_method("input-order").solve(problem, SearchRun())
    once = rematerialize(problem, SearchRun(Budget(evaluations=1)), ["a"])
    plan = assemble_plan(problem, result, solver="auto", seconds=0.0, options={"keep": []}, again=once)
    assert (plan.status, plan.stopped_because) == ("infeasible", "evaluations")
    assert verdict_words(plan) == "no plan found that fits"
    assert check_plan(plan, chain(), problem.time_ns) == []
    claimed = check_plan(replace(plan, stopped_because="infeasible"), chain(), problem.time_ns)
    assert claimed == ["the search stopped because nothing fits, which is not proven"]


@pytest.mark.parametrize(
    ("keep", "says"),
    [
        (["a"], "op 'a' runs again, but the configuration keeps 'a'"),
        (["z"], "the configuration's keep names 'z', which matches no op"),
        ("a", "the configuration's keep is no list of patterns"),
    ],
)
def test_the_checker_looks_at_what_is_kept(keep: object, says: str) -> None:
    plan = planned(one_device(31))
    assert check_plan(replace(plan, configuration={**plan.configuration, "keep": keep}), chain(), TIMES) == [says]


def test_a_plan_with_reruns_is_compared_with_one_without() -> None:
    found = compare(planned(one_device(40)), planned(one_device(31)))
    assert (found.num_ops, found.num_moved, found.order_distance) == (4, 0, 0.0)
    assert compare(planned(one_device(31)), planned(one_device(40))) == found
    other = replace(chain(), ops=tuple(replace(op, name=op.name * 2) for op in chain().ops))
    with pytest.raises(InputError, match="but only the first has op 'aa' and 3 other ops"):
        compare(planned(one_device(40, other)), planned(one_device(31)))


def test_what_keep_names_runs_once() -> None:
    again = rematerialize(one_device(31), SearchRun(Budget(evaluations=10)), ["a"])
    assert again.reruns == ()
    with pytest.raises(InputError, match="keep names 'nothing', which matches no op of 'chain'"):
        rematerialize(one_device(31), SearchRun(Budget(evaluations=10)), ["nothing"])


def test_views_of_what_was_made_again_are_made_again() -> None:
    graph = chain()
    # d reads a through a view.
    tensors = (*graph.tensors, Tensor(name="v", size_bytes=10, alias_of=1))
    view = Op(name="v", kind="view", inputs=(1,), outputs=(5,))
    ops = (graph.ops[0], view, *graph.ops[1:3], replace(graph.ops[3], inputs=(5, 3)))
    plan = planned(one_device(31, replace(graph, ops=ops, tensors=tensors)))
    assert [op.name for op in plan.ops] == ["a", "b", "c", "a@2", "d"]
    found = planned_graph(plan, replace(graph, ops=ops, tensors=tensors))
    assert [op.name for op in found.ops] == ["a", "v", "b", "c", "a@2", "v@2", "d"]


def test_what_is_overwritten_later_cannot_be_read_again() -> None:
    graph = chain()
    # u writes x in place after c, so that a cannot run again before d.
    tensors = (*graph.tensors, Tensor(name="u", size_bytes=10, alias_of=0))
    update = Op(name="u", kind="optimizer", inputs=(3,), outputs=(5,), controls=(0,), time_ns=1)
    ops = (*graph.ops[:3], update, replace(graph.ops[3], inputs=(1, 3)))
    problem = one_device(31, replace(graph, ops=ops, tensors=tensors))
    assert again_before(problem).tolist() == [3, 5, 5, -1, 5]
    plan = planned(problem)
    # The only way back to a is before u: nothing is gained.
    assert plan.status == "infeasible"
    assert check_plan(plan, problem.graph, problem.time_ns) == []


def overwritten() -> Graph:
    """a (10) and b of it (10); c behind them, with 30 of workspace; then d, which reads both and is written over a."""
    lines = ("a -> a=10", "b a -> b=10", "c -> c=1 < b | workspace_bytes=30", "d a b -> d=10:a < c")
    return sketch(*lines, kind="elementwise", time_ns=1, name="overwritten")


def test_an_op_runs_again_right_before_what_it_reads_is_overwritten() -> None:
    # While c runs there are a, b, c and its workspace, 51. Without b they are 41, and d begins with a and b.
    plan = planned(one_device(41, overwritten()))
    assert [op.name for op in plan.ops] == ["a", "b", "c", "b@2", "d"]
    assert (plan.status, plan.metrics.peak_memory_bytes, plan.step_time_ns) == ("optimal", 41, 5)
    assert check_plan(plan, overwritten(), one_device(41, overwritten()).time_ns) == []


def test_what_a_view_reads_beside_its_base_may_not_have_been_overwritten() -> None:
    # v shows a (20) as s says, s is overwritten, then m needs 30 of workspace, and r reads v.
    lines = ("a -> a=20", "s -> s=1", "v~ a s -> v=20:a", "s2 s -> s2=1:s < v", "m s2 -> m=1 | workspace_bytes=30")
    problem = one_device(40, sketch(*lines, "r v m -> r=1", kind="elementwise", time_ns=1))
    # v is made again when r reads it, and would be of another size; s2 writes in place.
    assert again_before(problem).tolist() == [-1, 5, -1, 5, 5]
    assert may_move(problem)[problem.lowered.graph_tensor == 0].tolist() == [0]
    assert planned(problem).status == "infeasible"


def test_the_checker_names_a_rerun_that_overwrites_something() -> None:
    graph = overwritten()
    read_once = replace(graph, ops=(*graph.ops, Op(name="e", kind="elementwise", inputs=(3,), time_ns=1)))
    found = rewritten(read_once, [Rerun(name="d@2", op="d", before="e", tensors=("d",))])
    assert "op 'd@2' overwrites something once more" in about_reruns(read_once, found)
    found = rewritten(graph, [Rerun(name="a@2", op="a", before="d", tensors=("a",))])
    assert about_reruns(graph, found) == ["op 'd' overwrites other memory than it reads"]


def test_the_checker_names_a_rerun_that_reads_something_else() -> None:
    graph = chain()
    found = rewritten(graph, [Rerun(name="b@2", op="b", before="d", tensors=("b",))])
    assert about_reruns(graph, found) == []
    # c reads x in place of b: as if the rewriting were wrong.
    ops = tuple(replace(op, inputs=(0,)) if op.name == "c" else op for op in found.graph.ops)
    wrong = replace(found, graph=replace(found.graph, ops=ops))
    assert about_reruns(graph, wrong) == ["op 'c' does not read what 'c' reads without reruns"]


@pytest.mark.parametrize(
    ("rerun", "sentence"),
    [
        (
            Rerun(name="z@2", op="z", before="d", tensors=("z",)),
            "the rerun 'z@2' names the op 'z', which is not in the graph",
        ),
        (Rerun(name="a@2", op="a", before="a", tensors=("a",)), "the rerun 'a@2' comes before the first run of 'a'"),
        (
            Rerun(name="a@2", op="a", before="d", tensors=("b",)),
            "the rerun 'a@2' gives something that 'a' does not make",
        ),
        (
            Rerun(name="a@2", op="a", before="d", tensors=("a", "a")),
            "the rerun 'a@2' gives something that 'a' does not make",
        ),
        (Rerun(name="a", op="a", before="d", tensors=("a",)), "graph 'chain' has two ops named 'a'"),
    ],
)
def test_reruns_that_cannot_be_are_refused(rerun: Rerun, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        rewritten(chain(), [rerun])
    plan = replace(planned(one_device(31)), reruns=(rerun,))
    assert match_graph(plan, chain()) == [sentence]
    assert check_plan(plan, chain(), one_device(31).time_ns) == [sentence]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "b@2"}, "the rerun 'b@2' names 'b@2', which is no op of the plan"),
        ({"op": "z"}, "the rerun 'a@2' names 'z', which is no op of the plan"),
        ({"before": "a@2"}, "the rerun 'a@2' names another rerun where a first run belongs"),
    ],
)
def test_a_file_with_reruns_that_are_not_in_its_plan_is_refused(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    plan = planned(one_device(31))
    write_plan(replace(plan, reruns=(replace(plan.reruns[0], **changes),)), tmp_path / "plan.json")
    with pytest.raises(InputError, match=re.escape(f"plan.json': {says}")):
        read_plan(tmp_path / "plan.json")


def test_only_what_changes_nothing_else_may_run_again() -> None:
    graph = chain()
    allowed = {kind: may_run_again(graph, replace(graph.ops[0], kind=kind)) for kind in ("conv", "input", "optimizer")}
    assert allowed == {"conv": True, "input": False, "optimizer": False}
    assert not may_run_again(graph, replace(graph.ops[0], target="all-reduce"))
    # A normalisation may write statistics, which are parameters, but not what another op made.
    in_place = (
        *graph.tensors,
        Tensor(name="u", size_bytes=10, alias_of=0),
        Tensor(name="v", size_bytes=10, alias_of=1),
    )
    for written, may in ((5, True), (6, False)):
        norm = replace(graph.ops[1], kind="normalization", inputs=(0, 1), outputs=(2, written))
        other = replace(graph.ops[2], outputs=(3, 11 - written))
        changed = replace(graph, ops=(graph.ops[0], norm, other, graph.ops[3]), tensors=in_place)
        assert may_run_again(changed, norm) == may


@given(tight_problems(), st.sampled_from([0.0, 0.1, 0.5]))
def test_the_least_memory_at_a_price_keeps_the_price(problem: Problem, price: float) -> None:
    problem = replace(problem, objective="peak-memory", memory_limits_bytes=(None,))
    once = make_method("input-order").solve(problem, SearchRun())
    again = least_memory(problem, SearchRun(Budget(evaluations=40)), price)
    plan = assemble_plan(problem, once, solver="auto", seconds=0.0, again=again)
    assert plan.step_time_ns <= once.metrics.step_time_ns * (1 + price)
    assert plan.metrics.peak_memory_bytes <= once.metrics.peak_memory_bytes
    assert check_plan(plan, problem.graph, problem.time_ns) == []


def test_the_least_memory_of_the_chain_costs_a_tenth() -> None:
    # 40 bytes with each op once, in 10 ns; 31 when a runs again, in 11 (above).
    problem = replace(one_device(99), objective="peak-memory", memory_limits_bytes=(None,))
    once = make_method("input-order").solve(problem, SearchRun())
    peaks = []
    for price in (0.09, 0.1):
        again = least_memory(problem, SearchRun(Budget(evaluations=100)), price)
        plan = assemble_plan(problem, once, solver="auto", seconds=0.0, again=again)
        peaks.append(plan.metrics.peak_memory_bytes)
    assert peaks == [40, 31]
    assert gain_words(plan) == "22.5% less than the captured order by running 1 op again, for 10.0% more time"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_slowdown": 0.1}, "max_slowdown is the price of less memory; say objective='peak-memory' with it"),
        (
            {"max_slowdown": "much", "objective": "peak-memory"},
            "max_slowdown is 'much'; it must be a share like 0.1 or '10%'",
        ),
        (
            {"max_slowdown": "nan%", "objective": "peak-memory"},
            "max_slowdown is 'nan%'; it must be a share like 0.1 or '10%'",
        ),
        (
            {"max_slowdown": "5%", "objective": "peak-memory", "keep": ["*"]},
            "max_slowdown is for ops that run again, which they do on one device where not all are kept",
        ),
    ],
)
def test_a_price_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        placewright.plan(chain(), "h100", **options)


def test_twice_the_default_of_evaluations_doubles_those_of_the_search_for_reruns() -> None:
    # The default of input-order is 5,000, and the search for what runs again has some 2,000 at the most.
    graph = training_step(3, 12)
    within = int(placewright.plan(graph, ONE_DEVICE, solver="input-order").peak_bytes[0] * 0.6)

    def spent(evaluations: int | None) -> int:
        limited = {"memory_limit": [within], "solver": "input-order", "evaluations": evaluations}
        return placewright.plan(graph, ONE_DEVICE, **limited).evaluations  # type: ignore[arg-type]

    usual = spent(None)
    assert spent(10) == spent(5_000) == usual
    assert spent(10_000) > 1.8 * usual
