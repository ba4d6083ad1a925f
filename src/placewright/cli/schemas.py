"""The types of each command's --json output, from which JSON Schemas are made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from placewright.analysis.alternatives import Alternatives
from placewright.analysis.comparison import Comparison
from placewright.analysis.explain import Explanation
from placewright.analysis.frontier import Frontier
from placewright.analysis.inspection import Inspection
from placewright.analysis.op_explanation import ModuleExplanation, OpExplanation
from placewright.api.questions import Check
from placewright.cli import extensions
from placewright.execution.comparison import RunComparison
from placewright.execution.profile_summary import ProfileSummary
from placewright.methods.table import MethodSummary
from placewright.support.errors import InputError, did_you_mean
from placewright.terminal.plan_summary import PlanSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleFacts:
    """A graph that ships with the package.

    Attributes
    ----------
    num_ops
        All ops.
    num_scheduled_ops
        Ops that are not views.
    description
        Description of the network.
    inputs
        Dtype and shape of each.
    """

    num_ops: int
    num_scheduled_ops: int
    description: str
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """The output of `examples --json`.

    Attributes
    ----------
    schema_version
        1.
    examples
        By name.
    """

    schema_version: int
    examples: dict[str, ExampleFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solvers:
    """The output of `solvers --json`.

    Attributes
    ----------
    schema_version
        1.
    solvers
        In the order of the list.
    """

    schema_version: int
    solvers: tuple[MethodSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDevice:
    """A device that --devices knows by name.

    Attributes
    ----------
    name
        Its name for --devices.
    memory_bytes, memory_bandwidth_bytes_per_s
        Null for no limit.
    peak_flops_per_s
        By dtype; "default" holds for the others.
    link
        Name of the default link between two of them; null for none.
    """

    name: str
    memory_bytes: int | None
    memory_bandwidth_bytes_per_s: float | None
    peak_flops_per_s: dict[str, float]
    link: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLink:
    """A link that --devices knows by name, in one direction.

    Attributes
    ----------
    name
        Its name for --devices, after a slash.
    bandwidth_bytes_per_s
        Null for infinite.
    latency_ns
        Time of a transfer of no bytes.
    description
        Description of the link.
    """

    name: str
    bandwidth_bytes_per_s: float | None
    latency_ns: int
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDevices:
    """The output of `devices list --json`.

    Attributes
    ----------
    schema_version
        1.
    devices
        All presets.
    links
        All links.
    """

    schema_version: int
    devices: tuple[KnownDevice, ...]
    links: tuple[KnownLink, ...]


#: By command; "explain --op" has a type of its own, and the name of a subcommand follows that of its group.
TYPES: Mapping[str, Any] = {
    "plan": PlanSummary,
    "fit": Frontier | Alternatives,
    "show": PlanSummary,
    "inspect": Inspection,
    "explain": Explanation,
    "explain-op": OpExplanation | ModuleExplanation,
    "diff": Comparison,
    "examples": Examples,
    "solvers": Solvers,
    "check": Check,
    "profile": ProfileSummary,
    "run": RunComparison,
    "devices-list": KnownDevices,
}


def all_types() -> dict[str, Any]:
    """Return all types, those of extensions included; some of these add outputs, for other files, to placewright's own
    commands."""
    types = dict(TYPES)
    for command, kind in extensions.types():
        types[command] = types[command] | kind if command in types else kind
    return types


def schema_of(command: str) -> dict[str, Any]:
    """Build the JSON Schema (2020-12). Raises InputError for a command without --json."""
    from pydantic import TypeAdapter

    types = all_types()
    if command not in types:
        raise InputError(f"there is no schema of '{command}'{did_you_mean(command, types)}")
    return with_key_descriptions(TypeAdapter(types[command]).json_schema(mode="serialization"))


_SECTION = "\n\nAttributes\n----------\n"


def with_key_descriptions(schema: dict[str, Any]) -> dict[str, Any]:
    """Move the descriptions of properties from their objects' descriptions to the properties."""
    for record in (schema, *schema.get("$defs", {}).values()):
        summary, section, attributes = record.get("description", "").partition(_SECTION)
        if section:
            record["description"] = summary
            for key, meaning in _explained(attributes):
                record["properties"][key]["description"] = meaning
    return schema


def _explained(attributes: str) -> Iterator[tuple[str, str]]:
    """Yield each name and its meaning, from lines like "a, b" with indented text below."""
    for names, text in re.findall(r"^(\S.*)\n((?:[ ]+.*(?:\n|\Z))+)", attributes, re.MULTILINE):
        yield from ((name, " ".join(text.split())) for name in names.split(", "))
