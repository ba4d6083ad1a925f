"""A dtype and a fixed shape for every value of an ONNX model, with the sizes that the user sets for open dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

from placewright.importers.onnx.contrib import contrib_outputs, has_channels_last, output_type, standard_form
from placewright.importers.onnx.records import constant_value, first_line, node_attributes, onnx_errors, small_array
from placewright.importers.onnx.values import Array, evaluate
from placewright.support.errors import InputError, did_you_mean, shown

#: placewright's name of each TensorProto.DataType, in the order of its numbers, from 1.
DTYPES = (
    *("float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64"),
    *("uint32", "uint64", "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "uint4", "int4", "float4_e2m1fn", "float8_e8m0fnu", "uint2", "int2"),
)

#: The most open dimensions that an error names.
_MAX_LISTED = 12


def dtype_name(data_type: int) -> str | None:
    """The dtype of a TensorProto.DataType; None for one that is not defined."""
    return DTYPES[data_type - 1] if 1 <= data_type <= len(DTYPES) else None


#: A function of a node with subgraphs, its attributes and the shapes outside: it returns the type of each output, None
#: where it is open, and the assumption made, or nothing.
TypesWithin: TypeAlias = "Callable[[Any, Mapping[str, Any], Shapes], tuple[Sequence[Any], str]]"


@dataclass
class Shapes:
    """Known facts about each value of a model, by name: its type, and its content where that is small and constant.

    model: with its functions inlined and its nodes in order; weights may be gone. Open dimensions are set in it. dims:
    sizes by dimension name, or by value and axis ("input_ids:1"). dims_are_shared: need not all be there. types_within:
    reads a node with subgraphs, and in turn asks for the shapes in them. assumptions: in words, by value, where a size
    depends on the data and the largest is taken. stated: values other than inputs for which `dims` has a size that no
    input has.
    """

    model: Any
    dims: Mapping[str, int]
    source: str
    types_within: TypesWithin
    dims_are_shared: bool = False
    types: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    assumptions: dict[str, str] = field(default_factory=dict)
    stated: set[str] = field(default_factory=set)
    _used: set[str] = field(default_factory=set)
    _of_inputs: set[str] = field(default_factory=set)
    _fixed: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The fixed shape of a tensor; None when a dimension or the rank is open, or it is no tensor."""
        if name not in self._fixed:
            shape = fixed_shape(self.types.get(name))
            if shape is None:
                return None
            self._fixed[name] = shape
        return self._fixed[name]

    def dtype(self, name: str) -> str | None:
        """The dtype of a tensor; None when it is not known."""
        value_type = self.types.get(name)
        return None if value_type is None else dtype_name(value_type.tensor_type.elem_type)

    def is_tensor(self, name: str) -> bool:
        """True for tensors; False for sequences, maps and optional values."""
        value_type = self.types.get(name)
        return value_type is None or value_type.WhichOneof("value") in (None, "tensor_type", "sparse_tensor_type")

    def infer(self) -> None:
        """Fills types and values: ONNX's own inference first, then the open ones node by node.

        Raises InputError for open dimensions of the inputs, or dims that name nothing.
        """
        from onnx import shape_inference

        declared = (*self.model.graph.input, *self.model.graph.value_info, *self.model.graph.output)
        dim_names = {dim.dim_param for value in declared for dim in value.type.tensor_type.shape.dim} - {""}
        self._check_inputs(dim_names)
        for value in self.model.graph.input:
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                self._of_inputs |= {dim.dim_param, f"{value.name}:{axis}"}
        for value in declared:
            self._fix(value.name, value.type)
        try:
            inferred = shape_inference.infer_shapes(self.model).graph
        except onnx_errors() as error:
            raise InputError(f"'{self.source}': its shapes cannot be inferred: {first_line(error)}") from error
        for value in (*inferred.output, *inferred.value_info, *inferred.input):
            self._fix(value.name, value.type)
            self.types[value.name] = value.type
        self._read_initializers()
        for node in self.model.graph.node:
            self._refine(node)
        if not self.dims_are_shared:
            self._check_dims_used(dim_names)

    def contradiction(self) -> str | None:
        """The first line of the error of ONNX's strict inference on the model; None if there is none."""
        from onnx import shape_inference

        try:
            shape_inference.infer_shapes(self.model, data_prop=True, strict_mode=True)
        except onnx_errors() as error:
            return shown(first_line(error).removeprefix("[ShapeInferenceError] Inference error(s): "), 300)
        return None

    def _check_inputs(self, dim_names: Collection[str]) -> None:
        weights = {weight.name for weight in self.model.graph.initializer}
        open_dims: dict[str, list[str]] = {}
        for value in self.model.graph.input:
            if value.name not in weights and value.type.WhichOneof("value") == "tensor_type":
                for name in self._open_dims(value):
                    open_dims.setdefault(name, []).append(value.name)
        if open_dims:
            first = list(open_dims)[:_MAX_LISTED]
            listed = ", ".join(f"'{shown(name)}' (of {shown(', '.join(open_dims[name][:3]))})" for name in first)
            listed += f" and {len(open_dims) - _MAX_LISTED} more" if len(open_dims) > _MAX_LISTED else ""
            example = " ".join(f"--dim {shown(name)}=8" for name in first)
            strange = [name for name in self.dims if name not in dim_names and not self._names_axis(name)]
            unknown = f"has no dimension '{shown(strange[0])}' and " if strange and not self.dims_are_shared else ""
            raise InputError(
                f"'{self.source}' {unknown}leaves dimensions of its inputs open: {listed}; set them, as in {example}"
            )

    def _names_axis(self, name: str) -> bool:
        """True if the name is that of a value's axis: "input_ids:1"."""
        value, _, axis = name.rpartition(":")
        made = chain.from_iterable(node.output for node in self.model.graph.node)
        return axis.isdigit() and value in {*(own.name for own in self.model.graph.input), *made}

    def _open_dims(self, value: Any) -> Iterable[str]:
        """The names by which the unknown dimensions of an input can be set."""
        if not value.type.tensor_type.HasField("shape"):
            raise InputError(f"'{self.source}': its input '{shown(value.name)}' has no shape")
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            fixed = dim.HasField("dim_value") and dim.dim_value >= 0
            if not fixed and not {dim.dim_param, f"{value.name}:{axis}"} & self.dims.keys():
                yield dim.dim_param if _is_name(dim.dim_param) else f"{value.name}:{axis}"

    def _fix(self, name: str, value_type: Any) -> None:
        """Writes the sizes given by the user into a type's open dimensions."""
        if not self.dims or value_type.WhichOneof("value") != "tensor_type":
            return
        for axis, dim in enumerate(value_type.tensor_type.shape.dim):
            for key in (f"{name}:{axis}", dim.dim_param):
                if key in self.dims and (not dim.HasField("dim_value") or dim.dim_value < 0):
                    dim.dim_value = self.dims[key]
                    self._used.add(key)
                    if key not in self._of_inputs:
                        self.stated.add(name)

    def _check_dims_used(self, known: Collection[str]) -> None:
        for name in self.dims:
            if name not in self._used:
                named = sorted(map(shown, known))
                hint = did_you_mean(name, named, named[:_MAX_LISTED]) if named else ""
                raise InputError(f"'{self.source}' has no open dimension '{shown(name)}' to set{hint}")

    def _read_initializers(self) -> None:
        from onnx.helper import make_tensor_type_proto

        for weight in self.model.graph.initializer:
            self.types[weight.name] = make_tensor_type_proto(weight.data_type, weight.dims)
            self._remember(weight.name, small_array(weight))

    def _remember(self, name: str, value: Array | None) -> None:
        if value is not None:
            self.values[name] = value

    def _refine(self, node: Any) -> None:
        """Computes the node's value if it is small and constant, and its output types where they are still open."""
        if node.op_type in ("Constant", "Shape", "Size") or all(name in self.values or not name for name in node.input):
            self._evaluate(node)
        if any(name and self.shape(name) is None for name in node.output):
            self._infer_node(node)

    def _evaluate(self, node: Any) -> None:
        attributes = node_attributes(node)
        if len(node.output) != 1 or not node.output[0]:
            return
        if node.op_type == "Constant":
            value = constant_value(attributes)
        elif node.op_type in ("Shape", "Size"):
            value = self._shape_value(node, attributes)
        else:
            try:
                value = evaluate(node.op_type, [self.values.get(name) for name in node.input], attributes)
            except InputError as error:
                raise InputError(
                    f"'{self.source}': {node.op_type} '{shown(node.name or node.output[0])}': {error}"
                ) from None
        self._remember(node.output[0], value)
        if value is not None and self.shape(node.output[0]) is None:
            self._set_type(node.output[0], value)

    def _set_type(self, name: str, value: Array) -> None:
        from onnx.helper import make_tensor_type_proto, np_dtype_to_tensor_dtype

        self.types[name] = make_tensor_type_proto(np_dtype_to_tensor_dtype(value.dtype), value.shape)

    def _shape_value(self, node: Any, attributes: Mapping[str, Any]) -> Array | None:
        import numpy as np

        shape = self.shape(node.input[0]) if node.input else None
        if shape is None:
            return None
        if node.op_type == "Size":
            size = math.prod(shape)
            return np.array(size, dtype=np.int64) if size < 2**63 else None
        return np.array(shape[attributes.get("start", 0) : attributes.get("end", len(shape))], dtype=np.int64)

    def _infer_node(self, node: Any) -> None:
        """Infers one node by ONNX's inference, with the values found here; contrib ops by their own rules."""
        form = standard_form(node)
        if form is node:
            self._adopt(node, self._standard_types(node, self.types))
        types = [self._element_type(name) for name in node.input]
        shapes = [self.shape(name) for name in node.input]
        found = contrib_outputs(node, node_attributes(node), shapes, types)
        if form is not None and form is not node:
            shape = self._shape_by_form(form, channels_last=has_channels_last(node))
            found = [] if shape is None else [(shape, 0)]
        first = types[0] if node.domain in ("", "ai.onnx") and types else output_type(node.op_type, types)
        for name, (shape, kind) in zip(node.output, found, strict=False):
            if name and self.shape(name) is None:
                self._set_shape(name, shape, kind or first)
        self._assume(node)

    def _element_type(self, name: str) -> int:
        return self.types[name].tensor_type.elem_type if name in self.types else 0

    def _shape_by_form(self, form: Any, *, channels_last: bool) -> tuple[int, ...] | None:
        """The output shape of a contrib operator, by a standard one of the same shapes, whose inputs need not be
        quantised."""
        from onnx import TensorProto
        from onnx.helper import make_tensor_type_proto

        types = {}
        for place, name in enumerate(form.input):
            shape = self.shape(name)
            if shape is None:
                return None
            if channels_last and not place:
                shape = (*shape[:1], *shape[-1:], *shape[1:-1])
            is_truth = self._element_type(name) == TensorProto.BOOL
            types[name] = make_tensor_type_proto(TensorProto.BOOL if is_truth else TensorProto.FLOAT, shape)
        found = fixed_shape(self._standard_types(form, types, with_values=False).get(form.output[0]))
        return (*found[:1], *found[2:], *found[1:2]) if channels_last and found else found

    def _assume(self, node: Any) -> None:
        """Sets open output types, from the branches of an If or the body of a loop, or as the largest possible."""
        still_open = [name for name in node.output if name and self.shape(name) is None]
        if node.op_type in ("If", "Loop", "Scan"):
            types, assumption = self.types_within(node, node_attributes(node), self)
            self._adopt(node, {name: kind for name, kind in zip(node.output, types, strict=False) if kind is not None})
        else:
            shapes, assumption = largest_shapes(node, node_attributes(node), [self.shape(name) for name in node.input])
            for name, shape in zip(node.output, shapes, strict=False):
                if name in still_open and shape is not None:
                    self._set_shape(name, shape, self._element_type(node.input[0]))
        assumed = [name for name in still_open if self.shape(name) is not None]
        if assumed and assumption:
            self.assumptions[assumed[0]] = assumption

    def _standard_types(self, node: Any, given: Mapping[str, Any], *, with_values: bool = True) -> Mapping[str, Any]:
        """Types of a standard node's outputs by ONNX's inference. given: those of its inputs."""
        from onnx import defs, numpy_helper, shape_inference

        known = [name for name in node.input if name]
        if any(name not in given for name in known):
            return {}
        valued = [name for name in known if with_values and name in self.values]
        values = {name: numpy_helper.from_array(self.values[name], name) for name in valued}
        versions = {entry.domain: entry.version for entry in self.model.opset_import}
        try:
            schema = defs.get_schema(node.op_type, versions.get(node.domain, defs.onnx_opset_version()), node.domain)
            types = {name: given[name] for name in known}
            inferred: Mapping[str, Any] = shape_inference.infer_node_outputs(
                schema, node, types, values, opset_imports=list(self.model.opset_import)
            )
        except onnx_errors():
            # The operator is unknown, or does not allow the node; its outputs stay open and are reported.
            return {}
        return inferred

    def _adopt(self, node: Any, types: Mapping[str, Any]) -> None:
        for name in node.output:
            if name in types and self.shape(name) is None:
                self._fix(name, types[name])
                self.types[name] = types[name]

    def _set_shape(self, name: str, shape: Sequence[int], element_type: int) -> None:
        """Sets a shape and an element type known by rule, unless the model states another type."""
        from onnx.helper import make_tensor_type_proto

        if all(extent < 2**63 for extent in shape):  # else it stays open, and is reported
            self.types[name] = make_tensor_type_proto(self._element_type(name) or element_type, shape)


