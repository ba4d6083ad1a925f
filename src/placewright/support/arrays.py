"""Cheaper replacements for numpy functions."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)


def sorted_unique(values: NDArray[Number]) -> NDArray[Number]:
    """Return the distinct values of [n], sorted. np.unique imports numpy.ma, which takes 20 ms at the start of every
    command."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    unique: NDArray[Number] = ordered[is_first]
    return unique
