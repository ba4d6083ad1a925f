"""The tables of a report as values, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placewright.lab.bench.columns import AnyTable, Value
from placewright.lab.bench.documents import facts
from placewright.lab.bench.report import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """A column of a table.

    Attributes
    ----------
    name
        Its key in rows.
    heading, meaning
        Text for readers.
    """

    name: str
    heading: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """A table.

    Attributes
    ----------
    name, title
        As files and readers call it.
    columns
        The columns in order.
    rows
        By column name; a mean has value, half_width of its 95% confidence interval and num_graphs.
    notes
        Sentences that belong below it.
    """

    name: str
    title: str
    columns: tuple[ColumnFacts, ...]
    rows: tuple[dict[str, Value], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSetFacts:
    """The results of one suite.

    Attributes
    ----------
    suite
        Its name.
    made_with
        What was measured and how, as texts by heading.
    tables
        The tables that were asked for and can be made.
    """

    suite: str
    made_with: dict[str, str]
    tables: tuple[TableFacts, ...]


def result_facts(sections: Sequence[Section]) -> tuple[ResultSetFacts, ...]:
    """Return every result set with the tables that were made of it."""
    return tuple(
        ResultSetFacts(
            suite=section.results.name,
            made_with=dict(facts(section.results)),
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
