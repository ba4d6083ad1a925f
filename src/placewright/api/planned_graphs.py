"""Graphs that PyTorch captures, planned and run: what a backend of `torch.compile` makes of each.

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
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd import descriptors
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes

from placewright.analysis.advice import shortage_words
from placewright.analysis.outcome import gain_words
from placewright.api.arguments import globs
from placewright.api.beside_one_device import OpTimes, plan_beside_one_device
from placewright.api.functions import plan as make_plan
from placewright.api.measured_placements import Runner
from placewright.api.memory_limits import host_and_limits
from placewright.api.profiles import Profile, first_device, of_first_device, times_name, write_times
from placewright.api.questions import Plan
from placewright.costs.measured import with_workspaces
from placewright.execution.comparison import CalibrationRound
from placewright.execution.devices import check_device_count
from placewright.execution.pytorch.cuda import places_of
from placewright.execution.pytorch.joint import JointGraph, is_tangent
from placewright.execution.pytorch.machine import cores_by_device
from placewright.execution.pytorch.parts import Part, boxed, plan_of_part, runs_of
from placewright.execution.pytorch.places import Place
from placewright.execution.pytorch.profile import Profiled, unchanged
from placewright.execution.pytorch.program import TorchProgram, program_of_graph
from placewright.execution.pytorch.recomputation import keep_masks, partition
from placewright.execution.pytorch.recorded import check_recordable, the_driver
from placewright.execution.pytorch.rematerialized import rewritten_program
from placewright.execution.pytorch.residents import what_stays
from placewright.execution.pytorch.step import TorchStep, check_readable
from placewright.execution.workers import Workers
from placewright.graph import Graph
from placewright.importers.torch.kernels import kernels_kept
from placewright.importers.torch.ops import only_acts, sentence_on_effects
from placewright.machine import Machine
from placewright.plans.record import Plan as PlanRecord
from placewright.rematerialization.reruns import rewritten
from placewright.support.errors import InputError
from placewright.support.files import write_atomically
from placewright.support.quantities import counted, format_bytes, format_time_ns

_LOGGER = logging.getLogger("placewright.api.dynamo")
#: How often it is planned anew for a GPU whose allocator takes more than the plan, and the most that this may be as a
#: share of the limit.
_MOST_ATTEMPTS, _MOST_UNPLANNED = 3, 0.1
#: Plans for so many sets of open sizes are kept, the latest used.
MAX_PLANS = 8


@dataclass(kw_only=True, eq=False)
class PlannedGraph:
    """One captured graph.

    plan: of forward and backward, or of an inference. alone: of the first device, while the others are idle. program:
    of both parts together, with what PyTorch itself runs again, and without what the plan does. graph: with measured
    workspaces. profiled: op times by kind of device, where they were measured now. parts: what runs. likes: name and traced tensor of each placeholder of the program. is_whole: whether
    all of the call was captured as this graph. saved_bytes: what forward leaves for backward, beside its arguments.
    rounds: of the calibration, if there was one.
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
    rounds: tuple[CalibrationRound, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """How graphs are planned and run.

    options: as `placewright.plan` takes them. given: a plan that is taken instead of one that is made. measured: a file
    of op times. inductor: whether Inductor computes ops that one device runs without waiting in between.
    measure_placements: whether a solver learns from placements that run.
    """

    options: Mapping[str, Any]
    given: PlanRecord | None = None
    measured: Path | None = None
    inductor: bool = False
    measure_placements: bool = False


class PreparedError(BaseException):
    """Ends a call before its first graph runs. values: of the placeholders of the graph's program."""

    def __init__(self, graph: PlannedGraph, values: list[Any]) -> None:
        super().__init__("the call was to be prepared only")
        self.graph = graph
        self.values = values


class Devices:
    """Devices of this host with their threads: all graphs for them take turns there."""

    def __init__(self, machine: Machine, profile: Profile) -> None:
        self.machine = machine
        self.profile = profile
        self.places: list[Place] = places_of([device.name for device in machine.devices])
        self.workers = Workers(cores_by_device(machine))

    @property
    def on_host(self) -> bool:
        """Whether all of them are CPU devices."""
        return all(place.driver is None for place in self.places)

    @property
    def is_recorded(self) -> bool:
        """Whether steps are replays of a CUDA graph."""
        return self.machine.launch == "graphs"


class GraphPlanner:
    """The backend of one call of `torch.compile`: plans the graphs that PyTorch captures.

    names: what tensors of the module and its arguments are called, by identity, when a graph is captured. held: tensors
    of the module. training: whether its calls are training steps.

    Attributes
    ----------
    graphs
        What was planned, in the order of capture.
    beside
        Bytes that are in use beside those of the graphs: by the optimizer's states, and by gradients that are there
        before a step.
    """

    def __init__(
        self,
        devices: Devices,
        wishes: Wishes,
        *,
        name: str = "compiled",
        names: Callable[[], Mapping[int, str]] = dict,
        held: Sequence[Any] = (),
        training: bool = False,
    ) -> None:
        if wishes.given is not None:
            check_device_count(wishes.given, devices.machine)
        host_and_limits(wishes.options.get("memory_limit"), devices.machine)
        self.devices = devices
        self.name = name
        self.names = names
        self.wishes = wishes
        stays = what_stays(held, devices.places, recorded=devices.is_recorded)
        options = {**wishes.options}
        options["keep"] = [*globs("keep", options.get("keep", ())), *stays]
        self.options = options
        self.graphs: list[PlannedGraph] = []
        self.training = training
        self.beside = 0
        self._now = threading.local()

    @property
    def limit(self) -> int | None:
        """The memory limit of plans of one device that are made here, in bytes; None where there is none."""
        asked = self.options.get("memory_limit")
        if asked is None or self.wishes.given is not None or self.devices.machine.num_devices > 1:
            return None
        return next(iter((host_and_limits(asked, self.devices.machine)[1] or {}).values()), None)

    def backend(self, module: Any, example_inputs: Sequence[Any]) -> Any:
        """Compiles one graph. Raises InputError for one that cannot be planned, or does not fit."""
        _check_graph(module)
        captured = _Captured(self, example_inputs)
        with kernels_kept():
            return aot_autograd(
                fw_compiler=captured.forward,
                bw_compiler=captured.backward,
                inference_compiler=captured.inference,
                partition_fn=captured.partition,
            )(module, example_inputs)

    def options_beside(self) -> dict[str, Any]:
        """The options of a plan, less what is in use beside its graph: by the optimizer, gradients that are there, and
        what the graphs before it leave for their backward.
        """
        beside = self.beside + sum(graph.saved_bytes for graph in self.graphs)
        if not beside or self.limit is None:
            return self.options
        host, limited = host_and_limits(self.options["memory_limit"], self.devices.machine)
        on_host = {} if host is None or host.memory_bytes is None else {"host": host.memory_bytes}
        return {**self.options, "memory_limit": {name: max(0, self.limit - beside) for name in limited or {}} | on_host}

    def planned(
        self, program: TorchProgram, graph: Graph, values: Sequence[Any], *, joint: bool
    ) -> PlannedGraph:  # fmt: skip
        """A plan with times that are measured now, unless they are known.

        program: what is timed. graph: what is planned, with what PyTorch itself runs again as ops. values: of all
        placeholders. joint: whether tensors cannot be moved, as between forward and backward.
        Raises InputError where the plan that was given is for another graph, a tensor lies where no device can read it,
        or no plan is found that keeps the memory limit.
        """
        devices = self.devices
        parameters, tensors = program.split(values)
        check_readable(dict(zip(program.parameters.values(), parameters, strict=True)), devices.places)
        check_readable({f"argument {number}": tensor for number, tensor in enumerate(tensors)}, devices.places)
        if devices.is_recorded:
            self._check_recordable(program, parameters)
        options = self.options_beside()
        if joint:
            options = {**options, "keep": [*options["keep"], "move:*", "weight:*"]}
        if self.wishes.measure_placements and self.wishes.given is None:
            options = Runner(
                program=program, parameters=parameters, tensors=tensors, workers=devices.workers
            ).options(options)  # fmt: skip
        with self.kept_times() as folder:
            times, profiled = self._times(program, parameters, tensors, folder)
            # The plan of one device knows no other kind than the first.
            of_first = of_first_device(times.alone, devices.machine, folder)
            alone = make_plan(program.graph, first_device(devices.machine), measured=of_first, solver="input-order")
            found = self.wishes.given or plan_beside_one_device(graph, devices.machine, times, options)
            if self.wishes.given is None and found.status == "infeasible" and options.get("memory_limit") is not None:
                raise InputError(f"{shortage_words(found)}{self._beside_words()}")
            plan = Plan.of(found)
            if self.wishes.given is None and self.limit is not None:
                step = partial(TorchStep, program, workers=devices.workers, places=devices.places)
                plan = self._within(graph, plan, times.shared, options, lambda of: step(of).peak_bytes(parameters, tensors))
            measured_graph = with_workspaces(program.graph, times.shared)
        _LOGGER.info("%s", _planned_words(plan))
        return PlannedGraph(
            plan=plan, alone=alone, program=program, graph=measured_graph, profiled=profiled, parts=[]
        )  # fmt: skip

    def _beside_words(self) -> str:
        """What counts beside the graph, for a sentence that says what is missing."""
        saved = sum(graph.saved_bytes for graph in self.graphs)
        found = []
        if self.beside:
            found.append(f"{format_bytes(self.beside)} of the optimizer's states and of gradients that are there")
        if saved:
            found.append(f"{format_bytes(saved)} that earlier graphs of the module leave for their backward")
        return f"; {' and '.join(found)} count, too" if found else ""

    def _check_recordable(self, program: TorchProgram, parameters: Sequence[Any]) -> None:
        if self.wishes.given is not None and self.wishes.given.moves:
            raise InputError(
                "the plan moves tensors to the host's memory, and a CUDA graph records the GPU's own; leave out "
                "cuda_graph, or plan with keep=['move:*']"
            )
        check_recordable(program, parameters, the_driver(self.devices.places))

    def _within(
        self,
        graph: Graph,
        plan: Plan,
        times: Path,
        options: Mapping[str, Any],
        peak_bytes: Callable[[Plan], int],
    ) -> Plan:
        """A plan that keeps the limit when it runs, or the one at hand where none is found, or it takes far more. A
        GPU's allocator leaves ends of blocks unused.
        """
        if self.devices.is_recorded or self.devices.places[0].driver is None or plan.reruns or plan.moves:
            return plan
        _, limited = host_and_limits(options["memory_limit"], self.devices.machine)
        limit = next(iter((limited or {}).values()))
        unplanned = 0
        for _ in range(_MOST_ATTEMPTS):
            with unchanged((), self.devices.places):
                over = peak_bytes(plan) - limit
            if not 0 < over <= _MOST_UNPLANNED * limit:
                break
            unplanned += over
            again = make_plan(
                graph, self.devices.machine, measured=times, **{**options, "memory_limit": limit - unplanned}
            )  # fmt: skip
            if again.status == "infeasible":
                break
            plan = again
        return plan

    @contextmanager
    def kept_times(self) -> Iterator[Path]:
        """Where files of op times go: to the profile, where plans find them later, or to a folder for now."""
        if self.devices.profile.folder is not None:
            yield self.devices.profile.folder
            return
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)

    def _times(
        self, program: TorchProgram, parameters: Sequence[Any], tensors: Sequence[Any], folder: Path
    ) -> tuple[OpTimes, Mapping[str, Profiled]]:
        # The file that was named is for the graph that came first.
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
    def noting(self, ran: list[PlannedGraph], *, prepare: bool) -> Iterator[None]:
        """Notes which graphs run in this thread, or ends the call by PreparedError before the first does."""
        now, breaks = self._now, _num_breaks()
        now.ran, now.prepare, now.breaks = ran, prepare, breaks
        try:
            yield
        finally:
            now.ran, now.prepare = [], False

    @property
    def is_whole(self) -> bool:
        """Whether the graph that is captured now in this thread is all of the call so far."""
        return _num_breaks() == getattr(self._now, "breaks", _num_breaks())

    def begins(self, graph: PlannedGraph, part: Part, given: list[Any]) -> None:
        """Before each run of the first part of a graph."""
        if getattr(self._now, "prepare", False):
            named = dict(zip(part.names, given, strict=True))
            raise PreparedError(graph, [named[name] if name in named else _like(value) for name, value in graph.likes])
        if hasattr(self._now, "ran"):
            self._now.ran.append(graph)


