"""Changes to a plan's JSON, so that it says what no planner would: values and rows out of place, another order."""

from __future__ import annotations

import copy
import random
from typing import Any

TABLES = ("ops", "transfers", "buffers")
_ODD: tuple[Any, ...] = (0, 1, -1, -2, 2**61, 2.5, "", "x", "\n", "a\x1b[2J", None, True, [], {})
_SETTINGS = ("pins", "forbids", "colocate", "memory_limit", "dims", "measured", "model", "method")
_RULES: tuple[Any, ...] = (
    {"o0": "0"},
    {"*": ["1", "0"]},
    {"": ""},
    {"o1": {}},
    {"[": "gpu9"},
    {"gpu0": "5x"},
    {"n": 3},
    [["o0", "o1"]],
    [["zz"]],
    [[1]],
)


def changed(document: dict[str, Any], source: random.Random) -> dict[str, Any]:
    """Return a copy with one to three changes, odd values last: other changes rely on the types that they find."""
    found = copy.deepcopy(document)
    changes = source.choices(_CHANGES, k=source.choice((1, 1, 2, 3)))
    for change in sorted(changes, key=lambda change: change is _put_odd_value):
        change(found, source)
    return found


def _put_odd_value(document: Any, source: random.Random) -> None:
    """Put an odd value, or in a list a value of the same list, in any place."""
    path = document
    while isinstance(path, dict | list) and path:
        key = source.choice(list(path)) if isinstance(path, dict) else source.randrange(len(path))
        if not isinstance(path[key], dict | list) or not path[key] or source.random() < 0.05:
            path[key] = source.choice([*_ODD, *(path if isinstance(path, list) else [])])
            return
        path = path[key]


def _put_value_of_another_row(document: Any, source: random.Random) -> None:
    """Replace a value by one of the same type from any row of any table."""
    table, column, row = _cell(document, source)
    kind = type(document[table][column][row])
    values = [value for each in TABLES for cells in document[each].values() for value in cells if type(value) is kind]
    document[table][column][row] = source.choice(values)


def _swap(document: Any, source: random.Random) -> None:
    table, column, row = _cell(document, source)
    cells = document[table][column]
    other = source.randrange(len(cells))
    cells[row], cells[other] = cells[other], cells[row]


def _drop_row(document: Any, source: random.Random) -> None:
    table, _, row = _cell(document, source)
    for cells in document[table].values():
        del cells[row]
    _number(document)


def _repeat_row(document: Any, source: random.Random) -> None:
    table, _, row = _cell(document, source)
    for cells in document[table].values():
        cells.insert(row, cells[row])
    _number(document)


def _reorder(document: Any, source: random.Random) -> None:
    """Shuffle the positions of the steps."""
    for table in ("ops", "transfers"):
        document[table]["position"] = [source.random() for _ in document[table]["position"]]
    _number(document)


def _number(document: Any) -> None:
    """Number positions 0, 1, 2 and so on in their present order, sort rows by them, and let no step wait for a later
    one, so that a file is not refused for these alone."""
    steps = sorted((at, table, row) for table in TABLES[:2] for row, at in enumerate(document[table]["position"]))
    for table in TABLES[:2]:
        rows = [row for _, of, row in steps if of == table]
        for column, cells in document[table].items():
            document[table][column] = [cells[row] for row in rows]
        document[table]["position"] = [number for number, (_, of, _) in enumerate(steps) if of == table]
        waits = zip(document[table]["waits_for"], document[table]["position"], strict=True)
        document[table]["waits_for"] = [min(wait, position - 1) if wait >= 0 else wait for wait, position in waits]


def _configure(document: Any, source: random.Random) -> None:
    document["configuration"][source.choice(_SETTINGS)] = source.choice((*_ODD, *_RULES))


def _cell(document: Any, source: random.Random) -> tuple[str, str, int]:
    """Draw a table, column and row."""
    table = source.choice([each for each in TABLES if document[each]["device" if each == "buffers" else "position"]])
    column = source.choice(list(document[table]))
    return table, column, source.randrange(len(document[table][column]))


_CHANGES = (_put_odd_value, _put_value_of_another_row, _swap, _drop_row, _repeat_row, _reorder, _configure)
