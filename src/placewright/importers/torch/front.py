"""A PyTorch module, or a training step of it, as one functional graph, by PyTorch's own capture: Dynamo reads the code,
and AOTAutograd traces forward and backward of what it has found.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch._dynamo.exc import UncapturedHigherOrderOpError
from torch._functorch._aot_autograd import descriptors
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from placewright.importers.torch.arguments import argument_names, bind, mode_set, module_of, quiet
from placewright.importers.torch.dynamo import LOCK, Calls, read_calls
from placewright.importers.torch.exported import joint_of_program
from placewright.importers.torch.failure import in_one_sentence
from placewright.importers.torch.joint import Joint
from placewright.importers.torch.joint_graph import check_known, check_no_backward, functional_graph, reached_from
from placewright.importers.torch.kernels import grouped_products_of_any_dtype, input_passed_on, kernels_kept
from placewright.importers.torch.results import loss_of, tensors_of
from placewright.importers.torch.without_memory import off_meta


def trace_joint(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    training: bool,
    loss: Callable[[Any], Any] | None,
    as_exported: bool = False,
) -> Joint:
    """Traces `model(*args, **kwargs)`; with `training` also its loss and the gradients of all parameters.

    as_exported: whether a dropout that drops nothing is a copy, and PyTorch's tracer takes ops apart that have kernels,
    such as interpolation, as in programs that it exports.
    Raises InputError when the arguments do not fit, a size is symbolic or PyTorch cannot capture the module as a whole.
    """
    module = module_of(model)
    if isinstance(model, torch.export.ExportedProgram) and not args and not kwargs and model.example_inputs is not None:
        args, kwargs = model.example_inputs
    leaves, structure, names = _flat_arguments(module, args, kwargs)
    minimised = (loss or loss_of) if training else None
    with (
        LOCK,
        in_one_sentence(module),
        off_meta(module, leaves) as fed,
        mode_set(module, training),
        quiet(),
        grouped_products_of_any_dtype(),
        _layers_in_ops(),
        contextlib.nullcontext() if as_exported else _as_it_runs(),
        torch.inference_mode(False),
        torch.set_grad_enabled(training),
    ):
        fed = _each_once(fed, module)
        if isinstance(module, torch.fx.GraphModule):
            return joint_of_program(module, fed, structure, names, minimised)
        args, kwargs = pytree.tree_unflatten(fed, structure)
        tensors = dict(zip(names, tensors_of(fed), strict=True))
        try:
            calls = read_calls(module, args, kwargs, tensors, minimised)
        except UncapturedHigherOrderOpError:
            # Its branches can be captured by the exporter only.
            program = torch.export.export(module, tuple(args), dict(kwargs), strict=False).module()
            return joint_of_program(program, fed, structure, names, minimised)
        return _joint(calls, module, training)


def _flat_arguments(
    module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], Any, list[str]]:
    """The leaves of positional and keyword arguments, their structure, and names of the tensors among them."""
    bound = bind(module, args, kwargs)
    leaves, structure = pytree.tree_flatten((bound.args, bound.kwargs))
    held = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
    return leaves, structure, argument_names(dict(bound.arguments), held)


@contextlib.contextmanager
def _as_it_runs() -> Iterator[None]:
    with kernels_kept(), input_passed_on():
        yield


@contextlib.contextmanager
def _layers_in_ops() -> Iterator[None]:
    """PyTorch's own transformer layers make their calls one by one, where they would make one of all, of which nobody
    knows the time."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _joint(calls: Calls, model: nn.Module, training: bool) -> Joint:
    fakes = tuple(calls.fake_mode.from_tensor(each, static_shapes=True) for each in calls.examples)
    context = TracingContext(calls.fake_mode)
    context.tensor_to_context = calls.contexts
    graph = functional_graph(calls.program, fakes, context)
    sources = {descriptors.PlainAOTInput(place): source for place, source in enumerate(calls.sources)}
    if not training:
        check_no_backward(graph)
    check_known(graph, model)
    return Joint(
        graph=graph,
        sources=sources,
        trainable=_trainable(calls, model, graph) if training else {},
        num_results=len(calls.program.graph.output_node().args[0]),
    )


def _trainable(calls: Calls, model: nn.Module, graph: Any) -> dict[str, bool]:
    """Each parameter that requires a gradient, and whether the loss depends on it."""
    wanted = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    trained = {
        calls.sources[each.grad_of.idx][0]
        for node, each in zip(graph.output_node().args[0], graph.output_node().meta["desc"], strict=True)
        if node is not None and isinstance(each, descriptors.GradAOTOutput)
    }
    read = {name for name, role in calls.sources if role == "parameter"}
    if trained.issuperset(read & set(wanted)):
        return {name: name in trained for name in wanted}
    # One that is read has no gradient, for want of a formula or because the loss does not depend on it.
    mode = FakeTensorMode()
    inputs = [mode.from_tensor(each, static_shapes=True) for each in calls.examples]
    (loss,) = torch.fx.Interpreter(calls.program).run(*inputs)
    reached = reached_from(loss)
    named = {name for (name, _), each in zip(calls.sources, inputs, strict=True) if id(each) in reached}
    return {name: name in named for name in wanted}


def _each_once(leaves: Sequence[Any], module: nn.Module) -> list[Any]:
    """The same, a tensor that comes twice or is the module's own replaced by one of its shape: the tracer would make
    one input of both."""
    seen = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    each_once = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and id(leaf) in seen:
            with mode:
                leaf = torch.empty_like(leaf, requires_grad=leaf.requires_grad)
        seen.add(id(leaf))
        each_once.append(leaf)
    return each_once
