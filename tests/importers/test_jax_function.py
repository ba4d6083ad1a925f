"""Graphs of JAX functions: which arrays are weights, what is one op, what is left out."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax", reason="the JAX importer needs JAX")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.ad_checkpoint import checkpoint_name  # noqa: E402
from jax.experimental import io_callback  # noqa: E402

import placewright  # noqa: E402
from placewright.costs.flops import count_flops  # noqa: E402
from placewright.graph import Graph, Op  # noqa: E402
from placewright.importers.jax.function import from_jax  # noqa: E402
from placewright.importers.stablehlo.program import parse_stablehlo  # noqa: E402
from placewright.support.errors import InputError, MissingExtraError  # noqa: E402


def floats(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def loss(w: Any, x: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ w["a"]) @ w["b"])


WEIGHTS = {"a": floats(3, 4), "b": floats(4, 5)}
X = floats(2, 3)


def op(graph: Graph, name: str) -> Op:
    return next(each for each in graph.ops if each.name == name)


def flops(graph: Graph, name: str) -> int:
    found = op(graph, name)
    return count_flops(found, [graph.tensors[t] for t in found.inputs], [graph.tensors[t] for t in found.outputs])


def kinds(graph: Graph) -> list[str]:
    return [each.kind for each in graph.ops]


def roles(graph: Graph) -> dict[str, str]:
    return {tensor.name: tensor.role for tensor in graph.tensors}


def test_arrays_of_the_first_of_several_arguments_are_weights() -> None:
    graph = from_jax(loss, (WEIGHTS, X))
    assert [name for name, role in roles(graph).items() if role == "parameter"] == ["w['a']", "w['b']"]
    assert [each.name for each in graph.ops if each.kind == "input"] == ["input:x"]
    assert graph.metadata == {"framework": "jax", "mode": "inference"}


def test_other_arguments_are_weights_when_they_are_named() -> None:
    graph = from_jax(lambda x, w: loss(w, x), (X, WEIGHTS), parameters=1)
    assert [name for name, role in roles(graph).items() if role == "parameter"] == ["w['a']", "w['b']"]
    assert "parameter" not in roles(from_jax(loss, (WEIGHTS, X), parameters=())).values()


def test_a_single_argument_is_an_input_and_need_not_stand_in_a_tuple() -> None:
    graph = from_jax(jnp.tanh, X)
    assert [(each.kind, each.target) for each in graph.ops] == [("input", ""), ("elementwise", "tanh")]


def test_nothing_is_computed_however_large_the_arrays_are() -> None:
    huge = floats(1 << 20, 1 << 20)
    assert flops(from_jax(lambda x: x @ x, huge), "dot_general") == 2 * (1 << 60)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 48), ("bfloat16", 24)])
def test_training_adds_gradients_and_one_optimizer_op_for_each_weight(dtype: str, size: int) -> None:
    weights, x = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, dtype), (WEIGHTS, X))
    graph = from_jax(loss, (weights, x), training=True, optimizer="adam")
    updates = [each for each in graph.ops if each.kind == "optimizer"]
    assert [each.name for each in updates] == ["adam:w['a']", "adam:w['b']"]
    assert [graph.tensors[t].name for t in updates[0].inputs][2:] == ["w['a'].exp_avg", "w['a'].exp_avg_sq"]
    assert graph.tensors[updates[0].outputs[0]].alias_of == updates[0].inputs[0]
    assert graph.metadata["mode"] == "training"
    weight, _, *states = updates[0].inputs
    assert {(graph.tensors[t].dtype, graph.tensors[t].size_bytes) for t in (weight, *states)} == {(dtype, size)}
    # Forward x @ a and h @ b; backward the gradients of b, of h, and of a.
    assert [each.phase for each in graph.ops if each.kind == "matmul"] == ["forward"] * 2 + ["backward"] * 3


def step(w: Any, x: Any) -> Any:
    value, gradients = jax.value_and_grad(loss)(w, x)
    return jax.tree.map(lambda parameter, gradient: parameter - 0.1 * gradient, w, gradients), value


def test_donated_arguments_are_updated_in_place_after_everything_that_reads_them() -> None:
    graph = from_jax(jax.jit(step, donate_argnums=0), (WEIGHTS, X))
    names = [tensor.name for tensor in graph.tensors]
    updated = [tensor for tensor in graph.tensors if tensor.alias_of == names.index("w['b']")]
    assert [tensor.is_output for tensor in updated] == [True]
    writer = graph.ops[graph.producer_of[graph.tensors.index(updated[0])]]
    # The gradient of h reads b as well, and the update does not depend on it otherwise.
    assert {graph.ops[control].kind for control in writer.controls} == {"matmul"}
    assert writer.phase == "optimizer"


def test_without_donation_new_weights_are_tensors_of_their_own() -> None:
    graph = from_jax(step, (WEIGHTS, X))
    assert [tensor.alias_of for tensor in graph.tensors if tensor.is_output] == [None, None, None]


def test_calls_are_inlined_and_named_after_what_is_called() -> None:
    half = jax.custom_jvp(lambda x: x / 2)
    half.defjvp(lambda primals, tangents: (half(*primals), tangents[0] / 2))

    def function(x: Any) -> Any:
        return jax.checkpoint(jnp.sin)(half(jax.jit(lambda y: jnp.exp(y))(x)))

    graph = from_jax(function, X)
    assert [each.target for each in graph.ops if each.kind == "elementwise"] == ["exp", "div", "sin"]
    assert any(each.name.startswith("custom_jvp_call/") for each in graph.ops)


def scanned(x: Any, ws: Any) -> Any:
    return lax.scan(lambda carry, w: (jnp.tanh(carry @ w), carry.sum()), x, ws)


def test_a_scan_is_one_op_with_the_work_of_all_steps() -> None:
    graph = from_jax(scanned, (floats(8, 8), floats(3, 8, 8)), parameters=1)
    scan = op(graph, "scan")
    # A step: a product of 2 * 8 * 8 * 8, a tanh of weight 10 for 64 elements, and a sum of 64.
    assert (scan.kind, scan.attributes["trips"], scan.attributes["flops"]) == ("control_flow", 3, 3 * (1024 + 640 + 64))
    # A step reads carry and w for the product, writes it, reads and writes for the tanh, reads for the sum.
    assert scan.attributes["bytes_moved"] == 3 * (3 * 256 + 2 * 256 + 256 + 4)


def test_a_short_scan_is_taken_apart_when_asked() -> None:
    whole = from_jax(scanned, (floats(8, 8), floats(3, 8, 8)), parameters=1)
    apart = from_jax(scanned, (floats(8, 8), floats(3, 8, 8)), parameters=1, unroll=3)
    assert [each.name for each in apart.ops if each.kind == "matmul"] == [f"scan/{n}/dot_general" for n in range(3)]
    total = sum(flops(apart, each.name) for each in apart.ops)
    assert total == op(whole, "scan").attributes["flops"]
    assert "control_flow" in kinds(from_jax(scanned, (floats(8, 8), floats(3, 8, 8)), unroll=2))


def test_a_reversed_scan_is_taken_apart_from_its_end() -> None:
    def function(x: Any, ws: Any) -> Any:
        return lax.scan(lambda carry, w: (carry + w, None), x, ws, reverse=True)[0]

    graph = from_jax(function, (floats(2), floats(3, 2)), unroll=3)
    assert [each.name for each in graph.ops if each.kind == "elementwise"] == ["scan/2/add", "scan/1/add", "scan/0/add"]


def test_weights_of_an_unrolled_scan_are_weights_of_their_own() -> None:
    def function(ws: Any, x: Any) -> Any:
        return scanned(x, ws)[0]

    graph = from_jax(function, (floats(3, 8, 8), floats(8, 8)), unroll=3)
    pieces = {name: role for name, role in roles(graph).items() if name.startswith("ws")}
    assert pieces == {f"ws[{step}]": "parameter" for step in range(3)}
    assert "view" not in kinds(graph)


def test_a_loop_runs_as_often_as_its_counter_says() -> None:
    def function(x: Any) -> Any:
        return lax.while_loop(lambda state: state[0] < 5, lambda state: (state[0] + 1, jnp.sin(state[1])), (0, x))[1]

    graph = from_jax(function, floats(10))
    # A sine of weight 4 for 10 elements, and the counter.
    assert op(graph, "while").attributes["trips"] == 5
    assert op(graph, "while").attributes["flops"] == 5 * (40 + 1)
    assert "warnings" not in graph.metadata


def test_a_loop_of_unknown_length_is_assumed_to_run_once_and_says_so() -> None:
    def function(x: Any) -> Any:
        return lax.while_loop(lambda value: value.sum() < 5, lambda value: value + 1, x)

    graph = from_jax(function, floats(10))
    assert op(graph, "while").attributes["trips"] == 1
    assert graph.metadata["warnings"] == ["loops that run as often as data says: 1; each is assumed to run once"]


def test_of_branches_the_dearest_is_assumed() -> None:
    def function(x: Any) -> Any:
        return lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y @ y, x)

    graph = from_jax(function, floats(8, 8))
    assert op(graph, "cond").attributes["flops"] == 2 * 8 * 8 * 8
    assert "assumed to take the dearest" in graph.metadata["warnings"][0]


def test_a_broadcast_takes_no_memory_and_a_mask_no_op() -> None:
    def function(x: Any, bias: Any) -> Any:
        mask = jnp.tril(jnp.ones((64, 64), bool))
        return jnp.where(mask, x + bias, 0.0)

    graph = from_jax(function, (floats(64, 64), floats(64)), parameters=())
    assert [each.target for each in graph.ops if each.kind not in ("input", "view")] == ["add", "select_n"]
    views = [graph.tensors[each.outputs[0]].size_bytes for each in graph.ops if each.kind == "view"]
    assert views
    assert max(views) == 64 * 4


def test_an_array_of_constants_is_filled_where_a_product_reads_it() -> None:
    graph = from_jax(lambda x: x @ jnp.ones((3, 3)), X)
    assert kinds(graph) == ["input", "fill", "matmul"]


def test_arrays_that_the_function_holds_are_constants() -> None:
    table = jnp.arange(6.0).reshape(2, 3)
    graph = from_jax(lambda x: x + table, X)
    assert [tensor.role for tensor in graph.tensors if tensor.shape == (2, 3)].count("constant") == 1


@pytest.mark.parametrize("seed", range(6))
def test_an_array_that_a_function_holds_is_one_constant_however_often_it_is_called(seed: int) -> None:
    chance = random.Random(seed)
    held = [jnp.arange(16.0).reshape(4, 4) + number for number in range(3)]

    def product(array: Any) -> Any:
        return jax.jit(lambda x: x @ array)

    layers = [product(array) for array in held]
    layers += [jax.jit(lambda x, layer=layer: jnp.tanh(layer(x))) for layer in layers] + [product(held[0])]
    called = [chance.randrange(len(layers)) for _ in range(6)]

    def function(x: Any) -> Any:
        for place in called:
            x = layers[place](x)
        return x

    used = {place % len(held) for place in called}
    lowered = jax.jit(function).lower(floats(2, 4)).as_text()
    graphs = from_jax(function, floats(2, 4)), parse_stablehlo(lowered.encode(), "m.mlir")
    counts = [sum(tensor.role == "constant" for tensor in graph.tensors) for graph in graphs]
    # Text does not say that two functions hold the same array.
    assert counts[0] == len(used)
    assert counts[1] <= len(set(called))


def test_what_no_result_needs_is_left_out() -> None:
    def function(x: Any) -> Any:
        _ = jnp.exp(x) @ x.T
        return jnp.sin(x)

    assert [each.target for each in from_jax(function, X).ops] == ["", "sin"]


def test_layers_are_named_scopes_and_ops_know_their_line() -> None:
    def function(w: Any, x: Any) -> Any:
        with jax.named_scope("encoder"), jax.named_scope("layer_0"):
            return jax.nn.relu(x @ w).sum()

    graph = from_jax(function, (floats(3, 3), X), training=True)
    products = [each for each in graph.ops if each.kind == "matmul"]
    assert {each.module for each in products} == {"encoder.layer_0"}
    assert [each.phase for each in products] == ["forward", "backward"]
    assert {each.source.partition(":")[0] for each in products} == {"test_jax_function.py"}
    # Ops that relu runs inside JAX have the module and the line of the call of relu.
    maximum = next(each for each in graph.ops if each.target == "max")
    assert (maximum.module, maximum.source) == ("encoder.layer_0", products[0].source)


def test_rows_looked_up_are_an_embedding_with_its_gradient() -> None:
    def function(table: Any, rows: Any) -> Any:
        return table[rows].sum()

    graph = from_jax(function, (floats(100, 8), jax.ShapeDtypeStruct((4,), jnp.int32)), training=True, optimizer="sgd")
    assert "embedding" in kinds(graph)
    assert "embedding_backward" in kinds(graph)


def test_pooling_and_its_gradient_know_their_window() -> None:
    def function(x: Any, scale: Any) -> Any:
        return lax.reduce_window(x * scale, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()

    graph = from_jax(function, (floats(1, 8, 8, 4), floats(4)), parameters=1, training=True)
    windows = [each.attributes["kernel"] for each in graph.ops if each.kind.startswith("pooling")]
    assert windows == [[2, 2], [2, 2]]


def test_zeros_between_the_inputs_of_a_strided_gradient_are_not_multiplied() -> None:
    def function(kernel: Any, x: Any) -> Any:
        return lax.conv_general_dilated(x, kernel, (2,), [(0, 0)]).sum()

    graph = from_jax(function, (floats(1, 1, 2), floats(1, 1, 8)), parameters=(0, 1), training=True)
    convolutions = [flops(graph, each.name) for each in graph.ops if each.kind == "conv"]
    # Four results of two products each; so many again for the gradient of the kernel and of the input.
    assert convolutions == [16, 16, 16]


@pytest.mark.parametrize("seed", range(16))
def test_what_a_kernel_meets_in_the_padding_is_not_multiplied_in_a_gradient(seed: int) -> None:
    chance = random.Random(seed)
    axes = chance.choice([1, 2])
    kernel = [chance.randrange(1, 6) for _ in range(axes)]
    extents = [extent + chance.randrange(4) for extent in kernel]
    stride, groups = chance.choice([1, 1, 2]), chance.choice([1, 2])
    weight, image = floats(6, 4 // groups, *kernel), floats(2, 4, *extents)

    def result_of(image: Any, weight: Any) -> Any:
        return lax.conv_general_dilated(image, weight, [stride] * axes, "VALID", feature_group_count=groups)

    def gradient(image: Any, weight: Any) -> Any:
        result, backward = jax.vjp(lambda image: result_of(image, weight), image)
        return backward(result)[0]

    graph = from_jax(gradient, (image, weight), parameters=1)
    forward, backward = [flops(graph, each.name) for each in graph.ops if each.kind == "conv"]
    # Every product of the forward convolution has one in the gradient, and XLA counts so many.
    assert backward == forward == jax.jit(result_of).lower(image, weight).cost_analysis()["flops"]


@pytest.mark.parametrize("name", ["cumsum", "cummax", "cummin", "cumprod", "cumlogsumexp"])
@pytest.mark.parametrize("seed", range(3))
def test_a_running_sum_costs_one_function_an_element_in_text_too(name: str, seed: int) -> None:
    chance = random.Random(seed)
    x = floats(*(chance.randrange(2, 40) for _ in range(chance.choice([1, 2, 3]))))
    axis, reverse = chance.randrange(len(x.shape)), chance.random() < 0.5

    def function(x: Any) -> Any:
        return getattr(lax, name)(x, axis=axis, reverse=reverse)

    text = jax.jit(function).lower(x).as_text()
    for graph in (from_jax(function, x), parse_stablehlo(text.encode(), "m.mlir")):
        assert sum(flops(graph, each.name) for each in graph.ops) == x.size


@pytest.mark.parametrize("seed", range(8))
def test_effects_keep_their_order(seed: int) -> None:
    chance = random.Random(seed)
    steps = [chance.choice(["read", "write", "loop", "call"]) for _ in range(8)]

    def function(x: Any) -> Any:
        ref, total = jax.new_ref(x), x
        for step in steps:
            if step == "read":
                total = total + ref[...]
            elif step == "write":
                ref[...] = x * 2
            elif step == "call":
                io_callback(lambda _: None, None, x, ordered=True)
            else:
                lax.fori_loop(0, 3, lambda _, value: jax.ref.swap(ref, ..., value), x)
        return total + ref[...]

    graph = from_jax(function, X)
    before: list[set[int]] = []
    for each in graph.ops:
        direct = {*each.controls, *({graph.producer_of[tensor] for tensor in each.inputs} - {-1})}
        before.append(direct.union(*(before[other] for other in direct)))
    named = {"get": "read", "swap": "write", "scan": "loop", "while": "loop", "io_callback": "call"}
    touching = [(index, named[each.target]) for index, each in enumerate(graph.ops) if each.target in named]
    assert [step for _, step in touching] == [*steps, "read"]
    for place, (later, second) in enumerate(touching):
        for earlier, first in touching[:place]:
            if (first == "call") is (second == "call") and {first, second} != {"read"}:
                assert earlier in before[later]


def test_random_numbers_and_keys_have_sizes() -> None:
    key = jax.eval_shape(lambda: jax.random.key(0))
    graph = from_jax(lambda key, x: x * jax.random.bernoulli(key, 0.5, x.shape), (key, X), parameters=())
    assert "random" in kinds(graph)
    assert graph.tensors[0].size_bytes == 8


def test_unknown_primitives_are_kept_with_a_warning() -> None:
    graph = from_jax(jnp.linalg.cholesky, floats(4, 4))
    assert "other" in kinds(graph)
    assert any("cholesky" in warning for warning in graph.metadata["warnings"])


@pytest.mark.parametrize(
    "mark",
    [lax.optimization_barrier, lambda x: jax.device_put(x, jax.devices()[0]), lambda x: checkpoint_name(x, "kept")],
)
def test_what_only_marks_an_array_is_no_op(mark: Any) -> None:
    assert [each.target for each in from_jax(lambda x: jnp.sin(mark(x)), X).ops] == ["", "sin"]
    assert [each.target for each in from_jax(lambda x: jnp.sin(mark((x, x))[0]), X).ops] == ["", "sin"]


def test_what_is_offloaded_takes_no_memory_of_the_device() -> None:
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["h"], offload_src="device", offload_dst="pinned_host"
    )
    function = jax.checkpoint(lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "h")).sum(), policy=policy)
    graph = from_jax(jax.grad(function), X)
    sizes = [graph.tensors[op.outputs[0]].size_bytes for op in graph.ops if op.target == "device_put"]
    assert sizes == [0, 4 * X.size]


@pytest.mark.parametrize(
    ("function", "args", "options", "sentence"),
    [
        (loss, (WEIGHTS, floats(2, 4)), {}, "JAX cannot trace 'loss': TypeError: dot_general requires contracting"),
        (loss, (WEIGHTS, X), {"parameters": 2}, "parameters names argument 2, and there are 2"),
        (jnp.sum, (X,), {"training": True}, "there is nothing to train: name the arguments that are weights"),
        (loss, ({}, X), {"training": True}, "there is nothing to train: argument 0 holds no arrays"),
        (loss, (WEIGHTS, X), {"optimizer": "lion"}, "unknown optimizer 'lion'"),
        (lambda x: x, ("text",), {}, "JAX cannot trace"),
    ],
)
def test_bad_input_is_one_sentence(function: Any, args: Any, options: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        from_jax(function, args, **options)
    assert "\n" not in str(caught.value)


def test_without_jax_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'path/to/placewright\[jax\]'"):
        from_jax(loss, (WEIGHTS, X))


def test_plan_takes_a_function() -> None:
    plan = placewright.plan(loss, "2xh100", args=(WEIGHTS, X), training=True, evaluations=50)
    assert plan.graph_name == "loss"


NET = """
import jax
import jax.numpy as jnp

def build():
    array = jax.ShapeDtypeStruct((4, 4), jnp.float32)
    return (lambda w, x: jnp.tanh(x @ w)), (array, array)
"""


def test_a_function_in_a_file_is_a_model_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(NET)
    graph = placewright.load_graph(f"{path}:build")
    assert kinds(graph) == ["input", "matmul", "elementwise"]
    with pytest.raises(InputError, match=r"does not name a function; write it like net\.py:build"):
        placewright.load_graph(path)
    with pytest.raises(InputError, match="has no function 'bild'"):
        placewright.load_graph(f"{path}:bild")
