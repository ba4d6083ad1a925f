"""FLOPs of single ops, against arithmetic done by hand."""

import math
from typing import Any

import pytest

from placewright.costs.flops import NoFormulaError, count_flops
from placewright.graph import OP_KINDS, Op, Tensor
from placewright.support.errors import InputError

Shape = tuple[int, ...]


def tensors(shapes: list[Shape]) -> list[Tensor]:
    return [
        Tensor(name=f"t{i}", shape=shape, dtype="float32", size_bytes=4 * math.prod(shape))
        for i, shape in enumerate(shapes)
    ]


def flops(kind: str, inputs: list[Shape], outputs: list[Shape], **attributes: Any) -> int:
    return count_flops(Op(name="op", kind=kind, attributes=attributes), tensors(inputs), tensors(outputs))


def test_matmul_counts_a_multiply_and_an_add_per_product() -> None:
    # BERT-base, first feed-forward layer, 8 x 128 tokens: 2 * 1024 * 3072 * 768
    assert flops("matmul", [], [], batch=1, m=1024, n=3072, k=768, bias=False) == 2 * 1024 * 3072 * 768 == 4_831_838_208
    # the bias adds one addition for each of 1024 * 3072 results
    assert flops("matmul", [], [], batch=1, m=1024, n=3072, k=768, bias=True) == 4_831_838_208 + 3_145_728
    # attention scores of 8 x 12 heads: 2 * 96 * 128 * 128 * 64
    assert flops("matmul", [], [], batch=96, m=128, n=128, k=64, bias=False) == 201_326_592


def test_matmul_without_attributes_is_read_from_shapes() -> None:
    assert flops("matmul", [(8, 5, 7), (8, 7, 3)], [(8, 5, 3)]) == 2 * 8 * 5 * 3 * 7
    assert flops("matmul", [(5, 7), (7,)], [(5,)]) == 2 * 5 * 7


def test_resnet_convolutions_cost_what_the_textbook_says() -> None:
    # 3x3, 64 -> 64 channels on 56 x 56
    first = {"kernel": [3, 3], "groups": 1, "in_channels": 64, "out_channels": 64, "transposed": False}
    assert flops("conv", [(1, 64, 56, 56)], [(1, 64, 56, 56)], **first) == 2 * 64 * 64 * 9 * 56 * 56 == 231_211_008
    # the stem of ResNet-50: 7x7, 3 -> 64, stride 2, result 112 x 112
    stem = {"kernel": [7, 7], "groups": 1, "in_channels": 3, "out_channels": 64, "transposed": False}
    assert flops("conv", [(1, 3, 224, 224)], [(1, 64, 112, 112)], **stem) == 2 * 64 * 112 * 112 * 3 * 49 == 236_027_904


def test_groups_divide_the_work_of_a_convolution() -> None:
    # depthwise 3x3 on 32 channels of 10 x 10: each result sums 9 products
    depthwise = {"kernel": [3, 3], "groups": 32, "in_channels": 32, "out_channels": 32, "transposed": False}
    assert flops("conv", [(2, 32, 10, 10)], [(2, 32, 10, 10)], **depthwise) == 2 * 2 * 32 * 100 * 9


def test_a_convolution_without_attributes_is_read_from_its_weight() -> None:
    # weight [out, in / groups, *kernel] = 4 * 3 * 3 products for each of 8 * 25 results
    assert flops("conv", [(1, 8, 5, 5), (8, 4, 3, 3)], [(1, 8, 5, 5)]) == 2 * 200 * 36


def test_a_transposed_convolution_spreads_its_input() -> None:
    # every one of 16 * 4 * 4 inputs is spread over 2 x 2 places of 8 channels
    upsampling = {"kernel": [2, 2], "groups": 1, "in_channels": 16, "out_channels": 8, "transposed": True}
    assert flops("conv", [(1, 16, 4, 4)], [(1, 8, 8, 8)], **upsampling) == 2 * 256 * 8 * 4


BACKWARD = {"kernel": [3, 3], "groups": 1, "in_channels": 64, "out_channels": 128, "transposed": False}
GRADIENT, INPUT, WEIGHT = (1, 128, 28, 28), (1, 64, 28, 28), (128, 64, 3, 3)


