"""TensorFlow's CostGraphDef, text or binary, without TensorFlow; the format of REGAL's released data too.

Source: tensorflow/core/framework/cost_graph.proto.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from placewright.graph import Graph
from placewright.importers.builder import GraphBuilder
from placewright.importers.protobuf_reader import BinaryReader, Field, Record, TextReader
from placewright.support.errors import InputError, shown

_SCHEMA = {
    "CostGraphDef": {
        1: Field(name="node", kind="Node", repeated=True),
        2: Field(name="cost", kind="AggregatedCost", repeated=True),
    },
    "AggregatedCost": {1: Field(name="cost", kind="float"), 2: Field(name="dimension", kind="string")},
    "Node": {
        1: Field(name="name", kind="string"),
        2: Field(name="device", kind="string"),
        3: Field(name="id", kind="int32"),
        4: Field(name="input_info", kind="InputInfo", repeated=True),
        5: Field(name="output_info", kind="OutputInfo", repeated=True),
        6: Field(name="temporary_memory_size", kind="int64"),
        7: Field(name="is_final", kind="bool"),
        8: Field(name="control_input", kind="int32", repeated=True),
        9: Field(name="compute_cost", kind="int64"),
        10: Field(name="host_temp_memory_size", kind="int64"),
        11: Field(name="device_temp_memory_size", kind="int64"),
        12: Field(name="persistent_memory_size", kind="int64"),
        14: Field(name="compute_time", kind="int64"),
        15: Field(name="memory_time", kind="int64"),
        16: Field(name="device_persistent_memory_size", kind="int64"),
        17: Field(name="inaccurate", kind="bool"),
    },
    "InputInfo": {1: Field(name="preceding_node", kind="int32"), 2: Field(name="preceding_port", kind="int32")},
    "OutputInfo": {
        1: Field(name="size", kind="int64"),
        2: Field(name="alias_input_port", kind="int64"),
        3: Field(name="shape", kind="TensorShapeProto"),
        4: Field(name="dtype", kind="enum"),
    },
    "TensorShapeProto": {
        2: Field(name="dim", kind="Dim", repeated=True),
        3: Field(name="unknown_rank", kind="bool"),
    },
    "Dim": {1: Field(name="size", kind="int64"), 2: Field(name="name", kind="string")},
}
#: TensorFlow's DataType in the order of its numbers, from 1. Quantised types have the width of plain ones.
DATA_TYPES = {
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
}


def parse_costgraph(data: bytes, name: str) -> Graph:
    """One op per node, one tensor per output; compute_cost is taken as nanoseconds whatever its unit was.

    Raises InputError naming the file and the line, byte or node.
    """
    nodes: list[Record] = _read(data, name).get("node", [])
    if not nodes:
        raise InputError(f"'{name}' holds no nodes, so it is no CostGraphDef")
    builder = GraphBuilder(name)
    names = _names(builder, nodes)
    outputs = [_add_outputs(builder, node, label) for node, label in zip(nodes, names, strict=True)]
    _add_ops(builder, nodes, names, outputs)
    return builder.build({"format": "costgraph", "source": name})


def _read(data: bytes, name: str) -> Record:
    """The message in whichever of the two encodings it stands: only the binary one has control characters."""
    if re.search(rb"[\x00-\x08\x0e-\x1f]", data[:4096]):
        return BinaryReader(data, _SCHEMA, name).read("CostGraphDef")
    return TextReader(data.decode(errors="replace"), _SCHEMA, name).read("CostGraphDef")


def _names(builder: GraphBuilder, nodes: Sequence[Record]) -> list[str]:
    """A name for each node; TensorFlow writes a `_SOURCE` and `_SINK` per partition, and repeats get their id added."""
    names = [node.get("name", "") for node in nodes]
    times_used = Counter(names)
    if times_used[""]:
        raise InputError(f"'{builder.name}': node number {names.index('')} has no name")
    for name, times in times_used.items():
        if times > 1:
            builder.warn(f"{times} nodes are named '{shown(name)}'; each is called by its name and id")
    return [
        f"{name}#{node.get('id', 0)}" if times_used[name] > 1 else name for name, node in zip(names, nodes, strict=True)
    ]


def _add_outputs(builder: GraphBuilder, node: Record, label: str) -> list[int]:
    """Adds a tensor per output of the node and returns their indices; aliases are set once all tensors exist."""
    return [
        builder.add_tensor(
            f"{label}:{port}",
            size_bytes=output.get("size", 0),
            shape=_shape(output.get("shape", {"unknown_rank": True})),
            dtype=_dtype(output.get("dtype", 0)),
            is_output=node.get("is_final", False),
        )
        for port, output in enumerate(node.get("output_info", []))
    ]


def _shape(shape: Record) -> tuple[int, ...] | None:
    extents = tuple(dim.get("size", 0) for dim in shape.get("dim", []))
    return None if shape.get("unknown_rank", False) or any(extent < 0 for extent in extents) else extents


def _dtype(code: int | str) -> str | None:
    """dtype of a DataType by name or number; a reference (`_REF`, 100 more) has its target's."""
    if isinstance(code, str):
        return DATA_TYPES.get(code.removesuffix("_REF"))
    dtypes = [None, *DATA_TYPES.values()]
    return dtypes[code % 100] if code % 100 < len(dtypes) else None


