"""What a training step takes within each memory limit, as facts: what `fit` prints, draws and returns."""

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
        What the plan takes.
    extra_time
        What its reruns cost, as a share of the step time without a limit.
    least_time_ns, least_extra_time
        What every plan within the limit takes at least, a proven bound, and as such a share.
    num_reruns, num_moves
        How many ops run again, and how many tensors are moved to the host's memory and back.
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
    """What people do without a plan.

    Attributes
    ----------
    name
        "everything kept"; how many blocks are checkpointed; of a PyTorch module also the `activation_memory_budget` of
        torch.compile, whose choice is timed op by op as all else here is, and gradient accumulation, where the module
        can be captured for smaller batches, and a stretch of ops, such as the loss, in parts.
    accumulation
        How many forward and backward passes make a step.
    parts
        In how many parts a stretch of its ops runs; 1 where each op is whole.
    peak_bytes, step_time_ns, extra_time, num_reruns
        As of a point.
    planned_time_ns
        What the best plan that was found within its peak takes; null where none was.
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
    """Limit against step time on one device.

    Attributes
    ----------
    schema_version
        1.
    graph, machine
        What is planned, and where.
    basis
        What the times rest on, in words.
    memory_bytes
        What the device has; null where that is not known.
    peak_bytes, step_time_ns
        Of the captured order with everything kept.
    least_possible_bytes, least_possible_op
        No plan of whole ops fits into less (proven), since this op needs that much while it runs.
    least_found_bytes
        The smallest limit for which a plan was found.
    points
        The limits, the smallest first.
    rivals
        What people do without a plan.
    seed
        Of the search.
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
        """The step in parts that needs least, where that is less than any plan of whole ops needs; else None."""
        parted = (each for each in self.rivals if each.parts > 1 and each.peak_bytes < self.least_possible_bytes)
        return min(parted, key=lambda each: each.peak_bytes, default=None)
