"""A table as columns that can be written in several formats: for a terminal, as Markdown and as CSV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from placewright.lab.bench.number_text import format_mean, format_number
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.statistics import Mean

#: The value of a table's cell before formatting; None for an empty cell.
Value = str | int | float | Mean | None


Line = TypeVar("Line")


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Line]):
    """A column of a table. name: in CSV files, with its unit. heading, meaning: for readers. sign: "+" where numbers
    are differences.

    spare: on a narrow terminal, columns with the largest value are left out first, those with 0 never. show: formats
    its numbers; by default with three digits.
    """

    name: str
    heading: str
    meaning: str
    value: Callable[[Line], Value]
    sign: str = ""
    spare: int = 0
    show: Callable[[float | None], str] | None = None

    def text(self, line: Line) -> str:
        value = self.value(line)
        if isinstance(value, str):
            return value
        if isinstance(value, int):
            return f"{value:,}"
        if isinstance(value, Mean):
            return format_mean(value, self.sign)
        return format_number(value, self.sign) if self.show is None else self.show(value)


@dataclass(frozen=True, kw_only=True)
class BenchTable(Generic[Line]):
    """A table for one result set. notes: sentences that belong below it."""

    name: str
    title: str
    results: ResultSet
    columns: tuple[Column[Line], ...]
    rows: tuple[Line, ...]
    notes: tuple[str, ...] = ()


AnyTable = BenchTable[Any]
