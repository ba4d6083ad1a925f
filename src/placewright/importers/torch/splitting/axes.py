"""A table of axes along which ops of PyTorch can be computed in parts, one after the other.

Each entry says along which axis every argument and result is divided, or that the results of the parts are added up.
`tests/importers/test_splitting_axes.py` runs every entry whole and in parts. Imported only where torch is known to be
present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx
from torch.utils import _pytree as pytree

from placewright.importers.torch.attributes import arguments_of

#: The meaning of a part's result that is not a part of an axis: a term of a sum, or something that only the same part
#: reads, such as the seeds of an attention kernel.
Share = Literal["sum", "own"]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One way to compute an op in parts.

    axes: by name of argument, along which axis it is divided; other tensors are read whole. results: the same for each
    result. extents: arguments, or entries of arguments that are lists, that hold the length of the divided axis.
    """

    axes: Mapping[str, int]
    results: tuple[int | Share, ...]
    extents: Mapping[str, int | None] = field(default_factory=dict)


def rules(node: fx.Node) -> Iterator[Rule]:
    """Ways to compute a call in parts; none for a call that the table does not know."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return
    if draws(node):
        return
    name = target.__name__
    if torch.Tag.pointwise in target.tags or name in _ALIKE:
        yield from _pointwise(node)
    elif name in _TABLE:
        yield from _TABLE[name](_Op(node))


class _Op:
    """A call, its arguments by name with defaults, and the shapes of its tensors."""

    def __init__(self, node: fx.Node) -> None:
        self.node = node
        self.arguments = arguments_of(node)
        made = node.meta["val"]
        self.made = made if isinstance(made, (tuple, list)) else (made,)
        self.shape = tuple(self.made[0].shape) if isinstance(self.made[0], torch.Tensor) else ()

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of an argument that is a tensor, or of the first in a list of them."""
        first: Any = pytree.tree_leaves(self.arguments[name])[0]
        return tuple(first.meta["val"].shape)

    def axis(self, name: str, of: str = "self") -> int:
        """An argument that is an axis of another, counted from the front."""
        rank = len(self.shape_of(of))
        return int(self.arguments[name]) % rank if rank else 0

    def has(self, name: str) -> bool:
        """True if an argument is a tensor."""
        return isinstance(self.arguments.get(name), fx.Node)

    def given(self, axes: Mapping[str, int]) -> dict[str, int]:
        """The axes of those arguments that are given."""
        return {name: axis for name, axis in axes.items() if pytree.tree_leaves(self.arguments.get(name))[:1] != [None]}


def draws(node: fx.Node) -> bool:
    """True if a call draws random numbers; a kernel that can, but drops nothing, does not."""
    tags = node.target.tags if isinstance(node.target, torch._ops.OpOverload) else ()
    return torch.Tag.nondeterministic_seeded in tags and arguments_of(node).get("dropout_p") != 0.0


def _pointwise(node: fx.Node) -> Iterator[Rule]:
    """Each axis of the result; arguments that are repeated along it are read whole."""
    op = _Op(node)
    if len(op.made) != 1 or not isinstance(op.made[0], torch.Tensor):
        return
    rank = len(op.shape)
    for axis, extent in enumerate(op.shape):
        if extent > 1:
            axes = {}
            for name, value in op.arguments.items():
                if isinstance(value, fx.Node):
                    shape = op.shape_of(name)
                    own = axis - rank + len(shape)
                    if own >= 0 and shape[own] == extent:
                        axes[name] = own
            yield Rule(axes=axes, results=(axis,))


def _view(op: _Op) -> Iterator[Rule]:
    """The outermost axis of each group of axes that are merged or divided."""
    source, result = op.shape_of("self"), op.shape
    for before, after in _groups(source, result):
        first = next((axis for axis in before if source[axis] > 1), None)
        second = next((axis for axis in after if result[axis] > 1), None)
        if first is not None and second is not None:
            yield Rule(axes={"self": first}, results=(second,), extents={"size": second})


