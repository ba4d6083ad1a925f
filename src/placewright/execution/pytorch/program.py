"""A captured PyTorch module as something that can be run: its graph, the call behind each op, and what is where.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from placewright.execution.pytorch.accumulation import gradient_state
from placewright.execution.pytorch.calls import Call, Value, calls_of
from placewright.execution.pytorch.optimizer_step import ParameterStep, optimizer_kind
from placewright.execution.pytorch.runnable import check_calls, check_module
from placewright.graph import Graph
from placewright.importers.torch.assigned import Assigned
from placewright.importers.torch.calls import BACKEND
from placewright.importers.torch.capture import Capture, capture, capture_graph, check_writes
from placewright.importers.torch.graph import added_gradients, gradient_name, translate
from placewright.importers.torch.ops import describe, draws_random_numbers
from placewright.importers.torch.rehearsal import State
from placewright.importers.torch.returned import Returned
from placewright.importers.torch.stand_in import tensors_of
from placewright.importers.torch.trace import flatten_arguments, trace
from placewright.support.errors import InputError, shown


@dataclass(frozen=True, kw_only=True, eq=False)
class TorchProgram:
    """What a module does, as a graph and the calls behind it.

    calls: by op of the graph; inputs have none. strides: of the tensors that calls make and read, where they have any.
    homes: the device on which each of them lies in the module itself. parameters: tensor of the graph -> its name in
    the module; parameters, buffers, and what else lives on between calls and is written to, such as gradients that are
    there when a step begins. state: where each of these stands, in their order. constants: tensor of the graph ->
    value; constant_state: where those stand that forward finds outside of the module. inputs: tensor of the graph ->
    its place among the tensors that the program is called with. input_signature: shape and dtype of each of those.
    results: the tensors that the module returns (of a training step: the loss); differentiable: whether each of them
    would have a gradient in the module itself. assigned: attributes of the module that hold another value
    afterwards, each with its tensors.
    gradients: name of a parameter -> tensor of the graph, of those that no op adds to what is there and no optimizer
    consumes. input_gradients: the same of inputs, by their places.
    returned: what the module returns, without the tensors. random: the ops that draw random numbers, in their order.
    reads_offsets: whether it depends on where in its memory an input begins.
    """

    graph: Graph
    calls: Mapping[int, Call]
    strides: Mapping[int, tuple[int, ...]]
    homes: Mapping[int, torch.device]
    parameters: Mapping[int, str]
    state: tuple[State, ...]
    constants: Mapping[int, Any]
    constant_state: tuple[State, ...]
    inputs: Mapping[int, int]
    input_signature: tuple[tuple[tuple[int, ...], Any], ...]
    results: tuple[int, ...]
    differentiable: tuple[bool, ...]
    assigned: tuple[tuple[Assigned, tuple[int, ...]], ...]
    gradients: Mapping[str, int]
    input_gradients: Mapping[int, int]
    returned: Returned
    random: tuple[int, ...]
    reads_offsets: bool

    @property
    def training(self) -> bool:
        """Whether it is a training step."""
        return self.graph.metadata.get("mode") == "training"

    @property
    def planned_states(self) -> dict[Any, int]:
        """Bytes of the optimizer's states in the graph, by parameter."""
        graph = self.graph
        return {
            call.function.parameter: sum(graph.tensors[state].held_bytes for state in graph.ops[op].inputs[2:])
            for op, call in self.calls.items()
            if isinstance(call.function, ParameterStep)
        }


