"""The fields of a plan that `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from placewright.analysis.basis import basis_words
from placewright.analysis.outcome import best_baseline
from placewright.costs.estimate import TimeSources
from placewright.plans.record import BaselineOutcome, Plan
from placewright.problem.objective import Metrics, Objective, Status
from placewright.support.records import same_named
from placewright.terminal.plan_table import memory_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSummary:
    """One device of a plan.

    Attributes
    ----------
    name
        Name of the device.
    busy_ns
        Time in which it computes.
    needed_bytes
        Its peak.
    available_bytes
        Its limit; null for none.
    missing_bytes
        Peak minus limit where positive.
    """

    name: str
    busy_ns: int
    needed_bytes: int
    available_bytes: int | None
    missing_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """The output of `plan --json` and `show --json`.

    Attributes
    ----------
    schema_version
        1.
    graph, graph_fingerprint, num_graph_ops, machine
        The graph and the machine of the plan; the number of ops includes views.
    objective, status
        As in the plan.
    metrics
        The costs of the plan.
    basis
        The basis of the times, in words.
    time_sources
        Number of ops by the source of their time; null where that is not known.
    before
        Metrics of the best single device, as `one_device` in a plan but with the device's name; null where they are
        not known.
    input_order
        Outcome of the captured order on one device; null where that did not run.
    gain
        Share of the objective saved compared with the best single device, negative where that is better; null when no
        single device fits.
    best_baseline, baselines
        Outcomes of the baselines.
    lower_bound, bound_reason
        A proven bound on the objective, in ns or bytes, and the name of that bound.
    memory_floor_bytes
        A lower bound on the memory that every plan needs on its fullest device.
    memory_floor_op
        The op that needs it whatever other ops run again; empty where no ops were to run again.
    num_reruns, num_moves
        Number of ops that run again, and of tensors that are moved to the host's memory and back.
    extra_time, least_extra_time
        Extra time for these, and its proven lower bound, as shares of the time of the captured order; null where there
        are none, and where nothing is proven.
    gap
        Upper bound on the relative gap to the optimum: value / lower_bound - 1; null when the bound is 0 or the plan
        infeasible.
    devices
        Load and memory of each device.
    solver, found_by, seed, evaluations, seconds, stopped_because, warnings, version
        As in the plan.
    written
        Names of the written files, by path.
    """

    schema_version: int
    graph: str
    graph_fingerprint: str
    num_graph_ops: int
    machine: str
    objective: Objective
    status: Status
    metrics: Metrics
    basis: str
    time_sources: TimeSources | None
    before: dict[str, Any] | None
    input_order: BaselineOutcome | None
    gain: float | None
    best_baseline: BaselineOutcome | None
    baselines: tuple[BaselineOutcome, ...]
    lower_bound: int
    bound_reason: str
    memory_floor_bytes: int
    memory_floor_op: str
    num_reruns: int
    num_moves: int
    extra_time: float | None
    least_extra_time: float | None
    gap: float | None
    devices: tuple[DeviceSummary, ...]
    solver: str
    found_by: str
    seed: int
    evaluations: int
    seconds: float
    stopped_because: str
    warnings: tuple[str, ...]
    written: dict[str, str]
    version: str


def plan_summary(plan: Plan, written: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the fields of `PlanSummary`. written: names of the written files, by path."""
    one = plan.one_device
    own = {
        "schema_version": 1,
        "graph": plan.graph_name,
        "machine": plan.machine.name,
        "basis": basis_words(plan.time_sources, plan.machine),
        "before": None if one is None else asdict(one) | {"device": plan.machine.devices[one.device].name},
        "input_order": next((b for b in plan.baselines if b.name == "input-order"), None),
        "best_baseline": best_baseline(plan),
        "num_reruns": len(plan.reruns),
        "num_moves": len(plan.moves),
        "gap": None if plan.status == "infeasible" or plan.gap == float("inf") else plan.gap,
        "devices": tuple(
            DeviceSummary(
                name=name, busy_ns=busy, needed_bytes=needed, available_bytes=available, missing_bytes=missing
            )
            for (name, needed, available, missing), busy in zip(memory_rows(plan), plan.metrics.busy_ns, strict=True)
        ),
        "written": dict(written or {}),
    }
    return asdict(PlanSummary(**{**same_named(PlanSummary, plan), **own}))
