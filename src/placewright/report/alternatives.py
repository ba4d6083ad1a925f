"""Page of the ways to run a training step: the code for each, and the memory it holds at its peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

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
from placewright.report.markup import Markup, element, figure, joined, page, section, still_page
from placewright.support.files import write_atomically
from placewright.support.quantities import counted, format_bytes, format_time_ns

#: Bars have room for this multiple of the limit at most; longer ones are cut, with their size next to them.
_ROOM = 1.6
#: The most setups of a group that are shown without a click.
_MAX_WAYS = 8
#: The parts of a peak: class of the part's bar, its name, and the field.
_PARTS = (
    ("held-parameters", "parameters", "parameter_bytes"),
    ("held-gradients", "gradients", "gradient_bytes"),
    ("held-states", "optimizer's state", "optimizer_bytes"),
    ("held-activations", "activations", "activation_bytes"),
)


def write_alternatives_report(found: Alternatives, path: str | Path) -> None:
    """Write the page: one HTML file that loads nothing over the network.

    Raises InputError when the file cannot be written.
    """
    write_atomically(path, alternatives_html(found).encode("utf-8", "replace"))


def alternatives_html(found: Alternatives) -> str:
    """Render the page as text."""
    title = f"{found.model} on {found.machine}"
    heading = [element("h1", title), element("p", about_words(found), class_="facts")]
    return still_page(
        title,
        "placewright fit",
        joined(heading),
        joined(
            [
                section("answer", "What to write", *_answer(found)),
                section("held", "What each holds at its peak", *_bars(found)),
                section("basis", "What this rests on", *_basis(found)),
            ]
        ),
        style=page("fit.css"),
        keys={"c": "copy the code", "e": "open the code of all, close it"},
    )


def _answer(found: Alternatives) -> Iterator[Markup]:
    best = found.setups[0]
    yield element("div", *_figures(found, best), class_="fit-figures")
    if best.fits:
        yield _code(best)
        yield element("p", "model returns the loss, and batch is the tuple of its arguments.", class_="muted note")
    for setup, words in ((as_given(found), as_given_words), (changed(found), changed_words)):
        if setup is not None:
            yield element("p", f"{_capital(words(found, setup))}.", class_="other")
            yield _code(setup)


def _figures(found: Alternatives, best: TrainingSetup) -> Iterator[Markup]:
    sentence = answer_words(found).partition(": ")[0]
    limit = f"of {format_bytes(best.limit_bytes)} on {best.device}"
    if best.fits:
        yield figure(_capital(sentence), f"{_sample_time(best)} a sample", best.words, kind="figure main")
        yield figure("Its peak", format_bytes(best.peak_bytes), limit)
    else:
        over = format_bytes(best.peak_bytes - best.limit_bytes)
        yield figure(_capital(sentence), f"{over} too much", best.words, kind="figure main bad")
        yield figure("Its peak", format_bytes(best.peak_bytes), limit)
    now = next((each for each in found.setups if _is_unchanged(found, each)), None)
    if now is not None and now is not best:
        missing = now.peak_bytes - now.limit_bytes
        peak = f"{format_bytes(now.peak_bytes)}, {'fits' if now.fits else f'{format_bytes(missing)} too much'}"
        yield figure("As it is", f"{_sample_time(now)} a sample", peak, now.words)


def _is_unchanged(found: Alternatives, setup: TrainingSetup) -> bool:
    is_same = setup.optimizer == found.optimizer and setup.batch == found.samples and not setup.changes
    return is_same and not (setup.autocast or setup.pass_words or setup.accumulation > 1)


def _code(setup: TrainingSetup) -> Markup:
    copy = element("button", "Copy", type="button", class_="copy", title="Copy the code (c)")
    return element("div", element("pre", setup.code), copy, class_="code")


def _bars(found: Alternatives) -> Iterator[Markup]:
    limit = max(setup.limit_bytes for setup in found.setups)
    most = max(1, limit, min(int(limit * _ROOM), max(setup.peak_bytes for setup in found.setups)))
    keys = (element("li", element("span", class_=f"key {kind}"), name) for kind, name, _ in _PARTS)
    limits = " or ".join(sorted({format_bytes(setup.limit_bytes) for setup in found.setups}))
    there = element("li", element("span", class_="key limit-key"), f"what there is: {limits}")
    yield element("ul", *keys, there, class_="fit-keys")
    names = [element("span", name) for name in ("", "", "peak", "a sample")]
    yield element("div", *names, class_="way-head", aria_hidden="true")
    same = [setup for setup in found.setups if setup.fits and not setup.changes]
    other = [setup for setup in found.setups if setup.fits and setup.changes]
    rest = [setup for setup in found.setups if not setup.fits]
    several = len({setup.device for setup in found.setups}) > 1
    groups = (("Fits and trains the same", same), ("Fits, but trains something else", other), ("Does not fit", rest))
    for heading, setups in groups:
        if setups:
            yield _group(heading, setups, several, most)


def _group(heading: str, setups: Sequence[TrainingSetup], several: bool, most: int) -> Markup:
    ways = [_way(setup, several, most) for setup in setups]
    more = ways[_MAX_WAYS:]
    hidden = [element("details", element("summary", f"{len(more)} more"), *more, class_="more")] if more else []
    return joined([element("h3", heading), *ways[:_MAX_WAYS], *hidden])


def _way(setup: TrainingSetup, several: bool, most: int) -> Markup:
    """Draw one setup as a line that opens to its code."""
    told = ", ".join(f"{name} {format_bytes(getattr(setup, field))}" for _, name, field in _PARTS)
    room = element("span", class_="room", style=f"width:{setup.limit_bytes / most:.2%}")
    bar = element("span", room, *_pieces(setup, most), class_="held", role="img", title=told, aria_label=told)
    where = [element("span", f" on {setup.device}", class_="muted")] if several else []
    summary = element(
        "summary",
        element("span", setup.words.replace(" x ", " × "), *where, class_="what"),
        bar,
        element("span", format_bytes(setup.peak_bytes), class_="size"),
        element("span", _sample_time(setup), class_="time"),
    )
    return element("details", summary, _code(setup), class_="way" if setup.fits else "way unfit")


def _pieces(setup: TrainingSetup, most: int) -> Iterator[Markup]:
    for kind, _, field in _PARTS:
        if size := getattr(setup, field):
            yield element("span", class_=kind, style=f"width:{size / most:.2%}")


def _basis(found: Alternatives) -> Iterator[Markup]:
    yield element("p", f"Times are {found.basis}.")
    for floor in found.floors:
        yield element("p", f"{_capital(floor_words(floor))}.")
    if found.left_out:
        yield element("p", f"Not tried: {'; '.join(left_out_words(found))}.", class_="muted")
    yield element("p", f"{counted(len(found.setups), 'way')} in all; a click on one shows its code.", class_="muted")


def _sample_time(setup: TrainingSetup) -> str:
    return format_time_ns(round(setup.time_per_sample_ns))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
