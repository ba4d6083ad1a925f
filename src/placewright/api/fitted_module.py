"""A module whose forward and backward Inductor compiles within a memory limit.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import logging
import warnings
import weakref
from collections.abc import Iterable
from functools import wraps
from typing import Any

import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._pytree import tree_leaves

from placewright.api.fitted_graphs import GraphCompiler, Limit
from placewright.api.inductor_memory import FittedGraph
from placewright.api.nested_regions import CompiledBlocks
from placewright.execution.pytorch.data_parallel import bucket_bytes, gradients_in_buckets, local_bytes, wrappers
from placewright.execution.pytorch.open_sizes import take_marks_off
from placewright.execution.pytorch.optimizer_memory import check_step_fits, optimizer_memory, state_bytes
from placewright.execution.pytorch.step_in_backward import gradient_of
from placewright.execution.pytorch.step_watch import StepWatch
from placewright.support.errors import InputError, shown
from placewright.support.quantities import format_bytes

#: How often PyTorch may compile a module anew, for other shapes or for other values that its Python reads.
_MOST_CAPTURES = 64
#: Beginnings of the names of methods that write to a log.
_LOGS = ("debug", "info", "warn", "error", "critical", "fatal", "exception", "log")


class FittedModule(OptimizedModule):
    """The module that `placewright.fit(model, memory_limit, backend="inductor")` returns, wrapped by `torch.compile`.

    Forward and the backward after it keep the limit, and leave out what the module's forward logs. Other memory counts
    once it is found in use: states of the optimizer that has made a step of the module's parameters, and gradients
    that exist when a step begins. Where either appears for the first time and there is no room for it, the next call
    compiles the module anew.

    Attributes
    ----------
    graphs
        The plans of each graph with a backward pass, in the order of compiling.
    peak_bytes
        The most memory that a step holds, with other memory that is or has been in use.
    measured_bytes
        The most memory that the allocator gave out from the start of forward to the end of backward, with what was in
        use before, in the first step that compiled nothing; None before it.
    """

    #: Names that `OptimizedModule` would set on the module that it wraps.
    _limit: Any = None
    _backend: Any = None
    _blocks: Any = None
    _wrappers: Any = None
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
        backend = GraphCompiler(model, limit, sum(found.state_bytes for found in memory.values()), watch)
        blocks = CompiledBlocks(model)
        super().__init__(model, torch._dynamo.optimize(backend, dynamic=blocks.dynamic))
        self._limit, self._backend, self._optimizers, self._watch = limit, backend, known, watch
        self._blocks, self._wrappers = blocks, weakref.WeakSet()
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
            # Beyond that limit PyTorch would run the module in eager, without a memory limit.
            "fail_on_recompile_limit_hit": True,
            "recompile_limit": _MOST_CAPTURES,
            # Otherwise PyTorch draws from its own generator where NumPy is asked for random numbers.
            "use_numpy_random_stream": True,
            # DistributedDataParallel would have a graph for each of its buckets.
            "optimize_ddp": False,
            # Each would break the graph in two, which are planned one after the other.
            "ignore_logging_functions": _logging_functions(),
        }
        calling = self._backend.calling((args, kwargs))
        if self._blocks.dynamic is False:
            take_marks_off((args, kwargs))
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
        """The plan and the memory of each compiled graph with a backward pass."""
        return tuple(each for graph in self._backend.graphs for each in graph.fitted)

    @property
    def peak_bytes(self) -> int:
        """The most memory that a step holds, in bytes."""
        beside: int = max(self._beside(), self._backend.room)
        return beside + max((graph.peak_bytes for graph in self._backend.graphs), default=0)

    @property
    def measured_bytes(self) -> int | None:
        """The most memory that the first step without compiling took, in bytes."""
        found: int | None = self._watch.measured_bytes
        return found

    def _beside(self) -> int:
        """Bytes of gradients, buckets for them, optimizer states, and what earlier calls keep for backward.

        Where there are earlier calls, backward of the latest comes first, and its gradients exist during the others'
        backward.
        """
        self._wrappers |= wrappers(self._orig_mod)
        counted = gradients_in_buckets(self._wrappers)
        pending: int = self._watch.pending_bytes()
        parameters = [each for each in self._orig_mod.parameters() if id(each) not in counted and each.requires_grad]
        found = ((each, gradient_of(each)) for each in parameters)
        there = [each if gradient is None else gradient for each, gradient in found if pending or gradient is not None]
        gradients: int = sum(map(local_bytes, there))
        return gradients + bucket_bytes(self._wrappers) + sum(map(state_bytes, self._optimizers)) + pending

    def _make_room(self) -> None:
        """Compiles anew where the plans have no room for the other memory in use."""
        if self._backend.has_steps and self._watch.pending_bytes():
            raise InputError(
                f"{type(self._orig_mod).__name__} is called again before the backward of an earlier call, which steps "
                "its parameters; have both in one forward, or leave step_in_backward out"
            )
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
        self._backend = GraphCompiler(self._orig_mod, self._limit, room, self._watch, self._backend.largest)
        self.dynamo_ctx = torch._dynamo.optimize(self._backend, dynamic=self._blocks.dynamic)
        forward = self.forward
        self._initialize()
        self.forward = forward

    def _note(self, optimizer: Optimizer) -> None:
        """Updates the records after a step of any optimizer."""
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


def _logging_functions() -> set[Any]:
    """The functions that write to a log, including those that libraries add to `logging.Logger`."""
    own = vars(logging.Logger).items()
    return {function for name, function in own if name.startswith(_LOGS) and callable(function)}
