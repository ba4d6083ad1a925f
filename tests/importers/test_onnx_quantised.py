"""Models quantised by ONNX Runtime's own tools: types of all they make are those of a run."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import write
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import placewright
from placewright.importers.onnx.model import parse_onnx

Feeds = Mapping[str, Any]


def weights(**shapes: tuple[int, ...]) -> list[Any]:
    generator = np.random.default_rng(0)
    return [
        numpy_helper.from_array((generator.standard_normal(shape) / 4).astype(np.float32), name)
        for name, shape in shapes.items()
    ]


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op_type, inputs.split(), outputs.split(), outputs.split()[0], **attributes)


def convolutions(path: Path) -> Path:
    """Most operators that have a quantised form of their own."""
    nodes = [
        node("Conv", "x w1", "c1", pads=[1] * 4),
        node("Relu", "c1", "r1"),
        node("MaxPool", "r1", "m1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "m1 w2 b2", "c2", pads=[1] * 4),
        node("LeakyRelu", "c2", "r2", alpha=0.1),
        node("Conv", "r2 w3", "c3", group=8, pads=[1] * 4),
        node("Sigmoid", "c3", "s3"),
        node("Mul", "s3 r2", "product"),
        node("Add", "product m1", "sum"),
        node("Concat", "sum r2", "joined", axis=1),
        node("AveragePool", "joined", "pooled", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        node("GlobalAveragePool", "pooled", "means"),
        node("Flatten", "means", "flat"),
        node("Gemm", "flat w4 b4", "scores", transB=1),
        node("Softmax", "scores", "y", axis=1),
    ]
    kept = weights(w1=(8, 3, 3, 3), w2=(8, 8, 3, 3), b2=(8,), w3=(8, 1, 3, 3), w4=(10, 16), b4=(10,))
    return write(path, nodes, [("x", [1, 3, 16, 16])], ["y"], kept)


def attention(path: Path) -> Path:
    nodes = [
        node("LayerNormalization", "x scale shift", "normal"),
        node("MatMul", "normal wq", "q"),
        node("MatMul", "normal wk", "k"),
        node("MatMul", "normal wv", "v"),
        node("Transpose", "k", "turned", perm=[0, 2, 1]),
        node("MatMul", "q turned", "pairs"),
        node("Softmax", "pairs", "shares"),
        node("MatMul", "shares v", "mixed"),
        node("Add", "mixed x", "sum"),
        node("MatMul", "sum wf", "wide"),
        node("Add", "wide bf", "biased"),
        node("Relu", "biased", "active"),
        node("MatMul", "active wg", "y"),
    ]
    kept = weights(scale=(16,), shift=(16,), wq=(16, 16), wk=(16, 16), wv=(16, 16), wf=(16, 32), bf=(32,), wg=(32, 16))
    return write(path, nodes, [("x", [2, 6, 16])], ["y"], kept)


def recurrent(path: Path) -> Path:
    nodes = [
        node("LSTM", "x W R B", "states last cell", hidden_size=8),
        node("Squeeze", "states axis", "rows"),
        node("MatMul", "rows w", "y"),
    ]
    kept = weights(W=(1, 32, 6), R=(1, 32, 8), B=(1, 64), w=(8, 4))
    kept.append(numpy_helper.from_array(np.array([1]), "axis"))
    return write(path, nodes, [("x", [5, 2, 6])], ["y", "last"], kept)


def choice(path: Path) -> Path:
    nodes = [
        node("Conv", "x w1", "c"),
        node("Clip", "c low high", "clipped"),
        node("Split", "clipped", "left right", axis=1),
        node("Resize", "right none scales", "large"),
        node("ReduceMean", "left", "means", axes=[2, 3], keepdims=0),
        node("Greater", "means low", "chosen"),
        node("Where", "chosen means other", "some"),
        node("MatMul", "some w2", "y"),
        node("ReduceMean", "large", "z", axes=[1, 2, 3], keepdims=0),
    ]
    nodes[3].input[1] = ""
    kept = weights(w1=(8, 3, 3, 3), other=(1, 4), w2=(4, 6))
    kept += [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("low", 0), ("high", 6))]
    kept.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"))
    return write(path, nodes, [("x", [1, 3, 10, 10])], ["y", "z"], kept)


MODELS: Mapping[str, Callable[[Path], Path]] = {
    "convolutions": convolutions,
    "attention": attention,
    "recurrent": recurrent,
    "choice": choice,
}


def feeds_of(model: Any, seed: int) -> Feeds:
    generator = np.random.default_rng(seed)
    return {
        value.name: generator.standard_normal([dim.dim_value for dim in value.type.tensor_type.shape.dim], np.float32)
        for value in model.graph.input
    }


class Examples(CalibrationDataReader):
    def __init__(self, path: Path) -> None:
        self._left = iter([feeds_of(onnx.load(path), seed) for seed in range(3)])

    def get_next(self) -> Any:
        return next(self._left, None)


def static(layout: QuantFormat, activations: QuantType, *, per_channel: bool) -> Callable[[Path, Path], None]:
    def quantise(path: Path, into: Path) -> None:
        quantize_static(
            path,
            into,
            Examples(path),
            quant_format=layout,
            activation_type=activations,
            weight_type=QuantType.QInt8,
            per_channel=per_channel,
        )

    return quantise


WAYS: Mapping[str, Callable[[Path, Path], None]] = {
    "QDQ": static(QuantFormat.QDQ, QuantType.QUInt8, per_channel=True),
    "QDQ of signed bytes": static(QuantFormat.QDQ, QuantType.QInt8, per_channel=False),
    "QOperator": static(QuantFormat.QOperator, QuantType.QUInt8, per_channel=True),
    "QOperator of signed bytes": static(QuantFormat.QOperator, QuantType.QInt8, per_channel=False),
    "dynamic": lambda path, into: quantize_dynamic(path, into),
}


def values_of(model: Any, feeds: Feeds) -> Feeds:
    """All that the model returns, by name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    found = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in found.get_outputs()]
    return dict(zip(names, found.run(names, dict(feeds)), strict=True))


