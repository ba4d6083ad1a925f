"""The dtypes that kernels return, where PyTorch's description of an op says another.

It traces a normalization of half-precision numbers with float32 parameters as if it saved statistics of half precision.
Imported only where torch is known to be present.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch

from placewright.importers.torch.attributes import arguments_of

_ATEN = torch.ops.aten
#: Normalizations whose last two results are the statistics, after any that have the dtype of the input.
_NORMALIZATIONS = frozenset(
    {
        *(_ATEN.native_batch_norm.default, _ATEN.native_layer_norm.default, _ATEN.native_group_norm.default),
        *(_ATEN._native_batch_norm_legit.default, _ATEN._native_batch_norm_legit.no_stats),
        *(_ATEN._native_batch_norm_legit_functional.default, _ATEN._native_batch_norm_legit_no_training.default),
    }
)
_STATISTICS = (1, 2)


def correct_dtypes(nodes: Iterable[Any]) -> None:
    """Gives traced nodes, in order, the dtypes that their kernels return on the host, and updates the nodes that read
    them."""
    corrected: set[Any] = set()
    for node in nodes:
        if node.op != "call_function" or "val" not in node.meta:
            continue
        before, again = node.meta["val"], any(each in corrected for each in node.all_input_nodes)
        value = _traced_again(node) if again else before
        for place, dtype in _dtypes(node).items():
            if value[place].dtype != dtype:
                value = tuple(_of_dtype(each, dtype) if number == place else each for number, each in enumerate(value))
        if again or value is not before:
            node.meta["val"] = value
            corrected.add(node)


def _dtypes(node: Any) -> dict[int, torch.dtype]:
    """The dtypes of results, by place, that PyTorch may have traced wrongly."""
    if node.target in _NORMALIZATIONS:
        arguments = arguments_of(node)
        value = arguments["input"].meta["val"]
        beside = [arguments.get(name) for name in ("weight", "bias", "running_mean")]
        known = {each.meta["val"].dtype for each in beside if each is not None}
        if value.is_cpu and known - {value.dtype}:
            return dict.fromkeys(_STATISTICS, torch.float32)
    if node.target is _ATEN.native_group_norm_backward.default:
        value = arguments_of(node)["input"].meta["val"]
        return {0: value.dtype} if value.is_cpu and node.meta["val"][0] is not None else {}
    return {}


def _of_dtype(value: Any, dtype: torch.dtype) -> Any:
    with value.fake_mode:
        return torch.empty_strided(value.shape, value.stride(), dtype=dtype, device=value.device)


def _traced_again(node: Any) -> Any:
    """The result of tracing a call again, now that it reads other dtypes."""
    if node.target is operator.getitem:
        return node.args[0].meta["val"][node.args[1]]
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.meta["val"]
    args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda each: each.meta["val"])
    mode = next(each.meta["val"].fake_mode for each in node.all_input_nodes if hasattr(each.meta["val"], "fake_mode"))
    with mode, torch.no_grad():
        return node.target(*args, **kwargs)
