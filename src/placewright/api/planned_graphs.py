"""Planned runs of the graphs that PyTorch captures, as a backend of `torch.compile`.

Forward and backward of a graph are planned together, in the order in which PyTorch captures graphs. Imported only where
torch is known to be present.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch._dynamo.utils import counters

from placewright.analysis.advice import shortage_words
from placewright.analysis.outcome import gain_words
from placewright.api.allocator_limits import within_allocated
from placewright.api.arguments import globs
from placewright.api.beside_one_device import OpTimes, plan_beside_one_device
from placewright.api.functions import plan as make_plan
from placewright.api.local_devices import Devices
from placewright.api.measured_placements import Runner
from placewright.api.profiles import first_device, of_first_device, times_name, write_times
from placewright.api.questions import Plan
from placewright.api.self_check import SelfCheck
from placewright.costs.measured import with_workspaces
from placewright.execution.comparison import CalibrationRound
from placewright.execution.devices import check_device_count
from placewright.execution.pytorch.parts import Part, plan_of_part
from placewright.execution.pytorch.profile import Profiled
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.pytorch.recorded import check_recordable, the_driver
from placewright.execution.pytorch.residents import what_stays
from placewright.execution.pytorch.step import TorchStep, check_readable
from placewright.graph import Graph
from placewright.machines.limits import host_and_limits
from placewright.plans.record import Plan as PlanRecord
from placewright.support.errors import InputError
from placewright.support.files import write_atomically
from placewright.support.quantities import counted, format_bytes, format_time_ns

_LOGGER = logging.getLogger("placewright.api.dynamo")
#: The number of sets of open sizes whose plans are kept: those used last.
MAX_PLANS = 8


@dataclass(kw_only=True, eq=False)
class PlannedGraph:
    """One captured graph.

    plan: of forward and backward, or of an inference. alone: of the first device, while the others are idle. program:
    of both parts together, with PyTorch's own reruns, and without those of the plan. graph: with measured workspaces.
    profiled: op times by kind of device, where they were measured now. parts: the parts that run. likes: name and
    traced tensor of each placeholder of the program. is_whole: whether all of the call was captured as this graph.
    saved_bytes: what forward leaves for backward, without its results and what stays from call to call. beside: bytes
    that other graphs of the module hold meanwhile, and tensors of it that this one does not read. rounds: of the
    calibration, if there was one.
    """

    plan: Plan
    alone: Plan
    program: TorchProgram
    graph: Graph
    profiled: Mapping[str, Profiled]
    parts: list[Part]
    likes: Sequence[tuple[str, Any]] = ()
    is_whole: bool = True
    saved_bytes: int = 0
    beside: int = 0
    rounds: tuple[CalibrationRound, ...] = ()
    #: Identities of the tensors that it reads.
    read: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """Options for planning and running graphs.

    options: as `placewright.plan` takes them. given: a plan to take instead of making one. measured: a file of op
    times. inductor: whether Inductor computes ops that one device runs without waiting in between. measure_placements:
    whether a solver learns from placements that run. split: whether stretches of a step may run in parts.
    """

    options: Mapping[str, Any]
    given: PlanRecord | None = None
    measured: Path | None = None
    inductor: bool = False
    measure_placements: bool = False
    split: bool = False


class PreparedError(BaseException):
    """Ends a call before its first graph runs. values: of the placeholders of the graph's program."""

    def __init__(self, graph: PlannedGraph, values: list[Any]) -> None:
        super().__init__("the call was to be prepared only")
        self.graph = graph
        self.values = values


class _OfOthers(NamedTuple):
    """Bytes in use besides a graph: tensors it does not read, saved by earlier graphs, gradients of later graphs."""

    unread: int
    saved: int
    gradients: int


