"""A plan beside what happens when ONNX Runtime runs it, and beside ONNX Runtime without a plan.

Imported only where onnx and onnxruntime are known to be present.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from placewright.execution.comparison import DeviceTimes, correlation
from placewright.execution.onnx_runtime import sessions
from placewright.execution.onnx_runtime.comparison import OnnxComparison
from placewright.execution.onnx_runtime.memory import measured_peak, planned_peak
from placewright.execution.onnx_runtime.model import OnnxModel
from placewright.execution.onnx_runtime.step import OnnxStep, PartTrace
from placewright.execution.onnx_runtime.submodel import submodel
from placewright.execution.onnx_runtime.trace import read_trace
from placewright.execution.onnx_runtime.verify import difference
from placewright.execution.workers import Workers
from placewright.plans.record import Plan


class Usual:
    """ONNX Runtime without a plan, its calls made from a thread on the first of its cores."""

    def __init__(self, model: bytes, weights: Path, name: str, cores: frozenset[int], options: Any = None) -> None:
        self._workers = Workers([cores], for_torch=False)
        self._session = sessions.session(model, options or sessions.usual_options(cores), weights, name)
        self.names = [value.name for value in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The model's outputs by name."""
        out: list[Any] = []
        self._workers.run([lambda: out.extend(self._session.run(self.names, dict(feeds)))], lambda: None)
        return dict(zip(self.names, out, strict=True))

    def trace(self) -> Any:
        """Ends the profile and reads it."""
        began = self._session.get_profiling_start_time_ns()
        return read_trace(Path(self._session.end_profiling()), int(began))

    def close(self) -> None:
        """Ends the thread."""
        self._workers.close()


