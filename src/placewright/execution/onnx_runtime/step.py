"""A plan on sessions: one step of a model, over and over.

Imported only where onnx and onnxruntime are known to be present.
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from placewright.execution.channels import Channels, StoppedError
from placewright.execution.onnx_runtime import sessions
from placewright.execution.onnx_runtime.model import OnnxModel, check_feeds, submodel
from placewright.execution.onnx_runtime.parts import Part, parts_of
from placewright.execution.onnx_runtime.trace import NodeRun, read_trace
from placewright.execution.steps import steps_of
from placewright.execution.workers import Workers
from placewright.importers.onnx.records import first_line
from placewright.plans.record import Plan
from placewright.support.errors import InputError, shown

Values = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PartTrace:
    """A part, and the nodes of it that ran, in each of several steps."""

    part: Part
    steps: Sequence[Sequence[NodeRun]]


class OnnxStep:
    """Runs a plan for a model, on one worker per device of the plan."""

    def __init__(self, model: OnnxModel, plan: Plan, workers: Workers, cores: Sequence[frozenset[int]]) -> None:
        self.model = model
        self.plan = plan
        self._workers = workers
        self._cores = cores
        steps = steps_of(plan, model.graph)
        self._num_channels = steps.num_channels
        self.parts = parts_of(steps, model)
        self._returned = _returned(model)
        self._num_readers = Counter(name for own in self.parts for part in own for name in part.inputs)
        self._num_readers.update(self._returned)
        self._protos = [[_bytes(model, part) for part in own] for own in self.parts]
        self._runners = self._make_runners(None)
        self._constants = self._fixed_outputs()

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Runs one step and returns the model's outputs by name. Not to be called by two threads at once.

        Raises InputError for feeds that the plan is not for, and for what ONNX Runtime says against the model.
        """
        return self._run(self._runners, self._values(feeds))

    def anew(self) -> OnnxStep:
        """The same plan on new sessions, whose ops have not run yet."""
        return OnnxStep(self.model, self.plan, self._workers, self._cores)

    def traced(self, feeds: Mapping[str, Any], steps: int) -> list[PartTrace]:
        """Runs steps with ONNX Runtime's profiler on; the first one, which prepares kernels, is left out."""
        with tempfile.TemporaryDirectory() as folder:
            runners = self._make_runners(Path(folder))
            for _ in range(steps + 1):
                self._run(runners, self._values(feeds))
            return [
                PartTrace(part=runner.part, steps=runner.trace()[1:])
                for own in runners
                for runner in own
                if runner.session is not None
            ]

    def _make_runners(self, profiles: Path | None) -> list[list[_Runner]]:
        return [
            [
                _Runner(part, self._session(device, place, proto, profiles))
                for place, (part, proto) in enumerate(zip(own, protos, strict=True))
            ]
            for device, (own, protos) in enumerate(zip(self.parts, self._protos, strict=True))
        ]

    def _session(self, device: int, place: int, proto: bytes | None, profiles: Path | None) -> Any:
        if proto is None:
            return None
        options = sessions.planned_options(self._cores[device])
        if profiles is not None:
            options = sessions.profiled(options, profiles / f"{device}-{place}")
        return sessions.session(proto, options, self.model.weights, self.model.name)

    def _values(self, feeds: Mapping[str, Any]) -> Values:
        check_feeds(self.model, feeds)
        return {name: self._value(name, np.asarray(value)) for name, value in feeds.items()}

    def _value(self, name: str, given: Any) -> Any:
        try:
            return onnxruntime.OrtValue.ortvalue_from_numpy(given)
        except (RuntimeError, ValueError, TypeError) as error:
            raise InputError(
                f"ONNX Runtime makes no input '{shown(name)}' of '{shown(self.model.name)}' of an array of "
                f"{given.dtype}: {first_line(error)}"
            ) from error

    def _run(self, runners: Sequence[Sequence[_Runner]], values: Values) -> dict[str, Any]:
        given = set(values)
        values.update(self._constants)
        state = _State(Channels(self._num_channels), values, Counter(self._num_readers))
        with sessions.told_as_input_error(self.model.name):
            self._workers.run([partial(_run_device, own, state) for own in runners], state.stop)
        # What is there before a step, or is the caller's own, must stay as it is whatever is done with the result.
        kept = given | self._constants.keys()
        return {name: self._array(name, values[name], is_kept=name in kept) for name in self._returned}

    def _array(self, name: str, value: Any, *, is_kept: bool) -> Any:
        try:
            found = value.numpy()
        except RuntimeError as error:
            raise InputError(
                f"the output '{shown(name)}' of '{shown(self.model.name)}' becomes no array: {first_line(error)}"
            ) from error
        return found.copy() if is_kept else found

    def _fixed_outputs(self) -> Values:
        """Outputs of the model that are the same in every step, which no part makes."""
        made = {name for own in self.parts for part in own for name in part.outputs}
        fixed = [name for name in self._returned if name not in made and name not in self.model.inputs]
        if not fixed:
            return {}
        makers = [self.model.maker[name] for name in fixed if name in self.model.maker]
        proto = submodel(self.model, self.model.with_makers(makers, set()), (), fixed)
        options = sessions.planned_options(self._cores[0])
        own = sessions.session(proto.SerializeToString(), options, self.model.weights, self.model.name)
        return dict(zip(fixed, own.run_with_ort_values(fixed, {}), strict=True))


