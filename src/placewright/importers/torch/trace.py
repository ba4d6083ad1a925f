"""Runs a PyTorch module, or a training step of it, on fake tensors and keeps the calls it makes.

The module's own code runs under autograd and the tracer stands below it, so that autograd functions, hooks, autocast
and gradient modes mean what they mean when the module is called. Imported only where torch is known to be present.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._inductor.config
from torch import nn
from torch._dynamo.exc import UncapturedHigherOrderOpError
from torch._functorch import aot_autograd
from torch._functorch._aot_autograd import descriptors
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from placewright.importers.source_lines import without_directory
from placewright.importers.torch.arguments import argument_names, bind, module_of, quiet
from placewright.importers.torch.arguments import flatten_arguments as flatten_arguments
from placewright.importers.torch.arguments import mode_set as mode_set
from placewright.importers.torch.calls import BACKEND, LIBRARIES
from placewright.importers.torch.failure import reason
from placewright.importers.torch.held import Held
from placewright.importers.torch.joint import SourceRole
from placewright.importers.torch.kernels import grouped_products_of_any_dtype, input_passed_on, kernels_kept
from placewright.importers.torch.outside import fakes_removed
from placewright.importers.torch.rehearsal import Found, Rehearsal, State
from placewright.importers.torch.results import check_loss
from placewright.importers.torch.results import default_loss as default_loss
from placewright.importers.torch.returned import Returned
from placewright.importers.torch.stand_in import off_meta, tensors_of
from placewright.support.errors import InputError

#: Hooks on all modules and what libraries are told of exporting are of the whole process.
_TRACING = threading.RLock()
#: What the placeholders of a module's state are called, each with its number.
STATE = "state"
#: What fake tensors raise where code asks for their values.
_DEPENDS_ON_VALUES = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A functional FX graph of ATen calls whose placeholders and results carry descriptors.

    input_names: of the tensors among the arguments, in order. found: what the module reads and changes beside them; the
    placeholders of its state have the targets `STATE` and a number. returned: what the model returns. num_results: how
    many tensors that are; the new values of assigned attributes come after them.
    """

    graph: Any
    input_names: Sequence[str]
    found: Found
    returned: Returned
    num_results: int

    @property
    def trainable(self) -> Mapping[str, bool]:
        """Each parameter that requires a gradient, and whether the loss depends on it."""
        return self.found.trainable

    def source_of(self, descriptor: Any) -> tuple[str, SourceRole] | None:
        """Name and role of what a placeholder stands for."""
        if isinstance(descriptor, descriptors.PlainAOTInput):
            return self.input_names[descriptor.idx], "input"
        state = self.state_of(descriptor)
        return None if state is None else (state.name, "constant" if state.is_constant else "parameter")

    def state_of(self, descriptor: Any) -> State | None:
        """Where that lies when the graph is run."""
        is_state = isinstance(descriptor, (descriptors.ParamAOTInput, descriptors.BufferAOTInput))
        return self.found.state[int(descriptor.target.removeprefix(STATE))] if is_state else None


