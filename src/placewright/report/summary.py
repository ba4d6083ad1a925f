"""The top of the page: what was reached, against what, on which devices."""

from __future__ import annotations

import re
from collections import Counter

from placewright.advice import advice
from placewright.outcome import (
    best_baseline,
    captured_order,
    device_words,
    floor_words,
    found_by_words,
    one_device_words,
    proven_infeasible,
    stopped_words,
    took_words,
)
from placewright.plan import Metrics, Plan
from placewright.quantities import format_bytes, format_time_ns
from placewright.report.markup import Markup, cell, element, joined, number, table

#: A longer table of devices scrolls in itself.
MOST_DEVICES_UNSCROLLED = 16
_OBJECTIVE_NAMES = {"step-time": "Step time", "peak-memory": "Peak memory"}


def format_objective(plan: Plan, value: int) -> str:
    """A value of the plan's objective with its unit."""
    return format_time_ns(value) if plan.objective == "step-time" else format_bytes(value)


def heading(plan: Plan) -> Markup:
    """Name of the graph, machine and objective, and whether the plan fits."""
    machine = plan.machine
    facts = [
        machine.name,
        _counted(machine.num_devices, "device"),
        f"{machine.transfer_model} transfers",
        f"{plan.num_graph_ops:,} ops in the graph, {len(plan.ops):,} scheduled",
        f"objective: {_OBJECTIVE_NAMES[plan.objective].lower()}",
    ]
    status = element("span", plan.status, class_=f"status {plan.status}")
    return joined(
        [
            element("h1", plan.graph_name, " ", status),
            element("p", " · ".join(facts), class_="facts"),
        ]
    )


def figures(plan: Plan) -> Markup:
    """The five figures that sum the plan up, the objective first."""
    shown = [_time_figure(plan), _memory_figure(plan)]
    if plan.objective == "peak-memory":
        shown.reverse()
    shown += [_bound_figure(plan), _traffic_figure(plan), _search_figure(plan)]
    return element("div", *shown, class_="figures")


def _figure(label: str, value: str, *lines: str, main: bool = False) -> Markup:
    return element(
        "div",
        element("div", label, class_="label"),
        element("div", value, class_="value"),
        *(element("div", _unbroken(line), class_="line") for line in lines if line),
        class_="figure main" if main else "figure",
    )


def _unbroken(line: str) -> str:
    """The line with its numbers kept together with their units."""
    return re.sub(r"(?<=\d) (?=(?:[num]?s|min|h|[KMGTP]?i?B)\b)", "\u00a0", line)


def _time_figure(plan: Plan) -> Markup:
    main = plan.objective == "step-time"
    return _figure("Step time", format_time_ns(plan.metrics.step_time_ns), *_compared(plan, "step-time"), main=main)


def _memory_figure(plan: Plan) -> Markup:
    peaks, limits = plan.metrics.peak_bytes, plan.memory_limits_bytes
    fullest = max(range(len(peaks)), key=lambda device: peaks[device])
    limit = limits[fullest]
    of = "no limit" if limit is None else f"of {format_bytes(limit)}"
    where = f"on {plan.machine.devices[fullest].name}, {of}"
    compared = _compared(plan, "peak-memory") if plan.objective == "peak-memory" else ()
    main = plan.objective == "peak-memory"
    return _figure("Peak memory", format_bytes(plan.metrics.peak_memory_bytes), *compared, where, main=main)


def _compared(plan: Plan, objective: str) -> tuple[str, ...]:
    """The plan against the best single device, the best baseline and the captured order on the device named first."""
    if objective != plan.objective:
        return ()
    compared: dict[str, Metrics] = {}
    if (one := plan.one_device) is not None:
        compared[f"{one_device_words(plan, one)}, alone"] = one.metrics
    if (best := best_baseline(plan)) is not None and best.metrics is not None and best.metrics not in compared.values():
        compared[f"{best.name}, the best baseline"] = best.metrics
    if (first := captured_order(plan)) is not None and first[1].metrics is not None:
        compared[f"{device_words(plan, first[0])}, captured order, as named"] = first[1].metrics
    lines = [_against(plan, metrics, title) for title, metrics in compared.items()]
    return (*lines, *(() if plan.baselines else ("no baselines ran beside this solver",)))


def _against(plan: Plan, metrics: Metrics, title: str) -> str:
    value = metrics.objective_value(plan.objective)
    shown = f"{title} ({format_objective(plan, value)})"
    over, others_over = plan.metrics.bytes_over_limit, metrics.bytes_over_limit
    if over and others_over:
        return f"{format_bytes(over)} over the limit; {title}: {format_bytes(others_over)}"
    if over or others_over:
        return f"{'fits' if others_over else 'does not fit'}, unlike {shown}"
    own = plan.metrics.objective_value(plan.objective)
    if value == own or value == 0:
        return f"same as {shown}"
    change = own / value - 1
    return f"{abs(change):.1%} {'less' if change < 0 else 'more'} than {shown}"


