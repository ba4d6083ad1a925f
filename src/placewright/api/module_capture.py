"""A module as PyTorch captures it, whose graphs run as planned.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import builtins
import re
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch._dynamo.exc import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    InternalTorchDynamoError,
    TorchRuntimeError,
    Unsupported,
    UserError,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from placewright.api.captured_graphs import compile_graph
from placewright.api.dynamo import RefusedError, passed_through
from placewright.api.local_devices import Devices
from placewright.api.planned_graphs import GraphPlanner, PlannedGraph, Wishes
from placewright.api.questions import Plan
from placewright.execution.pytorch.miscaptured import OpenSizesError
from placewright.execution.pytorch.open_sizes import take_marks_off
from placewright.execution.pytorch.optimizer_memory import check_step_fits, optimizer_memory
from placewright.importers.source_lines import source_of_frames
from placewright.importers.torch.arguments import bind, mode_set
from placewright.importers.torch.autocast import without_autocast
from placewright.importers.torch.results import check_loss, default_loss
from placewright.support.errors import InputError

#: Messages of PyTorch about some modules, and their causes.
_REASONS = {
    "does not currently support double backward": (
        "{model} takes a gradient of a gradient, which no graph that PyTorch compiles has; leave the part that does so "
        "out of what is planned, by torch.compiler.disable"
    ),
    "appears to not have been used in the graph": (
        "{model} takes a gradient in its forward, of a tensor that PyTorch compiles together with what depends on it; "
        "leave that part out of what is planned, by torch.compiler.disable"
    ),
    "found no compiled frames": (
        "PyTorch compiles nothing inside of a TorchDispatchMode, such as a counter of FLOPs; call the module itself "
        "there"
    ),
}
#: The result where nothing has run.
_NOTHING = object()
#: How often PyTorch may capture a module anew, for other shapes or for other values that its Python reads.
_MOST_CAPTURES = 64


@dataclass(frozen=True, kw_only=True)
class Call:
    """A module to call, or a training step of it.

    loss: makes a scalar of what the module returns. optimizer: makes its step after each backward pass.
    """

    model: nn.Module
    training: bool
    loss: Callable[[Any], Any] | None = None
    optimizer: Optimizer | None = None


class ModuleCapture:
    """The module as `torch.compile` runs it, with plans of its graphs.

    sharing: for each tensor among the arguments the first that lies in its memory; PyTorch guards this only where some
    share memory.
    """

    def __init__(
        self, call: Call, devices: Devices, wishes: Wishes, sharing: tuple[int, ...], *, verifies: bool
    ) -> None:
        self.sharing = sharing
        self._call = call
        self._now = threading.local()
        held = [*call.model.parameters(), *call.model.buffers()]
        self.planner = GraphPlanner(
            devices,
            wishes,
            name=type(call.model).__name__,
            names=partial(_names, weakref.ref(call.model), self._now),
            held=held,
            arguments=partial(_arguments, self._now),
            may_train=call.training,
            is_step=call.training,
            verifies=verifies,
        )
        #: Bytes of the optimizer's states.
        self._state_bytes = 0
        if call.optimizer is not None and self.planner.limit is not None:
            self._state_bytes = self._room_for(call.optimizer, self.planner.limit)
        #: Whether PyTorch captures the whole call as one graph; otherwise it captures several.
        self.is_whole = True
        self._compiled = self._captured_by_pytorch()
        has_recurrent = any(isinstance(module, nn.RNNBase) for module in call.model.modules())
        self._settings = {
            # By default PyTorch assumes that hooks of submodules never change.
            "skip_nnmodule_hook_guards": False,
            # By default it draws from its own generator where NumPy is asked for random numbers.
            "use_numpy_random_stream": True,
            "fail_on_recompile_limit_hit": True,
            "recompile_limit": _MOST_CAPTURES,
            **({"allow_rnn": True} if has_recurrent else {}),
        }

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of the graphs that ran since the latest call began, or of all where none has."""
        return tuple(graph.plan for graph in self._ran)

    @property
    def peaks(self) -> tuple[int, ...]:
        """The most bytes in use while each of these graphs runs, without the optimizer's states."""
        return tuple(graph.plan.peak_bytes[0] + graph.beside for graph in self._ran)

    @property
    def _ran(self) -> Sequence[PlannedGraph]:
        return getattr(self._now, "ran", None) or self.planner.graphs

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, prepare: bool = False) -> Any:
        """Makes the call. prepare: instead raises PreparedError before the first graph runs, where it is one graph."""
        call, now = self._call, self._now
        now.call, now.ran, now.loss = (args, kwargs), [], None
        try:
            with (
                torch._dynamo.config.patch(self._settings),
                self.planner.noting(now.ran, prepare=prepare),
                mode_set(call.model, call.training),
            ):
                result = self._called(args, kwargs, prepare=prepare)
                if not call.training or result is _NOTHING:
                    return result
                check_loss(result)
                with without_autocast():
                    result.backward()
                now.loss = result
                return result.detach()
        except FailOnRecompileLimitHit as error:
            raise InputError(
                f"the module was captured anew {_MOST_CAPTURES} times, since something that its Python reads changes "
                'from call to call; torch.compile(model, backend="placewright", ...) runs such a module'
            ) from error
        except RuntimeError as error:
            if (reason := _why_not(error, type(call.model).__name__)) is None:
                raise
            raise InputError(reason) from error
        finally:
            now.call = None

    @property
    def loss(self) -> Any:
        """The tensor from which the backward pass of this thread's latest call began; None where there was none."""
        return getattr(self._now, "loss", None)

    def _called(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, prepare: bool) -> Any:
        take_marks_off((args, kwargs))
        if self.is_whole:
            try:
                return self._compiled(*args, **kwargs)
            except (Unsupported, UserError, GuardOnDataDependentSymNode, RefusedError) as error:
                if isinstance(error, RefusedError) and not isinstance(error.error, OpenSizesError):
                    raise
                if self.planner.limit is not None:
                    warnings.warn(
                        f"{type(self._call.model).__name__} is captured as several graphs, which are planned one after "
                        f"the other in the first call, and a later one is refused where it does not fit: {_why(error)}",
                        stacklevel=5,
                    )
                # Nothing has run so far. Autograd connects several graphs.
                self.is_whole = False
                self.planner.may_train, self.planner.is_step = True, False
                self._compiled = self._captured_by_pytorch()
        return _NOTHING if prepare else self._compiled(*args, **kwargs)

    def _captured_by_pytorch(self) -> Callable[..., Any]:
        backend = _backend_of(self.planner)
        compiled: Callable[..., Any] = torch.compile(
            self._step(), backend=backend, dynamic=False, fullgraph=self.is_whole
        )
        return compiled

    def _step(self) -> Callable[..., Any]:
        model, loss = self._call.model, self._call.loss or default_loss

        def inference(*args: Any, **kwargs: Any) -> Any:
            return model(*args, **kwargs)

        def training(*args: Any, **kwargs: Any) -> Any:
            return loss(model(*args, **kwargs))

        step = training if self._call.training else inference
        # PyTorch keeps its captures with the code and its globals, so each module gets its own.
        own = {"__name__": __name__, "__builtins__": builtins}
        return FunctionType(step.__code__.replace(), own, step.__name__, None, step.__closure__)

    def has_room(self, gradient_bytes: int) -> bool:
        """True if all plans keep the limit with so many bytes of gradients in use."""
        limit, beside = self.planner.limit, self._state_bytes + gradient_bytes
        if limit is None:
            return True
        return all(graph.plan.peak_bytes[0] + graph.beside + beside <= limit for graph in self.planner.graphs)

    def make_room(self, gradient_bytes: int) -> None:
        """Makes further plans for a step that finds so many bytes of gradients."""
        self.planner.beside = self._state_bytes + gradient_bytes

    def _room_for(self, optimizer: Optimizer, limit: int) -> int:
        """Bytes of the optimizer's states. Raises InputError where its step alone does not fit."""
        found = optimizer_memory(optimizer)
        check_step_fits(self._call.model, optimizer, limit, found)
        return found.state_bytes