@pytest.mark.parametrize(
    ("grads", "products", "sums"),
    [(["input"], 1, 0), (["weight"], 1, 0), (["input", "weight"], 2, 0), (["weight", "bias"], 1, 1), (["bias"], 0, 1)],
)
def test_each_requested_gradient_of_a_convolution_is_counted(grads: list[str], products: int, sums: int) -> None:
    # forward: 2 * 128 * 28 * 28 * 64 * 9; the bias adds up 128 * 28 * 28 gradients
    expected = products * 2 * 128 * 784 * 576 + sums * 128 * 784
    assert flops("conv_backward", [GRADIENT, INPUT, WEIGHT], [INPUT], **BACKWARD, grads=grads) == expected


def test_gradients_of_a_convolution_are_told_from_its_results_when_not_listed() -> None:
    # input and weight have more than one axis, the bias has one
    outputs = [INPUT, WEIGHT, (128,)]
    assert flops("conv_backward", [GRADIENT, INPUT, WEIGHT], outputs, **BACKWARD) == 2 * 2 * 128 * 784 * 576


def test_the_gradient_of_a_transposed_convolution_finds_the_forward_input() -> None:
    attributes = {"kernel": [2, 2], "groups": 1, "in_channels": 16, "out_channels": 8, "transposed": True}
    inputs: list[tuple[int, ...]] = [(1, 8, 8, 8), (1, 16, 4, 4), (16, 8, 2, 2)]
    assert flops("conv_backward", inputs, [(16, 8, 2, 2)], **attributes, grads=["weight"]) == 2 * 256 * 8 * 4


ATTENTION = {"batch": 2, "heads": 12, "kv_heads": 12, "head_dim": 64, "value_dim": 64}


def test_attention_is_two_products_and_a_softmax() -> None:
    pairs = 2 * 12 * 128 * 128
    square = {**ATTENTION, "query_length": 128, "key_length": 128, "causal": False}
    assert flops("attention", [], [], **square) == pairs * (2 * 64 + 5 + 2 * 64)
    # backward: the scores again, and the gradients of values, scores, queries, keys
    assert flops("attention_backward", [], [], **square) == pairs * (3 * 128 + 10 + 2 * 128)


@pytest.mark.parametrize(
    ("queries", "keys", "past", "pairs"),
    [
        (4, 64, {"past_length": 0}, 1 + 2 + 3 + 4),
        (4, 64, {"past_length": 62}, 63 + 64 + 64 + 64),
        (4, 64, {}, 61 + 62 + 63 + 64),
        (5, 3, {"past_length": 0}, 1 + 2 + 3 + 3 + 3),
        (5, 3, {}, 0 + 0 + 1 + 2 + 3),
    ],
)
def test_a_causal_mask_begins_behind_the_past(queries: int, keys: int, past: dict[str, int], pairs: int) -> None:
    given = {**ATTENTION, "query_length": queries, "key_length": keys, "causal": True, **past}
    assert flops("attention", [], [], **given) == 2 * 12 * pairs * 261


def test_an_lstm_multiplies_four_gates_with_input_and_state() -> None:
    layer = {"cell": "lstm", "batch": 64, "length": 40, "input_size": 512, "hidden_size": 1024, "directions": 1}
    # per step and sample: 4 * 1024 gates, each 2 * (512 + 1024) for its products and 10 for its activation
    first = 64 * 40 * 4096 * (2 * 1536 + 10)
    assert flops("rnn", [], [], **layer, layers=1) == first
    # a second layer reads the 1024 of the first; backward costs twice the forward pass
    both = first + 64 * 40 * 4096 * (2 * 2048 + 10)
    assert flops("rnn", [], [], **layer, layers=2) == both
    assert flops("rnn_backward", [], [], **layer, layers=2) == 2 * both


def test_a_second_layer_in_two_directions_reads_both() -> None:
    layer = {"cell": "gru", "batch": 1, "length": 1, "input_size": 3, "hidden_size": 5, "directions": 2, "layers": 2}
    # per direction: 15 * (2 * (3 + 5) + 10), then 15 * (2 * (10 + 5) + 10)
    assert flops("rnn", [], [], **layer) == 2 * (15 * 26 + 15 * 40)


