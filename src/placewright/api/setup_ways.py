"""A way to run a training step: its description, the memory it holds and its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from placewright.analysis.alternatives import TrainingSetup
from placewright.api.pass_captures import LORA_RANK, Trained
from placewright.api.setup_code import plain_step, planned_step, prepared
from placewright.api.step_optimizers import OwnOptimizer
from placewright.graph import Graph
from placewright.importers.forward_backward import (
    ForwardBackward,
    held_at_peak,
    in_eager,
    last_pass,
    states_of,
    training_step,
)
from placewright.machine import Machine
from placewright.machines.host import HostMemory, usual_host
from placewright.problem import Problem, make_problem
from placewright.problem.objective import Metrics
from placewright.rematerialization.blocks import checkpointed, module_blocks, with_inputs_held
from placewright.rematerialization.solve import in_order, with_reruns
from placewright.search.run.result import measure
from placewright.support.quantities import counted

CHANGES = {
    "own": "",
    "bfloat16": "weights in bfloat16",
    "lora": f"adapters of rank {LORA_RANK} alone (LoRA)",
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """A device that is considered. machine: with this device alone. name: its kind, or its own where kinds repeat.

    optimizers: those tried there, the user's first.
    """

    machine: Machine
    limit_bytes: int
    name: str
    optimizers: tuple[OwnOptimizer, ...]

    @property
    def is_cpu(self) -> bool:
        """True if the device is a CPU."""
        return self.machine.devices[0].is_cpu

    @property
    def fused(self) -> OwnOptimizer:
        """The user's optimizer with a fused step, which makes no tensors."""
        return next(each for each in self.optimizers if each.stepping == "fused" and not each.changes)

    @cached_property
    def host(self) -> HostMemory | None:
        """The memory that states can lie in; None where nothing is known of its links."""
        return usual_host(self.machine)


@dataclass(frozen=True, kw_only=True)
class Way:
    """The properties that setups of one capture share.

    for_plans: the passes as plans hold them. split: the stretch that runs in parts, such as "loss in 8 parts".
    """

    place: Place
    for_plans: ForwardBackward
    trained: Trained
    batch: int
    accumulation: int
    dtype: str
    autocast: bool
    split: str = ""

    @cached_property
    def passes(self) -> ForwardBackward:
        """The passes as PyTorch holds them in eager."""
        return in_eager(self.for_plans, on_cpu=self.place.is_cpu)

    @property
    def optimizers(self) -> list[OwnOptimizer]:
        """The optimizers that are tried. Adapters have small gradients and states, whatever optimizer steps them."""
        place = self.place
        found = [place.fused] if self.trained == "lora" else list(place.optimizers)
        if self.trained == "bfloat16":
            found = [each for each in found if each is place.fused or each.changes or each.is_apart]
        return [
            each
            for each in found
            if not (each.in_backward and self.accumulation > 1) and not (each.offloaded and place.host is None)
        ]

    @property
    def other_parts_bytes(self) -> int:
        """Bytes that a training loop holds of the batch besides the part of one pass."""
        graph = self.for_plans.graph
        given = (graph.tensors[tensor] for op in graph.ops if op.kind == "input" for tensor in op.outputs)
        return (self.accumulation - 1) * sum(tensor.size_bytes for tensor in given)

    @property
    def rules(self) -> str | None:
        """The device whose autocast rules the capture has; None without autocast."""
        return rules_of(self.place, autocast=self.autocast)

    @property
    def autocast_on(self) -> str:
        """The device type that `torch.autocast` takes; empty without autocast."""
        return {None: "", "cpu": "cpu", "gpu": "cuda"}[self.rules]

    def problem(self, passes: ForwardBackward, optimizer: OwnOptimizer) -> Problem:
        """The problem of the last pass, with the optimizer."""
        how, offloaded = optimizer.stepping, optimizer.offloaded
        if self.accumulation > 1:
            return self.limited(last_pass(passes, optimizer.keeps, how, offloaded=offloaded))
        in_backward = optimizer.in_backward
        return self.limited(
            training_step(passes, optimizer.keeps, stepping=how, in_backward=in_backward, offloaded=offloaded)
        )

    def limited(self, graph: Graph) -> Problem:
        """The problem of a graph within the limit."""
        limit = max(0, self.place.limit_bytes - self.other_parts_bytes)
        return replace(make_problem(graph, self.place.machine), memory_limits_bytes=(limit,))

    @cached_property
    def _pass_times(self) -> tuple[int, int]:
        """Times in ns of a first pass, and of one whose gradients are added to earlier ones."""
        problems = map(self.limited, (self.passes.graph, last_pass(self.passes, None)))
        first, further = (measure(problem, in_order(problem)).step_time_ns for problem in problems)
        return first, further

    def step_time_ns(self, runs: Runs, plain: Metrics, optimizer: OwnOptimizer) -> int:
        """The time of a step with all of its passes, in ns. plain: of the last one without reruns."""
        moving = self._moving_ns(optimizer) if optimizer.offloaded else 0
        if self.accumulation == 1:
            return runs.metrics.step_time_ns + moving
        first, further = self._pass_times
        stepping = plain.step_time_ns - further
        one = runs.metrics.step_time_ns - stepping
        return one * self.accumulation + stepping - (further - first) + moving

    def _moving_ns(self, optimizer: OwnOptimizer) -> int:
        """The time to move all states from the host and back, in ns, as if nothing ran meanwhile."""
        graph, host = self.for_plans.graph, self.place.host
        assert host is not None
        states = [
            state.size_bytes
            for parameter, _ in self.for_plans.gradients
            for state in states_of(optimizer.keeps, graph.tensors[parameter])
        ]
        return sum(link.transfer_time_ns(size) for link in (host.there[0], host.back[0]) for size in states)


