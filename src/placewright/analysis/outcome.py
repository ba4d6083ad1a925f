"""The outcome of a search in words, shared by the command line and the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from pathlib import PurePath

from placewright.bounds.bound import BoundReason
from placewright.machine import Link
from placewright.machines.host import parted
from placewright.plans.one_device import TIMED_ALONE
from placewright.plans.record import BaselineOutcome, OneDevice, Plan
from placewright.rematerialization.solve import NAME as REMATERIALIZATION
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.support.quantities import counted, format_bytes, format_time_ns

#: Files may state any number; more than this many seconds is shown as this many.
_MAX_SECONDS = 1e15
_STOPPED = {
    "evaluations": "budget used",
    "time": "time limit",
    "complete": "nothing left to try",
    "optimal": "proven optimal",
    "interrupted": "interrupted, the best plan so far",
    "infeasible": "proven that nothing fits",
}
#: Why no plan can go below the bound, by the name of the bound.
_BOUND_ARGUMENTS: Mapping[BoundReason, str] = {
    "critical path": "one chain of ops, each of which needs the one before, takes that long",
    "work divided over all devices": "the devices together need that long for the work alone",
    "work of ops that must share a device": "the ops that must share one device take that long there",
    "critical path with shared work and transfers": "ops that need each other, with what must run or move "
    "between them, take that long",
    "work between earliest starts and latest finishes": "some ops come first, some last, and the work that must "
    "lie between keeps all devices busy",
    "launches and what follows the last of them": "the host launches one step after the other, and the last has to run "
    "then",
    "work divided over all devices and host threads": "the devices and the threads that launch their work need that "
    "long together",
    "largest op with its inputs, outputs and parameters": "one op alone holds that much while it runs",
    "parameters and outputs spread over all devices": "parameters and outputs, spread evenly, take that much of every "
    "device",
    "tensors alive together spread over all devices": "in every order, at some moment, this much is in use",
    "tensors that must be dropped and made again": "in every order within the memory limit, so much must be run again",
    "tensors that must be moved or made again": "within the memory limit so much must be run again or waited for",
    "proven by the solver": "the search tried all others or ruled them out",
}

#: Bounds that would be the same if transfers took no time; and the least gap for which the words say so.
_WITHOUT_TRANSFERS: frozenset[BoundReason] = frozenset(
    {
        "critical path",
        "work divided over all devices",
        "work of ops that must share a device",
        "work divided over all devices and host threads",
    }
)
_WIDE_GAP = 0.05

#: Bounds on the peak that hold only while each op runs once; a plan with reruns may beat them.
_OF_ONE_RUN_EACH = ("tensors alive together spread over all devices", "proven by the solver")

#: Names of one device's orders where they differ from the name of the method.
_ORDERS = {INPUT_ORDER.name: "captured order", TIMED_ALONE: "captured order, timed alone"}

#: Names that frameworks give to unnamed graphs: classes of PyTorch, and what exporters write into ONNX files.
_NO_NAMES = frozenset(
    {"ExportedProgram", "GraphModule", "ModuleList", "Sequential", "graph", "main", "main_graph", "torch_jit"}
    | {"torch-jit-export", "tf2onnx"}
)


def title_words(plan: Plan) -> str:
    """The graph's name. If it is a default name: the name of the model's file, or words that say that there is none."""
    if plan.graph_name not in _NO_NAMES:
        return plan.graph_name
    model = plan.configuration.get("model")
    stem = PurePath(model).name.partition(".")[0] if isinstance(model, str) else ""
    return stem or f"unnamed network ({plan.graph_name})"


def bound_words(plan: Plan) -> tuple[str, str]:
    """The claim of the lower bound, up to its value, and the argument for it: "No plan can be faster than" 31 ms: "the
    devices together need that long for the work alone". Empty where nothing is proven."""
    if plan.lower_bound == 0:
        return "", ""
    claim = "No plan can be faster than" if plan.objective == "step-time" else "No plan can do with less than"
    if plan.objective == "peak-memory" and plan.bound_reason in _OF_ONE_RUN_EACH:
        claim = "No plan in which each op runs once can do with less than"
    reason = _BOUND_ARGUMENTS[plan.bound_reason]
    several = plan.objective == "peak-memory" and plan.machine.num_devices > 1 and "device" not in reason
    return claim, f"{reason}, even when all devices share it" if several else reason