def test_a_million_billion_layers_are_counted_without_a_list_of_them() -> None:
    one = {"cell": "relu", "batch": 1, "length": 1, "input_size": 1, "hidden_size": 1, "directions": 1}
    # each layer: 2 * (1 + 1) + 10
    assert flops("rnn", [], [], **one, layers=10**15) == 14 * 10**15


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "attributes", "expected"),
    [
        ("normalization", [(8, 64)], [(8, 64)], {"function": "layer"}, 8 * 512),
        ("normalization", [(8, 64)], [(8, 64)], {"function": "rms"}, 5 * 512),
        ("normalization_backward", [(8, 64)], [(8, 64)], {"function": "layer"}, 16 * 512),
        ("pooling", [(1, 4, 8, 8)], [(1, 4, 4, 4)], {"kernel": [3, 3]}, 64 * 9),
        ("pooling", [(1, 4, 8, 8)], [(1, 4, 1, 1)], {"kernel": [8, 8], "global": True}, 256),
        ("pooling_backward", [(1, 4, 4, 4)], [(1, 4, 8, 8)], {"kernel": [3, 3]}, 64 * 9),
        ("softmax", [(8, 128)], [(8, 128)], {"axes": [1]}, 11 * 1024),
        ("softmax_backward", [(8, 128), (8, 128)], [(8, 128)], {"axes": [1]}, 4 * 1024),
        ("embedding", [(30522, 768), (8, 128)], [(8, 128, 768)], {}, 0),
        ("embedding_backward", [(8, 128, 768), (8, 128)], [(30522, 768)], {}, 8 * 128 * 768),
        ("reduction", [(8, 128)], [(8,)], {"function": "sum", "axes": [1]}, 1024),
        ("reduction", [(8, 128)], [(8,)], {"function": "variance", "axes": [1]}, 3 * 1024),
        ("elementwise", [(8, 1), (1, 128)], [(8, 128)], {"function": "add"}, 1024),
        ("elementwise", [(8, 128)], [(8, 128)], {"function": "exp"}, 4 * 1024),
        ("elementwise", [(8, 128)], [(8, 128)], {"function": "gelu"}, 10 * 1024),
        ("elementwise", [(8, 128)], [(8, 128)], {"function": "gelu_backward"}, 10 * 1024),
        ("elementwise", [(8, 128)], [(8, 128)], {"function": "tanh_backward"}, 3 * 1024),
        ("copy", [(8, 128)], [(8, 128)], {}, 0),
        ("gather", [(8, 128), (4,)], [(4, 128)], {}, 0),
        ("fill", [], [(8, 128)], {}, 0),
        ("random", [], [(8, 128)], {}, 6 * 1024),
        ("sort", [(4, 256)], [(4, 256), (4, 256)], {}, 1024 * 8),
        ("sort", [(256, 4)], [(256, 4), (256, 4)], {"axes": [0]}, 1024 * 8),
        ("optimizer", [(10,)] * 2, [(10,)], {"function": "sgd"}, 2 * 10),
        ("optimizer", [(10,)] * 4, [(10,)] * 3, {"function": "adam"}, 15 * 10),
        ("input", [], [(8, 128)], {}, 0),
        ("view", [(8, 128)], [(1024,)], {}, 0),
    ],
)
def test_cheaper_kinds_cost_a_few_operations_per_element(
    kind: str, inputs: list[Shape], outputs: list[Shape], attributes: dict[str, Any], expected: int
) -> None:
    assert flops(kind, inputs, outputs, **attributes) == expected


@pytest.mark.parametrize("kind", sorted(set(OP_KINDS) - {"input", "view", "embedding", "copy", "gather", "fill"}))
def test_an_op_about_which_nothing_is_known_has_no_formula(kind: str) -> None:
    with pytest.raises(NoFormulaError):
        flops(kind, [], [])


def test_a_tensor_without_shape_leaves_its_op_without_formula() -> None:
    unknown = Tensor(name="x", size_bytes=4)
    with pytest.raises(NoFormulaError):
        count_flops(Op(name="op", kind="elementwise", attributes={"function": "add"}), [unknown], [unknown])


@pytest.mark.parametrize("value", ["3x3", [3, -1], [3.0, 3.0], 3])
def test_an_attribute_of_the_wrong_kind_is_named(value: Any) -> None:
    with pytest.raises(InputError, match="op 'op' has kernel ="):
        flops("conv", [(1, 8, 5, 5)], [(1, 8, 5, 5)], kernel=value, in_channels=8, groups=1)


def test_a_negative_extent_is_named() -> None:
    with pytest.raises(InputError, match="op 'op' has k = -7"):
        flops("matmul", [], [], batch=1, m=5, n=3, k=-7)


@pytest.mark.parametrize("grads", [5, True, 1e308, "weight"])
def test_gradients_that_are_no_list_are_named(grads: object) -> None:
    with pytest.raises(InputError, match=r"op 'op' has grads = .*, which is not a list of names"):
        flops("conv_backward", [(1, 2, 3, 3), (1, 2, 3, 3), (2, 2, 1, 1)], [(2, 2, 1, 1)], grads=grads)