def compare_run(
    source: OnnxModel,
    planned: OnnxStep,
    alone: OnnxStep,
    feeds: Mapping[str, Any],
    cores: Sequence[frozenset[int]],
    workspaces: Mapping[str, int],
    steps: int,
) -> OnnxComparison:
    """Runs both plans and the model itself, in turn.

    source: the model as its file has it. planned, alone: the plan, and that of one device. cores: of each device.
    workspaces: of ops, by name.
    """
    measured, one_device, usual_one, usual = _step_times(source, planned, alone, feeds, cores, steps)
    traces = planned.traced(feeds, max(2, steps // 4))
    start, busy = _times(planned, traces)
    plan = planned.plan
    counted = [op for op in plan.ops if op.name in start]
    single = plan.machine.num_devices == 1
    differs = difference(plan, planned.model, traces)
    return OnnxComparison(
        name=plan.graph_name,
        steps=steps,
        planned_ns=plan.step_time_ns,
        measured_ns=measured,
        one_device_planned_ns=alone.plan.step_time_ns,
        one_device_measured_ns=one_device,
        usual_one_device_ns=usual_one,
        usual_ns=usual,
        devices=_devices(plan, busy),
        num_parts=len(traces),
        planned_speedup=alone.plan.step_time_ns / max(1, plan.step_time_ns),
        measured_speedup=one_device / measured,
        start_correlation=correlation([op.start_ns for op in counted], [start[op.name] for op in counted]),
        ran_as_planned=differs is None,
        difference=differs,
        same_outputs=_same_outputs(planned, feeds, cores[0]),
        planned_peak_bytes=planned_peak(plan) if single else None,
        measured_peak_bytes=_peak(traces, workspaces) if single else None,
        one_device_planned_peak_bytes=planned_peak(alone.plan),
        one_device_measured_peak_bytes=_peak(alone.traced(feeds, 2), workspaces),
        usual_order_peak_bytes=_usual_peak(planned.model, feeds, cores[0], workspaces, as_needed=True),
        usual_peak_bytes=_usual_peak(planned.model, feeds, cores[0], workspaces, as_needed=False),
    )


def _step_times(
    source: OnnxModel,
    planned: OnnxStep,
    alone: OnnxStep,
    feeds: Mapping[str, Any],
    cores: Sequence[frozenset[int]],
    steps: int,
) -> list[int]:
    """In ns: as planned, on one device, and without a plan on the cores of one device and of all."""
    whole = source.model.SerializeToString()
    one = Usual(whole, source.weights, source.name, cores[0])
    every = Usual(whole, source.weights, source.name, frozenset().union(*cores))
    try:
        return _in_turn([partial(runs.run, feeds) for runs in (planned, alone, one, every)], steps)
    finally:
        one.close()
        every.close()


def _in_turn(ways: Sequence[Callable[[], Any]], steps: int) -> list[int]:
    """Median time of each way in ns."""
    taken: list[list[int]] = [[] for _ in ways]
    for step in range(steps + 1):
        for way, times in zip(ways, taken, strict=True):
            began = time.perf_counter_ns()
            way()
            if step:  # the first one warms caches and allocators
                times.append(time.perf_counter_ns() - began)
    return [int(median(times)) for times in taken]


def _devices(plan: Plan, busy_ns: Sequence[float]) -> tuple[DeviceTimes, ...]:
    return tuple(
        DeviceTimes(
            device=device.name,
            num_ops=sum(op.device == index for op in plan.ops),
            planned_busy_ns=plan.metrics.busy_ns[index],
            measured_busy_ns=int(busy_ns[index]),
        )
        for index, device in enumerate(plan.machine.devices)
    )


def _times(step: OnnxStep, traces: Sequence[PartTrace]) -> tuple[dict[str, float], list[float]]:
    """Start of each op in ns after the first one, by name, and how long each device computes; medians over steps."""
    num_steps = min(len(trace.steps) for trace in traces)
    began = [
        min(nodes[0].start_ns for trace in traces if (nodes := trace.steps[number])) for number in range(num_steps)
    ]
    starts: dict[str, list[int]] = {}
    busy = [[0] * num_steps for _ in step.plan.machine.devices]
    for trace in traces:
        for number in range(num_steps):
            for node in trace.steps[number]:
                starts.setdefault(node.name, []).append(node.start_ns - began[number])
                busy[trace.part.device][number] += node.duration_ns
    return {name: median(times) for name, times in starts.items()}, [median(times) for times in busy]


def _same_outputs(step: OnnxStep, feeds: Mapping[str, Any], cores: frozenset[int]) -> bool:
    """As a session of the same model, optimised, that no plan has touched."""
    reference = Usual(*_whole(step.model), cores, _as_it_is(cores))
    try:
        expected = reference.run(feeds)
    finally:
        reference.close()
    found = step.run(feeds)
    return all(np.asarray(found[name]).tobytes() == np.asarray(value).tobytes() for name, value in expected.items())


def _usual_peak(
    model: OnnxModel, feeds: Mapping[str, Any], cores: frozenset[int], workspaces: Mapping[str, int], *, as_needed: bool
) -> int | None:
    """In ONNX Runtime's own order, with memory taken as it is needed, or in one piece as soon as a first step has told
    how much."""
    with tempfile.TemporaryDirectory() as folder:
        options = sessions.profiled(_as_it_is(cores), Path(folder) / "usual")
        options.enable_mem_pattern = not as_needed
        usual = Usual(*_whole(model), cores, options)
        try:
            for _ in range(3):
                usual.run(feeds)
            return measured_peak(usual.trace(), workspaces)
        finally:
            usual.close()


def _whole(model: OnnxModel) -> tuple[bytes, Path, str]:
    outputs = [value.name for value in model.model.graph.output]
    proto = submodel(model, model.with_makers(list(range(len(model.nodes))), set()), model.inputs, outputs)
    return proto.SerializeToString(), model.weights, model.name


def _as_it_is(cores: frozenset[int]) -> Any:
    """ONNX Runtime's own order of a model that is optimised already."""
    import onnxruntime

    options = sessions.usual_options(cores)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def _peak(traces: Sequence[PartTrace], workspaces: Mapping[str, int]) -> int | None:
    (trace,) = traces
    return measured_peak(trace.steps, workspaces)
