"""One network of the zoo as a graph to schedule: captured, costed for one stated device, and stripped."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from placewright.graph import Graph
from placewright.importers.optimizers import Optimizer
from placewright.importers.torch.module import captured_graph
from placewright.lab.datasets.pack import timed, with_launches
from placewright.lab.datasets.zoo.network import Mode, Network
from placewright.machines import load_machine

if TYPE_CHECKING:
    from torch import nn

#: The default device, whose roofline gives every op its time: a GPU of the paper's day.
DEVICE = "p100"
OPTIMIZER: Optimizer = "adam"


def capture_network(network: Network, mode: Mode, device: str = DEVICE, *, launches: bool = True) -> Graph:
    """Return the graph "NETWORK-MODE": one inference, or one training step with Adam, every op of it, costed for the
    device of that name.

    launches: an op's time includes its launch, as the papers' machine needs it; otherwise it is the time on the device
    alone.

    Raises InputError when PyTorch cannot trace the network; errors of the network's own `build` pass through.
    """
    model, arguments = built(network)
    captured = captured_graph(
        model,
        arguments,
        {},
        training=mode == "training",
        optimizer=OPTIMIZER,
        name=f"{network.name}-{mode}",
        random_in_order=False,
    )
    metadata = {
        "network": network.name,
        "family": network.family,
        "library": network.library,
        "mode": mode,
        "device": device,
    }
    machine = load_machine(device)
    return stripped(timed(captured, with_launches(machine) if launches else machine), metadata)


def built(network: Network) -> tuple[nn.Module, tuple[Any, ...]]:
    """Return module and arguments, with shapes and dtypes but without values where the library does not need them."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with nullcontext() if network.reads_values else FakeTensorMode(allow_non_fake_inputs=True):
        return network.build()


def stripped(graph: Graph, metadata: Mapping[str, Any]) -> Graph:
    """Return the graph with no more than scheduling needs, under short names: an op is its kind and number, "matmul12";
    a tensor its number, "t12". Targets, shapes, dtypes, attributes, modules and source lines are removed."""
    return Graph(
        name=graph.name,
        tensors=tuple(replace(each, name=f"t{i}", shape=None, dtype=None) for i, each in enumerate(graph.tensors)),
        ops=tuple(
            replace(op, name=f"{op.kind}{index}", target="", attributes={}, module="", source="")
            for index, op in enumerate(graph.ops)
        ),
        metadata=metadata,
    )
