"""Floating-point operations of one op, by kind. A multiply-add counts as two.

Operations that are not a single instruction are weighted; the weights are stated where they are used. Such ops are
bound by memory on all devices of the presets, so their weights only matter on unusual devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from placewright.graph import Op, Tensor
from placewright.support.errors import InputError, shown

Tensors = Sequence[Tensor]
Formula = Callable[[Op, Tensors, Tensors], int]

#: Special functions run at a quarter of the rate of an addition on NVIDIA GPUs (CUDA C++ programming guide, table of
#: arithmetic instructions); activations made of one or two of them cost about ten additions.
_SPECIAL = "div exp exp2 expm1 log log2 log10 log1p sin cos tan sqrt rsqrt reciprocal pow remainder fmod floor_divide"
_COMPOSITE = (
    "sigmoid tanh silu swish gelu erf erfc erfinv mish softplus elu selu celu logsigmoid log_sigmoid asin acos atan"
)
_ELEMENTWISE_WEIGHTS = dict.fromkeys(_SPECIAL.split(), 4) | dict.fromkeys(_COMPOSITE.split(), 10)
#: Gradients that reuse the result, g * y * (1 - y) and the like, instead of computing the function again.
_ELEMENTWISE_WEIGHTS |= {"sigmoid_backward": 3, "tanh_backward": 3}

_REDUCTION_WEIGHTS = {"norm": 2, "variance": 3, "logsumexp": 6, "loss": 2}
_NORMALIZATION_WEIGHTS = {"rms": 5, "local_response": 15}
_GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
#: Per parameter: sgd p -= lr * g; adam two moving averages, their corrections, a root, a division, the update.
_OPTIMIZER_WEIGHTS = {"sgd": 2, "adam": 15, "adamw": 17}


class NoFormulaError(Exception):
    """The op's kind has no formula, or an attribute or shape that its formula needs is absent."""