def weak_bound_words(plan: Plan) -> str:
    """A warning that the gap may come from the bound rather than the plan. Empty where the bound counts transfers, the
    gap is small, links are free or the plan is infeasible or optimal."""
    machine = parted(plan.machine)[0]
    pairs = permutations(range(machine.num_devices), 2)
    if all(machine.links[source][destination] == Link() for source, destination in pairs):
        return ""
    if plan.status != "feasible" or plan.bound_reason not in _WITHOUT_TRANSFERS or plan.gap <= _WIDE_GAP:
        return ""
    return "the bound counts no transfers between devices: much of the gap may be its own"


def proven_infeasible(plan: Plan) -> bool:
    """True if a bound proves that no plan keeps the memory limits."""
    return plan.status == "infeasible" and plan.stopped_because == "infeasible"


def verdict_words(plan: Plan) -> str:
    """Say for an infeasible plan whether it is proven that no plan fits."""
    return "no plan can fit (proven)" if proven_infeasible(plan) else "no plan found that fits"


def floor_words(plan: Plan) -> str:
    """The least memory of every plan; empty where nothing is proven."""
    if not plan.memory_floor_bytes:
        return ""
    if plan.memory_floor_op:
        least = format_bytes(plan.memory_floor_bytes)
        return f"every plan needs at least {least} while '{plan.memory_floor_op}' runs, whatever runs again"
    return f"every plan needs at least {format_bytes(plan.memory_floor_bytes)} on its fullest device"


def stopped_words(plan: Plan) -> str:
    """The reason why the search ended."""
    return _STOPPED.get(plan.stopped_because, plan.stopped_because)


def took_words(plan: Plan) -> str:
    """The duration of the search."""
    return format_time_ns(round(min(max(plan.seconds, 0.0), _MAX_SECONDS) * 1e9))


def found_by_words(plan: Plan) -> str:
    """The method that found the plan, its variant in parentheses."""
    method, _, variant = plan.found_by.partition(": ")
    return f"{method} ({variant})" if variant else method


def device_words(plan: Plan, device: int) -> str:
    """The name and kind of a device: "gpu0 (h100)"."""
    found = plan.machine.devices[device]
    return found.name if found.kind == found.name else f"{found.name} ({found.kind})"


def one_device_words(plan: Plan, one: OneDevice) -> str:
    """The single device that the plan is compared with, and its order: "gpu0 (h100), captured order"."""
    apart = f" but for {counted(one.num_elsewhere, 'op')} that must run elsewhere" if one.num_elsewhere else ""
    order = _ORDERS.get(one.order, f"{one.order} order")
    if again := again_words(one):
        return f"{device_words(plan, one.device)}{again}"
    return f"{device_words(plan, one.device)}{apart}, {order}"


def alone_words(plan: Plan, one: OneDevice) -> str:
    """The single device, for the end of a comparison: "gpu0 alone", "gpu0 alone with recomputation"."""
    return f"{plan.machine.devices[one.device].name} alone{again_words(one)}"


def again_words(one: OneDevice) -> str:
    """The means by which one device keeps its limit: " with recomputation", or " with recomputation or moves" to the
    host. Empty where each op runs once."""
    if one.order != REMATERIALIZATION:
        return ""
    # On one device, the only transfers are moves to and from the host.
    return f" with recomputation{' or moves' if one.metrics.num_transfers else ''}"


def rival_words(plan: Plan) -> Iterator[str]:
    """Yield what is known to be faster than the plan, and, for a training step that no accelerator holds, the common
    remedy that cannot be compared without the model."""
    one, machine = plan.one_device, parted(plan.machine)[0]
    if one is None or machine.num_devices == 1:
        return
    fits_alone = one.metrics.bytes_over_limit == 0 and plan.objective == "step-time" and not one.num_elsewhere
    if fits_alone and one.metrics.fitness(plan.objective)[:2] < plan.metrics.fitness(plan.objective)[:2]:
        better = "fits" if plan.metrics.bytes_over_limit else "is faster"
        yield f"{alone_words(plan, one)} {better}: plan for {machine.devices[one.device].kind} and no other device"
    kept_by = [
        plan.memory_limits_bytes[index]
        for index, device in enumerate(machine.devices)
        if not device.is_cpu or all(each.is_cpu for each in machine.devices)
    ]
    held = one.order != REMATERIALIZATION and one.metrics.bytes_over_limit == 0
    held = held and any(limit is None or limit >= one.metrics.peak_memory_bytes for limit in kept_by)
    if not held and any(op.phase == "backward" for op in plan.ops):
        yield (
            "smaller batches with gradient accumulation on one device are not compared, they need the model: "
            "placewright fit MODEL"
        )


