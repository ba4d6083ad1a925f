"""Reader of the [links] table of devices.toml; docs/machines.md states the format."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.machine import Device, Link
from placewright.machines.presets import DevicePreset
from placewright.machines.topology import (
    LinkMatrix,
    LinkRule,
    Nodes,
    all_to_all,
    default_link,
    named_link,
    ring,
    through_host,
)
from placewright.support.errors import InputError, did_you_mean, shown
from placewright.support.fields import Fields, is_integer, placing, required
from placewright.support.quantities import parse_bandwidth, parse_duration_ns

_TOPOLOGIES = ("all-to-all", "ring", "nodes", "host")


def read_links(fields: Fields, presets: Sequence[DevicePreset], devices: Sequence[Device]) -> LinkMatrix:
    """Read the matrix of links, [source][destination], from a topology or a pair of matrices.

    Raises InputError for anything unknown, malformed or missing.
    """
    topology = fields.choice("topology", _TOPOLOGIES)
    links = _topology(topology, fields, presets, devices) if topology else _matrix(fields, len(devices))
    fields.finish()
    return links


def _topology(topology: str, fields: Fields, presets: Sequence[DevicePreset], devices: Sequence[Device]) -> LinkMatrix:
    if topology == "nodes":
        return _nodes(fields, devices).links(presets)
    rule = _rule(fields, "link")
    if topology == "host":
        return through_host(presets, rule)
    return (ring if topology == "ring" else all_to_all)(presets, rule or default_link)


def _rule(fields: Fields, key: str) -> LinkRule | None:
    """Read a link, given as the name of a preset or as a table of bandwidth and latency."""
    value = fields.take(key)
    if value is None:
        return None
    if isinstance(value, str):
        return named_link(value)
    with placing(key):
        table = Fields(value)
        link = Link(bandwidth_bytes_per_s=table.bandwidth("bandwidth"), latency_ns=table.duration_ns("latency") or 0)
        table.finish()
    return lambda first, second: link


def _nodes(fields: Fields, devices: Sequence[Device]) -> Nodes:
    intra = _rule(fields, "intra") or default_link
    inter = required("inter", _rule(fields, "inter"))
    groups = required("groups", fields.rows("groups"))
    names = [device.name for device in devices]
    node_of: dict[str, int] = {}
    for node, group in enumerate(groups):
        for name in group if isinstance(group, list) else [group]:
            if name not in names:
                raise InputError(f"groups names '{shown(name)}'{did_you_mean(str(name), names)}")
            if name in node_of:
                raise InputError(f"groups names '{shown(name)}' twice")
            node_of[name] = node
    if missing := [name for name in names if name not in node_of]:
        raise InputError(f"device '{shown(missing[0])}' is in none of the groups")
    return Nodes(node_of=tuple(node_of[name] for name in names), intra=intra, inter=inter)


def _matrix(fields: Fields, count: int) -> LinkMatrix:
    """Read links from a bandwidth and a latency, each one value for all pairs or a matrix [source][destination]."""
    bandwidth = _square("bandwidth", required("topology (or bandwidth)", fields.take("bandwidth")), count)
    latency = _square("latency", fields.take("latency"), count)
    return tuple(
        tuple(
            Link()
            if i == j
            else Link(bandwidth_bytes_per_s=_bandwidth(bandwidth[i][j]), latency_ns=_latency(latency[i][j]))
            for j in range(count)
        )
        for i in range(count)
    )


def _square(key: str, value: object, count: int) -> list[list[object]]:
    if not isinstance(value, list):
        return [[value] * count] * count
    if len(value) != count or any(not isinstance(row, list) or len(row) != count for row in value):
        raise InputError(f"{key} must have {count} rows of {count} values, one per device")
    for index, row in enumerate(value):
        if row[index] not in ("inf", "-", 0):
            raise InputError(f'{key}[{index}][{index}] is {shown(repr(row[index]))}; from a device to itself write "-"')
    return value


def _bandwidth(value: object) -> float | None:
    if value == "inf":
        return None
    if not isinstance(value, str):
        raise InputError(f'bandwidth must be like "25GB/s" or "inf", not {shown(repr(value))}')
    return parse_bandwidth(value)


def _latency(value: object) -> int:
    if value is None or (is_integer(value) and value == 0):
        return 0
    if not isinstance(value, str):
        raise InputError(f'latency must be like "5us" or 0, not {shown(repr(value))}')
    return parse_duration_ns(value)
