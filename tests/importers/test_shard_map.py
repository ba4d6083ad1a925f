"""Programs that say what each device does with its part of the arrays: shard_map in jaxprs, StableHLO and HLO."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax", reason="the JAX importer needs JAX")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import AbstractMesh, PartitionSpec  # noqa: E402
from twin_networks import flops_of  # noqa: E402

from placewright.graph import Graph, Op  # noqa: E402
from placewright.importers import load_graph  # noqa: E402
from placewright.importers.hlo.program import parse_hlo  # noqa: E402
from placewright.importers.jax.function import from_jax  # noqa: E402
from placewright.importers.stablehlo.program import parse_stablehlo  # noqa: E402
from placewright.support.errors import InputError  # noqa: E402

MESH, P = AbstractMesh((4,), ("x",)), PartitionSpec
NOTE = "ops inside of shard_map are those of one device and its parts of the arrays; others count whole arrays"


def floats(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def sharded(function: Callable[..., Any], *, inside: Any, outside: Any) -> Any:
    return jax.shard_map(function, mesh=MESH, in_specs=inside, out_specs=outside)


#: A layer whose hidden features are divided among four devices.
LAYER = sharded(
    lambda w, v, x: lax.psum(jnp.tanh(x @ w) @ v, "x"), inside=(P(None, "x"), P("x", None), P()), outside=P()
)
WEIGHTS, X = {"w": floats(16, 64), "v": floats(64, 16)}, floats(8, 16)


def layer(weights: Any, x: Any) -> Any:
    return LAYER(weights["w"], weights["v"], x)


def batched(w: Any, x: Any) -> Any:
    """Rows of x are divided; everything else is whole."""
    return sharded(lambda w, x: jnp.tanh(x @ w), inside=(P(), P("x")), outside=P("x"))(w, x)


def both(function: Callable[..., Any], args: tuple[Any, ...], **options: Any) -> list[Graph]:
    """A function as its jaxpr and as its StableHLO text have it, without and with locations."""
    jitted = jax.jit(function, **options)
    lowered = jitted.trace(*args).lower(lowering_platforms=("cpu",))
    texts = [lowered.as_text(debug_info=is_named) for is_named in (False, True)]
    return [from_jax(jitted, args), *(parse_stablehlo(text.encode(), "step.mlir") for text in texts)]


def op(graph: Graph, kind: str) -> Op:
    (found,) = [each for each in graph.ops if each.kind == kind]
    return found


def shapes(graph: Graph) -> list[tuple[int, ...]]:
    """Shapes of the inputs and parameters, sorted."""
    given = {tensor for each in graph.ops if each.kind == "input" for tensor in each.outputs}
    return sorted(
        (each.shape or ()) for place, each in enumerate(graph.tensors) if place in given or each.role == "parameter"
    )


def test_the_ops_inside_are_those_of_one_device() -> None:
    for graph in both(layer, (WEIGHTS, X)):
        kinds = [each.kind for each in graph.ops if each.kind not in ("input", "view")]
        assert kinds == ["matmul", "elementwise", "matmul", "other"]
        # Products of 8 by 16 by 16 twice, as 64 features are 16 for each device; a tanh of weight 10 for 8 * 16.
        assert flops_of(graph) == 2 * (2 * 8 * 16 * 16) + 10 * 8 * 16
        # A device holds 16 of the 64 columns of w, 16 of the 64 rows of v, and all of x.
        assert shapes(graph) == [(8, 16), (16, 16), (16, 16)]
        assert [tensor.size_bytes for tensor in graph.tensors if tensor.shape == (16, 16)].count(1024) >= 2
        assert NOTE in graph.metadata["warnings"]


def test_what_is_returned_is_what_one_device_has_of_it() -> None:
    for graph in both(batched, (floats(16, 16), X)):
        assert shapes(graph) == [(2, 16), (16, 16)]
        outputs = [tensor for tensor in graph.tensors if tensor.is_output]
        assert [(tensor.shape, tensor.size_bytes, tensor.alias_of) for tensor in outputs] == [((2, 16), 128, None)]
        assert graph.producer_of[graph.tensors.index(outputs[0])] == graph.ops.index(op(graph, "elementwise"))


def test_one_hands_its_parts_on_to_the_next() -> None:
    def two(w: Any, x: Any) -> Any:
        return batched(w, batched(w, x))

    for graph in both(two, (floats(16, 16), X)):
        products = [each for each in graph.ops if each.kind == "matmul"]
        first = next(each for each in graph.ops if each.kind == "elementwise")
        assert first.outputs[0] in products[1].inputs
        assert flops_of(graph) == 2 * (2 * 2 * 16 * 16 + 10 * 2 * 16)


@pytest.mark.parametrize(
    ("before", "after", "part", "taken"),
    [
        # Rows, then columns: from each device a quarter of what it has.
        (P(("a", "b")), P(None, ("a", "b")), (2, 16), (8, 4)),
        # Rows, then all of them.
        (P(("a", "b")), P(), (2, 16), (8, 16)),
        # Rows, along one axis of the mesh and along the other: as large, and another part.
        (P("a"), P("b"), (4, 16), (4, 16)),
    ],
)
def test_what_the_next_one_takes_in_other_parts_comes_from_other_devices(
    before: Any, after: Any, part: tuple[int, ...], taken: tuple[int, ...]
) -> None:
    mesh = AbstractMesh((2, 2), ("a", "b"))

    def function(x: Any) -> Any:
        first = jax.shard_map(jnp.tanh, mesh=mesh, in_specs=before, out_specs=before)(x)
        return jax.shard_map(jnp.sin, mesh=mesh, in_specs=after, out_specs=after)(first)

    for graph in both(function, (floats(8, 16),)):
        sent = op(graph, "other")
        assert [graph.tensors[tensor].shape for tensor in sent.inputs] == [part]
        assert [graph.tensors[tensor].shape for tensor in sent.outputs] == [taken]
        assert graph.metadata["warnings"] == [
            NOTE,
            "1 of reshard between shard_maps: the time to reach the other partitions is not known",
        ]


def test_ops_outside_count_whole_arrays_and_so_does_what_they_read() -> None:
    def function(w: Any, x: Any) -> Any:
        return batched(w, x).sum() + x.max()

    for graph in both(function, (floats(16, 16), X)):
        assert shapes(graph) == [(8, 16), (16, 16)]
        # Inside 2 rows; outside the sum and the maximum of 8 * 16 elements, and their sum.
        assert flops_of(graph) == 2 * 2 * 16 * 16 + 10 * 2 * 16 + 128 + 128 + 1
        # The part of x is a view of x, and the product reads it.
        view = graph.tensors[op(graph, "matmul").inputs[0]]
        assert (view.shape, view.size_bytes) == ((2, 16), 128)
        assert view.alias_of is not None
        assert graph.tensors[view.alias_of].shape == (8, 16)


def test_a_step_inside_updates_its_parts_in_place() -> None:
    def step(w: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(lambda w: jnp.tanh(x @ w).sum())(w)
        return w - 0.1 * gradient, lax.psum(value, "x")

    function = sharded(step, inside=(P(None, "x"), P()), outside=(P(None, "x"), P()))
    for graph in both(function, (floats(16, 64), X), donate_argnums=0):
        (weight,) = [place for place, tensor in enumerate(graph.tensors) if tensor.role == "parameter"]
        (updated,) = [tensor for tensor in graph.tensors if tensor.alias_of == weight and tensor.is_output]
        assert graph.tensors[weight].shape == updated.shape == (16, 16)


def test_training_through_it_gives_optimizer_ops_of_its_parts() -> None:
    graph = from_jax(lambda weights, x: layer(weights, x).sum(), (WEIGHTS, X), training=True, optimizer="adam")
    updates = [each for each in graph.ops if each.kind == "optimizer"]
    assert [graph.tensors[each.outputs[0]].shape for each in updates] == [(16, 16)] * 2
    assert {graph.tensors[tensor].shape for each in updates for tensor in each.inputs} == {(16, 16)}
    # Two products forward; backward two for the weights and one for what lies between them.
    assert [each.phase for each in graph.ops if each.kind == "matmul"] == ["forward"] * 2 + ["backward"] * 3


def talking(x: Any) -> Any:
    gathered = lax.all_gather(x, "x", axis=0, tiled=True)
    passed = lax.ppermute(x, "x", [(place, (place + 1) % 4) for place in range(4)])
    scattered = lax.psum_scatter(gathered, "x", scatter_dimension=0, tiled=True)
    turned = lax.all_to_all(x, "x", 1, 0, tiled=True)
    return passed + scattered + turned.sum() + lax.pmax(x, "x") + lax.pmean(x, "x") + lax.axis_index("x")


def test_what_talks_to_other_devices_is_named_and_the_place_in_the_mesh_costs_nothing() -> None:
    function = sharded(talking, inside=P("x"), outside=P("x"))
    names = {
        "jax": ["all-gather", "ppermute", "reduce-scatter", "all-to-all", "pmax", "psum-invariant"],
        "stablehlo": ["all-gather", "collective-permute", "reduce-scatter", "all-to-all", *["all-reduce"] * 2],
    }
    for graph in both(function, (floats(8, 16),)):
        called = names["jax" if graph.metadata.get("framework") == "jax" else "stablehlo"]
        assert sum(each.kind == "other" for each in graph.ops) == 6
        expected = {
            f"{called.count(name)} of {name}: the time to reach the other partitions is not known" for name in called
        }
        assert set(graph.metadata["warnings"]) == expected | {NOTE}


def test_a_loop_around_it_has_the_work_of_one_device() -> None:
    def function(w: Any, x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, carry: batched(w, carry), x)

    graph = from_jax(function, (floats(16, 16), X))
    # Three rounds of 2 rows, and of the counter.
    assert op(graph, "control_flow").attributes["flops"] == 3 * (2 * 2 * 16 * 16 + 10 * 2 * 16 + 1)


def test_an_axis_of_the_mesh_that_is_left_to_the_compiler_divides_nothing() -> None:
    mesh = AbstractMesh((2, 2), ("d", "m"))
    function = jax.shard_map(
        lambda x, w: lax.psum(x @ w, "m"), mesh=mesh, in_specs=(P(None, "m"), P("m")), out_specs=P(), axis_names={"m"}
    )
    for graph in both(function, (floats(8, 16), floats(16, 4))):
        assert flops_of(graph) == 2 * 8 * 8 * 4


GENERIC = """
module @m {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0 = "sdy.manual_computation"(%arg0) <{manual_axes = #sdy<manual_axes{"x"}>}> ({
    ^bb0(%arg1: tensor<2x16xf32>):
      %1 = stablehlo.tanh %arg1 : tensor<2x16xf32>
      "sdy.return"(%1) : (tensor<2x16xf32>) -> ()
    }) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