def assert_types_are_those_of_a_run(model: Any, feeds: Feeds) -> None:
    """Compare all values with those of a run; the model itself says nothing about them but its operators."""
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    graph = parse_onnx(model.SerializeToString(), "m.onnx")
    assert "warnings" not in graph.metadata
    returned = {value.name for value in model.graph.output}
    made = [name for each in model.graph.node for name in each.output if name and name not in returned]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    values = values_of(model, feeds)
    compared = [tensor for tensor in graph.tensors if tensor.name in values]
    assert compared
    for tensor in compared:
        value = values[tensor.name]
        told = (tensor.name, tensor.shape, tensor.dtype, tensor.size_bytes)
        assert told == (tensor.name, value.shape, str(value.dtype), value.nbytes)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_types_of_a_quantised_model_are_those_of_a_run(name: str, way: str, tmp_path: Path) -> None:
    path, into = MODELS[name](tmp_path / "float.onnx"), tmp_path / "quantised.onnx"
    WAYS[way](path, into)
    model = onnx.load(into)
    assert_types_are_those_of_a_run(model, feeds_of(model, 7))


@pytest.mark.parametrize("way", ["QDQ", "QOperator"])
def test_what_onnx_runtime_lays_out_with_channels_last_is_known_too(way: str, tmp_path: Path) -> None:
    path, into = convolutions(tmp_path / "float.onnx"), tmp_path / "quantised.onnx"
    WAYS[way](path, into)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "all.onnx")
    onnxruntime.InferenceSession(into, options, providers=["CPUExecutionProvider"])
    model = onnx.load(tmp_path / "all.onnx")
    assert any(each.domain == "com.microsoft" and each.op_type == "QLinearConv" for each in model.graph.node)
    assert_types_are_those_of_a_run(model, feeds_of(model, 7))


