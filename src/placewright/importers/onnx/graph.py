"""Turns an ONNX model with known shapes into a Graph.

Constants are folded as in ONNX Runtime: an op with constant inputs only is no op, its result is a parameter or
constant. So weights made by fill ops, and the arithmetic on shapes, do not appear in the graph. A quantised constant
stays as stored; its dequantisation is an op, or part of its reader.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from placewright.graph import Graph, TensorRole
from placewright.importers.builder import GraphBuilder, tensor_bytes
from placewright.importers.onnx.attributes import NodeView, attributes_of
from placewright.importers.onnx.bodies import work_of
from placewright.importers.onnx.dequantised import StoredWeights, is_dequantisation
from placewright.importers.onnx.kinds import kind_of
from placewright.importers.onnx.records import label_of, newest_opset, node_attributes, subgraphs, values_read
from placewright.importers.onnx.shapes import Shapes, dtype_name
from placewright.importers.onnx.values import MAX_ELEMENTS
from placewright.importers.source_lines import source_of_frames
from placewright.support.errors import InputError, shown

#: Kinds whose ops are kept even when all of their inputs are constant.
_NEVER_FOLDED = frozenset({"random", "control_flow", "other", "optimizer"})
_SHAPE_QUERIES = ("Shape", "Size")
#: Prefixes of the dtypes of weights: floating-point numbers, and integers of at most eight bits, which are quantised.
_WEIGHTS = ("float", "bfloat", "complex", "int8", "uint8", "int4", "uint4", "int2", "uint2")
_MAX_LISTED = 5


def build_graph(shapes: Shapes, weights: frozenset[str], builder: GraphBuilder | None = None) -> Graph:
    """The graph of a model with ordered nodes.

    weights: names of the initializers. builder: receives the warnings. Raises InputError listing values whose shape is
    not known.
    """
    return _Conversion(shapes, weights, builder or GraphBuilder(shapes.source)).run()


class _Conversion:
    """The state while one model is turned into a graph."""

    def __init__(self, shapes: Shapes, weights: frozenset[str], builder: GraphBuilder) -> None:
        self.model, self.source = shapes.model, shapes.source
        self.shapes, self.weights, self.builder = shapes, weights, builder
        self.tensor_of: dict[str, int] = {}
        #: Values that do not change from step to step, each with the value whose memory it is.
        self.constant: dict[str, str] = {name: name for name in weights}
        self.outputs = {value.name for value in self.model.graph.output}
        self.stored_weights = StoredWeights(self.model.graph, shapes)
        #: For a dequantised weight what its reader takes instead: the stored weight, scales and zero points.
        self.stored: dict[str, list[str]] = {}
        self.num_readers = Counter(value for node in self.model.graph.node for value in values_read(node))
        self.num_readers.update(self.outputs)
        self.versions = {entry.domain: entry.version for entry in self.model.opset_import}
        self.used_names: set[str] = set()
        self.unsized: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        #: Values of unknown shape, with what to say about them: nothing where an input's shape is unknown already.
        self.unshaped: dict[str, str] = {}
        self.literals: set[str] = set()

    def run(self) -> Graph:
        for value in self.model.graph.input:
            if value.name not in self.weights:
                self._add_input(value.name)
        for node in self.model.graph.node:
            self._add_node(node)
        for name in sorted(self.outputs):
            self.builder.change_tensor(self._read(name, "its list of outputs"), is_output=True)
        self._report()
        return self.builder.build(self._metadata())

    def _metadata(self) -> dict[str, Any]:
        producer = f"{self.model.producer_name} {self.model.producer_version}".strip()
        dims: dict[str, Any] = {"dims": dict(sorted(self.shapes.dims.items()))} if self.shapes.dims else {}
        if self.shapes.stated:
            dims["stated_sizes"] = sorted(self.shapes.stated)
        versions = {domain or "ai.onnx": version for domain, version in sorted(self.versions.items())}
        return {"format": "onnx", "source": self.source, "producer": producer, "opset": versions, **dims}

    def _report(self) -> None:
        known, stated = newest_opset(), self.versions.get("", 0)
        if stated > known:
            self.builder.warn(
                f"operator set {stated} is newer than {known}, the newest the installed onnx package knows"
            )
        reasons = [reason for reason in self.unshaped.values() if reason]
        if self.unshaped:
            if problem := self.shapes.contradiction():
                raise InputError(f"'{self.source}' contradicts its operators' definitions: {problem}")
            more = f" (and {len(reasons) - _MAX_LISTED} more)" if len(reasons) > _MAX_LISTED else ""
            raise InputError(f"'{self.source}' leaves shapes open: {'; '.join(reasons[:_MAX_LISTED])}{more}")
        for value, assumption in self.shapes.assumptions.items():
            self.builder.warn(f"how large '{shown(value)}' is depends on the data: {assumption}")
        for operator, count in self.unknown.items():
            self.builder.warn(f"{count} ops of the unknown operator {operator} are kept with kind 'other'")
        for what, count in self.unsized.items():
            self.builder.warn(f"{count} values of type {what} have no fixed size and are counted as 0 bytes")

    def _add_input(self, name: str) -> None:
        self.builder.add_op(
            self._unique(name, f"input:{name}"), "input", outputs=[self._add_tensor(name, "its inputs")]
        )

    def _add_tensor(self, name: str, maker: str, role: TensorRole = "activation", alias_of: int | None = None) -> int:
        if name in self.tensor_of:
            raise InputError(f"'{self.source}' makes the value '{shown(name)}' twice")
        shape, dtype = self.shapes.shape(name), self.shapes.dtype(name)
        self.tensor_of[name] = self.builder.add_tensor(
            name, size_bytes=self._size(name, maker), shape=shape, dtype=dtype, role=role, alias_of=alias_of
        )
        return self.tensor_of[name]

    def _size(self, name: str, maker: str) -> int:
        """The bytes of a value; records it where they cannot be found."""
        shape, dtype = self.shapes.shape(name), self.shapes.dtype(name)
        if not self.shapes.is_tensor(name) or dtype == "string":
            self.unsized["string" if dtype == "string" else "sequence or optional"] += 1
            return 0
        if shape is None or dtype is None:
            self.unshaped[name] = self._unshaped(name, maker)
            return 0
        return tensor_bytes(shape, dtype)

    def _unshaped(self, name: str, maker: str) -> str:
        """The words for what is missing about a value, and how to state it."""
        value_type = self.shapes.types.get(name)
        label = f"'{shown(name)}' of {maker}"
        if value_type is None or not value_type.tensor_type.HasField("shape"):
            return f"{label} has no shape (state it in the model's value_info)"
        dims = value_type.tensor_type.shape.dim
        axes = [axis for axis, dim in enumerate(dims) if not dim.HasField("dim_value")]
        if not axes:
            negative = any(dim.dim_value < 0 for dim in dims)
            kind = value_type.tensor_type.elem_type
            return f"{label} has {'a negative dimension' if negative else f'the unknown element type {kind}'}"
        settings = " ".join(f"--dim {shown(name)}:{axis}=SIZE" for axis in axes)
        unread = next(iter(self._unread(name)), None)
        cause = "depends on the data" if unread is None else f"depends on '{shown(unread)}', whose file is not read"
        return f"{label} {cause} (state it with {settings})"

    def _unread(self, name: str) -> list[str]:
        """Small integer weights in other files that the maker of a value reads."""
        read = [value for node in self.model.graph.node if name in node.output for value in node.input]
        known = [value for value in read if value in self.weights and value not in self.shapes.values]
        return [
            value
            for value in known
            if self.shapes.dtype(value) in ("int32", "int64")
            and math.prod(self.shapes.shape(value) or ()) <= MAX_ELEMENTS
        ]

    def _read(self, name: str, reader: str) -> int:
        """The index of the tensor for a value, which is added now if it is a parameter or constant not read before."""
        base = self.constant.get(name, name)
        if base in self.tensor_of:
            return self.tensor_of[base]
        if base not in self.constant:
            raise InputError(f"'{self.source}': {reader} names '{shown(name)}', which nothing in the model makes")
        dtype = self.shapes.dtype(base) or ""
        role: TensorRole = "parameter" if dtype.startswith(_WEIGHTS) else "constant"
        return self._add_tensor(base, "its weights", "constant" if base in self.literals else role)

    def _add_node(self, node: Any) -> None:
        view = self._view(node)
        kind = kind_of(view)
        if kind is None:
            self.unknown[f"{node.domain or 'ai.onnx'}::{node.op_type}"] += 1
        if self._fold(node, kind or "other"):
            return
        label = label_of(node)
        read = [each for name in values_read(node) for each in self.stored.get(name, [name])]
        is_view = kind == "view" and bool(read)
        if is_view:
            # A constant input of a view, other than its data, only defines the view.
            read = read[:1] + [name for name in read[1:] if name not in self.constant]
        inputs = [self._read(name, label) for name in read]
        outputs = [
            self._add_tensor(name, label, alias_of=inputs[0] if is_view else None)
            for place, name in enumerate(node.output)
            if name and self._is_kept(name, place, is_view)
        ]
        if any(name in self.unshaped for name in read):
            self.unshaped.update(dict.fromkeys(self.unshaped.keys() & set(node.output), ""))
        name = self._name(node)
        attributes, workspace = attributes_of(view, kind or "other"), 0
        if kind == "control_flow":
            inputs += self._inner_weights(node, name)
            attributes, workspace = self._inner_work(node, label)
        module, line = origin_of(node)
        self.builder.add_op(
            name,
            kind or "other",
            target=f"{node.domain}::{node.op_type}" if node.domain else node.op_type,
            inputs=inputs,
            outputs=outputs,
            attributes=attributes,
            module=module,
            source=line,
            workspace_bytes=workspace,
        )

    def _inner_work(self, node: Any, label: str) -> tuple[dict[str, Any], int]:
        """The attributes of an op with subgraphs, and the memory that it needs besides its inputs and outputs."""
        work = work_of(node, self.shapes, self.constant, build_graph)
        if work is None:
            self.builder.warn(f"{label} is kept as one op; what it does inside has no cost")
            return {}, 0
        for warning in work.warnings:
            self.builder.warn(f"in {label}: {warning}")
        if work.assumed:
            self.builder.warn(f"{label} {work.assumed}")
        trips = {} if work.trips is None else {"trips": work.trips}
        return {"flops": work.flops, "bytes_moved": work.bytes_moved, **trips, **work.computes}, work.temporary_bytes

    def _view(self, node: Any) -> NodeView:
        inputs = list(node.input)
        return NodeView(
            op_type=node.op_type,
            domain=node.domain,
            attributes=node_attributes(node),
            inputs=[self.shapes.shape(name) if name else None for name in inputs],
            outputs=[self.shapes.shape(name) if name else None for name in node.output],
            values=[self.shapes.values.get(name) if name else None for name in inputs],
            version=self.versions.get(node.domain, 0),
            num_outputs_read=sum(1 for name in node.output if name and self.num_readers[name]),
            first_is_weight=bool(inputs) and inputs[0] in self.constant,
        )

    def _is_kept(self, name: str, place: int, is_view: bool) -> bool:
        """False for a secondary output that nothing reads, and that is of a view or has no known size."""
        return place == 0 or self.num_readers[name] > 0 or (not is_view and self.shapes.shape(name) is not None)

    def _fold(self, node: Any, kind: str) -> bool:
        """True if the node's results are the same in every step; they are then constants, not made by an op. False for
        a dequantised weight: it is made anew in every step, by an op of its own or by its reader."""
        if kind in _NEVER_FOLDED:
            return False
        if is_dequantisation(node):
            if all(name in self.constant for name in values_read(node)) and self.stored_weights.has(node):
                self.stored[node.output[0]] = list(values_read(node))
            return node.output[0] in self.stored
        # Results of the model are computed in every step, except literal constants.
        if self.outputs & set(node.output) and node.op_type != "Constant":
            return False
        known = node.op_type in _SHAPE_QUERIES and node.output and node.output[0] in self.shapes.values
        if not known and not all(name in self.constant for name in values_read(node)):
            return False
        base = self.constant.get(node.input[0]) if kind == "view" and node.input else None
        for name in node.output:
            if name in self.constant or name in self.tensor_of:
                raise InputError(f"'{self.source}' makes the value '{shown(name)}' twice")
            if name:
                self.constant[name] = base or name
        if node.op_type == "Constant":
            self.literals.update(node.output)
        return True

    def _name(self, node: Any) -> str:
        """The node's name if it has one of its own, else that of its first output."""
        first = next((name for name in node.output if name), "")
        return self._unique(node.name or first or node.op_type, f"{node.name or node.op_type}:{first}")

    def _unique(self, wanted: str, otherwise: str) -> str:
        name = wanted
        if wanted in self.used_names:
            name = otherwise
            self.builder.warn(f"two nodes are named '{shown(wanted)}'; the second is called '{shown(otherwise)}'")
        self.used_names.add(name)
        return name

    def _inner_weights(self, node: Any, op_name: str) -> list[int]:
        """Adds the initializers inside a node's subgraphs as parameters, which stay resident where the node runs."""
        indices = []
        for number, weight in enumerate(_initializers_inside(node)):
            dtype, shape = dtype_name(weight.data_type), tuple(weight.dims)
            size = tensor_bytes(shape, dtype) if dtype not in (None, "string") else 0
            name = f"{op_name}/{number}/{weight.name}"
            indices.append(self.builder.add_tensor(name, size_bytes=size, shape=shape, dtype=dtype, role="parameter"))
        return indices


