"""A module whose forward and backward Inductor compiles within a memory limit.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import logging
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch._dynamo.eval_frame import OptimizedModule
from torch._functorch import config as functorch_config
from torch._inductor.compile_fx import compile_fx
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._pytree import tree_leaves

from placewright.api.dynamo import RefusedError, passed_through
from placewright.api.inductor_memory import FittedGraph, MemoryPartitioner
from placewright.execution.pytorch.miscaptured import OpenSizesError
from placewright.execution.pytorch.open_sizes import Sizes, is_open
from placewright.execution.pytorch.optimizer_memory import check_step_fits, optimizer_memory, state_bytes
from placewright.execution.pytorch.step_watch import StepWatch
from placewright.machine import Machine
from placewright.support.errors import InputError, shown
from placewright.support.quantities import format_bytes

#: How often PyTorch may compile a module anew, for other shapes or for other values that its Python reads.
_MOST_CAPTURES = 64
#: How names of methods begin that write to a log.
_LOGS = ("debug", "info", "warn", "error", "critical", "fatal", "exception", "log")


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What `placewright.fit` is asked for.

    memory_limit: bytes. fused_share: what share of the time for their bytes ops take that Inductor computes inside of
    the kernels that read them. keep: globs over names of nodes and modules that run once. options: of `plan`.
    """

    memory_limit: int
    machine: Machine
    fused_share: float
    keep: Sequence[str]
    options: Mapping[str, Any]


@dataclass(kw_only=True, eq=False)
class _Graph:
    """One graph that Inductor compiled.

    read: identities of tensors of the module among its arguments. fitted: empty for a graph without a backward pass.
    peak_bytes: the most of its runs, with what is in use beside it but for states of the optimizer and gradients that
    are there before a step. call: runs it. inputs: its numbers, of which some are open. sizes: of the first call.
    known: for which open sizes a run keeps the limit.
    """

    read: frozenset[int]
    fitted: list[FittedGraph]
    peak_bytes: int
    call: Callable[..., Any]
    inputs: Sequence[Any]
    sizes: Sizes
    known: dict[tuple[int, ...], bool] = field(default_factory=dict)


class _Run(NamedTuple):
    """A run of a graph. saved_bytes: what it keeps for its backward."""

    graph: _Graph
    saved_bytes: int


