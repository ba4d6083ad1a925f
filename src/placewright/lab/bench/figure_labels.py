"""Labels at points so that none covers another label, a point or a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from placewright.lab.bench.figure_style import QUIET
from placewright.support.errors import MissingExtraError

#: Corners of a line, in data coordinates.
Polyline = Sequence[tuple[float, float]]

#: Where a label stands by preference.
_DIRECTIONS = ["east", "west", "north", "south", "northeast", "southeast", "northwest", "southwest"]

#: Pixels from which a line leads from a label back to its point; a shorter one reads as a minus.
_LEADER_FROM = 12


@dataclass(frozen=True)
class Label:
    """Text at a point in data coordinates."""

    x: float
    y: float
    text: str
    colour: str
    weight: str = "normal"


def place_labels(axes: Any, labels: Sequence[Label], lines: Sequence[Polyline] = ()) -> None:
    """Writes the labels, first come first served, each near its point; a thin line leads back from afar.

    Where no place is free, a label stands at its point, whatever it covers there. Raises MissingExtraError.
    """
    try:
        # adjustText, which is better known, pushes labels apart by forces. Of the 51 labels of the zoo's figure of
        # seconds it left 12 pairs on each other and 24 labels on points after 300 rounds, in 15 seconds.
        import textalloc
    except ImportError as error:
        raise MissingExtraError("textalloc", "bench", "drawing figures") from error
    # Thin lines must not move the limits that the places are sought in.
    axes.axis(axes.axis())
    x, y = [label.x for label in labels], [label.y for label in labels]
    *_, leaders = textalloc.allocate(
        axes,
        x,
        y,
        [label.text for label in labels],
        x_scatter=x,
        y_scatter=y,
        x_lines=[[x for x, _ in line] for line in lines],
        y_lines=[[y for _, y in line] for line in lines],
        textsize=8,
        textcolor=[label.colour for label in labels],
        fontweight=[label.weight for label in labels],
        linecolor=QUIET,
        linewidth=0.5,
        direction=_DIRECTIONS,
        nbr_candidates=3000,
        min_distance=0.01,
        max_distance=0.3,
        margin=0.004,
        va="bottom",
        in_layout=False,
        # Grid lines end before the text.
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )
    for leader in filter(None, leaders):
        if max(leader.get_window_extent().size) < _LEADER_FROM:
            leader.remove()
