"""A plan on at most 25 lines: before and after, devices, baselines, bound, and the search effort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from placewright.analysis.advice import advice
from placewright.analysis.basis import basis_words
from placewright.analysis.outcome import (
    best_baseline,
    captured_order,
    device_words,
    floor_words,
    found_by_words,
    gain_words,
    limit_words,
    one_device_words,
    rival_words,
    stopped_words,
    took_words,
    verdict_words,
    weak_bound_words,
)
from placewright.machines.host import parted
from placewright.plans.record import BaselineOutcome, Plan
from placewright.problem.objective import OBJECTIVE_NAMES, Metrics, format_objective
from placewright.support.errors import printable
from placewright.support.quantities import change, counted, format_bytes, share, shortened
from placewright.terminal.tables import Cell, heading, line, table, width

#: More devices than this are summed up by their extremes.
MAX_DEVICE_ROWS = 6
_BAR_LENGTH = 10
#: Short, so that the table stays narrow.
_BOUND_NAMES: Mapping[str, str] = {
    "work divided over all devices": "divided work",
    "work of ops that must share a device": "work that shares a device",
    "critical path with shared work and transfers": "critical path, transfers",
    "work between earliest starts and latest finishes": "work in its time windows",
    "launches and what follows the last of them": "launches",
    "work divided over all devices and host threads": "divided work, launches",
    "tensors alive together spread over all devices": "tensors alive together",
    "tensors that must be dropped and made again": "tensors made again",
    "tensors that must be moved or made again": "moved or made again",
    "largest op with its inputs, outputs and parameters": "largest op",
    "parameters and outputs spread over all devices": "parameters spread",
}


def plan_table(plan: Plan, written: Mapping[str, str] | None = None) -> list[RenderableType]:
    """Return the parts to print. written: names of the written files, by path."""
    basis = line(basis_words(plan.time_sources, plan.machine), "dim")
    limited = [line(words)] if (words := limit_words(plan)) else []
    rivals = [line(words, "yellow") for words in rival_words(plan)]
    parts: list[RenderableType] = [heading(headline(plan)), *limited, *rivals, basis, _outcomes(plan)]
    parts += [*([line(words, "dim")] if (words := weak_bound_words(plan)) else []), ""]
    parts += _missing(plan) if plan.status == "infeasible" else [_device_table(plan)]
    parts += [_moved(plan), "", *_baselines(plan), line(_effort(plan))]
    if written:
        parts.append(printable(f"wrote {written_words(written)}"))
    return parts


def written_words(written: Mapping[str, str]) -> str:
    """List the written files: "plan p.json, report r.html"."""
    return ", ".join(f"{what} {path}" for path, what in written.items())


def headline(plan: Plan) -> str:
    """State the result in one line."""
    what = f"{shortened(plan.graph_name, 32)} on {shortened(plan.machine.name, 24)}"
    if plan.status == "infeasible":
        return f"{what}: {verdict_words(plan)}"
    reached = format_objective(plan.objective, plan.metrics.objective_value(plan.objective))
    optimal = ", optimal" if plan.status == "optimal" else ""
    gain = "" if plan.extra_time is not None and plan.gain is None else gain_words(plan)
    return f"{what}: {OBJECTIVE_NAMES[plan.objective]} {reached}{optimal}{f', {gain}' if gain else ''}"


def _outcomes(plan: Plan) -> Table:
    """Compare one device, the best baseline and the plan in one row each, with the bound in the last."""
    compared: list[tuple[str, Metrics]] = []
    if (one := plan.one_device) is not None:
        compared.append((f"one device: {one_device_words(plan, one)}", one.metrics))
    first, best = captured_order(plan), best_baseline(plan)
    if first is not None and first[1].metrics is not None:
        compared.append((f"as named: {device_words(plan, first[0])}, captured order", first[1].metrics))
    if best is not None and best.metrics is not None and best.metrics not in [metrics for _, metrics in compared]:
        compared.append((f"best baseline: {best.name}", best.metrics))
    rows: list[Sequence[Cell]] = [
        [*_outcome_cells(label, metrics), _against(plan, metrics)] for label, metrics in compared
    ]
    over = format_bytes(plan.metrics.bytes_over_limit) if plan.status == "infeasible" else ""
    own = [*_outcome_cells(f"plan, found by {found_by_words(plan)}", plan.metrics), over]
    rows.append([Text(cell, "bold") for cell in own])
    bound = format_objective(plan.objective, plan.lower_bound)
    values = [bound if objective == plan.objective else "" for objective in OBJECTIVE_NAMES]
    rows.append([f"lower bound: {_BOUND_NAMES.get(plan.bound_reason, plan.bound_reason)}", *values, "", _gap(plan)])
    last = "over the limits" if plan.status == "infeasible" else "above plan"
    return table(["<", *OBJECTIVE_NAMES.values(), "fits", last], rows)


def _outcome_cells(label: str, metrics: Metrics) -> list[str]:
    fits = "no" if metrics.bytes_over_limit else "yes"
    return [label, *(format_objective(each, metrics.objective_value(each)) for each in OBJECTIVE_NAMES), fits]


def _gap(plan: Plan) -> str:
    """State how far the plan may be from optimal."""
    if plan.status == "infeasible":
        return ""
    return "no gap" if plan.gap == 0 else "gap unknown" if plan.gap == float("inf") else f"gap {plan.gap:.1%}"


def _against(plan: Plan, metrics: Metrics) -> str:
    """Compare the objective with the plan's; if not even the plan fits, state the bytes over the limits."""
    if plan.status == "infeasible":
        return format_bytes(metrics.bytes_over_limit)
    return change(metrics.objective_value(plan.objective), plan.metrics.objective_value(plan.objective))


