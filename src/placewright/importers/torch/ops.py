"""The kind of every ATen op, and the attributes that costs and learners need beyond shapes.

Read from the op's own schema where it says enough (aliases, the pointwise, reduction and random tags); the table has
the rest. Imported only where torch is known to be present.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import torch
from torch.utils import _pytree as pytree

from placewright.importers.torch.attributes import DESCRIBED, Attributes, arguments_of, shape_of

#: View ops whose schema does not say that they alias.
_UNDECLARED_VIEWS = frozenset({"_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "wait_tensor"})

#: Kinds whose ops carry no attributes, each with the names of its ops.
_PLAIN_NAMES = {
    "copy": """
        clone copy _to_copy lift_fresh_copy cat stack constant_pad_nd repeat repeat_interleave flip rot90 block_diag
        reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
        channel_shuffle pixel_shuffle pixel_unshuffle im2col slice_backward select_backward unfold_backward
        diagonal_backward slice_scatter select_scatter diagonal_scatter as_strided_scatter
    """,
    "gather": """
        gather scatter scatter_add scatter_reduce index index_put index_select index_add index_copy index_fill
        index_reduce _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate take put
        roll masked_select masked_scatter masked_scatter_backward nonzero nonzero_static
        grid_sampler_2d grid_sampler_3d max_unpool2d max_unpool3d upsample_nearest1d upsample_nearest2d
        upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
        value_selecting_reduction_backward
    """,
    "fill": """
        zeros ones full empty arange linspace logspace eye scalar_tensor zeros_like ones_like full_like empty_like fill
        new_zeros new_ones new_full new_empty new_empty_strided empty_strided empty_permuted tril_indices triu_indices
        hann_window iota inductor_lookup_seed inductor_random inductor_randint
    """,
    "sort": "sort topk argsort kthvalue median nanmedian mode msort _unique _unique2 unique_dim searchsorted bucketize",
    "embedding": "embedding _embedding_bag _embedding_bag_forward_only",
    "embedding_backward": "embedding_dense_backward _embedding_bag_dense_backward",
}
#: Ops that look positions up in sorted tensors.
_SEARCHES = frozenset({"searchsorted", "bucketize"})
_PLAIN = {name: kind for kind, names in _PLAIN_NAMES.items() for name in names.split()}

#: Reductions by what they compute; another op with the reduction tag keeps its own name.
_REDUCTION_NAMES = {
    "loss": """
        nll_loss_forward nll_loss2d_forward mse_loss smooth_l1_loss huber_loss soft_margin_loss multi_margin_loss
        multilabel_margin_loss_forward binary_cross_entropy binary_cross_entropy_with_logits _ctc_loss
    """,
    "sum": "sum nansum histc bincount trace",
    "max": "amax max argmax aminmax",
    "min": "amin min argmin",
    "norm": "linalg_vector_norm norm dist",
    "product": "prod",
    "variance": "var var_mean std std_mean",
    "logsumexp": "logsumexp",
}
_REDUCTIONS = {name: function for function, names in _REDUCTION_NAMES.items() for name in names.split()}

#: Ops computed element by element whose schema does not carry the pointwise tag.
_ELEMENTWISE_NAMES = """
    cumsum cumprod logcumsumexp cummax cummin tril triu glu glu_backward floor_divide rsub addr complex polar isin
    one_hot hardswish hardswish_backward hardsigmoid_backward hardtanh_backward leaky_relu_backward elu_backward col2im
    softplus_backward log_sigmoid_forward log_sigmoid_backward _prelu_kernel _prelu_kernel_backward
    nll_loss_backward nll_loss2d_backward mse_loss_backward smooth_l1_loss_backward huber_loss_backward
    soft_margin_loss_backward multi_margin_loss_backward multilabel_margin_loss_backward hardshrink_backward
    softshrink_backward binary_cross_entropy_backward rrelu_with_noise_backward native_dropout_backward
    reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward
    replication_pad2d_backward replication_pad3d_backward _weight_norm_interface _weight_norm_interface_backward
    upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d upsample_linear1d_backward
    upsample_bilinear2d_backward upsample_bicubic2d_backward upsample_trilinear3d_backward
    _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward
    _upsample_lanczos2d_aa _upsample_lanczos2d_aa_backward upsample_nearest1d_backward upsample_nearest2d_backward
    upsample_nearest3d_backward _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward
    _upsample_nearest_exact3d_backward grid_sampler_2d_backward grid_sampler_3d_backward
