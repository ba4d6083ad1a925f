"""The compiler of a module's graphs: each with Inductor, within what is left of a memory limit.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx, nn
from torch._functorch import config as functorch_config
from torch._inductor.compile_fx import compile_fx
from torch.utils._pytree import tree_leaves

from placewright.api.beside_graphs import Beside, Call, CompiledGraph, beside, check_weights
from placewright.api.dynamo import RefusedError, passed_through
from placewright.api.inductor_memory import MemoryPartitioner
from placewright.api.nested_regions import compiled
from placewright.execution.pytorch.graph_steps import can_be_taken, number_of
from placewright.execution.pytorch.miscaptured import OpenSizesError
from placewright.execution.pytorch.open_sizes import Sizes, is_open
from placewright.execution.pytorch.step_watch import StepWatch
from placewright.machine import Machine
from placewright.support.errors import InputError
from placewright.support.quantities import format_bytes


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The memory limit of `placewright.fit` and the options that go with it.

    memory_limit: bytes. fused_share: ops that Inductor computes inside the kernels that read them take this share of
    the time for their bytes. keep: globs over names of nodes and modules that run once. options: of `plan`. split:
    whether stretches may run in parts.
    """

    memory_limit: int
    machine: Machine
    fused_share: float
    keep: Sequence[str]
    options: Mapping[str, Any]
    split: bool = False