def trace(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    training: bool,
    loss: Callable[[Any], Any] | None,
    to_run: bool = False,
    as_exported: bool = False,
) -> Trace:
    """Traces `model(*args, **kwargs)`; with `training` also its loss and the gradients of all parameters.

    to_run: whether the trace will be run in the module's place; then what it cannot stand for is an error. as_exported:
    whether the module's code is told that it is exported, on which some libraries build other masks, by default only
    where it could not be traced otherwise; whether a dropout that drops nothing is a copy, and whether PyTorch's tracer
    takes ops apart that have kernels, such as interpolation.
    Raises InputError when the arguments do not fit, a size is symbolic or PyTorch cannot trace the module.
    """
    module = module_of(model)
    if isinstance(model, torch.export.ExportedProgram) and not args and not kwargs and model.example_inputs is not None:
        args, kwargs = model.example_inputs
    arguments = bind(module, args, kwargs)
    traced = functools.partial(
        _trace, module, arguments, training=training, loss=loss, to_run=to_run, as_exported=as_exported
    )
    try:
        with (
            _TRACING,
            grouped_products_of_any_dtype(),
            contextlib.nullcontext() if as_exported else input_passed_on(),
        ):
            if not as_exported:
                with contextlib.suppress(*_DEPENDS_ON_VALUES):
                    return traced()
            with _said_to_be_exported(to_run), _in_one_sentence(module):
                return traced()
    except UncapturedHigherOrderOpError as error:
        if to_run or isinstance(module, torch.fx.GraphModule):
            raise InputError(
                f"{type(model).__name__} calls an op that holds code of its own, such as torch.cond or scan, and a "
                "plan cannot run that"
            ) from error
        # Its branches can be captured by the exporter only.
        with mode_set(module, training), quiet(), _in_one_sentence(module):
            exported = torch.export.export(module, tuple(args), dict(kwargs), strict=False)
        return trace(exported, (), {}, training=training, loss=loss, as_exported=as_exported)


def _trace(
    module: Any,
    arguments: inspect.BoundArguments,
    *,
    training: bool,
    loss: Callable[[Any], Any] | None,
    to_run: bool,
    as_exported: bool,
) -> Trace:
    """Raises what fake tensors raise where code asks for their values."""
    leaves, structure = pytree.tree_flatten(dict(arguments.arguments))
    returned, num_results = Returned(), 1
    with (
        _in_one_sentence(module, but=_DEPENDS_ON_VALUES),
        off_meta(module, leaves) as (fed, context),
        mode_set(module, training),
        quiet(),
        torch.inference_mode(False),
        fakes_removed(module),
    ):

        def output(tensors: Sequence[Any]) -> Any:
            nonlocal num_results
            each = iter(tensors)
            # What is passed twice is one tensor inside a step, and two inputs of a graph.
            first: dict[int, Any] = {}
            values = list(fed)
            for place, leaf in enumerate(fed):
                if isinstance(leaf, torch.Tensor):
                    values[place] = first.setdefault(id(leaf) if to_run else place, next(each))
            bound = inspect.BoundArguments(arguments.signature, pytree.tree_unflatten(values, structure))
            with context:
                result = _call(module, bound)
            now = pytree.tree_flatten(dict(bound.arguments))
            if to_run and (now[1] != structure or any(new is not old for new, old in zip(now[0], values, strict=True))):
                raise InputError(
                    "forward changes what a list or a dict among its arguments holds, which a plan would not do; "
                    f"{BACKEND}"
                )
            if training:
                return result
            found = returned.read(result, [value for _, value in Held(module).values])
            num_results = len(found)
            return found

        minimised = (lambda result: _checked_loss((loss or default_loss)(result))) if training else None
        rehearsal = Rehearsal(module, output, minimised, to_run=to_run)
        inputs = tensors_of(fed)

        with torch.enable_grad():
            found = rehearsal.first(inputs)
        with torch.set_grad_enabled(training), contextlib.nullcontext() if as_exported else kernels_kept():
            graph = _functional_graph(rehearsal, found, tuple(_each_once(inputs)))
            if not training:
                _check_no_backward(graph)
            if to_run:
                rehearsal.check_repeated(inputs)
    return Trace(
        graph=graph,
        input_names=argument_names(leaves, structure, {each.name for each in found.state}),
        found=found,
        returned=returned,
        num_results=num_results,
    )


def _checked_loss(loss: Any) -> Any:
    check_loss(loss)
    return loss


class _Step(nn.Module):
    """Takes the tensors among the arguments one by one and returns only tensors; its parameters and buffers are the
    model's and whatever else it reads, each once."""

    def __init__(self, rehearsal: Rehearsal, found: Found) -> None:
        super().__init__()
        self._run = functools.partial(rehearsal.again, found)
        for number, each in enumerate(found.state):
            held = self._parameters if isinstance(each.tensor, nn.Parameter) else self._buffers
            held[f"{STATE}{number}"] = each.tensor
        self._count = len(found.state)

    def forward(self, *tensors: Any) -> Any:
        state = [getattr(self, f"{STATE}{number}") for number in range(self._count)]
        output, assigned = self._run(state, tensors)
        return (*tensors_of(output), *assigned)