"""
_ELEMENTWISE = frozenset(_ELEMENTWISE_NAMES.split())

#: Ops that return nothing and write to nothing, and whose work is done once a module has been traced for its shapes.
_DONE_IN_TRACING = frozenset(
    {
        *("aten::_assert_tensor_metadata", "aten::_assert_scalar", "profiler::_record_function_exit"),
        *("aten::sym_constrain_range", "aten::sym_constrain_range_for_size"),
    }
)


def describe(node: Any) -> tuple[str, Attributes]:
    """Kind and attributes of one traced call; kind "other" when neither schema nor table knows it."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return "control_flow", {}
    schema = node.target._schema
    name = schema.name.split("::")[-1]
    if name in _UNDECLARED_VIEWS or _is_view(schema):
        return "view", {}
    if name in DESCRIBED:
        kind, attributes_of = DESCRIBED[name]
        return kind, attributes_of(arguments_of(node), node.meta["val"])
    if name in _PLAIN:
        return _PLAIN[name], _sorted_axes(name, node) if _PLAIN[name] == "sort" else {}
    return _from_tags(name, node)


def bodies_of(node: Any) -> dict[Any, torch.fx.GraphModule]:
    """The code that a call such as torch.cond holds: graphs, by their arguments."""
    held = {argument: attribute_of(argument) for argument in node.all_input_nodes if argument.op == "get_attr"}
    return {argument: value for argument, value in held.items() if isinstance(value, torch.fx.GraphModule)}


def attribute_of(node: Any) -> Any:
    """The value of an argument that names an attribute of the traced module."""
    return attrgetter(node.target)(node.graph.owning_module)


def draws_random_numbers(node: Any) -> bool:
    """True if a traced call takes numbers from the generator; dropout that drops nothing does not."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        called = [leaf for leaf in pytree.tree_leaves(node.args) if isinstance(leaf, torch._ops.OpOverload)]
        return any(map(_is_random, called)) or any(map(_draws_within, bodies_of(node).values()))
    if not may_draw(node):
        return False
    arguments = arguments_of(node)
    return not (arguments.get("dropout_p") == 0.0 or arguments.get("train") is False)


def only_acts(target: Any) -> bool:
    """True if a call returns nothing and writes to nothing, so that it only has other effects: a check of values, or
    those of a custom op. Tracers drop it."""
    if target is torch._assert_async:
        return True
    if isinstance(target, torch._ops.OpOverloadPacket):
        return any(only_acts(getattr(target, name)) for name in target.overloads())
    if not isinstance(target, torch._ops.OpOverload):
        return False
    schema = target._schema
    return not schema.returns and not schema.is_mutable and schema.name not in _DONE_IN_TRACING


def sentence_on_effects(target: Any) -> str:
    """The sentence that refuses a call with effects besides its results."""
    name = getattr(target, "__name__", "") if target is torch._assert_async else target
    return (
        f"the op {name} does something beside computing its results, such as a check of their values, and plans cannot "
        "run it"
    )


def may_draw(node: Any) -> bool:
    """True if a traced call is of an op that takes numbers from the generator with some arguments."""
    return _is_random(node.target)


def _is_random(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def _draws_within(body: torch.fx.GraphModule) -> bool:
    return any(draws_random_numbers(node) for node in body.graph.nodes if node.op == "call_function")


def _from_tags(name: str, node: Any) -> tuple[str, Attributes]:
    tags = node.target.tags
    if torch.Tag.view_copy in tags:
        return "copy", {}
    of_two_tensors = node.target._overloadname == "other"
    if not of_two_tensors and (name in _REDUCTIONS or torch.Tag.reduction in tags):
        return "reduction", _reduction(name, node)
    if name in _ELEMENTWISE or torch.Tag.pointwise in tags:
        return "elementwise", {"function": name.strip("_")}
    if torch.Tag.nondeterministic_seeded in tags:
        return "random", {}
    return "other", {}


def _is_view(schema: Any) -> bool:
    """True if every result shares memory with an argument that is only read."""
    aliases = [result.alias_info for result in schema.returns]
    return bool(aliases) and all(alias is not None and not alias.is_write for alias in aliases)


def _sorted_axes(name: str, node: Any) -> Attributes:
    """The axes along which elements are compared, unless it is the last one."""
    if name in _SEARCHES:
        return {}
    arguments, rank = arguments_of(node), len(shape_of(node.all_input_nodes[0]))
    asked = arguments.get("dim", 0 if name == "msort" else None)
    axes = list(range(rank)) if asked is None else [asked % max(1, rank)]
    return {} if rank == 0 or axes == [rank - 1] else {"axes": axes}


def _reduction(name: str, node: Any) -> Attributes:
    rank = len(shape_of(node.all_input_nodes[0]))
    asked = arguments_of(node).get("dim")
    axes = [asked] if isinstance(asked, int) else list(asked or range(rank))
    return {"function": _REDUCTIONS.get(name, name.strip("_")), "axes": sorted(axis % max(1, rank) for axis in axes)}
