"""A network costs the same whether it comes from JAX, from what XLA is given, or from PyTorch."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax", reason="the JAX importer needs JAX")
pytest.importorskip("torch", reason="PyTorch is what JAX is compared with")

from twin_networks import TWINS, flops_of  # noqa: E402

from placewright.importers.jax_function import from_jax  # noqa: E402
from placewright.importers.torch_module import from_torch  # noqa: E402


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("training", [False, True])
def test_flops_are_those_of_pytorch_within_three_percent(name: str, training: bool) -> None:
    twin = TWINS[name]()
    ours = from_jax(twin.loss, (twin.weights, *twin.arguments), training=training)
    theirs = from_torch(twin.module(), twin.inputs, training=training)
    assert flops_of(ours) == pytest.approx(flops_of(theirs), rel=0.03)
