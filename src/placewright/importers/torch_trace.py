"""Runs a PyTorch module, or a training step of it, on fake tensors and keeps the calls it makes.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._functorch import aot_autograd
from torch.utils import _pytree as pytree

from placewright.importers.torch_dependence import Dependence
from placewright.importers.torch_failure import reason
from placewright.importers.torch_stand_in import off_meta, tensors_of
from placewright.support.errors import InputError

#: Attribute under which the captured step holds the user's model; it starts every path the tracer reports.
MODEL_ATTRIBUTE = "model"
#: How torch.export names tensors that are written out in the model's code.
LIFTED = "lifted_tensor_"
#: Stands for a tensor in what the model returns.
_TENSOR = object()


class Returned:
    """What the model returns: containers and values as they are, and where the tensors stand in them.

    An object of its own, since tracing puts back the attributes of the module that it runs.
    """

    def __init__(self) -> None:
        self.read(torch.empty(0))

    def read(self, output: Any) -> None:
        """Keeps what the model returned while it was traced."""
        leaves, self._structure = pytree.tree_flatten(output)
        self._leaves = [_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def filled(self, tensors: Sequence[Any]) -> Any:
        """The same with these tensors, in order."""
        each = iter(tensors)
        leaves = [next(each) if leaf is _TENSOR else leaf for leaf in self._leaves]
        return pytree.tree_unflatten(leaves, self._structure)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A functional FX graph of ATen calls whose placeholders and results carry descriptors.

    input_names: of the tensors among the arguments, in order. parameter_names: the first name of each parameter and
    buffer, by all its names. module_paths: the same of layers. module_prefix: what stands before a layer's path in the
    nodes' metadata.
    Of a training step, trainable: each parameter that requires a gradient, and whether the loss depends on it;
    custom_gradients: the autograd functions with a backward of their own.
    returned: what the model returns. lifted: tensors that are written out in the model's code, by the name that
    torch.export gives them.
    """

    graph: Any
    input_names: Sequence[str]
    parameter_names: Mapping[str, str]
    module_paths: Mapping[str, str]
    module_prefix: str
    trainable: Mapping[str, bool]
    custom_gradients: Sequence[str]
    returned: Returned
    lifted: Mapping[str, Any]


def trace(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, training: bool, loss: Callable[[Any], Any] | None
) -> Trace:
    """Traces `model(*args, **kwargs)`; with `training` also its loss and the gradients of all parameters.

    Raises InputError when the arguments do not fit, a size is symbolic or PyTorch cannot trace the module.
    """
    module = _module_of(model)
    if isinstance(model, torch.export.ExportedProgram) and not args and not kwargs and model.example_inputs is not None:
        args, kwargs = model.example_inputs
    arguments = _bind(module, args, kwargs)
    leaves, structure = pytree.tree_flatten(dict(arguments.arguments))
    minimised = (loss or default_loss) if training else None
    dependence, returned = Dependence(), Returned()
    with off_meta(module, leaves) as (fed, context), _mode_set(module, training), _quiet():
        step = _Step(module, arguments, fed, structure, minimised, context, dependence, returned)
        graph, lifted = _functional_graph(step, tuple(_each_once(tensors_of(fed))), training)
    names = _first_names(module)
    return Trace(
        graph=graph,
        input_names=_leaf_names(leaves, structure),
        parameter_names=names,
        module_paths=_first_of_each(module.named_modules(remove_duplicate=False)),
        module_prefix="" if isinstance(module, torch.fx.GraphModule) else f"{MODEL_ATTRIBUTE}.",
        trainable=dependence.by_first_name(names),
        custom_gradients=dependence.custom_gradients,
        returned=returned,
        lifted=lifted,
    )


