"""Plans of awkward ONNX models: whatever the placement, outputs are those of one session, bit by bit."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import image, towers, write

import placewright
from placewright.execution.devices import available_cores
from placewright.execution.onnx_runtime.model import read_onnx
from placewright.execution.onnx_runtime.parts import parts_of
from placewright.execution.onnx_runtime.step import OnnxStep
from placewright.execution.steps import steps_of
from placewright.execution.workers import Workers

CORES = available_cores()
#: Devices that may share a core: what is tested here is not how fast they are.
PLACES = [frozenset({CORES[0]}), frozenset({CORES[-1]}), frozenset({CORES[0]})]


def run_placed(path: Path, feeds: dict[str, Any], seed: int) -> dict[str, Any]:
    """The model as its file has it, its ops on random ones of three devices."""
    model = read_onnx(path, {})
    generator = np.random.default_rng(seed)
    pins = {op.name: int(generator.integers(3)) for op in model.graph.ops if op.kind != "view"}
    plan = placewright.plan(model.graph, "3xv100", pins=pins, evaluations=20)
    workers = Workers(PLACES, for_torch=False)
    try:
        step = OnnxStep(model, plan, workers, PLACES)
        first = step.run(feeds)
        again = step.run(feeds)
    finally:
        workers.close()
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name])
    return first


def expected(path: Path, feeds: dict[str, Any]) -> dict[str, Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


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


FEEDS: dict[str, dict[str, Any]] = {
    "shared": {"x": np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)},
    "shapes_inside": {"x": np.ones((4, 2), np.float32), "y": np.arange(24, dtype=np.float32).reshape(2, 12)},
    "branches": {"x": np.array([0.5, 1, 1.5, 0], np.float32)},
}
MODELS = {"shared": shared, "shapes_inside": shapes_inside, "branches": branches}


def assert_as_one_session(path: Path, feeds: dict[str, Any], seed: int) -> None:
    found, wanted = run_placed(path, feeds, seed), expected(path, feeds)
    assert found.keys() == wanted.keys()
    for value in wanted:
        np.testing.assert_array_equal(found[value], wanted[value])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", MODELS)
def test_any_placement_gives_what_one_session_gives(name: str, seed: int, tmp_path: Path) -> None:
    path = MODELS[name](tmp_path / f"{name}.onnx")
    assert_as_one_session(path, FEEDS[name], seed)


def views_at_random(path: Path, seed: int) -> dict[str, Any]:
    """Writes a model of ops on twelve numbers and views of them, whose shapes are inputs, or what ops and other views
    make of them; returns what it is called with."""
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


@pytest.mark.parametrize("seed", range(60))
def test_views_whose_shapes_are_computed_are_what_one_session_makes_of_them(seed: int, tmp_path: Path) -> None:
    feeds = views_at_random(path := tmp_path / "views.onnx", seed)
    assert_as_one_session(path, feeds, seed)


def sequences_at_random(path: Path, seed: int) -> dict[str, Any]:
    """Writes a model of ops on tensors and on sequences of them, some within an If; returns what it is called with."""
    random = np.random.default_rng(seed)
    nodes: list[Any] = []
    tensors, lists = ["x", "y"], ["l"]

    def add(op: str, inputs: list[str], into: list[str], **attributes: Any) -> str:
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        into.append(name)
        return name

    def any_of(names: list[str]) -> str:
        return str(random.choice(names))

    add("SequenceConstruct", ["x", "y"], lists)
    lists.remove("l")
    for _ in range(14):
        match int(random.integers(8)):
            case 0:
                add("SequenceConstruct", [any_of(tensors) for _ in range(random.integers(1, 4))], lists)
            case 1:
                add("SplitToSequence", [any_of(tensors), "one"], lists, axis=0)
            case 2:
                add("SequenceInsert", [any_of(lists), any_of(tensors)], lists)
            case 3:
                add("SequenceInsert", [any_of(lists), any_of(tensors), "first"], lists)
            case 4:
                add("Identity", [any_of(lists)], lists)
            case 5:
                add("Neg", [any_of(tensors)], tensors)
            case _:
                # Every element has one row or four of the same width, so a mean over rows has one of them.
                part = add("SequenceAt", [any_of(lists), any_of(["first", "last"])], tensors)
                row = add("ReduceMean", [part], tensors, axes=[0], keepdims=1)
                add("Add", [row, any_of(tensors)], tensors)
    add("ConcatFromSequence", [any_of(lists)], tensors, axis=0)
    add("SequenceLength", [any_of(lists)], tensors)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 3]) for name in ("x", "y")]
    outputs = [helper.make_empty_tensor_value_info(name) for name in tensors[2:]]
    weights = [numpy_helper.from_array(np.array(n), name) for name, n in (("first", 0), ("last", -1), ("one", 1))]
    graph = helper.make_graph(nodes, "sequences", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    feeds = {name: random.standard_normal((4, 3)).astype(np.float32) for name in ("x", "y")}
    # How large an element is depends on its place, so the model states what a session finds.
    onnx.save(model, path)
    sizes = {name: value.shape for name, value in expected(path, feeds).items()}
    for value in model.graph.output:
        dtype = value.type.tensor_type.elem_type
        value.CopyFrom(helper.make_tensor_value_info(value.name, dtype, sizes[value.name]))
    del model.graph.value_info[:]
    model.graph.value_info.extend(model.graph.output[:-4])
    del model.graph.output[:-4]
    onnx.save(model, path)
    return feeds


@pytest.mark.parametrize("seed", range(30))
def test_sequences_are_handed_over(seed: int, tmp_path: Path) -> None:
    feeds = sequences_at_random(path := tmp_path / "sequences.onnx", seed)
    assert_as_one_session(path, feeds, seed)


def test_a_device_has_a_new_part_behind_each_transfer_and_no_other(tmp_path: Path) -> None:
    # Two towers of three convolutions and three activations; the second tower and the join are on the second device.
    # First device: the input, which is sent; its tower, whose end is sent. Second device: its tower needs the input,
    # the join needs the other tower's end, so it has a part for each.
    model = read_onnx(towers(tmp_path / "towers.onnx"), {})
    pins = {op.name: int(op.name.startswith("tower1") or op.name == "join") for op in model.graph.ops}
    plan = placewright.plan(model.graph, "2xv100", pins=pins, evaluations=20)
    first, second = parts_of(steps_of(plan, model.graph), model)
    assert [len(part.nodes) for part in first] == [0, 6]
    assert [len(part.nodes) for part in second] == [6, 1]
    assert [part.outputs for part in first] == [(), ("tower0.2.relu",)]
    assert second[1].inputs == ("tower0.2.relu", "tower1.2.relu")
    assert second[1].waits == first[1].opens


def test_a_model_with_defaults_and_open_dimensions_runs(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx", batch="batch")
    model = onnx.load(path)
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [1], [2.0])
    model.graph.initializer.append(scale)
    model.graph.input.append(helper.make_tensor_value_info("scale", TensorProto.FLOAT, [1]))
    model.graph.node.append(helper.make_node("Mul", ["scores", "scale"], ["scaled"], "scaled"))
    model.graph.output[0].name = "scaled"
    onnx.save(model, path)
    feeds = image(batch=2)
    with placewright.compile_onnx(path, devices="cpu:0", dims={"batch": 2}, evaluations=50) as compiled:
        np.testing.assert_allclose(compiled(feeds)["scaled"], expected(path, feeds)["scaled"], rtol=1e-5, atol=1e-6)
        assert compiled.plan.configuration["dims"] == {"batch": 2}


def test_weights_in_files_of_their_own_are_found(tmp_path: Path) -> None:
    path = towers(tmp_path / "towers.onnx")
    wanted = expected(path, image())
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    found = run_placed(path, image(), 0)
    np.testing.assert_array_equal(found["scores"], wanted["scores"])
