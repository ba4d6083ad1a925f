"""Small runnable ONNX models with seeded weights, and the nodes that ONNX Runtime executes of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from placewright.plans.record import Plan

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def towers(path: Path, *, size: int = 16, num_towers: int = 2, depth: int = 3, batch: int | str = 1) -> Path:
    """Towers of convolutions over one image, side by side and joined at the end."""
    generator = np.random.default_rng(0)
    nodes, weights, ends = [], [], []
    for tower in range(num_towers):
        value = "image"
        for layer in range(depth):
            name = f"tower{tower}.{layer}"
            shape = (8, 3 if layer == 0 else 8, 3, 3)
            weight = (generator.standard_normal(shape) / 8).astype(np.float32)
            weights.append(numpy_helper.from_array(weight, f"{name}.weight"))
            nodes.append(helper.make_node("Conv", [value, f"{name}.weight"], [name], name, pads=[1, 1, 1, 1]))
            nodes.append(helper.make_node("Relu", [name], [f"{name}.relu"], f"{name}.relu"))
            value = f"{name}.relu"
        ends.append(value)
    nodes.append(helper.make_node("Concat", ends, ["scores"], "join", axis=1))
    return write(path, nodes, [("image", [batch, 3, size, size])], ["scores"], weights)


def image(size: int = 16, batch: int = 1) -> dict[str, Any]:
    """The input of `towers`: a seeded random image batch, float32 [batch, 3, size, size]."""
    return {"image": np.random.default_rng(1).standard_normal((batch, 3, size, size)).astype(np.float32)}


def write(
    path: Path,
    nodes: list[Any],
    inputs: list[tuple[str, list[int | str]]],
    outputs: list[str],
    weights: list[Any] | None = None,
    opset: int = 17,
) -> Path:
    """A checked model of float inputs, written to a file."""
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        weights or [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def executed(path: Path, feeds: dict[str, Any], folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Names of the nodes that ran, in order, and the outputs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    # Without a GPU its rule is skipped, and its nodes fall back to the CPU.
    options.add_session_config_entry("session.layer_assignment_settings", "cpu(=cpu:0); gpu(=gpu0)")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    outputs = dict(zip(names, session.run(names, feeds), strict=True))
    events = json.loads(Path(session.end_profiling()).read_text())
    ran = sorted((event for event in events if event["cat"] == "Node"), key=lambda event: event["ts"])
    return [event["name"].removesuffix("_kernel_time") for event in ran], outputs


def planned_names(plan: Plan) -> list[str]:
    in_turn = sorted(plan.ops, key=lambda op: (op.start_ns, op.position))
    return [op.name for op in in_turn if op.kind != "input"]