def _is_name(dim_param: str) -> bool:
    """True if a dimension's name is a unique one: "?" is not, and would set several at once."""
    return any(character.isalnum() for character in dim_param)


def fixed_shape(value_type: Any | None) -> tuple[int, ...] | None:
    """The shape of a type; None when a dimension or the rank is open, or there is no type."""
    if value_type is None or not value_type.tensor_type.HasField("shape"):
        return None
    dims = value_type.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") and dim.dim_value >= 0 for dim in dims):
        return None
    return tuple(dim.dim_value for dim in dims)


Shape = tuple[int, ...]


def largest_shapes(
    node: Any, attributes: Mapping[str, Any], inputs: Sequence[Shape | None]
) -> tuple[list[Shape | None], str]:
    """The largest possible shape of each output of the node, None where there is none; and the assumption in words.

    inputs: the shapes of its inputs.
    """
    shape = inputs[0] if inputs else None
    if shape is not None and node.op_type == "Unique":
        return _unique(shape, attributes), "its values are assumed to be all different"
    if shape is not None and node.op_type.startswith("Reduce") and len(inputs) == 2:
        return [_reduced(shape, inputs[1], attributes)], "it is assumed to reduce its smallest axes"
    return [], ""


def _unique(shape: Shape, attributes: Mapping[str, Any]) -> list[Shape | None]:
    """Shapes of the values, the place of each, the place of each input value among them, and the count of each."""
    axis = attributes.get("axis")
    if axis is None:
        count = (math.prod(shape),)
        return [count] * 4
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return []
    return [shape, (shape[axis],), (shape[axis],), (shape[axis],)]


def _reduced(shape: Shape, axes: Shape | None, attributes: Mapping[str, Any]) -> Shape | None:
    """The largest shape of a reduction over computed axes. Their number is the length of the list of axes, if known."""
    keeps = bool(attributes.get("keepdims", 1))
    if axes is None or len(axes) != 1 or axes[0] > len(shape):
        return shape if keeps else None
    if axes[0] == 0:
        whole = bool(attributes.get("noop_with_empty_axes", 0))
        return shape if whole else (1,) * len(shape) if keeps else ()
    gone = sorted(range(len(shape)), key=lambda axis: shape[axis])[: axes[0]]
    return tuple(1 if axis in gone else extent for axis, extent in enumerate(shape) if keeps or axis not in gone)
