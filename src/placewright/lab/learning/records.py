"""The records of a training for people to read: lines of JSON, and the same for TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from placewright.support.errors import InputError, shown
from placewright.support.files import read_bytes, write_atomically

_NAME = "metrics.jsonl"


class Records:
    """Records of a training. Opening them at a step removes lines of later steps, which a resumed training writes
    again. lines: all of them, in order."""

    def __init__(self, out: Path, step: int) -> None:
        self._path = path = out / _NAME
        self.lines = [line for line in _lines(path) if line["step"] <= step]
        write_atomically(path, b"".join(json.dumps(line).encode() + b"\n" for line in self.lines))
        try:
            self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115, closed in __exit__
        except OSError as error:
            raise InputError(f"cannot write '{shown(path)}': {error.strerror}") from error
        self._board = _board(out, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
        self._board.close()

    def add(self, step: int, values: Mapping[str, float]) -> None:
        try:
            self._file.write(json.dumps({"step": step, **values}) + "\n")
            self._file.flush()
        except OSError as error:
            with suppress(OSError):  # closing writes what is left, which fails for the reason being reported
                self._file.close()
            raise InputError(f"cannot write '{shown(self._path)}': {error.strerror}") from error
        self.lines.append({"step": step, **values})
        for name, value in values.items():
            self._board.add_scalar(name, value, step)


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines: a kill may have cut the last."""
    if not path.exists():
        return []
    lines = []
    for line in read_bytes(path).splitlines():
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not (isinstance(values, dict) and isinstance(values.get("step"), int)):
            break
        lines.append(values)
    return lines


def _board(out: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError("training writes records for TensorBoard: pip install 'path/to/placewright[train]'") from error
    folder = out / "tensorboard"
    try:
        return SummaryWriter(str(folder), purge_step=step + 1)
    except OSError as error:
        raise InputError(f"cannot write to '{shown(folder)}': {error.strerror}") from error
