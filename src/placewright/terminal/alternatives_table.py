"""The output of `fit` for a PyTorch module: ways to run a training step, and which of them fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import RenderableType

from placewright.analysis.alternatives import (
    Alternatives,
    TrainingSetup,
    about_words,
    answer_words,
    as_given,
    as_given_words,
    changed,
    changed_words,
    floor_words,
    left_out_words,
)
from placewright.support.errors import printable
from placewright.support.quantities import format_bytes, format_time_ns, shortened
from placewright.terminal.tables import heading, line, parted_table, width

#: The most rows shown of setups that fit, and of each other part: trains something else, does not fit.
_MAX_FITTING, _MAX_OTHERS = 12, 4
_COLUMNS = ("<batch", "<dtype", "<optimizer", "~so that less is held", "a sample", "peak")
#: Columns for the parts of the peak, shown when there is no column for devices and a line has so many characters.
_PARTS, _ROOM = ("gradients", "states", "activations"), 120


def alternatives_table(found: Alternatives, written: Mapping[str, str] | None = None) -> Iterator[RenderableType]:
    """Yield the parts to print. written: names of the written files, by path."""
    yield heading(answer_words(found))
    best, other = found.setups[0], changed(found)
    if best.fits:
        yield from _code(best)
        yield line("`model` returns the loss, and `batch` is the tuple of its arguments", "dim")
    if (own := as_given(found)) is not None:
        yield line(as_given_words(found, own))
        yield from _code(own)
    if other is not None:
        yield line(changed_words(found, other))
        yield from _code(other)
    yield line(about_words(found))
    yield from (line(floor_words(floor)) for floor in found.floors)
    yield line(found.basis, "dim")
    several = len({setup.device for setup in found.setups}) > 1
    parts = width() >= _ROOM and not several
    columns = [*_COLUMNS, *(_PARTS if parts else ()), *(["<on"] if several else [])]
    shown = list(_parts(found))
    yield from parted_table(
        columns, [(name, [_row(setup, parts, several) for setup in setups]) for name, setups in shown]
    )
    left = len(found.setups) - sum(len(setups) for _, setups in shown)
    yield from (line(note, "dim") for note in _notes(found, left))
    if written:
        yield printable(f"wrote {', '.join(f'{what} {path}' for path, what in written.items())}")


def _parts(found: Alternatives) -> Iterator[tuple[str, list[TrainingSetup]]]:
    """Yield the setups that get a row, in groups with the group's heading."""
    fitting = [setup for setup in found.setups if setup.fits]
    yield "", [setup for setup in fitting if not setup.changes][:_MAX_FITTING]
    yield "fits, but trains something else", [setup for setup in fitting if setup.changes][:_MAX_OTHERS]
    yield "does not fit", [setup for setup in found.setups if not setup.fits][:_MAX_OTHERS]


def _code(setup: TrainingSetup) -> Iterator[str]:
    return (f"    {printable(text)}" for text in setup.code.splitlines())


def _notes(found: Alternatives, left: int) -> Iterator[str]:
    if left:
        yield f"{left} more; --json and --report have all"
    if any(setup.planned for setup in found.setups):
        yield "plans are made anew where they run, and count what kernels take there for themselves"
    if any(setup.autocast for setup in found.setups):
        yield "* under torch.autocast: parameters, gradients and states keep their dtype"
    if found.left_out:
        yield f"not tried: {'; '.join(left_out_words(found))}"


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
