"""A module under `torch.autocast`, captured on the host as it would run on its target device.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

_LOWER = (torch.bfloat16, torch.float16)
_ON_HOST = "AutocastCPU"
#: Ops that autocast of GPUs computes in float32 and that of CPUs may not: `AT_FORALL_FP32` and, with `norm`,
#: `AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE` of PyTorch's ATen/autocast_mode.h.
_FLOAT32 = (
    *("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh"),
    *("tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm"),
    *("rms_norm", "group_norm", "frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim", "cosine_similarity"),
    *("poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div"),
    *("l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss"),
    *("soft_margin_loss", "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist"),
    *("pdist", "cdist", "renorm", "logsumexp", "upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_nearest2d"),
    *("_upsample_nearest_exact2d", "upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_linear1d"),
    *("upsample_bilinear2d", "_upsample_bilinear2d_aa", "upsample_trilinear3d", "upsample_bicubic2d"),
    *("_upsample_bicubic2d_aa", "norm.Scalar", "norm.ScalarOpt_dim"),
)
#: The same for `AT_FORALL_FP32_SET_OPT_DTYPE`: these take the dtype of their result.
_FLOAT32_RESULT = (
    *("prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "linalg_vector_norm"),
    *("linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum", "sum.dim_IntList"),
)


@contextlib.contextmanager
def without_autocast() -> Iterator[None]:
    """A context in which nothing is cast, as in the backward pass of a training loop."""
    with contextlib.ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


@contextlib.contextmanager
def under_autocast(model: nn.Module, *, on_gpus: bool) -> Iterator[None]:
    """A context in which the module's forward runs under autocast in bfloat16, as after `model.forward =
    torch.autocast(...)(model.forward)`: weights stay float32, and are cast where they are read.

    on_gpus: whether by the rules of GPUs, wherever the module lies.
    """
    tensors = (*model.parameters(), *model.buffers())
    there = "cuda" if any(tensor.device.type == "cuda" for tensor in tensors) else "cpu"
    plain, own = model.forward, vars(model).get("forward")

    @functools.wraps(plain)
    def forward(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(there, dtype=torch.bfloat16):
            return plain(*args, **kwargs)

    model.forward = forward
    try:
        with _rules_of_gpus() if on_gpus and there == "cpu" else contextlib.nullcontext():
            yield
    finally:
        del model.forward
        if own is not None:
            model.forward = own


@contextlib.contextmanager
def _rules_of_gpus() -> Iterator[None]:
    """A context in which autocast of CPUs computes in float32 what that of GPUs does, in the whole process."""
    library = torch.library.Library("aten", "IMPL")
    try:
        for name in (*_FLOAT32, *_FLOAT32_RESULT):
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", _ON_HOST):
                library.impl(name, _in_float32(op, sets_dtype=name in _FLOAT32_RESULT), _ON_HOST)
        yield
    finally:
        library._destroy()


def _in_float32(op: Any, *, sets_dtype: bool) -> Any:
    """A kernel that calls an op outside of autocast, in float32."""
    outside = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(outside):
            if not sets_dtype:
                return op(*map(_raised, args), **{name: _raised(value) for name, value in kwargs.items()})
            if _is_lower(args[0]) and kwargs.get("dtype") is None and not _names_dtype(op, args):
                kwargs["dtype"] = torch.float32
            return op(*args, **kwargs)

    return kernel


def _names_dtype(op: Any, args: tuple[Any, ...]) -> bool:
    """True if the dtype of the result is among the positional arguments."""
    names = [argument.name for argument in op._schema.arguments]
    return "dtype" in names[: len(args)] and args[names.index("dtype")] is not None


def _is_lower(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _LOWER


def _raised(value: Any) -> Any:
    return value.float() if _is_lower(value) else value
