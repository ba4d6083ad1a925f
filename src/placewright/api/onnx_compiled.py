"""An ONNX model that ONNX Runtime runs as planned, and how its plan is made.

Imported only where onnx and onnxruntime are known to be present.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from placewright.analysis.advice import shortage_words
from placewright.api.beside_one_device import OpTimes, plan_beside_one_device
from placewright.api.functions import plan as make_plan
from placewright.api.questions import Answer, Plan, answer
from placewright.costs.measured import with_workspaces, write_measured
from placewright.execution.comparison import OnnxComparison
from placewright.execution.devices import cores_of
from placewright.execution.onnx_runtime.compare import compare_run
from placewright.execution.onnx_runtime.feeds import random_feeds
from placewright.execution.onnx_runtime.matching import model_of
from placewright.execution.onnx_runtime.measure import measure_ops, measure_overhead
from placewright.execution.onnx_runtime.model import read_onnx
from placewright.execution.onnx_runtime.optimised import optimised
from placewright.execution.onnx_runtime.step import OnnxStep
from placewright.execution.workers import Workers
from placewright.machine import Machine
from placewright.plans.record import Plan as PlanRecord
from placewright.support.errors import InputError
from placewright.terminal.run_table import run_table


class OnnxCompiled:
    """An ONNX model that runs as planned. Its sessions and threads end with it, or with `close`.

    Attributes
    ----------
    plan
        Its plan.
    """

    plan: Plan

    def __init__(
        self,
        path: Path,
        machine: Machine,
        *,
        dims: Mapping[str, int],
        feeds: Mapping[str, Any] | None,
        given: PlanRecord | None,
        measured: Path | None,
        options: Mapping[str, Any],
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="placewright-")
        self._cores = cores_of(machine.num_devices)
        self._workers = Workers(self._cores, for_torch=False)
        self._first = Workers(self._cores[:1], for_torch=False)
        try:
            self._source = read_onnx(path, dims)
            folder = Path(self._folder.name)
            self._model = (
                optimised(self._source, dims, folder) if given is None else model_of(given, self._source, dims, folder)
            )
            self._feeds = random_feeds(self._source) if feeds is None else feeds
            machine = _with_overhead(machine, measure_overhead(self._cores[0]))
            self._make(machine, given, measured, options)
            self.plan = Plan.of(replace(self.plan, configuration={**self.plan.configuration, "dims": dict(dims)}))
        except BaseException:
            self.close()
            raise

    def _make(
        self, machine: Machine, given: PlanRecord | None, measured: Path | None, options: Mapping[str, Any]
    ) -> None:
        graph, folder = self._model.graph, Path(self._folder.name)
        first = replace(machine, devices=machine.devices[:1], links=(machine.links[0][:1],))
        times = OpTimes(alone=folder / "alone.csv", shared=measured or folder / "op-times.csv")
        if times.shared.exists():
            times = OpTimes(alone=times.shared, shared=times.shared)
        else:
            plain = make_plan(graph, first, solver="input-order")
            found = measure_ops(self._model, plain, self._cores, self._feeds)
            for path, ops in zip((times.alone, times.shared), found, strict=True):
                write_measured(path, ops, machine.devices[0].kind)
        self._workspaces = {op.name: op.workspace_bytes for op in with_workspaces(graph, times.shared).ops}
        alone = make_plan(graph, first, measured=times.alone, solver="input-order")
        # ONNX Runtime runs each node once.
        once = {**options, "keep": ["*"]}
        plan = plan_beside_one_device(graph, machine, times, once) if given is None else given
        if given is None and options.get("memory_limit") is not None and plan.status == "infeasible":
            raise InputError(shortage_words(plan))
        self.plan = Plan.of(plan)
        self._alone = OnnxStep(self._model, alone, self._first, self._cores[:1])
        self._step = OnnxStep(self._model, self.plan, self._workers, self._cores)

    def __call__(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once.

        Parameters
        ----------
        feeds
            An array for each input, by name.

        Returns
        -------
        dict
            Arrays, by the names of the model's outputs.
        """
        return self._step.run(feeds)

    def compare(self, feeds: Mapping[str, Any] | None = None, *, steps: int = 20) -> Answer[OnnxComparison]:
        """Run the model as planned, on one device and without a plan, and tell how long each takes.

        Parameters
        ----------
        feeds
            An array for each input, by name; by default what its ops were timed with.
        steps
            How many steps of each sort are run.

        Returns
        -------
        Answer
            `facts` are what `placewright run --json` prints for an ONNX model.
        """
        given = self._feeds if feeds is None else feeds
        found = compare_run(self._source, self._step, self._alone, given, self._cores, self._workspaces, steps)
        return answer(found, run_table(found))

    def close(self) -> None:
        """End the sessions' threads, and drop the optimised model."""
        self._workers.close()
        self._first.close()
        self._folder.cleanup()

    def __enter__(self) -> OnnxCompiled:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _with_overhead(machine: Machine, overhead_ns: int) -> Machine:
    """Behind a transfer a new session begins, so a transfer takes as much longer."""
    links = tuple(
        tuple(None if link is None else replace(link, latency_ns=link.latency_ns + overhead_ns) for link in row)
        for row in machine.links
    )
    return replace(machine, links=links)