def _groups(source: Sequence[int], result: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Axes of two shapes of as many elements that hold the same elements, from the outermost on."""
    first = second = 0
    while first < len(source) and second < len(result):
        before, after = [first], [second]
        sizes = [source[first], result[second]]
        first, second = first + 1, second + 1
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1] and first < len(source):
                sizes[0] *= source[first]
                before.append(first)
                first += 1
            elif second < len(result):
                sizes[1] *= result[second]
                after.append(second)
                second += 1
            else:
                return
        yield before, after


def _restrided(op: _Op) -> Iterator[Rule]:
    """The outer axis of a matrix, whose layout does not depend on the strides of axes of length one."""
    before, after = op["self"].meta["val"], op.made[0]
    outer, inner = ([axis for axis, extent in enumerate(op.shape) if extent > 1] + [None, None])[:2]
    if before.shape != after.shape or op["storage_offset"] is not None or outer is None:
        return
    width = 1 if inner is None else op.shape[inner]
    if sum(extent > 1 for extent in op.shape) > 2 or any(each.stride(outer) != width for each in (before, after)):
        return
    if inner is None or before.stride(inner) == after.stride(inner) == 1:
        yield Rule(axes={"self": outer}, results=(outer,), extents={"size": outer})


def _expand(op: _Op) -> Iterator[Rule]:
    source, result = op.shape_of("self"), op.shape
    for axis, extent in enumerate(result):
        own = axis - len(result) + len(source)
        is_kept = own >= 0 and source[own] == extent
        if extent > 1:
            yield Rule(axes={"self": own} if is_kept else {}, results=(axis,), extents={"size": axis})


def _filled(op: _Op) -> Iterator[Rule]:
    for axis, extent in enumerate(op.shape):
        if extent > 1:
            yield Rule(axes={}, results=(axis,), extents={"size": axis})


def _shuffled(op: _Op) -> Iterator[Rule]:
    """Axes before those of the channels, rows and columns."""
    for axis in range(len(op.shape) - 3):
        if op.shape[axis] > 1:
            yield Rule(axes={"self": axis}, results=(axis,))


def _permuted(order: Callable[[_Op], Sequence[int]]) -> Callable[[_Op], Iterator[Rule]]:
    """Axes of a permutation. order: for each axis of the result the one of the argument."""

    def found(op: _Op) -> Iterator[Rule]:
        for axis, own in enumerate(order(op)):
            if op.shape[axis] > 1:
                yield Rule(axes={"self": own}, results=(axis,))

    return found


def _transposed(op: _Op) -> list[int]:
    rank = len(op.shape)
    order = list(range(rank))
    if rank > 1:
        first, second = (op[name] % rank for name in ("dim0", "dim1"))
        order[first], order[second] = second, first
    return order


def _unsqueezed(op: _Op) -> Iterator[Rule]:
    new = op["dim"] % len(op.shape)
    for axis in range(len(op.shape) - 1):
        yield Rule(axes={"self": axis}, results=(axis + (axis >= new),))


def _squeezed(op: _Op) -> Iterator[Rule]:
    """Axes that stay whatever their length is: a named one would be removed from a part of length one."""
    source = op.shape_of("self")
    given = op.arguments.get("dim")
    named = range(len(source)) if given is None else [given] if isinstance(given, int) else given
    named = {axis % len(source) for axis in named} if source else set()
    kept = [axis for axis, extent in enumerate(source) if axis not in named or extent != 1]
    for axis, own in enumerate(kept):
        if own not in named:
            yield Rule(axes={"self": own}, results=(axis,))


def _others(op: _Op) -> Iterator[Rule]:
    """Every axis but the one along which the op works; each result has the same axes."""
    worked = op.axis("dim")
    for axis, extent in enumerate(op.shape_of("self")):
        if axis != worked and extent > 1:
            yield Rule(axes={"self": axis}, results=(axis,) * len(op.made))


def _along_all(*names: str) -> Callable[[_Op], Iterator[Rule]]:
    """Every axis but `dim`, of several arguments of one shape."""

    def found(op: _Op) -> Iterator[Rule]:
        worked = op.axis("dim", names[0])
        for axis, extent in enumerate(op.shape_of(names[0])):
            if axis != worked and extent > 1 and all(op.shape_of(name)[axis] == extent for name in names):
                yield Rule(axes=dict.fromkeys(names, axis), results=(axis,) * len(op.made))

    return found


def _selected(op: _Op) -> Iterator[Rule]:
    """One place of an axis, which the result lacks."""
    worked = op.axis("dim")
    for axis, extent in enumerate(op.shape_of("self")):
        if axis != worked and extent > 1:
            yield Rule(axes={"self": axis}, results=(axis - (axis > worked),) * len(op.made))


def _select_backward(op: _Op) -> Iterator[Rule]:
    worked = op["dim"] % len(op.shape)
    for axis, extent in enumerate(op.shape):
        if axis != worked and extent > 1:
            yield Rule(axes={"grad_output": axis - (axis > worked)}, results=(axis,), extents={"input_sizes": axis})


def _slice_backward(op: _Op) -> Iterator[Rule]:
    worked = op["dim"] % len(op.shape)
    for axis, extent in enumerate(op.shape):
        if axis != worked and extent > 1:
            yield Rule(axes={"grad_output": axis}, results=(axis,), extents={"input_sizes": axis})


def _padded(op: _Op) -> Iterator[Rule]:
    rank, worked = len(op.shape), len(op["pad"]) // 2
    for axis in range(rank - worked):
        if op.shape[axis] > 1:
            yield Rule(axes={"self": axis}, results=(axis,))


def _joined(op: _Op) -> Iterator[Rule]:
    shapes = [tuple(each.meta["val"].shape) for each in op["tensors"]]
    worked = op["dim"] % len(op.shape)
    for axis, extent in enumerate(op.shape):
        if axis != worked and extent > 1 and all(len(shape) == len(op.shape) for shape in shapes):
            yield Rule(axes={"tensors": axis}, results=(axis,))


def _stacked(op: _Op) -> Iterator[Rule]:
    worked = op["dim"] % len(op.shape)
    for axis, extent in enumerate(op.shape):
        if axis != worked and extent > 1:
            yield Rule(axes={"tensors": axis - (axis > worked)}, results=(axis,))


def _apart_from_dims(op: _Op) -> Iterator[Rule]:
    """Axes that are not among several along which the op works; without any it works along all of them."""
    worked = {each % len(op.shape) for each in op["dims"]}
    for axis in range(len(op.shape)) if worked else ():
        if axis not in worked:
            yield Rule(axes={"self": axis}, results=(axis,))


def _reduced(*, adds: bool) -> Callable[[_Op], Iterator[Rule]]:
    """Axes that stay. adds: whether parts of the other axes are added up."""

    def found(op: _Op) -> Iterator[Rule]:
        shape = op.shape_of("self")
        given = op.arguments.get("dim")
        named = [given] if isinstance(given, int) else list(given or ())
        gone = {axis % len(shape) for axis in named} if shape and named else set(range(len(shape)))
        keeps = bool(op.arguments.get("keepdim"))
        for axis, extent in enumerate(shape):
            if extent < 2:
                continue
            if axis not in gone:
                behind = 0 if keeps else sum(each < axis for each in gone)
                yield Rule(axes={"self": axis}, results=(axis - behind,) * len(op.made))
            elif adds:
                yield Rule(axes={"self": axis}, results=("sum",))

    return found


def _product(left: str, right: str, *axes: str) -> Callable[[_Op], Iterator[Rule]]:
    """A product of matrices. axes: letters of both arguments and the result, as in einsum."""
    first, second, result = axes

    def found(op: _Op) -> Iterator[Rule]:
        for letter in dict.fromkeys(first + second):
            places = {left: first.find(letter), right: second.find(letter)}
            given = {name: place for name, place in places.items() if place >= 0}
            added = op.has("self") and "self" not in (left, right)
            if letter not in result:
                if not added:
                    yield Rule(axes=given, results=("sum",))
                continue
            axis = result.index(letter)
            if added:
                shape = op.shape_of("self")
                own = axis - len(result) + len(shape)
                if own >= 0 and shape[own] == op.shape[axis]:
                    given["self"] = own
            if op.shape[axis] > 1:
                yield Rule(axes=given, results=(axis,))

    return found


def _embedding(op: _Op) -> Iterator[Rule]:
    for axis, extent in enumerate(op.shape_of("indices")):
        if extent > 1:
            yield Rule(axes={"indices": axis}, results=(axis,))
    yield Rule(axes={"weight": 1}, results=(len(op.shape) - 1,))


def _embedding_backward(op: _Op) -> Iterator[Rule]:
    if not op["scale_grad_by_freq"]:
        for axis, extent in enumerate(op.shape_of("indices")):
            if extent > 1:
                yield Rule(axes={"indices": axis, "grad_output": axis}, results=("sum",))
    yield Rule(axes={"grad_output": len(op.shape_of("grad_output")) - 1}, results=(1,))


def _gathered(op: _Op) -> Iterator[Rule]:
    worked, shape = op.axis("dim"), op.shape_of("self")
    for axis, extent in enumerate(op.shape):
        if axis != worked and extent > 1 and shape[axis] == extent:
            yield Rule(axes={"self": axis, "index": axis}, results=(axis,))
    if len(shape) and op.shape[worked] > 1:
        yield Rule(axes={"index": worked}, results=(worked,))


def _scattered(op: _Op) -> Iterator[Rule]:
    """Axes along which no element moves: those that all arguments have whole, but the one of the index."""
    worked, index = op.axis("dim"), op.shape_of("index")
    source = op.shape_of("src") if op.has("src") else index
    for axis, extent in enumerate(op.shape):
        if axis != worked and extent > 1 and index[axis] == source[axis] == extent:
            yield Rule(axes={"self": axis, "index": axis} | ({"src": axis} if op.has("src") else {}), results=(axis,))


def _indexed_along(op: _Op) -> Iterator[Rule]:
    worked = op.axis("dim")
    for axis, extent in enumerate(op.shape):
        if extent > 1:
            yield Rule(axes={"index": 0} if axis == worked else {"self": axis}, results=(axis,))


def _normalised(op: _Op) -> Iterator[Rule]:
    shape = op.shape_of("input")
    for axis in range(len(shape) - len(op["normalized_shape"])):
        if shape[axis] > 1:
            yield Rule(axes={"input": axis}, results=(axis,) * len(op.made))


def _normalised_backward(op: _Op) -> Iterator[Rule]:
    """The outermost axis: kernels read means as if they had no gaps, but slices along other axes have gaps."""
    shape = op.shape_of("input")
    divided = op.given({"grad_out": 0, "input": 0, "mean": 0, "rstd": 0})
    for axis in range(len(shape) - len(op["normalized_shape"])):
        if shape[axis] > 1:
            added: list[Share] = ["sum"] * (len(op.made) - 1)
            yield Rule(axes=dict.fromkeys(divided, axis), results=(axis, *added))
            return


def _batch(*names: str, results: Sequence[int | Share], size: str | None = None) -> Callable[[_Op], Iterator[Rule]]:
    """The first axis, of samples. size: the argument that is, or begins with, their number."""

    def found(op: _Op) -> Iterator[Rule]:
        if op.shape_of(names[0])[:1] != (1,):
            extents: dict[str, int | None] = {}
            if size is not None:
                extents = {size: 0 if isinstance(op[size], (list, tuple)) else None}
            yield Rule(axes=op.given(dict.fromkeys(names, 0)), results=tuple(results), extents=extents)

    return found


def _of_images(
    *names: str, results: Sequence[int] = (0,), size: str | None = None, rank: int = 4
) -> Callable[[_Op], Iterator[Rule]]:
    """The first axis of images that have a batch axis."""
    found = _batch(*names, results=results, size=size)
    return lambda op: found(op) if len(op.shape_of(names[0])) == rank else iter(())


def _convolution(op: _Op) -> Iterator[Rule]:
    if len(op.shape_of("input")) == len(op.shape_of("weight")):
        yield Rule(axes={"input": 0}, results=(0,))


def _attention(
    divided: Sequence[str], results: Sequence[int | Share], bias: str | None = None
) -> Callable[[_Op], Iterator[Rule]]:
    """Samples and heads."""

    def found(op: _Op) -> Iterator[Rule]:
        shapes = [op.shape_of(name) for name in divided[: 3 + (len(divided) > 3)]]
        for axis in (0, 1):
            if len({shape[axis] for shape in shapes}) != 1 or shapes[0][axis] < 2:
                continue
            axes = dict.fromkeys(divided, axis)
            if bias is not None and op.has(bias):
                shape = op.shape_of(bias)
                own = axis - 4 + len(shape)
                if own >= 0 and shape[own] > 1:
                    axes[bias] = own
            yield Rule(axes=axes, results=tuple(axis if result == 0 else result for result in results))

    return found


def _loss(op: _Op) -> Iterator[Rule]:
    """Negative log-likelihoods of rows, separate or added up."""
    if op["weight"] is not None or len(op.shape_of("self")) < 2:
        return
    if op["reduction"] == 0:
        yield Rule(axes={"self": 0, "target": 0}, results=(0, "own"))
    elif op["reduction"] == 2:
        yield Rule(axes={"self": 0, "target": 0}, results=("sum", "sum"))


def _loss_backward(op: _Op) -> Iterator[Rule]:
    """The gradients of such losses; the divisor of a mean is an argument of its own."""
    if op["weight"] is not None or len(op.shape_of("self")) < 2:
        return
    axes = {"self": 0, "target": 0}
    if op["reduction"] == 0:
        axes["grad_output"] = 0
    yield Rule(axes=axes, results=(0,))


def _distance(*, backward: bool) -> Callable[[_Op], Iterator[Rule]]:
    """Losses of elements, separate or added up, or their gradients."""

    def found(op: _Op) -> Iterator[Rule]:
        shape, is_apart = op.shape_of("self"), op["reduction"] == 0
        if shape != op.shape_of("target") or op["reduction"] == 1 or op.arguments.get("weight") is not None:
            return
        for axis, extent in enumerate(shape):
            if extent > 1:
                axes = {"self": axis, "target": axis} | ({"grad_output": axis} if backward and is_apart else {})
                yield Rule(axes=axes, results=(axis if backward or is_apart else "sum",))

    return found


#: Elementwise ops that PyTorch does not tag as pointwise.
_ALIKE = frozenset(
    {
        "_to_copy.default",
        "alias.default",
        "copy.default",
        "detach.default",
        "elu_backward.default",
        "full_like.default",
        "hardsigmoid_backward.default",
        "hardswish_backward.default",
        "hardtanh_backward.default",
        "leaky_relu_backward.default",
        "lift_fresh_copy.default",
        "mish_backward.default",
        "ones_like.default",
        "softplus_backward.default",
        "zeros_like.default",
        "fill.Scalar",
        "masked_fill.Tensor",
    }
)

_IMAGE_BACKWARD = _of_images("grad_output", size="input_size")
_TABLE: dict[str, Callable[[_Op], Iterator[Rule]]] = {
    "view.default": _view,
    "_unsafe_view.default": _view,
    "as_strided.default": _restrided,
    "expand.default": _expand,
    "full.default": _filled,
    "pixel_shuffle.default": _shuffled,
    "pixel_unshuffle.default": _shuffled,
    "t.default": _permuted(lambda op: range(len(op.shape))[::-1]),
    "transpose.int": _permuted(_transposed),
    "permute.default": _permuted(lambda op: [axis % len(op.shape) for axis in op["dims"]]),
    "unsqueeze.default": _unsqueezed,
    "squeeze.default": _squeezed,
    "squeeze.dim": _squeezed,
    "squeeze.dims": _squeezed,
    "slice.Tensor": _others,
    "select.int": _selected,
    "unbind.int": _selected,
    "split.Tensor": _others,
    "split_with_sizes.default": _others,
    "slice_backward.default": _slice_backward,
    "select_backward.default": _select_backward,
    "constant_pad_nd.default": _padded,
    "cat.default": _joined,
    "stack.default": _stacked,
    "flip.default": _apart_from_dims,
    "roll.default": _apart_from_dims,
    "sum.default": _reduced(adds=True),
    "sum.dim_IntList": _reduced(adds=True),
    "mean.dim": _reduced(adds=False),
    "amax.default": _reduced(adds=False),
    "amin.default": _reduced(adds=False),
    "max.dim": _reduced(adds=False),
    "min.dim": _reduced(adds=False),
    "argmax.default": lambda op: _reduced(adds=False)(op) if op["dim"] is not None else iter(()),
    "var.correction": lambda op: _reduced(adds=False)(op) if op["dim"] else iter(()),
    "var_mean.correction": lambda op: _reduced(adds=False)(op) if op["dim"] else iter(()),
    "logsumexp.default": _reduced(adds=False),
    "any.dim": _reduced(adds=False),
    "cumsum.default": _others,
    "_safe_softmax.default": _others,
    "_softmax.default": _others,
    "_log_softmax.default": _others,
    "_softmax_backward_data.default": _along_all("grad_output", "output"),
    "_log_softmax_backward_data.default": _along_all("grad_output", "output"),
    "glu.default": _others,
    "glu_backward.default": _along_all("grad_output", "self"),
    "mm.default": _product("self", "mat2", "ik", "kj", "ij"),
    "bmm.default": _product("self", "mat2", "bik", "bkj", "bij"),
    "addmm.default": _product("mat1", "mat2", "ik", "kj", "ij"),
    "baddbmm.default": _product("batch1", "batch2", "bik", "bkj", "bij"),
    "embedding.default": _embedding,
    "embedding_dense_backward.default": _embedding_backward,
    "gather.default": _gathered,
    "scatter.src": _scattered,
    "scatter.value": _scattered,
    "scatter_add.default": _scattered,
    "index_select.default": _indexed_along,
    "native_layer_norm.default": _normalised,
    "native_layer_norm_backward.default": _normalised_backward,
    "_fused_rms_norm.default": _normalised,
    "_fused_rms_norm_backward.default": _normalised_backward,
    "native_group_norm.default": _batch("input", results=(0, 0, 0), size="N"),
    "native_group_norm_backward.default": _batch(
        "grad_out", "input", "mean", "rstd", results=(0, "sum", "sum"), size="N"
    ),
    "_native_batch_norm_legit_no_training.default": _batch("input", results=(0, "own", "own")),
    "convolution.default": _convolution,
    "convolution_backward.default": _batch("grad_output", "input", results=(0, "sum", "sum")),
    "max_pool2d_with_indices.default": _of_images("self", results=(0, 0)),
    "max_pool2d_with_indices_backward.default": _of_images("grad_output", "self", "indices"),
    "avg_pool2d.default": _of_images("self"),
    "avg_pool2d_backward.default": _of_images("grad_output", "self"),
    "_adaptive_avg_pool2d.default": _of_images("self"),
    "_adaptive_avg_pool2d_backward.default": _of_images("grad_output", "self"),
    "adaptive_max_pool2d.default": _of_images("self", results=(0, 0)),
    "adaptive_max_pool2d_backward.default": _of_images("grad_output", "self", "indices"),
    "upsample_nearest2d.default": _of_images("self"),
    "upsample_nearest2d_backward.default": _IMAGE_BACKWARD,
    "upsample_bilinear2d.default": _of_images("self"),
    "upsample_bilinear2d_backward.default": _IMAGE_BACKWARD,
    "upsample_bicubic2d.default": _of_images("self"),
    "upsample_bicubic2d_backward.default": _IMAGE_BACKWARD,
    "_scaled_dot_product_flash_attention_for_cpu.default": _attention(("query", "key", "value"), (0, 0), "attn_mask"),
    "_scaled_dot_product_flash_attention_for_cpu_backward.default": _attention(
        ("query", "key", "value", "grad_out", "out", "logsumexp"), (0, 0, 0), "attn_mask"
    ),
    "_scaled_dot_product_efficient_attention.default": _attention(
        ("query", "key", "value"), (0, 0, "own", "own"), "attn_bias"
    ),
    "nll_loss_forward.default": _loss,
    "nll_loss_backward.default": _loss_backward,
    "nll_loss2d_forward.default": _loss,
    "nll_loss2d_backward.default": _loss_backward,
    "mse_loss.default": _distance(backward=False),
    "mse_loss_backward.default": _distance(backward=True),
    "smooth_l1_loss.default": _distance(backward=False),
    "smooth_l1_loss_backward.default": _distance(backward=True),
    "huber_loss.default": _distance(backward=False),
    "huber_loss_backward.default": _distance(backward=True),
    "binary_cross_entropy.default": _distance(backward=False),
    "binary_cross_entropy_backward.default": _distance(backward=True),
}  # fmt: skip
