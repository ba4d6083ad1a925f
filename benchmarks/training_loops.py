"""Random training loops, each a description drawn from a seed, and their runs in eager, as planned, or as compiled.

`loop(seed)` draws a description, `run(description, way)` runs it and keeps a record of every step, and
`compared(description, way)` says whether a way leaves what eager leaves in a fresh, identical model.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from training_loop_events import EVENTS
from training_loop_networks import STEMS
from training_loop_optimizers import OPTIMIZERS, PLANNED, SCHEDULERS, optimizer_options
from training_loop_parts import PART_WEIGHTS, PARTS
from training_loop_records import Record, first_difference
from training_loop_runs import WAYS, CallError, Run, reset, sentence

__all__ = ["WAYS", "History", "Loop", "Verdict", "compared", "loop", "run"]
#: Large beside the width, so that activations are most of what a step holds.
BATCHES = (3, 16, 33, 64, 96)


@dataclass(frozen=True, kw_only=True)
class Happening:
    """An event of a loop. number: seeds the choices that it makes."""

    step: int
    name: str
    number: int


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A training loop. inside: whether forward, backward and the optimizer's step are one call."""

    seed: int
    stem: str
    parts: tuple[str, ...]
    style: str
    batches: tuple[int, ...]
    passes: int
    optimizer: str
    options: dict[str, Any]
    planned: tuple[str, dict[str, Any]]
    groups: int
    left_out: bool
    subclass: bool
    scheduler: str
    clip: str
    scaler: bool
    ema: str
    closure: bool
    to_none: bool
    zero_at: str
    planned_early: bool
    arguments_require_grad: bool
    happenings: tuple[Happening, ...]
    inside: bool = False

    @property
    def traits(self) -> list[str]:
        """What the loop has, in words that rows of many loops can be counted by."""
        found = [f"stem {self.stem}", *(f"part {part}" for part in self.parts), f"optimizer {self.optimizer}"]
        found += [f"option {name}" for name, value in self.options.items() if value is not False]
        found += [f"scheduler {self.scheduler}"] * bool(self.scheduler) + [f"clip {self.clip}"] * bool(self.clip)
        found += [f"ema {self.ema}"] * bool(self.ema) + [f"loss as {self.style}", f"zero_grad at {self.zero_at}"]
        flags = ("left_out", "subclass", "scaler", "closure", "to_none", "arguments_require_grad")
        found += [name for name in flags if getattr(self, name)]
        found += ["passes"] * (self.passes > 1) + ["groups"] * (self.groups > 1)
        return sorted({*found, *(f"event {each.name}" for each in self.happenings)})


def happenings(choice: random.Random, steps: int, ema: bool) -> tuple[Happening, ...]:
    """Few events in most loops, many in some; hooks are often removed later."""
    count = choice.choice([0, 1, 1, 2, 2, 3, 4, 6])
    names = [name for name in EVENTS if not (ema and name == "prune_or_not")]
    drawn = choice.choices(names, [EVENTS[name][2] for name in names], k=count)
    found = [Happening(step=choice.randrange(steps), name=name, number=choice.randrange(1 << 30)) for name in drawn]
    for each in list(found):
        if "hook" in each.name and each.step + 1 < steps and choice.random() < 0.6:
            found.append(replace(each, step=choice.randrange(each.step + 1, steps), name="remove_hooks"))
    return tuple(sorted(found, key=lambda each: each.step))


def loop(seed: int) -> Loop:
    """The description of this seed."""
    choice = random.Random(seed)
    names = list(PARTS)
    parts = choice.choices(names, [PART_WEIGHTS.get(name, 1.0) for name in names], k=choice.randrange(1, 5))
    stem = choice.choices(list(STEMS), [4, 2, 2, 1])[0]
    optimizer = choice.choice(list(OPTIMIZERS))
    planned = choice.choice(PLANNED) if choice.random() < 0.9 or optimizer == "LBFGS" else optimizer
    steps = choice.randrange(3, 9)
    closure = optimizer == "LBFGS" or choice.random() < 0.07
    size = choice.choice(BATCHES)
    sizes = [choice.choice(BATCHES) if choice.random() < 0.12 else size for _ in range(steps)]
    scaler = not closure and choice.random() < 0.12
    ema = "" if "pruned" in parts or choice.random() < 0.8 else choice.choice(["average", "ema", "ema buffers"])
    return Loop(
        seed=seed,
        stem=stem,
        parts=tuple(parts),
        style=choice.choice(["scalar", "named", "function"]),
        batches=tuple(sizes),
        passes=1 if closure or choice.random() < 0.7 else choice.randrange(2, 5),
        optimizer=optimizer,
        options=optimizer_options(choice, optimizer),
        planned=(planned, optimizer_options(choice, planned)),
        groups=1 if optimizer == "LBFGS" else choice.choice([1, 1, 2, 3]),
        left_out=choice.random() < 0.08,
        subclass=choice.random() < 0.1,
        scheduler=choice.choice(SCHEDULERS) if optimizer != "LBFGS" and choice.random() < 0.3 else "",
        clip=choice.choice(["norm", "norm foreach", "value"]) if not closure and choice.random() < 0.25 else "",
        scaler=scaler,
        ema=ema,
        closure=closure,
        to_none=choice.random() < 0.6,
        zero_at=choice.choices(["begin", "end", "model", "second"], [5, 3, 1, 1])[0],
        planned_early=choice.random() < 0.7,
        arguments_require_grad=choice.random() < 0.15,
        happenings=happenings(choice, steps, bool(ema)),
    )


