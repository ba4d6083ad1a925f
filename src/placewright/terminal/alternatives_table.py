"""What `fit` prints first: ways to run a training step, and what fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import RenderableType

from placewright.analysis.alternatives import (
    Alternatives,
    TrainingSetup,
    about_words,
    answer_words,
    changed,
    changed_words,
    floor_words,
)
from placewright.support.errors import printable
from placewright.support.quantities import format_bytes, format_time_ns, shortened
from placewright.terminal.tables import heading, line, table, width

#: How many rows are shown of what fits, of what fits and trains something else, and of what does not fit.
_MAX_FITTING, _MAX_OTHERS = 12, 4
_COLUMNS = ("<batch", "<dtype", "<optimizer", "<so that less is held", "a sample", "peak")
#: What the peak is made of, where there is no column for devices and so many characters are there for a line.
_PARTS, _ROOM = ("gradients", "states", "activations"), 120


def alternatives_table(found: Alternatives, written: Mapping[str, str] | None = None) -> Iterator[RenderableType]:
    """The parts to print. written: what was written, by path."""
    yield heading(answer_words(found))
    best, other = found.setups[0], changed(found)
    if best.fits:
        yield from _code(best)
        yield line("`model` returns the loss, and `batch` is the tuple of its arguments", "dim")
    if other is not None:
        yield line(changed_words(found, other))
        yield from _code(other)
    yield line(about_words(found))
    yield from (line(floor_words(floor)) for floor in found.floors)
    yield line(found.basis, "dim")
    several = len({setup.device for setup in found.setups}) > 1
    parts = width() >= _ROOM and not several
    columns = [*_COLUMNS, *(_PARTS if parts else ()), *(["<on"] if several else [])]
    rows, left = _rows(found, parts, several, len(columns))
    yield table(columns, rows)
    yield from (line(note, "dim") for note in _notes(found, left))
    if written:
        yield printable(f"wrote {', '.join(f'{what} {path}' for path, what in written.items())}")


def _rows(found: Alternatives, parts: bool, several: bool, columns: int) -> tuple[list[list[str]], int]:
    """The rows, and how many setups have none."""
    same = [setup for setup in found.setups if setup.fits and not setup.changes]
    other = [setup for setup in found.setups if setup.fits and setup.changes]
    rest = [setup for setup in found.setups if not setup.fits]
    rows: list[list[str]] = []
    for label, setups, most in (
        ("", same, _MAX_FITTING),
        ("trains something else", other, _MAX_OTHERS),
        ("does not fit", rest, _MAX_OTHERS),
    ):
        if label and setups:
            rows.append([label, *[""] * (columns - 1)])
        rows += [_row(setup, parts, several) for setup in setups[:most]]
    return rows, len(found.setups) - len(rows) + sum(not any(row[1:]) for row in rows)


def _code(setup: TrainingSetup) -> Iterator[str]:
    return (f"    {printable(text)}" for text in setup.code.splitlines())


def _notes(found: Alternatives, left: int) -> Iterator[str]:
    if left:
        yield f"{left} more; --json and --report have all"
    if any(setup.autocast for setup in found.setups):
        yield "* under torch.autocast: parameters, gradients and states keep their dtype"
    yield from (f"not tried: {sentence}" for sentence in found.left_out)


def _row(setup: TrainingSetup, parts: bool, several: bool) -> list[str]:
    sizes = (setup.gradient_bytes, setup.optimizer_bytes, setup.activation_bytes)
    return [
        setup.batch_words,
        f"{setup.dtype}*" if setup.autocast else setup.dtype,
        f"{setup.optimizer}, LoRA" if "LoRA" in setup.changes else setup.optimizer,
        setup.pass_words,
        format_time_ns(round(setup.time_per_sample_ns)),
        format_bytes(setup.peak_bytes),
        *(map(format_bytes, sizes) if parts else ()),
        *([shortened(setup.device, 12)] if several else []),
    ]
