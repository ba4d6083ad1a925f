"""Kinds and attributes of ONNX operators."""

from typing import Any

import pytest

from placewright.graph import OP_KINDS
from placewright.importers.onnx.attributes import NodeView, attributes_of
from placewright.importers.onnx.kinds import DEPENDING_OPERATORS, KIND_OF_OPERATOR, kind_of

onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
np = pytest.importorskip("numpy")


def view(
    op_type: str, *inputs: tuple[int, ...] | None, domain: str = "", version: int = 17, **changes: Any
) -> NodeView:
    attributes = changes.pop("attributes", {})
    settings: dict[str, Any] = {
        "outputs": [],
        "values": [None] * len(inputs),
        "num_outputs_read": 1,
        "first_is_weight": False,
    }
    return NodeView(
        op_type=op_type, domain=domain, version=version, inputs=inputs, attributes=attributes, **(settings | changes)
    )


def described(op_type: str, *inputs: tuple[int, ...] | None, **changes: Any) -> dict[str, Any]:
    node = view(op_type, *inputs, **changes)
    kind = kind_of(node)
    assert kind is not None
    return {"kind": kind, **attributes_of(node, kind)}


def test_every_operator_onnx_has_ever_defined_has_a_kind() -> None:
    defined = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    assert defined - KIND_OF_OPERATOR[""].keys() - DEPENDING_OPERATORS == set()
    assert {kind for table in KIND_OF_OPERATOR.values() for kind in table.values()} <= OP_KINDS.keys()


def test_operators_of_other_domains_are_unknown() -> None:
    assert kind_of(view("Relu", (2,), domain="own")) is None
    assert kind_of(view("Frobnicate", (2,))) is None


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "expected"),
    [
        ("MatMul", [(2, 3, 4), (2, 4, 5)], {}, (2, 3, 5, 4, False)),
        ("MatMul", [(2, 3, 4), (4, 5)], {}, (1, 6, 5, 4, False)),
        ("MatMul", [(7, 1, 3, 4), (2, 4, 5)], {}, (14, 3, 5, 4, False)),
        ("MatMul", [(4,), (4, 5)], {}, (1, 1, 5, 4, False)),
        ("MatMul", [(3, 4), (4,)], {}, (1, 3, 1, 4, False)),
        ("Gemm", [(4, 3), (5, 4), (5,)], {"transA": 1, "transB": 1}, (1, 3, 5, 4, True)),
        ("MatMulInteger", [(3, 4), (4, 5), ()], {}, (1, 3, 5, 4, False)),
        ("QLinearMatMul", [(3, 4), (), (), (4, 5), (), ()], {}, (1, 3, 5, 4, False)),
        ("Einsum", [(2, 3, 4), (2, 5, 4)], {"equation": "bik,bjk->bij"}, (2, 3, 5, 4, False)),
        ("Einsum", [(3, 4), (4, 5)], {"equation": "ik,kj"}, (1, 3, 5, 4, False)),
        ("Einsum", [(6, 7, 3, 4), (7, 4, 5)], {"equation": "...ik,...kj->...ij"}, (7, 18, 5, 4, False)),
        ("Einsum", [(2, 3, 4), (4, 5)], {"equation": "b...k, kj"}, (1, 6, 5, 4, False)),
        ("Einsum", [(3, 3, 4), (4, 5)], {"equation": "iik,kj->ij"}, (1, 3, 5, 4, False)),
    ],
)
def test_matrix_products_are_told_as_batch_m_n_k(op_type: Any, inputs: Any, attributes: Any, expected: Any) -> None:
    batch, m, n, k, bias = expected
    told = described(op_type, *inputs, attributes=attributes)
    assert told == {"kind": "matmul", "batch": batch, "m": m, "n": n, "k": k, "bias": bias}


def test_contrib_matrix_products_are_told_too() -> None:
    told = described("MatMulNBits", (2, 3, 4), (5, 1, 2), domain="com.microsoft", attributes={"K": 4, "N": 5})
    assert told == {"kind": "matmul", "batch": 1, "m": 6, "n": 5, "k": 4, "bias": False}


