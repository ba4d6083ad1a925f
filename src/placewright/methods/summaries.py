"""Each method in one line, for the list that users choose from."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.methods.built_in import Kind
from placewright.methods.table import ENTRIES, METHODS, load_entry_points


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSummary:
    """One method of the list.

    Attributes
    ----------
    name
        What `--solver` takes.
    kind
        "default", "baseline" (auto runs it first), "search of auto", "guided", "peer" (to compare with), "learner"
        (learns on the graph it is given) or "own" (registered from outside).
    summary
        What it does.
    needs
        What it needs beside placewright; "" for nothing.
    """

    name: str
    kind: Kind
    summary: str
    needs: str


def method_summaries() -> tuple[list[MethodSummary], list[str]]:
    """All methods, those of installed packages too, and a sentence for each of these that cannot be loaded."""
    complaints = load_entry_points()
    found = [
        MethodSummary(name=name, kind=entry.kind, summary=entry.summary, needs=entry.needs)
        for name, entry in ENTRIES.items()
    ]
    found += [
        MethodSummary(name=name, kind="own", summary=_first_line(method), needs="")
        for name, method in METHODS.items()
        if name not in ENTRIES
    ]
    return found, complaints


def _first_line(method: object) -> str:
    text = (type(method).__doc__ or "").strip()
    return text.splitlines()[0] if text else ""
