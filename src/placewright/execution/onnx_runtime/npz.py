"""Inputs of models from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from placewright.support.errors import InputError, shown


def read_feeds(path: Path) -> Mapping[str, Any]:
    """The arrays of an .npz file by name. Raises InputError naming the file where it is none."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, AttributeError) as error:
        raise InputError(f"'{shown(path)}' is no .npz file of arrays: {shown(error)}") from error
