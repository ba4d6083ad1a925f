"""ONNX models, written in ONNX's own text form."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from placewright.graph import Graph
from placewright.importers import load_graph
from placewright.importers.onnx.model import parse_onnx
from placewright.support.errors import InputError

onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def model(body: str, version: int = 17, domains: str = "") -> Any:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {version} {domains}]>\n{body}')


def load(body: str, version: int = 17, domains: str = "", **dims: int) -> Graph:
    return parse_onnx(model(body, version, domains).SerializeToString(), "m.onnx", dims=dims)


def complaint(body: str, version: int = 17, domains: str = "", **dims: int) -> str:
    with pytest.raises(InputError) as caught:
        load(body, version, domains, **dims)
    return str(caught.value)


def names(graph: Graph, indices: tuple[int, ...]) -> list[str]:
    return [graph.tensors[index].name for index in indices]


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def flops_of_products(graph: Graph) -> int:
    """Twice the multiply-adds of all convolutions and matrix products."""
    total = 0
    for op in graph.ops:
        a = op.attributes
        if op.kind == "conv":
            result = math.prod(graph.tensors[op.outputs[0]].shape or ())
            total += 2 * result * a["in_channels"] // a["groups"] * math.prod(a["kernel"])
        if op.kind == "matmul":
            total += 2 * a["batch"] * a["m"] * a["n"] * a["k"]
    return total


def products_by_weights(path: Path) -> int:
    """The same from the model itself: each element of a result sums one product per weight of its output channel."""
    inferred = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)
    values = (*inferred.graph.value_info, *inferred.graph.output, *inferred.graph.input)
    shape = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values}
    total = 0
    for node in inferred.graph.node:
        if node.op_type == "Conv":
            total += 2 * math.prod(shape[node.output[0]]) * math.prod(shape[node.input[1]][1:])
        if node.op_type in ("Gemm", "MatMul"):
            total += 2 * shape[node.output[0]][0] * math.prod(shape[node.input[1]])
    return total


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_the_real_networks_in_the_onnx_package_import_whole(path: Any) -> None:
    graph = load_graph(path)
    assert flops_of_products(graph) == products_by_weights(path)
    assert not {"fill", "other"} & set(kinds(graph))
    assert "warnings" not in graph.metadata
    assert sum(op.kind == "input" for op in graph.ops) == 1
    assert sum(tensor.is_output for tensor in graph.tensors) == 1


# Giga multiply-adds and million parameters as torchvision's table of weights states them; it does not count the running
# statistics of batch normalisation, which are up to 2% of the parameters.
@pytest.mark.parametrize(
    ("file", "giga_products", "mega_parameters"),
    [("resnet50", 4.09, 25.6), ("vgg19", 19.63, 143.7), ("densenet121", 2.83, 8.0), ("squeezenet", 0.35, 1.24)],
)
def test_well_known_networks_have_their_published_size(file: Any, giga_products: Any, mega_parameters: Any) -> None:
    graph = load_graph(LIGHT / f"light_{file}.onnx")
    parameters = sum(tensor.size_bytes for tensor in graph.tensors if tensor.role == "parameter") / 4
    assert flops_of_products(graph) / 2e9 == pytest.approx(giga_products, rel=5e-3)
    assert parameters / 1e6 == pytest.approx(mega_parameters, rel=2.5e-2)


def test_inputs_parameters_and_outputs_have_their_roles() -> None:
    graph = load(
        """g (float[2,3] x) => (float[2,4] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, int64[1] axes = {0}>
        { s = ReduceSum <keepdims = 1> (x, axes)  p = Add (x, s)  y = MatMul (p, w) }"""
    )
    assert [(op.name, op.kind) for op in graph.ops] == [
        ("x", "input"),
        ("s", "reduction"),
        ("p", "elementwise"),
        ("y", "matmul"),
    ]
    assert {tensor.name: (tensor.role, tensor.size_bytes, tensor.is_output) for tensor in graph.tensors} == {
        "x": ("activation", 2 * 3 * 4, False),
        "axes": ("constant", 8, False),
        "s": ("activation", 3 * 4, False),
        "p": ("activation", 2 * 3 * 4, False),
        "w": ("parameter", 3 * 4 * 4, False),
        "y": ("activation", 2 * 4 * 4, True),
    }
    assert graph.ops[1].attributes == {"function": "sum", "axes": [0]}
    assert graph.metadata == {"format": "onnx", "source": "m.onnx", "producer": "", "opset": {"ai.onnx": 17}}


def test_open_dimensions_are_listed_and_set_by_name_or_by_place() -> None:
    body = "g (float[batch, ?] x, float[batch, 3] z) => (float[batch, ?] y) { y = Concat <axis = 1> (x, z) }"
    said = complaint(body)
    assert "'m.onnx' leaves dimensions of its inputs open: 'batch' (of x, z), 'x:1' (of x)" in said
    assert "--dim batch=8 --dim x:1=8" in said
    graph = load(body, batch=4, **dict[str, Any]({"x:1": 5}))
    assert graph.tensors[-1].shape == (4, 5 + 3)
    assert graph.metadata["dims"] == {"batch": 4, "x:1": 5}


def test_a_dimension_that_is_not_there_is_refused_with_the_nearest() -> None:
    body = "g (float[batch, 3] x) => (float[batch, 3] y) { y = Relu (x) }"
    assert "has no open dimension 'bacth' to set; did you mean batch?" in complaint(body, batch=2, bacth=3)
    # The missing one is named even while another one is open.
    said = complaint(body, bath=4)
    assert "has no dimension 'bath' and leaves dimensions of its inputs open: 'batch' (of x); set them, as in" in said
    assert "dimension 'batch' of 'm.onnx' cannot be 0" in complaint(body, batch=0)
    assert "has no open dimension 'x:1' to set" in complaint(body, batch=2, **dict[str, Any]({"x:1": 7}))


def test_arithmetic_on_shapes_is_folded_away() -> None:
    graph = load(
        """g (float[batch, seq, 12] x) => (float[batch, seq, 4, 3] y) {
        shape = Shape (x)
        zero = Constant <value = int64 {0}> ()    one = Constant <value = int64 {1}> ()
        first = Constant <value = int64[1] {0}> ()    rest = Constant <value = int64[2] {4, -1}> ()
        b0 = Gather (shape, zero)    b = Unsqueeze (b0, first)
        s0 = Gather (shape, one)     s = Unsqueeze (s0, first)
        target = Concat <axis = 0> (b, s, rest)
        y = Reshape (x, target) }""",
        batch=2,
        seq=5,
    )
    assert [(op.name, op.kind, len(op.inputs)) for op in graph.ops] == [("x", "input", 0), ("y", "view", 1)]
    assert graph.tensors[1].shape == (2, 5, 4, 3)
    assert graph.tensors[1].alias_of == 0


def test_shapes_that_onnx_does_not_work_out_by_itself_are_computed() -> None:
    graph = load(
        """g (float[n] x) => (float[n, m] y) {
        size = Size (x)   two = Constant <value_int = 2> ()   zero = Constant <value_int = 0> ()
        one = Constant <value_int = 1> ()   half = Div (size, two)
        steps = Range (zero, half, one)   axis = Constant <value_ints = [0]> ()
        row = Unsqueeze (steps, axis)   rowf = Cast <to = 1> (row)   column_axis = Constant <value_ints = [1]> ()
        column = Unsqueeze (x, column_axis)   y = Mul (column, rowf) }""",
        n=7,
    )
    # Half of 7 is 3 steps; a column of 7 times a row of 3.
    assert graph.tensors[graph.ops[-1].outputs[0]].shape == (7, 3)
    assert kinds(graph) == ["input", "view", "elementwise"]


def test_views_share_memory_and_copies_do_not() -> None:
    graph = load(
        """g (float[2,3,4] x) => (float[12,2] y) {
        a = Identity (x)   b = Flatten <axis = 1> (a)   axes = Constant <value_ints = [0]> ()
        c = Unsqueeze (b, axes)   d = Squeeze (c, axes)   e = Transpose (d)   y = Dropout (e) }"""
    )
    assert kinds(graph) == ["input", "view", "view", "view", "view", "copy", "view"]
    base = {tensor.name: graph.tensors[graph.base_of[index]].name for index, tensor in enumerate(graph.tensors)}
    assert base == {"x": "x", "a": "x", "b": "x", "c": "x", "d": "x", "e": "e", "y": "e"}


def test_a_view_of_a_weight_is_the_weight_and_arithmetic_on_weights_is_a_weight() -> None:
    graph = load(
        """g (float[2,3] x) => (float[2,2] y) <float[2,3] w = {1,2,3,4,5,6}> {
        same = Identity (w)   turned = Transpose (same)   h = Mul (x, same)   y = MatMul (h, turned) }"""
    )
    assert kinds(graph) == ["input", "elementwise", "matmul"]
    assert names(graph, graph.ops[1].inputs) == ["x", "w"]
    assert names(graph, graph.ops[2].inputs) == ["h", "turned"]
    assert graph.tensors[graph.ops[2].inputs[1]].role == "parameter"


def test_weights_in_files_that_are_not_there_only_need_their_shape() -> None:
    built = model(
        "g (float[2,3] x) => (float[2,4] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}> { y = MatMul(x, w) }"
    )
    weight = built.graph.initializer[0]
    del weight.float_data[:]
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="not_there.bin")
    graph = parse_onnx(built.SerializeToString(), "m.onnx")
    assert {tensor.name: tensor.size_bytes for tensor in graph.tensors if tensor.role == "parameter"} == {"w": 48}


def test_a_shape_in_a_file_that_is_not_read_is_named() -> None:
    built = model("g (float[2,3] x) => (y) <int64[2] s = {3, 2}> { r = Reshape (x, s)  y = Relu (r) }")
    stored = built.graph.initializer[0]
    del stored.int64_data[:]
    stored.data_location = onnx.TensorProto.EXTERNAL
    stored.external_data.add(key="location", value="not_there.bin")
    said = "'r' of Reshape 'r' depends on 's', whose file is not read (state it with --dim r:0=SIZE --dim r:1=SIZE)"
    with pytest.raises(InputError, match=re.escape(said)):
        parse_onnx(built.SerializeToString(), "m.onnx")
    sizes: Any = {"r:0": 3, "r:1": 2}
    assert parse_onnx(built.SerializeToString(), "m.onnx", dims=sizes).tensors[-1].shape == (3, 2)


def test_functions_of_the_model_are_inlined() -> None:
    graph = load(
        """g (float[2,3] x) => (float[2,3] y) { y = own.twice (x) }
        <domain: "own", opset_import: ["": 17]> twice (a) => (b) { c = Add (a, a)  b = Relu (c) }""",
        domains=', "own": 1',
    )
    assert [op.target for op in graph.ops] == ["", "Add", "Relu"]


def test_control_flow_is_one_op_that_reads_what_its_bodies_take_from_outside(caplog: Any) -> None:
    graph = load(
        """g (float[3] x, bool c) => (float[3] y) {
        h = Relu (x)
        y = If (c) <then_branch = t () => (float[3] a) <float[3] w = {1,2,3}> { b = Add (h, w)  a = Mul (b, b) },
                    else_branch = e () => (float[3] d) { d = If (c) <
                        then_branch = u () => (float[3] k) <float[2] v = {1,2}> { k = Neg (x) },
                        else_branch = f () => (float[3] l) { l = Abs (h) }> }> }"""
    )
    op = graph.ops[-1]
    assert op.kind == "control_flow"
    assert names(graph, op.inputs) == ["c", "h", "x", "y/0/w", "y/1/v"]
    assert [(tensor.role, tensor.size_bytes) for tensor in graph.tensors[-2:]] == [("parameter", 12), ("parameter", 8)]
    # The first branch computes 3 sums and 3 products; the second one 3 numbers, whichever way it goes.
    choice = "chooses between branches at run time; it is assumed to take the dearest"
    assert op.attributes == {"flops": 6, "bytes_moved": 4 * 3 * (3 + 2)}
    assert graph.metadata["warnings"] == [f"in If 'y': If 'd' {choice}", f"If 'y' {choice}"]
    assert f"If 'y' {choice}" in caplog.text


def test_loops_are_kept_too() -> None:
    graph = load(
        """g (float[2,3] x, int64 n) => (float[2,3] y) {
        yes = Constant <value = bool {1}> ()
        y = Loop (n, yes, x) <body = b (int64 i, bool go, float[2,3] s) => (bool on, float[2,3] t)
                              { on = Identity (go)  t = Add (s, x) }> }"""
    )
    assert graph.ops[-1].kind == "control_flow"
    assert names(graph, graph.ops[-1].inputs) == ["n", "yes", "x"]


def test_optional_inputs_and_outputs_that_are_left_out_are_left_out() -> None:
    graph = load(
        """g (float[5,2,3] x, float[1,16,3] w, float[1,16,4] r, float[1,2,4] h) => (float[1,2,4] y) {
        , y = LSTM <hidden_size = 4> (x, w, r, , , h) }"""
    )
    assert names(graph, graph.ops[-1].inputs) == ["x", "w", "r", "h"]
    assert names(graph, graph.ops[-1].outputs) == ["y"]


def test_an_unknown_operator_is_kept_with_a_warning() -> None:
    graph = load(
        "g (float[2,3] x) => (float[2,3] y) <float[2,3] a> { a = own.f (x)  y = own.f (a) }", domains=', "own": 1'
    )
    assert [(op.kind, op.target) for op in graph.ops[1:]] == [("other", "own::f")] * 2
    assert graph.metadata["warnings"] == ["2 ops of the unknown operator own::f are kept with kind 'other'"]


def test_shapes_nobody_can_know_are_asked_for_at_their_root_only() -> None:
    body = "g (float[2,3] x) => (float[?] y) { i = NonZero (x)  t = Transpose (i)  y = GatherND (x, t) }"
    assert complaint(body).endswith(
        "leaves shapes open: 'i' of NonZero 'i' depends on the data (state it with --dim i:1=SIZE)"
    )
    assert load(body, **dict[str, Any]({"i:1": 5})).tensors[-1].shape == (5,)
    custom = "g (float[2,3] x) => (float[2,3] y) { a = own.f (x)  y = own.f (a) }"
    assert "'a' of f 'a' has no shape (state it in the model's value_info)" in complaint(custom, domains=', "own": 1')


def test_nodes_out_of_order_are_sorted_and_a_cycle_is_named() -> None:
    graph = load("g (float[2] x) => (float[2] y) { y = Relu (b)  b = Neg (x) }")
    assert [op.name for op in graph.ops] == ["x", "b", "y"]
    assert "has a cycle: Neg 'b' -> Add 'a' -> Neg 'b'" in complaint(
        "g (float[2] x) => (float[2] y) { a = Add (x, b)  b = Neg (a)  y = Relu (b) }"
    )


def test_names_that_do_not_fit_together_are_reported() -> None:
    assert "Add 'y' names 'z', which nothing" in complaint("g (float[2] x) => (float[2] y) { y = Add (x, z) }")
    assert "its list of outputs names 'z', which nothing" in complaint(
        "g (float[2] x) => (float[2] z) { y = Relu (x) }"
    )
    twice = "g (float[2] x) => (float[2] y) { y = Relu (x)  y = Neg (x) }"
    assert "tensor 'y' is produced by both" in complaint(twice)
    assert "has a cycle: Relu 'x' -> Relu 'x'" in complaint("g (float[2] x) => (float[2] x) { x = Relu (x) }")
    again = "g (float[2] x, float[2] z) => (float[2] x) { x = Relu (z) }"
    assert "makes the value 'x' twice" in complaint(again)


def test_repeated_node_names_get_the_name_of_their_output_and_a_warning() -> None:
    graph = load("g (float[2] x) => (float[2] y) { [n] a = Relu (x)  [n] y = Neg (a) }")
    assert [op.name for op in graph.ops] == ["x", "n", "n:y"]
    assert graph.metadata["warnings"] == ["two nodes are named 'n'; the second is called 'n:y'"]


def test_the_layer_is_read_from_node_names_that_are_paths() -> None:
    graph = load(
        """g (float[2] x) => (float[2] y) {
        ["/encoder/layer.0/act/Relu"] a = Relu (x)  ["block1/neg"] b = Neg (a)  ["plain"] y = Abs (b) }"""
    )
    assert [op.module for op in graph.ops] == ["", "encoder.layer.0.act", "block1", ""]


def test_sequences_and_texts_are_counted_as_nothing_with_a_warning() -> None:
    graph = load(
        """g (float[2] x) => (float[2] y) {
        s = SequenceConstruct (x, x)  zero = Constant <value = int64 {0}> ()  y = SequenceAt (s, zero) }"""
    )
    assert graph.tensors[1].size_bytes == 0
    assert graph.metadata["warnings"] == [
        "1 values of type sequence or optional have no fixed size and are counted as 0 bytes"
    ]


def test_what_onnx_runtime_fuses_has_shapes_and_kinds() -> None:
    graph = load(
        """g (float[2,8,16] x) => (float[2,8,8] y) <float[16] b = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {
        a = com.microsoft.BiasGelu (x, b)   s = com.microsoft.SkipLayerNormalization (a, x, b, b)
        y = com.microsoft.FusedMatMul <transB = 1> (s, a) }""",
        domains=', "com.microsoft": 1',
    )
    assert kinds(graph) == ["input", "elementwise", "normalization", "matmul"]
    assert graph.ops[-1].attributes == {"batch": 2, "m": 8, "n": 8, "k": 16, "bias": False}


def test_a_foreign_or_cut_off_file_is_refused() -> None:
    whole = model("g (float[2] x) => (float[2] y) { y = Relu (x) }").SerializeToString()
    for data in (whole[:-3], b"GIF89a" + bytes(50), b"\x00" * 10, b'{"a": 1}'):
        with pytest.raises(InputError, match=r"'m.onnx' is not an ONNX model"):
            parse_onnx(data, "m.onnx")
    with pytest.raises(InputError, match=r"'m.onnx' is an ONNX model whose graph has no nodes"):
        parse_onnx(onnx.ModelProto(graph=onnx.GraphProto(name="g")).SerializeToString(), "m.onnx")


def test_a_tensor_too_large_for_any_memory_is_refused() -> None:
    body = "g (float[4294967296, 4294967296] x) => (float[4294967296, 4294967296] y) { y = Relu (x) }"
    assert f"tensor 'x' has an impossible size of {2**66} bytes" in complaint(body)


def test_constants_that_grow_when_they_are_folded_are_not_folded() -> None:
    """ONNX's own inference would make a dimension of each of 2**40 elements, and no memory has room for those."""
    body = """g (float[4] x) => (float[4] y) <int64 a = {0}, int64 b = {1099511627776}, int64 d = {1}> {
        c = Range(a, b, d) f = Cast<to = 1>(c) r = ReduceSum<keepdims = 0>(f) y = Add(x, r) }"""
    assert kinds(load(body)) == ["input", "elementwise"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "g (float[1, 3, 8, 8] x, float[4, 3, 3, 3] w) => (y) { y = Conv<kernel_shape = [-1, 0]>(x, w) }",
            "Attribute kernel_shape must only contain positive values",
        ),
        ("g (float[1, 3] x, float[4, 3] w) => (y) { y = MatMul(x, w) }", "Incompatible dimensions for matrix"),
        ("g (float[1, 3] x, float[4, 3] w) => (y) { y = Concat(x, w) }", "Required attribute axis is missing"),
        (
            "g (float[1, 3] x) => (y) <int64[2] z = {0, 1}> { s = Shape(x) d = Div(s, z) y = Reshape(x, d) }",
            "Div 'd': it divides a whole number by zero",
        ),
        (
            "g (float[3] x) => (y) <int64 a = {1}, int64 b = {4}, int64 z = {0}> { d = Range(a, b, z) y = Add(x, d) }",
            "Range 'd': its step is zero",
        ),
    ],
)
def test_a_node_against_its_operators_definition_is_named(body: Any, why: Any) -> None:
    assert why in complaint(body)