"""
NO_ARGUMENTS = """
func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0:2 = sdy.manual_computation() in_shardings=[] out_shardings=[<@m, [{"x"}]>, <@m, [{"x"}]>] manual_axes={"x"} () {
    %1 = stablehlo.iota dim = 0 : tensor<2xf32>
    sdy.return %1, %1 : tensor<2xf32>, tensor<2xf32>
  } : () -> (tensor<8xf32>, tensor<8xf32>)
  %2 = stablehlo.add %arg0, %0#1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
"""


def test_the_general_form_is_understood_and_one_without_arguments() -> None:
    # A tanh of weight 10 for 2 * 16 elements; a sum of 8 outside.
    assert flops_of(parse_stablehlo(GENERIC.encode(), "m")) == 10 * 32
    assert flops_of(parse_stablehlo(NO_ARGUMENTS.encode(), "m")) == 8


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("(%arg0) <", "() <", "'%0' has 1 parts of 0 arrays"),
        ("(%arg0) <", "(%arg0, %arg0) <", "'%0' has 1 parts of 2 arrays"),
        (
            "%arg1: tensor<2x16xf32>)",
            "%arg1: tensor<?x16xf32>)",
            "line 6: the type 'tensor<.x16xf32>' leaves an extent",
        ),
        ("%0 = ", "%0:2 = ", "line 5: 'sdy.manual_computation' gives 2 values and has 1 types"),
        ('"sdy.return"(%1) : (tensor<2x16xf32>) -> ()', "", "line 5: 'sdy.manual_computation' returns nothing"),
    ],
)
def test_a_bad_one_is_one_sentence(old: str, new: str, sentence: str) -> None:
    assert old in GENERIC
    with pytest.raises(InputError, match=sentence) as caught:
        parse_stablehlo(GENERIC.replace(old, new).encode(), "m")
    assert "\n" not in str(caught.value)


def test_custom_calls_between_whole_arrays_and_parts_are_the_same() -> None:
    entry = """
      %x = f32[8,16]{1,0} parameter(0)
      %part = f32[2,16]{1,0} custom-call(%x), custom_call_target="SPMDFullToShardShape"
      %t = f32[2,16]{1,0} tanh(%part)
      ROOT %whole = f32[8,16]{1,0} custom-call(%t), custom_call_target="SPMDShardToFullShape"
    """
    text = """
    func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %0 = stablehlo.custom_call @xla.sdy.GlobalToLocalShape(%x) : (tensor<8x16xf32>) -> tensor<2x16xf32>
      %1 = stablehlo.tanh %0 : tensor<2x16xf32>
      %2 = stablehlo.custom_call @xla.sdy.LocalToGlobalShape(%1) : (tensor<2x16xf32>) -> tensor<8x16xf32>
      return %2 : tensor<8x16xf32>
    }"""
    hlo = parse_hlo(f"HloModule m\nENTRY %main {{\n{entry}\n}}\n".encode(), "m.hlo")
    for graph in (hlo, parse_stablehlo(text.encode(), "m.mlir")):
        assert flops_of(graph) == 10 * 32
        assert [tensor.size_bytes for tensor in graph.tensors if tensor.alias_of is None] == [128, 128]
        assert graph.metadata["warnings"] == [NOTE]


PROGRAMS = """
import sys
import jax, jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

