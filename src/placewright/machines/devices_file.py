"""Reader and writer of devices.toml, the description of a machine; docs/machines.md states the format."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

from placewright.machine import Device, LaunchMode, Link, Machine, TransferModel
from placewright.machines.links_table import read_links
from placewright.machines.presets import DevicePreset, default_rates, find_preset
from placewright.machines.serialization import machine_from_json
from placewright.machines.topology import all_to_all, assemble, check_count, default_link, number_devices
from placewright.support.errors import InputError, did_you_mean, parser_message, shown
from placewright.support.fields import Fields, placing, required
from placewright.support.files import read_text, write_atomically

#: The dtypes for which a device may state a peak: those in which the costs of ops are counted, and the default.
PEAK_DTYPES = (
    *("default", "float64", "float32", "tfloat32", "float16", "bfloat16", "float8", "int8"),
    *("int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4", "bool"),
    *("complex32", "complex64", "complex128", "float4_e2m1fn"),
)


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One [[devices]] table: `count` devices of one preset. name: their name, or its beginning if there are several, or
    None."""

    preset: DevicePreset
    count: int
    name: str | None


def read_machine_file(path: Path) -> Machine:
    """Read a machine from a .toml file, or from a .json file as `machine_to_json` writes it.

    Raises InputError naming the file and what is wrong in it.
    """
    text = read_text(path)
    try:
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{shown(path)}: {parser_message(error)}") from error
    with placing(str(path)):
        return machine_from_json(data) if path.suffix == ".json" else _read_machine(Fields(data), path.stem)


def _read_machine(fields: Fields, file_stem: str) -> Machine:
    name = fields.text("name") or file_stem
    transfers = cast(TransferModel | None, fields.choice("transfers", ("blocking", "overlapped")))
    launch = cast(LaunchMode | None, fields.choice("launch", get_args(LaunchMode)))
    tables = required("devices", fields.rows("devices"))
    table = fields.take("links")
    fields.finish()
    entries = [_read_entry(entry, f"devices[{i}]") for i, entry in enumerate(tables)]
    check_count(sum(entry.count for entry in entries), name)
    presets = [entry.preset for entry in entries for _ in range(entry.count)]
    devices = _named(entries, number_devices(presets))
    with placing("links"):
        links = all_to_all(presets, default_link) if table is None else read_links(Fields(table), presets, devices)
    return assemble(name, devices, links, transfers, launch)


def _read_entry(table: object, place: str) -> _Entry:
    with placing(place):
        fields = Fields(table)
        count, name, kind = fields.integer("count"), fields.text("name"), fields.text("kind")
        base = fields.parsed("preset", find_preset, "the name of a preset") or _unknown_device(kind or name)
        device = _overridden(fields, base.device)
        fields.finish()
        if count is not None and count < 1:
            raise InputError(f"count is {count}, which is less than 1")
        if bool(device.peak_flops_per_s) != (device.memory_bandwidth_bytes_per_s is not None):
            raise InputError("peak_flops and bandwidth belong together; give neither if the graph states its op times")
    if kind is None:  # a device that differs from its preset is of a kind of its own, if the file names it
        kind = name if name and device != base.device else base.name
    return _Entry(preset=replace(base, device=replace(device, kind=kind)), count=count or 1, name=name)


def _unknown_device(kind: str | None) -> DevicePreset:
    """Return the base for a table without a preset: the defaults that all presets share, without rates and without a
    link."""
    name = kind or "device"
    return DevicePreset(
        name=name, description="", source="", family="device", device=replace(default_rates(), kind=name), link=""
    )


