"""Drawings of a memory map: bytes in use over time, and the level of each op's tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from placewright.lab.memory_levels.record import MappedTensor, MemoryMap
from placewright.lab.memory_levels.words import format_ps
from placewright.report.markup import Markup, element, joined
from placewright.support.quantities import format_bytes

#: Of the drawings' own coordinates, which the page stretches.
_WIDTH, _HEIGHT, _STRIP = 1000.0, 100.0, 24.0


def swatch(level: int) -> Markup:
    """A level's colour."""
    return element("span", class_="swatch", style=f"background: var(--level{level})")


def level_keys(found: MemoryMap) -> Markup:
    """Which colour is which level."""
    names = enumerate(found.chip.level_names)
    return element("ul", *(element("li", swatch(level), name) for level, name in names), class_="keys-of-levels")


def level_charts(found: MemoryMap) -> Markup:
    """A chart per level, the fastest first."""
    return joined(_chart(found, level) for level in range(len(found.chip.levels)))


def _chart(found: MemoryMap, level: int) -> Markup:
    facts, use = found.chip.levels[level], found.bytes_in_use[level]
    before = found.compiler_bytes_in_use[level]
    top = max([*use, *before, 1])
    # A level that is nearly full is drawn with its capacity as the top; a large one would show nothing so.
    is_full = top > facts.capacity_bytes / 4
    top = max(facts.capacity_bytes, 1) if is_full else top
    weights = sum(t.size_bytes for t in found.tensors if t.is_weight and t.level == level)
    edges = _edges(found)
    scale = _HEIGHT / top
    told = f"at most {format_bytes(max(use, default=0))} of {format_bytes(facts.capacity_bytes)}"
    whose = found.compiler if max(before, default=0) > max(use, default=0) else "the map"
    scaled = "the top is what it holds" if is_full else f"the top is {format_bytes(top)}, the peak of {whose}"
    if not any(use) and not any(before):
        told, scaled = "empty", f"it holds {format_bytes(facts.capacity_bytes)}"
    drawing = element(
        "svg",
        element("title", f"{facts.name}: {told}"),
        _area(edges, [0] * len(use), [weights] * len(use), scale, "weights", level),
        _area(edges, [weights] * len(use), list(use), scale, "activations", level),
        element("path", d=_steps(edges, before, scale), class_="compiler"),
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        preserveAspectRatio="none",
        role="img",
    )
    label = element("strong", swatch(level), facts.name)
    return element("div", element("h3", label, element("span", f"{told}; {scaled}")), drawing, class_="level-chart")


def _edges(found: MemoryMap) -> list[float]:
    """Where each op begins, and the last ends."""
    total = max(1, found.latency_ps)
    return [0.0, *(_WIDTH * end / total for end in accumulate(op.time_ps for op in found.ops))]


def _area(
    edges: Sequence[float], low: Sequence[int], high: Sequence[int], scale: float, kind: str, level: int
) -> Markup:
    """The ground between two step functions."""
    upper = list(_corners(edges, high, scale))
    lower = list(_corners(edges, low, scale))[::-1]
    points = " ".join(f"{x:.2f},{y:.2f}" for x, y in [*upper, *lower])
    return element("polygon", points=points, class_=kind, fill=f"var(--level{level})")


def _steps(edges: Sequence[float], values: Sequence[int], scale: float) -> str:
    return "M" + " L".join(f"{x:.2f} {y:.2f}" for x, y in _corners(edges, values, scale))


def _corners(edges: Sequence[float], values: Sequence[int], scale: float) -> Iterable[tuple[float, float]]:
    """Two where the value changes, and the ends."""
    for index, value in enumerate(values):
        if index == 0 or value != values[index - 1]:
            yield edges[index], _HEIGHT - value * scale
        if index == len(values) - 1 or value != values[index + 1]:
            yield edges[index + 1], _HEIGHT - value * scale


def level_strips(found: MemoryMap) -> Markup:
    """The levels of weights and results, op by op, of the compiler's map and of this one."""
    weights, results = _first_by_op(found, is_weight=True), _first_by_op(found, is_weight=False)
    parts: list[Markup] = []
    for whose, is_compiler in ((f"compiler {found.compiler}", True), ("this map", False)):
        for what, of_op in (("weights", weights), ("results", results)):
            apart = "apart" if what == "weights" else None
            parts.append(element("div", f"{what}, {whose}", class_=apart))
            parts.append(element("div", _strip(found, of_op, is_compiler), class_=apart))
    return element("div", *parts, class_="strip")


def _first_by_op(found: MemoryMap, *, is_weight: bool) -> dict[int, MappedTensor]:
    """The largest tensor of each op that has one."""
    largest: dict[int, MappedTensor] = {}
    for tensor in found.tensors:
        if tensor.is_weight == is_weight:
            known = largest.get(tensor.op)
            if known is None or tensor.size_bytes > known.size_bytes:
                largest[tensor.op] = tensor
    return largest


def _strip(found: MemoryMap, of_op: dict[int, MappedTensor], is_compiler: bool) -> Markup:
    edges = _edges(found)
    bars = []
    for op, tensor in of_op.items():
        level = tensor.compiler_level if is_compiler else tensor.level
        name = found.chip.level_names[level]
        told = f"{tensor.name}, {format_bytes(tensor.size_bytes)}: {name}; op takes {format_ps(found.ops[op].time_ps)}"
        bars.append(
            element(
                "rect",
                element("title", told),
                x=f"{edges[op]:.2f}",
                y="0",
                width=f"{max(0.3, edges[op + 1] - edges[op]):.2f}",
                height=f"{_STRIP:g}",
                fill=f"var(--level{level})",
            )
        )
    return element("svg", *bars, viewBox=f"0 0 {_WIDTH:g} {_STRIP:g}", preserveAspectRatio="none", role="img")