def test_einsum_without_a_product_is_something_else() -> None:
    assert kind_of(view("Einsum", (2, 3), attributes={"equation": "ij->ji"})) == "copy"
    assert described("Einsum", (2, 3), attributes={"equation": "ij->i"})["kind"] == "reduction"
    assert kind_of(view("Einsum", (2,), (3,), attributes={"equation": "i,j->ij"})) == "elementwise"
    assert kind_of(view("Einsum", (2, 2), attributes={"equation": "ii->i"})) == "other"
    assert described("Einsum", (2, 3, 4), attributes={"equation": "...i->i"})["axes"] == [0, 1]
    # It is no equation of these operands.
    assert kind_of(view("Einsum", (2, 3), attributes={"equation": "ij,jk->ik"})) == "other"
    assert kind_of(view("Einsum", (2, 3), (3, 4), attributes={"equation": "...aij,jk->ik"})) == "other"


@pytest.mark.parametrize(
    ("equation", "shapes", "kind", "flops"),
    [
        # 8 x 16 by 16 x 4, then 8 x 4 by 4 x 5
        ("ij,jk,kl->il", [(8, 16), (16, 4), (4, 5)], "matmul", 2 * 8 * 16 * 4 + 2 * 8 * 4 * 5),
        # l is needed by the third
        ("bl,bl,l->b", [(2, 3), (2, 3), (3,)], "matmul", 2 * 3 + 2 * 2 * 3),
        ("i,j,k->ijk", [(2,), (3,), (4,)], "elementwise", 2 * 3 + 2 * 3 * 4),
        # i is summed before
        ("ij,jk->k", [(2, 3), (3, 4)], "matmul", 2 * 3 + 2 * 3 * 4),
        ("i,j->", [(2,), (3,)], "elementwise", 2 + 3 + 1),
        ("ii->", [(5, 5)], "other", 5),
        ("ii->i", [(5, 5)], "other", 0),
    ],
)
def test_einsum_counts_its_products_from_left_to_right(equation: str, shapes: Any, kind: str, flops: int) -> None:
    told = described("Einsum", *shapes, outputs=[()], attributes={"equation": equation})
    assert (told["kind"], told["flops"]) == (kind, flops)


def test_convolutions_are_told_with_their_window_and_channels() -> None:
    assert described("Conv", (1, 6, 9, 9), (8, 2, 3, 5), attributes={"group": 3, "strides": [2, 1]}) == {
        "kind": "conv",
        "kernel": [3, 5],
        "stride": [2, 1],
        "padding": [0, 0],
        "dilation": [1, 1],
        "groups": 3,
        "transposed": False,
        "in_channels": 2 * 3,
        "out_channels": 8,
    }
    transposed = described("ConvTranspose", (1, 6, 9), (6, 4, 3), attributes={"group": 2, "pads": [1, 0]})
    assert (transposed["transposed"], transposed["in_channels"], transposed["out_channels"]) == (True, 6, 4 * 2)
    assert transposed["padding"] == [1, 0]
    assert described("QLinearConv", (1, 3, 8), (), (), (4, 3, 3), (), (), (), ())["out_channels"] == 4


def test_automatic_padding_makes_the_result_as_long_as_the_input_divided_by_the_stride() -> None:
    # 7 with kernel 3 and stride 2 gives 4: (4 - 1) * 2 + 3 - 7 = 2 of padding; 8 gives 4: 1 of padding, at the end.
    attributes = {"auto_pad": "SAME_UPPER", "strides": [2, 2], "kernel_shape": [3, 3]}
    assert described("Conv", (1, 3, 7, 8), (6, 3, 3, 3), attributes=attributes)["padding"] == [1, 0, 1, 1]
    lower = attributes | {"auto_pad": "SAME_LOWER"}
    assert described("MaxPool", (1, 3, 7, 8), attributes=lower)["padding"] == [1, 1, 1, 0]


