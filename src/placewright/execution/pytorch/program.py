"""A captured graph as a program to run: ops, the call behind each, and where its tensors are.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from placewright.execution.pytorch.calls import Call, Value, calls_of
from placewright.graph import Graph
from placewright.importers.torch.capture import Capture, capture_graph, check_writes
from placewright.importers.torch.graph import translate
from placewright.importers.torch.ops import attribute_of, draws_random_numbers, only_acts, sentence_on_effects
from placewright.support.errors import InputError

#: Ops that hold code of their own, and compute their results from their arguments alone.
WITH_BODIES = frozenset(
    {
        *("cond", "while_loop", "scan", "map_impl", "associative_scan", "flex_attention", "invoke_subgraph"),
        *("auto_functionalized", "auto_functionalized_v2"),
    }
)


@dataclass(frozen=True, kw_only=True, eq=False)
class TorchProgram:
    """A functional graph of ATen calls, as AOTAutograd passes them to backends: ops to be planned, and a call for each.

    calls: by op of the graph; inputs have none. strides: of the tensors that calls make and read, where they have any.
    homes: the device on which each of them was traced. parameters: tensor of the graph -> its name, of those inputs
    that stay from step to step; slots: positions of these among the placeholders, in their order. constants: tensor of
    the graph -> value. inputs: tensor of the graph -> its place among the other inputs. input_signature: shape and
    dtype of each of those. results: the tensors that the graph returns. random: the ops that draw random numbers, in
    their order.
    """

    graph: Graph
    calls: Mapping[int, Call]
    strides: Mapping[int, tuple[int, ...]]
    homes: Mapping[int, torch.device]
    parameters: Mapping[int, str]
    slots: tuple[int, ...]
    constants: Mapping[int, Any]
    inputs: Mapping[int, int]
    input_signature: tuple[tuple[tuple[int, ...], Any], ...]
    results: tuple[int, ...]
    random: tuple[int, ...]

    def split(self, given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The values of all tensor placeholders, divided into those of parameters and those of other inputs."""
        slots = set(self.slots)
        others = [value for place, value in enumerate(given) if place not in slots]
        return [given[place] for place in self.slots], others


def program_of_graph(
    module: torch.fx.GraphModule,
    name: str,
    resident: Sequence[bool],
    static: Sequence[bool] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    sums_in_place: bool = False,
) -> TorchProgram:
    """The program of a graph whose only effects are its results.

    resident: for each placeholder, whether it is there from beginning to end; the others are freed after their last
    reader. static: whether it is the same tensor in every step; by default those that are resident. Placeholders that
    are not tensors are known sizes, and left out. labels: names of placeholders in the module, by their names in the
    graph. sums_in_place: whether gradients of one tensor are added in place, in plans of one device.
    Raises InputError for a call that a plan cannot run.
    """
    is_static = dict(zip(module.graph.find_nodes(op="placeholder"), static or resident, strict=True))
    placeholders = tensor_placeholders(module.graph)
    check_writes(module.graph.nodes)
    captured = capture_graph(module.graph, resident, labels)
    check_calls(captured.nodes)
    graph, tensors = translate(captured, name, None, copies=False, sums_in_place=sums_in_place)
    one = {node: indices[0] for node, indices in tensors.items() if len(indices) == 1 and indices[0] is not None}
    slots = [place for place, node in enumerate(placeholders) if is_static[node] and node in one]
    others = [node for place, node in enumerate(placeholders) if place not in set(slots)]
    return TorchProgram(
        graph=graph,
        calls=calls_of(graph, captured, tensors),
        strides={index: tuple(value.stride()) for index, value in _values(tensors) if value.layout == torch.strided},
        homes={index: value.device for index, value in _values(tensors)},
        parameters={one[placeholders[slot]]: captured.sources[placeholders[slot]][0] for slot in slots},
        slots=tuple(slots),
        constants={one[node]: attribute_of(node) for node, (_, role) in captured.sources.items() if role == "constant"},
        inputs={one[node]: place for place, node in enumerate(others) if node in one},
        input_signature=signature([node.meta["val"] for node in others]),
        results=tuple(one[node] for node in captured.outputs),
        random=_random(graph, captured),
    )


def tensor_placeholders(graph: torch.fx.Graph) -> list[Any]:
    """The placeholders of a graph that are tensors."""
    return [node for node in graph.find_nodes(op="placeholder") if isinstance(node.meta.get("val"), torch.Tensor)]


def check_calls(nodes: Sequence[Any]) -> None:
    """Raises InputError for a call that a plan cannot run as it was captured."""
    for node in nodes:
        name = str(node.target)
        if only_acts(node.target):
            raise InputError(sentence_on_effects(node.target))
        if isinstance(node.target, torch._ops.HigherOrderOperator) and node.target.name() not in WITH_BODIES:
            raise InputError(
                f"the op {name} holds code of its own, such as branches or a loop's body, and plans cannot run it"
            )
        for value in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and value.layout != torch.strided:
                layout = str(value.layout).removeprefix("torch.")
                raise InputError(f"the op {name} makes a tensor of layout {layout}, and plans run dense tensors only")
        held = [attribute_of(each) for each in node.all_input_nodes if each.op == "get_attr"]
        if not all(isinstance(value, (torch.Tensor, torch.Generator, torch.fx.GraphModule)) for value in held):
            raise InputError(f"the op {name} reads an object that is no tensor, which planned steps do not keep")
        if any(isinstance(value, torch.Generator) for value in (*node.args, *node.kwargs.values(), *held)):
            raise InputError(
                f"the op {name} draws from a generator of its own, and planned steps use PyTorch's default one"
            )


def _random(graph: Graph, captured: Capture) -> tuple[int, ...]:
    op_of = {op.name: index for index, op in enumerate(graph.ops)}
    return tuple(op_of[node.name] for node in captured.nodes if node.name in op_of and draws_random_numbers(node))


def _values(tensors: Mapping[Any, tuple[int | None, ...]]) -> Iterator[tuple[int, Any]]:
    """The traced value of each tensor of the graph."""
    for node, indices in tensors.items():
        value = node.meta["val"]
        for index, each in zip(indices, value if isinstance(value, (tuple, list)) else (value,), strict=True):
            if index is not None:
                yield index, each


def overwritten_by(graph: Graph) -> set[int]:
    """The tensors that exist when a step begins and whose memory it overwrites."""
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
    """Shape and dtype of each tensor, for which a program is made. Raises InputError for a tensor without one shape."""
    if any(tensor.is_nested for tensor in tensors):
        raise InputError("a nested tensor has rows of several sizes, and a plan is for one size of each tensor")
    return tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors)


def describe_signature(signature: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    """The text of a signature for errors: "float32[8, 3], int64[8]"."""
    return ", ".join(f"{str(dtype).removeprefix('torch.')}{list(shape)}" for shape, dtype in signature) or "none"
