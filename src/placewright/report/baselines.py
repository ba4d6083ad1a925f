"""Bars that compare the plan with the baselines; single-device orders with equal results share a bar."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.plans.record import BaselineOutcome, Plan
from placewright.problem.objective import Metrics, format_objective
from placewright.report.markup import Markup, element, joined
from placewright.support.quantities import change, format_bytes


def baselines_section(plan: Plan) -> Markup:
    """Draw the plan and every baseline as bars, best first: by objective, or by bytes over the limits if the plan does
    not fit. If the plan fits, baselines that do not are hatched."""
    answered = [baseline for baseline in plan.baselines if baseline.metrics is not None]
    own = _value(plan, plan.metrics)
    widest = max(own, *(_value(plan, metrics) for b in answered if (metrics := b.metrics)), _line(plan), 1)
    entries = [(own, 0, _bar(plan, ["this plan"], plan.metrics, widest))]
    for index, (names, metrics) in enumerate(_grouped(plan, answered), start=1):
        entries.append((_value(plan, metrics), index, _bar(plan, names, metrics, widest)))
    bars = [bar for _, _, bar in sorted(entries, key=lambda entry: entry[:2])]
    bars += [_no_answer(baseline) for baseline in plan.baselines if baseline.metrics is None]
    line = element("span", element("span", class_="bound", style=f"left:{_line(plan) / widest:.3%}"), class_="bounds")
    drawn = element("div", line if _line(plan) else "", element("ol", *bars), class_="bars")
    return joined([drawn, element("p", _note(plan, answered), class_="muted note")])


def _note(plan: Plan, answered: Sequence[BaselineOutcome]) -> str:
    if plan.status == "infeasible":
        return "Bytes over the memory limits, of all devices together."
    note = "Percentages: above the plan."
    if plan.lower_bound:
        note += f" Dashed line: lower bound, {format_objective(plan.objective, plan.lower_bound)}."
    over = any(baseline.metrics.bytes_over_limit for baseline in answered if baseline.metrics)
    return f"{note} Hatched: does not fit in memory." if over else note


def _line(plan: Plan) -> int:
    """Return the value at which to draw the bound; 0 for an infeasible plan, since the bound does not concern bytes
    over limits."""
    return 0 if plan.status == "infeasible" else plan.lower_bound


def _value(plan: Plan, metrics: Metrics) -> int:
    return metrics.bytes_over_limit if plan.status == "infeasible" else metrics.objective_value(plan.objective)


def _grouped(plan: Plan, answered: Sequence[BaselineOutcome]) -> list[tuple[list[str], Metrics]]:
    """Group baselines that leave all work to one device and reach the same values."""
    groups: dict[object, tuple[list[str], Metrics]] = {}
    for baseline in answered:
        if (metrics := baseline.metrics) is not None:
            reached = (_value(plan, metrics), metrics.bytes_over_limit)
            alike = reached if _on_one_device(metrics) else baseline.name
            groups.setdefault(alike, ([], metrics))[0].append(baseline.name)
    return list(groups.values())


def _on_one_device(metrics: Metrics) -> bool:
    return metrics.num_transfers == 0 and sum(busy > 0 for busy in metrics.busy_ns) <= 1


def _bar(plan: Plan, names: Sequence[str], metrics: Metrics, widest: int) -> Markup:
    value, over, reached = _value(plan, metrics), metrics.bytes_over_limit, _value(plan, plan.metrics)
    own = metrics is plan.metrics
    told = format_bytes(value) if plan.status == "infeasible" else format_objective(plan.objective, value)
    hatched = over and plan.status != "infeasible"
    if hatched:
        told += f", {format_bytes(over)} over the limit"
    elif not own and reached:
        told += f", {change(value, reached)}" if value != reached else ", the same"
    bar = element("span", class_="fill hatched" if hatched else "fill", style=f"width:{value / widest:.3%}")
    return _row(names, told, bar, own=own)


def _row(names: Sequence[str], told: str, *track: Markup, own: bool = False, muted: bool = False) -> Markup:
    """Build one row. Several names get a common label, and are listed below the bar."""
    name, listed = names[0], ""
    if len(names) > 1:
        name, listed = "all on one device", element("span", ", ".join(names), class_="muted members")
    return element(
        "li",
        element("span", name, class_="name"),
        element("span", *track, listed, class_="track"),
        element("span", told, class_="told muted" if muted else "told"),
        class_="bar own" if own else "bar",
    )


def _no_answer(baseline: BaselineOutcome) -> Markup:
    return _row([baseline.name], baseline.note or "no answer", muted=True)