def _add_ops(
    builder: GraphBuilder, nodes: Sequence[Record], names: Sequence[str], outputs: Sequence[list[int]]
) -> None:
    """Adds an op per node, with its persistent memory as a parameter that it reads."""
    node_of_id = _index_by_id(builder.name, nodes, names)
    for index, (node, label) in enumerate(zip(nodes, names, strict=True)):
        inputs = [_input(builder.name, label, entry, node_of_id, outputs) for entry in node.get("input_info", [])]
        is_alias = _set_aliases(builder, node, inputs, outputs[index], label)
        persistent = node.get("persistent_memory_size", 0) or node.get("device_persistent_memory_size", 0)
        if persistent:
            inputs.append(builder.add_tensor(f"{label}/persistent", size_bytes=persistent, role="parameter"))
        temporary = node.get("temporary_memory_size", 0) or sum(
            node.get(f"{place}_temp_memory_size", 0) for place in ("host", "device")
        )
        time_ns = node.get("compute_cost", 0)
        builder.add_op(
            label,
            "view" if is_alias and time_ns == temporary == persistent == 0 else "other",
            inputs=inputs,
            outputs=outputs[index],
            controls=[_node(builder.name, label, entry, node_of_id) for entry in node.get("control_input", [])],
            attributes={"device": node["device"]} if node.get("device") else {},
            module=".".join(label.split("/")[:-1]),
            time_ns=time_ns,
            workspace_bytes=temporary,
        )


def _index_by_id(graph_name: str, nodes: Sequence[Record], names: Sequence[str]) -> dict[int, int]:
    node_of_id: dict[int, int] = {}
    for index, node in enumerate(nodes):
        first = node_of_id.setdefault(node.get("id", 0), index)
        if first != index:
            both = f"'{shown(names[first])}' and '{shown(names[index])}'"
            raise InputError(f"'{graph_name}': nodes {both} have the same id {node.get('id', 0)}")
    return node_of_id


def _node(graph_name: str, label: str, wanted: int, node_of_id: dict[int, int]) -> int:
    if wanted not in node_of_id:
        raise InputError(f"'{graph_name}': node '{shown(label)}' depends on node id {wanted}, which does not exist")
    return node_of_id[wanted]


def _input(graph_name: str, label: str, entry: Record, node_of_id: dict[int, int], outputs: Sequence[list[int]]) -> int:
    """The tensor an input_info names."""
    tensors = outputs[_node(graph_name, label, entry.get("preceding_node", 0), node_of_id)]
    port = entry.get("preceding_port", 0)
    if not 0 <= port < len(tensors):
        where = f"output {port} of node id {entry.get('preceding_node', 0)}"
        raise InputError(f"'{graph_name}': node '{shown(label)}' reads {where}, which has {len(tensors)} outputs")
    return tensors[port]


def _set_aliases(
    builder: GraphBuilder, node: Record, inputs: Sequence[int], outputs: Sequence[int], label: str
) -> bool:
    """Makes outputs with an alias_input_port of 0 or more share that input's memory; True when all outputs do.

    A left out port means 0, as always in protocol buffers, which is no alias when the node has no inputs.
    """
    ports = [output.get("alias_input_port", 0) for output in node.get("output_info", [])]
    for output, port in zip(outputs, ports, strict=True):
        if port > 0 and port >= len(inputs):
            raise InputError(
                f"'{builder.name}': an output of node '{shown(label)}' aliases input {port}, which does not exist"
            )
        if port >= 0 and inputs:
            builder.change_tensor(output, alias_of=inputs[port])
    return bool(inputs) and bool(ports) and all(port >= 0 for port in ports)
