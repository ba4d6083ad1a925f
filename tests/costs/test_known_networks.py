"""FLOPs of whole imported networks, against sums done by hand."""

from pathlib import Path

import pytest

from placewright.costs import Costs, estimate_costs
from placewright.graph import Graph
from placewright.importers import load_graph
from placewright.machines import load_machine


def flops_of(graph: Graph, costs: Costs, kind: str, phase: str = "") -> int:
    chosen = zip(graph.ops, costs.flops, strict=True)
    return sum(int(flops) for op, flops in chosen if op.kind == kind and op.phase == phase)


def test_vgg19_from_onnx_costs_exactly_its_layers() -> None:
    onnx = pytest.importorskip("onnx", reason="the graph comes with the onnx package")
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_vgg19.onnx"
    graph = load_graph(path)
    costs = estimate_costs(graph, load_machine("v100"))
    # 3x3 convolutions as (side of the image, channels in, channels out)
    layers = [(224, 3, 64), (224, 64, 64), (112, 64, 128), (112, 128, 128), (56, 128, 256), *[(56, 256, 256)] * 3]
    layers += [(28, 256, 512), *[(28, 512, 512)] * 3, *[(14, 512, 512)] * 4]
    assert flops_of(graph, costs, "conv") == sum(2 * 9 * side * side * cin * cout for side, cin, cout in layers)
    # three fully connected layers on 7 x 7 x 512 = 25088 features, each with a bias
    products = 25088 * 4096 + 4096 * 4096 + 4096 * 1000
    assert flops_of(graph, costs, "matmul") == 2 * products + 4096 + 4096 + 1000
    assert costs.without_formula == ()


def test_bert_base_forward_products_are_exactly_its_layers() -> None:
    graph = load_graph("example:bert-base-train")
    costs = estimate_costs(graph, load_machine("h100"))
    tokens, width = 32 * 128, 768
    # per layer: queries, keys, values, output; feed-forward to 4 x 768 and back; then scores and values over 128 keys
    layer = 2 * tokens * (4 * width * width + 2 * width * 4 * width) + 2 * (2 * tokens * 128 * width)
    head = 2 * tokens * (width * width + width * 30522)
    biases = tokens * (12 * (4 * width + 4 * width + width) + width + 30522)
    forward = flops_of(graph, costs, "matmul", "forward")
    assert forward == 12 * layer + head + biases
    # each product of the forward pass has two in the backward pass; biases are reductions there
    assert flops_of(graph, costs, "matmul", "backward") == 2 * (forward - biases)
    assert costs.without_formula == ()


def test_a_training_step_of_inception_v3_costs_three_times_its_convolutions() -> None:
    graph = load_graph("example:inception-v3-train")
    costs = estimate_costs(graph, load_machine("p100"))
    forward, backward = flops_of(graph, costs, "conv", "forward"), flops_of(graph, costs, "conv_backward", "backward")
    # 5.7 G multiply-adds per image of 299 x 299 (Szegedy et al., 2016), 32 images
    assert forward == pytest.approx(2 * 5.7e9 * 32, rel=0.01)
    # the first layer's input needs no gradient: 2 * 32 * 32 results of 149 x 149, 27 products each
    assert backward == 2 * forward - 2 * 32 * 32 * 149 * 149 * 27
    assert costs.without_formula == ()
