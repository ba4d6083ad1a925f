"""What a person would try to fit a training step into a memory limit, as facts: what `fit --alternatives` prints."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.support.quantities import counted, format_bytes, format_time_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSetup:
    """One way to run a training step, on one device.

    Attributes
    ----------
    batch
        Samples of one forward and backward pass.
    accumulation
        How many passes make a step; their gradients are added up.
    dtype
        What most is computed in: that of the parameters, or "bfloat16".
    autocast
        Whether that is by `torch.autocast`: parameters, gradients and the optimizer keep their dtype.
    optimizer
        "Adam", "8-bit Adam", "SGD" or "SGD with momentum".
    planned
        Whether a plan for the limit runs each pass: with ops that run again, or each op once in another order.
    num_reruns
        How many ops run again, in one pass.
    device
        Its kind; where several of the machine have the same, its name.
    limit_bytes
        What there is.
    fits
        Whether the peak is within the limit.
    peak_bytes
        The most that is held: the sum of the next four.
    parameter_bytes
        Parameters, buffers and constants.
    gradient_bytes
        Gradients that are held at the peak. With accumulation these are all of them.
    optimizer_bytes
        The optimizer's state.
    activation_bytes
        What else is held at the peak: activations, inputs, workspaces.
    step_time_ns
        Of a step, with all of its passes.
    time_per_sample_ns
        The same by sample.
    code
        What to write for it. `model`, which returns the loss, and `batch`, the tuple of its arguments, are there.
    """

    batch: int
    accumulation: int
    dtype: str
    autocast: bool
    optimizer: str
    planned: bool
    num_reruns: int
    device: str
    limit_bytes: int
    fits: bool
    peak_bytes: int
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    step_time_ns: int
    time_per_sample_ns: float
    code: str

    @property
    def batch_words(self) -> str:
        """The batch: "32", or "8 x 4" of four passes."""
        return f"{self.batch}" if self.accumulation == 1 else f"{self.batch} x {self.accumulation}"

    @property
    def batch_and_plan(self) -> str:
        """The batch, and what a plan makes of a pass."""
        return ", ".join([f"batch {self.batch_words}", *self._planned_words()])

    @property
    def words(self) -> str:
        """What it is, in one line."""
        cast = f"{self.dtype} autocast" if self.autocast else self.dtype
        return ", ".join([f"batch {self.batch_words}", cast, self.optimizer, *self._planned_words()])

    def _planned_words(self) -> list[str]:
        return ["recompute" if self.num_reruns else "in another order"] if self.planned else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """What fits into a memory limit, and how fast it is.

    Attributes
    ----------
    schema_version
        1.
    model
        Its class.
    machine
        Whose devices are looked at, each sort once.
    samples
        Of a step, the same in all setups.
    optimizer
        That which was asked for first.
    basis
        What the times rest on, in words.
    setups
        What was tried: what fits by time per sample, then the rest by peak.
    left_out
        What was not tried, and why, one sentence each.
    seed
        Of the search for what runs again.
    """

    schema_version: int
    model: str
    machine: str
    samples: int
    optimizer: str
    basis: str
    setups: tuple[TrainingSetup, ...]
    left_out: tuple[str, ...]
    seed: int


def ranked(setups: list[TrainingSetup]) -> tuple[TrainingSetup, ...]:
    """What fits by time per sample, then the rest by how much is missing; of equals what needs less."""

    def key(setup: TrainingSetup) -> tuple[float, ...]:
        size = float(setup.peak_bytes)
        first = setup.time_per_sample_ns if setup.fits else size - setup.limit_bytes
        return (not setup.fits, first, setup.accumulation, setup.planned, size)

    return tuple(sorted(setups, key=key))


def answer_words(found: Alternatives) -> str:
    """The best of them in one line: "fastest that fits in 8.00 GiB: batch 32, bfloat16 autocast, Adam, recompute:
    1.92 ms a sample"."""
    if not found.setups:
        return "nothing was tried"
    best = found.setups[0]
    where = _where(found, best)
    if best.fits:
        time = format_time_ns(round(best.time_per_sample_ns))
        return f"fastest that fits in {format_bytes(best.limit_bytes)}: {best.words}{where}: {time} a sample"
    missing = format_bytes(best.peak_bytes - best.limit_bytes)
    return (
        f"nothing that was tried fits in {format_bytes(best.limit_bytes)}; nearest: {best.words}{where}: {missing} over"
    )


def _where(found: Alternatives, setup: TrainingSetup) -> str:
    """On which device, where there are several."""
    return f" on {setup.device}" if len({each.device for each in found.setups}) > 1 else ""


def unchanged(found: Alternatives) -> TrainingSetup | None:
    """The best of what computes what is computed now, in the module's own dtype and with the optimizer that was asked
    for first; None where nothing of it fits, or it is the best of all."""
    own = (each for each in found.setups if not each.autocast and each.optimizer == found.optimizer and each.fits)
    best = next(own, None)
    return None if best is None or best is found.setups[0] else best


def unchanged_words(found: Alternatives, setup: TrainingSetup) -> str:
    """That one, in one line."""
    time = format_time_ns(round(setup.time_per_sample_ns))
    return f"with {setup.optimizer} in {setup.dtype}: {setup.batch_and_plan}{_where(found, setup)}: {time} a sample"


def about_words(found: Alternatives) -> str:
    """What all of them have in common."""
    limits = {setup.device: format_bytes(setup.limit_bytes) for setup in found.setups}
    sizes = {setup.parameter_bytes for setup in found.setups}
    parameters = f", {format_bytes(max(sizes))} of parameters" if sizes else ""
    where = ", ".join(f"{size} on {device}" for device, size in limits.items())
    return f"{found.model}: steps of {counted(found.samples, 'sample')}{parameters}, {where}"
