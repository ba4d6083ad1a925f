"""A GraphDef as Google's protobuf package reads it by TensorFlow's own messages: devices, inputs and order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from instances import graph_of

import placewright
from placewright.export import export_plan, graphdef, told_of_export
from placewright.export.protobuf_writer import to_binary, to_text
from placewright.graph import Graph
from placewright.importers.costgraph import DATA_TYPES, parse_costgraph
from placewright.importers.protobuf_reader import BinaryReader, TextReader
from placewright.plans.record import Plan

#: Written out from TensorFlow's .proto files: message -> number, name, type of each field, * for repeated.
MESSAGES = {
    "GraphDef": "1 node NodeDef*, 4 versions VersionDef, 3 version int32",
    "VersionDef": "1 producer int32, 2 min_consumer int32, 3 bad_consumers int32*",
    "NodeDef": "1 name string, 2 op string, 3 input string*, 4 device string, 5 attr NodeDef.AttrEntry*",
    "AttrValue": "1 list AttrValue.ListValue, 2 s bytes, 3 i int64, 4 f float, 5 b bool, 6 type DataType, "
    "7 shape TensorShapeProto",
    "AttrValue.ListValue": "2 s bytes*, 3 i int64*, 4 f float*, 5 b bool*, 6 type DataType*, 7 shape TensorShapeProto*",
    "TensorShapeProto": "2 dim TensorShapeProto.Dim*, 3 unknown_rank bool",
    "TensorShapeProto.Dim": "1 size int64, 2 name string",
}


def tensorflow_graph_def() -> Any:
    """The message class GraphDef."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="graph.proto", package="tensorflow", syntax="proto3")
    types = file.enum_type.add(name="DataType")
    types.value.add(name="DT_INVALID", number=0)
    for number, name in enumerate(DATA_TYPES, start=1):
        types.value.add(name=name, number=number)
    made: dict[str, Any] = {}
    for message, fields in MESSAGES.items():
        outer, _, inner = message.rpartition(".")
        made[message] = made[outer].nested_type.add(name=inner) if outer else file.message_type.add(name=inner)
        for text in fields.split(", "):
            place, name, kind = text.split()
            label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            field = made[message].field.add(name=name, number=int(place), label=label)
            kind = kind.removesuffix("*")
            if kind[0].isupper():
                field.type = kinds.TYPE_ENUM if kind == "DataType" else kinds.TYPE_MESSAGE
                field.type_name = f".tensorflow.{kind}"
            else:
                field.type = getattr(kinds, f"TYPE_{kind.upper()}")
    entry = made["NodeDef"].nested_type.add(name="AttrEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=kinds.LABEL_OPTIONAL, type=kinds.TYPE_STRING)
    value = entry.field.add(name="value", number=2, label=kinds.LABEL_OPTIONAL, type=kinds.TYPE_MESSAGE)
    value.type_name = ".tensorflow.AttrValue"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.GraphDef"))


def exported(plan: Plan, graph: Graph, folder: Path) -> Any:
    """What both encodings say: the same."""
    for name in ("graph.pb", "graph.pbtxt"):
        export_plan(plan, "graphdef", folder / name, graph=graph)
    binary = tensorflow_graph_def()()
    binary.ParseFromString((folder / "graph.pb").read_bytes())
    text = text_format.Parse((folder / "graph.pbtxt").read_text(), tensorflow_graph_def()())
    assert binary.SerializeToString(deterministic=True) == text.SerializeToString(deterministic=True)
    return binary


COSTS = b"""
node { name: "x" id: 1 output_info { size: 8 alias_input_port: -1 dtype: DT_FLOAT shape { dim { size: 2 } } } }
node { name: "layer/a" id: 2 input_info { preceding_node: 1 } compute_cost: 50000 persistent_memory_size: 1000
  output_info { size: 8 alias_input_port: -1 dtype: DT_FLOAT shape { dim { size: 2 } } }
  output_info { size: 8 alias_input_port: -1 dtype: DT_INT64 } }
node { name: "b" id: 3 input_info { preceding_node: 1 } compute_cost: 20000
  output_info { size: 8 alias_input_port: -1 dtype: DT_HALF shape { } } }
node { name: "c" id: 4 control_input: 3 compute_cost: 20000 output_info { size: 8 alias_input_port: -1 } }
node { name: "_sum up" id: 5 input_info { preceding_node: 2 preceding_port: 1 } input_info { preceding_node: 3 }
  compute_cost: 10000 is_final: true }
"""


def test_a_costgraph_becomes_nodes_with_devices_inputs_and_control_inputs(tmp_path: Path) -> None:
    """a alone on gpu0. b, c and the sum on gpu1 in this order: c waits for b as in the CostGraphDef, the sum for c."""
    graph = parse_costgraph(COSTS, "costs")
    pins = {"layer/a": 1, "x": 0, "b": 2, "c": 2, "_sum up": 2}
    plan = placewright.plan(graph, "cpu+2xp100", pins=pins)
    found = exported(plan, graph, tmp_path)
    assert [(node.name, node.op, node.device, list(node.input)) for node in found.node] == [
        ("layer/a/persistent", "Placeholder", "/device:GPU:0", []),
        ("x", "PyFuncStateless", "/device:CPU:0", []),
        ("layer/a", "PyFuncStateless", "/device:GPU:0", ["x", "layer/a/persistent"]),
        ("b", "PyFuncStateless", "/device:GPU:1", ["x"]),
        ("c", "PyFuncStateless", "/device:GPU:1", ["^b"]),
        ("op_sum_up", "PyFuncStateless", "/device:GPU:1", ["layer/a:1", "b", "^c"]),
    ]
    attributes = found.node[2].attr
    number = {name: number for number, name in enumerate(DATA_TYPES, start=1)}
    assert list(attributes["Tin"].list.type) == [number["DT_FLOAT"], number["DT_VARIANT"]]
    assert list(attributes["Tout"].list.type) == [number["DT_FLOAT"], number["DT_INT64"]]
    assert [dim.size for dim in attributes["_output_shapes"].list.shape[0].dim] == [2]
    assert attributes["_output_shapes"].list.shape[1].unknown_rank
    assert attributes["token"].s == b"other"
    assert found.node[5].attr["_name"].s == b"_sum up"
    told, warnings = told_of_export(plan, "graphdef", graph)
    assert told[0] == "left out, since a GraphDef cannot say it: when tensors move and are freed, times, memory limits"
    assert told[2] == "1 name changed to what TensorFlow allows; the attribute _name has the old one"
    assert warnings == []


def test_every_device_keeps_the_order_of_the_plan(tmp_path: Path) -> None:
    """On a training step of Inception-v3, with views and an optimizer: each op of a device needs the one before it."""
    path = Path(placewright.__file__).parent / "examples" / "graphs" / "inception-v3-train.json.gz"
    graph = placewright.load_graph(path)
    plan = placewright.plan(graph, "2xp100", evaluations=1)
    found = exported(plan, graph, tmp_path)
    original = {node.name: node.attr["_name"].s.decode() if "_name" in node.attr else node.name for node in found.node}
    assert len(original) == len(found.node)
    needs: dict[str, set[str]] = {}
    data: dict[str, list[str]] = {}
    device = {original[node.name]: node.device for node in found.node}
    for node in found.node:
        sources = [text.removeprefix("^").partition(":")[0] for text in node.input]
        assert all(source in original for source in sources)
        needs[original[node.name]] = {original[source] for source in sources}
        data[original[node.name]] = [text for text in node.input if not text.startswith("^")]
        marks = [text.startswith("^") for text in node.input]
        assert marks == sorted(marks)
    last: dict[int, str] = {}
    for op in plan.ops:
        assert device[op.name] == f"/device:GPU:{op.device}"
        assert op.device not in last or last[op.device] in needs[op.name]
        last[op.device] = op.name
    assert {op.name: len(op.inputs) for op in graph.ops} == {op.name: len(data[op.name]) for op in graph.ops}
    assert all(device[op.name] for op in graph.ops)


def test_names_that_tensorflow_forbids_are_changed_and_stay_apart() -> None:
    graph = graph_of(dict.fromkeys(("a b", "a_b", "a_b_1", "é", ""), ("", 4)))
    assert graphdef._names(graph) == ["a_b", "a_b_1", "a_b_1_1", "op_", "op__1"]


def test_the_writer_writes_what_the_readers_read() -> None:
    """Random nodes with texts that need escapes, and extents of any size."""
    rng = random.Random(3)
    nodes = [
        {
            "name": "".join(rng.choice("aé\n\t\"'\\\0 7/") for _ in range(rng.randint(1, 6))),
            "input": [str(rng.random()) for _ in range(rng.randint(1, 3))],
            "attr": [
                {"key": "shape", "value": {"shape": {"dim": [{"size": rng.choice([-1, 1, 300, 2**62])}]}}},
                {"key": "type", "value": {"type": graphdef._DataType["DT_INT64"]}},
                {"key": "any", "value": {"shape": {"unknown_rank": True}}},
            ],
        }
        for _ in range(40)
    ]
    record = {"node": nodes, "versions": {"producer": 7}}
    binary = to_binary(record, graphdef.SCHEMA, "GraphDef")
    assert BinaryReader(binary, graphdef.SCHEMA, "g").read("GraphDef") == record
    text = to_text(record, graphdef.SCHEMA, "GraphDef")
    read = TextReader(text, graphdef.SCHEMA, "g").read("GraphDef")
    assert [node["name"] for node in read["node"]] == [node["name"] for node in nodes]
    again = text_format.Parse(text, tensorflow_graph_def()())
    assert again.SerializeToString(deterministic=True) == by_protobuf(binary).SerializeToString(deterministic=True)


def by_protobuf(data: bytes) -> Any:
    message = tensorflow_graph_def()()
    message.ParseFromString(data)
    return message


def test_a_graphdef_needs_the_graph(tmp_path: Path) -> None:
    graph = parse_costgraph(COSTS, "costs")
    with pytest.raises(placewright.InputError, match="say which graph it is for"):
        export_plan(placewright.plan(graph, "2xp100"), "graphdef", tmp_path / "g.pb")
    assert not (tmp_path / "g.pb").exists()
