"""Plans of several devices that run ops again within their limits: simulated, checked, kept in files and compared with
all that can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_steps import ONE_DEVICE, training_step

from placewright.analysis.outcome import limit_words
from placewright.analysis.rerun_explanation import explain_reruns
from placewright.graph import Graph, Op, Tensor
from placewright.machine import Link, Machine
from placewright.methods.table import make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.file import read_plan, write_plan
from placewright.plans.graph_match import match_graph
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.problem.running_again import again_before
from placewright.rematerialization.reruns import Rerun
from placewright.rematerialization.several_devices import rematerialize_on_several
from placewright.rematerialization.solve import in_order, with_reruns
from placewright.search.constructive.contiguous_split import ContiguousSplit
from placewright.search.run.budget import Budget
from placewright.search.run.result import Solution, measure
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.verification.checker import check_plan


def devices(count: int, link: Link, *, blocking: bool = False) -> Machine:
    """Equal devices, each joined with every other."""
    return Machine(
        name="several",
        devices=tuple(replace(ONE_DEVICE.devices[0], name=f"cpu{number}") for number in range(count)),
        links=tuple(tuple(Link() if i == j else link for j in range(count)) for i in range(count)),
        transfer_model="blocking" if blocking else "overlapped",
        launch="graphs",
    )


def on_machine(graph: Graph, machine: Machine) -> Problem:
    times = np.array([[op.time_ns or 0] * machine.num_devices for op in graph.ops], np.int64)
    return Problem(graph=graph, machine=machine, time_ns=times)


def free(problem: Problem, solver: str = "heft") -> Solution:
    """What a method finds where there is no limit."""
    return make_method(solver).solve(problem, SearchRun()).solution


def with_one_in_place(graph: Graph) -> Graph:
    """The graph with one op that writes its result into what it reads, if one reads what nobody else does."""
    for op in graph.ops:
        reads = [tensor for tensor in op.inputs if graph.consumers_of[tensor] == (graph.ops.index(op),)]
        made = {tensor for tensor in reads if graph.tensors[tensor].alias_of is None and graph.producer_of[tensor] >= 0}
        if op.kind == "elementwise" and made:
            tensors = list(graph.tensors)
            tensors[op.outputs[0]] = replace(tensors[op.outputs[0]], alias_of=min(made))
            return replace(graph, tensors=tuple(tensors))
    return graph


@st.composite
def tight_problems(draw: st.DrawFn) -> Problem:
    """Of two or three devices, with limits below the peaks of a placement."""
    graph = training_step(draw(st.integers(0, 2**32)), draw(st.integers(2, 12)))
    graph = with_one_in_place(graph) if draw(st.booleans()) else graph
    link = Link(
        bandwidth_bytes_per_s=draw(st.sampled_from([1e9, 10e9, 100e9])), latency_ns=draw(st.sampled_from([0, 2]))
    )
    problem = on_machine(graph, devices(draw(st.sampled_from([2, 2, 3])), link, blocking=draw(st.booleans())))
    problem = replace(problem, control=draw(st.sampled_from(["signal", "signal", "order", "transfer"])))
    if draw(st.booleans()):
        problem = replace(problem, constraints=Constraints(pins=((graph.ops[0].name, "cpu1"),)))
    peak = measure(problem, free(problem, "layers")).peak_memory_bytes
    share = draw(st.sampled_from([0.9, 0.7, 0.5, 0.3]))
    return replace(problem, memory_limits_bytes=(int(peak * share),) * problem.machine.num_devices)


def planned(problem: Problem, evaluations: int = 40, keep: tuple[str, ...] = ()) -> Plan:
    result = make_method("layers").solve(problem, SearchRun())
    anywhere = replace(problem, memory_limits_bytes=(None,) * problem.machine.num_devices)
    run = SearchRun(Budget(evaluations=evaluations))
    again = rematerialize_on_several(problem, run, (free(anywhere), result.solution), keep)
    return assemble_plan(problem, result, solver="auto", seconds=0.0, again=again, options={"keep": list(keep)})


@settings(max_examples=40)
@given(problem=tight_problems())
def test_plans_are_right_and_kept_in_files(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> None:
    plan, path = planned(problem), tmp_path_factory.mktemp("plan") / "plan.json"
    assert check_plan(plan, problem.graph, problem.time_ns) == []
    assert match_graph(plan, problem.graph) == []
    write_plan(plan, path)
    assert read_plan(path) == plan


def sending_chain() -> Graph:
    """On the first device a -> b -> c, and d reads a and c; on the second e reads a and d. All make 10 bytes but d and
    e, of 1. x is a parameter of 10."""
    sizes = {"x": 10, "a": 10, "b": 10, "c": 10, "d": 1, "e": 1}
    reads = {"a": (0,), "b": (1,), "c": (2,), "d": (1, 3), "e": (1, 4)}
    return Graph(
        name="sending",
        ops=tuple(
            Op(name=name, kind="elementwise", inputs=inputs, outputs=(place + 1,), time_ns=place + 1)
            for place, (name, inputs) in enumerate(reads.items())
        ),
        tensors=tuple(
            Tensor(name=name, size_bytes=size, role="parameter" if name == "x" else "activation")
            for name, size in sizes.items()
        ),
    )


def sending(limit: int) -> Problem:
    problem = on_machine(sending_chain(), devices(2, Link(bandwidth_bytes_per_s=5e9, latency_ns=0)))
    pins = (*((name, "cpu0") for name in "abcd"), ("e", "cpu1"))
    return replace(problem, constraints=Constraints(pins=pins), memory_limits_bytes=(limit, limit))


def test_another_device_gets_what_the_first_run_made() -> None:
    # On cpu0 x stays; a, b and c are 40 with it. a leaves from 1 to 3, while b runs, is dropped then and made again for
    # d: x, a, c and d are 31. On cpu1 are a, d and e, 12.
    plan = planned(sending(31))
    assert plan.reruns == (Rerun(name="a@2", op="a", before="d", tensors=("a",)),)
    assert [(t.tensor, t.start_ns, t.finish_ns) for t in plan.transfers] == [("a", 1, 3), ("d", 11, 12)]
    assert (plan.peak_bytes, plan.step_time_ns, plan.status) == ((31, 12), 12 + 5, "feasible")
    assert limit_words(plan) == "fits by running 1 op again"
    assert (plan.extra_time, plan.least_extra_time) == (None, None)
    # e could not read a@2: it is where its op is, and nothing of it is sent.
    moved = replace(plan, ops=tuple(replace(op, device=1) if op.name == "a@2" else op for op in plan.ops))
    assert check_plan(moved, sending_chain(), sending(31).time_ns) == ["op 'a@2' does not run on the device of 'a'"]


def test_what_is_still_to_be_sent_is_held() -> None:
    # With a link of 1 byte/ns a leaves until 11, when d is to start at once: nothing is dropped, and 40 are needed.
    problem = sending(31)
    slow = replace(problem, machine=devices(2, Link(bandwidth_bytes_per_s=1e9, latency_ns=0)))
    plan = planned(slow)
    assert (plan.status, plan.stopped_because, plan.reruns) == ("infeasible", "evaluations", ())
    assert check_plan(plan, problem.graph, problem.time_ns) == []


def test_that_nothing_fits_is_proven_by_what_holds_with_reruns() -> None:
    # d needs a, c and itself, 21, and every other op no more; x, of 10, is not its. That all that lives together takes
    # more proves nothing.
    problem = sending(20)
    plan = planned(problem)
    assert (plan.status, plan.stopped_because, plan.memory_floor_bytes) == ("infeasible", "infeasible", 21)
    assert check_plan(plan, problem.graph, problem.time_ns) == []
    found = planned(sending(30))
    assert (found.status, found.stopped_because) == ("infeasible", "evaluations")
    claimed = replace(found, stopped_because="infeasible")
    assert check_plan(claimed, sending_chain(), problem.time_ns) == [
        "the search stopped because nothing fits, which is not proven"
    ]


def test_what_is_kept_runs_once() -> None:
    plan = planned(sending(31), keep=("a",))
    assert (plan.status, plan.reruns) == ("infeasible", ())
    with pytest.raises(InputError, match="keep names 'z', which matches no op of 'sending'"):
        planned(sending(31), keep=("z",))


def test_an_explanation_says_what_leaving_a_run_out_would_cost() -> None:
    plan = planned(sending(31))
    (found,) = explain_reruns(plan, sending_chain(), sending(31).time_ns, "a")
    # From the end of b, at 3, to that of c, at 6. Without it the peak is 40, 9 over the limit, and d starts 1 earlier.
    assert (found.readers, found.held_until, found.num_ops, found.not_held_ns, found.time_ns) == (("d",), "b", 1, 3, 1)
    assert (found.peak_bytes_without, found.bytes_over_limit_without, found.step_time_ns_without) == (40, 9, 16)


def every_set_of_two(problem: Problem, device_of: Sequence[int]) -> Iterator[tuple[Rerun, ...]]:
    """All reruns of up to two ops, each before a later op of its device, giving all that it makes."""
    graph, scheduled = problem.graph, problem.lowered.graph_op.tolist()
    until = again_before(problem).tolist()
    pairs = [
        Rerun(
            name=f"{op.name}@2",
            op=op.name,
            before=graph.ops[scheduled[later]].name,
            tensors=tuple(graph.tensors[t].name for t in op.outputs if graph.tensors[t].alias_of is None),
        )
        for place, op in enumerate(graph.ops[each] for each in scheduled)
        for later in range(place + 1, len(scheduled))
        if device_of[later] == device_of[place] and later < until[place]
    ]
    return chain((), ((one,) for one in pairs), (two for two in combinations(pairs, 2) if two[0].op != two[1].op))


@pytest.mark.parametrize("seed", [1, 3, 6, 10])
def test_no_two_runs_are_better(seed: int) -> None:
    # All sets of two reruns on a placement in layers; more may be found, but nothing slower.
    problem = on_machine(training_step(seed, 4), devices(2, Link(bandwidth_bytes_per_s=10e9, latency_ns=0)))
    names = [problem.graph.ops[op].name for op in problem.lowered.graph_op]
    placed = next(iter(ContiguousSplit().candidates(problem)))
    on = dict(zip(names, placed.device_of.tolist(), strict=True))
    peak = max(measure(problem, in_order(problem, placed.device_of)).peak_bytes)
    pins = tuple((name, f"cpu{device}") for name, device in on.items())
    limited = replace(problem, memory_limits_bytes=(int(0.85 * peak),) * 2, constraints=Constraints(pins=pins))
    best = None
    for reruns in every_set_of_two(problem, placed.device_of.tolist()):
        again = with_reruns(limited, reruns, device_of=on)
        where = on | {rerun.name: on[rerun.op] for rerun in reruns}
        runs = [where[again.graph.ops[run].name] for run in again.lowered.graph_op]
        metrics = measure(again, in_order(again, np.array(runs, np.int32)))
        if metrics.bytes_over_limit == 0 and (best is None or metrics.step_time_ns < best):
            best = metrics.step_time_ns
    plan = planned(limited, evaluations=200)
    assert best is not None
    assert plan.status != "infeasible"
    assert plan.step_time_ns <= best


def test_no_pattern_is_about_a_rerun() -> None:
    # e2 is to be on cpu1, as all that ends in 2; a@2 stands with a.
    problem = sending(31)
    ops = tuple(replace(op, name="e2") if op.name == "e" else op for op in problem.graph.ops)
    rules = Constraints(pins=(("[a-d]", "cpu0"), ("*2", "cpu1")), colocations=(("*2", "e*"),))
    named = replace(problem, graph=replace(problem.graph, ops=ops), constraints=rules)
    plan = planned(named)
    assert [rerun.name for rerun in plan.reruns] == ["a@2"]
    assert check_plan(plan, named.graph, named.time_ns) == []
