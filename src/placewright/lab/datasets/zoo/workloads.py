"""The training steps that learned placers are measured on: whole graphs, with a variable for every parameter."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from placewright.graph import Graph, Op
from placewright.importers.torch.module import captured_graph
from placewright.lab.datasets.zoo.capture import OPTIMIZER, built
from placewright.lab.datasets.zoo.catalogue import networks_of
from placewright.lab.datasets.zoo.network import Network
from placewright.support.errors import InputError, did_you_mean, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = Path(__file__).with_name("workloads.toml")


@cache
def workloads() -> Mapping[str, Network]:
    """Return the workloads by name, in the order of the table."""
    return {network.name: network for network in networks_of(PATH)}


def capture_workload(name: str) -> Graph:
    """Capture one training step with Adam: every op with its layer, line and shapes, and a variable for every
    parameter.

    Raises InputError for an unknown name or a network that PyTorch cannot trace, and MissingExtraError without its
    library.
    """
    network = workloads().get(name)
    if network is None:
        known = ", ".join(workloads())
        raise InputError(f"there is no workload '{shown(name)}'{did_you_mean(name, workloads())} (known: {known})")
    model, arguments = built(network)
    graph = captured_graph(model, arguments, {}, training=True, optimizer=OPTIMIZER, name=name, random_in_order=False)
    return with_variables(graph)


def with_variables(graph: Graph) -> Graph:
    """Return the graph with an op for each parameter that is written, as in TensorFlow 1: the parameter and its
    optimizer are on the device of that op, and others read it over a link. Without such ops, all ops that read a
    parameter share its device, so a recurrent layer could not be divided by time."""
    producer = graph.producer_of
    written = [t for t in sorted(_overwritten(graph)) if producer[t] < 0]
    variables = [Op(name=f"variable:{graph.tensors[t].name}", kind="input", outputs=(t,), time_ns=0) for t in written]
    shift = len(variables)
    ops = [replace(op, controls=tuple(control + shift for control in op.controls)) for op in graph.ops]
    tensors = list(graph.tensors)
    for tensor in written:
        tensors[tensor] = replace(tensors[tensor], role="activation", is_output=True)
    return replace(graph, ops=(*variables, *ops), tensors=tuple(tensors))


def _overwritten(graph: Graph) -> set[int]:
    """Return parameters that ops other than their optimizer read, and that some op overwrites in place."""
    read = {graph.base_of[t] for op in graph.ops if op.phase != "optimizer" for t in op.inputs}
    in_place = {graph.base_of[t] for op in graph.ops if op.kind != "view" for t in op.outputs}
    return read & {t for t in in_place if graph.tensors[t].role == "parameter"}
