"""Models on which a run as planned could come to other values than ONNX Runtime by itself, beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import placewright
from placewright import InputError
from placewright.cli import run
from placewright.execution.devices import available_cores
from placewright.importers.onnx.values import evaluate

Feeds = dict[str, Any]
X = np.arange(-6, 6, dtype=np.float32).reshape(4, 3)
two_cores = pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need two cores")

#: Bodies of graphs, what is open in them, and what they are called with.
MODELS: dict[str, tuple[str, dict[str, int], Feeds]] = {
    # Axes that are left out mean all of them, or none.
    "no axes, nothing to add up": (
        "g (float[4,3] x) => (float[A] z) { s = Shape(x) t = ReduceSum<noop_with_empty_axes=1>(s)"
        " one = Constant<value_ints=[1]>() i = Expand(one, t) f = Cast<to=1>(i) r = Constant<value_ints=[-1]>()"
        " z = Reshape(f, r) }",
        {},
        {"x": X},
    ),
    # A view says how another one looks.
    "a shape that is a view of an input": (
        "g (float[4,3] x, int64 n) => (float[A] y) { z = Constant<value_ints=[0]>() s = Unsqueeze(n, z)"
        " v = Reshape(x, s) y = Relu(v) }",
        {"v:0": 12},
        {"x": X, "n": np.array(12)},
    ),
    "a shape that an op makes": (
        "g (float[4,3] x, int64[2] n) => (float[A,B] y) { s = Neg(n) v = Reshape(x, s) y = Relu(v) }",
        {"v:0": 6, "v:1": 2},
        {"x": X, "n": np.array([-6, -2])},
    ),
    "a view that is returned, its shape through two views": (
        "g (float[4,3] x, int64 n) => (float[A] v, float[4,3] y) { y = Relu(x) z = Constant<value_ints=[0]>()"
        " m = Neg(n) p = Neg(m) s = Unsqueeze(p, z) w = Identity(s) v = Reshape(y, w) }",
        {"v:0": 12},
        {"x": X, "n": np.array(12)},
    ),
}


def written(path: Path, body: str, names: list[str] | None = None) -> Path:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {body}')
    for node, name in zip(model.graph.node, names or (), strict=False):
        node.name = name
    onnx.save(model, path)
    return path


def whole(path: Path, feeds: Feeds) -> Feeds:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip((value.name for value in session.get_outputs()), session.run(None, feeds), strict=True))


def assert_same(found: Feeds, expected: Feeds) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("devices", ["cpu:0", pytest.param("cpu:0,cpu:1", marks=two_cores)])
@pytest.mark.parametrize("name", MODELS)
def test_a_run_returns_what_the_file_returns(name: str, devices: str, tmp_path: Path) -> None:
    body, dims, feeds = MODELS[name]
    path = written(tmp_path / "m.onnx", body)
    with placewright.compile_onnx(path, devices=devices, dims=dims, feeds=feeds, evaluations=5) as compiled:
        assert_same(compiled(feeds), whole(path, feeds))
        assert compiled.compare(feeds, steps=1).facts.same_outputs
    # Made of the file itself, and with what says how a view looks on another device than the view.
    for pins in ({}, {"s*": "gpu1", "m": "gpu1", "p": "gpu1"} if devices != "cpu:0" else {}):
        machine = "1xv100" if devices == "cpu:0" else "2xv100"
        graph = placewright.load_graph(path, dims=dims)
        known = {pattern: device for pattern, device in pins.items() if any(op.name == pattern for op in graph.ops)}
        plan = placewright.plan(path, machine, dims=dims, pins=known, evaluations=5)
        with placewright.compile_onnx(path, devices=devices, dims=dims, feeds=feeds, plan=plan) as compiled:
            assert_same(compiled(feeds), whole(path, feeds))


def test_a_size_that_is_stated_and_computed_with_is_refused(tmp_path: Path) -> None:
    """Three of eight numbers are not 0, and the model would divide by the eight that the user states."""
    body = (
        "g (float[8] x) => (float[1] mean) { nz = NonZero(x) f = Cast<to=1>(nz) s = Shape(nz)"
        " c = Constant<value_ints=[1]>() n = Gather(s, c) nf = Cast<to=1>(n) t = ReduceSum<keepdims=0>(f)"
        " o = Constant<value_ints=[1]>() r = Reshape(t, o) mean = Div(r, nf) }"
    )
    path = written(tmp_path / "m.onnx", body)
    with pytest.raises(InputError, match="it computes with the shape of 'nz', and the size of 'nz' is what --dim says"):
        placewright.compile_onnx(path, devices="cpu:0", dims={"nz:1": 8})
    # Where nothing is computed with the size it only says how much memory to count.
    path = written(tmp_path / "n.onnx", "g (float[8] x) => (int64[1,N] y) { nz = NonZero(x) y = Neg(nz) }")
    x = np.array([1, 0, 2, 0, 3, 0, 0, 0], np.float32)
    with placewright.compile_onnx(path, devices="cpu:0", dims={"nz:1": 8, "N": 8}) as compiled:
        assert compiled({"x": x})["y"].tolist() == [[0, -2, -4]]


def test_dropout_whose_mode_is_an_input_draws_once(tmp_path: Path) -> None:
    path = written(
        tmp_path / "m.onnx",
        "g (float[8] x, bool t) => (float[8] y) { h = Constant<value_float=0.5>() d = Dropout(x, h, t) y = Relu(d) }",
    )
    kinds = {op.name: op.kind for op in placewright.load_graph(path).ops}
    assert kinds["d"] == "random"
    given = "g (float[8] x) => (float[8] y) { h = Constant<value_float=0.5>() d = Dropout(x, h) y = Relu(d) }"
    assert "view" in {op.kind for op in placewright.load_graph(written(tmp_path / "g.onnx", given)).ops}


def test_results_are_the_callers_to_change(tmp_path: Path) -> None:
    body = "g (float[2] x) => (float[2] x, float[2] w, float[2] y) { w = Constant<value_floats=[1., 2.]>() y = Neg(x) }"
    path = written(tmp_path / "m.onnx", body)
    x = np.ones(2, np.float32)
    with placewright.compile_onnx(path, devices="cpu:0") as compiled:
        first = compiled({"x": x})
        for array in first.values():
            array *= 10
        assert x.tolist() == [1, 1]
        assert_same(compiled({"x": x}), whole(path, {"x": x}))


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\u2028b", " lead", "trail ", " ", "a,b", '"'])
def test_a_node_may_have_any_name(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", "g (float[3] x) => (float[3] y) { a = Neg(x) y = Exp(a) }", [name, "q"])
    x = {"x": np.ones(3, np.float32)}
    with placewright.compile_onnx(path, devices="cpu:0", evaluations=5) as compiled:
        assert_same(compiled(x), whole(path, x))


def test_a_limit_that_no_plan_keeps_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", "g (float[1000,1000] x) => (float[1000,1000] y) { a = Neg(x) y = Exp(a) }")
    with pytest.raises(InputError, match=r"no plan can fit: "):
        placewright.compile_onnx(path, devices="cpu:0", memory_limit="3MiB")


def test_a_function_of_another_operator_set_runs_inlined_and_cannot_be_timed_as_an_op(tmp_path: Path) -> None:
    text = (
        '<ir_version: 8, opset_import: ["": 17, "my": 1]> g (float[4] x) => (float[4] y) { a = my.f(x) y = Neg(a) }'
        '<domain: "my", opset_import: ["": 13]> f (q) => (r) { t = Relu(q) r = Exp(t) }'
    )
    model = onnx.parser.parse_model(text)
    model.graph.value_info.append(helper.make_tensor_value_info("a", 1, [4]))
    onnx.save(model, path := tmp_path / "m.onnx")
    x = {"x": np.arange(-2, 2, dtype=np.float32)}
    plan = placewright.plan(path, "1xv100", evaluations=5)
    with pytest.raises(InputError, match="cannot be timed: ONNX Runtime's profile does not tell how long 'a' takes"):
        placewright.compile_onnx(path, devices="cpu:0", plan=plan)
    with placewright.compile_onnx(path, devices="cpu:0", evaluations=5) as compiled:
        assert_same(compiled(x), whole(path, x))


def test_seeded_draws_and_texts_are_compared_as_they_are(tmp_path: Path) -> None:
    for name, body in (
        ("drawn", "g (float[3] x) => (float[3] y) { r = RandomNormalLike<seed=3.0>(x) y = Add(x, r) }"),
        ("texts", "g (float[3] x) => (string[3] y) { y = Cast<to=8>(x) }"),
    ):
        path = written(tmp_path / f"{name}.onnx", body)
        x = {"x": np.array([10, 200, 3000], np.float32)}
        with placewright.compile_onnx(path, devices="cpu:0", evaluations=5) as compiled:
            compiled(x)
            assert compiled.compare(x, steps=2).facts.same_outputs, name


@pytest.mark.parametrize(
    ("feeds", "sentence"),
    [
        ({"x": [[1.0], [1.0, 2.0]]}, "the input 'x' is given as no array"),
        ({"x": np.array(["a"])}, "the input 'x' is float32 of shape"),
    ],
)
def test_what_is_no_array_of_the_input_is_refused(feeds: Feeds, sentence: str, tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", "g (float[1] x) => (float[1] y) { y = Exp(x) }")
    with placewright.compile_onnx(path, devices="cpu:0") as compiled, pytest.raises(InputError, match=sentence):
        compiled(feeds)


def test_no_output_replaces_the_weights_of_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "g (float[2] x) => (float[2] y) { y = Mul(x, w) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {text}')
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    path, weights = tmp_path / "m.onnx", tmp_path / "m.bin"
    onnx.save(model, path, save_as_external_data=True, location=weights.name, size_threshold=0)
    before = weights.read_bytes()
    plan = tmp_path / "plan.json"
    assert run(["plan", str(path), "-d", "1xv100", "-o", str(plan), "-q"]) == 0
    for command in (["plan", str(path), "-d", "1xv100"], ["export", str(plan), str(path), "--to", "onnx"]):
        assert run([*command, "-o", str(weights)]) == 2
        assert "would overwrite" in capsys.readouterr().err
    assert weights.read_bytes() == before


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("ReduceSum", [np.array([1, 2], np.int32)], {}),
        ("ReduceProd", [np.array([3, 2], np.int32)], {"keepdims": 0}),
        ("ReduceSum", [np.array([[1, 2]], np.int64)], {"noop_with_empty_axes": 1}),
        ("Range", [np.array(0, np.float32), np.array(0.6, np.float32), np.array(0.1, np.float32)], {}),
        ("Range", [np.array(7), np.array(-2), np.array(-3)], {}),
        ("Slice", [np.arange(5), np.array([-9]), np.array([-8]), np.array([0]), np.array([-1])], {}),
        ("Slice", [np.arange(5), np.array([9]), np.array([-9]), np.array([0]), np.array([-2])], {}),
    ],
)
def test_small_values_are_what_onnx_runtime_computes(op: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    names = [f"i{place}" for place in range(len(inputs))]
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, inputs, strict=True)
    ]
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(inputs[0].dtype), None)
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], "g", values, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, dict(zip(names, inputs, strict=True)))
    found = evaluate(op, inputs, attributes)
    assert found is not None
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
