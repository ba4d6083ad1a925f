"""What a person would try to fit a training step into a memory limit, as facts: what `fit` prints."""

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
        "AdamW", "fused AdamW" where the one that was given is not, "8-bit Adam" and so on.
    changes
        What is trained differently than now: "states in 8 bits", "weights in bfloat16", "adapters of rank 16 alone
        (LoRA)"; empty where nothing is.
    num_checkpointed
        How many blocks are checkpointed.
    split
        Which ops run in parts, such as "loss in 8 parts"; empty where all run whole.
    planned
        Whether a plan for the limit runs each pass: with ops in parts or run again, or each op once in another order.
    num_reruns
        How many ops run again in one pass.
    in_backward
        Whether the optimizer steps each parameter within backward, so that no gradient stays.
    offloaded
        Whether its states lie in the host's memory but for the step of their parameter.
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
        What else is held at the peak: activations, inputs, workspaces, and what an optimizer's step makes meanwhile.
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
        """The batch: "32", or "8 x 4" of four passes."""
        return f"{self.batch}" if self.accumulation == 1 else f"{self.batch} x {self.accumulation}"

    @property
    def words(self) -> str:
        """What it is, in one line."""
        cast = f"{self.dtype} autocast" if self.autocast else self.dtype
        found = [f"batch {self.batch_words}", cast, self.optimizer]
        found += [self.changes] if self.changes not in ("", "states in 8 bits") else []
        return ", ".join([*found, *([self.pass_words] if self.pass_words else [])])

    @property
    def pass_words(self) -> str:
        """What is done to a step so that it needs less; empty where nothing is."""
        found = [f"{self.num_checkpointed} blocks checkpointed"] if self.num_checkpointed else []
        if self.planned:
            again = [f"{counted(self.num_reruns, 'op')} run again"] if self.num_reruns else []
            what = [self.split, *again] if self.split else again
            found.append(f"planned: {', '.join(what) or 'in another order'}")
        found += ["steps in backward"] if self.in_backward else []
        return ", ".join([*found, *(["states at the host"] if self.offloaded else [])])

    @property
    def time_words(self) -> str:
        """How long it takes and what it needs."""
        time = format_time_ns(round(self.time_per_sample_ns))
        return f"{time} a sample, {format_bytes(self.peak_bytes)} of {format_bytes(self.limit_bytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The least memory in which one pass of the batch can be run with each op whole, whatever runs again: proven.

    Attributes
    ----------
    device
        Where, as of a setup.
    least_bytes
        How much it is: the sum of the next three.
    parameter_bytes, optimizer_bytes
        What is always there.
    needed_bytes
        What is held beside that while the op runs: gradients, and what it reads and makes.
    op, kind
        The op that needs it.
    lowered_by
        What lowers it, in words.
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
        Of the batch that was given.
    optimizer
        The user's.
    reserved_bytes
        What is left to the context of CUDA on each GPU whose limit was not given.
    basis
        What the times rest on, in words.
    setups
        What was tried: what fits and trains the same by time per sample, then what fits and trains something else, then
        the rest by what is missing.
    floors
        For each device what the least is made of.
    left_out
        What was not tried, and why, one sentence each.
    seed
        Of the search for plans.
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
    """Whether a training step fits one device as it is.

    Attributes
    ----------
    schema_version
        1.
    fits
        Whether it does.
    reserved_bytes
        What is left to the context of CUDA.
    setup
        The step.
    """

    schema_version: int
    fits: bool
    reserved_bytes: int
    setup: TrainingSetup


def ranked(setups: list[TrainingSetup]) -> tuple[TrainingSetup, ...]:
    """What fits by time per sample, first what trains the same; then the rest by how much is missing."""

    def key(setup: TrainingSetup) -> tuple[float, ...]:
        size = float(setup.peak_bytes)
        first = setup.time_per_sample_ns if setup.fits else size - setup.limit_bytes
        done = setup.planned + setup.in_backward + setup.offloaded
        return (not setup.fits, bool(setup.changes), first, setup.accumulation, done, size)

    return tuple(sorted(setups, key=key))


def answer_words(found: Alternatives) -> str:
    """The best of them in one line."""
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
    """The fastest that fits and trains the same, with as many samples in a step as were given; None where that is the
    best of all, or nothing of it fits."""
    own = (each for each in found.setups if each.batch * each.accumulation == found.samples)
    best = next((each for each in own if each.fits and not each.changes), None)
    return None if best is found.setups[0] else best


def as_given_words(found: Alternatives, setup: TrainingSetup) -> str:
    """That one, in one line."""
    return f"with {counted(found.samples, 'sample')} in a step: {setup.words}{_where(found, setup)}: {setup.time_words}"


def changed(found: Alternatives) -> TrainingSetup | None:
    """The fastest that fits of what trains something else, where it is faster than all else; None where none is."""
    best = found.setups[0]
    other = next((each for each in found.setups if each.fits and each.changes), None)
    faster = other is not None and other.time_per_sample_ns < best.time_per_sample_ns
    return other if faster and not best.changes else None


def changed_words(found: Alternatives, setup: TrainingSetup) -> str:
    """That one, in one line."""
    return f"faster, but it trains something else: {setup.words}{_where(found, setup)}: {setup.time_words}"


def fit_words(fit: Fit) -> str:
    """Whether it fits, in one line."""
    setup, kept = fit.setup, _reserved_words(fit.reserved_bytes)
    needs = f"{setup.words} needs {format_bytes(setup.peak_bytes)} of {format_bytes(setup.limit_bytes)}{kept}"
    if fit.fits:
        return f"fits {setup.device}: {needs}"
    missing = format_bytes(setup.peak_bytes - setup.limit_bytes)
    return f"does not fit {setup.device}: {needs}, {missing} too much; placewright.alternatives tells what fits"


def _reserved_words(size: int) -> str:
    return f" ({format_bytes(size)} more are left to CUDA's context)" if size else ""


def _where(found: Alternatives, setup: TrainingSetup) -> str:
    """On which device, where there are several."""
    return f" on {setup.device}" if len({each.device for each in found.setups}) > 1 else ""


def about_words(found: Alternatives) -> str:
    """What all of them have in common."""
    limits = {setup.device: format_bytes(setup.limit_bytes) for setup in found.setups}
    where = ", ".join(f"{size} on {device}" for device, size in limits.items())
    kept = _reserved_words(found.reserved_bytes)
    return f"{found.model}: a batch of {counted(found.samples, 'sample')}, {found.optimizer}; {where}{kept}"


def floor_words(floor: Floor) -> str:
    """What the least is made of, and what lowers it."""
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
    """What was not tried, by reason: "weights in bfloat16, adapters alone: there was no time for it"."""
    by_reason: dict[str, list[str]] = {}
    for sentence in dict.fromkeys(found.left_out):
        what, _, reason = sentence.partition(": ")
        by_reason.setdefault(reason, []).append(what)
    return [f"{'; '.join(filter(None, whats))}: {reason}" for reason, whats in by_reason.items()]