def test_an_element_type_or_extent_that_cannot_be_is_named() -> None:
    made = model("g (float[1, 3] x) => (y) { y = Relu(x) }")
    made.graph.input[0].type.tensor_type.elem_type = 999
    with pytest.raises(InputError, match="'x' of its inputs has the unknown element type 999"):
        parse_onnx(made.SerializeToString(), "m.onnx")
    made = model("g (float[1, 3] x) => (y) { y = Add(x, w) }".replace("(x, w)", "(x, x)"))
    made.graph.node[0].input[1] = "w"
    made.graph.initializer.append(onnx.TensorProto(name="w", dims=[-4, 3], data_type=1))
    with pytest.raises(InputError, match="'w' of its weights has a negative dimension"):
        parse_onnx(made.SerializeToString(), "m.onnx")


@pytest.mark.parametrize(
    ("node", "inputs", "shape"),
    [
        ("GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (q)", "float[1, 10, 128] q", (1, 10, 64)),
        ("MultiHeadAttention <num_heads = 4> (q)", "float[2, 10, 4, 3, 16] q", (2, 10, 64)),
        ("MultiHeadAttention <num_heads = 4> (q, k)", "float[2, 10, 64] q, float[2, 24, 4, 2, 16] k", (2, 10, 64)),
        (
            "MultiHeadAttention <num_heads = 4> (q, k, v)",
            "float[2, 10, 64] q, float[2, 24, 64] k, float[2, 24, 32] v",
            (2, 10, 32),
        ),
        ("PackedMultiHeadAttention <num_heads = 4> (q, , , , o)", "float[13, 4, 3, 16] q, int32[2, 10] o", (13, 64)),
    ],
)
def test_attention_gives_the_results_of_all_heads_side_by_side(node: str, inputs: str, shape: tuple[int, ...]) -> None:
    graph = load(f"g ({inputs}) => (y) {{ y = com.microsoft.{node} }}", domains=', "com.microsoft": 1')
    assert graph.tensors[graph.ops[-1].outputs[0]].shape == shape


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        # ONNX's shape inference never ends on the first three.
        ({"equation": ".n.ij,...jk->...ik"}, "has the equation '.n.ij,...jk->...ik'; a term is letters"),
        ({"equation": "...ij...,jk"}, "a term is letters and at most one '...'"),
        ({"equation": "i1...,jk"}, "a term is letters and at most one '...'"),
        ({"equation": "ij,jk->i......k"}, "a term is letters and at most one '...'"),
        ({"equation": 7}, "'m.onnx': Einsum 'y' has no text as its equation"),
        ({}, "'m.onnx': Einsum 'y' has no text as its equation"),
    ],
)
@pytest.mark.parametrize("place", ["graph", "branch", "function"])
def test_an_equation_that_is_none_is_refused(attributes: Any, why: str, place: str) -> None:
    made = model("g (float[2, 8, 16] a, float[2, 16, 4] b, bool c) => (float[2, 8, 4] y) { y = Add (a, b) }")
    product = onnx.helper.make_node("Einsum", ["a", "b"], ["y"], **attributes)
    node = product
    if place == "branch":
        body = onnx.helper.make_graph([product], "body", [], [made.graph.output[0]])
        node = onnx.helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)
        made.graph.output[0].name = "z"
    if place == "function":
        outer = [onnx.helper.make_opsetid("", 17)]
        made.functions.append(onnx.helper.make_function("own", "F", ["a", "b"], ["y"], [product], outer))
        made.opset_import.append(onnx.helper.make_opsetid("own", 1))
        node = onnx.helper.make_node("F", ["a", "b"], ["y"], domain="own")
    made.graph.node[0].CopyFrom(node)
    with pytest.raises(InputError, match=re.escape(why)):
        parse_onnx(made.SerializeToString(), "m.onnx")


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        # On the first four ONNX's shape inference crashes or never ends, on the next two it raises.
        ("y = GatherND <batch_dims = -5> (x, i)", "GatherND 'y' has batch_dims = -5, and no tensor has such an axis"),
        ("y = GatherND <batch_dims = -2147483648> (x, i)", "has batch_dims = -2147483648"),
        ("y = LayerNormalization <axis = 2147483648> (x, s)", "has axis = 2147483648, and no tensor has such an axis"),
        ("y, z = Split <num_outputs = 1> (x)", "Split 'y' has 2 outputs and num_outputs = 1"),
        ("y = STFT (x, none)", "'m.onnx': its shapes cannot be inferred"),
        ("y = Unique (huge)", "'y' of Unique 'y'"),
    ],
)
def test_a_node_that_inference_cannot_bear_is_refused(nodes: str, why: str) -> None:
    inputs = "float[4, 4] x, int64[4, 1] i, float[4] s, float[4294967296, 4294967296] huge"
    assert why in complaint(f"g ({inputs}) => (y) <int64[0] none = {{}}> {{ {nodes} }}", version=18)


