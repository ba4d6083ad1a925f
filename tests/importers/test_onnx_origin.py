"""Layers and lines of ONNX nodes, and shapes that depend on the data: what is assumed is said."""

from __future__ import annotations

import pytest

from placewright.graph import Graph
from placewright.importers.onnx.model import parse_onnx
from placewright.support.errors import InputError

onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")

#: As PyTorch's exporter writes it: the layers around the call, each by its whole path, and the call itself.
SCOPES = "['', 'encoder', 'encoder.layers.0', 'linear_1']"
TRACE = """File "/home/me/net/model.py", line 12, in forward
    x = self.encoder(x)
File "/home/me/net/layers.py", line 30, in forward
    return self.linear(x)
File "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward
    return F.linear(input, self.weight, self.bias)"""


def load(body: str, **dims: int) -> Graph:
    text = f'<ir_version: 8, opset_import: ["": 18]>\n{body}'
    return parse_onnx(onnx.parser.parse_model(text).SerializeToString(), "m.onnx", dims=dims)


def with_metadata(name: str = "", **entries: str) -> Graph:
    """x -> Relu -> y with metadata on the node."""
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 18]> m (float[2] x) => (y) { y = Relu (x) }')
    model.graph.node[0].name = name
    for key, value in entries.items():
        model.graph.node[0].metadata_props.add(key=f"pkg.torch.onnx.{key}", value=value)
    return parse_onnx(model.SerializeToString(), "m.onnx")


def test_a_node_has_the_layer_and_line_that_the_exporter_wrote_down() -> None:
    op = with_metadata("node_linear_1", name_scopes=SCOPES, stack_trace=TRACE).ops[-1]
    assert (op.module, op.source) == ("encoder.layers.0", "layers.py:30")


def test_what_the_exporter_wrote_down_counts_more_than_the_name() -> None:
    assert with_metadata("/old/Relu", name_scopes=SCOPES).ops[-1].module == "encoder.layers.0"
    assert with_metadata("/old/layer/Relu").ops[-1].module == "old.layer"


@pytest.mark.parametrize("scopes", ["", "[", "['relu']", "[1, 2]", "{'a': 'b'}", "['a', " * 2000, "__import__('os')"])
def test_metadata_that_is_no_list_of_layers_is_passed_over(scopes: str) -> None:
    op = with_metadata("relu", name_scopes=scopes, stack_trace="no frame").ops[-1]
    assert (op.module, op.source) == ("", "")


def test_dimensions_whose_name_says_nothing_are_asked_for_by_axis() -> None:
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 18]> m (float[N,M] x) => (y) { y = Relu (x) }')
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_param = "?"
    with pytest.raises(InputError, match=r"as in --dim x:0=8 --dim x:1=8$"):
        parse_onnx(model.SerializeToString(), "m.onnx")
    assert parse_onnx(model.SerializeToString(), "m.onnx", dims={"x:0": 2, "x:1": 3}).tensors[0].shape == (2, 3)


def shape_and_warnings(graph: Graph, name: str) -> tuple[tuple[int, ...] | None, list[str]]:
    tensor = next(tensor for tensor in graph.tensors if tensor.name == name)
    return tensor.shape, [text for text in graph.metadata.get("warnings", ()) if text.startswith("how")]


def test_values_that_may_repeat_are_assumed_to_be_all_different() -> None:
    graph = load("m (float[3,4] x) => (y) { u, first, inverse = Unique (x)  y = Relu (u) }")
    assert shape_and_warnings(graph, "y") == (
        (12,),
        ["how large 'u' is depends on the data: its values are assumed to be all different"],
    )
    along = load("m (float[3,4] x) => (y) { u = Unique <axis=-1> (x)  y = Relu (u) }")
    assert shape_and_warnings(along, "y")[0] == (3, 4)


def test_a_size_that_is_stated_is_not_assumed() -> None:
    graph = load("m (float[3,4] x) => (y) { u = Unique (x)  y = Relu (u) }", **{"u:0": 5})
    assert shape_and_warnings(graph, "y") == ((5,), [])


@pytest.mark.parametrize(
    ("attributes", "num_axes", "expected"),
    [
        # Of 3, 4 and 5 the two smallest go, so that no choice of two axes leaves more.
        ("<keepdims=0>", 2, (5,)),
        ("", 2, (1, 1, 5)),
        ("", 0, (1, 1, 1)),
        ("<noop_with_empty_axes=1>", 0, (3, 4, 5)),
    ],
)
def test_a_reduction_over_computed_axes_is_assumed_to_leave_most(
    attributes: str, num_axes: int, expected: tuple[int, ...]
) -> None:
    graph = load(
        f"m (float[3,4,5] x, int64[{num_axes}] axes) => (y) {{ r = ReduceSum {attributes} (x, axes)  y = Relu (r) }}"
    )
    shape, warnings = shape_and_warnings(graph, "y")
    assert shape == expected
    assert len(warnings) == 1


def branches(then_node: str, else_node: str) -> str:
    return f"""m (bool c, float[3,4] x) => (y) {{
        z = If (c) <then_branch = t () => (float[P,Q] a) {{ {then_node} }},
                    else_branch = e () => (float[R,S] b) {{ {else_node} }}>
        y = Relu (z)
    }}"""


def test_a_conditional_has_the_shape_that_both_branches_work_out() -> None:
    graph = load(branches("a = Sigmoid (x)", "k = Constant <value = int64[2] {3, 4}> ()  b = Reshape (x, k)"))
    assert shape_and_warnings(graph, "y") == ((3, 4), [])


def test_of_branches_with_different_results_the_larger_is_assumed() -> None:
    graph = load(branches("a = Concat <axis=0> (x, x)", "b = Relu (x)"))
    assert shape_and_warnings(graph, "y") == (
        (6, 4),
        ["how large 'z' is depends on the data: the larger of the results of its branches is assumed"],
    )


def test_where_the_condition_is_known_so_is_the_branch() -> None:
    body = branches("a = Concat <axis=0> (x, x)", "b = Relu (x)").replace("bool c, ", "")
    body = body.replace("z = If", "c = Constant <value = bool {0}> ()  z = If")
    assert shape_and_warnings(load(body), "y") == ((3, 4), [])


def test_a_result_without_a_largest_size_is_still_refused() -> None:
    with pytest.raises(InputError, match=r"'r' of Range 'r' depends on the data \(state it with --dim r:0=SIZE\)"):
        load("m (int64 n, int64 a, int64 d) => (y) { r = Range (a, n, d)  y = Abs (r) }")


def test_a_scan_stacks_what_its_body_works_out_for_each_step() -> None:
    graph = load("""m (float[2] start, float[4,7] x, int64[1] axes) => (y) {
        end, all = Scan <num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[-1], body = b (s, e) => (t, o) {
            n = ReduceSum <keepdims = 0> (e, axes)
            t = Add (s, n)
            o = Concat <axis = 0> (t, t)
        }> (start, x)
        y = Relu (all)
    }""")
    # 7 steps of 2 + 2 values each, stacked along the last axis.
    assert shape_and_warnings(graph, "y")[0] == (4, 7)
