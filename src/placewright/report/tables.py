"""The lower half of the page: critical path, biggest tensors, longest ops, and provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placewright.analysis.critical_path import Run, Step, critical_path, runs_of, shares_of
from placewright.analysis.outcome import found_by_words, stopped_words, took_words
from placewright.execution.comparison import RunComparison
from placewright.plans.record import Buffer, Plan, ScheduledOp
from placewright.report.markup import Markup, cell, element, joined, number, table
from placewright.support.quantities import counted, format_bytes, format_time_ns

MAX_ROWS = 20
MAX_RUNS = 200
#: The number of rows that the style sheet prints.
RUNS_PRINTED = 30
_RUNS_IN_VIEW = 12


def critical_path_section(plan: Plan) -> Markup:
    """Show the step time by sort of run, and the critical path run by run."""
    runs = runs_of(critical_path(plan))
    shares = shares_of(runs)
    total = sum(shares.values()) or 1
    parts = [
        element("span", class_=f"part {what}", style=f"width:{time / total:.2%}")
        for what, time in shares.items()
        if time
    ]
    legend = [
        element(
            "li",
            element("span", class_=f"swatch {what}"),
            f"{what} ",
            element("b", f"{time / total:.1%}"),
            f" {format_time_ns(time)}",
        )
        for what, time in shares.items()
        if time or what != "launching"
    ]
    return joined(
        [
            element("div", *parts, class_="stack"),
            element("ul", *legend, class_="legend"),
            *_runs_notes(len(runs)),
            element("div", _runs_table(plan, runs, total), class_="scroll tall"),
        ]
    )


def _runs_notes(num_runs: int) -> list[Markup]:
    """State the number of runs: the table scrolls on screen, and only its beginning is printed."""
    if num_runs <= _RUNS_IN_VIEW:
        return []
    notes = [element("p", f"{num_runs:,} runs in the order of time.", class_="muted note on-screen")]
    if num_runs > RUNS_PRINTED:
        printed = f"First {RUNS_PRINTED} of {num_runs:,} runs in the order of time."
        notes.append(element("p", printed, class_="muted note on-paper"))
    return notes


def _runs_table(plan: Plan, runs: Sequence[Run], total: int) -> Markup:
    """Tabulate runs in the order of time; of very many, only the longest."""
    listed = set(sorted(range(len(runs)), key=lambda index: -runs[index].busy_ns)[:MAX_RUNS])
    rows = [_run_row(plan, run, total) for index, run in enumerate(runs) if index in listed]
    if len(runs) > MAX_RUNS:
        rows.append(element("tr", cell(f"and {len(runs) - MAX_RUNS:,} shorter runs", colspan=6, class_="muted")))
    headings = [
        ("Starts", "number"),
        ("Where", ""),
        ("Steps", "number"),
        ("From … to", ""),
        ("Takes", "number"),
        ("Share", "number"),
    ]
    return table(headings, rows, "Critical path, run by run")


def _run_row(plan: Plan, run: Run, total: int) -> Markup:
    devices = plan.machine.devices
    where = devices[run.where].name
    if run.what == "transfer":
        where = f"{where} → {devices[run.destination].name}"
    ends: list[object] = [_step_button(run.steps[0])] if run.steps else []
    if len(run.steps) > 1:
        ends += [" … ", _step_button(run.steps[-1])]
    what = element("span", run.what, class_="muted")
    return element(
        "tr",
        number(format_time_ns(run.start_ns)),
        cell(element("span", class_=f"swatch {run.what}"), where, " ", what, class_="where"),
        number(f"{len(run.steps):,}" if run.steps else "–"),
        cell(*ends, class_="names"),
        number(format_time_ns(run.busy_ns)),
        number(f"{run.busy_ns / total:.1%}"),
    )


def _step_button(step: Step) -> Markup:
    """Build a button with the step's name, which shows the step in the timeline."""
    name = step.name if isinstance(step, ScheduledOp) else step.tensor
    return element("button", name, type="button", class_="step", data_position=step.position, title=name)