def rules_of(place: Place, *, autocast: bool) -> str | None:
    """The device whose rules of autocast a capture for the place has; None without autocast."""
    if not autocast:
        return None
    return "cpu" if place.is_cpu else "gpu"


@dataclass(frozen=True, kw_only=True)
class Runs:
    """A last pass as it runs. graph: with each run as an op, in order. blocks: checkpointed modules."""

    graph: Graph
    metrics: Metrics
    blocks: tuple[str, ...] = ()
    is_planned: bool = False
    num_reruns: int = 0


def without_a_plan(problem: Problem, plain: Metrics) -> Iterator[Runs]:
    """Yield the runs as in plain PyTorch, and with the usual checkpointed blocks where that needs less memory."""
    graph = problem.graph
    yield Runs(graph=graph, metrics=plain)
    blocks = module_blocks(graph)
    if len(blocks) > 1 and (reruns := checkpointed(problem, list(blocks.values()))):
        again = with_inputs_held(with_reruns(problem, reruns), graph, list(blocks.values()))
        metrics = measure(again, in_order(again))
        if metrics.peak_memory_bytes < plain.peak_memory_bytes:
            yield Runs(graph=again.graph, metrics=metrics, blocks=tuple(blocks), num_reruns=len(reruns))


def setup(way: Way, optimizer: OwnOptimizer, runs: Runs, plain: Metrics) -> TrainingSetup:
    """The record of a way with an optimizer. plain: the metrics without reruns."""
    limit, peak = way.place.limit_bytes, runs.metrics.peak_memory_bytes + way.other_parts_bytes
    step_time_ns = way.step_time_ns(runs, plain, optimizer)
    sizes = _held(runs, way, peak)
    return TrainingSetup(
        batch=way.batch,
        accumulation=way.accumulation,
        dtype=way.dtype,
        autocast=way.autocast,
        optimizer=optimizer.name,
        changes=", ".join(filter(None, (CHANGES[way.trained], optimizer.changes))),
        num_checkpointed=len(runs.blocks),
        split=way.split,
        planned=runs.is_planned,
        num_reruns=runs.num_reruns,
        in_backward=optimizer.in_backward,
        offloaded=optimizer.offloaded,
        device=way.place.name,
        limit_bytes=limit,
        fits=peak <= limit,
        peak_bytes=peak,
        **sizes,
        step_time_ns=step_time_ns,
        time_per_sample_ns=step_time_ns / (way.batch * way.accumulation),
        code="\n".join(_code(way, optimizer, runs, limit - sizes["optimizer_bytes"] - way.other_parts_bytes)),
    )


def _code(way: Way, optimizer: OwnOptimizer, runs: Runs, without_states: int) -> Iterator[str]:
    yield f"# a batch of {counted(way.batch * way.accumulation, 'sample')}"
    yield from prepared(way.trained, runs.blocks, way.autocast_on, optimizer)
    is_split = bool(way.split)
    if not runs.is_planned:
        yield from plain_step(way.accumulation)
    elif way.accumulation == 1:
        yield from planned_step(1, way.place.limit_bytes, with_optimizer=True, split=is_split)
    else:
        # The states of an optimizer that steps outside of the plan come on top of what `fit` counts.
        yield from planned_step(way.accumulation, without_states, with_optimizer=False, split=is_split)


def _held(runs: Runs, way: Way, peak: int) -> dict[str, int]:
    """Split the peak by what it is made of."""
    graph = runs.graph
    sizes = resident(graph, way)
    # Each op of the optimizer reads a parameter, then the sum of its gradients.
    sums = {graph.base_of[op.inputs[1]] for op in graph.ops if op.kind == "optimizer"}
    _, alive = held_at_peak(graph)
    sizes["gradient_bytes"] = sum(graph.tensors[tensor].held_bytes for tensor in sums & alive)
    left = peak
    for name, size in sizes.items():
        sizes[name] = min(size, left)
        left -= sizes[name]
    return {**sizes, "activation_bytes": left}


def resident(graph: Graph, way: Way) -> dict[str, int]:
    """Count bytes that are always held: tensors that the passes read and no op makes, and the optimizer's states."""
    own = {tensor.name for tensor in way.passes.graph.tensors if tensor.role != "activation"}
    resident = [tensor for tensor in graph.tensors if tensor.role != "activation"]
    states = {tensor for op in graph.ops if op.kind == "optimizer" for tensor in op.inputs[2:]}
    return {
        "parameter_bytes": sum(tensor.held_bytes for tensor in resident if tensor.name in own),
        "optimizer_bytes": sum(graph.tensors[tensor].held_bytes for tensor in states),
    }