def _call(model: Any, arguments: inspect.BoundArguments) -> Any:
    """The model's output; an exported program is interpreted, which hands its layers and source lines to the tracer."""
    if not isinstance(model, torch.fx.GraphModule):
        return model(*arguments.args, **arguments.kwargs)
    leaves = pytree.tree_leaves(list(arguments.arguments.values()))
    flat = torch.fx.Interpreter(model).run(*leaves, enable_io_processing=False)
    return model.graph.process_outputs(flat)


def _each_once(tensors: Sequence[Any]) -> list[Any]:
    """The same tensors, one passed twice replaced by one of its shape: the tracer would make one input of both."""
    distinct: dict[int, Any] = {}
    for tensor in tensors:
        again = id(tensor) in distinct
        distinct[len(distinct) if again else id(tensor)] = torch.empty_like(tensor) if again else tensor
    return list(distinct.values())


class _LibrariesAlone(int):
    """Is true where a library asks, whose answer to it is another way to the same results. Raises InputError where
    other code does: what it does otherwise is not known."""

    def __bool__(self) -> bool:
        frame = sys._getframe(1)
        file = without_directory(frame.f_code.co_filename)
        if file.startswith(LIBRARIES):
            return True
        raise InputError(
            "forward depends on values of tensors, so that it could be captured only as what it is when it is exported "
            f"or compiled, for which it asks in {file}:{frame.f_lineno}; {BACKEND}"
        )


@contextlib.contextmanager
def _said_to_be_exported(to_run: bool) -> Iterator[None]:
    """What `torch.compiler.is_exporting` and `is_compiling` tell the module's code is true; with to_run that of
    libraries alone."""
    before = torch.compiler._is_exporting_flag, torch.compiler._is_compiling_flag
    # Whoever asks gets the flag itself, and tests it.
    flag: Any = _LibrariesAlone(True) if to_run else True
    torch.compiler._is_exporting_flag = torch.compiler._is_compiling_flag = flag
    try:
        yield
    finally:
        torch.compiler._is_exporting_flag, torch.compiler._is_compiling_flag = before


@contextlib.contextmanager
def _in_one_sentence(model: Any, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """What PyTorch raises is an InputError that names the layer and the line. but: what passes as it is."""
    try:
        yield
    except (InputError, UncapturedHigherOrderOpError, *but):
        raise
    except Exception as error:
        why = reason(error, model)
        raise InputError(f"PyTorch cannot trace {type(model).__name__} with these arguments: {why}") from error


def _check_no_backward(graph: Any) -> None:
    """Raises InputError where the graph of an inference has a backward pass."""
    if any(isinstance(node.meta.get("desc"), descriptors.TangentAOTInput) for node in graph.nodes):
        raise InputError(
            "forward writes what wants a gradient, computed under torch.enable_grad(), to a tensor that outlives the "
            "call, and a planned inference has no gradients; write it under torch.no_grad()"
        )


def _functional_graph(rehearsal: Rehearsal, found: Found, inputs: tuple[Any, ...]) -> Any:
    """The functional graph of the step, forward and backward in one when training."""
    tensors = [*(each.tensor for each in found.state), *inputs]
    mode = next((tensor.fake_mode for tensor in tensors if isinstance(tensor, FakeTensor)), None)
    context = TracingContext(mode or FakeTensorMode(allow_non_fake_inputs=True))
    # With this the tracer keeps draws that nothing reads: what is drawn later depends on them.
    draws_kept = torch._inductor.config.patch(fallback_random=True)
    with draws_kept, torch.fx.traceback.preserve_node_meta(), tracing(context), contextlib.ExitStack() as stack:
        joint = aot_autograd.aot_export_joint_with_descriptors(stack, _Step(rehearsal, found), inputs)
        return joint.graph_module.graph