def biggest_tensors(plan: Plan) -> Markup:
    """Tabulate the biggest buffers: tensors on their own device and residents, with the devices that hold copies."""
    devices_of: dict[str, set[int]] = {}
    for buffer in plan.buffers:
        if buffer.kind != "workspace":
            devices_of.setdefault(buffer.name, set()).add(buffer.device)
    originals: dict[str, Buffer] = {}
    for buffer in plan.buffers:
        if buffer.kind in ("tensor", "resident"):
            originals.setdefault(buffer.name, buffer)
    chosen = sorted(originals.values(), key=lambda b: (-b.size_bytes, b.name))[:MAX_ROWS]
    ops = {op.name: op for op in plan.ops}
    rows = [_tensor_row(plan, buffer, ops.get(buffer.op), sorted(devices_of[buffer.name])) for buffer in chosen]
    headings = [("Tensor", ""), ("Size", "number"), ("On", ""), ("Lives", "number")]
    return table(headings, rows, "Biggest tensors")


def _tensor_row(plan: Plan, buffer: Buffer, op: ScheduledOp | None, devices: Sequence[int]) -> Markup:
    lives = "always" if buffer.kind == "resident" else format_time_ns(buffer.freed_ns - buffer.allocated_ns)
    name: list[object] = [buffer.name]
    if op is not None:
        button = element("button", buffer.name, type="button", class_="step", data_position=op.position)
        name = [button, _module_of(op)]
    return element(
        "tr",
        cell(*name, class_="names", title=buffer.name),
        number(format_bytes(buffer.size_bytes)),
        cell(", ".join(plan.machine.devices[device].name for device in devices)),
        number(lives),
    )


def _module_of(op: ScheduledOp) -> Markup | str:
    return element("span", op.module, class_="muted") if op.module else ""


def longest_ops(plan: Plan) -> Markup:
    """Tabulate the longest ops."""
    chosen = sorted(plan.ops, key=lambda op: (op.start_ns - op.finish_ns, op.position))[:MAX_ROWS]
    step_time = plan.metrics.step_time_ns or 1
    rows = [
        element(
            "tr",
            cell(_step_button(op), _module_of(op), class_="names"),
            cell(op.kind, class_="where-wide"),
            cell(plan.machine.devices[op.device].name),
            number(format_time_ns(op.finish_ns - op.start_ns)),
            cell(f"{(op.finish_ns - op.start_ns) / step_time:.1%}", class_="number where-wide"),
        )
        for op in chosen
    ]
    headings = [
        ("Op", ""),
        ("Kind", "where-wide"),
        ("On", ""),
        ("Takes", "number"),
        ("Of the step", "number where-wide"),
    ]
    return table(headings, rows, "Longest ops")


def provenance(plan: Plan) -> Markup:
    """List the inputs, options and software of the plan, so that it can be reproduced."""
    facts = {
        "found by": f"{found_by_words(plan)}, {counted(plan.evaluations, 'evaluation')} in {took_words(plan)}",
        "stopped": stopped_words(plan),
        "solver": plan.solver,
        "seed": str(plan.seed),
        "lower bound": plan.bound_reason,
        "placewright": plan.version or "unknown version",
        "graph": plan.graph_name,
        "graph fingerprint": plan.graph_fingerprint[:16],
        "machine": plan.machine.name,
        "control dependencies": plan.control,
        "options": _options(plan.configuration),
    }
    return element("dl", *(joined([element("dt", key), element("dd", value)]) for key, value in facts.items()))


def _options(configuration: Mapping[str, Any]) -> str:
    """List the options that were given: "memory limit 1GiB; pins op0 = 1"."""
    given = {key: value for key, value in configuration.items() if value not in (None, "", [], {}, ())}
    return "; ".join(f"{key.replace('_', ' ')} {_option(value, key)}" for key, value in given.items()) or "defaults"


def _option(value: Any, key: str = "") -> str:
    if isinstance(value, int) and key == "memory_limit":
        return format_bytes(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_option(member, key)}" for name, member in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(
            f"({_option(member)})" if isinstance(member, list | tuple) else str(member) for member in value
        )
    return f"{value:,}" if isinstance(value, int) else str(value)


def timeline_note(plan: Plan, run: RunComparison | None = None) -> str:
    """Explain how the timeline shows transfers and launches under the machine's model, and measured times."""
    launched = plan.machine.launch == "host-thread" and max(plan.machine.hosts) >= 0
    host = "The host launches one step after another; a launch has the colour of its op." if launched else ""
    measured = "" if run is None else "Below each device stands when its ops ran, medians over steps."
    return " ".join(note for note in (_transfers_note(plan), host, measured) if note)


def _transfers_note(plan: Plan) -> str:
    if not plan.transfers:
        return ""
    if plan.machine.transfer_model == "blocking":
        return "Transfers occupy both devices and stand on both lanes, in grey."
    return "Links stand below the device they start from."