class _Backend:
    """What PyTorch calls with the graphs of one module.

    room: bytes that are left for the optimizer's states and gradients that are there before a step.
    """

    def __init__(
        self, model: nn.Module, limit: Limit, room: int, watch: StepWatch, largest: Mapping[str, int] | None = None
    ) -> None:
        self._model = weakref.ref(model)
        self._watch = watch
        #: The largest open sizes that were seen, by where they are found.
        self.largest = dict(largest or {})
        #: Whether a graph was compiled for one size, since it would have passed the limit with that.
        self.has_outgrown = False
        self._limit = limit
        self.room = room
        self.graphs: list[_Graph] = []
        self._now = threading.local()

    @contextmanager
    def calling(self, given: Any) -> Iterator[list[_Run]]:
        """Around each call of the module with such arguments. Gives what runs in it."""
        ran: list[_Run] = []
        self._now.ran = ran
        self._now.given = [leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
        try:
            yield ran
        finally:
            self._now.ran, self._now.given = [], []

    def has_room(self, size: int) -> bool:
        """Whether all graphs keep the limit beside so many bytes."""
        most = max((graph.peak_bytes for graph in self.graphs if graph.fitted), default=0)
        return most + size <= self._limit.memory_limit or size <= self.room

    def __call__(self, module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles one graph. Raises InputError where no plan keeps the limit."""
        # PyTorch changes the module while it compiles it.
        original = _copied(module) if any(map(is_open, example_inputs)) else None
        try:
            graph = self._compiled(module, example_inputs)
        except RefusedError as error:
            if not isinstance(error.error, OpenSizesError) or original is None:
                raise
            return partial(self._run_apart, original, {})
        if original is None or not graph.fitted:
            return partial(self._run, graph, graph.sizes)
        apart: dict[tuple[int, ...], _Graph] = {}

        def run(*arguments: Any) -> Any:
            """With sizes with which it would pass the limit it is compiled for those."""
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

    def _run_apart(self, original: Any, known: dict[tuple[int, ...], _Graph], *arguments: Any) -> Any:
        """Runs what is compiled for these sizes alone."""
        key = _numbers(arguments)
        if key not in known:
            known[key] = self._compiled(_copied(original), arguments)
        return self._run(known[key], known[key].sizes, *arguments)

    def _compiled(self, module: Any, inputs: Sequence[Any]) -> _Graph:
        self._watch.finish()
        beside, read = self._beside(inputs)
        limit = self._limit
        partitioner = MemoryPartitioner(
            limit.machine,
            max(0, limit.memory_limit - self.room - beside),
            limit.fused_share,
            limit.keep,
            limit.options,
            f"; {format_bytes(self.room + beside)} are in use beside it" if self.room + beside else "",
            self.largest,
        )
        # A graph from that cache has no plan. Its kernels come from Inductor's.
        with passed_through(), functorch_config.patch(enable_autograd_cache=False):
            call = compile_fx(
                module,
                inputs,
                partitioner.inner_compile,
                config_patches={"custom_partitioner_fn": partitioner},
            )
        peak = beside + max((each.peak_bytes for each in partitioner.graphs), default=0)
        sizes = [each for each in inputs if isinstance(each, torch.SymInt | int)]
        graph = _Graph(
            read=read, fitted=partitioner.graphs, peak_bytes=peak, call=call, inputs=sizes, sizes=Sizes.seen(sizes)
        )
        self.graphs.append(graph)
        return graph

    def _run(self, graph: _Graph, sizes: Sizes, *arguments: Any) -> Any:
        if (ran := getattr(self._now, "ran", None)) is not None:
            ran.append(_Run(graph, sum(each.saved_with(sizes) for each in graph.fitted)))
        results = graph.call(*arguments)
        self._watch.note(results, arguments)
        return results

    def _keeps_limit(self, graph: _Graph, key: tuple[int, ...], sizes: Sizes, arguments: Sequence[Any]) -> bool:
        """Whether a graph does so with such sizes, which are found once."""
        if key not in graph.known:
            peak = self._beside(arguments)[0] + max(each.lowered.peak_bytes(sizes) for each in graph.fitted)
            graph.known[key] = peak + self.room <= self._limit.memory_limit
            if graph.known[key]:
                graph.peak_bytes = max(graph.peak_bytes, peak)
        return graph.known[key]

    def _beside(self, inputs: Sequence[Any]) -> tuple[int, frozenset[int]]:
        """Bytes in use beside a graph of a call that has come so far, and which tensors of the module it reads.

        These are tensors of the module and arguments that it does not read, what earlier graphs keep for their
        backward, and gradients of later graphs, whose backward comes before.
        """
        ran: list[_Run] = getattr(self._now, "ran", None) or []
        model = self._model()
        assert model is not None
        held = [*model.parameters(), *model.buffers()]
        given = {id(value) for value in inputs}
        read = frozenset(id(value) for value in held) & given
        before = read.union(*(each.graph.read for each in ran))
        unread = sum(each.nbytes for each in (*held, *getattr(self._now, "given", ())) if id(each) not in given)
        later = sum(each.nbytes for each in held if each.requires_grad and id(each) not in before)
        saved = sum(each.saved_bytes for each in ran)
        return unread + (later if torch.is_grad_enabled() else 0) + saved, read


class FittedModule(OptimizedModule):
    """What `placewright.fit(model, memory_limit, backend="inductor")` returns: the module, as `torch.compile` wraps it.

    Forward and the backward after it keep the limit, and leave out what the module's forward logs. What is in use
    beside them counts as it is found: states of the optimizer that has made a step of the module's parameters, and
    gradients that are there when a step begins. Where either comes for the first time and there is no room for it, the
    next call compiles the module anew.

    Attributes
    ----------
    graphs
        What was planned for each graph with a backward pass, in the order of compiling.
    peak_bytes
        What a step holds at the most, with what is or has been in use beside it.
    measured_bytes
        What the allocator gave out at the most from the begin of forward to the end of backward, with what was in use
        before, of the first step that compiled nothing; None before it.
    """

    #: Names that `OptimizedModule` would set on the module that it wraps.
    _limit: Any = None
    _backend: Any = None
    _optimizers: Any = None
    _hook: Any = None
    _compiled: Any = None
    _watch: Any = None
    forward: Any

    def __init__(self, model: nn.Module, limit: Limit, optimizers: Iterable[Optimizer] = ()) -> None:
        for name, module in model.named_modules():
            if isinstance(module, nn.RNNBase):
                raise InputError(
                    f"PyTorch hands no recurrent layers to Inductor, as '{shown(name)}' is, and what they take keeps "
                    "no limit; fit(model, args, memory_limit) plans a step with them"
                )
        known = weakref.WeakSet(optimizers)
        memory = {each: optimizer_memory(each) for each in known}
        for optimizer, found in memory.items():
            check_step_fits(model, optimizer, limit.memory_limit, found)
        watch = StepWatch(limit.memory_limit)
        backend = _Backend(model, limit, sum(found.state_bytes for found in memory.values()), watch)
        super().__init__(model, torch._dynamo.optimize(backend))
        self._limit, self._backend, self._optimizers, self._watch = limit, backend, known, watch
        own = weakref.ref(self)

        def stepped(optimizer: Optimizer, *_: Any) -> None:
            if (module := own()) is not None:
                module._note(optimizer)

        self._hook = register_optimizer_step_post_hook(stepped)
        weakref.finalize(self, self._hook.remove)

    def _initialize(self) -> None:
        super()._initialize()
        self._compiled = self.forward
        own = weakref.ref(self)

        # Trainers wrap this, as in autocast, and choose arguments by their names.
        @wraps(self._orig_mod.forward)
        def forward(*args: Any, **kwargs: Any) -> Any:
            module = own()
            assert module is not None
            return module._compiled(*args, **kwargs)

        self.forward = forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module."""
        if torch.is_grad_enabled():
            self._watch.finish()
            self._make_room()
            # An optimizer's step ends it, before a profiler of the user's may begin.
            if self._backend.graphs and self._optimizers:
                self._watch.begin(self._orig_mod, (args, kwargs), self._beside())
        settings = {
            # Beyond it PyTorch would run the module as it is, without a limit.
            "fail_on_recompile_limit_hit": True,
            "recompile_limit": _MOST_CAPTURES,
            # Otherwise PyTorch draws from its own generator where NumPy is asked for random numbers.
            "use_numpy_random_stream": True,
            # Each would part the graph in two, which are planned one after the other.
            "ignore_logging_functions": _logging_functions(),
        }
        with torch._dynamo.config.patch(settings), self._backend.calling((args, kwargs)) as ran:
            result = super().__call__(*args, **kwargs)
        tensors = (leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
        if not ran and any(tensor.requires_grad for tensor in tensors):
            raise InputError(
                f"PyTorch hands no graph of {type(self._orig_mod).__name__} to Inductor, so that no limit is kept"
            )
        return result

    def __reduce__(self) -> Any:
        """A copy is compiled anew."""
        return FittedModule, (self._orig_mod, self._limit)

    @property
    def graphs(self) -> tuple[FittedGraph, ...]:
        """What was planned."""
        return tuple(each for graph in self._backend.graphs for each in graph.fitted)

    @property
    def peak_bytes(self) -> int:
        """Bytes."""
        beside: int = max(self._beside(), self._backend.room)
        return beside + max((graph.peak_bytes for graph in self._backend.graphs), default=0)

    @property
    def measured_bytes(self) -> int | None:
        """Bytes."""
        found: int | None = self._watch.measured_bytes
        return found

    def _beside(self) -> int:
        """Bytes of gradients that are there, of the optimizers' states, and of what earlier calls keep for backward.

        Where there are such calls, backward of the latest comes first, and its gradients are there in the others'.
        """
        pending: int = self._watch.pending_bytes()
        parameters = [each for each in self._orig_mod.parameters() if pending or each.grad is not None]
        gradients: int = sum(each.nbytes for each in parameters if each.requires_grad)
        return gradients + sum(map(state_bytes, self._optimizers)) + pending

    def _make_room(self) -> None:
        """Compiles anew where the plans have no room for what is in use beside them."""
        beside = self._beside()
        if not self._backend.graphs:
            self._backend.room = max(self._backend.room, beside)
        if self._backend.has_room(beside) and not self._backend.has_outgrown:
            return
        if pending := self._watch.pending_bytes():
            warnings.warn(
                f"{type(self._orig_mod).__name__} is called again before the backward of an earlier call, which keeps "
                f"{format_bytes(pending)} for it; this counts from now on, and the present step may pass the limit",
                stacklevel=3,
            )
        self._watch.forget()
        room = max(beside, self._backend.room)
        self._backend = _Backend(self._orig_mod, self._limit, room, self._watch, self._backend.largest)
        self.dynamo_ctx = torch._dynamo.optimize(self._backend)
        forward = self.forward
        self._initialize()
        self.forward = forward

    def _note(self, optimizer: Optimizer) -> None:
        """After a step of any optimizer."""
        self._watch.finish()
        if optimizer in self._optimizers:
            return
        own = {id(each) for each in self._orig_mod.parameters()}
        if not any(id(each) in own for group in optimizer.param_groups for each in group["params"]):
            return
        self._optimizers.add(optimizer)
        try:
            check_step_fits(self._orig_mod, optimizer, self._limit.memory_limit, optimizer_memory(optimizer))
        except InputError as error:
            warnings.warn(f"{error}, which it has passed", stacklevel=3)


def _numbers(arguments: Sequence[Any]) -> tuple[int, ...]:
    return tuple(argument for argument in arguments if isinstance(argument, int))


def _copied(module: Any) -> fx.GraphModule:
    """Another graph with the same parameters and submodules. It says nothing of the sizes it was captured with."""
    graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in module.graph.nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
        made[node].meta = {key: known for key, known in node.meta.items() if key not in ("example_value", "val")}
    return fx.GraphModule(module, graph)


def _logging_functions() -> set[Any]:
    """What writes to a log, with what libraries add to `logging.Logger`."""
    own = vars(logging.Logger).items()
    return {function for name, function in own if name.startswith(_LOGS) and callable(function)}
