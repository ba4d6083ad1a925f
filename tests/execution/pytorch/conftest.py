"""What tests of plans that PyTorch runs have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from placewright.support.torch_threads import torch_threads


@pytest.fixture
def one_thread_for_an_op() -> Iterator[None]:
    """As many as a device of one core has, since sums in another order have other last bits."""
    with torch_threads(1):
        yield
