"""Standard Task Graph Set files: tasks with running times and precedence, no tensors.

Source: Tobita and Kasahara, "A standard task graph set for fair evaluation of multiprocessor scheduling algorithms"
(Journal of Scheduling, 2002).
"""

from __future__ import annotations

from placewright.graph import Graph
from placewright.importers.builder import GraphBuilder
from placewright.support.errors import InputError


def parse_stg(data: bytes, name: str) -> Graph:
    """A graph with one op per task, the two dummy tasks included; precedence becomes control dependencies; times are
    nanoseconds.

    data: the number n of real tasks, then n + 2 rows of `task time predecessor-count predecessor...`, tasks counted
    from 0; text after a '#' is a comment.

    Raises InputError naming the line.
    """
    rows = _rows(data, name)
    num_tasks = _header(rows, name)
    builder = GraphBuilder(name)
    for expected, (line, row) in enumerate(rows[1:]):
        _check_row(row, expected, num_tasks, f"'{name}', line {line}")
        builder.add_op(f"task_{expected}", "other", target="task", controls=sorted(set(row[3:])), time_ns=row[1])
    return builder.build({"format": "stg", "source": name})


def _rows(data: bytes, name: str) -> list[tuple[int, list[int]]]:
    """The line number and the numbers of every line that holds any."""
    rows = []
    for line, text in enumerate(data.decode("ascii", errors="replace").splitlines(), start=1):
        words = text.split("#", maxsplit=1)[0].split()
        if not all(word.isascii() and word.isdigit() and len(word) < 20 for word in words):
            raise InputError(
                f"'{name}', line {line}: a task graph holds whole numbers only, this line has other things"
            )
        if words:
            rows.append((line, [int(word) for word in words]))
    return rows


def _header(rows: list[tuple[int, list[int]]], name: str) -> int:
    """The number of rows that the file announces, dummies included."""
    if not rows or len(rows[0][1]) != 1:
        raise InputError(f"'{name}' is not a task graph: its first row must be the number of tasks alone")
    num_tasks = rows[0][1][0] + 2
    if len(rows) - 1 != num_tasks:
        raise InputError(f"'{name}' announces {num_tasks} tasks with its two dummies but has {len(rows) - 1} rows")
    return num_tasks


def _check_row(row: list[int], expected: int, num_tasks: int, where: str) -> None:
    if len(row) < 3 or len(row) != 3 + row[2]:
        raise InputError(f"{where}: a row is `task time predecessor-count predecessor...`, and this one is not")
    if row[0] != expected:
        raise InputError(f"{where}: task {expected} was expected here, not {row[0]}")
    for predecessor in row[3:]:
        if predecessor >= num_tasks:
            raise InputError(f"{where}: predecessor {predecessor} does not exist")