def layer(w, v, x):
    return lax.psum(jnp.tanh(x @ w) @ v, "x")

mesh = Mesh(jax.devices(), ("x",))
function = jax.shard_map(layer, mesh=mesh, in_specs=(P(None, "x"), P("x", None), P()), out_specs=P())
lowered = jax.jit(function).lower(jnp.ones((16, 64)), jnp.ones((64, 16)), jnp.ones((8, 16)))
for name, text in {"given.mlir": lowered.as_text(), "given.hlo": lowered.as_text(dialect="hlo"),
                   "compiled.hlo": lowered.compile().as_text()}.items():
    open(f"{sys.argv[1]}/{name}", "w").write(text)
"""


def test_it_costs_what_the_program_costs_that_xla_compiles_for_each_of_four_devices(tmp_path: Path) -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", PROGRAMS, str(tmp_path)], env=environment, check=True)
    traced = from_jax(LAYER, (floats(16, 64), floats(64, 16), X))
    for name in ("given.mlir", "given.hlo", "compiled.hlo"):
        graph = load_graph(tmp_path / name)
        assert flops_of(graph) == flops_of(traced), name
        assert shapes(graph) == shapes(traced) == [(8, 16), (16, 16), (16, 16)], name
        made = [tensor.size_bytes for tensor in graph.tensors if tensor.alias_of is None]
        assert sum(made) == sum(tensor.size_bytes for tensor in traced.tensors if tensor.alias_of is None), name