def _overridden(fields: Fields, device: Device) -> Device:
    given_peaks = fields.numbers("peak_flops") or {}
    for dtype in given_peaks:
        if dtype not in PEAK_DTYPES:
            raise InputError(f"peak_flops has the unknown dtype '{shown(dtype)}'{did_you_mean(dtype, PEAK_DTYPES)}")
    # The default is the rate of every dtype that the table does not list, so it replaces all of the preset's rates.
    peaks = given_peaks if "default" in given_peaks else dict(device.peak_flops_per_s) | given_peaks
    changes = {
        "memory_bytes": fields.size_bytes("memory"),
        "memory_bandwidth_bytes_per_s": fields.bandwidth("bandwidth"),
        "launch_overhead_ns": fields.duration_ns("launch_overhead"),
        "kernel_gap_ns": fields.duration_ns("kernel_gap"),
        "launches_itself": fields.flag("launches_itself"),
        "compute_efficiency": fields.number("compute_efficiency"),
        "bandwidth_efficiency": fields.number("bandwidth_efficiency"),
    }
    given: dict[str, Any] = {key: value for key, value in changes.items() if value is not None}
    return replace(device, peak_flops_per_s=peaks, **given)


def _named(entries: Sequence[_Entry], numbered: Sequence[Device]) -> list[Device]:
    for entry in entries:
        if entry.name is not None and entry.name.isdecimal():
            raise InputError(f"a device is named '{shown(entry.name)}', which reads as its number; add a letter")
    names = [
        entry.name if entry.count == 1 else f"{entry.name}{number}" if entry.name else None
        for entry in entries
        for number in range(entry.count)
    ]
    return [
        device if name is None else replace(device, name=name) for device, name in zip(numbered, names, strict=True)
    ]


def write_machine_file(machine: Machine, path: Path, comment: str) -> None:
    """Write a machine as a devices.toml. Rates are rounded to a thousandth. comment: the text of its first line.

    Raises InputError when the file cannot be written.
    """
    write_atomically(path, ("\n".join(_lines(machine, comment)) + "\n").encode())


def _lines(machine: Machine, comment: str) -> Iterator[str]:
    yield f"# {comment}"
    yield f"name = {json.dumps(machine.name)}"
    yield f'transfers = "{machine.transfer_model}"'
    yield f'launch = "{machine.launch}"'
    for device in machine.devices:
        yield ""
        yield from _device_lines(device)
    if machine.num_devices > 1:
        yield ""
        yield "[links]"
        yield f"bandwidth = {_matrix(machine, _bandwidth)}"
        yield f"latency = {_matrix(machine, lambda link: f'{link.latency_ns}ns')}"


def _device_lines(device: Device) -> Iterator[str]:
    yield "[[devices]]"
    yield f"kind = {json.dumps(device.kind)}"
    yield f"name = {json.dumps(device.name)}"
    if device.memory_bytes is not None:
        yield f'memory = "{device.memory_bytes}B"'
    if device.memory_bandwidth_bytes_per_s is not None:
        yield f'bandwidth = "{device.memory_bandwidth_bytes_per_s / 1e9:.3f}GB/s"'
        rates = ", ".join(f"{dtype} = {rate:.4g}" for dtype, rate in device.peak_flops_per_s.items())
        yield f"peak_flops = {{ {rates} }}"
    yield f'launch_overhead = "{device.launch_overhead_ns}ns"'
    yield f'kernel_gap = "{device.kernel_gap_ns}ns"'
    yield f"launches_itself = {'true' if device.launches_itself else 'false'}"
    yield f"compute_efficiency = {device.compute_efficiency:.3f}"
    yield f"bandwidth_efficiency = {device.bandwidth_efficiency:.3f}"


def _matrix(machine: Machine, text: Callable[[Link], str]) -> str:
    rows = (
        [json.dumps("-" if source == destination else text(link)) for destination, link in enumerate(row)]
        for source, row in enumerate(machine.links)
    )
    return "[" + ", ".join(f"[{', '.join(row)}]" for row in rows) + "]"


def _bandwidth(link: Link) -> str:
    return "inf" if link.bandwidth_bytes_per_s is None else f"{link.bandwidth_bytes_per_s / 1e9:.3f}GB/s"
