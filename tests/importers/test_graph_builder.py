"""The builder all importers share."""

import json
from enum import Enum
from typing import Any

import numpy as np
import pytest

from placewright.importers.builder import DTYPE_BITS, GraphBuilder, tensor_bytes
from placewright.importers.json_graph import serialize_graph
from placewright.support.errors import InputError


def test_ops_may_be_added_before_what_they_depend_on() -> None:
    builder = GraphBuilder("g")
    tensor = builder.add_tensor("t", size_bytes=4)
    builder.add_op("reads", "copy", inputs=[tensor], controls=[2])
    builder.add_op("makes", "fill", outputs=[tensor])
    builder.add_op("first", "other")
    graph = builder.build()
    assert [(op.name, op.controls) for op in graph.ops] == [("makes", ()), ("first", ()), ("reads", (1,))]


def test_names_are_never_changed_silently() -> None:
    builder = GraphBuilder("g")
    builder.add_op("a", "other")
    builder.add_op("a", "other")
    with pytest.raises(InputError, match="graph 'g' has two ops named 'a'"):
        builder.build()


def test_warnings_are_logged_and_kept(caplog: Any) -> None:
    builder = GraphBuilder("g")
    builder.add_op("a", "other")
    builder.warn("something is odd")
    assert builder.build({"format": "test"}).metadata == {"format": "test", "warnings": ["something is odd"]}
    assert "g: something is odd" in caplog.text


def test_what_is_found_out_later_can_be_changed() -> None:
    builder = GraphBuilder("g")
    base, look = builder.add_tensor("base", size_bytes=4), builder.add_tensor("look", size_bytes=4)
    builder.add_op("makes", "fill", outputs=[base])
    op = builder.add_op("looks", "other", inputs=[base], outputs=[look])
    builder.change_tensor(look, alias_of=base, is_output=True)
    builder.change_op(op, kind="view")
    graph = builder.build()
    assert (graph.tensors[look].alias_of, graph.tensors[look].is_output, graph.ops[1].kind) == (base, True, "view")


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [((2, 3), "float32", 24), ((), "int64", 8), ((3,), "int4", 2), ((5,), "bool", 5), ((0, 7), "float64", 0)],
)
def test_bytes_of_a_tensor_are_rounded_up_to_whole_bytes(shape: Any, dtype: Any, expected: Any) -> None:
    # Three numbers of 4 bits are 12 bits: 2 bytes.
    assert tensor_bytes(shape, dtype) == expected


def test_a_dtype_without_a_width_is_refused() -> None:
    with pytest.raises(InputError, match="dtype 'string', whose width is unknown"):
        tensor_bytes((1,), "string")
    assert set(DTYPE_BITS.values()) == {2, 4, 6, 8, 16, 32, 64, 128}


class Mode(Enum):
    CLIP = 1


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.bool_(True), True),
        (np.longdouble(2), 2.0),
        (np.array([[1, 2]]), [[1, 2]]),
        ((np.int64(1), (2, None)), [1, [2, None]]),
        ({"a": np.str_("b"), 1: {"c": ()}}, {"a": "b", "1": {"c": []}}),
        (np.dtype("int32"), "int32"),
        (np.float16, "float16"),
        (Mode.CLIP, "CLIP"),
    ],
)
def test_attributes_are_plain_data(found: Any, kept: Any) -> None:
    builder = GraphBuilder("g")
    builder.add_op("a", "other", attributes={"x": found})
    builder.add_op("b", "other")
    builder.change_op(1, attributes={"x": found})
    graph = builder.build()
    for op in graph.ops:
        assert op.attributes == {"x": kept}
        assert type(op.attributes["x"]) is type(kept)
    assert json.loads(serialize_graph(graph))["ops"][0]["attributes"] == {"x": kept}


@pytest.mark.parametrize("found", [object(), 1j, np.complex64(1), Mode, {1, 2}, [b"bytes"]])
def test_an_attribute_that_is_no_data_is_refused_by_the_ops_name(found: Any) -> None:
    with pytest.raises(InputError, match=r"'g': an attribute of op 'a': .* is no JSON value"):
        GraphBuilder("g").add_op("a", "other", attributes={"x": found})
