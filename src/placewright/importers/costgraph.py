"""TensorFlow's CostGraphDef, text or binary, without TensorFlow; also the format of REGAL's released data.

Source: tensorflow/core/framework/{cost_graph,tensor_shape,types}.proto.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from placewright.graph import Graph
from placewright.importers.builder import GraphBuilder
from placewright.support.errors import InputError, MissingExtraError, shown

#: The fields of each message, as .proto files state them.
_MESSAGES = {
    "CostGraphDef": "repeated Node node = 1; repeated AggregatedCost cost = 2",
    "AggregatedCost": "float cost = 1; string dimension = 2",
    "Node": "string name = 1; string device = 2; int32 id = 3; repeated InputInfo input_info = 4; "
    "repeated OutputInfo output_info = 5; int64 temporary_memory_size = 6; bool is_final = 7; "
    "repeated int32 control_input = 8; int64 compute_cost = 9; int64 host_temp_memory_size = 10; "
    "int64 device_temp_memory_size = 11; int64 persistent_memory_size = 12; int64 compute_time = 14; "
    "int64 memory_time = 15; int64 device_persistent_memory_size = 16; bool inaccurate = 17",
    "InputInfo": "int32 preceding_node = 1; int32 preceding_port = 2",
    "OutputInfo": "int64 size = 1; int64 alias_input_port = 2; TensorShapeProto shape = 3; DataType dtype = 4",
    "TensorShapeProto": "repeated Dim dim = 2; bool unknown_rank = 3",
    "Dim": "int64 size = 1; string name = 2",
}
#: TensorFlow's DataType in the order of its numbers, from 1. Quantised types have the width of plain ones.
_DATA_TYPES = {
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
    "DT_INT32": "int32",
    "DT_UINT8": "uint8",
    "DT_INT16": "int16",
    "DT_INT8": "int8",
    "DT_STRING": "string",
    "DT_COMPLEX64": "complex64",
    "DT_INT64": "int64",
    "DT_BOOL": "bool",
    "DT_QINT8": "int8",
    "DT_QUINT8": "uint8",
    "DT_QINT32": "int32",
    "DT_BFLOAT16": "bfloat16",
    "DT_QINT16": "int16",
    "DT_QUINT16": "uint16",
    "DT_UINT16": "uint16",
    "DT_COMPLEX128": "complex128",
    "DT_HALF": "float16",
    "DT_RESOURCE": "resource",
    "DT_VARIANT": "variant",
    "DT_UINT32": "uint32",
    "DT_UINT64": "uint64",
    "DT_FLOAT8_E5M2": "float8_e5m2",
    "DT_FLOAT8_E4M3FN": "float8_e4m3fn",
    "DT_FLOAT8_E4M3FNUZ": "float8_e4m3fnuz",
    "DT_FLOAT8_E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "DT_FLOAT8_E5M2FNUZ": "float8_e5m2fnuz",
    "DT_INT4": "int4",
    "DT_UINT4": "uint4",
    "DT_INT2": "int2",
    "DT_UINT2": "uint2",
}


def parse_costgraph(data: bytes, name: str) -> Graph:
    """One op per node, one tensor per output; compute_cost is taken as nanoseconds whatever its unit was.

    Raises InputError naming the file and, where they are known, the line or the node; MissingExtraError without
    protobuf.
    """
    nodes = _read(data, name).node
    if not nodes:
        raise InputError(f"'{name}' holds no nodes, so it is no CostGraphDef")
    builder = GraphBuilder(name)
    names = _names(builder, nodes)
    outputs = [_add_outputs(builder, node, label) for node, label in zip(nodes, names, strict=True)]
    _add_ops(builder, nodes, names, outputs)
    return builder.build({"format": "costgraph", "source": name})


def _read(data: bytes, name: str) -> Any:
    """The message in whichever of the two encodings the data has: only the binary one has control characters."""
    try:
        from google.protobuf import text_format
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise MissingExtraError("protobuf", "costgraph", "reading a CostGraphDef") from error
    message = _message_class()()
    if not re.search(rb"[\x00-\x08\x0e-\x1f]", data[:4096]):
        try:
            return text_format.Parse(data.decode(errors="replace"), message)
        except text_format.ParseError as error:
            # The text after the column, without the copy of the line in quotes that most messages begin with.
            problem = re.sub("^'.*': ", "", str(error).partition(" : ")[2]).rstrip(".")
            raise InputError(f"'{name}', line {error.GetLine()}: {shown(problem)}") from error
    try:
        message.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"'{name}' is no CostGraphDef, or it is cut off") from error
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        raise InputError(f"'{name}' has fields that a CostGraphDef has not, so this is another kind of file")
    return message


@cache
def _message_class() -> Any:
    """The class of a CostGraphDef, made by protobuf from the fields above."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    entry = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="cost_graph.proto", syntax="proto3")
    data_type = file.enum_type.add(name="DataType")
    data_type.value.add(name="DT_INVALID", number=0)
    for code, label in enumerate(_DATA_TYPES, start=1):
        data_type.value.add(name=label, number=code)
        data_type.value.add(name=f"{label}_REF", number=code + 100)
    for title, fields in _MESSAGES.items():
        message = file.message_type.add(name=title)
        for text in fields.split("; "):
            *repeated, kind, name, _, number = text.split()
            field = message.field.add(name=name, number=int(number))
            field.label = entry.LABEL_REPEATED if repeated else entry.LABEL_OPTIONAL
            if kind in _MESSAGES or kind == "DataType":
                field.type_name = kind
            else:
                field.type = entry.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("CostGraphDef"))


