"""The table of devices, with each one's use of time and memory, and the figure of their total time by use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from placewright.analysis.idle import IdleExplanation, explain_idle
from placewright.machines.host import parted
from placewright.plans.record import Plan
from placewright.report.markup import Markup, cell, element, number, table
from placewright.support.quantities import format_bytes, format_time_ns

#: A table with more devices than this scrolls within its own frame.
MAX_DEVICES_UNSCROLLED = 16


def devices_table(plan: Plan) -> Markup:
    """Build the table of each device's load, peak, limit and headroom."""
    ops_on = Counter(op.device for op in plan.ops)
    rows = [_device_row(plan, idle, ops_on[idle.device]) for idle in explain_idle(plan)]
    headings = [
        ("Device", ""),
        ("Ops", "number"),
        ("Busy", "number"),
        ("Load", "wide load"),
        ("Peak memory", "number"),
        ("Of limit", "wide"),
        ("Limit", "number"),
        ("Headroom", "number"),
    ]
    many = plan.machine.num_devices > MAX_DEVICES_UNSCROLLED
    described = table(headings, rows, "Load and memory of each device")
    return element("div", described, class_="scroll tall" if many else "scroll")


def _device_row(plan: Plan, idle: IdleExplanation, num_ops: int) -> Markup:
    index = idle.device
    device, limit = plan.machine.devices[index], plan.memory_limits_bytes[index]
    busy, peak = plan.metrics.busy_ns[index], plan.metrics.peak_bytes[index]
    kind = element("span", device.kind, class_="muted") if device.kind != device.name else ""
    memory = [cell("no limit", class_="muted"), number("–"), number("–")]
    if limit is not None:
        left = limit - peak
        room = number(format_bytes(left)) if left >= 0 else cell(f"{format_bytes(-left)} over", class_="number bad")
        memory = [_bar_cell(peak, limit), number(format_bytes(limit)), room]
    return element(
        "tr",
        element("th", device.name, " ", kind, scope="row"),
        number(f"{num_ops:,}"),
        number(format_time_ns(busy)),
        time_use_cell(plan, idle),
        number(format_bytes(peak)),
        *memory,
    )


def _bar_cell(part: int, whole: int) -> Markup:
    """Draw a share as a bar with its percentage. A share above 100% is a full bar in the colour of errors. Without a
    whole there is no percentage."""
    share = part / whole if whole else float(part > 0)
    over = " over" if part > whole else ""
    bar = element("span", element("span", style=f"width:{min(share, 1):.1%}"), class_=f"meter{over}")
    return cell(bar, element("span", f"{share:.1%}" if whole else "–", class_="percent"), class_="wide")


#: (class in the style sheet, label, field of IdleExplanation), in the order of every bar's parts.
USES = (
    ("compute", "computing", "busy_ns"),
    ("transfer", "waiting for transfers", "transfer_ns"),
    ("waiting", "waiting for other ops", "others_ns"),
    ("launching", "waiting for launches", "launch_ns"),
    ("ended", "nothing left to do", "end_ns"),
)


def time_use_figure(plan: Plan) -> Markup:
    """Draw the total time of all devices that compute as one bar."""
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
    """Draw parts (class, name, time in ns) of a total side by side; each shows its time on hover."""
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
    """Draw one device's time as a bar, with the share in which it computes."""
    parts = [(kind, words, getattr(idle, field)) for kind, words, field in USES]
    step = plan.metrics.step_time_ns
    share = element("span", _share(idle.busy_ns, step), class_="percent")
    return cell(bar(parts, step), share, class_="wide load")