def flatten_arguments(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """Leaves of the arguments and their structure, by the names of the parameters of `forward`, in their order.

    Raises InputError when the arguments do not fit.
    """
    leaves, structure = pytree.tree_flatten(dict(_bind(model, args, kwargs).arguments))
    return leaves, structure


def default_loss(output: Any) -> Any:
    """The scalar that a training step minimises: `.loss`, the scalar returned, or the sum of the outputs' means."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    tensors = [tensor for tensor in tensors_of(output) if tensor.requires_grad]
    if not tensors:
        raise InputError("no output of the model depends on a parameter, so there is nothing to train")
    if len(tensors) == 1 and tensors[0].dim() == 0:
        return tensors[0]
    return functools.reduce(torch.add, [tensor.mean() for tensor in tensors])


def _checked_loss(loss: Any) -> Any:
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise InputError(f"a training step needs a loss of one element, and the loss is {shape}")
    if not loss.requires_grad:
        raise InputError("the loss depends on no parameter, so there is nothing to train")
    return loss


class _Step(nn.Module):
    """Takes the tensors among the arguments one by one and returns only tensors; tracing meets no containers."""

    def __init__(
        self,
        model: Any,
        arguments: inspect.BoundArguments,
        leaves: Sequence[Any],
        structure: Any,
        loss: Callable[[Any], Any] | None,
        context: Any,
        dependence: Dependence,
        returned: Returned,
    ) -> None:
        super().__init__()
        setattr(self, MODEL_ATTRIBUTE, model)
        self._signature = arguments.signature
        self._constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self._structure = structure
        self._loss = loss
        self._context = context
        self._dependence = dependence
        self._returned = returned

    def forward(self, *tensors: Any) -> Any:
        leaves = list(self._constants)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        arguments = inspect.BoundArguments(self._signature, pytree.tree_unflatten(leaves, self._structure))
        model = getattr(self, MODEL_ATTRIBUTE)
        with self._context:
            output = _call(model, arguments)
            self._returned.read(output)
            if self._loss is None:
                return tuple(tensors_of(output))
            loss = _checked_loss(self._loss(output))
        self._dependence.read(loss, model)
        return loss


def _call(model: Any, arguments: inspect.BoundArguments) -> Any:
    """The model's output; an exported program is interpreted, which hands its layers and source lines to the tracer."""
    if not isinstance(model, torch.fx.GraphModule):
        return model(*arguments.args, **arguments.kwargs)
    leaves = pytree.tree_leaves(list(arguments.arguments.values()))
    flat = torch.fx.Interpreter(model).run(*leaves, enable_io_processing=False)
    return model.graph.process_outputs(flat)


def _module_of(model: Any) -> Any:
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError(
            f"{getattr(model, 'original_name', 'the model')} is a TorchScript module, whose code PyTorch no longer "
            "traces; pass the module it was made from, or what torch.export.export makes of that"
        )
    if isinstance(model, nn.Module):
        unmade = [name for name, tensor in model.named_parameters() if nn.parameter.is_lazy(tensor)]
        if unmade:
            raise InputError(
                f"the parameter '{unmade[0]}' of {type(model).__name__} has no shape yet; call the module once first"
            )
        return model
    if not isinstance(model, torch.export.ExportedProgram):
        raise InputError(
            f"a graph is captured from an nn.Module or an ExportedProgram, not from a {type(model).__name__}"
        )
    if model.range_constraints:
        symbols = ", ".join(str(symbol) for symbol in model.range_constraints)
        raise InputError(f"the exported program leaves the dimensions {symbols} open; export it with fixed shapes")
    return model.module()


def _bind(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    try:
        return inspect.signature(model.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"{type(model).__name__} cannot be called with these arguments: {error}") from error


def _leaf_names(leaves: Sequence[Any], structure: Any) -> list[str]:
    """Names of the tensors among the arguments, in order: "input_ids", or "states.0" inside a container."""
    named, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(leaves), structure))
    return [
        ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", "")))) for key in path)
        for path, leaf in named
        if isinstance(leaf, torch.Tensor)
    ]


def _each_once(tensors: Sequence[Any]) -> list[Any]:
    """The same tensors, one passed twice replaced by one of its shape: the tracer would make one input of both."""
    distinct: dict[int, Any] = {}
    for tensor in tensors:
        again = id(tensor) in distinct
        distinct[len(distinct) if again else id(tensor)] = torch.empty_like(tensor) if again else tensor
    return list(distinct.values())


@contextlib.contextmanager
def _mode_set(model: Any, training: bool) -> Iterator[None]:
    """The model in training or evaluation mode, each submodule's own flag restored afterwards."""
    if isinstance(model, torch.fx.GraphModule):
        yield
        return
    flags = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, flag in flags:
            module.training = flag


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings and tracebacks that PyTorch prints: what goes wrong is raised, in one sentence."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _functional_graph(step: _Step, inputs: tuple[Any, ...], training: bool) -> tuple[Any, dict[str, Any]]:
    """The functional graph of the step, forward and backward in one when training; and the tensors that
    torch.export has lifted out of the model's code."""
    try:
        with torch.inference_mode(False), torch.set_grad_enabled(training), contextlib.ExitStack() as stack:
            if isinstance(getattr(step, MODEL_ATTRIBUTE), torch.fx.GraphModule):
                stack.enter_context(torch.fx.traceback.preserve_node_meta())
                traceable = step
            else:
                traceable = _with_lifted_as_buffers(torch.export.export(step, inputs, strict=False))
            lifted = {
                name: tensor for name, tensor in traceable.named_buffers(remove_duplicate=False) if LIFTED in name
            }
            joint = aot_autograd.aot_export_joint_with_descriptors(stack, traceable, inputs)
            return joint.graph_module.graph, lifted
    except InputError:
        raise
    except Exception as error:
        name = type(getattr(step, MODEL_ATTRIBUTE)).__name__
        why = reason(error, getattr(step, MODEL_ATTRIBUTE), f"{MODEL_ATTRIBUTE}.")
        raise InputError(f"PyTorch cannot trace {name} with these arguments: {why}") from error


def _with_lifted_as_buffers(exported: Any) -> Any:
    """The module of an exported step. Tensors that torch.export found in closures become attributes of it, which the
    tracer refuses."""
    module = exported.module()
    for name, tensor in exported.constants.items():
        path, _, key = name.rpartition(".")
        holder = module.get_submodule(path)
        if LIFTED in key and key in vars(holder):
            delattr(holder, key)
            holder.register_buffer(key, tensor, persistent=False)
    return module


def _first_names(model: Any) -> dict[str, str]:
    """For every name of a parameter or buffer the first one it has, which is what `state_dict` users know it by."""
    return _first_of_each(
        [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    )


def _first_of_each(named: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """For every name of an object the first one it has."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(found), name) for name, found in named}
