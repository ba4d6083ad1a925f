"""What each command prints with --json, as types that JSON Schemas are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placewright.analysis.comparison import Comparison
from placewright.analysis.explain import Explanation
from placewright.analysis.inspection import Inspection
from placewright.analysis.op_explanation import ModuleExplanation, OpExplanation
from placewright.cli.key_descriptions import with_key_descriptions
from placewright.learning.shipped import PolicySummary
from placewright.methods.summaries import MethodSummary
from placewright.support.errors import InputError
from placewright.support.suggestion import did_you_mean
from placewright.terminal.plan_summary import PlanSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleFacts:
    """num_scheduled_ops: ops that are not views. inputs: dtype and shape of each."""

    num_ops: int
    num_scheduled_ops: int
    description: str
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """By name."""

    schema_version: int
    examples: dict[str, ExampleFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solvers:
    schema_version: int
    solvers: tuple[MethodSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    schema_version: int
    policies: tuple[PolicySummary, ...]


#: By command; "explain --op" has a shape of its own.
TYPES: Mapping[str, Any] = {
    "plan": PlanSummary,
    "show": PlanSummary,
    "inspect": Inspection,
    "explain": Explanation,
    "explain-op": OpExplanation | ModuleExplanation,
    "diff": Comparison,
    "examples": Examples,
    "solvers": Solvers,
    "policies": Policies,
}


def schema_of(command: str) -> dict[str, Any]:
    """The JSON Schema (2020-12). Raises InputError for a command without --json."""
    from pydantic import TypeAdapter

    if command not in TYPES:
        raise InputError(f"there is no schema of '{command}'{did_you_mean(command, TYPES)}")
    return with_key_descriptions(TypeAdapter(TYPES[command]).json_schema(mode="serialization"))
