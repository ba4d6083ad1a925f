"""Ops of PyTorch whole and in parts, as the table of axes says; calls are drawn at random."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch importer needs PyTorch")

from random_calls import RANDOM, SORTS, Draw, drawn_call  # noqa: E402
from torch import fx  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from placewright.importers.torch.splitting.axes import Rule, rules  # noqa: E402


def node_of(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> fx.Node:
    """The call in a graph, its tensors as placeholders."""
    graph, mode = fx.Graph(), FakeTensorMode(allow_non_fake_inputs=True)
    nodes: dict[int, fx.Node] = {}

    def placeholder(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in nodes:
            nodes[id(value)] = graph.placeholder(f"x{len(nodes)}")
            nodes[id(value)].meta["val"] = mode.from_tensor(value, static_shapes=True)
        return nodes[id(value)]

    args, kwargs = pytree.tree_map(placeholder, (tuple(args), dict(kwargs)))
    node = graph.call_function(op, args, kwargs)
    fakes = pytree.tree_map_only(fx.Node, lambda each: each.meta["val"], (args, kwargs))
    node.meta["val"] = op(*fakes[0], **fakes[1])
    return node


def as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def extent_of(op: Any, arguments: Mapping[str, Any], results: Sequence[Any], rule: Rule) -> int:
    """The most pieces that the rule can be cut into: the greatest common divisor of all divided lengths."""
    lengths = [tensor.shape[axis] for name, axis in rule.axes.items() for tensor in tensors_in(arguments[name])]
    lengths += [
        each.shape[axis]
        for each, axis in zip(results, rule.results, strict=True)
        if isinstance(axis, int) and each is not None
    ]
    lengths += [
        held(arguments[name], entry) for name, entry in rule.extents.items() if held(arguments[name], entry) != -1
    ]
    return math.gcd(*lengths)


def tensors_in(value: Any) -> list[Any]:
    return [each for each in pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]


def held(value: Any, entry: int | None) -> Any:
    return value if entry is None else value[entry]


def named(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    schema = op._schema.arguments
    values = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    values.update(zip((argument.name for argument in schema), args, strict=False))
    return {**values, **kwargs}


def called(op: Any, arguments: Mapping[str, Any]) -> list[Any]:
    """Call an op and return its results; arguments are given by position, as ops with defaults in between take them."""
    schema = op._schema.arguments
    args = [arguments[argument.name] for argument in schema if not argument.kwarg_only]
    return as_list(op(*args, **{each.name: arguments[each.name] for each in schema if each.kwarg_only}))


def in_parts(
    op: Any, arguments: Mapping[str, Any], rule: Rule, extent: int, cuts: Sequence[int], dense: bool, rest: int
) -> list[list[Any]]:
    """The results of each part."""

    def part_of(value: Any, axis: int, begin: int, end: int) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        each = value.shape[axis] // extent
        part = value.narrow(axis, begin * each, (end - begin) * each)
        return part.contiguous() if dense else part

    found = []
    for begin, end in zip((0, *cuts), (*cuts, extent), strict=True):
        part = dict(arguments)
        for name, axis in rule.axes.items():
            part[name] = pytree.tree_map(partial(part_of, axis=axis, begin=begin, end=end), part[name])
        for name, entry in rule.extents.items():
            # One that is left to be worked out is as long as the first result.
            length = rest if (given := held(arguments[name], entry)) == -1 else given
            length = length // extent * (end - begin)
            if entry is None:
                part[name] = length
            else:
                part[name] = [length if at == entry else size for at, size in enumerate(part[name])]
        found.append(called(op, part))
    return found


#: Units in the last place by which parts may differ, at the largest value that is read or made.
ULPS = 64


def difference(whole: Any, joined: Any, largest: float) -> str | None:
    """Describe how the joined result differs from the whole one by more than rounding, or return None."""
    if whole.dtype != joined.dtype or whole.shape != joined.shape:
        return f"{joined.dtype}{list(joined.shape)} instead of {whole.dtype}{list(whole.shape)}"
    if not (whole.dtype.is_floating_point or whole.dtype.is_complex):
        return None if torch.equal(whole, joined) else "other integers"
    finite = whole[whole.isfinite()].abs()
    bound = ULPS * torch.finfo(whole.dtype).eps * max(1.0, largest, finite.max().item() if finite.numel() else 0)
    if torch.allclose(whole, joined, rtol=0, atol=bound, equal_nan=True):
        return None
    return f"{(whole - joined).abs().max().item()} apart, {bound} allowed"


def largest_in(values: Any) -> float:
    found = [each.detach().double().abs() for each in tensors_in(values) if each.numel() and not each.is_complex()]
    finite = [each[each.isfinite()] for each in found]
    return max((each.max().item() for each in finite if each.numel()), default=0.0)


def checked(
    op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], draw: random.Random
) -> Iterator[tuple[Rule, str | None]]:
    """Each rule of the call that can be cut, and what is wrong with its results."""
    node = node_of(op, args, kwargs)
    found = list(rules(node))
    if not found:
        return
    arguments = named(op, args, kwargs)
    whole = called(op, arguments)
    largest = largest_in(list(arguments.values()))
    for rule in found:
        extent = extent_of(op, arguments, whole, rule)
        if extent < 2:
            continue
        count = draw.choice([each for each in (2, 3) if each <= extent])
        cuts = sorted(draw.sample(range(1, extent), count - 1))
        try:
            rest = next(
                (
                    each.shape[axis]
                    for each, axis in zip(whole, rule.results, strict=True)
                    if isinstance(axis, int) and each is not None
                ),
                0,
            )
            parts = in_parts(op, arguments, rule, extent, cuts, draw.random() < 0.5, rest)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            yield rule, f"does not run: {str(error)[:200]}"
            continue
        wanted = arguments.get("output_mask") or [True] * len(whole)
        kept = [result if want else None for result, want in zip(whole, wanted, strict=True)]
        yield rule, joined_difference(rule, kept, parts, largest)


def joined_difference(rule: Rule, whole: Sequence[Any], parts: Sequence[Sequence[Any]], largest: float) -> str | None:
    for share, result, *pieces in zip(rule.results, whole, *parts, strict=True):
        if not isinstance(result, torch.Tensor) or share == "own":
            continue
        if share == "sum":
            joined = pieces[0]
            for piece in pieces[1:]:
                if piece.shape != joined.shape:
                    return f"terms of shapes {list(joined.shape)} and {list(piece.shape)}"
                joined = joined + piece
        else:
            try:
                joined = torch.cat(pieces, share)
            except (RuntimeError, IndexError) as error:
                return f"cannot be joined: {error}"
        if wrong := difference(result, joined, largest):
            return wrong
    return None


#: Ops that steps are made of, which the table has to know; those of graphics cards alone are left out.
KNOWN = """
add.Tensor sub.Tensor mul.Tensor div.Tensor pow.Tensor_Scalar where.self exp log neg tanh tanh_backward sigmoid
sigmoid_backward relu threshold_backward gelu gelu_backward silu silu_backward masked_fill.Scalar _to_copy clone full
zeros_like ones_like full_like view _unsafe_view expand as_strided permute transpose.int t unsqueeze squeeze.dim
squeeze.dims slice.Tensor slice_backward select.int select_backward split.Tensor split_with_sizes unbind.int cat stack
constant_pad_nd sum sum.dim_IntList mean.dim amax var.correction var_mean.correction logsumexp argmax max.dim any.dim
cumsum flip glu glu_backward _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data mm bmm addmm
baddbmm embedding embedding_dense_backward gather index_select scatter_add scatter.src scatter.value native_layer_norm
native_layer_norm_backward native_group_norm native_group_norm_backward _fused_rms_norm
_native_batch_norm_legit_no_training convolution convolution_backward max_pool2d_with_indices
max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d _adaptive_avg_pool2d_backward
adaptive_max_pool2d adaptive_max_pool2d_backward upsample_nearest2d upsample_nearest2d_backward upsample_bilinear2d
upsample_bilinear2d_backward upsample_bicubic2d upsample_bicubic2d_backward
_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward nll_loss_forward
nll_loss_backward nll_loss2d_forward nll_loss2d_backward mse_loss mse_loss_backward smooth_l1_loss
smooth_l1_loss_backward huber_loss huber_loss_backward binary_cross_entropy binary_cross_entropy_backward
"""


def of_seeds(seeds: range, name: str) -> tuple[set[str], list[str]]:
    """The ops of a sort whose rules were run, and what was wrong."""
    hit, wrong = set(), []
    for seed in seeds:
        op, args, kwargs = drawn_call(seed, name)
        for rule, words in checked(op, args, kwargs, random.Random(seed)):
            hit.add(op.__name__.removesuffix(".default"))
            if words:
                wrong.append(f"seed {seed}: {op} by {rule}: {words}")
    return hit, wrong


#: Sorts with many ops, few of which can be divided; they are drawn more often.
MANY = {"value_by_value", "views", "slices", "reductions", "gathers", "pools", "losses"}
#: Ops whose rules were run, by sort.
HIT: dict[str, set[str]] = {}


@pytest.mark.parametrize("name", SORTS)
def test_parts_of_a_call_give_what_the_whole_gives(name: str) -> None:
    HIT[name], wrong = of_seeds(range(200 if name in MANY else 100), name)
    assert wrong == []


def test_the_ops_that_steps_are_made_of_are_known_and_run() -> None:
    """Uses the calls of the test above, and makes those that it has not made."""
    for name in SORTS.keys() - HIT.keys():
        HIT[name] = of_seeds(range(200 if name in MANY else 100), name)[0]
    assert set().union(*HIT.values()) >= set(KNOWN.split())


@pytest.mark.parametrize("op", sorted(RANDOM, key=str))
def test_what_is_drawn_at_random_is_not_divided(op: Any) -> None:
    draw = Draw(0)
    arguments = {"aten::native_dropout": (0.5, True), "aten::bernoulli": (0.5,)}.get(op._schema.name, ())
    assert list(rules(node_of(op, (draw.tensor(4, 6), *arguments), {}))) == []


@pytest.mark.long
@pytest.mark.parametrize("name", SORTS)
def test_parts_of_many_calls_give_what_the_whole_gives(name: str) -> None:
    _, wrong = of_seeds(range(10_000, 11_000), name)
    assert wrong == []