class _State:
    """What the devices share in one step: the values there are, how many parts have yet to read each, and whether the
    step is to stop."""

    def __init__(self, channels: Channels, values: Values, num_readers: Counter[str]) -> None:
        self.channels = channels
        self.values = values
        self.options = onnxruntime.RunOptions()
        self._num_readers = num_readers
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Ends the step at the next node of every device."""
        self.channels.stop()
        self.options.terminate = True

    def read(self, names: Sequence[str]) -> None:
        """A part has read these values; those that nobody else reads are dropped."""
        with self._lock:
            self._num_readers.subtract(names)
            for name in names:
                if self._num_readers[name] == 0:
                    self.values.pop(name, None)


class _Runner:
    """A part with the session that runs it; none where it holds no nodes."""

    def __init__(self, part: Part, session: Any) -> None:
        self.part = part
        self.session = session
        self._binding = None if session is None else session.io_binding()

    def run(self, state: _State) -> None:
        part, values, channels = self.part, state.values, state.channels
        for channel in part.waits:
            channels.locks[channel].acquire()
            if channels.stopped:
                raise StoppedError
        if self._binding is not None:
            binding = self._binding
            for name in part.inputs:
                binding.bind_ortvalue_input(name, values[name])
            for name in part.outputs:
                binding.bind_output(name)
            self.session.run_with_iobinding(binding, state.options)
            values.update(zip(part.outputs, binding.get_outputs(), strict=True))
            binding.clear_binding_inputs()
            binding.clear_binding_outputs()
            state.read(part.inputs)
        for channel in part.opens:
            channels.locks[channel].release()

    def trace(self) -> list[list[NodeRun]]:
        """Ends the session's profile and reads it."""
        began = self.session.get_profiling_start_time_ns()
        return read_trace(Path(self.session.end_profiling()), int(began))


def _run_device(runners: Sequence[_Runner], state: _State) -> None:
    for runner in runners:
        if state.channels.stopped:
            raise StoppedError
        runner.run(state)


def _returned(model: OnnxModel) -> list[str]:
    """Names of the model's outputs. Raises InputError for one that is no tensor: it would not become an array."""
    for value in model.model.graph.output:
        if value.type.WhichOneof("value") not in (None, "tensor_type"):
            raise InputError(f"the output '{shown(value.name)}' of '{shown(model.name)}' is no tensor")
    return [value.name for value in model.model.graph.output]


def _bytes(model: OnnxModel, part: Part) -> bytes | None:
    if not part.nodes:
        return None
    return bytes(submodel(model, part.nodes, part.inputs, part.outputs).SerializeToString())
