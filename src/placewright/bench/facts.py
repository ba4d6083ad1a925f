"""The tables of a report as values, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placewright.bench.columns import AnyTable, Value
from placewright.bench.documents import facts
from placewright.bench.report import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """name: of the column in rows. heading, meaning: for readers."""

    name: str
    heading: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """rows: by name of the column; a mean has value, half_width of its 95% confidence interval and num_graphs."""

    name: str
    title: str
    columns: tuple[ColumnFacts, ...]
    rows: tuple[dict[str, Value], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFacts:
    """made_with: what the rows of one suite were made of and with, in words."""

    suite: str
    made_with: dict[str, str]
    tables: tuple[TableFacts, ...]


def study_facts(sections: Sequence[Section]) -> tuple[StudyFacts, ...]:
    """Every study with the tables that were made of it."""
    return tuple(
        StudyFacts(
            suite=section.study.name,
            made_with=dict(facts(section.study)),
            tables=tuple(_table(table) for table in section.tables),
        )
        for section in sections
    )


def _table(table: AnyTable) -> TableFacts:
    return TableFacts(
        name=table.name,
        title=table.title,
        columns=tuple(
            ColumnFacts(name=column.name, heading=column.heading, meaning=column.meaning) for column in table.columns
        ),
        rows=tuple({column.name: column.value(row) for column in table.columns} for row in table.rows),
        notes=table.notes,
    )
