"""Quantised weights of ONNX models: as large as the file has them, and dequantised where ONNX Runtime does so."""

import math
from typing import Any

import numpy as np
import pytest

import placewright
from placewright.graph import Graph
from placewright.importers.onnx.model import parse_onnx

onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
TYPES = onnx.TensorProto
#: Bits of an element, by the standard.
BITS = {
    "INT8": 8, "UINT8": 8, "INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2, "FLOAT8E4M3FN": 8, "FLOAT4E2M1": 4,
    "FLOAT": 32, "INT32": 32,
}  # fmt: skip


def model(body: str, weights: dict[str, tuple[str, list[int]]], version: int = 25) -> Any:
    made = onnx.parser.parse_model(f'<ir_version: 12, opset_import: ["": {version}]>\n{body}')
    for name, (kind, shape) in weights.items():
        values = [1] * math.prod(shape)
        made.graph.initializer.append(onnx.helper.make_tensor(name, getattr(TYPES, kind), shape, values))
    return made


def load(body: str, weights: dict[str, tuple[str, list[int]]]) -> Graph:
    return parse_onnx(model(body, weights).SerializeToString(), "m.onnx")


def stored(weights: dict[str, tuple[str, list[int]]]) -> int:
    return sum(-(-math.prod(shape) * BITS[kind] // 8) for kind, shape in weights.values())


def resident(graph: Graph) -> int:
    return sum(tensor.size_bytes for tensor in graph.tensors if tensor.role != "activation")


def targets(graph: Graph) -> list[str]:
    return [op.target for op in graph.ops if op.target]


SCALES: dict[str, tuple[str, list[int]]] = {
    "": ("FLOAT", []),
    "<axis = 1>": ("FLOAT", [33]),
    "<axis = 0, block_size = 32>": ("FLOAT", [3, 33]),
}


@pytest.mark.parametrize("scaled", SCALES)
@pytest.mark.parametrize("kind", ["INT8", "UINT8", "INT4", "UINT4", "INT2", "UINT2", "FLOAT8E4M3FN", "FLOAT4E2M1"])
def test_quantised_weights_are_as_large_as_the_file_has_them(kind: str, scaled: str) -> None:
    # 96 x 33 elements: 1,584 bytes of four bits, 792 of two.
    weights = {"w": (kind, [96, 33]), "s": SCALES[scaled]}
    product = load(
        f"g (float[2, 96] x) => (float[2, 33] y) {{ f = DequantizeLinear {scaled} (w, s)  y = MatMul (x, f) }}", weights
    )
    assert resident(product) == stored(weights)
    assert {tensor.role for tensor in product.tensors if tensor.name in "ws"} == {"parameter"}
    # A product of integers takes the weight as it is; there is none of floats of eight or four bits.
    fused = not kind.startswith("FLOAT")
    assert targets(product) == ["MatMul"] if fused else ["DequantizeLinear", "MatMul"]
    assert sum(tensor.size_bytes for tensor in product.tensors if tensor.name == "f") == (0 if fused else 96 * 33 * 4)
    rows = load(
        f"g (int64[5] x) => (float[5, 33] y) {{ f = DequantizeLinear {scaled} (w, s)  y = Gather (f, x) }}", weights
    )
    assert resident(rows) == stored(weights)
    assert targets(rows) == ["DequantizeLinear", "Gather"]


def test_a_product_reads_its_weight_as_it_is_stored() -> None:
    weights = {"w": ("UINT4", [256, 512]), "s": ("FLOAT", [512]), "z": ("UINT4", [512])}
    graph = load(
        "g (float[2, 256] x) => (float[2, 512] y) { f = DequantizeLinear <axis = 1> (w, s, z)  y = MatMul (x, f) }",
        weights,
    )
    assert [graph.tensors[index].name for index in graph.ops[-1].inputs] == ["x", "w", "s", "z"]
    assert graph.ops[-1].attributes == {"batch": 1, "m": 2, "n": 512, "k": 256, "bias": False}
    from placewright.costs.traffic import count_bytes

    op = graph.ops[-1]
    inputs, outputs = [graph.tensors[index] for index in op.inputs], [graph.tensors[index] for index in op.outputs]
    # x, half a byte an element of w, scales, half a byte a column of zero points, y.
    assert count_bytes(op, inputs, outputs) == 2 * 256 * 4 + 256 * 512 // 2 + 512 * 4 + 512 // 2 + 2 * 512 * 4


def test_a_limit_that_the_file_fits_in_is_kept() -> None:
    # Four layers of 256 x 256 in four bits and blocks of 32: 4 * (32,768 + 8 * 256 * 4) bytes; in float32 a megabyte.
    nodes: list[str] = []
    weights: dict[str, tuple[str, list[int]]] = {}
    for layer in range(4):
        weights |= {f"w{layer}": ("INT4", [256, 256]), f"s{layer}": ("FLOAT", [8, 256])}
        nodes.append(f"f{layer} = DequantizeLinear <axis = 0, block_size = 32> (w{layer}, s{layer})")
        nodes.append(f"y{layer} = MatMul ({f'y{layer - 1}' if layer else 'x'}, f{layer})")
    graph = load(f"g (float[1, 256] x) => (float[1, 256] y3) {{ {' '.join(nodes)} }}", weights)
    assert resident(graph) == 4 * (32_768 + 8_192) == stored(weights)
    plan = placewright.plan(graph, "1xp100", memory_limit="200KiB", evaluations=50)
    assert plan.status in ("optimal", "feasible")
    # Where each layer is dequantised before it is read, one float matrix is there at a time.
    gemm = " ".join(nodes).replace("MatMul (", "Gemm <transB = 1> (")
    computed = load(f"g (float[1, 256] x) => (float[1, 256] y3) {{ {gemm} }}", weights)
    assert resident(computed) == stored(weights)
    plan = placewright.plan(computed, "1xp100", memory_limit="500KiB", evaluations=50)
    assert plan.status in ("optimal", "feasible")
    assert plan.metrics.peak_memory_bytes >= stored(weights) + 256 * 256 * 4


#: Quantised data x8 of a float x, and of a result; the weight is of bytes.
HEAD = "x8 = QuantizeLinear (x, s, zero)  xf = DequantizeLinear (x8, s, zero)  "
TAIL = "  y8 = QuantizeLinear (r, s, zero)  y = DequantizeLinear (y8, s, zero)"
ONE: dict[str, tuple[str, list[int]]] = {"s": ("FLOAT", []), "zero": ("UINT8", [])}
BYTES: dict[str, tuple[str, list[int]]] = {**ONE, "w": ("INT8", [64, 64]), "none": ("INT8", [])}
MATRIX = "f = DequantizeLinear (w, s, none)  "
SIZE = "float[4, 64]"
CASES: dict[str, tuple[str, dict[str, tuple[str, list[int]]], list[str]]] = {
    "a product of bytes": (f"g ({SIZE} x) => ({SIZE} y) {{ {HEAD}{MATRIX}y = MatMul (xf, f) }}", BYTES, []),
    "a product of bytes with a bias": (
        f"g ({SIZE} x) => ({SIZE} y) {{ {HEAD}{MATRIX}c = DequantizeLinear (b, s)  y = Gemm (xf, f, c) }}",
        {**BYTES, "b": ("INT32", [64])},
        [],
    ),
    "a product of bytes with a float bias": (
        f"g ({SIZE} x) => ({SIZE} y) {{ {HEAD}{MATRIX}y = Gemm (xf, f, b) }}",
        {**BYTES, "b": ("FLOAT", [64])},
        ["w"],
    ),
    "a convolution of bytes": (
        f"g (float[1, 2, 8, 8] x) => (float[1, 2, 6, 6] y) {{ {HEAD}{MATRIX}r = Conv (xf, f){TAIL} }}",
        {**BYTES, "w": ("INT8", [2, 2, 3, 3])},
        [],
    ),
    "a convolution whose result stays a float": (
        f"g (float[1, 2, 8, 8] x) => (float[1, 2, 6, 6] y) {{ {HEAD}{MATRIX}y = Conv (xf, f) }}",
        {**BYTES, "w": ("INT8", [2, 2, 3, 3])},
        ["w"],
    ),
    "a product of a byte weight and floats": (f"g ({SIZE} x) => ({SIZE} y) {{ {MATRIX}y = MatMul (x, f) }}", BYTES, []),
    "the same as Gemm": (f"g ({SIZE} x) => ({SIZE} y) {{ {MATRIX}y = Gemm (x, f) }}", BYTES, []),
    "the same turned": (f"g ({SIZE} x) => ({SIZE} y) {{ {MATRIX}y = Gemm <transB = 1> (x, f) }}", BYTES, ["w"]),
    "a weight read twice": (
        f"g ({SIZE} x) => ({SIZE} y) {{ {MATRIX}a = MatMul (x, f)  y = MatMul (a, f) }}",
        BYTES,
        ["w"],
    ),
    "a weight that is returned": (
        f"g ({SIZE} x) => ({SIZE} y, float[64, 64] f) {{ {MATRIX}y = MatMul (x, f) }}",
        BYTES,
        ["w"],
    ),
    "a weight on the left": (f"g (float[64, 64] x) => (float[64, 64] y) {{ {MATRIX}y = MatMul (f, x) }}", BYTES, ["w"]),
    "scales of rows": (
        f"g ({SIZE} x) => ({SIZE} y) {{ f = DequantizeLinear <axis = 0> (w, r)  y = MatMul (x, f) }}",
        {"w": ("INT8", [64, 64]), "r": ("FLOAT", [64])},
        ["w"],
    ),
    "blocks that are too small": (
        f"g ({SIZE} x) => ({SIZE} y) {{ f = DequantizeLinear <axis = 0, block_size = 8> (w, r)  y = MatMul (x, f) }}",
        {"w": ("INT8", [64, 64]), "r": ("FLOAT", [8, 64])},
        ["w"],
    ),
    "scales that are computed": (
        f"g ({SIZE} x, float s) => ({SIZE} y) {{ f = DequantizeLinear (w, s)  y = MatMul (x, f) }}",
        {"w": ("INT8", [64, 64])},
        ["w"],
    ),
    "a stack of matrices": (
        "g (float[2, 4, 64] x) => (float[2, 4, 64] y) { f = DequantizeLinear (w, s)  y = MatMul (x, f) }",
        {"w": ("INT8", [2, 64, 64]), "s": ("FLOAT", [])},
        ["w"],
    ),
    "words": (
        f"g ({SIZE} x) => ({SIZE} y) {{ f = DequantizeLinear (w, s)  y = MatMul (x, f) }}",
        {"w": ("INT16", [64, 64]), "s": ("FLOAT", [])},
        ["w"],
    ),
    "a sum": (f"g (float[64, 64] x) => (float[64, 64] y) {{ {MATRIX}y = Add (x, f) }}", BYTES, ["w"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_weight_is_dequantised_by_an_op_where_onnx_runtime_does_so(name: str, tmp_path: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="the onnxruntime extra is not installed")
    body, weights, expected = CASES[name]
    made = model(body, weights, version=21)
    graph = parse_onnx(made.SerializeToString(), "m.onnx")
    read = [graph.tensors[op.inputs[0]].name for op in graph.ops if op.target == "DequantizeLinear"]
    assert [weight for weight in read if weight in weights] == expected
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(tmp_path / "optimised.onnx").graph.node
    read = [node.input[0] for node in nodes if node.op_type == "DequantizeLinear"]
    assert sorted({weight for weight in read if weight in weights}) == expected


def test_what_a_model_quantises_itself_counts_as_what_is_left_of_it() -> None:
    # A weight in float32 that is quantised once and for all: ONNX Runtime folds that, and holds bytes.
    graph = load(
        f"g ({SIZE} x) => ({SIZE} y) {{ w8 = QuantizeLinear (w, s, none)  f = DequantizeLinear (w8, s, none)  "
        "y = MatMul (x, f) }",
        {"w": ("FLOAT", [64, 64]), "s": ("FLOAT", []), "none": ("INT8", [])},
    )
    assert resident(graph) == 64 * 64 + 4 + 1
    assert targets(graph) == ["DequantizeLinear", "MatMul"]


def test_weights_of_bodies_are_stored_ones_too() -> None:
    text = """g (float[4, 64] x) => (float[4, 64] y) <int64 three = {3}, bool yes = {1}> {
        y = Loop (three, yes, x) <body = b (int64 i, bool go, float[4, 64] s) => (bool on, float[4, 64] t)
            <int4[64, 64] w, float scale = {0.5}> { on = Identity (go)  f = DequantizeLinear (w, scale)
              t = MatMul (s, f) }> }"""
    text = text.replace("int4[64, 64] w, ", "")
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]>\n{text}')
    weight = onnx.helper.make_tensor("w", TYPES.INT4, [64, 64], np.ones(64 * 64, np.int8))
    made.graph.node[0].attribute[0].g.initializer.append(weight)
    graph = parse_onnx(made.SerializeToString(), "m.onnx")
    sizes = {tensor.name: tensor.size_bytes for tensor in graph.tensors if tensor.role == "parameter"}
    assert sizes == {"y/0/scale": 4, "y/1/w": 64 * 64 // 2}
