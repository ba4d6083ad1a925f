"""ONNX models that return what no op makes: weights, inputs, constants; or that make what nobody wants."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import placewright

WEIGHT = "<float[2] w = {1.0, 2.0}>"
MODELS = {
    "a weight": f"g (float[2] x) => (float[2] y, float[2] w) {WEIGHT} {{ y = Relu (x) }}",
    "a weight that is read": f"g (float[2] x) => (float[2] y, float[2] w) {WEIGHT} {{ y = Add (x, w) }}",
    "an input": "g (float[2] x, float[3] z) => (float[2] y, float[3] z) { y = Relu (x) }",
    "a value twice": "g (float[2] x) => (float[2] y, float[2] y) { y = Relu (x) }",
    "a constant": "g (float[2] x) => (float[2] y, int64[1] k) { y = Relu (x)  k = Constant <value_ints = [3]> () }",
    "a folded value": f"g (float[2] x) => (float[2] y, float[2] k) {WEIGHT} {{ y = Relu (x)  k = Add (w, w) }}",
    "a view of a weight": f"g (float[2] x) => (float[2] y, float[2] k) {WEIGHT} {{ y = Add (x, w)  k = Identity (w) }}",
    "a view of an input": "g (float[2] x) => (float[2] k) { k = Identity (x) }",
    "a shape": "g (float[2, 3] x) => (float[2, 3] y, int64[2] s) { y = Relu (x)  s = Shape (x) }",
    "constants alone": f"g (float[2] x) => (float[2] k) {WEIGHT} {{ k = Add (w, w) }}",
    "a weight alone": f"g (float[2] x) => (float[2] w) {WEIGHT} {{ k = Relu (x) }}",
    "an input alone": "g (float[2] x) => (float[2] x) { k = Relu (x) }",
    "nothing that it is given": f"g () => (float[2] y) {WEIGHT} {{ y = Relu (w) }}",
    "what a dead end leaves": "g (float[2] x) => (float[2] y) { y = Relu (x)  z = Exp (y) }",
}


def by_onnx_runtime(path: Path, feeds: dict[str, Any]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert (found[name].shape, found[name].dtype) == (value.shape, value.dtype)
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("name", MODELS)
def test_whatever_a_model_returns_a_plan_returns_and_an_export_too(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]>' + MODELS[name]), path)
    generator = np.random.default_rng(0)
    feeds = {
        value.name: generator.standard_normal([dim.dim_value for dim in value.type.tensor_type.shape.dim], np.float32)
        for value in onnx.load(path).graph.input
    }
    expected = by_onnx_runtime(path, feeds)
    with placewright.compile_onnx(path, devices="cpu:0", evaluations=20) as compiled:
        assert_same(compiled(feeds), expected)
        facts = compiled.compare(feeds, steps=1).facts
        assert facts.same_outputs
        assert facts.ran_as_planned, facts.difference
    as_it_is = placewright.plan(path, "1xp100", evaluations=20)
    with placewright.compile_onnx(path, devices="cpu:0", plan=as_it_is) as compiled:
        assert_same(compiled(feeds), expected)
    placewright.export_plan(as_it_is, "onnx", tmp_path / "planned.onnx", graph=path)
    onnx.checker.check_model(tmp_path / "planned.onnx", full_check=True)
    assert_same(by_onnx_runtime(tmp_path / "planned.onnx", feeds), expected)


def test_a_sparse_weight_is_a_weight(tmp_path: Path) -> None:
    text = "g (float[4] x) => (float[4] y, float[4] z) { y = Add (x, w)  z = Mul (y, w) }"
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]>' + text)
    values = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], [1.0, 2.0])
    places = onnx.helper.make_tensor("places", onnx.TensorProto.INT64, [2], [0, 3])
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, [4]))
    path, feeds = tmp_path / "m.onnx", {"x": np.ones(4, np.float32)}
    onnx.save(model, path)
    # w is (1, 0, 0, 2).
    expected = {"y": np.array([2, 1, 1, 3], np.float32), "z": np.array([2, 0, 0, 6], np.float32)}
    with placewright.compile_onnx(path, devices="cpu:0", evaluations=20) as compiled:
        assert_same(compiled(feeds), expected)
    as_it_is = placewright.plan(path, "1xp100", evaluations=20)
    with placewright.compile_onnx(path, devices="cpu:0", plan=as_it_is) as compiled:
        assert_same(compiled(feeds), expected)
