"""The attributes of ATen ops: products, convolutions, attention, recurrence, normalisation, pooling.

DESCRIBED is the table; the functions before it read one call's arguments by the names of the op's schema. Imported only
where torch is known to be present.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch

Attributes = dict[str, Any]
Arguments = Mapping[str, Any]


def arguments_of(node: Any) -> dict[str, Any]:
    """All arguments of the call by the names of its schema, defaults filled in."""
    parameters = node.target._schema.arguments
    values = {parameter.name: parameter.default_value for parameter in parameters if parameter.has_default_value()}
    values.update({parameter.name: value for parameter, value in zip(parameters, node.args, strict=False)})
    return {**values, **node.kwargs}


def shape_of(value: Any) -> tuple[int, ...]:
    return tuple(value.meta["val"].shape)


def _repeated(values: Any, rank: int) -> list[int]:
    """A per-axis setting as one integer for each axis; a single value holds for all."""
    listed = [values] if isinstance(values, int) else list(values)
    return listed * rank if len(listed) == 1 else listed


def _matrix_product(left: str, right: str, bias: str | None = None) -> Callable[[Arguments, Any], Attributes]:
    """Attributes of a product of the named arguments; vectors count as one row or one column."""

    def attributes(arguments: Arguments, _: Any) -> Attributes:
        rows, columns = shape_of(arguments[left]), shape_of(arguments[right])
        batch = rows[0] if len(rows) == len(columns) == 3 else 1
        m = rows[-2] if len(rows) > 1 else 1
        n = columns[-1] if len(columns) > 1 else 1
        return {"batch": batch, "m": m, "n": n, "k": rows[-1], "bias": bias is not None}

    return attributes


def _grouped_product_backward(arguments: Arguments, value: Any) -> Attributes:
    """Gradients of the rows and of the weights of every group: two products, each as large as the forward one."""
    return {**_matrix_product("input", "weight")(arguments, value), "batch": 2}


def _convolution(arguments: Arguments, _: Any) -> Attributes:
    weight = shape_of(arguments["weight"])
    rank = len(weight) - 2
    groups, transposed = arguments["groups"], arguments["transposed"]
    per_group = weight[1] * groups
    return {
        "kernel": list(weight[2:]),
        "stride": _repeated(arguments["stride"], rank),
        "padding": _repeated(arguments["padding"], rank),
        "dilation": _repeated(arguments["dilation"], rank),
        "groups": groups,
        "transposed": transposed,
        "in_channels": weight[0] if transposed else per_group,
        "out_channels": per_group if transposed else weight[0],
    }


def _convolution_backward(arguments: Arguments, value: Any) -> Attributes:
    wanted = zip(("input", "weight", "bias"), arguments["output_mask"], strict=True)
    return {**_convolution(arguments, value), "grads": [name for name, asked in wanted if asked]}


def _attention(arguments: Arguments, _: Any) -> Attributes:
    batch, heads, query_length, head_dim = shape_of(arguments["query"])
    _, kv_heads, key_length, _ = shape_of(arguments["key"])
    return {
        "batch": batch,
        "heads": heads,
        "kv_heads": kv_heads,
        "query_length": query_length,
        "key_length": key_length,
        "head_dim": head_dim,
        "value_dim": shape_of(arguments["value"])[-1],
        "causal": bool(arguments["is_causal"]),
    }


def _attention_from_the_first_key(arguments: Arguments, value: Any) -> Attributes:
    """The attributes of an attention whose causal mask always lets the first query see only the first key."""
    attributes = _attention(arguments, value)
    is_square = attributes["query_length"] == attributes["key_length"]
    return attributes if is_square or not attributes["causal"] else {**attributes, "past_length": 0}


def _recurrent_layer(arguments: Arguments, _: Any) -> Attributes:
    """One layer in one direction, as oneDNN runs it; input (length, batch, input_size), the mode is cuDNN's."""
    length, batch, input_size = shape_of(arguments["input"])
    cell = {0: "relu", 1: "tanh", 2: "lstm", 3: "gru"}[arguments["mode"]]
    return {
        "cell": cell,
        "batch": batch,
        "length": length,
        "input_size": input_size,
        "hidden_size": arguments["hidden_size"],
        "layers": 1,
        "directions": 1,
    }


