"""The costs of a device map, compared with the plan it is made from and with one device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from instances import graph_of, machine_of, plan_of

import placewright._core as _core
from placewright.export import export_plan
from placewright.export.device_map import device_map
from placewright.export.map_cost import judge_map, judgement_words, objections
from placewright.graph import Graph, Tensor
from placewright.machine import Link
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.search.run.result import Solution
from placewright.support.errors import InputError

#: op -> what it reads, bytes of its output, its module, its time in ns, its device in the plan.
Row = tuple[str, int, str, int, int]


def planned(
    rows: Mapping[str, Row],
    latency_ns: int = 1,
    launch_ns: int = 0,
    parameters: Mapping[str, tuple[int, str]] | None = None,
) -> tuple[Plan, Graph]:
    """The plan that runs the ops in this order on the devices they name, and its graph. parameters: bytes of each, and
    the ops that read it."""
    bare = graph_of({name: row[:2] for name, row in rows.items()})
    ops = [replace(op, module=rows[op.name][2], time_ns=rows[op.name][3]) for op in bare.ops]
    tensors = list(bare.tensors)
    for name, (size, readers) in (parameters or {}).items():
        ops = [replace(op, inputs=(*op.inputs, len(tensors))) if op.name in readers.split() else op for op in ops]
        tensors.append(Tensor(name=name, size_bytes=size, role="parameter"))
    graph = replace(bare, ops=tuple(ops), tensors=tuple(tensors), metadata={"module": {}})
    times = np.array([[row[3]] * 2 for row in rows.values()])
    machine = machine_of(2, Link(latency_ns=latency_ns))
    devices = tuple(replace(device, launch_overhead_ns=launch_ns) for device in machine.devices)
    problem = Problem(graph=graph, machine=replace(machine, devices=devices), time_ns=times)
    device_of = np.array([row[4] for row in rows.values()], np.int32)
    order, _, _ = _core.best_transfers(problem.core, device_of, np.arange(len(rows), dtype=np.int32), 3)
    solution = Solution(device_of=device_of, order=order)
    return plan_of(problem, solution), graph


DIVIDED: dict[str, Row] = {"x": ("", 4, "both", 10, 0), "y": ("", 4, "both", 10, 1), "z": ("x y", 4, "last", 5, 0)}


def test_a_module_that_a_plan_divides_is_put_together_and_that_costs() -> None:
    """x and y at once, y's result sent: 10 + 1 + 5 = 16. The map has all on d0: 10 + 10 + 5 = 25, as d0 alone."""
    plan, graph = planned(DIVIDED)
    found = judge_map(plan, graph)
    assert (plan.metrics.step_time_ns, found.own.anew.step_time_ns, found.own.one_at_a_time_ns) == (16, 25, 25)
    assert (found.num_moved, found.moved_ns) == (1, 10)
    hooks = "25 ns one op at a time as hooks run it"
    assert list(judgement_words(plan, found)) == [
        "1 op of 3 (40.0% of the time) run on another device than in the plan",
        f"step time: plan 16 ns; this map 25 ns planned anew, {hooks}; d0 (any) alone 25 ns",
    ]
    assert list(objections(plan, found)) == ["this map is no better than d0 (any) alone"]


def test_a_map_that_holds_the_whole_plan_loses_only_what_hooks_lose() -> None:
    """Planned anew: the plan's own 16; one op at a time: 10 + 10 + 1 + 5 = 26, where one device takes 25."""
    plan, graph = planned({**DIVIDED, "x": ("", 4, "left", 10, 0), "y": ("", 4, "right", 10, 1)})
    found = judge_map(plan, graph)
    assert (found.num_moved, found.own.anew.step_time_ns, found.own.one_at_a_time_ns) == (0, 16, 26)
    assert list(objections(plan, found)) == [
        "run one op at a time, as accelerate's hooks run it, this map is slower than d0 (any) alone"
    ]


def test_a_tensor_is_moved_once_to_a_device_however_many_read_it_there() -> None:
    """x on d0 for 10; y and z read it on d1, 5 each; one transfer of 7: 27 one at a time."""
    rows: dict[str, Row] = {"x": ("", 4, "a", 10, 0), "y": ("x", 4, "b", 5, 1), "z": ("x", 4, "b", 5, 1)}
    assert judge_map(*planned(rows, latency_ns=7)).own.one_at_a_time_ns == 27


def test_one_at_a_time_ops_wait_for_the_thread_that_launches_them() -> None:
    """Launches of 30: x is launched by 30 and done at 40, its transfer by 60, 67, y by 90, 95, and z by 120: 125."""
    rows: dict[str, Row] = {"x": ("", 4, "a", 10, 0), "y": ("x", 4, "b", 5, 1), "z": ("x", 4, "b", 5, 1)}
    assert judge_map(*planned(rows, latency_ns=7, launch_ns=30)).own.one_at_a_time_ns == 125


