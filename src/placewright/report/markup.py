"""Functions that build HTML from arbitrary text: every value is escaped unless it is markup already."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from string import Template
from types import MappingProxyType


class Markup(str):
    """Text that is already HTML and is not escaped again."""

    __slots__ = ()


def escaped(value: object) -> Markup:
    """Escape `value` as HTML text or attribute value; control characters, which HTML does not allow, become U+FFFD."""
    if isinstance(value, Markup):
        return value
    text = "".join(c if c >= " " or c in "\t\n" else "\ufffd" for c in str(value))
    return Markup(html.escape(text, quote=True))


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """Build <tag attributes>content</tag>. Underscores in attribute names become hyphens, a trailing one is dropped
    (class_, data_op); an attribute of None is left out."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{written}>{joined(content)}</{tag}>")


def joined(parts: Iterable[object]) -> Markup:
    """Concatenate the parts."""
    return Markup("".join(escaped(part) for part in parts))


def section(name: str, heading: str, *content: Markup) -> Markup:
    """A section under its heading."""
    title = element("h2", heading, id=f"{name}-heading")
    return element("section", title, *content, aria_labelledby=f"{name}-heading")


def table(headings: Iterable[tuple[str, str]], rows: Iterable[Markup], caption: str) -> Markup:
    """A table with a hidden caption; headings are (text, class of the column)."""
    head = element("tr", *(element("th", text, scope="col", class_=kind or None) for text, kind in headings))
    return element(
        "table",
        element("caption", caption, class_="hidden"),
        element("thead", head),
        element("tbody", *rows),
    )


def cell(*content: object, **attributes: object) -> Markup:
    """A table cell."""
    return element("td", *content, **attributes)


def number(*content: object) -> Markup:
    """A table cell whose content is set flush right with digits of one width."""
    return cell(*content, class_="number")


def page(name: str) -> str:
    """Read a file of the folder `page/`."""
    return (resources.files("placewright.report") / "page" / name).read_text("utf-8")


def in_closure(*names: str) -> str:
    """Join scripts of the folder `page/` that build on each other in one closure."""
    return "(() => {\n'use strict';\n" + "\n".join(map(page, names)) + "\n})();"


def still_page(
    title: str,
    eyebrow: str,
    heading: Markup,
    content: Markup,
    *,
    style: str,
    keys: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Render a page whose charts need no script. style: its own rules. keys: keyboard shortcuts and their effects,
    besides the theme's."""
    return Template(page("still.html")).substitute(
        title=escaped(title),
        style=page("report.css") + style,
        eyebrow=escaped(eyebrow),
        heading=heading,
        content=content,
        keys=joined(joined([element("dt", element("kbd", key)), element("dd", what)]) for key, what in keys.items()),
        script=in_closure("elements.js", "overflow.js", "theme.js", "still.js"),
    )


def scrolled(content: Markup) -> Markup:
    """Wrap content that may be wider than the window, so that it scrolls sideways."""
    return element("div", content, class_="scroll")


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
    """Keep the line's numbers together with their units."""
    return re.sub(r"(?<=\d) (?=(?:[num]?s|min|h|[KMGTP]?i?B)\b)", "\u00a0", line)
