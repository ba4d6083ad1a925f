"""Report of a plan as one HTML page that needs only a browser."""

from __future__ import annotations

from pathlib import Path
from string import Template

from placewright.analysis.outcome import title_words
from placewright.execution.comparison import RunComparison
from placewright.plans.record import Plan
from placewright.report import summary, tables
from placewright.report.baselines import baselines_section
from placewright.report.columns import embedded_json
from placewright.report.devices import devices_table
from placewright.report.layer_table import layers_section
from placewright.report.markup import Markup, element, escaped, in_closure, page, section
from placewright.report.run_section import run_section
from placewright.support.errors import InputError, shown
from placewright.support.files import write_atomically
from placewright.support.garbage import collection_paused
from placewright.support.quantities import format_bytes

#: The page's script files in an order that respects their dependencies; one closure holds them all.
SCRIPTS = (
    "elements.js",
    "format.js",
    "data.js",
    "colours.js",
    "view.js",
    "lanes.js",
    "timeline.js",
    "memory.js",
    "before_after.js",
    "overlay.js",
    "overview.js",
    "search.js",
    "details.js",
    "input.js",
    "touch.js",
    "overflow.js",
    "peak.js",
    "theme.js",
    "page.js",
)


def write_report(plan: Plan, path: str | Path, *, run: RunComparison | None = None) -> None:
    """Write the report of a plan: one HTML file that loads nothing over the network.

    Parameters
    ----------
    plan
        The plan to show.
    path
        The file.
    run
        The result of a compiled module's `compare` for this plan: the page then shows planned and measured
        times on one axis.

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    write_atomically(path, html_of(plan, run).encode("utf-8", "replace"))


@collection_paused()
def html_of(plan: Plan, run: RunComparison | None = None) -> str:
    """Render the page as text: sections written here, and the plan's columns for the script that draws the rest."""
    return Template(page("template.html")).substitute(
        title=escaped(f"{title_words(plan)} on {plan.machine.name}"),
        style=page("report.css"),
        heading=summary.heading(plan),
        notices=summary.notices(plan),
        figures=summary.figures(plan),
        sections="\n".join([*_run_sections(plan, run), *_sections(plan, run)]),
        tensors=tables.biggest_tensors(plan),
        ops=tables.longest_ops(plan),
        provenance=tables.provenance(plan),
        data=embedded_json(plan, run),
        script=in_closure(*SCRIPTS),
    )


def _run_sections(plan: Plan, run: RunComparison | None) -> list[str]:
    if run is None:
        return []
    if {op.name for op in run.ops} - plan.device_of.keys():
        raise InputError(f"the run is one of '{shown(run.name)}', and not of this plan")
    return [section("run", "Planned and measured", run_section(run))]


def _sections(plan: Plan, run: RunComparison | None) -> list[str]:
    """List the sections, the main concern first: memory if it is the objective or lacking, otherwise the timeline."""
    heading = "Timeline" if plan.status != "infeasible" else "Timeline of the closest plan, which does not fit"
    timeline = Template(page("timeline.html")).substitute(heading=heading, note=tables.timeline_note(plan, run))
    devices = section("devices", "Devices", devices_table(plan))
    over_time, layers, peak = memory_section(plan), layers_section(plan), page("peak.html")
    if plan.status == "infeasible" or plan.objective == "peak-memory":
        shown = [over_time, peak, devices, timeline, layers]
    else:
        shown = [devices, timeline, layers, peak]
    return [
        *shown,
        section("critical", "Critical path", tables.critical_path_section(plan)),
        section("baselines", "Baselines", baselines_section(plan)),
    ]


def memory_section(plan: Plan) -> Markup:
    """Build the frame of the memory chart for page/before_after.js; nothing if the plan lacks the earlier curve."""
    before = plan.input_order_memory
    if before is None:
        return Markup()
    peak, reached = max(before.bytes_in_use), plan.metrics.peak_memory_bytes
    share = f"{abs(reached / peak - 1):.1%} " if peak else ""
    change = "the same" if peak == reached else f"{share}{'less' if reached < peak else 'more'}"
    several = ", on its fullest device" if plan.machine.num_devices > 1 else ""
    entries = [
        ("before", f"before: captured order on one device, at most {format_bytes(peak)}"),
        ("after", f"after: this plan{several}, at most {format_bytes(reached)} ({change})"),
    ]
    legend = [element("li", element("span", class_=f"swatch {kind}"), words) for kind, words in entries]
    return element(
        "section",
        element("h2", "Memory over time, before and after", id="memory-heading"),
        element("ul", *legend, class_="legend", id="memory-legend"),
        element("canvas", id="memory-over-time", role="img", aria_labelledby="memory-heading memory-legend"),
        aria_labelledby="memory-heading",
    )
