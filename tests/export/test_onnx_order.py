"""Exports of awkward ONNX models: whatever the placement, outputs equal those of the file, bit by bit."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import executed, image, towers, write

import placewright
from placewright import InputError


def assert_as_the_file(path: Path, feeds: dict[str, Any], seed: int = 0, dims: dict[str, int] | None = None) -> None:
    """Check that an export with ops pinned to random ones of three devices computes exactly what the file does."""
    graph = placewright.load_graph(path, dims=dims)
    generator = np.random.default_rng(seed)
    pins = {op.name: int(generator.integers(3)) for op in graph.ops if op.kind != "view"}
    plan = placewright.plan(path, "3xv100", dims=dims, pins=pins, evaluations=20)
    exported = path.with_name("planned.onnx")
    placewright.export_plan(plan, "onnx", exported)
    onnx.checker.check_model(exported)
    found, wanted = (executed(file, feeds, path.parent)[1] for file in (exported, path))
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert (found[name].shape, found[name].dtype) == (value.shape, value.dtype)
        np.testing.assert_array_equal(found[name], value)


def written(path: Path, body: str) -> Path:
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {body}'), path)
    return path


def weight(name: str, *shape: int) -> Any:
    values = np.random.default_rng(len(name)).standard_normal(shape)
    return numpy_helper.from_array(values.astype(np.float32), name)


def shared(path: Path) -> Path:
    """One weight read by two ops, an output that is read again, an op with two outputs, a reshaped value read twice."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "a"),
        helper.make_node("Relu", ["a"], ["b"], "b"),
        helper.make_node("MatMul", ["b", "w"], ["c"], "c"),
        helper.make_node("Split", ["c"], ["left", "right"], "split", axis=1),
        helper.make_node("Reshape", ["b", "shape"], ["flat"], "flat"),
        helper.make_node("Exp", ["flat"], ["e"], "e"),
        helper.make_node("Neg", ["flat"], ["n"], "n"),
        helper.make_node("Add", ["left", "right"], ["sum"], "sum"),
    ]
    weights = [weight("w", 8, 8), numpy_helper.from_array(np.array([2, 16]), "shape")]
    return write(path, nodes, [("x", [4, 8])], ["b", "e", "n", "sum"], weights)


def shapes_inside(path: Path) -> Path:
    """A shape that is asked for and computed with, constants that are folded away, an output that is constant."""
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], "a"),
        helper.make_node("Shape", ["a"], ["size"], "size"),
        helper.make_node("Gather", ["size", "zero"], ["rows"], "rows"),
        helper.make_node("Concat", ["rows", "minus"], ["target"], "target", axis=0),
        helper.make_node("Reshape", ["y", "target"], ["b"], "b"),
        helper.make_node("Mul", ["w", "w"], ["ww"], "ww"),
        helper.make_node("Add", ["b", "ww"], ["c"], "c"),
        helper.make_node("Neg", ["c"], ["d"], "d"),
    ]
    weights = [
        numpy_helper.from_array(np.array([0]), "zero"),
        numpy_helper.from_array(np.array([-1]), "minus"),
        weight("w", 4, 6),
    ]
    return write(path, nodes, [("x", [4, 2]), ("y", [2, 12])], ["a", "d"], weights)


def branches(path: Path) -> Path:
    """An If whose branches read values from outside, and a node without a name."""
    then = helper.make_graph([helper.make_node("Add", ["a", "w"], ["t"])], "then", [], [info("t")])
    other = helper.make_graph([helper.make_node("Sub", ["a", "b"], ["o"])], "else", [], [info("o")])
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], "a"),
        helper.make_node("Neg", ["x"], ["b"]),
        helper.make_node("ReduceSum", ["a"], ["total"], "total", keepdims=0),
        helper.make_node("Greater", ["total", "limit"], ["large"], "large"),
        helper.make_node("If", ["large"], ["c"], "choice", then_branch=then, else_branch=other),
        helper.make_node("Mul", ["c", "b"], ["d"], "d"),
    ]
    weights = [weight("w", 4), numpy_helper.from_array(np.array(5, np.float32), "limit")]
    return write(path, nodes, [("x", [4])], ["d"], weights)


def info(name: str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])


PLACED = {
    "shared": (shared, {"x": np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)}),
    "shapes_inside": (
        shapes_inside,
        {"x": np.ones((4, 2), np.float32), "y": np.arange(24, dtype=np.float32).reshape(2, 12)},
    ),
    "branches": (branches, {"x": np.array([0.5, 1, 1.5, 0], np.float32)}),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", PLACED)
def test_any_placement_gives_what_the_file_gives(name: str, seed: int, tmp_path: Path) -> None:
    make, feeds = PLACED[name]
    assert_as_the_file(make(tmp_path / f"{name}.onnx"), feeds, seed)