def test_an_operator_set_newer_than_the_installed_package_is_warned_of() -> None:
    made = model("g (float[1, 3] x) => (y) { y = Relu(x) }")
    made.opset_import[0].version = 999
    warnings = parse_onnx(made.SerializeToString(), "m.onnx").metadata["warnings"]
    assert any(warning.startswith("operator set 999 is newer than") for warning in warnings)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ("d = DequantizeLinear () y = MatMul (x, d)", "'d' of its weights has no shape"),
        ("d = DequantizeLinear (w, s) y = Gemm (d)", "'y' of Gemm 'y' depends on the data"),
        ("y = com.microsoft.MatMulNBits <K = 4, N = 1.5> (x, w, s)", "'y' of MatMulNBits 'y' has no shape"),
        (
            "y = com.microsoft.GatherBlockQuantized <bits = 0> (bytes, i)",
            "'y' of GatherBlockQuantized 'y' has no shape",
        ),
        ("y = com.microsoft.QAttention (x)", "'y' of QAttention 'y' has no shape"),
        ("y = com.microsoft.QLinearConcat (s)", "'y' of QLinearConcat 'y' has no shape"),
        ("y = Loop (none, , x) <body = b (int64 i, bool c, s) => (bool d, t) { d = Identity (c) t = Exp (s) }>", "'y'"),
        ("y = Loop (i, , x) <body = b () => () { }>", "op_type:Loop"),
        (
            "z, y = Scan <num_scan_inputs = 1, scan_input_axes = [7], body = b (s, e) => (t, o) "
            "{ t = Add (s, e) o = Exp (e) }> (x, x)",
            "op_type:Scan",
        ),
    ],
)
def test_a_node_that_lacks_what_it_needs_is_named(nodes: str, why: str) -> None:
    weights = (
        "<int8[4, 4] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}, float s = {0.5}, int64[1] i = {0}, uint8[1, 1] bytes = {0}>"
    )
    made = model(f"g (float[4, 4] x) => (y) {weights} {{ {nodes} }}", domains=', "com.microsoft": 1')
    made.graph.initializer.append(onnx.helper.make_tensor("none", onnx.TensorProto.FLOAT, [], [math.nan]))
    with pytest.raises(InputError, match=re.escape(why)):
        parse_onnx(made.SerializeToString(), "m.onnx")


@pytest.mark.parametrize("size", [0, 2**61, 1.5, True])
def test_an_impossible_size_is_told_what_it_must_be(size: Any) -> None:
    assert "it must be a whole number from 1 to 2**31 - 1" in complaint(
        "g (float[n, 3] x) => (y) { y = Relu(x) }", n=size
    )


def test_of_many_open_dimensions_few_are_named() -> None:
    body = ", ".join(f"float[n{i}] x{i}" for i in range(500))
    assert len(complaint(f"g ({body}) => (y) {{ y = Sum(x0, x1) }}")) < 1000