def test_where_one_device_is_too_small_a_map_of_whole_layers_is_told_if_it_is_better() -> None:
    """Four layers of 10 ns that each keep 4 bytes. The plan changes devices three times, 40 + 3 x 100 ns; two layers on
    each device change once, 140, and hold 8 bytes and the 4 of a copy."""
    rows: dict[str, Row] = {}
    for layer in range(4):
        rows[f"op{layer}"] = (f"op{layer - 1}" if layer else "", 4, f"layer.{layer}", 10, layer % 2)
    plan, graph = planned(rows, latency_ns=100)
    kept = replace(graph, tensors=tuple(replace(tensor, is_output=True) for tensor in graph.tensors))
    limited = replace(plan, memory_limits_bytes=(12, 12), one_device=None)
    found = judge_map(limited, kept)
    assert (found.own.anew.step_time_ns, found.other.anew.step_time_ns) == (340, 140)
    times = "140 ns planned anew, 140 ns one op at a time as hooks run it"
    better = f"a plan made with `--solver contiguous-split` has a better map: {times}"
    assert better in list(objections(limited, found))


def test_a_map_of_whole_layers_is_compared_with_that_of_the_default_solver() -> None:
    """Two ops of 10 ns that need not wait for each other, both put on d0, 20 ns; auto puts one on d1: 11 with what z
    takes."""
    rows: dict[str, Row] = {"x": ("", 4, "left", 10, 0), "y": ("", 4, "right", 10, 0), "z": ("x y", 4, "last", 1, 0)}
    plan, graph = planned(rows, latency_ns=0)
    found = judge_map(replace(plan, solver="contiguous-split"), graph)
    assert (found.other_solver, found.other.anew.step_time_ns, found.own.anew.step_time_ns) == ("auto", 11, 21)
    assert "a plan made with `--solver auto` has a better map: " in next(objections(plan, found))


def test_a_map_that_does_not_fit_is_objected_to() -> None:
    """x, y and z on one device at once: 12 bytes, 3 more than are allowed."""
    plan, graph = planned(DIVIDED)
    limited = replace(plan, memory_limits_bytes=(9, 9))
    told = list(objections(limited, judge_map(limited, graph)))
    assert told[0] == "this map does not fit, unlike the plan: 3 B over the limits"


#: The first and the last layer read one parameter.
SHARING: dict[str, Row] = {
    "before": ("", 4, "before", 1, 1),
    "look-up": ("before", 4, "table", 10, 0),
    "body": ("look-up", 4, "body", 5, 1),
    "head": ("body", 4, "head", 1, 1),
    "after": ("head", 4, "after", 1, 0),
}


def test_what_shares_a_parameter_goes_where_the_map_is_sooner_done() -> None:
    """Transfers take 100. On d0, with 10 of its 11 ns: to d0, to d1, to d0, 18 + 300. On d1: one to d0 at the end, 118;
    the plan goes to d0, d1 and d0."""
    plan, graph = planned(SHARING, latency_ns=100, parameters={"table.weight": (8, "look-up head")})
    found = judge_map(plan, graph)
    assert (plan.metrics.step_time_ns, found.own.anew.step_time_ns) == (318, 118)
    assert device_map(plan, graph) == {"before": 1, "table": 1, "body": 1, "head": 1, "after": 0}
    told = list(judgement_words(plan, found))
    assert "head, table are all on d1 (any), since they share a parameter or a layer" in told


def test_what_shares_a_parameter_goes_where_it_fits() -> None:
    """Bytes of parameters: 100 that both read, 50 of the head, 90 of the body. On d1 they are 240 and up to three
    results at once, over 245; on d0 150, and 90 on d1."""
    sizes = {"table.weight": (100, "look-up head"), "head.bias": (50, "head"), "body.weight": (90, "body")}
    plan, graph = planned(SHARING, latency_ns=100, parameters=sizes)
    limited = replace(plan, memory_limits_bytes=(245, 245))
    assert device_map(limited, graph) == {"before": 1, "table": 0, "body": 1, "head": 0, "after": 0}


def test_a_graph_without_a_record_of_its_module_may_lack_parameters() -> None:
    plan, graph = planned({**DIVIDED, "x": ("", 4, "left", 10, 0), "y": ("", 4, "right", 10, 1)})
    told = list(objections(plan, judge_map(plan, replace(graph, metadata={}))))
    assert told[0].startswith("the graph does not tell what its module holds beside it: the map may lack parameters")


def test_names_that_look_like_patterns_or_modules_are_pinned_as_they_are() -> None:
    """An op named as another one's module, and one that a pattern of its own name does not match: 10 + 1 + 10."""
    rows: dict[str, Row] = {"m": ("", 4, "n", 10, 0), "odd[0]": ("m", 4, "m", 10, 1)}
    assert judge_map(*planned(rows)).own.anew.step_time_ns == 21


def test_exporting_a_map_warns_of_what_speaks_against_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plan, graph = planned(DIVIDED)
    export_plan(plan, "device-map", tmp_path / "map.json", graph=graph)
    assert caplog.messages == ["this map is no better than d0 (any) alone"]
    with pytest.raises(InputError, match="made in Python, not from a file, so say which graph it is for"):
        export_plan(plan, "device-map", tmp_path / "no.json")
    assert not (tmp_path / "no.json").exists()
    with pytest.raises(InputError, match="is not a plan for"):
        export_plan(plan, "device-map", tmp_path / "map.json", graph=graph_of({"x": ("", 4)}))