def views_at_random(path: Path, seed: int) -> dict[str, Any]:
    """Write a model of ops on twelve numbers and views of them, whose shapes are inputs or made by ops and other views.
    Return the inputs to call it with."""
    random = np.random.default_rng(seed)
    shapes = [(4, 3), (12,), (2, 6), (3, 2, 2)]
    nodes, declared = [], []
    values: list[tuple[str, tuple[int, ...]]] = [("x", shapes[0])]
    sizes = {shape: [f"n{place}"] for place, shape in enumerate(shapes)}

    def add(op: str, inputs: list[str], name: str) -> str:
        nodes.append(helper.make_node(op, inputs, [name], name))
        return name

    for step in range(14):
        name, shape = values[int(random.integers(len(values)))]
        wanted = shapes[int(random.integers(len(shapes)))]
        match int(random.integers(5)):
            case 0:
                values.append((add(str(random.choice(["Neg", "Relu", "Sigmoid"])), [name], f"v{step}"), shape))
            case 1:
                other = [each for each, own in values if own == shape]
                values.append((add("Add", [name, str(random.choice(other))], f"v{step}"), shape))
            case 2:
                sizes[wanted].append(add(str(random.choice(["Abs", "Identity"])), [sizes[wanted][-1]], f"s{step}"))
            case _:
                size = str(random.choice(sizes[wanted]))
                values.append((add("Reshape", [name, size], f"v{step}"), wanted))
                declared.append(helper.make_tensor_value_info(f"v{step}", TensorProto.FLOAT, wanted))
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, shapes[0]),
        *(helper.make_tensor_value_info(f"n{i}", TensorProto.INT64, [len(each)]) for i, each in enumerate(shapes)),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values[-3:]]
    graph = helper.make_graph(nodes, "views", inputs, outputs, value_info=declared)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return {
        "x": random.standard_normal(shapes[0]).astype(np.float32),
        **{f"n{place}": np.array(shape) for place, shape in enumerate(shapes)},
    }


@pytest.mark.parametrize("seed", range(20))
def test_views_whose_shapes_are_computed_are_what_the_file_makes_of_them(seed: int, tmp_path: Path) -> None:
    feeds = views_at_random(path := tmp_path / "views.onnx", seed)
    assert_as_the_file(path, feeds, seed)


def test_a_shape_that_an_op_makes_is_made_before_the_view(tmp_path: Path) -> None:
    body = "g (float[4,3] x, int64[2] n) => (float[A,B] y) { s = Neg(n) v = Reshape(x, s) y = Relu(v) }"
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "n": np.array([-6, -2])}
    assert_as_the_file(written(tmp_path / "m.onnx", body), feeds, dims={"v:0": 6, "v:1": 2})


def test_a_size_that_is_stated_and_computed_with_is_refused(tmp_path: Path) -> None:
    """Three of eight numbers are not 0, and the model would divide by the eight that the user states."""
    body = (
        "g (float[8] x) => (float[1] mean) { nz = NonZero(x) f = Cast<to=1>(nz) s = Shape(nz)"
        " c = Constant<value_ints=[1]>() n = Gather(s, c) nf = Cast<to=1>(n) t = ReduceSum<keepdims=0>(f)"
        " o = Constant<value_ints=[1]>() r = Reshape(t, o) mean = Div(r, nf) }"
    )
    plan = placewright.plan(written(tmp_path / "m.onnx", body), "cpu", dims={"nz:1": 8}, evaluations=5)
    with pytest.raises(InputError, match="it computes with the shape of 'nz', and the size of 'nz' is what --dim says"):
        placewright.export_plan(plan, "onnx", tmp_path / "planned.onnx")


WEIGHT = "<float[2] w = {1.0, 2.0}>"
RETURNING = {
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


@pytest.mark.parametrize("name", RETURNING)
def test_whatever_a_model_returns_its_export_returns(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", RETURNING[name])
    generator = np.random.default_rng(0)
    feeds = {
        value.name: generator.standard_normal([dim.dim_value for dim in value.type.tensor_type.shape.dim], np.float32)
        for value in onnx.load(path).graph.input
    }
    assert_as_the_file(path, feeds)


def test_a_sparse_weight_is_a_weight(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[4] x) => (float[4] y, float[4] z)'
        " { y = Add (x, w)  z = Mul (y, w) }"
    )
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    places = helper.make_tensor("places", TensorProto.INT64, [2], [0, 3])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4]))
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    assert_as_the_file(path, {"x": np.ones(4, np.float32)})


def test_a_model_with_defaults_and_open_dimensions_is_exported_with_its_sizes(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx", batch="batch")
    model = onnx.load(path)
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [1], [2.0])
    model.graph.initializer.append(scale)
    model.graph.input.append(helper.make_tensor_value_info("scale", TensorProto.FLOAT, [1]))
    model.graph.node.append(helper.make_node("Mul", ["scores", "scale"], ["scaled"], "scaled"))
    model.graph.output[0].name = "scaled"
    onnx.save(model, path)
    assert_as_the_file(path, image(batch=2), dims={"batch": 2})
    exported = onnx.load(tmp_path / "planned.onnx")
    assert [value.name for value in exported.graph.input] == ["image"]
    assert exported.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
