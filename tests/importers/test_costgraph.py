"""TensorFlow's CostGraphDef, text and binary."""

import sys
from typing import Any

import pytest
from reference_data import FOLDER, needs_reference_data

from placewright.graph import Tensor
from placewright.importers import load_graph
from placewright.importers.costgraph import parse_costgraph
from placewright.support.errors import InputError, MissingExtraError

REFERENCE = FOLDER / "regal" / "example.pbtxt"
EVERY_FIELD = """
node { name: "net/read" id: 7 device: "/GPU:0"
  output_info { size: 24 alias_input_port: -1 dtype: DT_FLOAT shape { dim { size: 2 } dim { size: 3 name: "c" } } }
  output_info { size: 8 alias_input_port: -1 dtype: DT_INT64_REF shape { dim { size: -1 } } }
  compute_cost: 5 compute_time: 1 memory_time: 4 temporary_memory_size: 100 persistent_memory_size: 40 }
node { name: "net/look" id: 9 is_final: true inaccurate: true
  input_info { preceding_node: 7 preceding_port: 1 } input_info { preceding_node: 7 }
  output_info { size: 24 alias_input_port: 1 }
  control_input: [7] }
cost { cost: 1.5 dimension: "memory" }
"""
EVERY_FIELD_BINARY = bytes.fromhex(
    "0a5c0a086e65742f7265616412062f4750553a3018072a1c081810ffffffffffffffffff011a0b120208021205080312016320012a1e080810"
    "ffffffffffffffffff011a0d120b08ffffffffffffffffff01206d306448056028700178040a240a086e65742f6c6f6f6b1809220408071001"
    "220208072a04081810013801420107880101120d0d0000c03f12066d656d6f7279"
)


def parse(text: str) -> Any:
    return parse_costgraph(text.encode(), "g.pbtxt")


