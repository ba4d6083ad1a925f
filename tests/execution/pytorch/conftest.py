"""Fixtures that tests of plans run by PyTorch share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from placewright.support.torch_threads import torch_threads


@pytest.fixture
def one_thread_for_an_op() -> Iterator[None]:
    """Run each op with one thread, as a device of one core does: sums in another order differ in their last bits."""
    with torch_threads(1):
        yield
