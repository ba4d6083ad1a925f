"""Batch normalisation by the kernels that PyTorch would choose for a module on a GPU.

A capture holds the ops that compose batch normalisation on any device. On a GPU PyTorch calls cuDNN's kernels instead,
which have other last bits and are faster. Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

_aten = torch.ops.aten
#: An attribute of the saved mean: what cuDNN's forward pass keeps for its backward pass, if anything.
_RESERVE = "_placewright_reserve"


def kernel_on_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel on a GPU for the function of a call; the function itself for all but batch normalisation."""
    return _ON_GPU.get(function, function)


def _is_cudnn(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, eps: float) -> bool:
    """True if PyTorch would use cuDNN. Without training both kernels give the same bits."""
    if not training or weight is None or bias is None:
        return False
    backend = torch._C._select_batch_norm_backend(x, weight, bias, mean, variance, training, eps)
    return bool(backend == torch._C._BatchNormBackend.Cudnn)


def _forward(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not _is_cudnn(x, weight, bias, mean, variance, training, eps):
        function = _aten._native_batch_norm_legit_functional.default
        return function(x, weight, bias, mean, variance, training, momentum, eps)
    mean, variance = mean.clone(), variance.clone()
    return (*_normalized(x, weight, bias, mean, variance, momentum, eps), mean, variance)


def _forward_without_statistics(x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    if not _is_cudnn(x, weight, bias, None, None, training, eps):
        return _aten._native_batch_norm_legit.no_stats(x, weight, bias, training, momentum, eps)
    return _normalized(x, weight, bias, None, None, momentum, eps)


def _normalized(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float) -> Any:
    x = x.contiguous(memory_format=suggest_memory_format(x))
    made, *saved, reserve = _aten.cudnn_batch_norm.default(
        x, weight.contiguous(), bias.contiguous(), mean, variance, True, momentum, eps
    )
    if reserve.numel():
        setattr(saved[0], _RESERVE, reserve)
    return made, *saved


def _backward(
    grad: Any,
    x: Any,
    weight: Any,
    mean: Any,
    variance: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    output_mask: Any,
) -> Any:
    if not _is_cudnn(x, weight, weight, mean, variance, train, eps):
        function = _aten.native_batch_norm_backward.default
        return function(grad, x, weight, mean, variance, save_mean, save_invstd, train, eps, output_mask)
    layout = suggest_memory_format(x)
    reserve = getattr(save_mean, _RESERVE, None)
    if reserve is None:
        reserve = torch.empty(0, dtype=torch.uint8, device=x.device)
    x, grad = x.contiguous(memory_format=layout), grad.contiguous(memory_format=layout)
    made = _aten.cudnn_batch_norm_backward.default(
        x, grad, weight, mean, variance, save_mean, save_invstd, eps, reserve
    )
    return tuple(each if wanted else None for each, wanted in zip(made, output_mask, strict=True))


_ON_GPU: dict[Any, Callable[..., Any]] = {
    _aten._native_batch_norm_legit_functional.default: _forward,
    _aten._native_batch_norm_legit.no_stats: _forward_without_statistics,
    _aten.native_batch_norm_backward.default: _backward,
}
