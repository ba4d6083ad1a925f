"""Which form of an ONNX model a plan is for: as its file has it, or as ONNX Runtime optimises it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from placewright.execution.onnx_runtime.model import OnnxModel
from placewright.plans.provenance import match_graph, with_planned_workspaces
from placewright.plans.record import Plan
from placewright.support.errors import InputError, MissingExtraError, shown


def model_of(plan: Plan, source: OnnxModel, dims: Mapping[str, int], folder: Path) -> OnnxModel:
    """The form of the model that a plan is for, with the workspaces that the plan has. folder: gets the weights of an
    optimised one. Raises InputError where it is for neither."""
    as_it_is = _with_workspaces(source, plan)
    if not match_graph(plan, as_it_is.graph):
        return as_it_is
    try:
        from placewright.execution.onnx_runtime.optimised import optimised
    except ImportError as error:
        purpose = f"a plan that is not for '{shown(source.name)}' as the file has it, perhaps as it is optimised,"
        raise MissingExtraError("onnxruntime", "onnxruntime", purpose) from error
    found = _with_workspaces(optimised(source, dims, folder), plan)
    if differences := match_graph(plan, found.graph):
        raise InputError(
            f"the plan is not for '{shown(source.name)}', neither as the file has it nor as ONNX Runtime optimises it: "
            f"{'; '.join(differences)}"
        )
    return found


def _with_workspaces(model: OnnxModel, plan: Plan) -> OnnxModel:
    return replace(model, graph=with_planned_workspaces(model.graph, plan))