def _initializers_inside(node: Any) -> Iterable[Any]:
    for graph in subgraphs(node):
        yield from graph.initializer
        for inner in graph.node:
            yield from _initializers_inside(inner)


#: The longest text that can be a list of the layers around a call.
_MAX_CHARACTERS = 10_000


def origin_of(node: Any) -> tuple[str, str]:
    """The dotted path of the layer, and "file.py:line"; each empty where the node does not have it.

    The present exporter writes the layers around a call and its stack trace into the node's metadata; the older one
    puts the layers into the node's name, "/encoder/layer.0/attention/MatMul".
    """
    written = {entry.key.rpartition(".")[2]: entry.value for entry in node.metadata_props if _is_text(entry)}
    scopes = _list(written.get("name_scopes", ""))
    parts = [part for part in node.name.split("/") if part] if "/" in node.name else [""]
    module = scopes[-2] if len(scopes) > 1 else ".".join(parts[:-1])
    return module, source_of_frames(written.get("stack_trace", ""))


def _is_text(entry: Any) -> bool:
    """True for text: the protobuf package returns bytes where a text is not UTF-8."""
    return isinstance(entry.key, str) and isinstance(entry.value, str) and entry.key.startswith("pkg.torch.onnx.")


def _list(text: str) -> list[str]:
    """A list of texts parsed from its Python repr; empty if it is none."""
    try:
        value = ast.literal_eval(text) if len(text) <= _MAX_CHARACTERS else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return []
    return value if isinstance(value, list) and all(isinstance(entry, str) for entry in value) else []
