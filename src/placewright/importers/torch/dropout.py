"""Dropout that drops nothing, traced as what it is in a module that runs: its input.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_DROPOUT = torch.ops.aten.dropout.default


@contextmanager
def input_passed_on() -> Iterator[None]:
    """Tracing in this context makes no copy where nothing is dropped. Not for two threads at once.

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


def _passing_on(formula: Callable[..., Any]) -> Callable[..., Any]:
    def dropout(value: Any, p: float, train: bool) -> Any:
        return formula(value, p, train) if train and p and value.numel() else value

    return dropout
