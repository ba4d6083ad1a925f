"""Types of what an If or Scan gives, from the nodes of its branches or body, where ONNX's own inference stops there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placewright.importers.onnx_values import MAX_ELEMENTS
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from placewright.importers.onnx_shapes import Shapes

_LARGER = "the larger of the results of its branches is assumed"


def branch_types(node: Any, shapes: Shapes) -> tuple[list[Any], str]:
    """For each output of an If its type, None where a branch leaves it open; and what was assumed, empty for nothing.

    shapes: what is known outside. Where the condition is known, so is the branch.
    """
    branches = {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}
    condition = shapes.values.get(node.input[0]) if node.input else None
    wanted: tuple[str, ...] = ("then_branch", "else_branch")
    if condition is not None and condition.size == 1:
        wanted = wanted[:1] if condition.item() else wanted[1:]
    if not all(name in branches for name in wanted):
        return [], ""
    options = list(zip(*(_types_of(branches[name], shapes) for name in wanted), strict=False))
    extents = [[_extents(value_type) for value_type in each] for each in options]
    differ = any(known != each[0] for each in extents for known in each)
    return [_larger(*pair) for pair in zip(options, extents, strict=True)], _LARGER if differ else ""


def scan_types(node: Any, attributes: Mapping[str, Any], shapes: Shapes) -> list[Any]:
    """For each output of a Scan its type: states keep theirs, the others are stacked, one for each step."""
    from onnx.helper import make_tensor_type_proto

    body = next((attribute.g for attribute in node.attribute if attribute.name == "body"), None)
    num_scanned = attributes.get("num_scan_inputs")
    if body is None or not isinstance(num_scanned, int) or not 0 < num_scanned <= len(node.input) == len(body.input):
        return []
    num_states = len(node.input) - num_scanned
    axes, places = ([0] * num_scanned, [0] * len(body.output))
    axes, places = attributes.get("scan_input_axes") or axes, attributes.get("scan_output_axes") or places
    given, steps = {}, 0
    for position, (outer, inner) in enumerate(zip(node.input, body.input, strict=True)):
        extents = list(shapes.shape(outer) or ())
        if shapes.shape(outer) is None:
            return []
        if position >= num_states:
            steps = extents.pop(axes[position - num_states])
        given[inner.name] = make_tensor_type_proto(shapes.types[outer].tensor_type.elem_type, extents)
    results: list[Any] = []
    for position, result in enumerate(_types_of(body, shapes, given)):
        extents = list(_extents(result) or ())
        if _extents(result) is None:
            results.append(None)
            continue
        if position >= num_states:
            extents.insert(places[position - num_states] % (len(extents) + 1), steps)
        results.append(make_tensor_type_proto(result.tensor_type.elem_type, extents))
    return results


def _larger(options: Sequence[Any], extents: Sequence[tuple[int, ...] | None]) -> Any | None:
    """The type of most elements, the first of equals; None where one is open."""
    sizes = [-1 if known is None else math.prod(known) for known in extents]
    return None if -1 in sizes else options[sizes.index(max(sizes))]


def _extents(value_type: Any | None) -> tuple[int, ...] | None:
    if value_type is None or not value_type.tensor_type.HasField("shape"):
        return None
    dims = value_type.tensor_type.shape.dim
    fixed = all(dim.HasField("dim_value") and dim.dim_value >= 0 for dim in dims)
    return tuple(dim.dim_value for dim in dims) if fixed else None


def _types_of(branch: Any, outside: Shapes, given: Mapping[str, Any] | None = None) -> Sequence[Any]:
    """Types of a branch's outputs, inferred as those of a model whose inputs are what it is given and takes from
    outside."""
    model = _as_model(branch, outside, given or {})
    inside = type(outside)(model=model, dims={}, source=outside.source)
    try:
        inside.infer()
    except InputError:
        # What it takes from outside is open, or it contradicts itself; the If then stays open and is reported.
        return [None] * len(branch.output)
    return [inside.types.get(value.name) for value in branch.output]


def _as_model(branch: Any, outside: Shapes, given: Mapping[str, Any]) -> Any:
    import onnx
    from onnx.helper import make_tensor_value_info

    from placewright.importers.onnx_model import values_read

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
