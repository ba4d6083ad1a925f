"""Facts about the inside of an If, Loop or Scan: types, how often a body runs, and so the types of the node's outputs,
where ONNX's own inference stops there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placewright.importers.onnx.records import values_read
from placewright.importers.onnx.shapes import Shapes, fixed_shape
from placewright.importers.onnx.values import MAX_ELEMENTS
from placewright.support.errors import InputError

_LARGER = "the larger of the results of its branches is assumed"
#: From this number on a limit is none: exporters write the largest integer where only a condition ends a loop.
_MOST_ROUNDS = 2**31


@dataclass(frozen=True, kw_only=True)
class Body:
    """A body that runs several times.

    graph: a GraphProto. shapes: its known shapes. rounds: how often it runs, None where that depends on data; an upper
    bound where is_exact is false. grows: a state has another shape after a round than before.
    """

    graph: Any
    shapes: Shapes
    rounds: int | None
    is_exact: bool
    grows: bool = False


def types_of(node: Any, attributes: Mapping[str, Any], shapes: Shapes) -> tuple[list[Any], str]:
    """The type of each output of a node with subgraphs, None where it is open; and the assumption made, or nothing.

    shapes: the known shapes outside.
    """
    if node.op_type == "If":
        return _branch_types(node, shapes)
    body = body_of(node, attributes, shapes)
    if body is None:
        return [], ""
    types = [body.shapes.types.get(value.name) for value in body.graph.output]
    is_scan = node.op_type == "Scan"
    num_states = len(node.input) - (attributes["num_scan_inputs"] if is_scan else 2)
    try:
        return _stacked(types if is_scan else types[1:], num_states, body, attributes if is_scan else {}), ""
    except (IndexError, TypeError):
        # It joins results along an axis that they do not have; they stay open and are reported.
        return [], ""


def body_of(node: Any, attributes: Mapping[str, Any], shapes: Shapes) -> Body | None:
    """The body of a Loop or Scan; None where an input of it is unknown."""
    graph = next((attribute.g for attribute in node.attribute if attribute.name == "body"), None)
    rule = {"Loop": _loop, "Scan": _scan}.get(node.op_type)
    try:
        return None if graph is None or rule is None else rule(node, attributes, graph, shapes)
    except (IndexError, TypeError, ValueError, OverflowError):
        # Its inputs lack its axes, or its limit is no whole number; its results stay open and are reported.
        return None


def branches_of(node: Any, shapes: Shapes) -> list[Any]:
    """The branches of an If that can run, as GraphProtos: one where the condition is known. Empty if one is missing."""
    branches = {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}
    condition = _truth(shapes, node.input[0]) if node.input else None
    wanted: tuple[str, ...] = ("then_branch", "else_branch")
    if condition is not None:
        wanted = wanted[:1] if condition else wanted[1:]
    return [branches[name] for name in wanted if name in branches] if set(wanted) <= branches.keys() else []


def inside(branch: Any, outside: Shapes, given: Mapping[str, Any] | None = None) -> Shapes | None:
    """The known shapes in a branch or body, as in a model whose inputs are its own and those taken from outside; None
    where these are open, or where it contradicts itself."""
    found = Shapes(model=_as_model(branch, outside, given or {}), dims={}, source=outside.source, types_within=types_of)
    try:
        found.infer()
    except InputError:
        return None
    return found


def _branch_types(node: Any, shapes: Shapes) -> tuple[list[Any], str]:
    found = []
    for branch in branches_of(node, shapes):
        known = inside(branch, shapes)
        found.append([None if known is None else known.types.get(value.name) for value in branch.output])
    options = list(zip(*found, strict=False))
    extents = [[fixed_shape(value_type) for value_type in each] for each in options]
    differ = any(known != each[0] for each in extents for known in each)
    return [_larger(*pair) for pair in zip(options, extents, strict=True)], _LARGER if differ else ""


def _scan(node: Any, attributes: Mapping[str, Any], graph: Any, shapes: Shapes) -> Body | None:
    """The body of a Scan: states keep their type, other inputs are split along an axis, one entry per round."""
    from onnx.helper import make_tensor_type_proto

    num_scanned = attributes.get("num_scan_inputs")
    if not isinstance(num_scanned, int) or not 0 < num_scanned <= len(node.input) == len(graph.input):
        return None
    num_states = len(node.input) - num_scanned
    axes = attributes.get("scan_input_axes") or [0] * num_scanned
    given, rounds = {}, 0
    for position, (outer, inner) in enumerate(zip(node.input, graph.input, strict=True)):
        known = shapes.shape(outer)
        if known is None:
            return None
        extents = list(known)
        if position >= num_states:
            rounds = extents.pop(axes[position - num_states])
        given[inner.name] = make_tensor_type_proto(shapes.types[outer].tensor_type.elem_type, extents)
    found = inside(graph, shapes, given)
    return None if found is None else Body(graph=graph, shapes=found, rounds=rounds, is_exact=True)


def _loop(node: Any, attributes: Mapping[str, Any], graph: Any, shapes: Shapes) -> Body | None:
    """The body of a Loop: its inputs are the round, the condition and the states, as they are in the first round."""
    from onnx import TensorProto
    from onnx.helper import make_tensor_type_proto

    states = node.input[2:]
    if len(graph.input) != len(states) + 2 or len(graph.output) <= len(states):
        return None
    if any(name not in shapes.types or (shapes.is_tensor(name) and shapes.shape(name) is None) for name in states):
        return None
    given = {value.name: shapes.types[name] for value, name in zip(graph.input[2:], states, strict=True)}
    given |= {
        graph.input[0].name: make_tensor_type_proto(TensorProto.INT64, []),
        graph.input[1].name: make_tensor_type_proto(TensorProto.BOOL, []),
    }
    found = inside(graph, shapes, given)
    if found is None:
        return None
    pairs = zip(graph.input[2:], graph.output[1:], strict=False)
    grows = any(found.shape(before.name) != found.shape(after.name) for before, after in pairs)
    rounds, is_exact = _rounds(node, graph, shapes, found)
    return Body(graph=graph, shapes=found, rounds=rounds, is_exact=is_exact, grows=grows)


def _rounds(node: Any, graph: Any, outside: Shapes, within: Shapes) -> tuple[int | None, bool]:
    """The number of rounds of a Loop's body, and whether it is exact."""
    limit = outside.values.get(node.input[0]) if node.input[0] else None
    most = int(limit.reshape(-1)[0]) if limit is not None and limit.size == 1 else None
    begins = _truth(outside, node.input[1]) if node.input[1] else True
    if begins is False or (most is not None and most <= 0):
        return 0, True
    if most is None:
        return None, False
    made_by = {value: each for each in graph.node for value in each.output}
    name = graph.output[0].name
    while name in made_by and made_by[name].op_type == "Identity":
        name = made_by[name].input[0]
    goes_on = begins if name == graph.input[1].name else _truth(within, name)
    if goes_on:
        return most, True
    return (most if most < _MOST_ROUNDS else None), False


