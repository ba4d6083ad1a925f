"""Learners with a network need PyTorch, and one thread of it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from placewright.support.errors import MissingExtraError


@contextmanager
def torch_on_one_thread(name: str) -> Iterator[None]:
    """While the solver of that name learns: sums in one order, whatever the cores. Raises MissingExtraError without
    PyTorch."""
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("PyTorch", "torch", f"solver '{name}'")
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
