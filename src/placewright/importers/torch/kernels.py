"""The ops that PyTorch's tracer would compute by formulas in Python, traced as the kernels that they call in a module.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

#: Their formulas give other last bits than their kernels, or take many small ops instead of one.
_OPS = (
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"),
    *("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    *("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
    *("multi_margin_loss", "multilabel_margin_loss_forward", "hardshrink", "softshrink", "matmul"),
)
_FORMULAS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
#: The formulas are those of the whole process.
_LOCK = threading.RLock()


@contextmanager
def kernels_kept() -> Iterator[None]:
    """Tracing in this context keeps these ops as they are."""
    with _LOCK:
        taken = []
        for packet in (getattr(torch.ops.aten, name) for name in _OPS if hasattr(torch.ops.aten, name)):
            for op in (getattr(packet, overload) for overload in packet.overloads()):
                taken.append((op, {key: op.py_kernels.pop(key) for key in _FORMULAS if key in op.py_kernels}))
                op._dispatch_cache.clear()
        try:
            yield
        finally:
            for op, formulas in taken:
                op.py_kernels.update(formulas)
                op._dispatch_cache.clear()
