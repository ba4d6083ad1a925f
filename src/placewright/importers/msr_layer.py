"""Layer graphs of "Efficient Algorithms for Device Placement of DNN Graph Operators" (Tarnawski et al. 2020)."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from placewright.graph import Graph
from placewright.importers.builder import GraphBuilder
from placewright.importers.json_graph import decode_object, unpack
from placewright.support.errors import InputError, shown
from placewright.support.quantities import QUANTITY_LIMIT

_NS_PER_MS = 1_000_000
#: Sizes of a file without a single priced transfer need no bandwidth.
_NO_BANDWIDTH = 0.0


def is_layer_graph(data: bytes) -> bool:
    """Whether a JSON file, unpacked, begins as these do: with the machine they were measured on."""
    return re.match(rb'\s*\{\s*"max(SizePerFPGA|FPGAs|CPUs)"\s*:', data) is not None


def parse_msr_layer(data: bytes, name: str) -> Graph:
    """One op per layer, taking its time on the accelerator ("FPGA"); the file's times are read as milliseconds.

    A layer's memory is a parameter of that size: it is all the layer takes, so what it sends takes none. Its output is
    one tensor: the file prices what a layer sends, not each edge, and the size is that price times the file's
    bandwidth, the median of size / price over its edges. Priced as in the file, on a machine whose links have
    metadata["bandwidth_bytes_per_s"] (2 TiB/s in the throughput files, 2 GiB/s in the latency files), the published
    optimal splits come out to the digit.

    attributes: cpu_time_ns, for a CSV of measured times. module: "class_N", the colocation class, or "layer_ID"
    without one. metadata: "colocate", the classes of several layers as `plan` takes them; num_accelerators, num_cpus
    and accelerator_memory_bytes.

    Raises InputError naming the file and the layer or edge.
    """
    document = decode_object(unpack(data, name), name)
    nodes, edges = _records(document, "nodes", name), _records(document, "edges", name)
    position = _positions(nodes, name)
    bandwidth = _bytes_per_ms(edges, name)
    prices, inputs = _dependencies(edges, position, name)
    builder = GraphBuilder(name)
    for index, node in enumerate(nodes):
        sent = _whole(prices.get(index, 0.0) * bandwidth, name)
        builder.add_tensor(f"{_label(node)}:0", size_bytes=sent, memory_bytes=0)
    for index, node in enumerate(nodes):
        _add_layer(builder, node, inputs[index], index)
    return builder.build(_metadata(document, nodes, bandwidth, name))


def _records(document: Mapping[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    records = document.get(key)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise InputError(f"'{name}' is not a layer graph: '{key}' must be a list of objects")
    return records


def _number(record: Mapping[str, Any], key: str, where: str) -> float:
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < QUANTITY_LIMIT:
        raise InputError(f"{where}: '{key}' must be a number that is not negative")
    return float(value)


def _whole(value: float, name: str) -> int:
    if not math.isfinite(value) or value >= QUANTITY_LIMIT:
        raise InputError(f"'{name}' has a time or size that is too large")
    return round(value)


def _label(node: Mapping[str, Any]) -> str:
    return str(node.get("name", f"node{node['id']}"))


def _positions(nodes: Sequence[Mapping[str, Any]], name: str) -> dict[int, int]:
    """Position of each layer in the file, by its id."""
    position: dict[int, int] = {}
    for index, node in enumerate(nodes):
        if type(node.get("id")) is not int:
            raise InputError(f"'{name}': layer number {index} has no whole number as its 'id'")
        if position.setdefault(node["id"], index) != index:
            raise InputError(f"'{name}' has two layers with the id {node['id']}")
    return position


def _bytes_per_ms(edges: Sequence[Mapping[str, Any]], name: str) -> float:
    rates = []
    for index, edge in enumerate(edges):
        size, price = (_number(edge, key, f"'{name}': edge number {index}") for key in ("size", "cost"))
        if size and price:
            rates.append(size / price)
    return median(rates) if rates else _NO_BANDWIDTH


def _dependencies(
    edges: Sequence[Mapping[str, Any]], position: Mapping[int, int], name: str
) -> tuple[dict[int, float], dict[int, list[int]]]:
    """What each layer that is read pays to send its output, in ms, and per layer those it reads."""
    prices: dict[int, float] = {}
    inputs: dict[int, list[int]] = defaultdict(list)
    for index, edge in enumerate(edges):
        ends = []
        for key in ("sourceId", "destId"):
            if type(edge.get(key)) is not int or edge[key] not in position:
                found = shown(str(edge.get(key)))
                raise InputError(f"'{name}': edge number {index} has the {key} {found}, which is not the id of a layer")
            ends.append(position[edge[key]])
        prices[ends[0]] = max(prices.get(ends[0], 0.0), _number(edge, "cost", f"'{name}': edge number {index}"))
        inputs[ends[1]].append(ends[0])
    return prices, inputs


def _add_layer(builder: GraphBuilder, node: Mapping[str, Any], inputs: Sequence[int], output: int) -> None:
    """Adds the op of a layer and, where it holds memory, the parameter that stands for it."""
    label = _label(node)
    where = f"'{builder.name}': layer '{shown(label)}'"
    cpu_ns, own_ns = (
        _whole(_number(node, key, where) * _NS_PER_MS, builder.name) for key in ("cpuLatency", "fpgaLatency")
    )
    if not node.get("supportedOnFpga", 1):
        builder.warn(f"layer '{shown(label)}' runs on a CPU only; its time there is taken for every device")
        own_ns = cpu_ns
    read = list(dict.fromkeys(inputs))
    if held := _whole(_number(node, "size", where), builder.name):
        read.append(builder.add_tensor(f"{label}/memory", size_bytes=held, role="parameter"))
    builder.add_op(
        label,
        "other",
        target="layer",
        inputs=read,
        outputs=[output],
        attributes={"cpu_time_ns": cpu_ns},
        module=_class_of(node),
        phase="backward" if node.get("isBackwardNode") else "forward",
        time_ns=own_ns,
    )


def _class_of(node: Mapping[str, Any]) -> str:
    """Name of its class; a layer without a colour stands alone, under a name that no colour makes."""
    color = node.get("colorClass")
    return f"layer_{node['id']}" if color is None else f"class_{color}"


def _metadata(
    document: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], bytes_per_ms: float, name: str
) -> dict[str, Any]:
    classes: dict[str, int] = defaultdict(int)
    for node in nodes:
        classes[_class_of(node)] += 1
    metadata: dict[str, Any] = {
        "format": "msr-layer",
        "source": name,
        "colocate": [[module] for module, count in classes.items() if count > 1],
    }
    if bytes_per_ms:
        metadata["bandwidth_bytes_per_s"] = round(bytes_per_ms * 1000)
    keys = {"num_accelerators": "maxFPGAs", "num_cpus": "maxCPUs", "accelerator_memory_bytes": "maxSizePerFPGA"}
    for key, own in keys.items():
        if own in document:
            metadata[key] = _whole(_number(document, own, f"'{name}'"), name)
    return metadata
