"""PyTorch's number of threads, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def torch_threads(count: int | None = None) -> Iterator[None]:
    """A context in which PyTorch computes an op on `count` threads; None leaves the number as it is. Afterwards it is
    as before. With one thread sums do not depend on how many cores there are."""
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