def _truth(shapes: Shapes, name: str) -> bool | None:
    """The value of a condition, where it is known."""
    value = shapes.values.get(name)
    return None if value is None or value.size != 1 else bool(value.reshape(-1)[0])


def _stacked(types: Sequence[Any], num_states: int, body: Body, attributes: Mapping[str, Any]) -> list[Any]:
    """The types of states, which come first, and of the results that are joined from all rounds along an axis."""
    from onnx.helper import make_tensor_type_proto

    places = attributes.get("scan_output_axes") or [0] * len(types)
    found: list[Any] = []
    for position, value_type in enumerate(types):
        known = fixed_shape(value_type)
        is_state = position < num_states
        if value_type is None or known is None or (body.grows if is_state else not body.is_exact or body.grows):
            found.append(None)
            continue
        extents = list(known)
        if not is_state:
            extents.insert(places[position - num_states] % (len(extents) + 1), body.rounds or 0)
        found.append(make_tensor_type_proto(value_type.tensor_type.elem_type, extents))
    return found


def _larger(options: Sequence[Any], extents: Sequence[tuple[int, ...] | None]) -> Any | None:
    """The type with most elements, the first of equals; None where one is open."""
    sizes = [-1 if known is None else math.prod(known) for known in extents]
    return None if -1 in sizes else options[sizes.index(max(sizes))]


def _as_model(branch: Any, outside: Shapes, given: Mapping[str, Any]) -> Any:
    import onnx
    from onnx.helper import make_tensor_value_info

    model = onnx.ModelProto(ir_version=outside.model.ir_version, opset_import=outside.model.opset_import)
    model.graph.name = "branch"
    model.graph.node.extend(branch.node)
    model.graph.output.extend(branch.output)
    model.graph.value_info.extend(branch.value_info)
    for weight in branch.initializer:
        if math.prod(weight.dims) <= MAX_ELEMENTS:
            model.graph.initializer.append(weight)
        else:
            model.graph.input.append(make_tensor_value_info(weight.name, weight.data_type, weight.dims))
    for name, value_type in given.items():
        model.graph.input.add(name=name).type.CopyFrom(value_type)
    made = (
        set(given)
        | {weight.name for weight in branch.initializer}
        | {name for node in branch.node for name in node.output}
    )
    read = [*(name for node in branch.node for name in values_read(node)), *(value.name for value in branch.output)]
    for name in dict.fromkeys(read):
        if name in made:
            continue
        if name in outside.values:
            model.graph.initializer.append(onnx.numpy_helper.from_array(outside.values[name], name))
        elif name in outside.types:
            model.graph.input.add(name=name).type.CopyFrom(outside.types[name])
    return model
