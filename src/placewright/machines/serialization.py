"""Exact JSON form of a machine: plans embed it, and `machine_from_json(machine_to_json(m)) == m`."""

from __future__ import annotations

from typing import Any, cast

from placewright.machine import Device, LaunchMode, Link, Machine, TransferModel
from placewright.support.errors import InputError, shown
from placewright.support.fields import Fields, is_integer, is_number, placing, required
from placewright.support.records import document_of


def machine_to_json(machine: Machine) -> dict[str, Any]:
    """Convert to JSON values; links become two matrices [source][destination], an infinite bandwidth becomes null."""
    return {
        "name": machine.name,
        "transfer_model": machine.transfer_model,
        "launch": machine.launch,
        "devices": [document_of(device, {}) for device in machine.devices],
        "link_bandwidth_bytes_per_s": [[link.bandwidth_bytes_per_s for link in row] for row in machine.links],
        "link_latency_ns": [[link.latency_ns for link in row] for row in machine.links],
    }


def machine_from_json(data: object) -> Machine:
    """Rebuild the machine from the output of `machine_to_json`. Raises InputError for missing, unknown or impossible
    values."""
    fields = Fields(data)
    name = required("name", fields.text("name"))
    transfer_model = required("transfer_model", fields.text("transfer_model"))
    launch = required("launch", fields.text("launch"))
    tables = required("devices", fields.rows("devices"))
    bandwidths = _matrix(fields, "link_bandwidth_bytes_per_s", len(tables))
    latencies = _matrix(fields, "link_latency_ns", len(tables))
    fields.finish()
    return Machine(
        name=name,
        devices=tuple(_device_from_json(table, f"devices[{i}]") for i, table in enumerate(tables)),
        links=tuple(
            tuple(_link(*pair) for pair in zip(*rows, strict=True)) for rows in zip(bandwidths, latencies, strict=True)
        ),
        transfer_model=cast(TransferModel, transfer_model),
        launch=cast(LaunchMode, launch),
    )


def _device_from_json(table: object, place: str) -> Device:
    with placing(place):
        fields = Fields(table)
        device = Device(
            name=required("name", fields.text("name")),
            kind=required("kind", fields.text("kind")),
            memory_bytes=fields.integer("memory_bytes"),
            peak_flops_per_s=required("peak_flops_per_s", fields.numbers("peak_flops_per_s")),
            memory_bandwidth_bytes_per_s=fields.number("memory_bandwidth_bytes_per_s"),
            launch_overhead_ns=required("launch_overhead_ns", fields.integer("launch_overhead_ns")),
            kernel_gap_ns=required("kernel_gap_ns", fields.integer("kernel_gap_ns")),
            launches_itself=required("launches_itself", fields.flag("launches_itself")),
            compute_efficiency=required("compute_efficiency", fields.number("compute_efficiency")),
            bandwidth_efficiency=required("bandwidth_efficiency", fields.number("bandwidth_efficiency")),
        )
        fields.finish()
    return device


def _matrix(fields: Fields, key: str, count: int) -> list[list[Any]]:
    rows = required(key, fields.rows(key))
    if len(rows) != count or any(not isinstance(row, list) or len(row) != count for row in rows):
        raise InputError(f"{key} must have {count} rows of {count} values, one per device")
    return rows


def _link(bandwidth: object, latency: object) -> Link:
    if bandwidth is not None and not is_number(bandwidth):
        raise InputError(f"a link has the bandwidth {shown(repr(bandwidth))}, which is not a number")
    if not is_integer(latency):
        raise InputError(f"a link has the latency {shown(repr(latency))}, which is not a whole number of nanoseconds")
    return Link(bandwidth_bytes_per_s=cast("float | None", bandwidth), latency_ns=cast(int, latency))