class GraphCompiler:
    """The compiler that PyTorch calls with the graphs of one module.

    room: bytes left for the optimizer's states and for gradients that exist before a step. largest: the largest open
    sizes seen so far, by where they are found.

    Attributes
    ----------
    graphs
        The compiled graphs, in the order of compiling.
    has_outgrown
        Whether a graph was compiled for one set of sizes, with which it would otherwise have exceeded the limit.
    has_steps
        Whether a graph may step parameters within its backward.
    """

    def __init__(
        self, model: nn.Module, limit: Limit, room: int, watch: StepWatch, largest: Mapping[str, int] | None = None
    ) -> None:
        self._model = weakref.ref(model)
        self._name = type(model).__name__
        self._limit = limit
        self._watch = watch
        self.room = room
        self.largest = dict(largest or {})
        self.has_outgrown = self.has_steps = False
        self.graphs: list[CompiledGraph] = []
        self._now = threading.local()

    @contextmanager
    def calling(self, given: Any) -> Iterator[list[CompiledGraph]]:
        """A context for each call of the module with such arguments. Gives the graphs that run in it."""
        around = getattr(self._now, "call", None)
        self._now.call = Call([leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)])
        try:
            yield self._now.call.ran
        finally:
            self._now.call = around

    def has_room(self, size: int) -> bool:
        """True if all graphs keep the limit with so many more bytes in use."""
        most = max((graph.peak_bytes for graph in self.graphs if graph.fitted), default=0)
        return most + size <= self._limit.memory_limit or size <= self.room

    def __call__(self, module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles one graph. Raises InputError where no plan keeps the limit."""
        # PyTorch changes the module while it compiles it.
        original = _copied(module) if any(map(is_open, example_inputs)) else None
        if original is not None and _regions(module):
            raise RefusedError(
                InputError(
                    f"sizes in {self._name} vary, and its nested regions are planned for sizes that are known; set "
                    "torch._dynamo.config.automatic_dynamic_shapes = False, or leave nested_compile_region out"
                )
            )
        try:
            graph = self._compiled(module, example_inputs)
        except RefusedError as error:
            if not isinstance(error.error, OpenSizesError) or original is None:
                raise
            return partial(self._run_apart, original, {})
        if original is None or not graph.fitted:
            return partial(self._run, graph, graph.sizes)
        apart: dict[tuple[int, ...], CompiledGraph] = {}

        def run(*arguments: Any) -> Any:
            """Runs the graph, or one compiled for these sizes where it would exceed the limit with them."""
            key = _numbers(arguments)
            sizes = graph.sizes.of_call(graph.inputs, key)
            if self._keeps_limit(graph, key, sizes, arguments):
                return self._run(graph, sizes, *arguments)
            results = self._run_apart(original, apart, *arguments)
            for place, number in sizes.by_place().items():
                self.largest[place] = max(number, self.largest.get(place, 0))
            self.has_outgrown = True
            return results

        return run

    def _run_apart(self, original: Any, known: dict[tuple[int, ...], CompiledGraph], *arguments: Any) -> Any:
        """Runs the graph that is compiled for these sizes alone."""
        key = _numbers(arguments)
        if key not in known:
            known[key] = self._compiled(_copied(original), arguments)
        return self._run(known[key], known[key].sizes, *arguments)

    def _run(self, graph: CompiledGraph, sizes: Sizes, *arguments: Any) -> Any:
        results = graph.run(self._call(), sizes, self._name, arguments)
        self._watch.note(results, arguments)
        return results

    def _compiled(self, module: Any, inputs: Sequence[Any]) -> CompiledGraph:
        self._watch.finish()
        found, limit = self._beside(inputs), self._limit
        used = self.room + found.size
        partitioner = MemoryPartitioner(
            limit.machine,
            max(0, limit.memory_limit - used),
            limit.fused_share,
            limit.keep,
            limit.options,
            f"; {format_bytes(used)} are in use beside it" if used else "",
            runs=found.runs,
            gradient_bytes=found.gradient_bytes,
            largest=self.largest,
            steps=self._steps(inputs) if found.runs == 1 else {},
            split=limit.split,
        )
        settings = {"custom_partitioner_fn": partitioner}
        # A graph from that cache has no plan. Its kernels come from Inductor's.
        with passed_through(), functorch_config.patch(enable_autograd_cache=False):
            check_weights(self._known_model(), module, inputs)
            call = compiled(
                partitioner.regions,
                lambda: compile_fx(module, inputs, partitioner.inner_compile, config_patches=settings),
            )
        sizes = [each for each in inputs if isinstance(each, torch.SymInt | int)]
        graph = CompiledGraph(
            read=found.read,
            fitted=partitioner.graphs,
            peak_bytes=found.size + max((each.peak_bytes for each in partitioner.graphs), default=0),
            runs=found.runs,
            call=call,
            inputs=sizes,
            sizes=Sizes.seen(sizes),
        )
        self.graphs.append(graph)
        return graph

    def _steps(self, inputs: Sequence[Any]) -> dict[int, int]:
        """Numbers of parameters whose gradients a graph gives away within its backward, by the place of the argument.

        Empty unless it is the first graph and takes all trained parameters, so that no other has gradients for them.
        """
        trained = {id(each) for each in self._known_model().parameters() if each.requires_grad}
        if not trained <= {id(each) for each in inputs} or self._call().ran:
            return {}
        found = {index: number_of(each) for index, each in enumerate(inputs) if can_be_taken(each)}
        self.has_steps = self.has_steps or bool(found)
        return found

    def _keeps_limit(self, graph: CompiledGraph, key: tuple[int, ...], sizes: Sizes, arguments: Sequence[Any]) -> bool:
        """True if a graph keeps the limit with such sizes; found once for each set of sizes."""
        if key not in graph.known:
            peak = self._beside(arguments).size + max(each.peak_with(sizes) for each in graph.fitted)
            graph.known[key] = peak + self.room <= self._limit.memory_limit
            if graph.known[key]:
                graph.peak_bytes = max(graph.peak_bytes, peak)
        return graph.known[key]

    def _beside(self, inputs: Sequence[Any]) -> Beside:
        return beside(self._known_model(), inputs, self._call())

    def _known_model(self) -> nn.Module:
        model = self._model()
        assert model is not None
        return model

    def _call(self) -> Call:
        """The running call of the module; where there is none, an empty one."""
        call: Call | None = getattr(self._now, "call", None)
        return Call() if call is None else call


def _regions(module: Any) -> Sequence[fx.Node]:
    found: Sequence[fx.Node] = module.graph.find_nodes(
        op="call_function", target=torch.ops.higher_order.invoke_subgraph
    )
    return found


def _numbers(arguments: Sequence[Any]) -> tuple[int, ...]:
    return tuple(argument for argument in arguments if isinstance(argument, int))


def _copied(module: Any) -> fx.GraphModule:
    """Another graph with the same parameters and submodules. It says nothing of the sizes it was captured with."""
    graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in module.graph.nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
        made[node].meta = {key: known for key, known in node.meta.items() if key not in ("example_value", "val")}
    return fx.GraphModule(module, graph)
