"""A plan beside what happens when ONNX Runtime runs it, and beside ONNX Runtime without a plan.

Imported only where onnx and onnxruntime are known to be present.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from placewright.execution.comparison import OnnxComparison, OpRun, device_times, start_correlation, times_in_turn
from placewright.execution.onnx_runtime import sessions
from placewright.execution.onnx_runtime.model import OnnxModel, submodel
from placewright.execution.onnx_runtime.step import OnnxStep, PartTrace
from placewright.execution.onnx_runtime.trace import NodeRun, read_trace
from placewright.execution.workers import Workers
from placewright.plans.record import Plan
from placewright.support.errors import shown


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
    taken = _step_times(source, planned, alone, feeds, cores, steps)
    measured, one_device, usual_one, usual, *parallel = (int(median(times)) for times in taken)
    traces = planned.traced(feeds, max(2, steps // 4))
    plan = planned.plan
    ops = _ops(planned, traces)
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
        parallel_ns=parallel[0] if parallel else None,
        measured_range_ns=(min(taken[0]), max(taken[0])),
        devices=device_times(plan, ops, plan.ops),
        num_parts=len(traces),
        planned_speedup=alone.plan.step_time_ns / max(1, plan.step_time_ns),
        measured_speedup=one_device / measured,
        start_correlation=start_correlation(ops),
        ran_as_planned=differs is None,
        difference=differs,
        same_outputs=_same_outputs(planned, feeds, cores[0]),
        planned_peak_bytes=planned_peak(plan) if single else None,
        measured_peak_bytes=_peak(traces, workspaces) if single else None,
        one_device_planned_peak_bytes=planned_peak(alone.plan),
        one_device_measured_peak_bytes=_peak(alone.traced(feeds, 2), workspaces),
        usual_order_peak_bytes=_usual_peak(planned.model, feeds, cores[0], workspaces, as_needed=True),
        usual_peak_bytes=_usual_peak(planned.model, feeds, cores[0], workspaces, as_needed=False),
        ops=ops,
    )


def _step_times(
    source: OnnxModel,
    planned: OnnxStep,
    alone: OnnxStep,
    feeds: Mapping[str, Any],
    cores: Sequence[frozenset[int]],
    steps: int,
) -> list[list[int]]:
    """Of each step in ns: as planned, on one device, and without a plan on the cores of one device and of all; for
    several devices also in parallel mode."""
    whole = source.model.SerializeToString()
    all_cores = frozenset().union(*cores)
    wanted: list[tuple[frozenset[int], Any]] = [(cores[0], None), (all_cores, None)]
    if len(cores) > 1:
        wanted.append((all_cores, sessions.parallel_options(cores)))
    with ExitStack() as stack:
        usual: list[Usual] = []
        for own, options in wanted:
            usual.append(Usual(whole, source.weights, source.name, own, options))
            stack.callback(usual[-1].close)
        ways = [partial(planned.run, feeds), partial(alone.run, feeds), *(partial(each.run, feeds) for each in usual)]
        return times_in_turn(ways, steps)


def _ops(step: OnnxStep, traces: Sequence[PartTrace]) -> tuple[OpRun, ...]:
    """The ops of the plan that ran, with medians over steps."""
    num_steps = min(len(trace.steps) for trace in traces)
    ran: dict[str, list[tuple[int, int]]] = {}
    for number in range(num_steps):
        nodes = [node for trace in traces for node in trace.steps[number]]
        began = min(node.start_ns for node in nodes)
        for node in nodes:
            ran.setdefault(node.name, []).append((node.start_ns - began, node.duration_ns))
    middle = {name: [int(median(values)) for values in zip(*times, strict=True)] for name, times in ran.items()}
    return tuple(OpRun.of(op, middle[op.name][0], sum(middle[op.name])) for op in step.plan.ops if op.name in middle)


def _same_outputs(step: OnnxStep, feeds: Mapping[str, Any], cores: frozenset[int]) -> bool:
    """As a session of the same model, optimised, that no plan has touched."""
    reference = Usual(*_whole(step.model), cores, _as_it_is(cores))
    try:
        expected = reference.run(feeds)
    finally:
        reference.close()
    # A fresh one, too: what a seeded op draws depends on how often it has drawn.
    found = step.anew().run(feeds)
    return all(_is_same(np.asarray(found[name]), np.asarray(value)) for name, value in expected.items())


def _is_same(found: Any, expected: Any) -> bool:
    """Bit by bit; texts, of which an array holds references, one by one."""
    if expected.dtype.hasobject:
        return found.shape == expected.shape and bool((found == expected).all())
    return bool(found.tobytes() == expected.tobytes())


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


def planned_peak(plan: Plan, device: int = 0) -> int:
    """As the plan has it, on one of its devices."""
    inputs = {op.name for op in plan.ops if op.kind == "input"}
    events: list[tuple[int, int]] = []
    for buffer in plan.buffers:
        if buffer.device == device and buffer.kind != "resident" and buffer.op not in inputs:
            events += [(buffer.allocated_ns, buffer.size_bytes), (buffer.freed_ns, -buffer.size_bytes)]
    peak = in_use = 0
    # At one moment, what ends makes room for what begins.
    for _, change in sorted(events):
        in_use += change
        peak = max(peak, in_use)
    return peak


def measured_peak(steps: Sequence[Sequence[NodeRun]], workspaces: Mapping[str, int]) -> int | None:
    """Of a session, in the last of several steps: what it had in use after each node beyond what it had before the
    first of these steps, and the node's workspace, which is given back by then. None where the profile does not
    tell."""
    if not steps[0] or steps[0][0].bytes_before is None:
        return None
    before = steps[0][0].bytes_before
    return max(
        node.bytes_in_use - before + workspaces.get(node.name, 0) for node in steps[-1] if node.bytes_in_use is not None
    )


_PROVIDER = "CPUExecutionProvider"


def difference(plan: Plan, model: OnnxModel, traces: Iterable[PartTrace]) -> str | None:
    """The first difference in one sentence; None where all ran as planned."""
    for trace in traces:
        device = plan.machine.devices[trace.part.device].name
        planned = [model.graph.ops[op].name for op in trace.part.ops if op in model.node_of]
        for nodes in trace.steps:
            ran = list(dict.fromkeys(node.name for node in nodes if node.name in set(planned)))
            if missing := [name for name in planned if name not in set(ran)]:
                return f"ONNX Runtime did not run '{shown(missing[0])}', which the plan puts on {device}"
            if ran != planned:
                first, instead = next(pair for pair in zip(planned, ran, strict=True) if pair[0] != pair[1])
                return f"on {device} ONNX Runtime ran '{shown(instead)}' where the plan has '{shown(first)}'"
            for node in nodes:
                if node.provider != _PROVIDER:
                    return f"'{shown(node.name)}' ran on {shown(node.provider)}, and the plan puts it on {device}"
    return None
