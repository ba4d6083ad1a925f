"""Small ONNX models that run, with seeded weights."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

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
    """What towers are called with."""
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
