"""The suite that a file defines: of maps where it names a chip, else of placements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from placewright.lab.bench.map_suite import MapSuite, map_suite_of
from placewright.lab.bench.suite import Suite, read_suite, suite_table


def find_suite(path: str | Path, devices: str | None = None, dims: Mapping[str, int] | None = None) -> Suite | MapSuite:
    """Read a suite as `read_suite` does, or one of maps. Raises InputError naming the file and what is wrong with
    it."""
    path = Path(path)
    if path.suffix == ".toml":
        table = suite_table(path, devices, dims)
        if "chip" in table:
            return map_suite_of(table, path)
    return read_suite(path, devices, dims)