def _bound_figure(plan: Plan) -> Markup:
    if plan.status == "infeasible":
        value = format_objective(plan, plan.lower_bound) if plan.lower_bound else "none"
        return _figure("Lower bound", value, f"bound: {plan.bound_reason}")
    if plan.lower_bound == 0:
        return _figure("Lower bound", "none", f"bound: {plan.bound_reason}")
    gap = "reached: the plan is optimal" if plan.gap == 0 else f"gap {plan.gap:.1%}: no plan can save more than "
    gap += "" if plan.gap == 0 else f"{1 - 1 / (1 + plan.gap):.1%}"
    return _figure("Lower bound", format_objective(plan, plan.lower_bound), gap, f"bound: {plan.bound_reason}")


def _traffic_figure(plan: Plan) -> Markup:
    return _figure(
        "Moved between devices",
        format_bytes(plan.metrics.bytes_moved),
        _counted(plan.metrics.num_transfers, "transfer"),
        f"over {_counted(len({(t.source, t.destination) for t in plan.transfers}), 'link')}",
    )


def _search_figure(plan: Plan) -> Markup:
    return _figure(
        "Found by",
        found_by_words(plan),
        f"{_counted(plan.evaluations, 'evaluation')} in {took_words(plan)}",
        f"solver {plan.solver}, seed {plan.seed}, stopped: {stopped_words(plan)}",
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def notices(plan: Plan) -> Markup:
    """What does not fit, with needed, available and missing; and the warnings of the run."""
    parts = []
    if plan.metrics.bytes_over_limit > 0:
        over = format_bytes(plan.metrics.bytes_over_limit)
        text = f"This plan does not fit: {over} over the limit in all. It is the closest one found. {_outlook(plan)}"
        helps = element("ul", *(element("li", sentence) for sentence in advice(plan)))
        parts.append(element("div", element("p", text), _missing_table(plan), helps, class_="notice bad", role="alert"))
    if plan.warnings:
        summary = element("summary", _counted(len(plan.warnings), "warning"))
        listed = element("ul", *(element("li", warning) for warning in plan.warnings))
        parts.append(element("details", summary, listed, class_="notice warn"))
    return joined(parts)


def _outlook(plan: Plan) -> str:
    """Whether another plan could fit."""
    proof = "It is proven that no plan can fit" if proven_infeasible(plan) else "Whether another one fits is not known"
    floor = floor_words(plan)
    return f"{proof}: {floor}." if floor else f"{proof}."


def _missing_table(plan: Plan) -> Markup:
    rows = [
        element(
            "tr",
            element("th", device.name, scope="row"),
            number(format_bytes(peak)),
            number(format_bytes(limit)),
            number(format_bytes(peak - limit)),
        )
        for device, peak, limit in zip(
            plan.machine.devices, plan.metrics.peak_bytes, plan.memory_limits_bytes, strict=True
        )
        if limit is not None and peak > limit
    ]
    headings = [("Device", ""), ("Needed", "number"), ("Available", "number"), ("Missing", "number")]
    return table(headings, rows, "Devices whose memory does not suffice")


def devices_table(plan: Plan) -> Markup:
    """Load, peak, limit and headroom of each device."""
    ops_on = Counter(op.device for op in plan.ops)
    rows = [_device_row(plan, index, ops_on[index]) for index in range(plan.machine.num_devices)]
    headings = [
        ("Device", ""),
        ("Ops", "number"),
        ("Busy", "number"),
        ("Load", "wide"),
        ("Peak memory", "number"),
        ("Of limit", "wide"),
        ("Limit", "number"),
        ("Headroom", "number"),
    ]
    many = plan.machine.num_devices > MOST_DEVICES_UNSCROLLED
    described = table(headings, rows, "Load and memory of each device")
    return element("div", described, class_="scroll tall" if many else "scroll")


def _device_row(plan: Plan, index: int, num_ops: int) -> Markup:
    device, limit = plan.machine.devices[index], plan.memory_limits_bytes[index]
    busy, peak = plan.metrics.busy_ns[index], plan.metrics.peak_bytes[index]
    load = busy / plan.metrics.step_time_ns if plan.metrics.step_time_ns else 0.0
    kind = element("span", device.kind, class_="muted") if device.kind != device.name else ""
    memory = [cell("no limit", class_="muted"), number("–"), number("–")]
    if limit is not None:
        left = limit - peak
        room = number(format_bytes(left)) if left >= 0 else cell(f"{format_bytes(-left)} over", class_="number bad")
        memory = [_bar_cell(peak / limit, "memory"), number(format_bytes(limit)), room]
    return element(
        "tr",
        element("th", device.name, " ", kind, scope="row"),
        number(f"{num_ops:,}"),
        number(format_time_ns(busy)),
        _bar_cell(load, "load"),
        number(format_bytes(peak)),
        *memory,
    )


def _bar_cell(share: float, kind: str) -> Markup:
    """A share as a bar with its percentage; more than all of it is drawn as a full bar in the colour of errors."""
    over = " over" if share > 1 else ""
    bar = element("span", element("span", style=f"width:{min(share, 1):.1%}"), class_=f"meter {kind}{over}")
    return cell(bar, element("span", f"{share:.1%}", class_="percent"), class_="wide")
