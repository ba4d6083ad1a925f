"""View of a plan for notebooks: the head of the report, a small timeline, and the table of devices; no script."""

from __future__ import annotations

from collections.abc import Iterable

from placewright.plans.record import Plan, ScheduledOp, Transfer
from placewright.report import summary
from placewright.report.devices import devices_table
from placewright.report.markup import Markup, element, joined
from placewright.support.quantities import counted, format_time_ns

#: The timeline's width in units; marks are at least one unit apart.
_WIDTH = 600
_LABEL = 110
_LANE = 22
_MAX_LANES = 16
_STYLE = Markup(
    ".placewright-plan{max-width:60em}"
    ".placewright-plan h1{font-size:1.2em;margin:.3em 0}"
    ".placewright-plan .status{font-size:.75em;border:1px solid;border-radius:1em;padding:.1em .6em;margin-left:.4em}"
    ".placewright-plan .infeasible,.placewright-plan .bad{color:#b3261e}"
    ".placewright-plan .facts,.placewright-plan .muted,.placewright-plan .label,.placewright-plan .line{opacity:.75}"
    ".placewright-plan .figures{display:flex;flex-wrap:wrap;gap:.5em 2em}"
    ".placewright-plan .value{font-size:1.2em;font-weight:600}"
    ".placewright-plan .line,.placewright-plan .label{font-size:.85em}"
    ".placewright-plan svg{width:100%;margin:.6em 0}"
    ".placewright-plan .hidden{display:none}"
    ".placewright-plan td,.placewright-plan th{text-align:left;padding:.1em .8em .1em 0}"
    ".placewright-plan .number{text-align:right;font-variant-numeric:tabular-nums}"
    ".placewright-plan .meter{display:inline-block;width:5em;height:.6em;background:#8884;margin-right:.5em}"
    ".placewright-plan .meter span{display:block;height:100%;background:#4477aa}"
    ".placewright-plan .stack{display:inline-flex;width:10em;height:.6em;margin-right:.5em;background:#8882}"
    ".placewright-plan .swatch{display:inline-block;width:.7em;height:.7em;margin-right:.4em}"
    ".placewright-plan .compute{background:#4477aa}"
    ".placewright-plan .transfer{background:#dd9a2b}"
    ".placewright-plan .waiting{background:#8888}"
    ".placewright-plan .launching{background:#8a6fb0}"
    ".placewright-plan .ended{background:#8883}"
    ".placewright-plan .figures ul{list-style:none;margin:0;padding:0;font-size:.85em}"
)


def notebook_html(plan: Plan) -> str:
    """Render one element that includes its style; every name in it is escaped."""
    parts = [
        element("style", _STYLE),
        summary.heading(plan),
        summary.figures(plan),
        timeline(plan),
        devices_table(plan),
    ]
    return element("div", joined(parts), class_="placewright-plan")


def timeline(plan: Plan) -> Markup:
    """Draw one lane per device, with computing above and sending below; at most the 16 busiest devices."""
    by_load = sorted(range(plan.machine.num_devices), key=lambda device: -plan.metrics.busy_ns[device])
    shown = sorted(by_load[:_MAX_LANES])
    lanes = joined(_lane(plan, device, row * _LANE) for row, device in enumerate(shown))
    height = len(shown) * _LANE + 14
    left_out = plan.machine.num_devices - len(shown)
    more = f"; {counted(left_out, 'less busy device')} not shown" if left_out else ""
    end = format_time_ns(plan.step_time_ns)
    note = f"0 to {end}; above computing, below sending{more}"
    text = element("text", note, x=_LABEL, y=height - 3, font_size=9, fill="currentColor", opacity=0.75)
    return element(
        "svg",
        lanes,
        text,
        viewBox=f"0 0 {_LABEL + _WIDTH} {height}",
        role="img",
        aria_label=f"Timeline of {plan.graph_name} on {plan.machine.name}",
        font_family="sans-serif",
    )


def _lane(plan: Plan, device: int, top: int) -> Markup:
    computing = [op for op in plan.ops if op.device == device]
    sending = [transfer for transfer in plan.transfers if transfer.source == device]
    name = plan.machine.devices[device].name
    label = name if len(name) <= 18 else f"{name[:17]}…"
    return joined(
        [
            element("text", label, x=0, y=top + 12, font_size=11, fill="currentColor"),
            element("rect", x=_LABEL, y=top, width=_WIDTH, height=_LANE - 5, fill="#8882"),
            element("path", d=_marks(computing, plan.step_time_ns, top, 12), fill="#4477aa"),
            element("path", d=_marks(sending, plan.step_time_ns, top + 13, 4), fill="#dd9a2b"),
        ]
    )


def _marks(steps: Iterable[ScheduledOp | Transfer], end_ns: int, top: int, height: int) -> str:
    """Draw a path of rectangles over the times of the steps; steps that touch at this scale are merged."""
    spans: list[list[int]] = []
    for step in sorted(steps, key=lambda step: step.start_ns):
        if step.finish_ns == step.start_ns:
            continue
        begin, end = step.start_ns * _WIDTH // end_ns, -(-step.finish_ns * _WIDTH // end_ns)
        if spans and begin <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([begin, end])
    return "".join(f"M{_LABEL + begin} {top}h{end - begin}v{height}H{_LABEL + begin}z" for begin, end in spans)