def gain_words(plan: Plan) -> str:
    """Compare the plan with the best single device: "12.3% less than gpu0 alone". Empty where there is nothing to say:
    the machine has one device and the order changes nothing, no comparison is known, or the plan is infeasible."""
    one = plan.one_device
    if one is None or plan.status == "infeasible":
        return ""
    if (plan.reruns or plan.moves) and parted(plan.machine)[0].num_devices == 1:
        return rerun_words(plan)
    if one.metrics.bytes_over_limit:
        return "where no order tried fits one device"
    if plan.gain is None or (plan.machine.num_devices == 1 and plan.gain == 0):
        return ""
    alone = "the captured order" if plan.machine.num_devices == 1 else alone_words(plan, one)
    if plan.gain == 0:
        return f"no gain over {alone}"
    return f"{share_words(plan.gain)} {'less' if plan.gain > 0 else 'more'} than {alone}"


def rerun_words(plan: Plan) -> str:
    """Say for a plan with reruns or moves how many there are, what they gain and cost, and the least that they must
    cost."""
    ways = [f"running {counted(len(plan.reruns), 'op')} again"] if plan.reruns else []
    weights = sum(move.leaves_before is None for move in plan.moves)
    if moved := len(plan.moves) - weights:
        ways.append(f"moving {counted(moved, 'tensor')} to the host")
    if weights:
        ways.append(f"bringing {counted(weights, 'weight')} from the host")
    runs = f"by {' and '.join(ways)}"
    if plan.gain is not None and plan.extra_time is not None:
        gain = f"{share_words(plan.gain)} less than the captured order {runs}"
        return f"{gain}, for {_more_words(plan.extra_time)} time"
    runs = f"fits {runs}"
    if plan.extra_time is None:
        return runs
    least = plan.least_extra_time
    proven = f", at least {share_words(least)} (proven)" if least else ""
    return f"{runs}: {_more_words(plan.extra_time)} time than without the limit{proven}"


def _more_words(extra: float) -> str:
    """A cost in words: "12.3% more", or "no more"."""
    return f"{share_words(extra)} more" if extra > 0 else "no more"


def split_words(plan: Plan) -> str:
    """The part of a step that runs in parts: "the loss runs in 8 parts". Empty where each op runs whole."""
    match plan.configuration.get("split"):
        case {"stretch": "loss", "parts": int(parts)}:
            return f"the loss runs in {parts:,} parts"
        case {"stretch": "batch", "parts": int(parts)}:
            return f"the samples run in {parts:,} parts, one after the other"
    return ""


def limit_words(plan: Plan) -> str:
    """Say what runs in parts, and what changes within the memory limit: on one device, what a given limit changes; on
    several, what runs again or is moved. Empty where nothing is to be said; an infeasible plan yields the parts
    alone."""
    one, split = plan.one_device, split_words(plan)
    several, changed = parted(plan.machine)[0].num_devices > 1, ""
    if plan.status == "infeasible":
        return split
    limited = several or bool(plan.configuration.get("memory_limit"))
    if limited and (plan.reruns or plan.moves):
        changed = rerun_words(plan)
    elif limited and not several and not split and one is not None and one.order == "input-order":
        needs = format_bytes(one.metrics.peak_memory_bytes)
        changed = f"the memory limit changes nothing: the captured order needs {needs}"
    return "; ".join(filter(None, (split, changed)))


def share_words(change: float) -> str:
    """The size of a change: "12.3%"; "under 0.1%" instead of "0.0%"."""
    return f"{abs(change):.1%}" if abs(change) >= 0.0005 else "under 0.1%"


def captured_order(plan: Plan) -> tuple[int, BaselineOutcome] | None:
    """Return the captured order on the first named device that holds it, as (device, outcome); None if that device is
    the best single one. This is how the graph runs when nobody plans."""
    found = next((b for b in plan.baselines if b.name == "input-order" and b.metrics is not None), None)
    if found is None or found.metrics is None:
        return None
    busy = found.metrics.busy_ns
    device = max(range(len(busy)), key=lambda device: busy[device])
    return None if plan.one_device is not None and plan.one_device.device == device else (device, found)


def best_baseline(plan: Plan) -> BaselineOutcome | None:
    """Return the baseline nearest to the plan; None when none ran."""
    answers = [(b.metrics.fitness(plan.objective), i) for i, b in enumerate(plan.baselines) if b.metrics is not None]
    return plan.baselines[min(answers)[1]] if answers else None
