"""The top of the page: the result, its comparisons, and notices of what does not fit."""

from __future__ import annotations

from placewright.analysis.advice import advice, peak_words
from placewright.analysis.basis import basis_words
from placewright.analysis.outcome import (
    best_baseline,
    bound_words,
    captured_order,
    device_words,
    floor_words,
    limit_words,
    one_device_words,
    proven_infeasible,
    rival_words,
    share_words,
    title_words,
    weak_bound_words,
)
from placewright.machines.host import parted
from placewright.plans.record import Plan
from placewright.problem.objective import OBJECTIVE_NAMES, Metrics, Objective, format_objective, fullest_first
from placewright.report.devices import time_use_figure
from placewright.report.markup import Markup, element, figure, joined, number, table
from placewright.support.quantities import counted, format_bytes, format_time_ns


def heading(plan: Plan) -> Markup:
    """Show the names of the graph and machine, the objective, the status of the plan, and the basis of its times."""
    machine = plan.machine
    facts = [
        machine.name,
        counted(parted(machine)[0].num_devices, "device") + (" beside the host" if machine.devices[-1].is_host else ""),
        f"{machine.transfer_model} transfers",
        f"{plan.num_graph_ops:,} ops in the graph, {len(plan.ops):,} scheduled",
        f"objective: {OBJECTIVE_NAMES[plan.objective]}",
    ]
    limited = limit_words(plan)
    status = element("span", plan.status, class_=f"status {plan.status}")
    return joined(
        [
            element("h1", title_words(plan), " ", status),
            element("p", " · ".join(facts), class_="facts"),
            *([element("p", limited[0].upper(), limited[1:], class_="facts")] if limited else []),
            *(element("p", words[0].upper(), words[1:], ".", class_="facts") for words in rival_words(plan)),
            element("p", basis_words(plan.time_sources, plan.machine), class_="facts basis"),
        ]
    )


def figures(plan: Plan) -> Markup:
    """Show the figures that sum the plan up, the objective first."""
    shown = [_time_figure(plan), _memory_figure(plan)]
    if plan.objective == "peak-memory":
        shown.reverse()
    shown += [time_use_figure(plan), _bound_figure(plan)]
    if plan.status == "infeasible":
        shown.insert(0, _missing_figure(plan))
    elif plan.machine.num_devices > 1:
        shown.append(_traffic_figure(plan))
    return element("div", *shown, class_=f"figures {plan.status}")


def _missing_figure(plan: Plan) -> Markup:
    """Show the bytes over the limits, the first figure of a plan that does not fit."""
    over = format_bytes(plan.metrics.bytes_over_limit)
    return figure("Over the memory limits", over, *_compared(plan), kind="figure main")


def _time_figure(plan: Plan) -> Markup:
    compared, kind = _prominence(plan, "step-time")
    return figure("Step time", format_time_ns(plan.metrics.step_time_ns), *compared, kind=kind)


def _memory_figure(plan: Plan) -> Markup:
    peaks, limits = plan.metrics.peak_bytes, plan.memory_limits_bytes
    fullest = fullest_first(plan.machine, peaks)[0]
    limit = limits[fullest]
    of = "no limit" if limit is None else f"of {format_bytes(limit)}"
    where = f"on {plan.machine.devices[fullest].name}, {of}"
    compared, kind = _prominence(plan, "peak-memory")
    return figure("Peak memory", format_bytes(plan.metrics.peak_memory_bytes), *compared, where, kind=kind)


def _prominence(plan: Plan, objective: Objective) -> tuple[tuple[str, ...], str]:
    """Return the comparisons of a figure, and its class: the objective's figure is the main one, if the plan fits."""
    main = plan.objective == objective and plan.status != "infeasible"
    return (_compared(plan), "figure main") if main else ((), "figure")


def _compared(plan: Plan) -> tuple[str, ...]:
    """Compare the plan with the best single device, the best baseline and the captured order on the first named
    device."""
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
    shown = f"{title} ({format_objective(plan.objective, value)})"
    over, others_over = plan.metrics.bytes_over_limit, metrics.bytes_over_limit
    if over and others_over:
        return f"{title}: {format_bytes(others_over)}"
    if over or others_over:
        return f"{'fits' if others_over else 'does not fit'}, unlike {shown}"
    own = plan.metrics.objective_value(plan.objective)
    if value == own or value == 0:
        return f"same as {shown}"
    change = own / value - 1
    return f"{share_words(change)} {'less' if change < 0 else 'more'} than {shown}"


def _bound_figure(plan: Plan) -> Markup:
    """Show the lower bound, the argument for it, and the plan's distance from it; on hover, the bound's technical
    name."""
    claim, reason = bound_words(plan)
    if not claim:
        return figure("Lower bound", "none", "nothing is proven about other plans")
    lines = [f"{reason[0].upper()}{reason[1:]}."]
    if plan.status != "infeasible":
        most = f"{1 - 1 / (1 + plan.gap):.1%}"
        lines.append("Reached: the plan is optimal." if plan.gap == 0 else f"Gap {plan.gap:.1%}: at most {most} less.")
        if words := weak_bound_words(plan):
            lines.append(f"{words[0].upper()}{words[1:]}.")
    title, value = f"lower bound: {plan.bound_reason}", format_objective(plan.objective, plan.lower_bound)
    return figure(claim, value, *lines, kind="figure bound-figure", title=title)


def _traffic_figure(plan: Plan) -> Markup:
    return figure(
        "Moved between devices",
        format_bytes(plan.metrics.bytes_moved),
        counted(plan.metrics.num_transfers, "transfer"),
        f"over {counted(len({(t.source, t.destination) for t in plan.transfers}), 'link')}",
    )


def notices(plan: Plan) -> Markup:
    """Show what does not fit, with needed, available and missing memory, and the warnings of the run."""
    parts = []
    if plan.metrics.bytes_over_limit > 0:
        over = format_bytes(plan.metrics.bytes_over_limit)
        text = f"This plan does not fit: {over} over the limit in all. It is the closest one found. {_outlook(plan)}"
        helps = element("ul", *(element("li", sentence) for sentence in (*peak_words(plan), *advice(plan))))
        parts.append(element("div", element("p", text), _missing_table(plan), helps, class_="notice bad", role="alert"))
    if plan.warnings:
        summary = element("summary", counted(len(plan.warnings), "warning"))
        listed = element("ul", *(element("li", warning) for warning in plan.warnings))
        parts.append(element("details", summary, listed, class_="notice warn"))
    return joined(parts)


def _outlook(plan: Plan) -> str:
    """Say whether another plan could fit."""
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