def count_flops(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """Count the operations of the op on these tensors. A count that the op states, as a fusion or a loop does, replaces
    its formula's.

    Raises NoFormulaError when they cannot be counted, InputError when an attribute is not as its kind demands.
    """
    if "flops" in op.attributes:
        return _whole(op, "flops")
    formula = _FORMULAS.get(op.kind)
    if formula is None:
        raise NoFormulaError
    return formula(op, inputs, outputs)


def _none(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    return 0


def _matmul(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """2 * batch * m * n * k, and one addition per element of the result for a bias."""
    if "k" not in op.attributes:
        return _matmul_by_shapes(inputs, outputs)
    batch, m, n, k = (_whole(op, name) for name in ("batch", "m", "n", "k"))
    return 2 * batch * m * n * k + (batch * m * n if op.attributes.get("bias") else 0)


def _matmul_by_shapes(inputs: Tensors, outputs: Tensors) -> int:
    """Count by shapes, only where it is clear which two inputs are multiplied and over which axis."""
    if len(inputs) != 2 or len(outputs) != 1:
        raise NoFormulaError
    left, right = (_shape(tensor) for tensor in inputs)
    summed = right[-2:-1] or right[-1:]
    if not left or left[-1:] != summed:
        raise NoFormulaError
    return 2 * _numel(outputs[0]) * left[-1]


def _conv(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """Each element of the result sums kernel * in_channels / groups products; transposed, each element of the input
    is spread over kernel * out_channels / groups places."""
    _need(inputs, 1)
    _need(outputs, 1)
    spread = _numel(inputs[0]) if op.attributes.get("transposed") else _numel(outputs[0])
    return 2 * spread * _products_per_element(op, inputs)


def _conv_backward(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """The gradient of the input and that of the weight cost as much as the forward pass each; that of the bias sums
    the gradient of the result."""
    _need(inputs, 1)
    grads = op.attributes.get("grads")
    if grads is None:
        grads = ["weight" for tensor in outputs if len(_shape(tensor)) > 1]
    if not isinstance(grads, list | tuple):
        raise InputError(f"op '{shown(op.name)}' has grads = {shown(repr(grads))}, which is not a list of names")
    products = sum(grad in ("input", "weight") for grad in grads)
    total = _numel(inputs[0]) if "bias" in grads else 0
    if products == 0:
        return total
    spread = _input_of_transposed(op, inputs, outputs) if op.attributes.get("transposed") else _numel(inputs[0])
    return total + products * 2 * spread * _products_per_element(op, inputs[1:])


def _products_per_element(op: Op, inputs: Tensors) -> int:
    """kernel * channels / groups from the attributes, else from the weight [channels, channels / groups, *kernel]."""
    channels = "out_channels" if op.attributes.get("transposed") else "in_channels"
    if "kernel" in op.attributes and channels in op.attributes:
        groups = _whole(op, "groups") if "groups" in op.attributes else 1
        return math.prod(_wholes(op, "kernel")) * _whole(op, channels) // max(1, groups)
    _need(inputs, 2)
    return math.prod(_shape(inputs[1])[1:])


def _input_of_transposed(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """Count the elements of the forward input, which is among the inputs, or else as its gradient among the outputs."""
    gradient, channels = _shape(inputs[0]), _whole(op, "in_channels")
    for tensor in [*inputs[1:], *outputs]:
        shape = _shape(tensor)
        if len(shape) == len(gradient) and shape[:2] == (gradient[0], channels):
            return math.prod(shape)
    raise NoFormulaError


def _attention(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """Scores q k^T, softmax (5 per score), and the weighted sum of values, over the pairs that are not masked."""
    return _visible_pairs(op) * (2 * _whole(op, "head_dim") + 5 + 2 * _whole(op, "value_dim"))


def _attention_backward(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """Five products instead of two: scores again, and the gradients of values, scores, queries and keys
    (Dao et al., FlashAttention, 2022, appendix B)."""
    return _visible_pairs(op) * (6 * _whole(op, "head_dim") + 10 + 4 * _whole(op, "value_dim"))


def _visible_pairs(op: Op) -> int:
    """Pairs of query and key over all heads; a causal mask leaves about half of a square. Query i sees the keys up to
    i + past_length; by default the last query sees all."""
    queries, keys = _whole(op, "query_length"), _whole(op, "key_length")
    pairs = queries * keys
    if op.attributes.get("causal"):
        past = _whole(op, "past_length") if "past_length" in op.attributes else keys - queries
        # Where there are more queries than keys, the first of them may see none.
        seeing, past = queries + min(past, 0), max(past, 0)
        growing = min(seeing, max(keys - past, 0))
        pairs = growing * past + growing * (growing + 1) // 2 + (seeing - growing) * keys
    return _whole(op, "batch") * _whole(op, "heads") * pairs


def _rnn(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """Per step, layer and direction each gate multiplies input and state; ten more per gate for its activation."""
    gates = _GATES.get(str(op.attributes.get("cell")))
    if gates is None:
        raise NoFormulaError
    hidden, directions = _whole(op, "hidden_size"), _whole(op, "directions")
    width, further = _whole(op, "input_size"), max(0, _whole(op, "layers") - 1)
    first, other = (gates * hidden * (2 * (read + hidden) + 10) for read in (width, hidden * directions))
    per_step = first + further * other
    return _whole(op, "batch") * _whole(op, "length") * directions * per_step


def _normalization(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """Mean, variance, scaling and shift: 8 per element; RMS 5; local response 15 for its window of five."""
    _need(inputs, 1)
    return _NORMALIZATION_WEIGHTS.get(str(op.attributes.get("function")), 8) * _numel(inputs[0])


def _pooling(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """Each element of the result reads its window; a global pooling reads every input once."""
    _need(inputs, 1)
    _need(outputs, 1)
    if op.attributes.get("global") or "kernel" not in op.attributes:
        return _numel(inputs[0])
    return _numel(outputs[0]) * math.prod(_wholes(op, "kernel"))


def _per_input(weight: int) -> Formula:
    """Return a formula of `weight` FLOPs per element of the first input."""

    def formula(op: Op, inputs: Tensors, outputs: Tensors) -> int:
        _need(inputs, 1)
        return weight * _numel(inputs[0])

    return formula


def _random(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """Ten rounds of a counter-based generator, two operations each, give four numbers; scaling: 6 per number."""
    _need(outputs, 1)
    return 6 * _numel(outputs[0])


def _reduction(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    _need(inputs, 1)
    return _REDUCTION_WEIGHTS.get(str(op.attributes.get("function")), 1) * _numel(inputs[0])


def _elementwise(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    _need(outputs, 1)
    function = str(op.attributes.get("function", "")).lower()
    weight = _ELEMENTWISE_WEIGHTS.get(function) or _ELEMENTWISE_WEIGHTS.get(function.removesuffix("_backward"), 1)
    return weight * _numel(outputs[0])


def _sort(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """log2(n) comparisons per element, n the number of elements along the sorted axes, by default the last."""
    _need(inputs, 1)
    shape = _shape(inputs[0])
    axes = _wholes(op, "axes") if "axes" in op.attributes else range(len(shape))[-1:]
    if any(axis >= len(shape) for axis in axes):
        raise InputError(f"op '{shown(op.name)}' has axes = {shown(repr(axes))}, which its input does not have")
    return math.prod(shape) * max(1, math.prod(shape[axis] for axis in axes) - 1).bit_length()


def _optimizer(op: Op, inputs: Tensors, outputs: Tensors) -> int:
    """Per element of the parameters: the inputs are parameter and gradient, and for adam two moments."""
    weight = _OPTIMIZER_WEIGHTS.get(str(op.attributes.get("function")))
    if weight is None:
        raise NoFormulaError
    states = 2 if op.attributes["function"] == "sgd" else 4
    return weight * sum(_numel(tensor) for tensor in inputs) // states


_FORMULAS: Mapping[str, Formula] = MappingProxyType(
    {
        "input": _none,
        "view": _none,
        "matmul": _matmul,
        "conv": _conv,
        "conv_backward": _conv_backward,
        "attention": _attention,
        "attention_backward": _attention_backward,
        "rnn": _rnn,
        # Gradients of data and of weights: twice the forward pass.
        "rnn_backward": lambda *given: 2 * _rnn(*given),
        "normalization": _normalization,
        "normalization_backward": lambda *given: 2 * _normalization(*given),
        "pooling": _pooling,
        # Each element of the incoming gradient, the input here, is spread over its window.
        "pooling_backward": lambda op, inputs, outputs: _pooling(op, outputs, inputs),
        # Maximum, difference, exponential (4), sum, division (4).
        "softmax": _per_input(11),
        # Product, sum, difference, product.
        "softmax_backward": _per_input(4),
        "embedding": _none,
        # One addition per element of the incoming gradient.
        "embedding_backward": _per_input(1),
        "reduction": _reduction,
        "elementwise": _elementwise,
        "copy": _none,
        "gather": _none,
        "sort": _sort,
        "fill": _none,
        "random": _random,
        "optimizer": _optimizer,
    }
)


def _need(tensors: Tensors, count: int) -> None:
    if len(tensors) < count:
        raise NoFormulaError


def _shape(tensor: Tensor) -> tuple[int, ...]:
    if tensor.shape is None:
        raise NoFormulaError
    return tensor.shape


def _numel(tensor: Tensor) -> int:
    return math.prod(_shape(tensor))


def _whole(op: Op, name: str) -> int:
    """Read an attribute that must be a whole number, not negative."""
    value = op.attributes.get(name)
    if value is None:
        raise NoFormulaError
    if type(value) is not int or value < 0:
        raise InputError(
            f"op '{shown(op.name)}' has {name} = {shown(repr(value))}, which is not a whole number of at least 0"
        )
    return value


def _wholes(op: Op, name: str) -> list[int]:
    """Read an attribute that must be a list of whole numbers, none negative."""
    values = op.attributes[name]
    if not isinstance(values, list | tuple) or any(type(value) is not int or value < 0 for value in values):
        label = f"op '{shown(op.name)}' has {name} = {shown(repr(values))}"
        raise InputError(f"{label}, which is not a list of whole numbers of at least 0")
    return list(values)
