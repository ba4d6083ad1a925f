"""Records and sentences about the ways to fit a training step into a memory limit: the answer that `fit` prints."""

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
        Number of passes in a step; their gradients are added up.
    dtype
        The dtype of most of the computation: that of the parameters, or "bfloat16".
    autocast
        True if `torch.autocast` sets that dtype: parameters, gradients and the optimizer keep their own.
    optimizer
        "AdamW", "fused AdamW" where the given optimizer is not fused, "8-bit Adam" and so on.
    changes
        Changes to what is trained: "states in 8 bits", "weights in bfloat16", "adapters of rank 16 alone (LoRA)"; empty
        where there are none.
    num_checkpointed
        Number of checkpointed blocks.
    split
        The ops that run in parts, such as "loss in 8 parts"; empty where all run whole.
    planned
        True if a plan for the limit runs each pass: with ops in parts or run again, or each op once in another order.
    num_reruns
        Number of ops that run again in one pass.
    in_backward
        True if the optimizer steps each parameter within backward, so that no gradient stays.
    offloaded
        True if the optimizer's states stay in the host's memory except during the step of their parameter.
    device
        The kind of the device; its name where several devices of the machine have the same kind.
    limit_bytes
        The memory limit.
    fits
        True if the peak is within the limit.
    peak_bytes
        The most memory held at any time: the sum of the next four.
    parameter_bytes
        Parameters, buffers and constants.
    gradient_bytes
        Gradients held at the peak. With accumulation these are all of them.
    optimizer_bytes
        The optimizer's state.
    activation_bytes
        Everything else held at the peak: activations, inputs, workspaces, and temporary tensors of an optimizer's step.
    step_time_ns
        The time of a step with all of its passes.
    time_per_sample_ns
        The same time per sample.
    code
        The code that sets this up. It uses `model`, which returns the loss, and `batch`, the tuple of its arguments.
    """

    batch: int
    accumulation: int
    dtype: str
    autocast: bool
    optimizer: str
    changes: str
    num_checkpointed: int
    split: str
    planned: bool
    num_reruns: int
    in_backward: bool
    offloaded: bool
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
        """The batch: "32", or "8 x 4" for four passes of 8 samples."""
        return f"{self.batch}" if self.accumulation == 1 else f"{self.batch} x {self.accumulation}"

    @property
    def words(self) -> str:
        """The setup in one line."""
        cast = f"{self.dtype} autocast" if self.autocast else self.dtype
        found = [f"batch {self.batch_words}", cast, self.optimizer]
        found += [self.changes] if self.changes not in ("", "states in 8 bits") else []
        return ", ".join([*found, *([self.pass_words] if self.pass_words else [])])

    @property
    def pass_words(self) -> str:
        """The measures that make a step need less memory; empty where there are none."""
        found = [f"{self.num_checkpointed} blocks checkpointed"] if self.num_checkpointed else []
        if self.planned:
            again = [f"{counted(self.num_reruns, 'op')} run again"] if self.num_reruns else []
            what = [self.split, *again] if self.split else again
            found.append(f"planned: {', '.join(what) or 'in another order'}")
        found += ["steps in backward"] if self.in_backward else []
        return ", ".join([*found, *(["states at the host"] if self.offloaded else [])])

    @property
    def time_words(self) -> str:
        """The time per sample, and the peak compared with the limit."""
        time = format_time_ns(round(self.time_per_sample_ns))
        return f"{time} a sample, {format_bytes(self.peak_bytes)} of {format_bytes(self.limit_bytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The least memory, proven, in which one pass of the batch can run with each op whole, whatever ops run again.

    Attributes
    ----------
    device
        The device, named as in a setup.
    least_bytes
        The least memory: the sum of the next three.
    parameter_bytes, optimizer_bytes
        Memory that is held all the time.
    needed_bytes
        Memory held in addition while the op runs: gradients, and the tensors that it reads and makes.
    op, kind
        The op that needs it.
    lowered_by
        Changes that lower it, in words.
    """

    device: str
    least_bytes: int
    parameter_bytes: int
    optimizer_bytes: int
    needed_bytes: int
    op: str
    kind: str
    lowered_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """The ways found to fit a training step into a memory limit, with their times.

    Attributes
    ----------
    schema_version
        1.
    model
        The class of the model.
    machine
        The machine whose devices are examined, one of each sort.
    samples
        Number of samples in the given batch.
    optimizer
        The user's optimizer.
    reserved_bytes
        Memory left to the CUDA context on each GPU whose limit was not given.
    basis
        The basis of the times, in words.
    setups
        The setups that were tried: first those that fit and train the same, by time per sample, then those that fit
        and train something else, then the rest likewise, by missing memory.
    floors
        For each device, the parts of the least memory.
    left_out
        What was not tried, and why, one sentence each.
    seed
        The seed of the search for plans.
    """

    schema_version: int
    model: str
    machine: str
    samples: int
    optimizer: str
    reserved_bytes: int
    basis: str
    setups: tuple[TrainingSetup, ...]
    floors: tuple[Floor, ...]
    left_out: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The answer to whether a training step fits one device unchanged.

    Attributes
    ----------
    schema_version
        1.
    fits
        True if it fits.
    reserved_bytes
        Memory left to the CUDA context.
    setup
        The step.
    """

    schema_version: int
    fits: bool
    reserved_bytes: int
    setup: TrainingSetup


def ranked(setups: list[TrainingSetup]) -> tuple[TrainingSetup, ...]:
    """Sort the setups: what fits before what does not, what trains the same before what trains something else, then by
    time per sample, or by missing memory where it does not fit."""

    def key(setup: TrainingSetup) -> tuple[float, ...]:
        size = float(setup.peak_bytes)
        first = setup.time_per_sample_ns if setup.fits else size - setup.limit_bytes
        done = setup.planned + setup.in_backward + setup.offloaded
        return (not setup.fits, bool(setup.changes), first, setup.accumulation, done, size)

    return tuple(sorted(setups, key=key))


def answer_words(found: Alternatives) -> str:
    """Describe the best setup in one line."""
    tried = f"of the {len(found.setups)} that were tried"
    best = found.setups[0]
    where = _where(found, best)
    if best.fits and not best.changes:
        return f"fastest {tried}: {best.words}{where}: {best.time_words}"
    if best.fits:
        return f"none {tried} fits that trains the same; fastest of the others: {best.words}{where}: {best.time_words}"
    missing = format_bytes(best.peak_bytes - best.limit_bytes)
    return f"none {tried} fits in {format_bytes(best.limit_bytes)}; nearest: {best.words}{where}: {missing} over"


def as_given(found: Alternatives) -> TrainingSetup | None:
    """Return the fastest setup that fits, trains the same and takes as many samples in a step as were given. None where
    that setup is the best of all, or no such setup fits."""
    own = (each for each in found.setups if each.batch * each.accumulation == found.samples)
    best = next((each for each in own if each.fits and not each.changes), None)
    return None if best is found.setups[0] else best


def as_given_words(found: Alternatives, setup: TrainingSetup) -> str:
    """Describe the setup that `as_given` found in one line."""
    return f"with {counted(found.samples, 'sample')} in a step: {setup.words}{_where(found, setup)}: {setup.time_words}"


def changed(found: Alternatives) -> TrainingSetup | None:
    """Return the fastest setup that fits and trains something else, if it is faster than the best setup. Otherwise
    None."""
    best = found.setups[0]
    other = next((each for each in found.setups if each.fits and each.changes), None)
    faster = other is not None and other.time_per_sample_ns < best.time_per_sample_ns
    return other if faster and not best.changes else None


def changed_words(found: Alternatives, setup: TrainingSetup) -> str:
    """Describe the setup that `changed` found in one line."""
    return f"faster, but it trains something else: {setup.words}{_where(found, setup)}: {setup.time_words}"


def fit_words(fit: Fit) -> str:
    """Say in one line whether the step fits."""
    setup, kept = fit.setup, _reserved_words(fit.reserved_bytes)
    needs = f"{setup.words} needs {format_bytes(setup.peak_bytes)} of {format_bytes(setup.limit_bytes)}{kept}"
    if fit.fits:
        return f"fits {setup.device}: {needs}"
    missing = format_bytes(setup.peak_bytes - setup.limit_bytes)
    return f"does not fit {setup.device}: {needs}, {missing} too much; placewright.alternatives tells what fits"


def _reserved_words(size: int) -> str:
    return f" ({format_bytes(size)} more are left to CUDA's context)" if size else ""


def _where(found: Alternatives, setup: TrainingSetup) -> str:
    """Name the device of the setup where the setups are for several devices."""
    return f" on {setup.device}" if len({each.device for each in found.setups}) > 1 else ""


def about_words(found: Alternatives) -> str:
    """Describe what all setups have in common: model, batch, optimizer, limits."""
    limits = {setup.device: format_bytes(setup.limit_bytes) for setup in found.setups}
    where = ", ".join(f"{size} on {device}" for device, size in limits.items())
    kept = _reserved_words(found.reserved_bytes)
    return f"{found.model}: a batch of {counted(found.samples, 'sample')}, {found.optimizer}; {where}{kept}"


def floor_words(floor: Floor) -> str:
    """List the parts of the least memory, and the changes that lower it."""
    held = [
        f"{format_bytes(size)} of {name}"
        for name, size in (("parameters", floor.parameter_bytes), ("optimizer states", floor.optimizer_bytes))
        if size
    ]
    needed = f"{format_bytes(floor.needed_bytes)} while '{floor.op}' runs{_loss_words(floor)}"
    lowered = f"; lower it by {', or by '.join(floor.lowered_by)}" if floor.lowered_by else ""
    least = f"less than {format_bytes(floor.least_bytes)} on {floor.device}"
    return f"no plan of one pass with each op whole needs {least}: {', '.join([*held, needed])}{lowered}"


def _loss_words(floor: Floor) -> str:
    return ", the loss whole" if floor.kind in ("softmax", "softmax_backward") and "log_softmax" in floor.op else ""


def left_out_words(found: Alternatives) -> list[str]:
    """List what was not tried, grouped by reason: "weights in bfloat16; adapters alone: there was no time for it"."""
    by_reason: dict[str, list[str]] = {}
    for sentence in dict.fromkeys(found.left_out):
        what, _, reason = sentence.partition(": ")
        by_reason.setdefault(reason, []).append(what)
    return [f"{'; '.join(filter(None, whats))}: {reason}" for reason, whats in by_reason.items()]
