"""Where the time goes: what the devices do, and what they wait for, while the step runs."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.analysis.idle import IdleExplanation, explain_idle
from placewright.machines.host import parted
from placewright.plans.record import Plan
from placewright.report.markup import Markup, cell, element
from placewright.support.quantities import format_time_ns

#: (class in the style sheet, what it is called, the field of IdleExplanation), as they stand in every bar.
USES = (
    ("compute", "computing", "busy_ns"),
    ("transfer", "waiting for transfers", "transfer_ns"),
    ("waiting", "waiting for other ops", "others_ns"),
    ("launching", "waiting for launches", "launch_ns"),
    ("ended", "nothing left to do", "end_ns"),
)


def time_use_figure(plan: Plan) -> Markup:
    """The time of all devices that compute taken together, as one bar."""
    return element(
        "div",
        element("div", "Where the time goes", class_="label"),
        *_shares(plan, explain_idle(plan)[: parted(plan.machine)[0].num_devices]),
        class_="figure time-use",
    )


def _shares(plan: Plan, idle: Sequence[IdleExplanation]) -> list[Markup]:
    total = plan.metrics.step_time_ns * len(idle)
    spent = [(kind, words, sum(getattr(device, field) for device in idle)) for kind, words, field in USES]
    shown = [(kind, words, time) for kind, words, time in spent if time or kind == "compute"]
    rows = [
        element("li", element("span", class_=f"swatch {kind}"), f"{words} ", element("b", _share(time, total)))
        for kind, words, time in shown
    ]
    return [bar(shown, total), element("ul", *rows)]


def bar(parts: Sequence[tuple[str, str, int]], total: int) -> Markup:
    """Parts (class, name, time in ns) of a total, side by side; each tells its time when pointed at."""
    drawn = [
        element(
            "span",
            class_=f"part {kind}",
            style=f"width:{time / total:.2%}",
            title=f"{words}: {format_time_ns(time)} ({_share(time, total)})",
        )
        for kind, words, time in parts
        if time
    ]
    return element("div", *drawn, class_="stack")


def _share(time: int, total: int) -> str:
    return f"{time / total:.1%}" if total else "0.0%"


def time_use_cell(plan: Plan, idle: IdleExplanation) -> Markup:
    """One device's time as a bar, with the share it computes."""
    parts = [(kind, words, getattr(idle, field)) for kind, words, field in USES]
    step = plan.metrics.step_time_ns
    share = element("span", _share(idle.busy_ns, step), class_="percent")
    return cell(bar(parts, step), share, class_="wide load")