def complaint(data: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        parse_costgraph(data.encode() if isinstance(data, str) else data, "g")
    return str(caught.value)


@needs_reference_data
def test_the_example_of_the_regal_data_has_five_ops() -> None:
    graph = load_graph(REFERENCE)
    assert [op.name for op in graph.ops] == ["_SOURCE", "node_0", "node_1", "node_2", "node_3"]
    assert [op.time_ns for op in graph.ops] == [0, 0, 58, 47, 58]
    # Nodes 1 to 4 name node 0 in control_input, whose id is left out and so 0.
    assert [op.controls for op in graph.ops] == [(), (0,), (0,), (0,), (0,)]
    # node_3 reads the output of id 2, which is node_1: 70 bytes.
    assert graph.ops[4].inputs == graph.ops[2].outputs
    assert [(tensor.name, tensor.size_bytes) for tensor in graph.tensors] == [
        ("node_1:0", 70),
        ("node_2:0", 52),
        ("node_3:0", 55),
    ]


def test_every_field_has_its_place_in_the_graph() -> None:
    graph = parse(EVERY_FIELD)
    assert graph.tensors == (
        Tensor(name="net/read:0", size_bytes=24, shape=(2, 3), dtype="float32"),
        Tensor(name="net/read:1", size_bytes=8, dtype="int64"),
        # It aliases the input at port 1, which is output 0 of net/read.
        Tensor(name="net/look:0", size_bytes=24, alias_of=0, is_output=True),
        Tensor(name="net/read/persistent", size_bytes=40, role="parameter"),
    )
    read, look = graph.ops
    assert (read.kind, read.time_ns, read.workspace_bytes, read.inputs) == ("other", 5, 100, (3,))
    assert (read.module, dict(read.attributes)) == ("net", {"device": "/GPU:0"})
    assert (look.kind, look.inputs, look.controls) == ("view", (1, 0), (0,))


def test_memory_in_the_older_fields_counts_too() -> None:
    graph = parse(
        'node { name: "a" host_temp_memory_size: 3 device_temp_memory_size: 4 device_persistent_memory_size: 5 }'
    )
    assert graph.ops[0].workspace_bytes == 3 + 4
    assert [tensor.size_bytes for tensor in graph.tensors] == [5]


def test_a_left_out_alias_port_means_input_0_and_none_without_inputs() -> None:
    graph = parse(
        """node { name: "a" id: 1 output_info { size: 4 } compute_cost: 1 }
           node { name: "b" id: 2 input_info { preceding_node: 1 } output_info { size: 4 } compute_cost: 1 }"""
    )
    assert [tensor.alias_of for tensor in graph.tensors] == [None, 0]
    # It takes time, so it is more than a view: it writes its result in place.
    assert graph.ops[1].kind == "other"


def test_nodes_in_any_order_are_sorted() -> None:
    graph = parse('node { name: "b" id: 2 control_input: 1 } node { name: "a" id: 1 }')
    assert [(op.name, op.controls) for op in graph.ops] == [("a", ()), ("b", (0,))]


def test_a_name_used_in_two_partitions_gets_the_id_and_a_warning(caplog: Any) -> None:
    graph = parse('node { name: "_SOURCE" } node { name: "_SOURCE" id: 4 }')
    assert [op.name for op in graph.ops] == ["_SOURCE#0", "_SOURCE#4"]
    assert graph.metadata["warnings"] == ["2 nodes are named '_SOURCE'; each is called by its name and id"]
    assert "2 nodes are named '_SOURCE'" in caplog.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cost { cost: 1 }", "'g' holds no nodes, so it is no CostGraphDef"),
        ('node {\n  name: "a"\n  cost: 3 }', '\'g\', line 3: Message type "Node" has no field named "cost"'),
        ('node {\n name: "a"\n', "'g', line 2: Expected \"}\""),
        ('node { name: "a }', "'g', line 1: String missing ending quote: '\"a }'"),
        ("node { name: a }", "'g', line 1: Expected string but found: 'a'"),
        ('node { name: "\\ud800" }', "'g', line 1: 'utf-8' codec can't encode character"),
        ('node { name: "a" id: x }', "'g', line 1: Couldn't parse integer: x"),
        ('node { name: "a" id: 2147483648 }', "'g', line 1: Value out of range: 2147483648"),
        ('node { name: "a" output_info { dtype: DT_ODD } }', 'Enum type "DataType" has no value named DT_ODD'),
        ("node: 3", "'g', line 1: Expected \"{\""),
        ("node {" * 100_000, '\'g\', line 1: Message type "Node" has no field named "node"'),
        ('node { name: "a" compute_cost: -4 }', "graph 'g': op 'a' has an impossible time of -4 ns"),
        ('node { name: "a" output_info { size: -4 } }', "tensor 'a:0' has an impossible size of -4 bytes"),
        ("node { id: 3 }", "'g': node number 0 has no name"),
        ('node { name: "a" } node { name: "b" }', "'g': nodes 'a' and 'b' have the same id 0"),
        ('node { name: "a" control_input: 5 }', "'g': node 'a' depends on node id 5, which does not exist"),
        (
            'node { name: "a" id: 1 } node { name: "b" id: 2 input_info { preceding_node: 1 preceding_port: 2 } }',
            "'g': node 'b' reads output 2 of node id 1, which has 0 outputs",
        ),
        (
            'node { name: "a" output_info { alias_input_port: 1 } }',
            "'g': an output of node 'a' aliases input 1, which does not exist",
        ),
        (
            'node { name: "a" id: 1 control_input: 2 } node { name: "b" id: 2 control_input: 1 }',
            "graph 'g' has a cycle: b -> a -> b",
        ),
    ],
)
def test_a_wrong_text_is_named_in_one_sentence(text: Any, expected: Any) -> None:
    assert expected in complaint(text)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x0a\x05\x0a\x01a", "'g' is no CostGraphDef, or it is cut off"),
        (b"\x0a\x02\x18\x80", "'g' is no CostGraphDef, or it is cut off"),
        (b"\x0a\x06\x0a\x02\xff\xfe\x18\x00", "'g' is no CostGraphDef, or it is cut off"),
        (b"\x13" * 100_000, "'g' is no CostGraphDef, or it is cut off"),
        (b"\x0a\x02\x18\x01\x22\x00", "'g' has fields that a CostGraphDef has not, so this is another"),
        (b"\x0a\x05\x1d\x00\x00\x00\x00", "'g' has fields that a CostGraphDef has not, so this is another"),
    ],
)
def test_wrong_binary_data_is_named_in_one_sentence(data: Any, expected: Any) -> None:
    """Cut off twice, a name that is no text, groups in groups, a field of another number, one of another type."""
    assert complaint(data).startswith(expected)


def test_text_and_binary_give_the_same_graph() -> None:
    assert parse_costgraph(EVERY_FIELD_BINARY, "g.pbtxt") == parse(EVERY_FIELD)


def test_without_protobuf_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'path/to/placewright\[costgraph\]'"):
        parse(EVERY_FIELD)


def test_the_other_spellings_of_the_text_format_are_read() -> None:
    graph = parse(
        """# a comment
        node: < name: 'a' "b\\x63\\144" 'e', id: 0x10; is_final: t, compute_cost: 017 > # octal 17 is 15
        """
    )
    assert (graph.ops[0].name, graph.ops[0].time_ns) == ("abcde", 15)


def test_quotes_on_a_line_that_does_not_close_them_are_read_once() -> None:
    # Tried as the end of the text in turn, the 150,000 quotes would take minutes.
    with pytest.raises(InputError, match="'g', line 1: 'unicodeescape' codec can't decode"):
        parse_costgraph(b'node { name: "' + b'\\"' * 150_000, "g")
