"""ONNX: the plan's model with its nodes in plan order, each with its device."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from placewright.importers.onnx.records import external_weights
from placewright.plans.provenance import recorded_dims
from placewright.plans.record import Plan
from placewright.support.errors import InputError, MissingExtraError, shown
from placewright.verification.order import require_order

#: What one file may hold; protobuf ends at two GiB.
_MAX_BYTES = 2**31 - 2**20


def to_bytes(plan: Plan, model: Path, output: Path) -> bytes:
    """The content of the file. model: the ONNX file that the plan is for, as it is or as ONNX Runtime optimises it.
    output: where the content will be; weights in files of their own are found there, or put into it.

    Raises InputError where the plan is for another model, or its weights cannot go where the output is.
    """
    try:
        import onnx  # noqa: F401, the rest takes it for granted
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", "writing an ONNX model") from error
    from placewright.execution.onnx_runtime.matching import model_of
    from placewright.execution.onnx_runtime.model import read_onnx
    from placewright.execution.onnx_runtime.planned_file import planned_model

    if plan.reruns or plan.moves:
        raise InputError("ops of the plan run again, and an ONNX model has each node once; plan with keep=['*']")
    dims = recorded_dims(plan.configuration)
    source = read_onnx(model, dims)
    with tempfile.TemporaryDirectory() as folder:
        found = model_of(plan, source, dims, Path(folder))
        require_order(plan, found.graph)
        planned = planned_model(plan, found)
        if found.weights == Path(folder):
            _embed_weights(planned, found.weights, model)
        else:
            _check_weights_stay(planned, found.weights, output, model)
    return bytes(planned.SerializeToString())


def _embed_weights(planned: Any, folder: Path, model: Path) -> None:
    """Puts the weights that ONNX Runtime wrote into the file."""
    from onnx.external_data_helper import load_external_data_for_model

    size = sum((folder / file.name).stat().st_size for file in folder.iterdir())
    if size > _MAX_BYTES:
        raise InputError(
            f"the weights of '{shown(model)}' as ONNX Runtime optimises it, {size:,} bytes, are too large for one "
            "file; export a plan that placewright plan made of the file itself"
        )
    load_external_data_for_model(planned, str(folder))


def _check_weights_stay(planned: Any, folder: Path, output: Path, model: Path) -> None:
    """A file names its external weights relative to itself."""
    if external_weights(planned.graph) and output.resolve().parent != folder:
        raise InputError(
            f"'{shown(model)}' has weights in files beside it, so the export must be written into their folder, "
            f"'{shown(folder)}'"
        )
