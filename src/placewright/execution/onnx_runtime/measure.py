"""How long ONNX Runtime takes for every op of a model on this host, and how much memory each needs for itself.

Imported only where onnx and onnxruntime are known to be present.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean, median
from typing import Any

from placewright.costs.measured import MeasuredOp
from placewright.execution.onnx_runtime import sessions
from placewright.execution.onnx_runtime.model import OnnxModel, submodel
from placewright.execution.onnx_runtime.step import OnnxStep
from placewright.execution.workers import Workers
from placewright.plans.record import Plan
from placewright.support.errors import InputError, shown

_REPETITIONS = 9


def measure_ops(
    model: OnnxModel, alone: Plan, cores: Sequence[frozenset[int]], feeds: Mapping[str, Any]
) -> tuple[dict[str, MeasuredOp], dict[str, MeasuredOp]]:
    """Of each op, by name, its time on the first device while the others are idle, and while all of them do the same;
    with its workspace.

    alone: the plan that puts all ops on one device. cores: of each device. What ONNX Runtime spends between ops is
    spread evenly over them, so that the ops of a step add up to what it takes.
    """
    by_itself = _times(model, alone, cores[0], feeds)
    shared = by_itself
    if len(cores) > 1:
        with ThreadPoolExecutor(len(cores)) as pool:
            shared, *_ = pool.map(lambda own: _times(model, alone, own, feeds), cores)
    workspaces = _workspaces(model, cores[0], feeds)

    def with_workspaces(times: Mapping[str, int]) -> dict[str, MeasuredOp]:
        return {name: MeasuredOp(time_ns, workspaces.get(name, 0)) for name, time_ns in times.items()}

    return with_workspaces(by_itself), with_workspaces(shared)


def measure_overhead(cores: frozenset[int]) -> int:
    """What it takes to begin a session's run and take its result, in ns."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "nothing", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = sessions.session(model.SerializeToString(), sessions.planned_options(cores), Path.cwd(), "nothing")
    binding, value = session.io_binding(), onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32))
    taken = []
    for _ in range(200):
        began = time.perf_counter_ns()
        binding.bind_ortvalue_input("x", value)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        binding.get_outputs()
        taken.append(time.perf_counter_ns() - began)
    return int(median(taken))


def _times(model: OnnxModel, alone: Plan, cores: frozenset[int], feeds: Mapping[str, Any]) -> dict[str, int]:
    workers = Workers([cores], for_torch=False)
    try:
        step = OnnxStep(model, alone, workers, [cores])
        taken = []
        for repetition in range(_REPETITIONS + 1):
            began = time.perf_counter_ns()
            step.run(feeds)
            if repetition:
                taken.append(time.perf_counter_ns() - began)
        (trace,) = step.traced(feeds, _REPETITIONS)
    finally:
        workers.close()
    samples: dict[str, list[int]] = {}
    for nodes in trace.steps:
        for node in nodes:
            samples.setdefault(node.name, []).append(node.duration_ns)
    ops = [model.graph.ops[op].name for op in trace.part.ops if op in model.node_of]
    # It ends after a million events, and knows no functions, only what is inside.
    if missing := [name for name in ops if name not in samples]:
        raise InputError(
            f"'{shown(model.name)}' cannot be timed: ONNX Runtime's profile does not tell how long "
            f"'{shown(missing[0])}' takes"
        )
    found = {name: _middle(samples[name]) for name in ops}
    between = max(0.0, median(taken) - sum(found.values())) / max(1, len(ops))
    return {name: round(duration + between) for name, duration in found.items()}


def _middle(samples: Sequence[int]) -> float:
    """The mean of the middle half: what the profiler writes is cut to microseconds, which a median would keep."""
    ordered = sorted(samples)
    quarter = len(ordered) // 4
    return fmean(ordered[quarter : len(ordered) - quarter])


def _workspaces(model: OnnxModel, cores: frozenset[int], feeds: Mapping[str, Any]) -> dict[str, int]:
    """What each op asks the allocator for beside its outputs, by ONNX Runtime's own count."""
    nodes = model.with_makers(list(range(len(model.nodes))), set())
    proto = submodel(model, nodes, model.inputs, [value.name for value in model.model.graph.output])
    # In the file a name may hold commas and ends of lines, and stands for all nodes that have it.
    names = [node.name for node in proto.graph.node]
    for number, node in enumerate(proto.graph.node):
        node.name = f"node{number}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.csv"
        options = sessions.planned_options(cores)
        options.add_session_config_entry("session.collect_node_memory_stats_to_file", str(path))
        session = sessions.session(proto.SerializeToString(), options, model.weights, model.name)
        with sessions.told_as_input_error(model.name):
            session.run(None, dict(feeds))
        # The file is written when the session ends.
        del session
        lines = path.read_text().splitlines()[1:] if path.exists() else []
    found = {}
    for line in lines:
        # A hash of the node stands behind its name.
        key, _, _, _, temporary = line.rsplit(",", 4)
        place = key.rpartition("_")[0].removeprefix("node")
        if place.isdecimal():  # Others are of nodes that ONNX Runtime puts in.
            found[names[int(place)]] = int(temporary)
    return found
