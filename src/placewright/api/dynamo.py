"""The backend "placewright" of torch.compile: every graph that PyTorch captures, forward and backward, runs as planned.

Imported by PyTorch through the entry point `torch_dynamo_backends`.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import ShortenTraceback
from torch._functorch.aot_autograd import make_boxed_func
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from placewright.analysis.advice import shortage_words
from placewright.analysis.outcome import gain_words
from placewright.api.arguments import globs
from placewright.api.beside_one_device import plan_beside_one_device
from placewright.api.compiled import MAX_PLANS
from placewright.api.profiles import Profile, write_times
from placewright.execution.pytorch.cuda import places_of
from placewright.execution.pytorch.machine import cores_by_device
from placewright.execution.pytorch.places import Place
from placewright.execution.pytorch.profile import unchanged
from placewright.execution.pytorch.program import program_of_graph, signature
from placewright.execution.pytorch.recomputation import partition
from placewright.execution.pytorch.step import TorchStep
from placewright.execution.workers import Workers
from placewright.importers.torch.kernels import kernels_kept
from placewright.importers.torch.ops import only_acts, sentence_on_effects
from placewright.machine import Machine
from placewright.plans.record import Plan
from placewright.support.errors import InputError
from placewright.support.quantities import counted, format_bytes, format_time_ns

_LOGGER = logging.getLogger(__name__)


class RefusedError(InputError, ShortenTraceback):
    """An InputError that leaves `torch.compile` as it is: PyTorch makes others of whatever else a backend raises.

    Parameters
    ----------
    error
        The InputError.
    """

    def __init__(self, error: InputError) -> None:
        ShortenTraceback.__init__(self, str(error), first_useful_frame=None)


def backend(module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """Compile one graph of `torch.compile(model, backend="placewright", options={"devices": "cpu:0,cpu:1"})`.

    Forward and backward are planned one by one, each when it first runs, since only then are there tensors to time its
    ops with; `placewright.compile` plans both together.

    Parameters
    ----------
    module, example_inputs
        What PyTorch captured.
    options
        `devices`, `inductor`, and whatever else `placewright.compile` takes as options of the plan.

    The logger `placewright.api.dynamo` says at level INFO what is planned for each graph: its time, beside the best
    single device's, and its peak memory.

    Open sizes, of `dynamic=True` or of a second shape, are planned for each set of sizes that comes, and the latest
    plans kept.

    Raises
    ------
    InputError
        Without devices, where one does not exist here, with the option `measured` or `cuda_graph`, for an op that a
        plan cannot run, or where no plan is found that keeps a memory limit.
    """
    try:
        with kernels_kept():
            return _compiled(module, example_inputs, options or {})
    except InputError as error:
        raise RefusedError(error) from error


def _compiled(module: Any, example_inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    given = dict(options)
    devices, inductor = given.pop("devices", None), bool(given.pop("inductor", False))
    if devices is None:
        raise InputError(
            'the backend needs devices: torch.compile(model, backend="placewright", options={"devices": "cpu:0,cpu:1"})'
        )
    if "cuda_graph" in given:
        raise InputError("the backend launches ops one by one; placewright.compile records steps with cuda_graph=True")
    if "measured" in given:
        raise InputError("the backend measures every graph that PyTorch captures; leave the option 'measured' out")
    if any(_moves_an_input(node) for node in module.graph.nodes):
        raise InputError(
            "'.data =' gives a tensor that outlives the call other memory, which a plan cannot do; write to it by "
            "copy_ under torch.no_grad()"
        )
    called = [node.target for graph in _graphs_of(module) for node in graph.nodes if node.op == "call_function"]
    if (acting := next(filter(only_acts, called), None)) is not None:
        raise InputError(sentence_on_effects(acting))
    profile = Profile(None)
    machine, _ = profile.machine(devices)
    workers, places = _shared(machine)

    def compiler(graph: Any, inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
        stays = [_stays(tensor) for tensor in inputs]

        def planned(concrete: Any) -> _PlannedGraph:
            return _PlannedGraph(concrete, stays, machine, workers, places, profile, inductor, given)

        return make_boxed_func(_PerShape(graph, planned) if _is_open(graph) else planned(graph))  # type: ignore[no-any-return]

    return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, partition_fn=partition)(module, example_inputs)


def _graphs_of(module: torch.nn.Module) -> Iterator[Any]:
    """The graph of what PyTorch captured, and those of the code that its calls hold."""
    return (each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule))


def _moves_an_input(node: Any) -> bool:
    """Whether a call is what PyTorch makes of `.data =`, on something that was there before."""
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    return name == "set_" and isinstance(node.args[0], torch.fx.Node) and node.args[0].op == "placeholder"


_LOCK = threading.Lock()
_SHARED: dict[tuple[str, ...], tuple[Workers, list[Place]]] = {}


def _shared(machine: Machine) -> tuple[Workers, list[Place]]:
    """All graphs for the same devices take turns on the same threads, and streams where they have some."""
    names = tuple(device.name for device in machine.devices)
    with _LOCK:
        if names not in _SHARED:
            _SHARED[names] = Workers(cores_by_device(machine)), places_of(names)
        return _SHARED[names]


class _PerShape:
    """A graph with open sizes, planned anew for each set of sizes that it is called with."""

    def __init__(self, graph: Any, planned: Callable[[Any], _PlannedGraph]) -> None:
        self._graph = graph
        self._planned = planned
        self._made: OrderedDict[Any, _PlannedGraph] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, *inputs: Any) -> list[Any]:
        if any(isinstance(given, torch.SymInt) for given in inputs):
            raise InputError("a nested tensor has rows of several sizes, and a plan is for one size of each tensor")
        key = tuple(
            (given.shape, given.stride()) if isinstance(given, torch.Tensor) else given for given in inputs
        )  # fmt: skip
        with self._lock:
            if key not in self._made:
                self._made[key] = self._planned(_closed(self._graph, inputs))
                while len(self._made) > MAX_PLANS:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            made = self._made[key]
        return made(*inputs)


def _is_open(graph: Any) -> bool:
    return any(
        not isinstance(node.meta["val"], torch.Tensor) for node in graph.graph.nodes if node.op == "placeholder"
    )  # fmt: skip


def _closed(graph: Any, inputs: Sequence[Any]) -> Any:
    """The graph as it is for inputs of these sizes."""
    with kernels_kept(), FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        fake = [mode.from_tensor(given) if isinstance(given, torch.Tensor) else given for given in inputs]
        return make_fx(graph, tracing_mode="real")(*fake)


class _PlannedGraph:
    """A functional graph, planned when it is first called."""

    def __init__(
        self,
        graph: Any,
        stays: Sequence[bool],
        machine: Machine,
        workers: Workers,
        places: Sequence[Place],
        profile: Profile,
        inductor: bool,
        options: Mapping[str, Any],
    ) -> None:
        self._stays = stays
        self._machine = machine
        self._workers = workers
        self._places = places
        self._profile = profile
        self._inductor = inductor
        # Weights are inputs of the graph, which are the caller's.
        self._options = {**options, "keep": [*globs("keep", options.get("keep", ())), "weight:*"]}
        self._step: TorchStep | None = None
        self._lock = threading.Lock()
        self._read(graph)

    def _read(self, graph: Any) -> None:
        self._graph = graph
        in_place = self._machine.num_devices == 1 and not self._inductor
        self._program = program_of_graph(graph, "compiled", self._stays, sums_in_place=in_place)
        #: What the graph returns beside tensors: None, and sizes.
        self._end = graph.graph.output_node().args[0]

    def __call__(self, *given: Any) -> list[Any]:
        inputs = tuple(tensor for tensor in given if isinstance(tensor, torch.Tensor))
        with self._lock:
            if self._step is None:
                if signature(inputs) != self._program.input_signature:
                    # An op of the forward graph returned what its author told PyTorch otherwise.
                    self._read(_closed(self._graph, given))
                with tempfile.TemporaryDirectory() as folder:
                    found = self._profile.measure(self._program, self._machine, (), inputs, places=self._places)
                    times = write_times(found, self._machine, Path(folder), "op-times")
                    plan = plan_beside_one_device(self._program.graph, self._machine, times, self._options)
                if self._options.get("memory_limit") is not None and plan.status == "infeasible":
                    raise InputError(shortage_words(plan))
                _LOGGER.info("%s", _planned_words(plan))
                self._step = TorchStep(self._program, plan, self._workers, self._places)
                if self._inductor:
                    with unchanged(self._step.overwritten((), inputs)):
                        self._step.compile_regions((), inputs)
            out = self._step.run((), inputs)
        results = iter([out[tensor] for tensor in self._program.results])
        return [next(results) if isinstance(end, torch.fx.Node) else end for end in self._end]


def _planned_words(plan: Plan) -> str:
    """What was planned for one graph, in one line."""
    gain = f", {words}" if (words := gain_words(plan)) else ""
    time, peak = format_time_ns(plan.step_time_ns), format_bytes(plan.metrics.peak_memory_bytes)
    return f"a graph of {counted(len(plan.ops), 'op')} on {plan.machine.name}: planned {time}{gain}; peak memory {peak}"


def _stays(tensor: Any) -> bool:
    """Whether an input is the same in every step."""
    return isinstance(tensor, torch.nn.Parameter) or bool(getattr(tensor, "_is_param", False))
