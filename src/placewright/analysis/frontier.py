"""Records of a training step's time and memory within each of several limits: what `fit` prints, draws and returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """The best plan that was found within one limit.

    Attributes
    ----------
    limit_bytes
        The limit.
    share
        The limit as a share of the peak without one.
    peak_bytes, step_time_ns
        Peak memory and step time of the plan.
    extra_time
        The time of its reruns, as a share of the step time without a limit.
    least_time_ns, least_extra_time
        A proven lower bound on the step time of every plan within the limit, and the same as such a share.
    num_reruns, num_moves
        Number of ops that run again, and of tensors that are moved to the host's memory and back.
    """

    limit_bytes: int
    share: float
    peak_bytes: int
    step_time_ns: int
    extra_time: float
    least_time_ns: int
    least_extra_time: float
    num_reruns: int
    num_moves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A common way to run the step without a plan.

    Attributes
    ----------
    name
        "everything kept", or the number of checkpointed blocks. For a PyTorch module also the
        `activation_memory_budget` of torch.compile, whose choice is timed op by op like all others; gradient
        accumulation, where the module can be captured for smaller batches; and a stretch of ops, such as the loss, in
        parts.
    accumulation
        Number of forward and backward passes in a step.
    parts
        Number of parts in which a stretch of its ops runs; 1 where each op is whole.
    peak_bytes, step_time_ns, extra_time, num_reruns
        As in a point.
    planned_time_ns
        Step time of the best plan that was found within the rival's peak; null where none was.
    """

    name: str
    accumulation: int
    parts: int
    peak_bytes: int
    step_time_ns: int
    extra_time: float
    num_reruns: int
    planned_time_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The step time on one device for each memory limit.

    Attributes
    ----------
    schema_version
        1.
    graph, machine
        Names of the graph and of the machine.
    basis
        The basis of the times, in words.
    memory_bytes
        Memory of the device; null where that is not known.
    peak_bytes, step_time_ns
        Peak memory and step time of the captured order with everything kept.
    least_possible_bytes, least_possible_op
        A proven lower bound on the memory of any plan of whole ops, and the op that needs that much while it runs.
    least_found_bytes
        The smallest limit for which a plan was found.
    points
        One point per limit, the smallest first.
    rivals
        Common ways to run the step without a plan.
    seed
        The seed of the search.
    """

    schema_version: int
    graph: str
    machine: str
    basis: str
    memory_bytes: int | None
    peak_bytes: int
    step_time_ns: int
    least_possible_bytes: int
    least_possible_op: str
    least_found_bytes: int
    points: tuple[FrontierPoint, ...]
    rivals: tuple[Rival, ...]
    seed: int

    @property
    def least_in_parts(self) -> Rival | None:
        """The step in parts that needs least memory, if it needs less than any plan of whole ops. Otherwise None."""
        parted = (each for each in self.rivals if each.parts > 1 and each.peak_bytes < self.least_possible_bytes)
        return min(parted, key=lambda each: each.peak_bytes, default=None)
