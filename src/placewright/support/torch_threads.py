"""Temporary changes of PyTorch's number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def torch_threads(count: int | None = None) -> Iterator[None]:
    """A context in which PyTorch computes an op on `count` threads; None leaves the number unchanged. Afterwards the
    number is restored. With one thread, sums do not depend on the number of cores."""
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
