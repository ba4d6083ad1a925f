"""Inputs of models: from files, or random where a model is run without any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from placewright.execution.onnx_runtime.model import OnnxModel
from placewright.support.errors import InputError, shown


def read_feeds(path: Path) -> Mapping[str, Any]:
    """The arrays of an .npz file by name. Raises InputError naming the file where it is none."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, AttributeError) as error:
        raise InputError(f"'{shown(path)}' is no .npz file of arrays: {shown(error)}") from error


def random_feeds(model: OnnxModel, seed: int = 0) -> dict[str, Any]:
    """An array for each input, always the same: normally distributed numbers, and for integers and truth values 0 and
    1, which are indices and masks in most models. Raises InputError for an input that is no such tensor."""
    generator = np.random.default_rng(seed)
    feeds = {}
    for name in model.inputs:
        tensor = model.graph.tensors[model.tensor_of[name]]
        try:
            dtype = np.dtype(tensor.dtype)
        except TypeError:
            what = tensor.dtype or "no tensor"
            raise InputError(
                f"the input '{shown(name)}' of '{shown(model.name)}' is {what}, so it must be given"
            ) from None
        if dtype.kind not in "fiub":
            raise InputError(f"the input '{shown(name)}' of '{shown(model.name)}' is {dtype}, so it must be given")
        shape = tensor.shape or ()
        feeds[name] = (
            generator.standard_normal(shape) if dtype.kind == "f" else generator.integers(0, 2, shape)
        ).astype(dtype)
    return feeds
