"""Chips by name, from chips.toml, and chips that users describe in a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from placewright.lab.memory_levels.chip import Chip, MemoryLevel
from placewright.support.errors import InputError, did_you_mean, parser_message, shown
from placewright.support.fields import Fields, placing, required
from placewright.support.files import read_text


def load_chip(name: str | Path) -> Chip:
    """Return the chip of a preset's name, or of a TOML file.

    Raises InputError that suggests the nearest preset, or names the file and what is wrong in it.
    """
    text = str(name)
    if text.endswith(".toml"):
        return _read_chip(Path(name))
    if text.lower() not in _presets():
        raise InputError(f"unknown chip '{shown(text)}'{did_you_mean(text, _presets())}; or describe it in a chip.toml")
    return _presets()[text.lower()]


def _read_chip(path: Path) -> Chip:
    text = read_text(path)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{shown(path)}': {parser_message(error)}") from error
    with placing(f"'{shown(path)}'"):
        return _chip_of(path.stem, table, _tables())


@cache
def _tables() -> Mapping[str, dict[str, Any]]:
    return tomllib.loads(files("placewright.lab.memory_levels").joinpath("chips.toml").read_text(encoding="utf-8"))


@cache
def _presets() -> Mapping[str, Chip]:
    return {name: _chip_of(name, table, _tables()) for name, table in _tables().items()}


def _chip_of(name: str, table: Mapping[str, Any], presets: Mapping[str, dict[str, Any]]) -> Chip:
    """Return the chip of a table, which may give it another name."""
    fields = Fields(_extended(table, presets))
    levels = required("levels", fields.rows("levels"))
    assumptions = fields.rows("assumptions") or []
    chip = Chip(
        name=fields.text("name") or name,
        levels=tuple(_level_of(level, f"levels[{number}]") for number, level in enumerate(levels)),
        mac_rate=required("mac_rate", fields.number("mac_rate", "of multiply-adds per second, like 4e12")),
        vector_rate=required("vector_rate", fields.number("vector_rate", "of elements per second, like 1e12")),
        op_overhead_ns=fields.duration_ns("op_overhead") or 0,
        float_bytes=fields.integer("float_bytes"),
        description=fields.text("description") or "",
        source=fields.text("source") or "",
        assumptions=tuple(map(str, assumptions)),
    )
    fields.finish()
    return chip


def _extended(table: Mapping[str, Any], presets: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the table with the values of the preset that it extends, recursively, where it has none of its own."""
    own = dict(table)
    base = own.pop("extends", None)
    if base is None:
        return own
    if not isinstance(base, str) or base not in presets:
        raise InputError(f"extends names the unknown chip '{shown(base)}'{did_you_mean(str(base), presets)}")
    return _extended(presets[base], presets) | own


def _level_of(table: object, place: str) -> MemoryLevel:
    with placing(place):
        fields = Fields(table)
        level = MemoryLevel(
            name=required("name", fields.text("name")),
            capacity_bytes=required("capacity", fields.size_bytes("capacity")),
            bandwidth_bytes_per_s=required("bandwidth", fields.bandwidth("bandwidth")),
            latency_ns=fields.duration_ns("latency") or 0,
            is_prefetched=fields.flag("prefetched") or False,
        )
        fields.finish()
        return level
