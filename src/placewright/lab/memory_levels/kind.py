"""Map files as a kind of file that `show`, `explain`, `check` and `export` read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from placewright.api.questions import Check
from placewright.cli.extensions import FileKind, Found
from placewright.lab.memory_levels.export import csv_of
from placewright.lab.memory_levels.file import KIND, read_map
from placewright.lab.memory_levels.maps import Tables, explanation, judgement
from placewright.lab.memory_levels.summary import map_summary
from placewright.lab.memory_levels.tables import map_tables


def _show(path: Path) -> Found:
    found = read_map(path)
    return map_summary(found), map_tables(found)


def _check(path: Path, model: str, dims: Mapping[str, int]) -> tuple[Check, Tables]:
    return judgement(read_map(path), model, dims, name=f"'{path}'")


MAP_FILES = FileKind(
    name=KIND,
    show=_show,
    explain=lambda path: explanation(read_map(path)),
    check=_check,
    targets={"csv": lambda path: csv_of(read_map(path))},
)
