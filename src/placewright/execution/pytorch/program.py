"""A captured PyTorch module as something that can be run: for every op of its graph the call that computes it.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from placewright.graph import Graph
from placewright.importers.torch_capture import Capture, capture, capture_graph
from placewright.importers.torch_graph import translate
from placewright.importers.torch_ops import draws_random_numbers
from placewright.importers.torch_stand_in import tensors_of
from placewright.importers.torch_trace import Returned, flatten_arguments, trace
from placewright.support.errors import InputError, shown

#: Classes of optimizers, by what the cost model calls them.
_OPTIMIZERS = {torch.optim.SGD: "sgd", torch.optim.Adam: "adam", torch.optim.AdamW: "adamw"}


@dataclass(frozen=True, slots=True)
class Value:
    """Stands in a call for a tensor of the graph."""

    tensor: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """One op: `results` are the tensors of what `function(*args, **kwargs)` returns, in order, None for those that are
    dropped. several: whether it returns a sequence."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[int | None, ...]
    several: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class TorchProgram:
    """What a module does, as a graph and the calls behind it.

    calls: by op of the graph; inputs have none. strides: of the tensors that calls make and read, where they have any.
    homes: the device on which each of them lies in the module itself. parameters: tensor of the graph -> its name in
    the module, buffers included. constants: tensor of the graph -> value. inputs: tensor of the graph -> its place
    among the tensors that the program is called with. input_signature: shape and dtype of each of those.
    results: the tensors that the module returns (of a training step: the loss).
    gradients: name of a parameter -> tensor of the graph; empty where an optimizer consumes them.
    returned: what the module returns, without the tensors. random: the ops that draw random numbers, in their order.
    """

    graph: Graph
    calls: Mapping[int, Call]
    strides: Mapping[int, tuple[int, ...]]
    homes: Mapping[int, torch.device]
    parameters: Mapping[int, str]
    constants: Mapping[int, Any]
    inputs: Mapping[int, int]
    input_signature: tuple[tuple[tuple[int, ...], Any], ...]
    results: tuple[int, ...]
    gradients: Mapping[str, int]
    returned: Returned
    random: tuple[int, ...]