def _names(builder: GraphBuilder, nodes: Sequence[Any]) -> list[str]:
    """A name for each node; TensorFlow writes a `_SOURCE` and `_SINK` per partition, and repeated names get their id
    added."""
    names = [node.name for node in nodes]
    times_used = Counter(names)
    if times_used[""]:
        raise InputError(f"'{builder.name}': node number {names.index('')} has no name")
    for name, times in times_used.items():
        if times > 1:
            builder.warn(f"{times} nodes are named '{shown(name)}'; each is called by its name and id")
    return [f"{node.name}#{node.id}" if times_used[node.name] > 1 else node.name for node in nodes]


def _add_outputs(builder: GraphBuilder, node: Any, label: str) -> list[int]:
    """Adds a tensor per output of the node and returns their indices; aliases are set once all tensors exist."""
    return [
        builder.add_tensor(
            f"{label}:{port}",
            size_bytes=output.size,
            shape=_shape(output.shape) if output.HasField("shape") else None,
            dtype=_dtype(output.dtype),
            is_output=node.is_final,
        )
        for port, output in enumerate(node.output_info)
    ]


def _shape(shape: Any) -> tuple[int, ...] | None:
    extents = tuple(dim.size for dim in shape.dim)
    return None if shape.unknown_rank or any(extent < 0 for extent in extents) else extents


def _dtype(code: int) -> str | None:
    """The dtype of a DataType; a reference (`_REF`, 100 more) has its target's."""
    dtypes = [None, *_DATA_TYPES.values()]
    return dtypes[code % 100] if code % 100 < len(dtypes) else None


def _add_ops(builder: GraphBuilder, nodes: Sequence[Any], names: Sequence[str], outputs: Sequence[list[int]]) -> None:
    """Adds an op per node, with its persistent memory as a parameter that it reads."""
    node_of_id = _index_by_id(builder.name, nodes, names)
    for index, (node, label) in enumerate(zip(nodes, names, strict=True)):
        inputs = [_input(builder.name, label, entry, node_of_id, outputs) for entry in node.input_info]
        is_alias = _set_aliases(builder, node, inputs, outputs[index], label)
        persistent = node.persistent_memory_size or node.device_persistent_memory_size
        if persistent:
            inputs.append(builder.add_tensor(f"{label}/persistent", size_bytes=persistent, role="parameter"))
        temporary = node.temporary_memory_size or node.host_temp_memory_size + node.device_temp_memory_size
        builder.add_op(
            label,
            "view" if is_alias and node.compute_cost == temporary == persistent == 0 else "other",
            inputs=inputs,
            outputs=outputs[index],
            controls=[_node(builder.name, label, entry, node_of_id) for entry in node.control_input],
            attributes={"device": node.device} if node.device else {},
            module=".".join(label.split("/")[:-1]),
            time_ns=node.compute_cost,
            workspace_bytes=temporary,
        )


def _index_by_id(graph_name: str, nodes: Sequence[Any], names: Sequence[str]) -> dict[int, int]:
    node_of_id: dict[int, int] = {}
    for index, node in enumerate(nodes):
        first = node_of_id.setdefault(node.id, index)
        if first != index:
            both = f"'{shown(names[first])}' and '{shown(names[index])}'"
            raise InputError(f"'{graph_name}': nodes {both} have the same id {node.id}")
    return node_of_id


def _node(graph_name: str, label: str, wanted: int, node_of_id: dict[int, int]) -> int:
    if wanted not in node_of_id:
        raise InputError(f"'{graph_name}': node '{shown(label)}' depends on node id {wanted}, which does not exist")
    return node_of_id[wanted]


def _input(graph_name: str, label: str, entry: Any, node_of_id: dict[int, int], outputs: Sequence[list[int]]) -> int:
    """The tensor an input_info names."""
    tensors = outputs[_node(graph_name, label, entry.preceding_node, node_of_id)]
    port: int = entry.preceding_port
    if not 0 <= port < len(tensors):
        where = f"output {port} of node id {entry.preceding_node}"
        raise InputError(f"'{graph_name}': node '{shown(label)}' reads {where}, which has {len(tensors)} outputs")
    return tensors[port]


def _set_aliases(builder: GraphBuilder, node: Any, inputs: Sequence[int], outputs: Sequence[int], label: str) -> bool:
    """Makes outputs with an alias_input_port of 0 or more share that input's memory; returns True when all outputs do.

    A missing port means 0, as always in protocol buffers, which is no alias when the node has no inputs.
    """
    ports = [output.alias_input_port for output in node.output_info]
    for output, port in zip(outputs, ports, strict=True):
        if port > 0 and port >= len(inputs):
            raise InputError(
                f"'{builder.name}': an output of node '{shown(label)}' aliases input {port}, which does not exist"
            )
        if port >= 0 and inputs:
            builder.change_tensor(output, alias_of=inputs[port])
    return bool(inputs) and bool(ports) and all(port >= 0 for port in ports)
