"""Layer graphs with published optimal splits."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest
from reference_data import FOLDER, needs_reference_data

from placewright.graph import Graph
from placewright.importers import load_graph
from placewright.importers.msr_layer import parse_msr_layer
from placewright.machine import Device, Link, Machine, TransferModel
from placewright.machines import load_machine
from placewright.methods.table import make_method
from placewright.problem import Problem, make_problem
from placewright.problem.constraints import Constraints
from placewright.problem.objective import Metrics
from placewright.search.run.budget import Budget
from placewright.search.run.result import Solution, measure
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

LAYER_GRAPHS = FOLDER / "msr_layer"

TINY: dict[str, Any] = {
    "maxSizePerFPGA": 100.0,
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "nodes": [
        {"id": 1, "name": "a", "cpuLatency": 20.0, "fpgaLatency": 2.0, "size": 7.0, "colorClass": 1},
        {"id": 2, "name": "b", "cpuLatency": 5.0, "fpgaLatency": 0.5, "size": 0.0, "colorClass": 2},
        {"id": 9, "name": "a'", "cpuLatency": 1, "fpgaLatency": 0.1, "size": 7, "colorClass": 1, "isBackwardNode": 1},
    ],
    "edges": [
        {"sourceId": 1, "destId": 2, "cost": 0.5, "size": 1000.0},
        {"sourceId": 2, "destId": 9, "cost": 0.25, "size": 500.0},
        {"sourceId": 1, "destId": 9, "cost": 0.5, "size": 0.0},
    ],
}


def parse(**changes: Any) -> Graph:
    return parse_msr_layer(json.dumps({**TINY, **changes}).encode(), "t.json")


def test_layers_become_ops_with_accelerator_times_memory_and_one_output_each() -> None:
    graph = parse()
    assert [(op.name, op.time_ns, op.phase, op.module) for op in graph.ops] == [
        ("a", 2_000_000, "forward", "class_1"),
        ("b", 500_000, "forward", "class_2"),
        ("a'", 100_000, "backward", "class_1"),
    ]
    assert [op.attributes["cpu_time_ns"] for op in graph.ops] == [20_000_000, 5_000_000, 1_000_000]
    assert [[graph.tensors[t].name for t in op.inputs] for op in graph.ops] == [
        ["a/memory"],
        ["a:0"],
        ["b:0", "a:0", "a'/memory"],
    ]
    # 1000 bytes cost 0.5 ms, 500 cost 0.25: 2000 bytes per ms, 2 MB/s. What nobody reads has no price, so no size.
    assert {tensor.name: tensor.size_bytes for tensor in graph.tensors} == {
        "a:0": 1000,
        "b:0": 500,
        "a':0": 0,
        "a/memory": 7,
        "a'/memory": 7,
    }
    assert graph.metadata["bandwidth_bytes_per_s"] == 2_000_000
    assert graph.metadata["colocate"] == [["class_1"]]
    assert graph.metadata["num_accelerators"] == 2


def test_a_layer_without_a_colour_shares_no_device_with_the_colour_that_is_its_id() -> None:
    bare = {"id": 7, "name": "bare", "cpuLatency": 1, "fpgaLatency": 1, "size": 0}
    others = [{**bare, "id": 8, "name": "of 7", "colorClass": 7}, {**bare, "id": 10, "name": "bare too"}]
    graph = parse(nodes=[*TINY["nodes"], bare, *others], edges=[])
    assert [op.module for op in graph.ops[3:]] == ["layer_7", "class_7", "layer_10"]
    assert graph.metadata["colocate"] == [["class_1"]]


def test_what_layers_send_takes_no_memory_so_that_their_sizes_may_fill_a_device() -> None:
    graph = parse(nodes=[{**node, "size": size} for node, size in zip(TINY["nodes"], (30, 40, 30), strict=True)])
    problem = their_problem(graph, "blocking")
    assert problem.memory_limits_bytes == (100, 100, None)
    # All on one accelerator take 30 + 40 + 30 = 100 bytes of its 100; on two, a and a' together, the copies of what
    # they send each other (1000 and 500 bytes) take nothing either.
    assert measured(problem, [0, 0, 0], [(0, -1), (1, -1), (2, -1)]).peak_bytes == (100, 0, 0)
    metrics = measured(problem, [0, 1, 0], [(0, -1), (0, 1), (1, -1), (1, 0), (2, -1)])
    assert metrics.peak_bytes == (60, 40, 0)
    # 2 ms, 2 x 0.5 to send through memory, 0.5, 2 x 0.25, 0.1
    assert metrics.step_time_ns == 4_100_000


def measured(problem: Problem, device_of: list[int], order: list[tuple[int, int]]) -> Metrics:
    return measure(problem, Solution(device_of=np.array(device_of, np.int32), order=np.array(order, np.int32)))


def test_the_colocation_classes_are_constraints_of_a_problem() -> None:
    graph = parse()
    together = Constraints(colocations=tuple(map(tuple, graph.metadata["colocate"])))
    problem = make_problem(graph, load_machine("2xideal/free"), constraints=together)
    assert problem.groups[0].tolist() == [0, 1, 0]


def test_a_layer_that_no_accelerator_runs_takes_its_time_on_the_cpu_and_a_warning() -> None:
    graph = parse(nodes=[{**TINY["nodes"][0], "supportedOnFpga": 0}], edges=[])
    assert graph.ops[0].time_ns == 20_000_000
    assert graph.metadata["warnings"] == ["layer 'a' runs on a CPU only; its time there is taken for every device"]
    assert "bandwidth_bytes_per_s" not in graph.metadata


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"nodes": 3}, "'t.json' is not a layer graph: 'nodes' must be a list of objects"),
        ({"edges": [1]}, "'t.json' is not a layer graph: 'edges' must be a list of objects"),
        ({"nodes": [{"name": "a"}]}, "'t.json': layer number 0 has no whole number as its 'id'"),
        ({"nodes": [{"id": 1}, {"id": 1}]}, "'t.json' has two layers with the id 1"),
        ({"nodes": [{"id": 1}], "edges": []}, "'t.json': layer 'node1': 'cpuLatency' must be a number"),
        ({"edges": [{"size": 1, "cost": -1}]}, "'t.json': edge number 0: 'cost' must be a number"),
        ({"edges": [{"size": 1, "cost": 1, "sourceId": 1, "destId": 5}]}, "edge number 0 has the destId 5"),
        ({"edges": [{"size": 1, "cost": 1, "sourceId": 1, "destId": 1}]}, "graph 't.json' has a cycle: a -> a"),
        ({"maxFPGAs": "two"}, "'t.json': 'maxFPGAs' must be a number that is not negative"),
        ({"nodes": [{**TINY["nodes"][0], "fpgaLatency": 1e15}], "edges": []}, "a time or size that is too large"),
    ],
)
def test_a_wrong_file_is_named_in_one_sentence(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(**changes)
    assert expected in str(caught.value)


@needs_reference_data
def test_all_reference_files_load_by_their_content_with_sizes_as_stated() -> None:
    files = sorted(LAYER_GRAPHS.glob("*.json"))
    assert len(files) == 12
    for file in files:
        stated, graph = json.loads(file.read_bytes()), load_graph(file)
        assert len(graph.ops) == len(stated["nodes"])
        assert sum(op.time_ns or 0 for op in graph.ops) == round(1e6 * sum(n["fpgaLatency"] for n in stated["nodes"]))
        if "inference" in file.name:
            # In training files one layer's edges state several sizes at one price.
            name_of = {node["id"]: node["name"] for node in stated["nodes"]}
            size_of = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
            assert all(size_of[f"{name_of[e['sourceId']]}:0"] == e["size"] for e in stated["edges"])


@needs_reference_data
@pytest.mark.parametrize("transfer_model", ["blocking", "overlapped"])
@pytest.mark.parametrize(
    ("file", "greedy_ms"),
    [
        ("latency_bert24_inference.json", 100.2),
        ("latency_gnmt_inference.json", 268.5),
        ("latency_inceptionv3_inference.json", 2485.2),
        ("latency_resnet50_inference.json", 4197.1),
    ],
)
def test_auto_keeps_the_files_limits_and_is_no_slower_than_the_published_greedy(
    file: str, greedy_ms: float, transfer_model: TransferModel
) -> None:
    problem = their_problem(load_graph(LAYER_GRAPHS / file), transfer_model)
    found = make_method("auto").solve(problem, SearchRun(Budget(evaluations=20_000)))
    assert found.metrics.bytes_over_limit == 0
    assert round(found.metrics.step_time_ns / 1e6, 1) <= greedy_ms


def their_problem(graph: Graph, transfer_model: TransferModel) -> Problem:
    """On the file's accelerators and one CPU without a limit. Accelerators reach each other through the CPU's memory,
    at twice the price."""
    count = graph.metadata["num_accelerators"]
    limit = graph.metadata["accelerator_memory_bytes"]
    devices = [Device(name=f"accelerator{i}", kind="accelerator", memory_bytes=limit) for i in range(count)]
    rate = graph.metadata["bandwidth_bytes_per_s"]
    once, twice = Link(bandwidth_bytes_per_s=rate), Link(bandwidth_bytes_per_s=rate / 2)
    machine = Machine(
        name="theirs",
        devices=(*devices, Device(name="cpu", kind="cpu")),
        links=tuple(tuple(once if count in (i, j) else twice for j in range(count + 1)) for i in range(count + 1)),
        transfer_model=transfer_model,
    )
    times = [[op.time_ns] * count + [op.attributes["cpu_time_ns"]] for op in graph.ops]
    together = Constraints(colocations=tuple(map(tuple, graph.metadata["colocate"])))
    return Problem(graph=graph, machine=machine, time_ns=np.array(times, np.int64), constraints=together)


@needs_reference_data
@pytest.mark.parametrize(
    ("file", "optimum_ms"),
    [
        ("throughput_bert24_inference.json", 17.790),
        ("throughput_bert24_training.json", 41.746),
        ("throughput_gnmt_inference.json", 32.911),
        ("throughput_gnmt_training.json", 107.004),
    ],
)
def test_the_published_optimal_max_load_splits_come_out(file: str, optimum_ms: float) -> None:
    assert round(best_max_load_ms(load_graph(LAYER_GRAPHS / file)), 3) == optimum_ms


def best_max_load_ms(graph: Graph) -> float:
    """Least possible load of the busiest device when the classes, in depth-first order of their forward layers, are cut
    into one run per device: accelerators, which also pay for what they send and receive, and CPUs, which do not."""
    run_of = {graph.ops[op].module: run for run, op in enumerate(_depth_first(graph))}
    on_accelerator, on_cpu = _loads(graph, [run_of[op.module] for op in graph.ops])
    counts = product(range(graph.metadata["num_accelerators"] + 1), range(graph.metadata["num_cpus"] + 1))
    least = [dict.fromkeys(counts, 0.0)]
    for end in range(1, len(run_of) + 1):
        least.append({})
        for accelerators, cpus in least[0]:
            ways = [float("inf")]
            for begin in range(end):
                if accelerators:
                    ways.append(max(least[begin][accelerators - 1, cpus], on_accelerator[begin][end]))
                if cpus:
                    ways.append(max(least[begin][accelerators, cpus - 1], on_cpu[begin][end]))
            least[end][accelerators, cpus] = min(ways)
    return min(least[-1].values())


def _depth_first(graph: Graph) -> list[int]:
    """Forward ops, what became ready last always first."""
    forward = {index for index, op in enumerate(graph.ops) if op.phase == "forward"}
    awaited = {op: {graph.producer_of[t] for t in graph.ops[op].inputs} & forward for op in forward}
    ready = sorted(op for op in forward if not awaited[op])
    order = []
    while ready:
        order.append(ready.pop())
        for op in graph.consumers_of[graph.ops[order[-1]].outputs[0]]:
            if op in forward:
                awaited[op].discard(order[-1])
                if not awaited[op]:
                    ready.append(op)
    return order


def _loads(graph: Graph, run: list[int]) -> tuple[list[list[float]], list[list[float]]]:
    """Load in ms of a device that holds runs begin to end - 1: [begin][end] on an accelerator, and on a CPU."""
    count = max(run) + 1
    price = [t.size_bytes * 1000 / graph.metadata["bandwidth_bytes_per_s"] for t in graph.tensors]
    touched = [
        (price[op.outputs[0]], {run[index], *(run[reader] for reader in graph.consumers_of[op.outputs[0]])})
        for index, op in enumerate(graph.ops)
    ]
    on_accelerator, on_cpu = ([[0.0] * (count + 1) for _ in range(count)] for _ in range(2))
    for begin in range(count):
        for end in range(begin + 1, count + 1):
            own = [op for index, op in enumerate(graph.ops) if begin <= run[index] < end]
            crossing = [p for p, runs in touched if 0 < sum(begin <= other < end for other in runs) < len(runs)]
            on_accelerator[begin][end] = sum(op.time_ns or 0 for op in own) / 1e6 + sum(crossing)
            on_cpu[begin][end] = sum(op.attributes["cpu_time_ns"] for op in own) / 1e6
    return on_accelerator, on_cpu