def test_attention_is_told_from_shapes_or_packed_heads() -> None:
    four = described("Attention", (2, 8, 16, 32), (2, 2, 20, 32), (2, 2, 20, 24), attributes={"is_causal": 1})
    assert four == {
        "kind": "attention",
        "batch": 2,
        "heads": 8,
        "kv_heads": 2,
        "query_length": 16,
        "key_length": 20,
        "head_dim": 32,
        "value_dim": 24,
        "causal": True,
        "past_length": 0,
    }
    packed = {"q_num_heads": 4, "kv_num_heads": 2}
    three = described("Attention", (2, 16, 64), (2, 16, 32), (2, 16, 32), None, (2, 2, 100, 16), attributes=packed)
    assert (three["heads"], three["kv_heads"], three["head_dim"], three["value_dim"]) == (4, 2, 16, 16)
    # 16 new keys after 100 of the past.
    assert three["key_length"] == 116


#: batch, heads, kv_heads, query_length, key_length, head_dim, value_dim
@pytest.mark.parametrize(
    ("op_type", "inputs", "expected"),
    [
        # 4 heads of the query, 2 of the key and 2 of the value side by side: 128 / 8 = 16 each
        ("GroupQueryAttention", [(1, 10, 128), None, None, (1, 2, 6, 16), (1, 2, 6, 16)], (1, 4, 2, 10, 16, 16, 16)),
        ("GroupQueryAttention", [(1, 10, 64), (1, 10, 32), (1, 10, 32)], (1, 4, 2, 10, 10, 16, 16)),
        ("MultiHeadAttention", [(2, 10, 4, 3, 16)], (2, 4, 4, 10, 10, 16, 16)),
        ("MultiHeadAttention", [(2, 10, 64), (2, 24, 4, 2, 16)], (2, 4, 4, 10, 24, 16, 16)),
        ("MultiHeadAttention", [(2, 10, 64), (2, 24, 64), (2, 24, 32)], (2, 4, 4, 10, 24, 16, 8)),
        ("MultiHeadAttention", [(2, 10, 64), (2, 4, 24, 16), (2, 4, 24, 8)], (2, 4, 4, 10, 24, 16, 8)),
        # 13 tokens in two sequences of at most 10
        ("PackedMultiHeadAttention", [(13, 4, 3, 16), None, None, None, (2, 10)], (2, 4, 4, 10, 10, 16, 16)),
        ("PackedMultiHeadAttention", [(13, 64), (13, 64), (13, 32), None, (2, 10)], (2, 4, 4, 10, 10, 16, 8)),
        # 10 new keys after 6 of the past
        ("Attention", [(2, 10, 7), (7, 192), None, None, (2, 2, 4, 6, 16)], (2, 4, 4, 10, 16, 16, 16)),
    ],
)
def test_packed_queries_keys_and_values_are_told_apart(op_type: Any, inputs: Any, expected: Any) -> None:
    heads = {"num_heads": 4} | ({"kv_num_heads": 2} if op_type == "GroupQueryAttention" else {})
    told = described(op_type, *inputs, domain="com.microsoft", attributes=heads)
    names = ("batch", "heads", "kv_heads", "query_length", "key_length", "head_dim", "value_dim")
    assert tuple(told[name] for name in names) == expected


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "flops"),
    [
        # 12 comparisons for each of 4,096 x 8 elements
        ("TopK", [(4096, 8), (1,)], {"axis": 0}, 12 * 4096 * 8),
        ("TopK", [(2, 4096, 8), (1,)], {"axis": -2}, 12 * 2 * 4096 * 8),
        # all 32 values in one row
        ("Unique", [(4, 8)], {}, 5 * 32),
        ("Unique", [(16, 8)], {"axis": 0}, 4 * 128),
        # the scores of 64 boxes in 3 classes
        ("NonMaxSuppression", [(2, 64, 4), (2, 3, 64)], {}, 6 * 2 * 3 * 64),
    ],
)
def test_sorting_counts_the_axis_that_is_sorted(op_type: str, inputs: Any, attributes: Any, flops: int) -> None:
    assert described(op_type, *inputs, attributes=attributes) == {"kind": "sort", "flops": flops}


