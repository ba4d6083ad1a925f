"""What the pages are put together from: their files, and the figures at their top."""

from __future__ import annotations

import re
from importlib import resources

from placewright.report.markup import Markup, element


def page(name: str) -> str:
    """A file of the folder `page/`."""
    return (resources.files("placewright.report") / "page" / name).read_text("utf-8")


def figure(label: str, value: str, *lines: str, kind: str = "figure", title: str | None = None) -> Markup:
    """A label, a large value, and lines below it."""
    return element(
        "div",
        element("div", label, class_="label"),
        element("div", value, class_="value"),
        *(element("div", _unbroken(line), class_="line") for line in lines if line),
        class_=kind,
        title=title,
    )


def _unbroken(line: str) -> str:
    """The line with its numbers kept together with their units."""
    return re.sub(r"(?<=\d) (?=(?:[num]?s|min|h|[KMGTP]?i?B)\b)", "\u00a0", line)
