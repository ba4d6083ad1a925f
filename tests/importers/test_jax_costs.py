"""A network costs the same whether it comes from JAX, from what XLA is given, or from PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax", reason="the JAX importer needs JAX")
pytest.importorskip("torch", reason="PyTorch is what JAX is compared with")

from twin_networks import TWINS, flops_of  # noqa: E402

from placewright.importers import load_graph  # noqa: E402
from placewright.importers.jax.function import from_jax  # noqa: E402
from placewright.importers.torch.module import from_torch  # noqa: E402


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("training", [False, True])
def test_flops_are_those_of_pytorch_within_three_percent(name: str, training: bool) -> None:
    twin = TWINS[name]()
    ours = from_jax(twin.loss, (twin.weights, *twin.arguments), training=training)
    theirs = from_torch(twin.module(), twin.inputs, training=training)
    assert flops_of(ours) == pytest.approx(flops_of(theirs), rel=0.03)


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("training", [False, True])
def test_what_xla_is_given_and_what_it_makes_of_it_cost_the_same(name: str, training: bool, tmp_path: Path) -> None:
    twin = TWINS[name]()
    function = jax.value_and_grad(twin.loss) if training else twin.loss
    expected = flops_of(from_jax(function, (twin.weights, *twin.arguments)))
    lowered = jax.jit(function).lower(twin.weights, *twin.arguments)
    texts = {
        "given.mlir": lowered.as_text(),
        "given_with_locations.mlir": lowered.as_text(debug_info=True),
        "given.hlo": lowered.as_text(dialect="hlo"),
        "compiled.hlo": lowered.compile().as_text(),
    }
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
        # XLA simplifies a little, and computes cheap things twice rather than to keep them.
        assert flops_of(load_graph(tmp_path / file)) == pytest.approx(expected, rel=0.01), file


def test_weights_are_found_by_what_jax_calls_them(tmp_path: Path) -> None:
    twin = TWINS["mlp"]()
    lowered = jax.jit(twin.loss).lower(twin.weights, *twin.arguments)
    for file, text in {"a.mlir": lowered.as_text(debug_info=True), "a.hlo": lowered.compile().as_text()}.items():
        (tmp_path / file).write_text(text)
        graph = load_graph(tmp_path / file)
        weights = sorted(tensor.name for tensor in graph.tensors if tensor.role == "parameter")
        assert weights == [f"weights[{layer}][{part}]" for layer in range(3) for part in range(2)]
        assert graph.metadata["warnings"] == [
            "taken for weights: 6 parameters of the module, as parts of its argument 'weights'"
        ]


def test_weights_that_do_not_come_first_are_warned_of_in_every_form(tmp_path: Path) -> None:
    """They become inputs; a small array before them, or one no larger than the rest, gives no warning."""

    def function(x: Any, ws: Any) -> Any:
        return jax.numpy.tanh(x @ ws[0]) @ ws[1]

    def warnings_of(*rows: int) -> list[Any]:
        x, ws = jax.numpy.ones((rows[0], 8)), [jax.numpy.ones((8, rows[1])), jax.numpy.ones((rows[1], 4))]
        lowered = jax.jit(function).lower(x, ws)
        graphs = [from_jax(function, (x, ws))]
        texts = {"a.mlir": lowered.as_text(debug_info=True), "a.hlo": lowered.compile().as_text()}
        for file, text in texts.items():
            (tmp_path / file).write_text(text)
            graphs.append(load_graph(tmp_path / file))
        return [graph.metadata.get("warnings") for graph in graphs]

    held = "2 arrays of the argument 'ws'; weights come first"
    assert warnings_of(4, 32) == [[f"counted as inputs, which take no memory before they are read: {held}"]] * 3
    assert warnings_of(400, 32) == [None] * 3
    graph = from_jax(
        function, (jax.numpy.ones((4, 8)), [jax.numpy.ones((8, 32)), jax.numpy.ones((32, 4))]), parameters=1
    )
    assert "warnings" not in graph.metadata
    assert [tensor.name for tensor in graph.tensors if tensor.role == "parameter"] == ["ws[0]", "ws[1]"]


def test_donated_arguments_are_updated_in_place_in_every_form(tmp_path: Path) -> None:
    twin = TWINS["mlp"]()

    def step(weights: Any, x: Any) -> Any:
        gradients = jax.grad(twin.loss)(weights, x)
        return jax.tree.map(lambda parameter, gradient: parameter - 0.1 * gradient, weights, gradients)

    lowered = jax.jit(step, donate_argnums=0).lower(twin.weights, *twin.arguments)
    for file, text in {"a.mlir": lowered.as_text(), "a.hlo": lowered.compile().as_text()}.items():
        (tmp_path / file).write_text(text)
        graph = load_graph(tmp_path / file)
        updated = [
            graph.tensors[tensor.alias_of]
            for tensor in graph.tensors
            if tensor.is_output and tensor.alias_of is not None
        ]
        assert [tensor.role for tensor in updated] == ["parameter"] * 6


def test_a_scheduled_module_keeps_its_order(tmp_path: Path) -> None:
    twin = TWINS["transformer"]()
    text = jax.jit(twin.loss).lower(twin.weights, *twin.arguments).compile().as_text()
    (tmp_path / "a.hlo").write_text(text)
    graph = load_graph(tmp_path / "a.hlo")
    assert graph.metadata["scheduled"] is True
    entry = text[text.index("\nENTRY") :]
    places = [entry.index(f"%{op.name} = ") for op in graph.ops if op.kind not in ("input", "constant")]
    assert places == sorted(places)
    assert len(places) > 40
