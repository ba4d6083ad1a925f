"""Labels at points so that none covers another label, a point or a line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from placewright.lab.bench.figure_style import QUIET

#: Left, bottom, right, top in pixels.
Box = tuple[float, float, float, float]
#: Where a label may stand, and how far that is from its point.
Spot = tuple[Box, float]
#: Corners of a line, in data coordinates.
Polyline = Sequence[tuple[float, float]]

_MARKER_RADIUS = 5.0
_LINE_RADIUS = 1.5
_MARGIN = 1.5
#: Distances from the point in points; beyond the first ones a thin line leads back to it.
_DISTANCES = (6.0, 10.0, 16.0, 24.0, 34.0, 46.0, 60.0, 76.0, 94.0)
_LEADER_FROM = 16.0
#: Where a label stands by preference, and by how much of its own size it is shifted there: at the right, at the left,
#: above, below, then at the corners.
_SPOTS = (
    *((dx, 0.0, 0.0, shift) for dx in (1, -1) for shift in (0.0, 0.25, -0.25, 0.5, -0.5)),
    *((0.0, dy, shift, 0.0) for dy in (1, -1) for shift in (0.0, 0.3, -0.3)),
    *((dx, dy, 0.0, 0.0) for dx in (0.7, -0.7) for dy in (0.7, -0.7)),
)


@dataclass(frozen=True)
class Label:
    """Text at a point in data coordinates."""

    x: float
    y: float
    text: str
    colour: str
    weight: str = "normal"


def place_labels(axes: Any, labels: Sequence[Label], lines: Sequence[Polyline] = (), size: float = 8.0) -> None:
    """Writes the labels, first come first served, each at the nearest place around its point that is free of others.

    Best are places that need no line back to the point and are nearest to it. Where none is free, a label may cover
    lines; where even that does not help, it is left out, because of two labels on one spot neither can be read.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(axes.figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    inside = axes.get_window_extent(renderer)
    limits = (inside.x0, inside.y0, axes.figure.bbox.x1, inside.y1)
    scale = axes.figure.dpi / 72
    points = [(float(x), float(y)) for x, y in axes.transData.transform([(label.x, label.y) for label in labels])]
    taken = [_around(x, y, _MARKER_RADIUS * scale) for x, y in points]
    along = [box for line in lines for box in _along(axes.transData.transform(list(line)), _LINE_RADIUS * scale)]
    for label, point in zip(labels, points, strict=True):
        extent = _extent(axes, label, size, renderer)
        spots = (spot for spot in _candidates(*point, extent, scale) if _within(spot[0], limits))
        free = [spot for spot in spots if not _hits(spot[0], taken)]
        clear = [spot for spot in free if not _hits(spot[0], along)]
        own = (spot for spot in clear if spot[1] < _LEADER_FROM and _nearest(spot[0], points) == point)
        chosen = next(own, None) or next(iter(clear or free), None)
        if chosen is not None:
            taken.append(chosen[0])
            _write(axes, label, chosen, size, scale, point)


def _extent(axes: Any, label: Label, size: float, renderer: Any) -> tuple[float, float]:
    """Width and height of the written label in pixels."""
    written = axes.annotate(label.text, (label.x, label.y), weight=label.weight, size=size, annotation_clip=False)
    extent = written.get_window_extent(renderer)
    written.remove()
    return float(extent.width), float(extent.height)


def _write(axes: Any, label: Label, spot: Spot, size: float, scale: float, point: tuple[float, float]) -> None:
    box, distance = spot
    centre = ((box[0] + box[2]) / 2 - point[0], (box[1] + box[3]) / 2 - point[1])
    leader = {"arrowstyle": "-", "color": QUIET, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
    written = axes.annotate(
        label.text,
        (label.x, label.y),
        xytext=(centre[0] / scale, centre[1] / scale),
        textcoords="offset points",
        color=label.colour,
        weight=label.weight,
        size=size,
        ha="center",
        va="center",
        annotation_clip=False,
        # Grid lines end before the text.
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        arrowprops=leader if distance >= _LEADER_FROM else None,
    )
    # The layout that the places were sought in must not make room for the labels now.
    written.set_in_layout(False)


def _nearest(box: Box, points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return min(points, key=lambda point: _distance(box, point))


def _distance(box: Box, point: tuple[float, float]) -> float:
    x, y = point
    return math.hypot(max(box[0] - x, 0.0, x - box[2]), max(box[1] - y, 0.0, y - box[3]))


def _hits(box: Box, taken: Sequence[Box]) -> bool:
    return any(_overlap(box, other) for other in taken)


def _along(corners: Sequence[Sequence[float]], radius: float) -> Iterator[Box]:
    """Boxes side by side that cover a line; corners in pixels."""
    for (x0, y0), (x1, y1) in pairwise(corners):
        count = max(1, math.ceil(math.hypot(x1 - x0, y1 - y0) / (2 * radius)))
        for step in range(count + 1):
            yield _around(x0 + (x1 - x0) * step / count, y0 + (y1 - y0) * step / count, radius)


def _candidates(x: float, y: float, size: tuple[float, float], scale: float) -> Iterator[Spot]:
    """Boxes around the point, the nearest and most readable first."""
    width, height = size[0] + 2 * _MARGIN, size[1] + 2 * _MARGIN
    for distance in _DISTANCES:
        for dx, dy, shift_x, shift_y in _SPOTS:
            left = x + dx * distance * scale + ((_sign(dx) - 1) / 2 + shift_x) * width
            bottom = y + dy * distance * scale + ((_sign(dy) - 1) / 2 + shift_y) * height
            yield (left, bottom, left + width, bottom + height), distance


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _around(x: float, y: float, radius: float) -> Box:
    return (x - radius, y - radius, x + radius, y + radius)


def _within(box: Box, limits: Box) -> bool:
    return box[0] >= limits[0] and box[1] >= limits[1] and box[2] <= limits[2] and box[3] <= limits[3]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
