"""Machines: found by name, read from a file, or detected on this host."""

from placewright.machines.detect import detect_machine
from placewright.machines.presets import DevicePreset, LinkPreset, list_links, list_presets
from placewright.machines.serialization import machine_from_json, machine_to_json
from placewright.machines.specification import load_machine

__all__ = [
    "DevicePreset",
    "LinkPreset",
    "detect_machine",
    "list_links",
    "list_presets",
    "load_machine",
    "machine_from_json",
    "machine_to_json",
]
