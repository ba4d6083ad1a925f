"""The graphs that ship with the package, against what is known of their networks."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from placewright.graph import Graph
from placewright.importers import load_graph
from placewright.lab.datasets.zoo.capture import stripped

SCRIPTS = Path(__file__).parent.parent.parent / "examples"

#: Ops, and those that are not views, of each example.
SIZES = {
    "bert-base-train": (2287, 1031),
    "gnmt-train": (15665, 10355),
    "inception-v3": (315, 313),
    "inception-v3-train": (1335, 1071),
    "llama-3-8b-train": (7083, 3829),
    "resnet50-onnx": (177, 176),
}


def weights(graph: Graph) -> int:
    """Elements of all parameters that an optimizer updates."""
    updated = {op.inputs[0] for op in graph.ops if op.kind == "optimizer"}
    return sum(elements(graph.tensors[index].shape) for index in updated)


def elements(shape: tuple[int, ...] | None) -> int:
    product = 1
    for extent in shape or ():
        product *= extent
    return product


def multiply_adds(graph: Graph, phase: str) -> int:
    """Count the multiply-adds of all matrix products in one phase."""
    products = [op.attributes for op in graph.ops if op.kind == "matmul" and op.phase == phase]
    return sum(product["batch"] * product["m"] * product["n"] * product["k"] for product in products)


@pytest.mark.parametrize(("name", "sizes"), SIZES.items())
def test_an_example_has_the_recorded_size_and_no_unknown_op(name: str, sizes: tuple[int, int]) -> None:
    graph = load_graph(f"example:{name}")
    kinds = Counter(op.kind for op in graph.ops)
    assert (len(graph.ops), len(graph.ops) - kinds["view"]) == sizes
    assert "warnings" not in graph.metadata
    assert graph.name == name


@pytest.mark.parametrize("name", [name for name in SIZES if name.endswith("-train")])
def test_every_training_example_updates_each_parameter_once_at_the_end(name: str) -> None:
    graph = load_graph(f"example:{name}")
    phases = [op.phase for op in graph.ops]
    assert phases == sorted(phases, key=["forward", "backward", "optimizer"].index)
    updated = [op.inputs[0] for op in graph.ops if op.kind == "optimizer"]
    assert len(set(updated)) == len(updated) > 0


def test_bert_base_has_the_products_of_the_formula() -> None:
    graph = load_graph("example:bert-base-train")
    batch, tokens, width, layers, vocabulary = 32, 128, 768, 12, 30522
    # per layer: query, key, value, output (4 w^2) and the two of the feed-forward part (8 w^2) for every token, and
    # scores and their product with the values (2 tokens * w); then the head: one w x w layer and the vocabulary
    layer = batch * tokens * (12 * width**2 + 2 * tokens * width)
    head = batch * tokens * (width**2 + width * vocabulary)
    assert multiply_adds(graph, "forward") == layers * layer + head
    # every product has two factors that need a gradient, each as large as the product itself
    assert multiply_adds(graph, "backward") == 2 * multiply_adds(graph, "forward")


def test_bert_base_has_the_published_number_of_weights() -> None:
    # 109,514,298 with the masked-language head, whose matrix is the embedding's
    assert weights(load_graph("example:bert-base-train")) == 109_514_298


def test_llama_3_8b_has_the_published_number_of_weights_and_products() -> None:
    graph = load_graph("example:llama-3-8b-train")
    assert weights(graph) == 8_030_261_248
    # every weight but the embedding table and the norms multiplies every token once
    table, norms = 128256 * 4096, 65 * 4096
    assert multiply_adds(graph, "forward") == 2048 * (8_030_261_248 - table - norms)
    attention = next(op for op in graph.ops if op.kind == "attention").attributes
    assert (attention["heads"], attention["kv_heads"], attention["causal"]) == (32, 8, True)


def test_inception_v3_has_the_published_weights_and_products() -> None:
    # 27.2 million weights, the auxiliary classifier's among them
    assert weights(load_graph("example:inception-v3-train")) == 27_161_264
    graph = load_graph("example:inception-v3")
    convolutions = 0
    for op in graph.ops:
        if op.kind == "conv":
            kernel, channels = elements(tuple(op.attributes["kernel"])), op.attributes["in_channels"]
            convolutions += elements(graph.tensors[op.outputs[0]].shape) * kernel * channels
    # about 5 thousand million in the paper's abstract, 5.71 counted one by one
    assert (convolutions + multiply_adds(graph, "")) / 32 / 1e9 == pytest.approx(5.71, abs=0.01)


def test_a_gnmt_layer_reads_its_weights_in_every_step() -> None:
    graph = load_graph("example:gnmt-train")
    products = Counter(op.module for op in graph.ops if op.kind == "matmul" and op.phase == "forward")
    cells = {module: times for module, times in products.items() if "cell" in module or module == "decoder.first"}
    # 9 encoder cells (the first layer has one per direction) and 8 decoder cells, 20 steps each
    assert len(cells) == 17
    assert set(cells.values()) == {20}


@pytest.mark.long  # Another test captures this network again.
def test_the_script_makes_the_example_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="capturing needs PyTorch")
    if find_spec("torchvision") is None:
        pytest.skip("the network is torchvision's")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import make_inception_v3

    made, kept = make_inception_v3.build_inference(), load_graph("example:inception-v3")
    assert stripped(made, {}) == stripped(kept, {})
