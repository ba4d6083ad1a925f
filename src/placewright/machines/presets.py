"""Presets of known devices and links, read from presets.toml, which states the source of every number."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from placewright.machine import Device, Link
from placewright.support.errors import InputError, did_you_mean, shown
from placewright.support.quantities import parse_bandwidth, parse_bytes, parse_duration_ns


@dataclass(frozen=True, kw_only=True)
class LinkPreset:
    """A kind of link, with the rates of one direction between one pair of devices."""

    name: str
    description: str
    source: str
    link: Link


@dataclass(frozen=True, kw_only=True)
class DevicePreset:
    """A kind of device.

    aliases: other names for it. family: "gpu", "cpu" or "device"; device names are made from it.
    driver_names: its names in nvidia-smi. device: its rates, under the preset's name.
    link, nvlink, pcie: names of the links to an equal device, over NVLink, and to a CPU; "" where there is none.
    """

    name: str
    description: str
    source: str
    family: str
    device: Device
    link: str
    nvlink: str = ""
    pcie: str = ""
    aliases: tuple[str, ...] = ()
    driver_names: tuple[str, ...] = ()


def list_presets() -> tuple[DevicePreset, ...]:
    """List every device preset, in the order of presets.toml."""
    return _presets()[0]


def list_links() -> tuple[LinkPreset, ...]:
    """List every link preset, in the order of presets.toml."""
    return _presets()[1]


def find_preset(name: str) -> DevicePreset:
    """Find the device preset of this name or alias, in any case. Raises InputError for an unknown name, which suggests
    the nearest one, or how to describe the device."""
    by_name = {known: preset for preset in list_presets() for known in (preset.name, *preset.aliases)}
    if name.lower() not in by_name:
        nearest = did_you_mean(name, by_name, [preset.name for preset in list_presets()])
        otherwise = " If not, describe" if nearest.endswith("?") else "; describe"
        raise InputError(f"unknown device '{shown(name)}'{nearest}{otherwise} it in a devices.toml (docs/machines.md)")
    return by_name[name.lower()]


def preset_of_driver(name: str, memory_bytes: int) -> DevicePreset | None:
    """Find the preset with this name in the driver; of several, the one with the nearest memory. None if there is
    none."""
    named = [preset for preset in list_presets() if name in preset.driver_names]
    return min(named, key=lambda preset: abs((preset.device.memory_bytes or 0) - memory_bytes), default=None)


def find_link(name: str) -> LinkPreset:
    """Find the link preset of this name, in any case. Raises InputError that suggests the nearest."""
    by_name = {preset.name: preset for preset in list_links()}
    if name.lower() not in by_name:
        raise InputError(f"unknown link '{shown(name)}'{did_you_mean(name, ['nvlink', *by_name])}")
    return by_name[name.lower()]


def default_rates() -> Device:
    """Return a device without rates, with the launch settings and efficiencies that all presets share."""
    return _presets()[2]


@cache
def _presets() -> tuple[tuple[DevicePreset, ...], tuple[LinkPreset, ...], Device]:
    data = tomllib.loads(files("placewright.machines").joinpath("presets.toml").read_text(encoding="utf-8"))
    devices = tuple(_device_preset(name, data["defaults"] | table) for name, table in data["devices"].items())
    links = tuple(_link_preset(name, table) for name, table in data["links"].items())
    return devices, links, _device("device", data["defaults"])


def _device_preset(name: str, table: Mapping[str, Any]) -> DevicePreset:
    return DevicePreset(
        name=name,
        description=table["description"],
        source=table["source"],
        family=table["family"],
        device=_device(name, table),
        link=table["link"],
        nvlink=table.get("nvlink", ""),
        pcie=table.get("pcie", ""),
        aliases=tuple(table.get("aliases", ())),
        driver_names=tuple(table.get("driver_names", ())),
    )


def _device(name: str, table: Mapping[str, Any]) -> Device:
    return Device(
        name=name,
        kind=name,
        memory_bytes=parse_bytes(table["memory"]) if "memory" in table else None,
        peak_flops_per_s=table.get("peak_flops", {}),
        memory_bandwidth_bytes_per_s=parse_bandwidth(table["bandwidth"]) if "bandwidth" in table else None,
        launch_overhead_ns=parse_duration_ns(table["launch_overhead"]),
        kernel_gap_ns=parse_duration_ns(table["kernel_gap"]),
        launches_itself=table["launches_itself"],
        compute_efficiency=table["compute_efficiency"],
        bandwidth_efficiency=table["bandwidth_efficiency"],
    )


def _link_preset(name: str, table: Mapping[str, Any]) -> LinkPreset:
    link = Link(
        bandwidth_bytes_per_s=parse_bandwidth(table["bandwidth"]) if "bandwidth" in table else None,
        latency_ns=parse_duration_ns(table.get("latency", "0ns")),
    )
    return LinkPreset(name=name, description=table["description"], source=table["source"], link=link)
