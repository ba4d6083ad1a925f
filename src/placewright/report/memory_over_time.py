"""Memory over time before and after: of the captured order on one device, and of the plan."""

from __future__ import annotations

from placewright.plans.record import Plan
from placewright.report.markup import Markup, element
from placewright.support.quantities import format_bytes


def memory_section(plan: Plan) -> Markup:
    """The chart's frame, which page/before_after.js fills; nothing where the plan does not hold the curve before."""
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
