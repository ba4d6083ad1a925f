"""Writes devices.toml, as `read_machine_file` reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from placewright.machine import Device, Link, Machine
from placewright.support.files import write_atomically


def write_machine_file(machine: Machine, path: Path, comment: str) -> None:
    """Writes a machine as a devices.toml: rates are rounded to a thousandth. comment: what its first line says.

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