def _device_table(plan: Plan) -> Table:
    columns = ["<device", "<kind", "ops", "load", "<", "peak", "limit", "used", "<"]
    count = [0] * plan.machine.num_devices
    for op in plan.ops:
        count[op.device] += 1
    shown = _devices_shown(plan)
    rows = [[label, *_device_cells(plan, device, count[device])] for label, device in shown]
    return table(columns, rows)


def _devices_shown(plan: Plan) -> list[tuple[str, int]]:
    """List all devices with their labels; with many devices, only the extremes and the median."""
    devices = plan.machine.devices
    busy, peak = plan.metrics.busy_ns, plan.metrics.peak_bytes
    if len(devices) <= MAX_DEVICE_ROWS:
        return [(shortened(device.name, 16), index) for index, device in enumerate(devices)]
    by_load = sorted(range(len(devices)), key=lambda device: -busy[device])
    by_peak = sorted(range(len(devices)), key=lambda device: -peak[device])
    chosen = {"busiest": by_load[0], "median": by_load[len(by_load) // 2], "idlest": by_load[-1], "fullest": by_peak[0]}
    return [(f"{what}: {shortened(devices[index].name, 12)}", index) for what, index in chosen.items()]


def _device_cells(plan: Plan, device: int, num_ops: int) -> list[Cell]:
    busy, peak, limit = plan.metrics.busy_ns[device], plan.metrics.peak_bytes[device], plan.memory_limits_bytes[device]
    step = plan.metrics.step_time_ns
    cells: list[Cell] = [shortened(plan.machine.devices[device].kind, 12), f"{num_ops:,}", share(busy, step)]
    cells += [_bar(busy, step, "green"), format_bytes(peak)]
    if limit is None:
        return [*cells, "none", "", ""]
    return [*cells, format_bytes(limit), share(peak, limit), _bar(peak, limit, "cyan")]


def _bar(part: int, whole: int, style: str) -> Text:
    """Draw a share as a bar that also reads in plain text."""
    filled = min(_BAR_LENGTH, round(part / whole * _BAR_LENGTH)) if whole else 0
    return Text.assemble(("#" * filled, style), ("." * (_BAR_LENGTH - filled), "dim"))


def _missing(plan: Plan) -> list[RenderableType]:
    floor = floor_words(plan)
    return [_missing_table(plan), *([line(floor)] if floor else []), *map(line, advice(plan)[:1])]


def _missing_table(plan: Plan) -> Table:
    """Tabulate needed, available and missing memory per device; with many devices, only those that lack most."""
    rows = memory_rows(plan)
    if len(rows) > MAX_DEVICE_ROWS:
        rows = sorted(rows, key=lambda row: -row[3])[:MAX_DEVICE_ROWS]
    return table(
        ["<device", "needed", "available", "missing"],
        [
            [
                shortened(name, 24),
                format_bytes(needed),
                "no limit" if available is None else format_bytes(available),
                Text(format_bytes(missing), style="bold red") if missing else "0 B",
            ]
            for name, needed, available, missing in rows
        ],
    )


def memory_rows(plan: Plan) -> list[tuple[str, int, int | None, int]]:
    """List (device, needed, available, missing) in bytes; available is None without a limit."""
    return [
        (device.name, peak, limit, 0 if limit is None else max(0, peak - limit))
        for device, peak, limit in zip(
            plan.machine.devices, plan.metrics.peak_bytes, plan.memory_limits_bytes, strict=True
        )
    ]


def _moved(plan: Plan) -> Text:
    metrics, links = plan.metrics, len({(transfer.source, transfer.destination) for transfer in plan.transfers})
    over = f" in {counted(metrics.num_transfers, 'transfer')} over {counted(links, 'link')}" if links else ""
    computing = parted(plan.machine)[0].num_devices
    used = len({op.device for op in plan.ops if op.device < computing})
    idle = "" if used == computing else f"; {used} of {computing} devices compute"
    return line(f"moved between devices: {format_bytes(metrics.bytes_moved)}{over}{idle}")


def _baselines(plan: Plan) -> list[RenderableType]:
    """Compare every baseline with the plan, in as few lines as fit."""
    if not plan.baselines:
        return [line("no baselines ran beside this solver")]
    cells = [_baseline_cell(plan, baseline) for baseline in plan.baselines]
    longest = max(len(name) + len(value) for name, value in cells) + 1
    per_row = max(1, (width() + 3) // (longest + 3))
    grid = Table.grid(padding=(0, 3, 0, 0), pad_edge=False)
    for begin in range(0, len(cells), per_row):
        chunk = cells[begin : begin + per_row]
        grid.add_row(*(f"{name}{value:>{longest - len(name)}}" for name, value in chunk))
    compared = f"{OBJECTIVE_NAMES[plan.objective]} above the plan's (! does not fit)"
    if plan.status == "infeasible":
        compared = "bytes over the memory limits"
    return [line(f"baselines, {compared}", style="dim"), grid]


def _baseline_cell(plan: Plan, baseline: BaselineOutcome) -> tuple[str, str]:
    name = shortened(baseline.name, 20)
    if baseline.metrics is None:
        return name, "no answer"
    marked = baseline.metrics.bytes_over_limit and plan.status != "infeasible"
    return name, f"{_against(plan, baseline.metrics)}{'!' if marked else ''}"


def _effort(plan: Plan) -> str:
    """Describe the search in one line."""
    spent = f"{counted(plan.evaluations, 'evaluation')}, seed {plan.seed}"
    return printable(f"took {took_words(plan)}: {spent}, stopped: {stopped_words(plan)}")