class GraphPlanner:
    """The backend of one call of `torch.compile`: plans the graphs that PyTorch captures.

    names: the names of tensors of the module and its arguments, by identity, when a graph is captured. held: tensors
    of the module. arguments: those of this thread's call. may_train: whether what is called may have a backward pass.
    is_step: whether its one graph ends in a loss, which alone has a backward pass. verifies: whether graphs can be
    compared with eager's, by `checked_by`.

    Attributes
    ----------
    graphs
        The planned graphs, in the order of capture.
    can_be_copied
        Whether captured calls read and change no tensors but those of the module and its arguments.
    beside
        Bytes in use besides those of the graphs: by the optimizer's states, and by gradients that exist before a step.
    """

    def __init__(
        self,
        devices: Devices,
        wishes: Wishes,
        *,
        name: str = "compiled",
        names: Callable[[], Mapping[int, str]] = dict,
        held: Sequence[Any] = (),
        arguments: Callable[[], Sequence[Any]] = tuple,
        may_train: bool = True,
        is_step: bool = False,
        verifies: bool = False,
    ) -> None:
        if wishes.given is not None:
            check_device_count(wishes.given, devices.machine)
        host_and_limits(wishes.options.get("memory_limit"), devices.machine)
        self.devices = devices
        self.name = name
        self.names = names
        self.held = held
        self.arguments = arguments
        self.wishes = wishes
        stays = what_stays(held, devices.places, recorded=devices.is_recorded)
        options = {**wishes.options}
        options["keep"] = [*globs("keep", options.get("keep", ())), *stays]
        self.options = options
        self.graphs: list[PlannedGraph] = []
        self.may_train = may_train
        self.is_step = is_step
        self.verifies = verifies
        self.can_be_copied = True
        self.beside = 0
        self._now = threading.local()

    @property
    def limit(self) -> int | None:
        """The memory limit of plans of one device that are made here, in bytes; None where there is none."""
        asked = self.options.get("memory_limit")
        if asked is None or self.wishes.given is not None or self.devices.machine.num_devices > 1:
            return None
        return next(iter((host_and_limits(asked, self.devices.machine)[1] or {}).values()), None)

    def options_beside(self, beside: int = 0) -> dict[str, Any]:
        """The options of a plan, with the memory limit reduced by other memory in use.

        That is the optimizer's states, existing gradients, and so many bytes more.
        """
        beside += self.beside
        if not beside or self.limit is None:
            return self.options
        host, limited = host_and_limits(self.options["memory_limit"], self.devices.machine)
        on_host = {} if host is None or host.memory_bytes is None else {"host": host.memory_bytes}
        return {**self.options, "memory_limit": {name: max(0, self.limit - beside) for name in limited or {}} | on_host}

    def _of_others(self, values: Sequence[Any]) -> _OfOthers:
        """Find the memory in use besides a graph that reads these tensors, at the present point of a call."""
        ran: list[PlannedGraph] = getattr(self._now, "ran", [])
        read = {value.untyped_storage()._cdata for value in values if value.layout == torch.strided}
        unread, gradients = dict[int, int](), 0
        for tensor in (*self.held, *self.arguments()):
            if tensor.layout == torch.strided and (storage := tensor.untyped_storage())._cdata not in read:
                unread[storage._cdata] = storage.nbytes()
        if not self.is_step and self.may_train:
            # Graphs that come later have their backward pass before this one.
            known = {id(value) for value in values}.union(*(graph.read for graph in ran))
            gradients = sum(each.nbytes for each in self.held if each.requires_grad and id(each) not in known)
        own = {value.untyped_storage().data_ptr() for value in values if value.layout == torch.strided}
        results = {address: size for graph in ran for part in graph.parts for address, size in part.left.items()}
        saved = sum(graph.saved_bytes for graph in ran) + sum(
            size for address, size in results.items() if address not in own
        )  # fmt: skip
        return _OfOthers(sum(unread.values()), saved, gradients)

    def planned(
        self, program: TorchProgram, graph: Graph, values: Sequence[Any], *, joint: bool
    ) -> PlannedGraph:  # fmt: skip
        """A plan with times that are measured now, unless they are known.

        program: what is timed. graph: what is planned, with PyTorch's own reruns as ops. values: of all placeholders.
        joint: whether tensors cannot be moved, as between forward and backward.
        Raises InputError where the plan that was given is for another graph, a tensor lies where no device can read it,
        or no plan is found that keeps the memory limit.
        """
        devices = self.devices
        parameters, tensors = program.split(values)
        check_readable(dict(zip(program.parameters.values(), parameters, strict=True)), devices.places)
        check_readable({f"argument {number}": tensor for number, tensor in enumerate(tensors)}, devices.places)
        if devices.is_recorded:
            self._check_recordable(program, parameters)
        others = self._others_now(values)
        options = self.options_beside(sum(others))
        if joint:
            options = {**options, "keep": [*options["keep"], "move:*", "weight:*"]}
        if self.wishes.measure_placements and self.wishes.given is None:
            options = Runner(
                program=program, parameters=parameters, tensors=tensors, workers=devices.workers
            ).options(options)  # fmt: skip
        with self.kept_times() as folder:
            times, profiled = self._times(program, parameters, tensors, folder)
            # The plan of one device has only the first device's kind.
            of_first = of_first_device(times.alone, devices.machine, folder)
            alone = make_plan(program.graph, first_device(devices.machine), measured=of_first, solver="input-order")
            if self.wishes.given is not None:
                plan = Plan.of(self.wishes.given)
            else:
                plan = plan_beside_one_device(graph, devices.machine, times, options)
                self._check_fits(plan, options, others, joint=joint)
                if self.limit is not None:
                    step = partial(TorchStep, program, workers=devices.workers, places=devices.places)
                    plan = within_allocated(
                        graph, plan, times.shared, devices, options, lambda of: step(of).peak_bytes(parameters, tensors)
                    )
            measured_graph = with_workspaces(program.graph, times.shared)
        _LOGGER.info("%s", _planned_words(plan))
        return PlannedGraph(
            plan=plan,
            alone=alone,
            program=program,
            graph=measured_graph,
            profiled=profiled,
            parts=[],
            beside=sum(others),
            read=frozenset(map(id, values)),
        )

    def _check_fits(self, plan: Plan, options: Mapping[str, Any], others: _OfOthers, *, joint: bool) -> None:
        """Raises InputError for a plan that exceeds a limit that was asked for."""
        if plan.status == "infeasible" and options.get("memory_limit") is not None:
            way_out = "; split=True may run ops in parts" if joint and self._may_split else ""
            raise InputError(f"{shortage_words(plan)}{self._beside_words(others)}{way_out}")

    def _others_now(self, values: Sequence[Any]) -> _OfOthers:
        return self._of_others(values) if self.limit is not None else _OfOthers(0, 0, 0)

    def room_for(self, values: Sequence[Any]) -> int | None:
        """The bytes of the limit left for a graph that reads these tensors; None where there is no limit."""
        return None if self.limit is None else max(0, self.limit - self.beside - sum(self._others_now(values)))

    @property
    def sums_in_place(self) -> bool:
        """True if gradients are added in place: on one device, by PyTorch's own kernels."""
        return self.devices.machine.num_devices == 1 and not self.wishes.inductor

    @property
    def _may_split(self) -> bool:
        """True if splits were not tried and could be."""
        return not self.wishes.split and self.devices.machine.num_devices == 1

    def _beside_words(self, others: _OfOthers) -> str:
        """Words for what counts besides the graph, for an error message."""
        counted = {
            "of the optimizer's states and of gradients that are there": self.beside,
            "of tensors of the module that this graph does not read": others.unread,
            "that earlier graphs of the module leave for their backward": others.saved,
            "of gradients that later graphs may give": others.gradients,
        }
        found = [f"{format_bytes(size)} {words}" for words, size in counted.items() if size]
        return f"; {' and '.join(found)} count, too" if found else ""

    def _check_recordable(self, program: TorchProgram, parameters: Sequence[Any]) -> None:
        if self.wishes.given is not None and self.wishes.given.moves:
            raise InputError(
                "the plan moves tensors to the host's memory, and a CUDA graph records the GPU's own; leave out "
                "cuda_graph, or plan with keep=['move:*']"
            )
        check_recordable(program, parameters, the_driver(self.devices.places))

    @contextmanager
    def kept_times(self) -> Iterator[Path]:
        """The folder for files of op times: the profile's, where later plans find them, or a temporary one."""
        if self.devices.profile.folder is not None:
            yield self.devices.profile.folder
            return
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)

    def _times(
        self, program: TorchProgram, parameters: Sequence[Any], tensors: Sequence[Any], folder: Path
    ) -> tuple[OpTimes, Mapping[str, Profiled]]:
        # The file that the user named is for the first graph.
        named = self.wishes.measured if not self.graphs else None
        if named is not None and named.exists():
            return OpTimes(alone=named, shared=named), {}
        devices = self.devices
        found = devices.profile.measure(
            program, devices.machine, parameters, tensors, devices.places, memory_limit=self.limit
        )
        times = write_times(found, devices.machine, folder, times_name(program.graph, devices.machine))
        if named is not None:
            write_atomically(named, times.shared.read_bytes())
        return times, found

    def run_by(self, graph: PlannedGraph, plan: Plan) -> None:
        """Makes the parts of a graph run by a plan."""
        graph.plan = plan
        for part in graph.parts:
            own = plan if part.runs is None else plan_of_part(part.program, part.runs, plan)
            part.step = TorchStep(part.program, own, self.devices.workers, self.devices.places)

    @contextmanager
    def checked_by(self, check: SelfCheck) -> Iterator[None]:
        """Within this context, graphs that this thread runs are compared with eager's."""
        self._now.check = check
        try:
            yield
        finally:
            self._now.check = None

    def beside_eager(self, graph: Any, planned: Callable[..., Any], *given: Any) -> Any:
        """Runs a planned graph, and in a call that is compared also the captured graph."""
        check = getattr(self._now, "check", None)
        if check is None or getattr(self._now, "prepare", False):
            return planned(*given)
        return check.run_graph(graph, planned, self.names(), given)

    @contextmanager
    def noting(self, ran: list[PlannedGraph], *, prepare: bool) -> Iterator[None]:
        """Notes which graphs run in this thread, or ends the call by PreparedError before the first does."""
        now, breaks = self._now, _num_breaks()
        now.ran, now.prepare, now.breaks = ran, prepare, breaks
        try:
            yield
        finally:
            now.ran, now.prepare = [], False

    @contextmanager
    def running_once(self, ops: Sequence[str]) -> Iterator[None]:
        """Within this context, plans run these ops once."""
        before = self.options
        self.options = {**before, "keep": [*before["keep"], *ops]}
        try:
            yield
        finally:
            self.options = before

    @property
    def is_whole(self) -> bool:
        """True if the graph that this thread captures now is all of the call so far."""
        return _num_breaks() == getattr(self._now, "breaks", _num_breaks())

    def begins(self, graph: PlannedGraph, part: Part, given: list[Any]) -> None:
        """Notes a run of a graph before its first part, or ends the call by PreparedError."""
        if getattr(self._now, "prepare", False):
            named = dict(zip(part.names, given, strict=True))
            raise PreparedError(graph, [named[name] if name in named else _like(value) for name, value in graph.likes])
        if hasattr(self._now, "ran"):
            self._now.ran.append(graph)


def _planned_words(plan: Plan) -> str:
    """A line that describes the plan of one graph."""
    gain = f", {words}" if (words := gain_words(plan)) else ""
    time, peak = format_time_ns(plan.step_time_ns), format_bytes(plan.metrics.peak_memory_bytes)
    return f"a graph of {counted(len(plan.ops), 'op')} on {plan.machine.name}: planned {time}{gain}; peak memory {peak}"


def _num_breaks() -> int:
    return sum(counters["graph_break"].values())


def _like(value: Any) -> Any:
    """A gradient of ones with the layout of a traced one."""
    return torch.empty_strided(tuple(value.shape), tuple(value.stride()), dtype=value.dtype, device=value.device).fill_(
        1
    )
