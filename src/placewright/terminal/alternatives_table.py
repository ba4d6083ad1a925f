"""What `fit --alternatives` prints: ways to run a training step, and what fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType

from placewright.analysis.alternatives import (
    Alternatives,
    TrainingSetup,
    about_words,
    answer_words,
    unchanged,
    unchanged_words,
)
from placewright.support.errors import printable
from placewright.support.quantities import format_bytes, format_time_ns, shortened
from placewright.terminal.tables import heading, line, table, width

#: How many rows are shown of what fits, and of what does not.
_MAX_FITTING, _MAX_OTHERS = 12, 4
_COLUMNS = ("<batch", "<dtype", "<optimizer", "reruns", "a sample", "peak")
#: What the peak is made of, where there is no column for devices and so many characters are there for a line.
_PARTS, _ROOM = ("gradients", "states", "activations"), 96


def alternatives_table(
    found: Alternatives, written: Mapping[str, str] | None = None, *, basis: bool = True
) -> Iterator[RenderableType]:
    """The parts to print. written: what was written, by path. basis: whether what the times rest on is said."""
    yield heading(answer_words(found))
    own = unchanged(found)
    if own is not None:
        yield line(unchanged_words(found, own))
    yield line(about_words(found))
    if basis:
        yield line(found.basis, "dim")
    fitting = [setup for setup in found.setups if setup.fits]
    others = [setup for setup in found.setups if not setup.fits]
    several = len({setup.device for setup in found.setups}) > 1
    shown = list(_first_of_each_sort(fitting))[:_MAX_FITTING]
    parts = width() >= _ROOM and not several
    columns = [*_COLUMNS, *(_PARTS if parts else ()), *(["<on"] if several else [])]
    rows = [_row(setup, parts, several) for setup in shown]
    if others:
        label = ["does not fit", *[""] * (len(columns) - 1)]
        rows += [label, *(_row(setup, parts, several) for setup in others[:_MAX_OTHERS])]
    yield table(columns, rows)
    yield from (line(note, "dim") for note in _notes(found, len(fitting) - len(shown), len(others) - _MAX_OTHERS))
    if fitting:
        yield ""
        yield line("the first of them, where `model` returns the loss and `batch` is the tuple of its arguments:")
        yield from _code(fitting[0])
    if own is not None:
        yield line(f"with {own.optimizer} in {own.dtype}:")
        yield from _code(own)
    if written:
        yield printable(f"wrote {', '.join(f'{what} {path}' for path, what in written.items())}")


def _first_of_each_sort(setups: Sequence[TrainingSetup]) -> Iterator[TrainingSetup]:
    """Of those that differ in the number of accumulated passes alone, the first."""
    seen = set()
    for setup in setups:
        sort = (setup.device, setup.dtype, setup.autocast, setup.optimizer, setup.planned, setup.accumulation > 1)
        if sort not in seen:
            seen.add(sort)
            yield setup


def _code(setup: TrainingSetup) -> Iterator[str]:
    return (f"    {printable(text)}" for text in setup.code.splitlines())


def _notes(found: Alternatives, more_fitting: int, more_others: int) -> Iterator[str]:
    more = [
        f"{count} more {'fit' if fits else 'do not'}"
        for count, fits in ((more_fitting, True), (more_others, False))
        if count > 0
    ]
    if more:
        yield f"{' and '.join(more)}; --json and --report have all"
    if any(setup.autocast for setup in found.setups):
        yield "* under torch.autocast: parameters, gradients and states keep their dtype"
    yield from (f"not tried: {sentence}" for sentence in found.left_out)


def _row(setup: TrainingSetup, parts: bool, several: bool) -> list[str]:
    sizes = (setup.gradient_bytes, setup.optimizer_bytes, setup.activation_bytes)
    return [
        setup.batch_words,
        f"{setup.dtype}*" if setup.autocast else setup.dtype,
        setup.optimizer,
        f"{setup.num_reruns:,}" if setup.num_reruns or not setup.planned else "reordered",
        format_time_ns(round(setup.time_per_sample_ns)),
        format_bytes(setup.peak_bytes),
        *(map(format_bytes, sizes) if parts else ()),
        *([shortened(setup.device, 12)] if several else []),
    ]
