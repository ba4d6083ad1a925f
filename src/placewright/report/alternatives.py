"""Ways to run a training step as a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from string import Template

from placewright.analysis.alternatives import (
    Alternatives,
    TrainingSetup,
    about_words,
    answer_words,
    changed,
    changed_words,
    floor_words,
)
from placewright.report.markup import Markup, cell, element, escaped, joined, number, page, table
from placewright.support.files import write_atomically
from placewright.support.quantities import format_bytes, format_time_ns

#: What a peak is made of: the class of its part of the bar, what it is called, and the field.
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
    """The page as text: the best in a sentence with its code, and all of them as a table with bars of what they
    hold."""
    title = f"{found.model} on {found.machine}"
    heading = [element("h1", title), element("p", "ways to run a training step", class_="facts")]
    return Template(page("alternatives.html")).substitute(
        title=escaped(title),
        style=page("report.css"),
        own_style=page("frontier.css"),
        heading=joined(heading),
        alternatives=_section(found),
    )


def _section(found: Alternatives) -> Markup:
    keys = (element("li", element("span", class_=f"key {kind}"), name) for kind, name, _ in _PARTS)
    limit = element("li", element("span", class_="key limit-key"), "limit")
    best, other = found.setups[0], changed(found)
    left_out = [element("p", f"Not tried: {sentence}", class_="muted note") for sentence in found.left_out]
    return element(
        "section",
        element("h2", "What to write", id="alternatives-heading"),
        element("p", f"{_capital(answer_words(found))}.", class_="answer"),
        *([element("pre", best.code)] if best.fits else []),
        element("p", "model returns the loss, and batch is the tuple of its arguments.", class_="muted note"),
        *([] if other is None else [element("p", f"{_capital(changed_words(found, other))}."), element("pre", other.code)]),
        *(element("p", f"{_capital(floor_words(floor))}.") for floor in found.floors),
        element("p", f"{about_words(found)}. Times are {found.basis}.", class_="muted note"),
        element("ul", *keys, limit, class_="fit-keys"),
        element("div", _table(found), class_="setups"),
        *left_out,
        aria_labelledby="alternatives-heading",
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _table(found: Alternatives) -> Markup:
    several = len({setup.device for setup in found.setups}) > 1
    most = max((max(setup.peak_bytes, setup.limit_bytes) for setup in found.setups), default=1)
    names = ["Batch", "Computed in", "Optimizer", "So that less is held", "Trains", *(["On"] if several else [])]
    headings = [*((name, "") for name in names), ("A sample", "number"), ("Step", "number"), ("Peak", "number")]
    headings += [("Held at the peak", ""), ("What to write", "")]
    return table(headings, (_row(setup, several, most) for setup in found.setups), "Ways to run a training step")


def _row(setup: TrainingSetup, several: bool, most: int) -> Markup:
    dtype = f"{setup.dtype} autocast" if setup.autocast else setup.dtype
    over = "" if setup.fits else f"{format_bytes(setup.peak_bytes - setup.limit_bytes)} over"
    # The peak by what it is made of, and the limit as a line across it.
    line = element("span", class_="limit-line", style=f"left:{setup.limit_bytes / most:.2%}")
    told = ", ".join(f"{name} {format_bytes(getattr(setup, field))}" for _, name, field in _PARTS)
    return element(
        "tr",
        cell(setup.batch_words.replace("x", "×")),
        cell(dtype),
        cell(setup.optimizer),
        cell(setup.pass_words),
        cell(setup.changes or "the same"),
        cell(setup.device) if several else "",
        number(format_time_ns(round(setup.time_per_sample_ns))),
        number(format_time_ns(setup.step_time_ns)),
        number(format_bytes(setup.peak_bytes), element("span", over, class_="over") if over else ""),
        cell(element("div", *_pieces(setup, most), line, class_="held", role="img", title=told, aria_label=told)),
        cell(element("details", element("summary", "code"), element("pre", setup.code))),
        class_=None if setup.fits else "unfit",
    )


def _pieces(setup: TrainingSetup, most: int) -> Iterator[Markup]:
    for kind, _, field in _PARTS:
        if size := getattr(setup, field):
            yield element("span", class_=kind, style=f"width:{size / most:.2%}")
