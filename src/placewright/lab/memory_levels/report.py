"""A memory map as one HTML page that needs nothing but a browser."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from placewright.lab.memory_levels.explain import explain_map, transitions
from placewright.lab.memory_levels.level_charts import level_charts, level_keys, level_strips, swatch
from placewright.lab.memory_levels.record import MappedTensor, MemoryMap
from placewright.lab.memory_levels.words import format_ps, gap_words
from placewright.report.markup import Markup, cell, element, figure, joined, number, section, still_page, table
from placewright.support.files import write_atomically
from placewright.support.quantities import counted, format_bytes, signed_percent

_MAX_TENSORS = 40


def write_map_report(found: MemoryMap, path: str | Path) -> None:
    """Write the report of a map: one HTML file that loads nothing over the network.

    Raises InputError when the file cannot be written.
    """
    write_atomically(path, map_html(found).encode("utf-8", "replace"))


def map_html(found: MemoryMap) -> str:
    """The page as text."""
    return still_page(
        f"{found.graph_name} on {found.chip.name}",
        "placewright memory map",
        _heading(found),
        joined([element("section", _figures(found), aria_label="Result"), *_sections(found)]),
        style=files("placewright.lab.memory_levels").joinpath("report.css").read_text("utf-8"),
        footer=_provenance(found),
    )


def _heading(found: MemoryMap) -> Markup:
    facts = [
        found.chip.name,
        counted(len(found.ops), "op"),
        counted(len(found.tensors), "tensor"),
        "times and traffic are those of the model, not measured",
    ]
    status = element("span", "proven optimal" if found.status == "optimal" else "feasible", class_="status")
    return joined(
        [
            element("h1", f"{found.graph_name} in the memories of {found.chip.name}", " ", status),
            element("p", " · ".join(facts), class_="facts"),
            element("p", found.chip.description, class_="facts"),
        ]
    )


def _figures(found: MemoryMap) -> Markup:
    explained = explain_map(found)
    rule = f"compiler {found.compiler}, the best rule: {format_ps(found.compiler_ps)}"
    before = f"{found.speedup:.4g} times as fast", rule
    parts = [
        f"computes {format_ps(explained.compute_ps)}",
        f"overhead of ops {format_ps(explained.overhead_ps)}",
        f"waits for memory {format_ps(explained.waiting_ps)}",
    ]
    moved = [f"of {counted(len(found.tensors), 'tensor')}", f"against compiler {found.compiler}"]
    bound = [f"{found.bound_reason[:1].upper()}{found.bound_reason[1:]}.", f"{gap_words(found.gap).capitalize()}."]
    shown = [
        figure("Latency", format_ps(found.latency_ps), *before, kind="figure main"),
        figure("Of which", f"{explained.waiting_ps / max(1, found.latency_ps):.0%} waiting", *parts),
        figure("No map is faster than", format_ps(found.bound_ps), *bound),
        figure("Elsewhere", f"{explained.num_moves:,}", *moved),
    ]
    return element("div", *shown, class_="map-figures")


def _sections(found: MemoryMap) -> list[Markup]:
    note = (
        "Bytes in use while the network runs: weights, and above them activations. "
        f"Dashed: with compiler {found.compiler}'s map, over the same ops."
    )
    where = (
        "A bar per op, as wide as its time; above the weights it reads first, below what it makes. "
        "Ops without one leave a gap."
    )
    return [
        section("levels", "Levels over time", element("p", note, class_="note lead"), level_charts(found)),
        section("where", "Which tensors live where", element("p", where, class_="note lead"), level_keys(found),
                 level_strips(found)),
        section("transitions", f"From compiler {found.compiler}'s map to this one", _matrices(found)),
        section("tensors", "Tensors that save the most", element("div", _tensor_table(found), class_="scroll tall")),
        section("others", "What else ran", _others(found)),
        section("chip", "The chip", _chip_table(found)),
    ]  # fmt: skip


def _matrices(found: MemoryMap) -> Markup:
    kinds = (("All tensors", None), ("Weights", True), ("Activations", False))
    lead = "Rows: where the compiler has the bytes. Columns: where this map has them."
    shown = [
        element("div", element("h3", title), _matrix(found, transitions(found, weights=weights), title))
        for title, weights in kinds
    ]
    return joined([element("p", lead, class_="note lead"), element("div", *shown, class_="matrices")])


def _matrix(found: MemoryMap, matrix: tuple[tuple[int, ...], ...], caption: str) -> Markup:
    """Bytes, on a ground the deeper the larger their share of the row."""
    names = found.chip.level_names
    rows = []
    for name, values in zip(names, matrix, strict=True):
        whole = sum(values) or 1
        cells = [
            cell(
                format_bytes(value) if value else "\u2013",
                class_="share" if value else "share muted",
                style=f"--share:{value / whole:.2f}",
                title=f"{value / whole:.0%} of the row",
            )
            for value in values
        ]
        rows.append(element("tr", element("th", name, scope="row"), *cells))
    return table([("", ""), *((name, "share") for name in names)], rows, caption)


def _tensor_table(found: MemoryMap) -> Markup:
    moved = [tensor for tensor in found.tensors if tensor.level != tensor.compiler_level]
    if not moved:
        return element("p", f"Every tensor lies where compiler {found.compiler} has it.", class_="note")
    most = sorted(moved, key=lambda t: (-t.saved_ps, -t.size_bytes))[:_MAX_TENSORS]
    headings = [("Tensor", ""), ("What", ""), ("Size", "number"), ("Compiler", ""), ("Here", ""), ("Saves", "number")]
    return table(headings, [_tensor_row(found, tensor) for tensor in most], "Tensors that save the most")


def _tensor_row(found: MemoryMap, tensor: MappedTensor) -> Markup:
    names = found.chip.level_names
    return element(
        "tr",
        element("th", tensor.name, scope="row", class_="layer", title=f"of op {found.ops[tensor.op].name}"),
        cell("weight" if tensor.is_weight else "activation"),
        number(format_bytes(tensor.size_bytes)),
        *(cell(swatch(level), names[level], class_="in-level") for level in (tensor.compiler_level, tensor.level)),
        number(format_ps(tensor.saved_ps) if tensor.saved_ps else "\u2013"),
    )


def _others(found: MemoryMap) -> Markup:
    if not found.others:
        return element("p", "Nothing ran beside this solver.", class_="note")
    rows = [
        element(
            "tr",
            element("th", name, scope="row"),
            number(format_ps(value)),
            number(signed_percent(value / found.latency_ps - 1, 2) if found.latency_ps else ""),
        )
        for name, value in sorted(found.others.items(), key=lambda pair: pair[1])
    ]
    return table([("Solver", ""), ("Latency", "number"), ("Against the map", "number")], rows, "What else ran")


def _chip_table(found: MemoryMap) -> Markup:
    rows = [
        element(
            "tr",
            element("th", swatch(index), level.name, scope="row"),
            number(format_bytes(level.capacity_bytes)),
            number(f"{level.bandwidth_bytes_per_s / 1e9:,.6g} GB/s"),
            number(f"{found.peak_bytes(index) / max(1, level.capacity_bytes):.1%}"),
            cell("weights are fetched one op early" if level.is_prefetched else ""),
        )
        for index, level in enumerate(found.chip.levels)
    ]
    headings = [("Level", ""), ("Holds", "number"), ("Bandwidth", "number"), ("Used at most", "number"), ("", "")]
    assumptions = element("ul", *(element("li", text) for text in found.chip.assumptions))
    source = element("p", f"Source: {found.chip.source}" if found.chip.source else "", class_="note")
    title = element("p", "Assumptions:" if found.chip.assumptions else "", class_="note")
    return joined([table(headings, rows, "The levels of the chip"), source, title, assumptions])


def _provenance(found: MemoryMap) -> Markup:
    by = f", found by {found.found_by}" if found.found_by != found.solver else ""
    spent = f"{counted(found.evaluations, 'evaluation')}, seed {found.seed}, {found.seconds:.2f} s"
    made = f"placewright {found.version} · solver {found.solver}{by} · {spent} · stopped: {found.stopped_because}"
    return element("p", made, class_="facts")
