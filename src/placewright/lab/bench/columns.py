"""A table as columns that are written in several ways: on a terminal, as Markdown and as CSV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from placewright.lab.bench.number_text import format_mean, format_number
from placewright.lab.bench.result_set import ResultSet
from placewright.lab.statistics import Mean

#: What a table's cell holds before it is written; None where there is nothing to say.
Value = str | int | float | Mean | None


Line = TypeVar("Line")


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Line]):
    """name: in CSV files, with its unit. heading, meaning: for readers. sign: "+" where numbers are differences.

    spare: columns with the largest one are left out first where a terminal is too narrow, those with 0 never. show:
    how its numbers are written, unless with three digits.
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
    """A table for one results. notes: sentences that belong under it."""

    name: str
    title: str
    results: ResultSet
    columns: tuple[Column[Line], ...]
    rows: tuple[Line, ...]
    notes: tuple[str, ...] = ()


AnyTable = BenchTable[Any]