def _backend_of(planner: GraphPlanner) -> Callable[..., Any]:
    """The backend for the graphs that PyTorch captures; PyTorch keeps it forever, but not the planner with it."""
    known = weakref.ref(planner)

    def backend(module: Any, example_inputs: Sequence[Any]) -> Any:
        found = known()
        assert found is not None
        with passed_through():
            return compile_graph(found, module, example_inputs)

    return backend


def _arguments(now: threading.local) -> list[Any]:
    """The tensors that this thread's call was given."""
    return [leaf for leaf in pytree.tree_leaves(getattr(now, "call", None)) if isinstance(leaf, torch.Tensor)]


def _names(known: weakref.ref[nn.Module], now: threading.local) -> dict[int, str]:
    """The names of the module's tensors and of the arguments of this thread's call, by identity."""
    call, model = getattr(now, "call", None), known()
    if model is None:
        return {}
    names: dict[int, str] = {}
    for path, leaf in [] if call is None else pytree.tree_flatten_with_path(dict(bind(model, *call).arguments))[0]:
        name = ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", "")))) for key in path)
        names.setdefault(id(leaf), name)
    held = (*model.named_parameters(), *model.named_buffers())
    return {**names, **{id(tensor): name for name, tensor in held}}


def _why_not(error: RuntimeError, model: str) -> str | None:
    """The reason why PyTorch does not capture a module; None for an error of the module's own."""
    for said, reason in _REASONS.items():
        if said in str(error):
            return reason.format(model=model)
    if isinstance(error, (BackendCompilerFailed, InternalTorchDynamoError, TorchRuntimeError, Unsupported)):
        return f"PyTorch cannot capture {model}: {_why(error)}"
    return None


def _why(error: Any) -> str:
    """The message of PyTorch's front end, with the line of the user's code."""
    error = getattr(error, "inner_exception", error)
    told = re.search(r"got \w+\((['\"])(.+?)\1\)", str(error))
    what = told[2] if told else str(error).strip().splitlines()[0].rstrip(".")
    files = [(frame.filename, frame.lineno) for frame in getattr(error, "real_stack", None) or ()]
    where = source_of_frames("\n".join(f'File "{file}", line {line}' for file, line in files))
    return f"{what} (in {where})" if where else what
