"""A common style for all figures, and figures as files whose bytes depend on the results alone."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from placewright.lab.bench.summaries import Summary
from placewright.support.errors import MissingExtraError

#: Okabe and Ito's colours, which colour-blind readers can distinguish; the pale yellow is left out.
LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
BETTER, WORSE = "#009E73", "#D55E00"
INK, QUIET, GRID = "#222222", "#666666", "#E4E4E4"
_PNG_DPI = 160

_SETTINGS: dict[str, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "placewright",
}


@contextmanager
def style() -> Iterator[None]:
    """Make figures drawn inside this context look alike, whatever the user's own settings. Raises MissingExtraError."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "bench", "drawing figures") from error
    with matplotlib.rc_context(), warnings.catch_warnings():
        # SVG keeps text as text; in PNG a letter that the font lacks is a visible box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def looks(found: Sequence[Summary]) -> dict[str, tuple[str, str]]:
    """Return colour and marker of each solver that ran under several limits, the same in all figures of one report.

    No two of the first 42 share both.
    """
    limits = Counter(summary.setting.solver for summary in found)
    lines = sorted(solver for solver, count in limits.items() if count > 1)
    return {
        solver: (LINE_COLOURS[index % len(LINE_COLOURS)], MARKERS[index % len(MARKERS)])
        for index, solver in enumerate(lines)
    }


def headline(figure: Any, title: str, subtitle: str) -> None:
    """Put title and subtitle at the upper left of a figure, at fixed distances from its edge."""
    height = figure.get_figheight()
    figure.text(0.012, 1 - 0.10 / height, title, size=12, weight="bold", va="top")
    figure.text(0.012, 1 - 0.36 / height, subtitle, size=8.5, color=QUIET, va="top")


def as_files(figure: Any) -> dict[str, bytes]:
    """Return the figure's bytes by suffix: "svg", which keeps text as text, and "png"."""
    return {
        "svg": _saved(figure, "svg", {"Date": None, "Creator": None}),
        "png": _saved(figure, "png", {"Software": None}),
    }


def _saved(figure: Any, kind: str, metadata: dict[str, None]) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, dpi=_PNG_DPI, metadata=metadata, facecolor="white")
    return buffer.getvalue()