def results_of(node: Any) -> Sequence[Any]:
    """The results of a call, as tensors without data; None for those that it leaves out."""
    value = node.meta["val"]
    if not isinstance(value, (tuple, list)):
        return (value,)
    kept = [user for user in node.users if user.target is operator.getitem and user.args[1] == 3 and user.users]
    if kept and node.target is torch.ops.aten.mkldnn_rnn_layer.default:
        # It is traced as empty, but is the larger part of what a layer keeps for its gradient.
        *given, workspace = value
        return (*given, workspace.new_empty(_lstm_workspace(arguments_of(node))))
    return tuple(value)


def _lstm_workspace(arguments: Arguments) -> int:
    """Bytes that one layer in one direction keeps for its gradient: oneDNN gives each of these arrays whole pages."""
    length, batch, input_size = shape_of(arguments["input"])
    hidden, width = arguments["hidden_size"], arguments["input"].meta["val"].element_size()
    rows, states, widest = length * batch, 2 * (length + 1) * batch, max(input_size, hidden)
    sizes = [
        *(rows * _padded(4 * hidden, width), rows * _padded(hidden, width)),  # gates, and their results
        *(states * _padded(widest, width), states * hidden * width, states * hidden * 4),  # across, along, cells
        *(states * _padded(widest, 4), states * _padded(widest, 4)),  # gradients across and along
    ]
    return sum(-(-size // 4096) * 4096 for size in sizes)


def _padded(elements: int, width: int) -> int:
    """The bytes of a row: whole cache lines, and no multiple of 256 elements."""
    line = 64 // width
    padded = -(-elements // line) * line
    return (padded + line if padded % 256 == 0 else padded) * width


def _normalization(function: str) -> Callable[[Arguments, Any], Attributes]:
    def attributes(arguments: Arguments, _: Any) -> Attributes:
        groups = {"groups": arguments["group"]} if function == "group" else {}
        return {"function": function, **groups}

    return attributes


def _pooling(function: str, rank: int) -> Callable[[Arguments, Any], Attributes]:
    def attributes(arguments: Arguments, _: Any) -> Attributes:
        kernel = _repeated(arguments["kernel_size"], rank)
        source = shape_of(arguments["self"])[-rank:]
        return {
            "function": function,
            "kernel": kernel,
            "stride": _repeated(arguments["stride"] or kernel, rank),
            "padding": _repeated(arguments["padding"], rank),
            "global": tuple(kernel) == source,
        }

    return attributes


def _adaptive_pooling(function: str, rank: int) -> Callable[[Arguments, Any], Attributes]:
    """The kernel and stride that spread the output evenly over the input, rounded up and down."""

    def attributes(arguments: Arguments, value: Any) -> Attributes:
        source = shape_of(arguments["self"])[-rank:]
        gradient = arguments.get("grad_output")
        first = value[0] if isinstance(value, (tuple, list)) else value
        result = shape_of(gradient)[-rank:] if gradient is not None else tuple(first.shape)[-rank:]
        return {
            "function": function,
            "kernel": [-(-long // short) for long, short in zip(source, result, strict=True)],
            "stride": [long // short for long, short in zip(source, result, strict=True)],
            "padding": [0] * rank,
            "global": all(extent == 1 for extent in result),
        }

    return attributes


def _softmax(argument: str) -> Callable[[Arguments, Any], Attributes]:
    def attributes(arguments: Arguments, _: Any) -> Attributes:
        return {"axes": [arguments["dim"] % max(1, len(shape_of(arguments[argument])))]}

    return attributes


def part_bytes(node: Any) -> int | None:
    """The bytes of its first argument that a call reads and writes where it overwrites a part of it in place; None
    where unknown, or where it overwrites no part."""
    name, arguments = node.target._schema.name.removeprefix("aten::"), arguments_of(node)
    if name in ("index_copy", "index_add"):
        elements = math.prod(shape_of(arguments["source"]))
    elif name in ("select_scatter", "slice_scatter"):
        elements = math.prod(shape_of(arguments["src"]))
    elif name in ("scatter", "scatter_add"):
        elements = math.prod(shape_of(arguments["index"]))
    elif name == "index_put":
        indices = [each.meta["val"] if each is not None else None for each in arguments["indices"]]
        if any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in indices):
            return None
        picked = torch.broadcast_shapes(*(each.shape for each in indices if each is not None))
        left = [extent for extent, each in zip_longest(shape_of(arguments["self"]), indices) if each is None]
        elements = math.prod(picked) * math.prod(left)
    else:
        return None
    is_sum = name in ("index_add", "scatter_add") or bool(arguments.get("accumulate") or arguments.get("reduce"))
    return int(elements * arguments["self"].meta["val"].element_size() * (2 if is_sum else 1))


_Described = tuple[str, Callable[[Arguments, Any], Attributes]]

#: On a GPU a causal mask of the flash kernel is aligned at the last key; PyTorch uses the kernel for no other mask.
_ATTENTIONS = {
    **dict.fromkeys(
        ("flash_attention_for_cpu", "efficient_attention", "cudnn_attention"), _attention_from_the_first_key
    ),
    "flash_attention": _attention,
}

DESCRIBED: Mapping[str, _Described] = {
    "mm": ("matmul", _matrix_product("self", "mat2")),
    "bmm": ("matmul", _matrix_product("self", "mat2")),
    "_int_mm": ("matmul", _matrix_product("self", "mat2")),
    "_scaled_mm": ("matmul", _matrix_product("self", "mat2")),
    "_grouped_mm": ("matmul", _matrix_product("self", "mat2")),
    "grouped_mm_fallback": ("matmul", _matrix_product("input", "weight")),
    "grouped_mm_fallback_backward": ("matmul", _grouped_product_backward),
    "mv": ("matmul", _matrix_product("self", "vec")),
    "dot": ("matmul", _matrix_product("self", "tensor")),
    "vdot": ("matmul", _matrix_product("self", "other")),
    "addmm": ("matmul", _matrix_product("mat1", "mat2", "self")),
    "addmv": ("matmul", _matrix_product("mat", "vec", "self")),
    "baddbmm": ("matmul", _matrix_product("batch1", "batch2", "self")),
    "convolution": ("conv", _convolution),
    "convolution_backward": ("conv_backward", _convolution_backward),
    **{f"_scaled_dot_product_{name}": ("attention", rule) for name, rule in _ATTENTIONS.items()},
    **{f"_scaled_dot_product_{name}_backward": ("attention_backward", rule) for name, rule in _ATTENTIONS.items()},
    "mkldnn_rnn_layer": ("rnn", _recurrent_layer),
    "mkldnn_rnn_layer_backward": ("rnn_backward", _recurrent_layer),
    **{
        name: ("normalization", _normalization("batch"))
        for name in (
            *("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional"),
            *("_native_batch_norm_legit_no_training", "_batch_norm_with_update", "_batch_norm_no_update"),
            *("_batch_norm_with_update_functional", "cudnn_batch_norm"),
        )
    },
    "native_layer_norm": ("normalization", _normalization("layer")),
    "native_group_norm": ("normalization", _normalization("group")),
    "_fused_rms_norm": ("normalization", _normalization("rms")),
    "native_batch_norm_backward": ("normalization_backward", _normalization("batch")),
    "batch_norm_backward": ("normalization_backward", _normalization("batch")),
    "native_layer_norm_backward": ("normalization_backward", _normalization("layer")),
    "native_group_norm_backward": ("normalization_backward", _normalization("group")),
    "_fused_rms_norm_backward": ("normalization_backward", _normalization("rms")),
    **{
        f"{name}{rank}d{suffix}{end}": (kind, _pooling(function, rank))
        for name, suffix, function in (("max_pool", "_with_indices", "max"), ("avg_pool", "", "average"))
        for end, kind in (("", "pooling"), ("_backward", "pooling_backward"))
        for rank in (1, 2, 3)
    },
    **{
        f"{name}{rank}d{end}": (kind, _adaptive_pooling(function, rank))
        for name, function in (("_adaptive_avg_pool", "average"), ("adaptive_max_pool", "max"))
        for end, kind in (("", "pooling"), ("_backward", "pooling_backward"))
        for rank in (2, 3)
    },
    "_softmax": ("softmax", _softmax("self")),
    "_safe_softmax": ("softmax", _softmax("self")),
    "_log_softmax": ("softmax", _softmax("self")),
    "_softmax_backward_data": ("softmax_backward", _softmax("grad_output")),
    "_log_softmax_backward_data": ("softmax_backward", _softmax("grad_output")),
}
