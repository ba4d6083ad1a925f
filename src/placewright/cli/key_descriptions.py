"""What each key of a JSON output means: what the docstring of its record says, put where a schema has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_SECTION = "\n\nAttributes\n----------\n"


def with_key_descriptions(schema: dict[str, Any]) -> dict[str, Any]:
    """The same JSON Schema, whose properties have the descriptions that stood in those of their objects."""
    for record in (schema, *schema.get("$defs", {}).values()):
        summary, section, attributes = record.get("description", "").partition(_SECTION)
        if section:
            record["description"] = summary
            for key, meaning in _explained(attributes):
                record["properties"][key]["description"] = meaning
    return schema


def _explained(attributes: str) -> Iterator[tuple[str, str]]:
    """Each name and its meaning, from lines like "a, b" with indented text below."""
    for names, text in re.findall(r"^(\S.*)\n((?:[ ]+.*(?:\n|\Z))+)", attributes, re.MULTILINE):
        yield from ((name, " ".join(text.split())) for name in names.split(", "))
