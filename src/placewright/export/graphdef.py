"""TensorFlow's GraphDef: a node per op with its device, and control inputs that keep each device's order.

Sources: tensorflow/core/framework/{graph,node_def,attr_value,versions}.proto, and python/ops/script_ops for the
stand-in. A graph from elsewhere has no TensorFlow ops, and CostGraphDef does not say which ops it has; so every op is a
PyFuncStateless, which TensorFlow knows with any inputs and outputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path

from placewright.export.protobuf_writer import to_binary, to_text
from placewright.graph import Graph, Op, Tensor
from placewright.importers.costgraph import DATA_TYPES
from placewright.importers.protobuf_reader import Field, Record, Schema
from placewright.machine import Device
from placewright.plans.record import Plan
from placewright.support.quantities import counted

SCHEMA: Schema = {
    "GraphDef": {
        1: Field(name="node", kind="NodeDef", repeated=True),
        4: Field(name="versions", kind="VersionDef"),
    },
    "VersionDef": {1: Field(name="producer", kind="int32")},
    "NodeDef": {
        1: Field(name="name", kind="string"),
        2: Field(name="op", kind="string"),
        3: Field(name="input", kind="string", repeated=True),
        4: Field(name="device", kind="string"),
        5: Field(name="attr", kind="Attr", repeated=True),
    },
    "Attr": {1: Field(name="key", kind="string"), 2: Field(name="value", kind="AttrValue")},
    "AttrValue": {
        1: Field(name="list", kind="ListValue"),
        2: Field(name="s", kind="string"),
        6: Field(name="type", kind="enum"),
        7: Field(name="shape", kind="TensorShapeProto"),
    },
    "ListValue": {
        6: Field(name="type", kind="enum", repeated=True),
        7: Field(name="shape", kind="TensorShapeProto", repeated=True),
    },
    "TensorShapeProto": {
        2: Field(name="dim", kind="Dim", repeated=True),
        3: Field(name="unknown_rank", kind="bool"),
    },
    "Dim": {1: Field(name="size", kind="int64")},
}
#: Of the format of graphs that TensorFlow 2 writes.
_PRODUCER = 1087
_DataType = IntEnum("_DataType", list(DATA_TYPES))  # type: ignore[misc]
#: The first TensorFlow type of each dtype; quantised types come later and have the width of plain ones.
_TYPE_OF = {dtype: _DataType[name] for name, dtype in reversed(DATA_TYPES.items())}
_NO_NAME = re.compile(r"[^A-Za-z0-9_./>-]")


def to_bytes(plan: Plan, graph: Graph) -> bytes:
    """The graph in wire format."""
    return to_binary(_graph_def(plan, graph), SCHEMA, "GraphDef")


def to_text_bytes(plan: Plan, graph: Graph) -> bytes:
    """The graph in text format."""
    return to_text(_graph_def(plan, graph), SCHEMA, "GraphDef").encode()


def left_out(plan: Plan, graph: Graph, measured: Path | None) -> tuple[list[str], list[str]]:
    """What of the plan a GraphDef cannot hold, in sentences."""
    told = [
        "left out, since a GraphDef cannot say it: when tensors move and are freed, times, memory limits",
        "every op is a PyFuncStateless with its own op as token: TensorFlow loads the graph and cannot compute it",
    ]
    changed = sum(name != original for name, original in zip(_names(graph), _originals(graph), strict=True))
    if changed:
        told.append(
            f"{counted(changed, 'name')} changed to what TensorFlow allows; the attribute _name has the old one"
        )
    return told, []


def _graph_def(plan: Plan, graph: Graph) -> Record:
    names = _names(graph)
    ops, tensors = names[: len(graph.ops)], names[len(graph.ops) :]
    held = [index for index, producer in enumerate(graph.producer_of) if producer < 0]
    tensor_name = dict(zip(held, tensors, strict=True))
    devices = _device_strings(plan.machine.devices)
    of_op, of_tensor = _places(plan, graph)
    before = _before_on_device(plan, graph)
    nodes = [
        _held_node(graph.tensors[index], tensor_name[index], devices.get(of_tensor.get(index, -1), ""))
        for index in held
    ]
    for index, op in enumerate(graph.ops):
        inputs = [_reference(graph, tensor, ops, tensor_name) for tensor in op.inputs]
        controls = sorted({*op.controls, *before.get(index, ())})
        # An op that an operand waits for needs no control input.
        data = {graph.producer_of[tensor] for tensor in op.inputs}
        inputs += [f"^{ops[control]}" for control in controls if control not in data]
        nodes.append(_op_node(graph, op, ops[index], inputs, devices.get(of_op.get(index, -1), "")))
    return {"node": nodes, "versions": {"producer": _PRODUCER}}


def _originals(graph: Graph) -> list[str]:
    """Names of ops, then of the tensors that no op produces."""
    held = (tensor for tensor, producer in zip(graph.tensors, graph.producer_of, strict=True) if producer < 0)
    return [*(op.name for op in graph.ops), *(tensor.name for tensor in held)]


def _names(graph: Graph) -> list[str]:
    """As `_originals`, each as TensorFlow allows it, and each once."""
    taken: set[str] = set()
    names = []
    for original in _originals(graph):
        name = _NO_NAME.sub("_", original) or "_"
        name = name if re.match(r"[A-Za-z0-9.]", name) else f"op{name}"
        number, free = 0, name
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        taken.add(free)
        names.append(free)
    return names


def _device_strings(devices: Sequence[Device]) -> dict[int, str]:
    """Device index -> "/device:GPU:0"; devices of one sort are counted."""
    counts: dict[str, int] = {}
    found = {}
    for index, device in enumerate(devices):
        sort = "CPU" if device.is_cpu else "TPU" if device.kind.startswith("tpu") else "GPU"
        found[index] = f"/device:{sort}:{counts.setdefault(sort, 0)}"
        counts[sort] += 1
    return found


def _places(plan: Plan, graph: Graph) -> tuple[dict[int, int], dict[int, int]]:
    """Device of every op, and of every tensor that no op produces: where the first op stands that reads it. A view
    stands with what it is a view of."""
    scheduled = plan.device_of
    of_op = {index: scheduled[op.name] for index, op in enumerate(graph.ops) if op.name in scheduled}
    of_tensor: dict[int, int] = {}
    for index, op in enumerate(graph.ops):
        maker = next((graph.producer_of[tensor] for tensor in op.inputs if graph.producer_of[tensor] >= 0), -1)
        if index not in of_op and maker in of_op:
            of_op[index] = of_op[maker]
    for index in reversed(range(len(graph.ops))):
        op = graph.ops[index]
        if index not in of_op:
            readers = [reader for tensor in op.outputs for reader in graph.consumers_of[tensor] if reader in of_op]
            if readers:
                of_op[index] = of_op[min(readers)]
        if index in of_op:
            of_tensor.update({tensor: of_op[index] for tensor in op.inputs if graph.producer_of[tensor] < 0})
    return of_op, of_tensor


def _before_on_device(plan: Plan, graph: Graph) -> dict[int, tuple[int, ...]]:
    """Per op the op that the plan runs right before it on its device."""
    index_of = {op.name: index for index, op in enumerate(graph.ops)}
    last: dict[int, int] = {}
    before: dict[int, tuple[int, ...]] = {}
    for op in plan.ops:
        index = index_of[op.name]
        if op.device in last:
            before[index] = (last[op.device],)
        last[op.device] = index
    return before


def _reference(graph: Graph, tensor: int, ops: Sequence[str], tensor_name: Mapping[int, str]) -> str:
    producer = graph.producer_of[tensor]
    if producer < 0:
        return tensor_name[tensor]
    port = graph.ops[producer].outputs.index(tensor)
    return f"{ops[producer]}:{port}" if port else ops[producer]


def _op_node(graph: Graph, op: Op, name: str, inputs: Sequence[str], device: str) -> Record:
    outputs = [graph.tensors[tensor] for tensor in op.outputs]
    if op.kind == "input" and len(outputs) == 1 and not op.inputs:
        return _node(name, "Placeholder", inputs, device, [*_holder_attributes(outputs[0]), *_named(op.name, name)])
    attributes = [
        _attribute("Tin", list={"type": [_type(graph.tensors[tensor]) for tensor in op.inputs]}),
        _attribute("Tout", list={"type": [_type(tensor) for tensor in outputs]}),
        _attribute("_output_shapes", list={"shape": [_shape(tensor) for tensor in outputs]}),
        _attribute("token", s=op.target or op.kind),
        *_named(op.name, name),
    ]
    return _node(name, "PyFuncStateless", inputs, device, attributes)


def _held_node(tensor: Tensor, name: str, device: str) -> Record:
    return _node(name, "Placeholder", (), device, [*_holder_attributes(tensor), *_named(tensor.name, name)])


def _holder_attributes(tensor: Tensor) -> list[Record]:
    return [_attribute("dtype", type=_type(tensor)), _attribute("shape", shape=_shape(tensor))]


def _named(original: str, name: str) -> Iterator[Record]:
    if original != name:
        yield _attribute("_name", s=original)


def _node(name: str, op: str, inputs: Sequence[str], device: str, attributes: Sequence[Record]) -> Record:
    return {"name": name, "op": op, "input": inputs, "device": device, "attr": attributes}


def _attribute(name: str, **value: object) -> Record:
    return {"key": name, "value": value}


def _type(tensor: Tensor) -> IntEnum:
    """Types that TensorFlow has no name for are of an unknown one."""
    return _TYPE_OF.get(tensor.dtype or "variant", _DataType["DT_VARIANT"])


def _shape(tensor: Tensor) -> Record:
    if tensor.shape is None:
        return {"unknown_rank": True}
    return {"dim": [{"size": extent} for extent in tensor.shape]}
