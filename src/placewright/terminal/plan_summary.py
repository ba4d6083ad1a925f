"""What `--json` prints of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from placewright.basis import basis_words
from placewright.outcome import best_baseline
from placewright.plan import BaselineOutcome, OneDevice, Plan
from placewright.terminal.plan_table import memory_rows


def plan_summary(plan: Plan, written: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Times in ns, memory in bytes; gap is null when the bound is 0 or the plan infeasible."""
    return {
        "schema_version": 1,
        "graph": plan.graph_name,
        "graph_fingerprint": plan.graph_fingerprint,
        "num_graph_ops": plan.num_graph_ops,
        "machine": plan.machine.name,
        "objective": plan.objective,
        "status": plan.status,
        "metrics": asdict(plan.metrics),
        "basis": basis_words(plan.time_sources, plan.machine),
        "time_sources": None if plan.time_sources is None else asdict(plan.time_sources),
        "before": None if plan.one_device is None else _one_device(plan, plan.one_device),
        "input_order": _outcome(next((b for b in plan.baselines if b.name == "input-order"), None)),
        "gain": plan.gain,
        "best_baseline": _outcome(best_baseline(plan)),
        "baselines": [_outcome(baseline) for baseline in plan.baselines],
        "lower_bound": plan.lower_bound,
        "bound_reason": plan.bound_reason,
        "memory_floor_bytes": plan.memory_floor_bytes,
        "gap": None if plan.status == "infeasible" or plan.gap == float("inf") else plan.gap,
        "devices": [
            {
                "name": name,
                "busy_ns": busy,
                "needed_bytes": needed,
                "available_bytes": available,
                "missing_bytes": missing,
            }
            for (name, needed, available, missing), busy in zip(memory_rows(plan), plan.metrics.busy_ns, strict=True)
        ],
        "solver": plan.solver,
        "found_by": plan.found_by,
        "seed": plan.seed,
        "evaluations": plan.evaluations,
        "seconds": plan.seconds,
        "stopped_because": plan.stopped_because,
        "warnings": list(plan.warnings),
        "written": dict(written or {}),
        "version": plan.version,
    }


def _outcome(baseline: BaselineOutcome | None) -> dict[str, Any] | None:
    return None if baseline is None else asdict(baseline)


def _one_device(plan: Plan, one: OneDevice) -> dict[str, Any]:
    return asdict(one) | {"device": plan.machine.devices[one.device].name}
