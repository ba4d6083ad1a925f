"""Kinds and attributes of ATen ops, each from a module small enough to work out by hand."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch importer needs PyTorch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from placewright.costs.estimate import estimate_costs  # noqa: E402
from placewright.graph import Graph, Op  # noqa: E402
from placewright.importers.torch.module import from_torch  # noqa: E402
from placewright.machines import load_machine  # noqa: E402


class Call(nn.Module):
    """A function as a module, with the submodules it uses."""

    def __init__(self, function: Any, **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs) if self._modules else self.function(*inputs)


def of_kind(graph: Graph, kind: str) -> list[Op]:
    return [op for op in graph.ops if op.kind == kind]


def only(graph: Graph, kind: str) -> Op:
    (op,) = of_kind(graph, kind)
    return op


def shapes(graph: Graph, op: Op) -> tuple[list[Any], list[Any]]:
    return [graph.tensors[i].shape for i in op.inputs], [graph.tensors[i].shape for i in op.outputs]


def test_a_grouped_convolution_and_its_gradients() -> None:
    layer = nn.Conv2d(8, 12, (3, 5), stride=2, padding=(1, 2), groups=4)
    images = torch.zeros(2, 8, 16, 16, requires_grad=True)
    graph = from_torch(layer, (images,), training=True)
    forward, backward = only(graph, "conv"), only(graph, "conv_backward")
    assert forward.attributes == {
        "kernel": [3, 5],
        "stride": [2, 2],
        "padding": [1, 2],
        "dilation": [1, 1],
        "groups": 4,
        "transposed": False,
        "in_channels": 8,
        "out_channels": 12,
    }
    assert backward.attributes == {**forward.attributes, "grads": ["input", "weight", "bias"]}
    # the gradient of the result comes first, then image and weight [12, 8 / 4, 3, 5]
    assert shapes(graph, backward) == (
        [(2, 12, 8, 8), (2, 8, 16, 16), (12, 2, 3, 5)],
        [(2, 8, 16, 16), (12, 2, 3, 5), (12,)],
    )


def test_a_first_convolution_without_bias_has_only_the_gradient_of_its_weight() -> None:
    graph = from_torch(nn.Conv1d(4, 6, 3, dilation=2, bias=False), (torch.zeros(2, 4, 16),), training=True)
    backward = only(graph, "conv_backward")
    assert backward.attributes["grads"] == ["weight"]
    assert (backward.attributes["kernel"], backward.attributes["dilation"]) == ([3], [2])
    assert shapes(graph, backward)[1] == [(6, 4, 3)]


def test_a_transposed_convolution_states_its_channels() -> None:
    # weight of a transposed convolution: [inputs, outputs / groups, ...] = [6, 4 / 2, 2, 2]
    graph = from_torch(nn.ConvTranspose2d(6, 4, 2, stride=2, groups=2), (torch.zeros(1, 6, 5, 5),))
    attributes = only(graph, "conv").attributes
    assert (attributes["transposed"], attributes["in_channels"], attributes["out_channels"]) == (True, 6, 4)


def attend(query: Any, key: Any, value: Any) -> Any:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def test_fused_attention_states_heads_lengths_and_widths() -> None:
    query = torch.zeros(2, 8, 16, 32, requires_grad=True)
    key = torch.zeros(2, 4, 16, 32)
    graph = from_torch(Call(attend), (query, key, key.clone()))
    assert only(graph, "attention").attributes == {
        "batch": 2,
        "heads": 8,
        "kv_heads": 4,
        "query_length": 16,
        "key_length": 16,
        "head_dim": 32,
        "value_dim": 32,
        "causal": True,
    }


def test_a_causal_mask_of_more_keys_than_queries_begins_at_the_first_key() -> None:
    query, key = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 64, 8)
    assert torch.allclose(attend(query, key, key)[0, 0, 0], key[0, 0, 0])
    assert only(from_torch(Call(attend), (query, key, key)), "attention").attributes["past_length"] == 0


def test_gradients_of_fused_attention_carry_its_attributes() -> None:
    def layer(self: Any, x: Any) -> Any:  # x: [2, 10, 64] as 4 heads of 16
        parts = (part.view(2, 10, 4, 16).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        return functional.scaled_dot_product_attention(*parts)

    graph = from_torch(Call(layer, project=nn.Linear(64, 192)), (torch.zeros(2, 10, 64),), training=True)
    forward, backward = only(graph, "attention"), only(graph, "attention_backward")
    assert backward.attributes == forward.attributes
    assert (forward.attributes["heads"], forward.attributes["causal"]) == (4, False)


def test_batched_products_count_their_batch() -> None:
    graph = from_torch(Call(torch.bmm), (torch.zeros(5, 2, 3), torch.zeros(5, 3, 4)))
    assert only(graph, "matmul").attributes == {"batch": 5, "m": 2, "n": 4, "k": 3, "bias": False}


def test_grouped_products_are_of_every_dtype_that_their_kernel_takes() -> None:
    def experts(self: Any, x: Any, ends: Any) -> Any:
        return torch._grouped_mm(x, self.weights.weight.view(4, 16, 8), offs=ends)

    rows, ends = torch.zeros(12, 16), torch.tensor([3, 3, 7, 12], dtype=torch.int32)
    model = Call(experts, weights=nn.Linear(16, 32))
    assert experts(model, rows, ends).dtype == torch.float32
    graph = from_torch(model, (rows, ends), training=True)
    forward = next(op for op in graph.ops if op.kind == "matmul")
    assert forward.target == "aten._grouped_mm.default"
    assert shapes(graph, forward)[1] == [(12, 8)]
    assert [graph.tensors[tensor].dtype for tensor in forward.outputs] == ["float32"]


def test_matrix_times_vector_is_a_product_with_one_column() -> None:
    graph = from_torch(Call(torch.mv), (torch.zeros(7, 3), torch.zeros(3)))
    assert only(graph, "matmul").attributes == {"batch": 1, "m": 7, "n": 1, "k": 3, "bias": False}


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.MaxPool2d(3, 2, 1), (1, 4, 8, 8), {"function": "max", "kernel": [3, 3], "stride": [2, 2], "global": False}),
        (nn.AvgPool2d(2), (1, 4, 8, 8), {"function": "average", "kernel": [2, 2], "stride": [2, 2], "global": False}),
        (nn.AvgPool2d(8), (1, 4, 8, 8), {"function": "average", "kernel": [8, 8], "global": True}),
        # 8 -> 3: windows of 3, steps of 2
        (nn.AdaptiveAvgPool2d(3), (1, 4, 8, 8), {"function": "average", "kernel": [3, 3], "stride": [2, 2]}),
        (nn.AdaptiveMaxPool2d(1), (1, 4, 8, 8), {"function": "max", "kernel": [8, 8], "global": True}),
    ],
)
def test_pooling_states_its_window(layer: nn.Module, shape: tuple[int, ...], expected: dict[str, Any]) -> None:
    graph = from_torch(layer, (torch.zeros(shape),))
    attributes = only(graph, "pooling").attributes
    assert {key: attributes[key] for key in expected} == expected


def test_gradients_of_pooling_carry_its_window() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.AdaptiveAvgPool2d(2), nn.MaxPool2d(2))
    graph = from_torch(model, (torch.zeros(1, 1, 8, 8),), training=True)
    for forward, backward in zip(of_kind(graph, "pooling"), reversed(of_kind(graph, "pooling_backward")), strict=True):
        assert backward.attributes == forward.attributes


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.LayerNorm(6), (2, 6), {"function": "layer"}),
        (nn.GroupNorm(3, 6), (2, 6, 4), {"function": "group", "groups": 3}),
        (nn.BatchNorm2d(6), (2, 6, 4, 4), {"function": "batch"}),
    ],
)
def test_normalisation_and_its_gradients_say_over_what(
    layer: nn.Module, shape: tuple[int, ...], expected: dict[str, Any]
) -> None:
    graph = from_torch(layer, (torch.zeros(shape),), training=True)
    assert only(graph, "normalization").attributes == expected
    assert only(graph, "normalization_backward").attributes == expected


def test_a_fused_recurrent_layer_states_its_widths() -> None:
    lstm = nn.LSTM(8, 16, num_layers=2)
    graph = from_torch(lstm, (torch.zeros(5, 3, 8),))
    layers = of_kind(graph, "rnn")
    if not layers:
        pytest.skip("this PyTorch runs LSTM step by step: it was built without oneDNN")
    assert layers[1].attributes == {
        "cell": "lstm",
        "batch": 3,
        "length": 5,
        "input_size": 16,
        "hidden_size": 16,
        "layers": 1,
        "directions": 1,
    }
    assert layers[0].attributes["input_size"] == 8


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [
        ((5, 3, 8, 16), torch.float32),
        ((64, 8, 128, 256), torch.float32),
        ((1, 32, 300, 64), torch.float32),
        ((7, 3, 64, 33), torch.bfloat16),
    ],
)
def test_what_an_lstm_keeps_for_its_gradient_is_as_large_as_where_it_runs(
    sizes: tuple[int, int, int, int], dtype: Any
) -> None:
    length, batch, input_size, hidden_size = sizes
    lstm, given = nn.LSTM(input_size, hidden_size, dtype=dtype), torch.zeros(length, batch, input_size, dtype=dtype)
    kept = []

    def noted(each: Any) -> Any:
        kept.append(each.nbytes)
        return each

    with torch.autograd.graph.saved_tensors_hooks(noted, lambda each: each):
        lstm(given)
    graph = from_torch(lstm, (given,), training=True)
    if not of_kind(graph, "rnn"):
        pytest.skip("this PyTorch runs LSTM step by step: it was built without oneDNN")
    workspace = only(graph, "rnn").outputs[3]
    assert workspace in only(graph, "rnn_backward").inputs
    assert graph.tensors[workspace].size_bytes == max(kept)
    inference = from_torch(lstm, (given,))
    assert inference.tensors[only(inference, "rnn").outputs[3]].size_bytes == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x, rows, places: rows.half(),
        lambda x, rows, places: rows.to(torch.int8),
        lambda x, rows, places: x.index_add(0, places, rows),
        lambda x, rows, places: x.index_put((places,), rows, accumulate=True),
        lambda x, rows, places: x.scatter_add(0, places[:, None].expand(100, 16).contiguous(), rows),
        lambda x, rows, places: x.scatter_reduce(0, places[:, None].expand(100, 16).contiguous(), rows, "amax"),
        lambda x, rows, places: torch.ops.aten.upsample_nearest1d_backward(rows[None], [16], [1, 100, 4]),
    ],
)
def test_what_is_cast_or_summed_is_read_in_whole(function: Any) -> None:
    graph = from_torch(Call(function), (torch.zeros(4, 16), torch.zeros(100, 16), torch.zeros(100, dtype=torch.int64)))
    last = len(graph.ops) - 1
    touched = {*graph.ops[last].inputs, *graph.ops[last].outputs}
    expected = sum(graph.tensors[tensor].size_bytes for tensor in touched)
    assert estimate_costs(graph, load_machine("cpu")).bytes_moved[last] == expected


@pytest.mark.parametrize(
    ("function", "kind", "attributes"),
    [
        (lambda x: x.softmax(-1), "softmax", {"axes": [2]}),
        (lambda x: x.log_softmax(0), "softmax", {"axes": [0]}),
        (lambda x: x.sum((0, -1)), "reduction", {"function": "sum", "axes": [0, 2]}),
        (lambda x: x.mean(), "reduction", {"function": "mean", "axes": [0, 1, 2]}),
        (lambda x: x.amax(1), "reduction", {"function": "max", "axes": [1]}),
        (lambda x: x.var(1), "reduction", {"function": "variance", "axes": [1]}),
        (lambda x: x.norm(dim=1), "reduction", {"function": "norm", "axes": [1]}),
        (lambda x: functional.mse_loss(x, x + 1), "reduction", {"function": "loss", "axes": [0, 1, 2]}),
        (functional.gelu, "elementwise", {"function": "gelu"}),
        (lambda x: torch.where(x > 0, x, 0.0), "elementwise", {"function": "where"}),
        (lambda x: torch.maximum(x, x + 1), "elementwise", {"function": "maximum"}),
        (lambda x: x.cumsum(1), "elementwise", {"function": "cumsum"}),
        (lambda x: torch.cat([x, x]), "copy", {}),
        (lambda x: x.transpose(0, 1).contiguous(), "copy", {}),
        (lambda x: x.to(torch.float16), "copy", {}),
        (lambda x: functional.pad(x, (1, 1)), "copy", {}),
        (lambda x: x[torch.tensor([1, 0])], "gather", {}),
        (lambda x: x.roll(1, 0), "gather", {}),
        (lambda x: x.topk(2), "sort", {}),
        (lambda x: x.topk(2, dim=-2), "sort", {"axes": [1]}),
        (lambda x: x.sort(stable=True, dim=0), "sort", {"axes": [0]}),
        (lambda x: x.median(), "sort", {"axes": [0, 1, 2]}),
        (lambda x: torch.searchsorted(x, x), "sort", {}),
        (torch.rand_like, "random", {}),
    ],
)
def test_kind_and_attributes_of_small_functions(function: Any, kind: str, attributes: dict[str, Any]) -> None:
    graph = from_torch(Call(function), (torch.zeros(2, 3, 4),))
    assert attributes in [dict(op.attributes) for op in of_kind(graph, kind)]
    assert "warnings" not in graph.metadata


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        *(
            (partial(functional.interpolate, scale_factor=2, mode=mode), (2, 3) + (8,) * rank)
            for mode, ranks in (
                *(("linear", (1,)), ("bilinear", (2,)), ("bicubic", (2,)), ("trilinear", (3,))),
                *(("nearest", (1, 2, 3)), ("nearest-exact", (1, 2, 3))),
            )
            for rank in ranks
        ),
        (partial(functional.interpolate, size=(5, 5), mode="bicubic", antialias=True), (2, 3, 8, 8)),
        (functional.softshrink, (2, 3)),
        (partial(functional.multi_margin_loss, target=torch.zeros(2, dtype=torch.int64)), (2, 3)),
    ],
)
def test_what_has_a_kernel_is_one_op(function: Any, shape: tuple[int, ...]) -> None:
    call = Call(lambda self, x: function(self.scale(x.unsqueeze(-1)).squeeze(-1)), scale=nn.Linear(1, 1))
    graph = from_torch(Call(function), (torch.zeros(shape),))
    assert len([op for op in graph.ops if op.kind not in ("input", "view")]) == 1
    assert "warnings" not in graph.metadata
    assert "warnings" not in from_torch(call, (torch.zeros(shape),), training=True).metadata


def test_dropout_draws_random_numbers_only_in_training() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    assert not of_kind(from_torch(model, (torch.zeros(2, 4),)), "random")
    assert len(of_kind(from_torch(model, (torch.zeros(2, 4),), training=True), "random")) == 1


def test_an_embedding_and_its_gradient() -> None:
    graph = from_torch(nn.Embedding(10, 4), (torch.zeros(3, dtype=torch.int64),), training=True)
    assert shapes(graph, only(graph, "embedding"))[1] == [(3, 4)]
    assert shapes(graph, only(graph, "embedding_backward"))[1] == [(10, 4)]


def test_an_op_of_unknown_meaning_is_kept_and_warned_of() -> None:
    library = torch.library.Library("placewright_test", "DEF")
    library.define("twist(Tensor x) -> Tensor")
    library.impl("twist", lambda x: x.clone(), "CompositeExplicitAutograd")
    graph = from_torch(Call(torch.ops.placewright_test.twist), (torch.zeros(3),))
    assert only(graph, "other").target == "placewright_test.twist.default"
    (warning,) = graph.metadata["warnings"]
    assert "placewright_test.twist.default" in warning


def test_a_conditional_is_kept_whole() -> None:
    def choose(x: Any) -> Any:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    graph = from_torch(Call(choose), (torch.zeros(3),))
    assert len(only(graph, "control_flow").outputs) == 1
    assert len(graph.metadata["warnings"]) == 1