def test_sorting_the_last_axis_is_left_to_the_formula() -> None:
    assert described("TopK", (4096, 8), (1,)) == {"kind": "sort"}
    assert described("TopK", (4096, 8), (1,), attributes={"axis": 1}) == {"kind": "sort"}


def test_recurrent_layers_are_told_with_their_sizes() -> None:
    told = described(
        "GRU", (5, 2, 3), (2, 12, 3), (2, 12, 4), attributes={"hidden_size": 4, "direction": "bidirectional"}
    )
    assert told == {
        "kind": "rnn",
        "cell": "gru",
        "batch": 2,
        "length": 5,
        "input_size": 3,
        "hidden_size": 4,
        "layers": 1,
        "directions": 2,
    }
    batch_first = described("RNN", (2, 5, 3), (1, 4, 3), (1, 4, 4), attributes={"layout": 1, "activations": ["Relu"]})
    assert (batch_first["cell"], batch_first["batch"], batch_first["length"]) == ("relu", 2, 5)


def test_softmax_before_version_13_took_all_axes_from_its_own_on() -> None:
    assert described("Softmax", (2, 3, 4), version=11)["axes"] == [1, 2]
    assert described("Softmax", (2, 3, 4), version=11, attributes={"axis": -1})["axes"] == [2]
    assert described("Softmax", (2, 3, 4), version=13)["axes"] == [2]


def test_axes_of_a_reduction_are_an_attribute_an_input_or_all() -> None:
    assert described("ReduceMean", (2, 3, 4), attributes={"axes": [-1, 0]}) == {
        "kind": "reduction",
        "function": "mean",
        "axes": [0, 2],
    }
    assert described("ReduceSum", (2, 3, 4), (1,), values=[None, np.array([1])])["axes"] == [1]
    assert described("ReduceMax", (2, 3, 4))["axes"] == [0, 1, 2]
    assert described("ArgMax", (2, 3, 4), attributes={"axis": -1})["axes"] == [2]


def test_pooling_tells_its_window_or_that_it_is_global() -> None:
    assert described("GlobalAveragePool", (1, 8, 7, 5)) == {
        "kind": "pooling",
        "function": "average",
        "kernel": [7, 5],
        "stride": [1, 1],
        "padding": [0, 0],
        "global": True,
    }
    told = described("MaxPool", (1, 8, 7, 5), attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})
    assert (told["function"], told["kernel"], told["padding"], told["global"]) == ("max", [3, 3], [1, 1], False)


def test_rows_of_a_weight_are_an_embedding_and_other_lookups_are_not() -> None:
    assert kind_of(view("Gather", (100, 8), (2, 3), first_is_weight=True)) == "embedding"
    assert kind_of(view("Gather", (100, 8), (2, 3))) == "gather"
    assert kind_of(view("Gather", (100, 8), (2, 3), first_is_weight=True, attributes={"axis": 1})) == "gather"


def test_dropout_is_a_view_unless_it_trains_or_its_mask_is_read() -> None:
    assert kind_of(view("Dropout", (2, 3))) == "view"
    assert kind_of(view("Dropout", (2, 3), num_outputs_read=2)) == "elementwise"
    training = [None, None, np.array(True)]
    assert kind_of(view("Dropout", (2, 3), (), (), values=training)) == "random"


def test_functions_are_in_snake_case() -> None:
    functions = {name: described(name, (2,))["function"] for name in ("LeakyRelu", "PRelu", "Sum", "IsNaN", "Erf")}
    assert functions == {"LeakyRelu": "leaky_relu", "PRelu": "prelu", "Sum": "add", "IsNaN": "isnan", "Erf": "erf"}
    assert described("BatchNormalization", (2, 3))["function"] == "batch"
    assert described("GroupNormalization", (2, 4), attributes={"num_groups": 2})["groups"] == 2


def test_a_node_that_does_not_fit_its_operator_has_no_attributes() -> None:
    assert described("MatMul", (3, 4)) == {"kind": "matmul"}
    assert described("Conv", (1, 3, 8), None) == {"kind": "conv"}
    assert described("MaxPool", (1, 3, 8)) == {"kind": "pooling"}
