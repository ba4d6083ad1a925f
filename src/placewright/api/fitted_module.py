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
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from torch._functorch import config as functorch_config
from torch._inductor.compile_fx import compile_fx
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._pytree import tree_leaves

from placewright.api.beside_graphs import Call, CompiledGraph, beside, check_weights
from placewright.api.dynamo import passed_through
from placewright.api.inductor_memory import FittedGraph, MemoryPartitioner
from placewright.api.nested_regions import CompiledBlocks, compiled
from placewright.api.ordering import AS_PLANNED
from placewright.execution.pytorch.data_parallel import bucket_bytes, gradients_in_buckets, local_bytes, wrappers
from placewright.execution.pytorch.optimizer_memory import check_step_fits, optimizer_memory, state_bytes
from placewright.machine import Machine
from placewright.support.errors import InputError, shown
from placewright.support.quantities import format_bytes

#: How often PyTorch may compile a module anew, for other shapes or for other values that its Python reads.
_MOST_CAPTURES = 64
#: How names of methods begin that write to a log.
_LOGS = ("debug", "info", "warn", "error", "critical", "fatal", "exception", "log")


@dataclass(frozen=True, kw_only=True)
class Limit:
    """memory_limit: bytes. The rest as `placewright.inductor_options` takes it."""

    memory_limit: int
    machine: Machine
    fused_share: float
    keep: Sequence[str]
    options: Mapping[str, Any]


class _Backend:
    """What PyTorch calls with the graphs of one module.

    room: bytes that are left for the optimizer's states and gradients that are there before a step.
    """

    def __init__(self, model: nn.Module, limit: Limit, room: int) -> None:
        self._model = weakref.ref(model)
        self._limit = limit
        self.room = room
        self.graphs: list[CompiledGraph] = []
        self._now = threading.local()

    @contextmanager
    def calling(self, given: Any) -> Iterator[list[CompiledGraph]]:
        """Around each call of the module with such arguments. Gives the graphs that run in it."""
        self._now.call = Call([leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)])
        try:
            yield self._now.call.ran
        finally:
            del self._now.call

    def has_room(self, size: int) -> bool:
        """Whether all graphs keep the limit beside so many bytes."""
        most = max((graph.peak_bytes for graph in self.graphs if graph.fitted), default=0)
        return most + size <= self._limit.memory_limit or size <= self.room

    def __call__(self, module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles one graph. Raises InputError where no plan keeps the limit."""
        model = self._model()
        assert model is not None
        name = type(model).__name__
        found, limit = beside(model, example_inputs, getattr(self._now, "call", Call())), self._limit
        used = self.room + found.size
        partitioner = MemoryPartitioner(
            limit.machine,
            max(0, limit.memory_limit - used),
            limit.fused_share,
            limit.keep,
            limit.options,
            f"; {format_bytes(used)} are in use beside it" if used else "",
            found.runs,
            found.gradient_bytes,
        )
        graph = CompiledGraph(read=found.read, fitted=partitioner.graphs, beside=found.size, runs=found.runs)
        # A graph from that cache has no plan. Its kernels come from Inductor's.
        with passed_through(), functorch_config.patch(enable_autograd_cache=False):
            check_weights(model, module, example_inputs)
            settings = {"custom_partitioner_fn": partitioner, **AS_PLANNED}
            run_graph = compiled(
                partitioner.regions, lambda: compile_fx(module, example_inputs, config_patches=settings)
            )
        self.graphs.append(graph)

        def run(*arguments: Any) -> Any:
            if (call := getattr(self._now, "call", None)) is None:
                return run_graph(*arguments)
            call.check(graph, name)
            results = run_graph(*arguments)
            call.note(graph, (*arguments, *results))
            return results

        return run


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
        What a step holds at the most, with what is in use beside it.
    """

    #: Names that `OptimizedModule` would set on the module that it wraps.
    _limit: Any = None
    _backend: Any = None
    _blocks: Any = None
    _wrappers: Any = None
    _optimizers: Any = None
    _hook: Any = None
    _compiled: Any = None
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
        backend = _Backend(model, limit, sum(found.state_bytes for found in memory.values()))
        super().__init__(model, torch._dynamo.optimize(backend, dynamic=False))
        self._limit, self._backend, self._optimizers = limit, backend, known
        self._blocks, self._wrappers = CompiledBlocks(model), weakref.WeakSet()
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
            self._make_room()
        settings = {
            # Beyond it PyTorch would run the module as it is, without a limit.
            "fail_on_recompile_limit_hit": True,
            "recompile_limit": _MOST_CAPTURES,
            # Otherwise PyTorch draws from its own generator where NumPy is asked for random numbers.
            "use_numpy_random_stream": True,
            # DistributedDataParallel would have a graph for each of its buckets.
            "optimize_ddp": False,
            # Each would part the graph in two, which are planned one after the other.
            "ignore_logging_functions": _logging_functions(),
        }
        calling = self._backend.calling((args, kwargs))
        with torch._dynamo.config.patch(settings), self._blocks.as_regions(), calling as ran:
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
        return self._beside() + max((graph.peak_bytes for graph in self._backend.graphs), default=0)

    def _beside(self) -> int:
        """Bytes of gradients that are there, of buckets for gradients and of the optimizers' states."""
        self._wrappers |= wrappers(self._orig_mod)
        counted = gradients_in_buckets(self._wrappers)
        parameters = [each for each in self._orig_mod.parameters() if id(each) not in counted]
        gradients: int = sum(local_bytes(each.grad) for each in parameters if each.grad is not None)
        return gradients + bucket_bytes(self._wrappers) + sum(map(state_bytes, self._optimizers))

    def _make_room(self) -> None:
        """Compiles anew where the plans have no room for what is in use beside them."""
        beside = self._beside()
        if not self._backend.graphs:
            self._backend.room = max(self._backend.room, beside)
        if self._backend.has_room(beside):
            return
        self._backend = _Backend(self._orig_mod, self._limit, beside)
        self.dynamo_ctx = torch._dynamo.optimize(self._backend, dynamic=False)
        forward = self.forward
        self._initialize()
        self.forward = forward

    def _note(self, optimizer: Optimizer) -> None:
        """After a step of any optimizer."""
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


def _logging_functions() -> set[Any]:
    """What writes to a log, with what libraries add to `logging.Logger`."""
    own = vars(logging.Logger).items()
    return {function for name, function in own if name.startswith(_LOGS) and callable(function)}
