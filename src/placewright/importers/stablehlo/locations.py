"""Scopes, names and source lines from the locations that MLIR prints when it is asked for debug information."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from placewright.importers.source_lines import without_directory

_NAMED = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\((#loc\d*)\))?$')
_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d{1,9}):\d')
_FIRST = re.compile(r"(?:callsite\(|fused[^#]*\[?)\s*(#loc\d*)")
_MAX_STEPS = 32


class Locations:
    """The locations of a module. table: what each "#loc7" stands for."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self.table = table
        self.scope = lru_cache(maxsize=None)(self._scope)
        self.source = lru_cache(maxsize=None)(self._source)

    def label(self, location: str) -> str:
        """The name that an argument has in Python."""
        match = _NAMED.match(self.table.get(location, location))
        return match[1] if match and not match[2] else ""

    def _scope(self, location: str) -> str:
        """Path of named scopes and transformations."""
        match = _NAMED.match(self.table.get(location, location))
        return match[1] if match else ""

    def _source(self, location: str) -> str:
        """ "file.py:line" of the innermost place."""
        for _ in range(_MAX_STEPS):
            location = self.table.get(location, location)
            if match := _FILE.match(location):
                return f"{without_directory(match[1])}:{match[2]}"
            following = _NAMED.match(location) or _FIRST.match(location)
            target = following[following.lastindex or 0] if following else None
            if not target or not target.startswith("#loc"):
                return ""
            location = target
        return ""
