"""`placewright devices`: the machines that have names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placewright.cli.options import Json
from placewright.cli.printing import print_json, print_parts
from placewright.support.errors import InputError
from placewright.support.files import write_atomically
from placewright.support.quantities import counted, format_bytes, format_time_ns

if TYPE_CHECKING:
    from placewright.machine import Device, Machine

app = typer.Typer(help="Known devices, one machine in detail, or this one.")

_Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="JSON", help="Also write the machine to a file that --devices reads."),
]


@app.command("list")
def list_devices(as_json: Json = False) -> int:
    """Known devices and links by name."""
    from placewright.machines import list_links, list_presets
    from placewright.terminal.tables import table

    if as_json:
        print_json(_facts())
        return 0
    devices = [[preset.name, *_rates(preset.device), preset.link or "-"] for preset in list_presets()]
    links = [
        [preset.name, _bandwidth(preset.link.bandwidth_bytes_per_s), preset.description] for preset in list_links()
    ]
    print_parts(table(["<device", "memory", "bandwidth", "fp32", "bf16", "best", "<link"], devices), "")
    print_parts(table(["<link", "bandwidth", "<one direction"], links))
    return 0


def _facts() -> dict[str, Any]:
    """Return the facts that `schemas.KnownDevices` describes."""
    from placewright.machines import list_links, list_presets

    devices = [
        {
            "name": preset.name,
            "memory_bytes": preset.device.memory_bytes,
            "memory_bandwidth_bytes_per_s": preset.device.memory_bandwidth_bytes_per_s,
            "peak_flops_per_s": dict(preset.device.peak_flops_per_s),
            "link": preset.link,
        }
        for preset in list_presets()
    ]
    links = [
        {
            "name": preset.name,
            "bandwidth_bytes_per_s": preset.link.bandwidth_bytes_per_s,
            "latency_ns": preset.link.latency_ns,
            "description": preset.description,
        }
        for preset in list_links()
    ]
    return {"schema_version": 1, "devices": devices, "links": links}


@app.command("show")
def show(
    machine: Annotated[str, typer.Argument(metavar="MACHINE", help="2xh100, cpu+2xk80, a devices.toml.")],
    output: _Output = None,
) -> int:
    """One machine: its devices and links."""
    from placewright.machines import load_machine

    _show(load_machine(machine), output, machine)
    return 0


@app.command("detect")
def detect(output: _Output = None) -> int:
    """The machine this runs on."""
    from placewright.machines import detect_machine

    _show(detect_machine(), output)
    return 0


def _show(machine: Machine, output: Path | None, source: str | None = None) -> None:
    from placewright.analysis.basis import launch_words
    from placewright.support.errors import printable
    from placewright.terminal.tables import heading, table

    if output is not None:
        _write(machine, output, source)
    devices = [[device.name, device.kind, *_rates(device)] for device in machine.devices]
    launched = launch_words(machine)
    what = f"{counted(machine.num_devices, 'device')}, {machine.transfer_model} transfers{launched and f', {launched}'}"
    print_parts(
        heading(f"{machine.name}: {what}"),
        table(["<device", "<kind", "memory", "bandwidth", "fp32", "bf16", "best"], devices),
        "",
        table(["<link", "bandwidth", "latency"], _link_rows(machine)) if machine.num_devices > 1 else None,
        printable(f"wrote {output}") if output is not None else None,
    )


def _write(machine: Machine, output: Path, source: str | None) -> None:
    import json

    from placewright.cli.outputs import check_outputs
    from placewright.machines import machine_to_json

    check_outputs({"--output": output}, inputs=[source])
    if output.suffix != ".json":
        raise InputError(f"cannot write '{output}': the name of a machine file must end in .json")
    write_atomically(output, (json.dumps(machine_to_json(machine), indent=1) + "\n").encode())


def _link_rows(machine: Machine) -> list[list[str]]:
    """Build one row per sort of link: its pairs of devices, bandwidth and latency."""

    pairs: dict[tuple[float | None, int], list[str]] = {}
    for source, row in enumerate(machine.links):
        for destination, link in enumerate(row):
            if source != destination:
                names = f"{machine.devices[source].name} -> {machine.devices[destination].name}"
                pairs.setdefault((link.bandwidth_bytes_per_s, link.latency_ns), []).append(names)
    return [
        [
            names[0] if len(names) == 1 else f"{names[0]} and {counted(len(names) - 1, 'other direction')}",
            _bandwidth(bandwidth),
            format_time_ns(latency),
        ]
        for (bandwidth, latency), names in pairs.items()
    ]


def _rates(device: Device) -> list[str]:
    """List memory, bandwidth, rates in float32 and bfloat16 and the highest rate of any dtype."""
    from placewright.support.quantities import format_count

    peaks = device.peak_flops_per_s
    single = peaks.get("float32", peaks.get("default"))
    return [
        "no limit" if device.memory_bytes is None else format_bytes(device.memory_bytes),
        "-" if device.memory_bandwidth_bytes_per_s is None else _bandwidth(device.memory_bandwidth_bytes_per_s),
        "-" if single is None else format_count(round(single), "FLOP/s"),
        format_count(round(peaks["bfloat16"]), "FLOP/s") if "bfloat16" in peaks else "-",
        format_count(round(max(peaks.values())), "FLOP/s") if peaks else "-",
    ]


def _bandwidth(bytes_per_s: float | None) -> str:
    """Format a bandwidth in powers of 1000, as is customary."""
    from placewright.support.quantities import format_count

    return "infinite" if bytes_per_s is None else format_count(round(bytes_per_s), "B/s")