def make_program(
    model: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    training: bool = False,
    loss: Callable[[Any], Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    sums_in_place: bool = False,
    inputs_stay: bool = False,
    added_to: Set[str] = frozenset(),
) -> TorchProgram:
    """The program of one call of a module, or of one training step; with an optimizer, its step included.

    sums_in_place: whether gradients of one tensor are added in place; inputs_stay: whether inputs are there from begin
    to end, as they are where the caller holds them; added_to: names of the parameters whose gradients, there when a
    step begins, the step adds to. All are for plans of one device.
    Raises InputError when PyTorch cannot trace the module, the module does what no program can stand for, or the
    optimizer is not one that costs are known of.
    """
    check_module(model, training=training)
    traced = trace(model, args, kwargs, training=training, loss=loss, to_run=True)
    captured = capture(traced)
    check_calls(captured.nodes)
    leaves, _ = flatten_arguments(model, args, kwargs)
    place = {node: node.meta["desc"].idx for node, (_, role) in captured.sources.items() if role == "input"}
    graph, tensors = translate(
        captured,
        type(model).__name__,
        optimizer_kind(optimizer),
        copies=False,
        sums_in_place=sums_in_place,
        inputs_stay=inputs_stay,
        added_to=added_to,
    )
    _refuse_apart(captured, graph, tensors)
    steps = {
        name: ParameterStep(optimizer, model, name)
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
        returned=Returned() if training else traced.returned,
        differentiable=() if training else tuple(traced.found.differentiable),
        assigned=traced.found.assigned,
        reads_offsets=traced.found.reads_offsets,
    )


def program_of_graph(
    module: torch.fx.GraphModule, name: str, is_parameter: Sequence[bool], *, sums_in_place: bool = False
) -> TorchProgram:
    """The program of a functional graph of ATen calls, as AOTAutograd hands them to backends. It is run without
    parameters: all that it reads is among its inputs, in the order of its placeholders.

    is_parameter: whether an input stays from step to step. Inputs that are sizes are known, and left out.
    sums_in_place: as of `make_program`.
    """
    placeholders = [
        node
        for node in module.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
    ]
    check_writes(module.graph.nodes)
    captured = capture_graph(module.graph, is_parameter)
    check_calls(captured.nodes)
    graph, tensors = translate(captured, name, None, copies=False, sums_in_place=sums_in_place)
    return _program(
        captured,
        graph,
        tensors,
        {},
        {node: place for place, node in enumerate(placeholders)},
        input_signature=signature([node.meta["val"] for node in placeholders]),
        returned=Returned(),
        differentiable=(),
        assigned=(),
        reads_offsets=False,
    )


def _program(
    captured: Capture,
    graph: Graph,
    tensors: Mapping[Any, tuple[int | None, ...]],
    optimizer_steps: Mapping[str, Callable[[Any, Any], Any]],
    place: Mapping[Any, int],
    *,
    input_signature: tuple[tuple[tuple[int, ...], Any], ...],
    returned: Returned,
    differentiable: tuple[bool, ...],
    assigned: Sequence[Assigned],
    reads_offsets: bool,
) -> TorchProgram:
    """place: of each FX node that is an input, where it stands among the tensors the program is called with."""
    new = iter(captured.assigned)
    one = {node: indices[0] for node, indices in tensors.items() if len(indices) == 1 and indices[0] is not None}
    gradients = {captured.sources[node][0]: one[value] for node, value in captured.gradients}
    # What is written to at the end, where its new value is what a view shows: returned, it is that very tensor.
    written = {
        graph.ops[op].inputs[0]: graph.ops[op].outputs[0]
        for op in range(len(graph.ops))
        if graph.ops[op].name.startswith("copy:") and graph.tensors[graph.ops[op].outputs[0]].alias_of is not None
    }
    kept = {node: name for node, (name, role) in captured.sources.items() if role == "parameter" and node not in place}
    added = added_gradients(graph)
    state_of = {name: captured.state[node] for node, name in kept.items()}
    return TorchProgram(
        graph=graph,
        calls=calls_of(graph, captured, tensors, optimizer_steps),
        strides={index: tuple(value.stride()) for index, value in _values(tensors) if value.layout == torch.strided},
        homes={index: value.device for index, value in _values(tensors)},
        parameters={
            **{one[node]: name for node, name in kept.items()},
            **{total: gradient_name(name) for name, total in added.items()},
        },
        state=(*(captured.state[node] for node in kept), *(gradient_state(state_of[name]) for name in added)),
        constants={
            one[node]: _constant(node, captured) for node, (_, role) in captured.sources.items() if role == "constant"
        },
        constant_state=tuple(state for state in captured.state.values() if state.is_constant),
        inputs={one[node]: number for node, number in place.items() if node in one},
        input_signature=input_signature,
        results=tuple(written.get(one[node], one[node]) for node in captured.outputs),
        differentiable=differentiable,
        assigned=tuple((each, tuple(one[next(new)] for _ in each.differentiable)) for each in assigned),
        gradients={} if optimizer_steps else {name: new for name, new in gradients.items() if name not in added},
        input_gradients={place[node]: one[value] for node, value in captured.input_gradients},
        returned=returned,
        random=_random(graph, captured),
        reads_offsets=reads_offsets,
    )


def _refuse_apart(captured: Capture, graph: Graph, tensors: Mapping[Any, tuple[int | None, ...]]) -> None:
    """Raises InputError where the module returns or keeps a view of a tensor that it has written to, and the plan
    writes to that tensor by a copy: the view would show what was copied, and not the tensor."""
    copied = {op.inputs[0]: op.name.removeprefix("copy:") for op in graph.ops if op.name.startswith("copy:")}
    bases = {
        _base_of(new): (new, copied[index])
        for _, new in captured.updates
        if (index := tensors[new][0]) is not None and index in copied
    }
    for node in (*captured.outputs, *captured.assigned):
        new, name = bases.get(_base_of(node), (node, ""))
        if node is not new:
            raise InputError(
                f"forward writes to '{shown(name)}' and returns or keeps a view of it, whose memory would be another "
                f"in a planned step; {BACKEND}"
            )


def _base_of(node: Any) -> Any:
    """What a traced view is a view of."""
    while node.op == "call_function":
        call = node.args[0] if node.target is operator.getitem else node
        if describe(call)[0] != "view":
            break
        node = call.args[0]
    return node


def _constant(node: Any, captured: Capture) -> Any:
    if node.op == "get_attr":
        return attribute(node.graph.owning_module, node.target)
    return captured.state[node].tensor


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


def overwritten_by(graph: Graph) -> set[int]:
    """The tensors that are there when a step begins, and in whose memory it puts something else."""
    return {
        graph.base_of[output]
        for op in graph.ops
        if op.kind != "view"
        for output in op.outputs
        if graph.tensors[output].alias_of is not None
    }


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
    """Shape and dtype of each tensor: what a program is made for. Raises InputError for one that has no one shape."""
    if any(tensor.is_nested for tensor in tensors):
        raise InputError("a nested tensor has rows of several sizes, and a plan is for one size of each tensor")
    return tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors)


def describe_signature(signature: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    """For errors: "float32[8, 3], int64[8]"."""
    return ", ".join(f"{str(dtype).removeprefix('torch.')}{list(shape)}" for shape, dtype in signature) or "none"


def attribute(module: Any, path: str) -> Any:
    """What stands at a dotted path below a module."""
    for name in path.split("."):
        module = getattr(module, name)
    return module
