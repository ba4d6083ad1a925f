"""Ops that PyTorch's tracer would replace by others, traced as a running module calls them: as their kernels, dropout
that drops nothing as its input, and grouped products in the dtypes of their kernels.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._meta_registrations import _create_grouped_mm_output_tensor
from torch._subclasses.fake_impls import op_implementations_dict

#: Ops whose formulas give other last bits than their kernels, or take many small ops instead of one.
_OPS = (
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"),
    *("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    *("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
    *("multi_margin_loss", "multilabel_margin_loss_forward", "hardshrink", "softshrink", "matmul"),
)
_FORMULAS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
_AUTOGRAD = (torch._C.DispatchKey.AutogradCPU, torch._C.DispatchKey.AutogradCUDA)
#: A lock, as the formulas belong to the whole process.
_LOCK = threading.RLock()


def _drawn_by_rows(value: Any, p: float, *, generator: Any = None) -> Any:
    """Draws row by row like `bernoulli`; `bernoulli_` draws in memory order, and the tracer makes one op of both."""
    with torch._C._DisablePythonDispatcher():
        return torch.ops.aten.bernoulli.p(value.contiguous(), p, generator=generator)


def _wants_gradient(matrix: Any) -> bool:
    return bool(torch.is_grad_enabled() and matrix.requires_grad)


def _eigvalsh(matrix: Any, UPLO: str = "L") -> Any:  # noqa: N803
    """Takes the algorithm for values alone without a gradient, as eager; the tracer always takes that for vectors."""
    return torch.ops.aten._linalg_eigh(matrix, UPLO, _wants_gradient(matrix))[0]


def _svdvals(matrix: Any, *, driver: str | None = None) -> Any:
    return torch.ops.aten._linalg_svd(matrix, False, _wants_gradient(matrix), driver=driver)[1]


def _eigvals(matrix: Any) -> Any:
    if _wants_gradient(matrix):
        return torch.linalg.eig(matrix)[0]
    return torch.ops.aten._linalg_eigvals(matrix)


def _one_hot(classes: Any, num_classes: int = -1) -> Any:
    """Encodes classes as in eager, where an invalid class is an error; the tracer compares instead."""
    if num_classes < 1:
        with torch._C._DisablePythonDispatcher():
            return torch.ops.aten.one_hot.default(classes, num_classes)
    blank = torch.zeros((*classes.shape, num_classes), dtype=torch.long, device=classes.device)
    return blank.scatter(-1, classes.unsqueeze(-1), 1)


_INSTEAD = {
    torch.ops.aten.one_hot.default: _one_hot,
    torch.ops.aten.bernoulli.p: _drawn_by_rows,
    torch.ops.aten.linalg_eigvalsh.default: _eigvalsh,
    torch.ops.aten.linalg_svdvals.default: _svdvals,
    torch.ops.aten.linalg_eigvals.default: _eigvals,
}


@contextmanager
def kernels_kept() -> Iterator[None]:
    """A context in which tracing keeps these ops, and replaces those of `_INSTEAD` by what they are in eager."""
    with _LOCK:
        taken = []
        for packet in (getattr(torch.ops.aten, name) for name in _OPS if hasattr(torch.ops.aten, name)):
            for op in (getattr(packet, overload) for overload in packet.overloads()):
                taken.append((op, {key: op.py_kernels.pop(key) for key in _FORMULAS if key in op.py_kernels}))
                op._dispatch_cache.clear()
        for op, formula in _INSTEAD.items():
            taken.append((op, {key: op.py_kernels.pop(key) for key in _AUTOGRAD if key in op.py_kernels}))
            op.py_kernels.update(dict.fromkeys(_AUTOGRAD, formula))
            op._dispatch_cache.clear()
        try:
            yield
        finally:
            for op, formulas in taken:
                if op in _INSTEAD:
                    for key in _AUTOGRAD:
                        del op.py_kernels[key]
                op.py_kernels.update(formulas)
                op._dispatch_cache.clear()


_DROPOUT = torch.ops.aten.dropout.default
_GROUPED = torch.ops.aten._grouped_mm.default


@contextmanager
def input_passed_on() -> Iterator[None]:
    """A context in which tracing makes no copy where nothing is dropped. Not for two threads at once.

    PyTorch's tracer makes one: it takes memory, and gradients that meet behind it are added in another order.
    """
    formulas = dict(_DROPOUT.py_kernels)
    _DROPOUT.py_kernels.update({key: _passing_on(formula) for key, formula in formulas.items()})
    _DROPOUT._dispatch_cache.clear()
    try:
        yield
    finally:
        _DROPOUT.py_kernels.update(formulas)
        _DROPOUT._dispatch_cache.clear()


@contextmanager
def grouped_products_of_any_dtype() -> Iterator[None]:
    """A context in which tracing takes grouped products, such as those of experts, in every dtype of their kernels:
    PyTorch's description of them refuses all but bfloat16. Not for two threads at once."""
    op_implementations_dict[_GROUPED] = _grouped_product
    try:
        yield
    finally:
        del op_implementations_dict[_GROUPED]


def _grouped_product(
    mode: Any, op: Any, left: Any, right: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    if left.dtype != right.dtype or left.dtype not in (torch.float32, torch.float16) or bias is not None:
        return NotImplemented
    with mode:
        return _create_grouped_mm_output_tensor(left, right, offs, out_dtype)


def _passing_on(formula: Callable[..., Any]) -> Callable[..., Any]:
    def dropout(value: Any, p: float, train: bool) -> Any:
        return formula(value, p, train) if train and p and value.numel() else value

    return dropout