def for_way(description: Loop, way: str) -> Loop:
    """The loop that a way can run: with the optimizer's step in the call, nothing comes between it and backward."""
    if way != "fit-optimizer":
        return description
    name, options = description.planned
    outer = tuple(each for each in description.happenings if EVENTS[each.name][1] != "between")
    changed = replace(description, inside=True, optimizer=name, options=options, happenings=outer)
    return replace(changed, passes=1, clip="", scaler=False, closure=False, zero_at="begin")


@dataclass(kw_only=True)
class History:
    """Records of the steps of a run, and how it ended. place: where it raised, "call" in the step, or "loop"."""

    records: list[Record] = field(default_factory=list)
    error: str = ""
    kind: str = ""
    place: str = ""
    refusals: list[tuple[int, str, str]] = field(default_factory=list)
    reruns: int = 0
    python_draws: bool = False


def run(description: Loop, way: str) -> History:
    """Run the loop in a way, "eager" or one of WAYS, until it ends or something raises."""
    history = History()
    reset()
    before, found = random.getstate(), None
    try:
        found = Run(for_way(description, way), way)
        for number in range(len(description.batches)):
            history.records.append(found.step(number))
        history.records.append(found.end())
    except CallError as error:
        cause = error.__cause__ or error
        history.error, history.kind, history.place = sentence(cause), type(cause).__name__, "call"
    except Exception as error:
        history.error, history.kind, history.place = sentence(error) or "?", type(error).__name__, "loop"
    finally:
        if found is not None:
            history.refusals, history.reruns = found.refusals, found.reruns
            found.close()
        history.python_draws = random.getstate() != before
        reset()
    return history


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What comparing with eager gave.

    step: of the refusal or difference. what: the leaf that differs, or an exception. python_draws: whether Python's own
    generator was moved, which is no part of the verdict.
    """

    verdict: str
    step: int = -1
    what: str = ""
    detail: str = ""
    amount: float = 0.0
    equal_steps: int = 0
    steps: int = 0
    refusals: list[tuple[int, str, str]] = field(default_factory=list)
    reruns: int = 0
    python_draws: bool = False


def different(expected: History, found: History, *, attributes: bool) -> Verdict | None:
    """The first difference of two runs, in attributes of modules or in all else."""
    for number, (one, other) in enumerate(zip(expected.records, found.records, strict=False)):
        of_kind = [
            {name: each for name, each in record.items() if (" attribute " in name) == attributes}
            for record in (one, other)
        ]
        if (differs := first_difference(*of_kind)) is not None:
            name, detail, amount = differs
            after = " after a refusal" if any(each[0] <= number for each in found.refusals) else ""
            return Verdict(verdict="differ", step=number, what=name, detail=detail + after, amount=amount)
    return None


def judged(expected: History, found: History) -> Verdict:
    """The verdict of two runs. A step that was refused has been run by the model itself, and must be equal, too."""
    # An attribute that the next forward writes anew would hide what differs later.
    for attributes in (False, True):
        if (differs := different(expected, found, attributes=attributes)) is not None:
            return differs
    done, number = len(expected.records), len(found.records)
    text = f"{found.kind}: {found.error}"
    if number > done or (number == done and expected.error and not found.error):
        missing = f"no exception where eager has {expected.kind}: {expected.error}"
        return Verdict(verdict="differ", step=done, what=missing, amount=float("inf"))
    if number < done and found.place != "call":
        return Verdict(verdict="differ", step=number, what="an exception outside of the step", detail=text)
    if expected.error and number == done and all(step == done for step, _, _ in found.refusals):
        return Verdict(verdict="invalid", step=number, what=expected.kind, detail=expected.error)
    if found.refusals:
        step, kind, said = found.refusals[0]
        limited = "refused-limit" if said.startswith("no plan") else "refused"
        return Verdict(verdict=limited, step=step, what=kind, detail=said)
    if number < done:
        return Verdict(verdict="refused", step=number, what=found.kind, detail=found.error)
    return Verdict(verdict="equal", step=number)


def compared(description: Loop, way: str) -> Verdict:
    """Run the loop in eager and in a way, and compare what each step left."""
    expected = run(for_way(description, way), "eager")
    found = run(description, way)
    verdict = judged(expected, found)
    equal = verdict.step if verdict.verdict == "differ" else min(len(expected.records), len(found.records))
    counts: dict[str, Any] = {"equal_steps": equal, "steps": len(description.batches)}
    counts |= {"reruns": found.reruns, "python_draws": found.python_draws}
    return replace(verdict, refusals=found.refusals, **counts)