def test_products_of_quantised_operators_are_those_of_the_float_model(tmp_path: Path) -> None:
    # By hand: 2 * 8*16*16 * 3*9, 2 * 8*8*8 * 8*9, 2 * 8*8*8 * 9, 2 * 16 * 10 FLOPs of products.
    expected = [2 * 8 * 256 * 27, 2 * 8 * 64 * 72, 2 * 8 * 64 * 9, 2 * 16 * 10]
    path = convolutions(tmp_path / "float.onnx")
    for way in ("QOperator", "QDQ", "dynamic"):
        WAYS[way](path, tmp_path / "quantised.onnx")
        graph = placewright.load_graph(tmp_path / "quantised.onnx")
        plan = placewright.plan(graph, "1xp100", evaluations=10)
        assert plan.status in ("optimal", "feasible")
        found = []
        for op in graph.ops:
            attributes, result = op.attributes, graph.tensors[op.outputs[0]]
            if op.kind == "conv":
                size = int(np.prod(result.shape or ()))
                found.append(2 * size * attributes["in_channels"] // attributes["groups"] * 9)
            if op.kind == "matmul":
                found.append(2 * attributes["batch"] * attributes["m"] * attributes["n"] * attributes["k"])
        assert found == expected, way


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 16 rows of 8 bytes of two elements each.
        ("y = com.microsoft.GatherBlockQuantized <block_size = 16> (bytes, rows, scales)",
         ("embedding", (3, 16), "float32")),
        ("y = com.microsoft.MatMulBnb4 <K = 16, N = 5, block_size = 16, quant_type = 1> (x, bytes, scales)",
         ("matmul", (2, 6, 5), "float32")),
        ("y = com.microsoft.QLinearReduceMean <axes = [1]> (x, one, zero, one, zero)",
         ("reduction", (2, 1, 16), "float32")),
        ("y = com.microsoft.QEmbedLayerNormalization (ids, , table, table, , bytes, bytes, , one)",
         ("normalization", (2, 6, 7), "float32")),
        ("y = com.microsoft.QAttention <num_heads = 2> (q, wide, bias, one, one)",
         ("attention", (2, 6, 16), "float32")),
        ("y, last = com.microsoft.DynamicQuantizeLSTM <hidden_size = 4> (x, input, hidden)",
         ("rnn", (2, 1, 6, 4), "float32")),
        ("y = com.microsoft.DequantizeLinear (bytes, one, zero)", ("elementwise", (16, 8), "float32")),
        ("y = com.microsoft.QuantizeLinear (x, one, zero)", ("elementwise", (2, 6, 16), "uint8")),
        ("y = com.microsoft.QuantizeLinear (x, one)", ("elementwise", (2, 6, 16), "uint8")),
        ("y = com.microsoft.MatMulInteger16 (words, words)", ("matmul", (4, 4), "int32")),
    ],
)  # fmt: skip
def test_other_quantised_operators_have_types(text: str, expected: tuple[str, tuple[int, ...], str]) -> None:
    given = (
        "float[2, 6, 16] x, int32[2, 6] ids, int64[3] rows, uint8[16, 8] bytes, uint8[2, 6, 16] q, int16[4, 4] words"
    )
    head = '<ir_version: 10, opset_import: ["": 17, "com.microsoft": 1]>'
    model = onnx.parser.parse_model(f"{head} g ({given}) => (y) {{ {text} }}")
    del model.graph.output[:]
    model.graph.output.add(name="y")
    for name, kind, shape in [
        ("scales", TensorProto.FLOAT, [16, 1]),
        ("one", TensorProto.FLOAT, []),
        ("zero", TensorProto.UINT8, []),
        ("table", TensorProto.UINT8, [30, 7]),
        ("wide", TensorProto.INT8, [16, 48]),
        ("bias", TensorProto.FLOAT, [48]),
        ("input", TensorProto.INT8, [1, 16, 16]),
        ("hidden", TensorProto.INT8, [1, 4, 16]),
    ]:
        model.graph.initializer.append(helper.make_tensor(name, kind, shape, [0] * int(np.prod(shape))))
    graph = parse_onnx(model.SerializeToString(), "m.onnx")
    op = graph.ops[-1]
    made = graph.tensors[op.outputs[0]]
    assert (op.kind, made.shape, made.dtype) == expected
