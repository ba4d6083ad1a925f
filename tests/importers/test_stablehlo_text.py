"""Graphs of StableHLO text: functions, regions, what they take from around them, both ways to write an op."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright.costs.flops import count_flops
from placewright.graph import Graph, Op
from placewright.importers import load_graph
from placewright.importers.stablehlo.program import parse_stablehlo
from placewright.support.errors import InputError

SEEDS = Path(__file__).parents[1] / "fuzz" / "seeds"


def function(body: str, arguments: str = "%x: tensor<2x3xf32>", results: str = "tensor<2x3xf32>") -> Graph:
    """The graph of a module with this main function."""
    text = f"module @m {{\n  func.func public @main({arguments}) -> ({results}) {{\n{body}\n  }}\n}}\n"
    return parse_stablehlo(text.encode(), "m.mlir")


def op(graph: Graph, name: str) -> Op:
    return next(each for each in graph.ops if each.name == name)


def flops(graph: Graph, name: str) -> int:
    found = op(graph, name)
    return count_flops(found, [graph.tensors[t] for t in found.inputs], [graph.tensors[t] for t in found.outputs])


@pytest.fixture(scope="module")
def loop() -> Graph:
    return load_graph(SEEDS / "loop.mlir")


def test_a_module_is_recognised_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "lowered.txt"
    path.write_bytes((SEEDS / "loop.mlir").read_bytes())
    assert load_graph(path).metadata["format"] == "stablehlo"


def test_a_loop_reads_what_its_regions_take_from_around_them(loop: Graph) -> None:
    # Three rounds of eight additions of a value from before the loop, and of the counter.
    assert flops(loop, "%1") == 3 * (8 + 1)
    assert [loop.tensors[index].name for index in op(loop, "%1").inputs] == ["%0", "%0"]


def test_of_branches_the_dearest_counts_and_all_that_they_read_is_read(loop: Graph) -> None:
    assert flops(loop, "%3") == 6
    assert "p['w']" in [loop.tensors[index].name for index in op(loop, "%3").inputs]


def test_locations_give_layers_lines_and_names_of_arguments(loop: Graph) -> None:
    assert (op(loop, "%0").module, op(loop, "%0").source) == ("layer", "b.py:7")
    assert loop.tensors[0].name == "p['w']"


def test_an_argument_whose_memory_a_result_takes_is_a_parameter(loop: Graph) -> None:
    assert loop.tensors[0].role == "parameter"
    assert loop.tensors[op(loop, "%3").outputs[0]].alias_of == 0


def test_functions_are_inlined_and_their_ops_named_after_the_call() -> None:
    text = """
    func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func private @twice(%y: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.add %y, %y : tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    graph = parse_stablehlo(text.encode(), "m")
    assert [each.name for each in graph.ops] == ["input:x", "%0/%0"]


@pytest.mark.parametrize(
    "product",
    [
        "stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [HIGH]",
        '"stablehlo.dot_general"(%x, %x) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], '
        "rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>}>",
    ],
)
def test_either_way_to_write_a_product_is_understood(product: str) -> None:
    graph = function(
        f"%0 = {product} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x4x4xf32>\nreturn %0 : tensor<2x4x4xf32>",
        "%x: tensor<2x3x4xf32>",
        "tensor<2x4x4xf32>",
    )
    assert op(graph, "%0").attributes == {"batch": 2, "m": 4, "n": 4, "k": 3, "bias": False}


def test_a_convolution_knows_its_window() -> None:
    graph = function(
        """
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[0, 1], [1, 1]], rhs_dilate = [1, 2]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x9x9x4xf32>, tensor<3x3x2x8xf32>) -> tensor<1x4x7x8xf32>
    return %0 : tensor<1x4x7x8xf32>""",  # noqa: E501
        "%x: tensor<1x9x9x4xf32>, %w: tensor<3x3x2x8xf32>",
        "tensor<1x4x7x8xf32>",
    )
    assert op(graph, "%0").attributes == {
        "kernel": [3, 3],
        "stride": [2, 1],
        "padding": [0, 1, 1, 1],
        "dilation": [1, 2],
        "groups": 2,
        "transposed": False,
        "in_channels": 4,
        "out_channels": 8,
    }
    # 4 * 7 * 8 results of 3 * 3 * 4 / 2 products.
    assert flops(graph, "%0") == 2 * (4 * 7 * 8) * (3 * 3 * 2)


def test_a_reduction_is_called_after_what_joins_two_elements() -> None:
    graph = function(
        """
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %c) across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
     reducer(%a: tensor<f32>, %b: tensor<f32>)  {
      %1 = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }
    return %0 : tensor<2xf32>""",
        results="tensor<2xf32>",
    )
    assert op(graph, "%0").attributes == {"function": "max", "axes": [1]}


def test_pooling_in_the_general_form_is_understood() -> None:
    graph = function(
        """
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %c) <{padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 2>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>""",  # noqa: E501
        results="tensor<2x2xf32>",
    )
    expected = {"function": "average", "kernel": [3], "stride": [2], "padding": [1], "global": False}
    assert op(graph, "%0").attributes == expected


def test_quantised_types_have_the_size_of_what_is_stored() -> None:
    kind = "tensor<8x!quant.uniform<i8:f32, 0.5:3>>"
    graph = function(f"%0 = stablehlo.add %x, %x : {kind}\nreturn %0 : {kind}", f"%x: {kind}", kind)
    assert {(tensor.size_bytes, tensor.dtype) for tensor in graph.tensors} == {(8, "int8")}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("%0 = stablehlo.add %x, %y : tensor<2x3xf32>", "line 3: 'stablehlo.add' reads '%y', which nothing"),
        ("%0 = stablehlo.negate %x : tensor<2x?xf32>", "line 3: the type 'tensor<2x?xf32>' leaves an extent open"),
        ("%0 = stablehlo.negate %x : tensor<2x3xq7>", "line 3: the element type 'q7' is not known"),
        ("%0 = call @none(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "line 3: the function 'none' is called and"),
        ("%0 = call @main(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "the function 'main' calls itself"),
        ("%0 = stablehlo.negate %x : tensor<2x3xf32>", "line 2: 'main' returns nothing"),
        ("return %x : tensor<2x3xf32>", "line 4: 'main' has returned before this line"),
        ("%0:2 = stablehlo.negate %x : (tensor<f32>) -> tensor<f32>", "gives 2 values and has 1 types"),
        ("%0 = stablehlo.convolution(%x, %x) : (tensor<f32>) -> tensor<f32>", "attributes of 'stablehlo.convolution'"),
        ("%0 = stablehlo.fusion %x : tensor<2x3xf32>", "'%0' (fusion) does not name what it calls"),
        ("%0 = stablehlo.optimization_barrier : tensor<2x3xf32>", "'%0' (identity) has no operand"),
        ("%0 = stablehlo.while(%i = %x) : tensor<2x3xf32>", "lacks its regions"),
        (
            "^bb1(%y: tensor<2x3xf32>):\n%0 = stablehlo.negate %y : tensor<2x3xf32>",
            "'main' has blocks with arguments of their own",
        ),
    ],
)
def test_a_bad_module_is_one_sentence_with_its_line(body: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        function(body if "line 2" in sentence else f"{body}\nreturn %0 : tensor<2x3xf32>")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_regions_nested_without_end_are_refused() -> None:
    with pytest.raises(InputError, match="regions are nested too deeply"):
        function("\n".join(f'%{number} = "stablehlo.case"(%x) ({{' for number in range(2_000)))


def test_bytecode_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match="is MLIR bytecode; write the module as text"):
        parse_stablehlo(b"ML\xefR\x0d", "m.mlir")


def test_without_main_the_only_public_function_is_taken() -> None:
    text = """
    func.func @net(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.abs %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    assert len(parse_stablehlo(text.encode(), "m").ops) == 2
    with pytest.raises(InputError, match="has no function main, and 2 public ones"):
        parse_stablehlo((text + text.replace("@net", "@other")).encode(), "m")


def test_results_may_have_names_of_their_own() -> None:
    graph = function(
        """
    %values, %indices = chlo.top_k(%x, k = 2) : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)
    %0:2, %last = "mine.three"(%values) : (tensor<2x2xf32>) -> (tensor<f32>, tensor<f32>, tensor<2x2xi32>)
    %1 = stablehlo.add %indices, %last : tensor<2x2xi32>
    %2 = stablehlo.negate %0#1 : tensor<f32>
    return %1, %2 : tensor<2x2xi32>, tensor<f32>""",
        results="tensor<2x2xi32>, tensor<f32>",
    )
    assert [each.kind for each in graph.ops] == ["input", "sort", "other", "elementwise", "elementwise"]
    assert [graph.tensors[index].shape for index in op(graph, "%1").inputs] == [(2, 2), (2, 2)]
    assert [graph.tensors[index].name for index in op(graph, "%2").inputs] == ["%0:1"]


@pytest.mark.parametrize("names", ["%a, %a", "%a, %x", "%a:2, %b"])
def test_results_whose_names_do_not_fit_are_refused(names: str) -> None:
    with pytest.raises(InputError, match=r"'m\.mlir', line 3: "):
        function(f"{names} = chlo.top_k(%x, k = 2) : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)")


def test_a_kernel_in_quotes_reads_nothing() -> None:
    graph = function(
        """
    %0 = stablehlo.custom_call @kernel(%x) {backend_config = "", mhlo.backend_config = {module = "\\22a%+7 %1"}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>"""  # noqa: E501
    )
    assert [graph.tensors[index].name for index in op(graph, "%0").inputs] == ["x"]


def test_a_ragged_product_multiplies_every_row_by_the_matrix_of_its_group() -> None:
    graph = function(
        """
    %0 = "chlo.ragged_dot"(%x, %w, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<32x16xf32>, tensor<4x16x8xf32>, tensor<4xi32>) -> tensor<32x8xf32>
    return %0 : tensor<32x8xf32>""",  # noqa: E501
        "%x: tensor<32x16xf32>, %w: tensor<4x16x8xf32>, %g: tensor<4xi32>",
        "tensor<32x8xf32>",
    )
    assert flops(graph, "%0") == 2 * 32 * 16 * 8
