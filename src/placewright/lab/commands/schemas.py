"""Types for the JSON output (--json) of the laboratory's commands; JSON Schemas are made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placewright.lab.bench.facts import ResultSetFacts
from placewright.lab.learning.shipped import PolicySummary
from placewright.lab.memory_levels.explain import MapExplanation
from placewright.lab.memory_levels.summary import MapSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The output of `policies --json`.

    Attributes
    ----------
    schema_version
        1.
    policies
        In the order of the list.
    """

    schema_version: int
    policies: tuple[PolicySummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """Tables of benchmark results, and what was written.

    Attributes
    ----------
    schema_version
        1.
    suites
        Each with its tables.
    written
        Paths of the files.
    """

    schema_version: int
    suites: tuple[ResultSetFacts, ...]
    written: tuple[str, ...]


#: By command, with the group's name in front; the product's commands print these types for memory maps.
TYPES: Mapping[str, Any] = {
    "policies": Policies,
    "bench-report": BenchReport,
    "map": MapSummary,
    "show": MapSummary,
    "explain": MapExplanation,
}