def make_program(
    model: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    training: bool = False,
    loss: Callable[[Any], Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> TorchProgram:
    """The program of one call of a module, or of one training step; with an optimizer, its step included.

    Raises InputError when PyTorch cannot trace the module, or the optimizer is not one that costs are known of.
    """
    traced = trace(model, args, kwargs, training=training, loss=loss)
    captured = capture(traced)
    leaves, _ = flatten_arguments(model, args, kwargs)
    place = {node: node.meta["desc"].idx for node, (_, role) in captured.sources.items() if role == "input"}
    kind = _kind_of(optimizer)
    graph, tensors = translate(captured, type(model).__name__, kind)
    steps = {
        name: _StepOfOne(optimizer, model, name)
        for name in (captured.sources[node][0] for node, _ in captured.gradients)
        if optimizer is not None
    }
    return _program(
        captured,
        graph,
        tensors,
        steps,
        place,
        input_signature=signature(tensors_of(leaves)),
        results=captured.outputs[:1] if training else captured.outputs,
        returned=Returned() if training else traced.returned,
    )


def program_of_graph(module: torch.fx.GraphModule, name: str, is_parameter: Sequence[bool]) -> TorchProgram:
    """The program of a functional graph of ATen calls, as AOTAutograd hands them to backends. It is run without
    parameters: all that it reads is among its inputs, in the order of its placeholders.

    is_parameter: whether an input stays from step to step. Inputs that are sizes are known, and left out.
    """
    placeholders = [
        node
        for node in module.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
    ]
    captured = capture_graph(module.graph, is_parameter)
    graph, tensors = translate(captured, name, None)
    return _program(
        captured,
        graph,
        tensors,
        {},
        {node: place for place, node in enumerate(placeholders)},
        input_signature=signature([node.meta["val"] for node in placeholders]),
        results=captured.outputs,
        returned=Returned(),
    )


def _program(
    captured: Capture,
    graph: Graph,
    tensors: Mapping[Any, tuple[int | None, ...]],
    optimizer_steps: Mapping[str, Callable[[Any, Any], Any]],
    place: Mapping[Any, int],
    *,
    input_signature: tuple[tuple[tuple[int, ...], Any], ...],
    results: Sequence[Any],
    returned: Returned,
) -> TorchProgram:
    """place: of each FX node that is an input, where it stands among the tensors the program is called with."""
    one = {node: indices[0] for node, indices in tensors.items() if len(indices) == 1 and indices[0] is not None}
    gradients = {captured.sources[node][0]: one[value] for node, value in captured.gradients}
    held = [(node, name) for node, (name, role) in captured.sources.items() if role in ("parameter", "constant")]
    return TorchProgram(
        graph=graph,
        calls=_calls(graph, captured, tensors, optimizer_steps),
        strides={index: tuple(value.stride()) for index, value in _values(tensors) if value.layout == torch.strided},
        homes={index: value.device for index, value in _values(tensors)},
        parameters={one[node]: name for node, name in held if node.op == "placeholder" and node not in place},
        constants={
            one[node]: attribute(node.graph.owning_module, node.target) for node, _ in held if node.op == "get_attr"
        },
        inputs={one[node]: number for node, number in place.items() if node in one},
        input_signature=input_signature,
        results=tuple(one[node] for node in results),
        gradients={} if optimizer_steps else gradients,
        returned=returned,
        random=_random(graph, captured),
    )


def _random(graph: Graph, captured: Capture) -> tuple[int, ...]:
    op_of = {op.name: index for index, op in enumerate(graph.ops)}
    return tuple(op_of[node.name] for node in captured.nodes if node.name in op_of and draws_random_numbers(node))


def _values(tensors: Mapping[Any, tuple[int | None, ...]]) -> Iterator[tuple[int, Any]]:
    """What was traced of each tensor of the graph."""
    for node, indices in tensors.items():
        value = node.meta["val"]
        for index, each in zip(indices, value if isinstance(value, (tuple, list)) else (value,), strict=True):
            if index is not None:
                yield index, each


def reads_of(op: int, program: TorchProgram) -> Iterator[int]:
    """The tensors among the arguments of an op's call, in order."""
    call = program.calls.get(op)
    if call is not None:
        yield from (leaf.tensor for leaf in _leaves((call.args, dict(call.kwargs))) if isinstance(leaf, Value))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def signature(tensors: Sequence[Any]) -> tuple[tuple[tuple[int, ...], Any], ...]:
    """Shape and dtype of each tensor: what a program is made for."""
    return tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors)


def describe_signature(signature: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    """For errors: "float32[8, 3], int64[8]"."""
    return ", ".join(f"{str(dtype).removeprefix('torch.')}{list(shape)}" for shape, dtype in signature) or "none"


def attribute(module: Any, path: str) -> Any:
    """What stands at a dotted path below a module."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _kind_of(optimizer: torch.optim.Optimizer | None) -> str | None:
    if optimizer is None:
        return None
    kind = _OPTIMIZERS.get(type(optimizer))
    if kind is None:
        known = ", ".join(known.__name__ for known in _OPTIMIZERS)
        raise InputError(
            f"the optimizer {shown(type(optimizer).__name__)} cannot be planned; {known} can, or leave it out and call "
            "its step yourself"
        )
    return kind


def _calls(
    graph: Graph,
    captured: Capture,
    tensors: Mapping[Any, tuple[int | None, ...]],
    optimizer_steps: Mapping[str, Callable[[Any, Any], Any]],
) -> dict[int, Call]:
    op_of = {op.name: index for index, op in enumerate(graph.ops)}
    calls = {op_of[node.name]: _traced_call(node, tensors) for node in captured.nodes if node.name in op_of}
    for node, indices in tensors.items():
        if node.op == "placeholder" and node.name in op_of:
            calls[op_of[node.name]] = _seed(node, indices)
    for index, op in enumerate(graph.ops):
        if index in calls or op.kind == "input":
            continue
        updates = op.kind == "optimizer"
        function = optimizer_steps[op.name.partition(":")[2]] if updates else _itself
        args = tuple(Value(tensor) for tensor in (op.inputs[:2] if updates else op.inputs[:1]))
        calls[index] = Call(function=function, args=args, kwargs={}, results=op.outputs, several=False)
    return calls


def _traced_call(node: Any, tensors: Mapping[Any, tuple[int | None, ...]]) -> Call:
    def value_of(leaf: Any) -> Any:
        if not isinstance(leaf, torch.fx.Node):
            return leaf
        index = tensors[leaf][0]
        assert index is not None
        return Value(index)

    return Call(
        function=_function(node),
        args=torch.fx.map_arg(node.args, value_of),
        kwargs=torch.fx.map_arg(node.kwargs, value_of),
        results=tensors[node],
        several=isinstance(node.meta["val"], (tuple, list)),
    )


def _function(node: Any) -> Callable[..., Any]:
    """What a traced call runs, where that is not what was traced.

    PyTorch traces a recurrent layer as if nothing were trained, and then its forward makes no workspace for its
    backward. Traced tensors can have other strides than those that kernels make, and a view of these may need a copy.
    """
    if node.target is torch.ops.aten.view.default:
        reshape: Callable[..., Any] = torch.ops.aten.reshape.default
        return reshape
    forward, backward = torch.ops.aten.mkldnn_rnn_layer.default, torch.ops.aten.mkldnn_rnn_layer_backward.default
    trained = any(reader.target is backward for result in node.users for reader in result.users)
    if node.target is backward or (node.target is forward and trained):
        names = [argument.name for argument in node.target._schema.arguments]
        return partial(_recurrent_in_training, node.target, names.index("train"))
    function: Callable[..., Any] = node.target
    return function


def _recurrent_in_training(function: Callable[..., Any], place_of_train: int, *args: Any) -> Any:
    # It makes a workspace only where gradients are enabled; autograd itself must not record it.
    with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd():
        return function(*args[:place_of_train], True, *args[place_of_train + 1 :])


def _seed(node: Any, indices: tuple[int | None, ...]) -> Call:
    """The gradient of the loss by itself."""
    value = node.meta["val"]
    options = {"dtype": value.dtype, "device": value.device}
    return Call(function=torch.ones, args=(tuple(value.shape),), kwargs=options, results=indices, several=False)


def _itself(value: Any) -> Any:
    return value


class _StepOfOne:
    """The optimizer's step for one parameter, computed by the optimizer itself from a group that holds only this one;
    state and settings are its own, so that schedulers, checkpoints and further steps go on from them."""

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, name: str) -> None:
        self._optimizer = optimizer
        self._parameter = attribute(model, name)
        holding = [
            number
            for number, group in enumerate(optimizer.param_groups)
            if any(parameter is self._parameter for parameter in group["params"])
        ]
        if not holding:
            raise InputError(f"the optimizer does not hold the parameter '{name}', which the loss depends on")
        self._group = holding[0]

    @property
    def settings(self) -> str:
        """What is set, without numbers: an optimizer with momentum takes longer than one without."""
        group = self._optimizer.param_groups[self._group]
        return ", ".join(key for key, value in group.items() if key not in ("params", "lr") and value)

    def __call__(self, parameter: Any, gradient: Any) -> Any:
        """parameter: the module's own, or a copy of it on the device where the gradient is, whose state goes there."""
        kind, state = type(self._optimizer), self._optimizer.state
        alone = object.__new__(kind)
        vars(alone).update(vars(self._optimizer))
        alone.param_groups = [{**self._optimizer.param_groups[self._group], "params": [parameter]}]
        if parameter is not self._parameter:
            alone.state = defaultdict(dict, {parameter: _state_on(parameter.device, state[self._parameter])})
        parameter.grad = gradient
        # Not alone.step: a scheduler puts a function there that steps the whole optimizer, and asks whether it ran.
        kind.step(alone)
        self._optimizer._opt_called = True
        parameter.grad = None
        if parameter is not self._parameter:
            state[self._parameter] = alone.state[parameter]
        return parameter


def _state_on(device: torch.device, state: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer's state of one parameter, on a device but for the number of steps, which stays with the host."""
    return {
        key: value.to(device) if isinstance(value, torch.Tensor) and key != "step" else value
        for key, value in state.items()
    }
