"""ONNX: the plan's model with its nodes in plan order, each with its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placewright.execution.steps import in_turn
from placewright.importers.onnx.records import external_weights, values_read
from placewright.plans.provenance import recorded_dims, require_match, with_planned_workspaces
from placewright.plans.record import Plan, ScheduledOp
from placewright.support.errors import InputError, MissingExtraError, shown
from placewright.verification.order import require_order

if TYPE_CHECKING:
    from placewright.export.onnx_nodes import OnnxModel

#: The first version of the format that has devices for nodes.
IR_VERSION = 11
_CONFIGURATION = "placewright"
_ANNOTATION = "layer_ann"


def to_bytes(plan: Plan, model: Path, output: Path) -> bytes:
    """Return the content of the file. model: the ONNX file that the plan is for. output: path of the content; weights
    in external files are found relative to it.

    Raises InputError where the plan is for another model, or its weights would not be found.
    """
    try:
        import onnx  # noqa: F401, the rest takes it for granted
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", "writing an ONNX model") from error
    from placewright.export.onnx_nodes import read_onnx

    if plan.reruns or plan.moves:
        raise InputError("ops of the plan run again, and an ONNX model has each node once; plan with keep=['*']")
    found = read_onnx(model, recorded_dims(plan.configuration))
    found = replace(found, graph=with_planned_workspaces(found.graph, plan))
    require_match(plan, found.graph, source=str(model))
    require_order(plan, found.graph)
    planned = _planned_model(plan, found)
    # A file names its external weights relative to itself.
    folder = model.resolve().parent
    if external_weights(planned.graph) and output.resolve().parent != folder:
        raise InputError(
            f"'{shown(model)}' has weights in files beside it, so the export must be written into their folder, "
            f"'{shown(folder)}'"
        )
    return bytes(planned.SerializeToString())


def _planned_model(plan: Plan, model: OnnxModel) -> Any:
    """Build a ModelProto whose nodes are in plan order; the file's other content is unchanged.

    A node names its device in its metadata as "layer_ann", which ONNX Runtime's `session.layer_assignment_settings`
    refers to, and in its device configuration. A node that is no op of the plan comes before its first reader, on that
    reader's device.
    """
    import onnx

    order = _order(plan, model)
    devices = _devices(plan, model, order)
    planned = onnx.ModelProto()
    planned.CopyFrom(model.model)
    planned.ir_version = max(planned.ir_version, IR_VERSION)
    del planned.graph.node[:]
    del planned.configuration[:]
    names = [device.name for device in plan.machine.devices]
    planned.configuration.add(name=_CONFIGURATION, num_devices=len(names), device=names)
    for index, node in zip(order, model.named_nodes(order), strict=True):
        _place(node, devices[index], names)
        planned.graph.node.append(node)
    return planned


def _order(plan: Plan, model: OnnxModel) -> list[int]:
    """List all nodes in the order of the plan."""
    op_named = {op.name: index for index, op in enumerate(model.graph.ops)}
    ops = (op_named[step.name] for step in in_turn(plan) if isinstance(step, ScheduledOp))
    placed: set[int] = set()
    order = model.with_makers((model.node_of[op] for op in ops if op in model.node_of), placed)
    return order + model.with_makers(range(len(model.nodes)), placed)


def _devices(plan: Plan, model: OnnxModel, order: Sequence[int]) -> dict[int, int]:
    """Find the index of each node's device: that of its op, else of its first reader, else of a node that it reads."""
    device_of = plan.device_of
    devices = {node: device_of[model.graph.ops[op].name] for node, op in model.op_of.items()
               if model.graph.ops[op].name in device_of}  # fmt: skip
    first_reader: dict[str, int] = {}
    for node in reversed(order):
        if node not in devices:
            readers = [first_reader[value] for value in model.nodes[node].output if value in first_reader]
            if readers:
                devices[node] = readers[0]
        if node in devices:
            first_reader.update(dict.fromkeys(values_read(model.nodes[node]), devices[node]))
    for node in order:
        makers = (model.maker.get(value) for value in values_read(model.nodes[node]))
        devices.setdefault(node, next((devices[maker] for maker in makers if maker is not None), 0))
    return devices


def _place(node: Any, device: int, names: Sequence[str]) -> None:
    kept = [entry for entry in node.metadata_props if entry.key != _ANNOTATION]
    del node.metadata_props[:]
    node.metadata_props.extend(kept)
    node.metadata_props.add(key=_ANNOTATION, value=names[device])
    del node.device_configurations[:]
    configuration = node.device_configurations.add(configuration_id=_CONFIGURATION)
    for value in node.output:
        if value:
            configuration.sharding_spec.add(tensor_name=value, device=[device])