class _Captured:
    """One graph between PyTorch and its parts."""

    def __init__(self, planner: GraphPlanner, example_inputs: Sequence[Any]) -> None:
        self._planner = planner
        self._examples: Sequence[Any] = example_inputs
        self._planned: PlannedGraph | None = None
        self._is_whole = planner.is_whole
        self._labels: dict[str, str] = {}
        self._static: set[str] = set()
        self._resident: set[str] = set()

    def partition(
        self,
        joint: torch.fx.GraphModule,
        inputs: Any,
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None,
        **others: Any,
    ) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
        """Forward and backward as a plan of both parts them; graphs with open sizes as PyTorch does."""
        if self._planner.limit is not None:
            keep_masks(joint)
        parts = partition(
            joint,
            inputs,
            num_fwd_outputs=num_fwd_outputs,
            static_lifetime_input_indices=static_lifetime_input_indices,
            **others,
        )
        if _is_open(joint) or not any(node.op == "call_function" for node in joint.graph.nodes):
            return parts
        static = list(static_lifetime_input_indices or ())
        with _disable_current_modes(), torch.no_grad():
            parts = self._parted(joint, parts, num_fwd_outputs, static)
        self._examples = ()
        return parts

    def _parted(
        self,
        joint: torch.fx.GraphModule,
        parts: tuple[torch.fx.GraphModule, torch.fx.GraphModule],
        num_outputs: int,
        static: Sequence[int],
    ) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
        planner = self._planner
        placeholders = joint.graph.find_nodes(op="placeholder")
        values = [_value_of(node, self._examples) for node in placeholders]
        self._note(placeholders, values, static)
        one = planner.devices.machine.num_devices == 1
        sums = one and not planner.wishes.inductor
        resident = [node.name in self._resident for node in placeholders]
        mode = "training" if planner.training else "inference"
        read = JointGraph(
            joint,
            num_outputs,
            parts[0],
            name=planner.name,
            resident=resident,
            labels=self._labels,
            as_run=True,
            sums_in_place=sums,
        )
        program = program_of_graph(
            read.module,
            planner.name,
            resident,
            [node.name in self._static for node in placeholders],
            labels=self._labels,
            sums_in_place=sums,
        )
        theirs = read.run_again_in(parts[1])
        with _run_once(planner, read.once):
            again = rewritten_program(program, theirs)
            planned = planner.planned(again, rewritten(read.graph, theirs).graph, values, joint=True)
            if planned.plan.reruns and theirs:
                planned = planner.planned(program, read.graph, values, joint=True)
        planned.likes = [(node.name, node.meta["val"]) for node in placeholders]
        planned.is_whole = self._is_whole
        if planner.wishes.given is not None:
            _check_given(planner.wishes.given, read.graph)
        if planned.plan.reruns:
            parts = read.parted(planned.plan.reruns, static, planned.plan.device_of)
        else:
            read.mark(*parts)
        planned.saved_bytes = _saved_bytes(parts[0], num_outputs)
        self._planned = planned
        planner.graphs.append(planned)
        return parts

    def _note(self, placeholders: Sequence[Any], values: Sequence[Any], static: Sequence[int]) -> None:
        """What the placeholders are called, and which of them stay."""
        names, planner = self._planner.names(), self._planner
        own = [node for node in placeholders if not is_tangent(node)]
        self._static = {own[index].name for index in static if index < len(own)}
        driver = planner.devices.places[0].driver
        one = planner.devices.machine.num_devices == 1
        taken: set[str] = set()
        for node, value in zip(placeholders, values, strict=True):
            name = names.get(id(value), node.name)
            while name in taken:
                name += "_"
            taken.add(name)
            self._labels[node.name] = name
            if is_tangent(node):
                continue
            if isinstance(value, torch.nn.Parameter):
                self._static.add(node.name)
            # The caller holds what lies there already; the rest is copied, and freed after its last reader.
            stays = one and (driver is None or driver.holds(value))
            if stays or node.name in self._static:
                self._resident.add(node.name)

    def forward(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """What runs the forward part."""
        return self._part(graph, inputs, first=True)

    def backward(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """What runs the backward part."""
        return self._part(graph, inputs, first=False)

    def inference(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """What runs a graph that has no backward part."""
        return self._alone(graph)

    def _part(self, graph: torch.fx.GraphModule, inputs: Sequence[Any], *, first: bool) -> Any:
        planned, planner = self._planned, self._planner
        if planned is None:
            return self._alone(graph)
        placeholders = graph.graph.find_nodes(op="placeholder")
        program = program_of_graph(
            graph,
            planner.name,
            [node.name in self._resident for node in placeholders],
            [node.name in self._static for node in placeholders],
            labels=self._labels,
            sums_in_place=planner.devices.machine.num_devices == 1 and not planner.wishes.inductor,
        )
        if all(op.kind == "view" for op in program.graph.ops):
            return _unplanned(graph)
        part = Part(graph, program, runs_of(graph))
        planned.parts.append(part)
        part.before = partial(_before_run, planner, planned, part, first)
        with _disable_current_modes(), torch.no_grad():
            planner.run_by(planned, planned.plan)
        return boxed(part)

    def _alone(self, graph: torch.fx.GraphModule) -> Any:
        """What plans a graph by itself when it first runs, for each set of its open sizes."""
        names = self._planner.names()
        examples = {id(value): names[id(value)] for value in self._examples if id(value) in names}
        self._examples = ()
        return boxed(PlannedAlone(self._planner, graph, examples, self._is_whole))


class PlannedAlone:
    """A graph without a backward part, or one of open sizes: planned when it is called with sizes that are new.

    names: of tensors that are known by identity.
    """

    def __init__(
        self, planner: GraphPlanner, graph: torch.fx.GraphModule, names: Mapping[int, str], is_whole: bool
    ) -> None:  # fmt: skip
        self._planner = planner
        self._is_whole = is_whole
        self._graph = graph
        self._is_open = _is_open(graph)
        self._names = names
        self._parts: dict[Any, Callable[[list[Any]], list[Any]]] = {}
        self._lock = threading.Lock()

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Runs the graph."""
        if any(isinstance(given, torch.SymInt) for given in arguments):
            raise InputError("a nested tensor has rows of several sizes, and a plan is for one size of each tensor")
        key = tuple(
            (given.shape, given.stride()) if isinstance(given, torch.Tensor) else given for given in arguments
        )  # fmt: skip
        with self._lock:
            if key not in self._parts:
                self._parts[key] = self._made(arguments)
                while len(self._parts) > MAX_PLANS:
                    del self._parts[next(iter(self._parts))]
            part = self._parts[key]
        return part(arguments)

    def _made(self, arguments: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
        planner = self._planner
        graph = _closed(self._graph, arguments) if self._is_open or not _fits(self._graph, arguments) else self._graph
        placeholders = graph.graph.find_nodes(op="placeholder")
        is_static = [isinstance(given, torch.nn.Parameter) for given in arguments]
        driver = planner.devices.places[0].driver
        one = planner.devices.machine.num_devices == 1
        resident = [
            static or (isinstance(given, torch.Tensor) and one and (driver is None or driver.holds(given)))
            for static, given in zip(is_static, arguments, strict=True)
        ]
        named = planner.names() or self._names
        labels = {
            node.name: named[id(given)]
            for node, given in zip(placeholders, arguments, strict=True)
            if id(given) in named
        }
        program = program_of_graph(
            graph,
            planner.name,
            resident,
            is_static,
            labels=labels,
            sums_in_place=one and not planner.wishes.inductor,
        )
        values = [given for given in arguments if isinstance(given, torch.Tensor)]
        if all(op.kind == "view" for op in program.graph.ops):
            return _unplanned(graph)
        planned = planner.planned(program, program.graph, values, joint=False)
        planned.is_whole = self._is_whole
        part = Part(graph, program)
        planned.likes = [(name, None) for name in part.names]
        planned.parts.append(part)
        planner.run_by(planned, planned.plan)
        part.before = partial(_before_run, planner, planned, part, True)
        planner.graphs.append(planned)
        return part


def _unplanned(graph: torch.fx.GraphModule) -> Callable[[list[Any]], list[Any]]:
    """What runs a graph in which there is nothing to plan, but views at most."""

    def run(arguments: list[Any]) -> list[Any]:
        with torch.no_grad():
            return list(graph(*arguments))

    return boxed(run)


def _before_run(planner: GraphPlanner, graph: PlannedGraph, part: Part, first: bool, given: list[Any]) -> None:
    """Before the first run of a part: Inductor compiles what it may, or the step is recorded. Before each run of the
    first part of a graph its planner is told.
    """
    if first:
        planner.begins(graph, part, given)
    if part.is_new:
        part.is_new = False
        if not part.fits(given):
            # An op of the user's own returned in forward what its author told PyTorch otherwise.
            part.instead = PlannedAlone(planner, part.module, {}, graph.is_whole)
            return
        assert part.step is not None
        parameters, tensors = part.program.split(given)
        with unchanged(part.step.overwritten(parameters, tensors), places=part.step.places):
            if planner.wishes.inductor:
                part.step.compile_regions(parameters, tensors)
            if planner.devices.is_recorded:
                part.step.record(parameters, tensors)


def _num_breaks() -> int:
    return sum(counters["graph_break"].values())


def _like(value: Any) -> Any:
    """A gradient of ones that lies as one that was traced."""
    return torch.empty_strided(tuple(value.shape), tuple(value.stride()), dtype=value.dtype, device=value.device).fill_(1)


@contextmanager
def _run_once(planner: GraphPlanner, once: Sequence[str]) -> Iterator[None]:
    """Within it, plans run these ops once."""
    before = planner.options
    planner.options = {**before, "keep": [*before["keep"], *once]}
    try:
        yield
    finally:
        planner.options = before


def _check_graph(module: Any) -> None:
    """Raises InputError for what a captured graph does beside its results."""
    graphs = [each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    if any(_moves_an_input(node) for node in module.graph.nodes):
        raise InputError(
            "'.data =' gives a tensor that outlives the call other memory, which a plan cannot do; write to it by "
            "copy_ under torch.no_grad()"
        )
    called = [node.target for graph in graphs for node in graph.nodes if node.op == "call_function"]
    if (acting := next(filter(only_acts, called), None)) is not None:
        raise InputError(sentence_on_effects(acting))


def _moves_an_input(node: Any) -> bool:
    """Whether a call is what PyTorch makes of `.data =`, on something that was there before."""
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    return name == "set_" and isinstance(node.args[0], torch.fx.Node) and node.args[0].op == "placeholder"


def _value_of(node: Any, examples: Sequence[Any]) -> Any:
    """What a placeholder of a joint graph is called with, or something that lies as it would."""
    meaning, like = node.meta.get("desc"), node.meta["val"]
    if isinstance(meaning, descriptors.PlainAOTInput) and meaning.idx < len(examples):
        value = examples[meaning.idx]
        if isinstance(value, torch.Tensor) and (value.shape, value.dtype) == (like.shape, like.dtype):
            return value
    blank = torch.empty_strided(tuple(like.shape), tuple(like.stride()), dtype=like.dtype, device=like.device)
    return blank.fill_(1) if is_tangent(node) else blank.zero_()


def _check_given(plan: PlanRecord, graph: Graph) -> None:
    """Raises InputError where a plan lacks an op of the graph that is to run."""
    named = {op.name for op in plan.ops}
    missing = [op.name for op in graph.ops if op.kind not in ("view", "input") and op.name not in named]
    if missing:
        raise InputError(
            f"the plan of '{plan.graph_name}' is for another module or other arguments: it has no op '{missing[0]}'"
        )


def _saved_bytes(forward: torch.fx.GraphModule, num_outputs: int) -> int:
    """What forward returns behind its results, other than its arguments."""
    saved = [node for node in forward.graph.output_node().args[0][num_outputs:] if isinstance(node, torch.fx.Node)]
    held = {node for node in saved if node.op != "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)}
    return sum(int(node.meta["val"].untyped_storage().nbytes()) for node in held)


def _is_open(graph: Any) -> bool:
    return any(not isinstance(node.meta["val"], torch.Tensor) for node in graph.graph.find_nodes(op="placeholder"))


def _fits(graph: Any, arguments: Sequence[Any]) -> bool:
    """Whether a graph was traced for arguments of these shapes: an op of the user's own may have returned what its
    author told PyTorch otherwise.
    """
    placeholders = graph.graph.find_nodes(op="placeholder")
    return all(
        (node.meta["val"].shape, node.meta["val"].dtype) == (given.shape, given.dtype)
        for node, given in zip(placeholders, arguments, strict=True)
    )


def _closed(graph: Any, inputs: Sequence[Any]) -> Any:
    """The graph as it is for inputs of these sizes."""
    with kernels_kept(), FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        fake = [mode.from_tensor(given) if isinstance(given, torch.Tensor) else given for given in inputs]
        return make_fx(graph, tracing_mode="real")(*fake)


def _planned_words(plan: Plan) -> str:
    """What was planned for one graph, in one line."""
    gain = f", {words}" if (words := gain_words(plan)) else ""
    time, peak = format_time_ns(plan.step_time_ns), format_bytes(plan.metrics.peak_memory_bytes)
    return f"a graph of {counted(len(plan.ops), 'op')} on {plan.machine.name}: planned {time}{gain}; peak memory {peak}"
