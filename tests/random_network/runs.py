"""Runs a random module as planned and in eager, and tells every difference."""

from __future__ import annotations

import contextlib
import copy
import logging
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from random_modules import LOSSES, Case
from random_network.drives import CHANGES, OTHER_BITS, Drive, Side
from random_network.facts import Facts, differences

import placewright
from placewright.execution.pytorch import handover
from placewright.execution.pytorch import profile as profiling
from placewright.importers.torch.arguments import mode_set
from placewright.importers.torch.results import default_loss
from placewright.support.errors import PlacewrightError


class Refused(Exception):  # noqa: N818
    """Placewright raised one of its errors; where is "compile" or "call"."""

    def __init__(self, where: str, error: Exception) -> None:
        super().__init__(str(error))
        self.where = where


class EagerRaises(Exception):  # noqa: N818
    """The module itself cannot be called so."""


def seeded(case: Case, step: int) -> None:
    torch.manual_seed(case.seed + step)
    random.seed(case.seed + step)
    np.random.seed((case.seed + step) % 2**32)


def _context(name: str) -> Any:
    return {
        "grad": contextlib.nullcontext, "no_grad": torch.no_grad, "inference": torch.inference_mode,
        "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    }[name]()  # fmt: skip


def eager_step(side: Side, drive: Drive, loss: Any) -> Any:
    args, kwargs = side.args
    with mode_set(side.model, drive.training):
        if not drive.training:
            with _context(drive.grad):
                return side.call(*args, **kwargs)
        value = loss(side.call(*args, **kwargs))
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise EagerRaises("no loss")
        value.backward()
    if side.optimizer is not None:
        side.optimizer.step()
        for parameter in side.model.parameters():
            parameter.grad = None
        if side.scheduler is not None:
            side.scheduler.step()
    return value.detach()


def _has_other_strides(case: Case) -> bool:
    """True if an op that is not elementwise writes to a part: through a view its result has strides of its own."""
    return any(part.tells.startswith("cumsum_") for part in case.build().parts)


def tolerance(case: Case) -> float:
    """Return how far results may differ."""
    return max((OTHER_BITS.get(part.tells, 0.0) for part in case.build().parts), default=0.0)


def run(case: Case, drive: Drive | None = None) -> list[str]:
    """Every difference between a case in eager and as planned; raises what placewright raises other than its errors.

    Raises Refused where it is refused, and EagerRaises where the module itself raises.
    """
    drive = drive or Drive(case)
    loss = LOSSES[case.loss]
    eager = Side(case, drive)
    ours = Side(case, drive)
    ours.args = ours.case.arguments(0, drive.kinds[0])
    # Whether the module runs at all, on a third one.
    third = Side(case, drive)
    third.args = third.case.arguments(0, drive.kinds[0])
    seeded(case, 0)
    try:
        eager_step(third, drive, loss or default_loss)
    except Exception as error:
        raise EagerRaises(f"{type(error).__name__}: {error}") from error
    seeded(case, 77)
    before = ours.facts()
    found = []
    compiled = None
    try:
        try:
            compiled = placewright.compile(
                ours.model, ours.args[0], kwargs=ours.args[1], training=drive.training,
                loss=loss if drive.training else None, optimizer=ours.optimizer, devices="cpu:0,cpu:1",
                solver="random-placement", seed=case.seed, evaluations=30, verify=False,
            )  # fmt: skip
        except PlacewrightError as error:
            found += [f"compile (refused) changes {each}" for each in differences(before, ours.facts(), ids=True)]
            if found:
                return found
            raise Refused("compile", error) from error
        found += [f"compile changes {each}" for each in differences(before, ours.facts(), ids=True)]
        if not found:
            found = _steps(case, drive, eager, ours, compiled, loss)
    finally:
        if compiled is not None:
            compiled.close()
    return found


def run_backend(case: Case) -> list[str]:
    """Every difference between a case through the backend of `torch.compile` and both through PyTorch's own
    "aot_eager", which is wrong about some writes to arguments, and in eager.

    Raises Refused where placewright refuses a graph, and EagerRaises where the module raises without it.
    """
    return _beside(case, "aot_eager") and _beside(case, "eager")


def _beside(case: Case, backend: str) -> list[str]:
    drive, loss = Drive(case), LOSSES[case.loss] or default_loss
    torch.compiler.reset()
    theirs, ours = Side(case, drive), Side(case, drive)
    options = {"devices": "cpu:0,cpu:1", "solver": "random-placement", "seed": case.seed, "evaluations": 30}
    theirs.call = torch.compile(theirs.model, backend=backend)
    ours.call = torch.compile(ours.model, backend="placewright", options=options)
    for step in range(drive.steps):
        facts: list[Facts] = []
        for side in (theirs, ours):
            if step and (change := drive.changes[step - 1]) is not None:
                CHANGES[change](side)
            side.args = side.case.arguments(step, drive.kinds[step])
            seeded(case, step)
            try:
                result = eager_step(side, drive, loss)
            except PlacewrightError as error:
                raise Refused(f"step {step}", error) from error
            except Exception as error:
                if side is ours:
                    raise
                raise EagerRaises(f"step {step}: {type(error).__name__}: {error}") from error
            facts.append(side.facts())
            facts[-1].read("result", result)
        if found := [f"step {step}: {each}" for each in differences(facts[0], facts[1])]:
            return found
    return []


def _steps(case: Case, drive: Drive, eager: Side, ours: Side, compiled: Any, loss: Any) -> list[str]:
    for step in range(drive.steps):
        change = drive.changes[step - 1] if step else None
        if change is not None:
            try:
                CHANGES[change](eager)
            except Exception as error:
                raise EagerRaises(f"change {change}: {error}") from error
            CHANGES[change](ours)
        kinds = drive.kinds[step]
        for side in (eager, ours):
            side.args = side.case.arguments(step, kinds)
        seeded(case, step)
        try:
            wanted = eager_step(eager, drive, loss or default_loss)
        except Exception as error:
            raise EagerRaises(f"step {step}: {type(error).__name__}: {error}") from error
        try:
            expected = eager.facts()
            expected.read("result", wanted)
        except RuntimeError as error:
            raise EagerRaises(f"step {step}: nobody can read a result: {error}") from error
        seeded(case, step)
        before = ours.facts()
        try:
            with _context(drive.grad) if not drive.training else contextlib.nullcontext():
                result = compiled(*ours.args[0], **ours.args[1])
            if drive.training and ours.scheduler is not None:
                ours.scheduler.step()
        except PlacewrightError as error:
            if found := [f"step {step} (refused: {error}) changes {each}" for each in
                         differences(before, ours.facts(), ids=True)]:  # fmt: skip
                return found
            raise Refused(f"step {step}", error) from error
        got = ours.facts()
        got.read("result", result)
        found = [f"step {step}: {each}" for each in differences(expected, got, tolerance(case))]
        if found := [each for each in found if ": stride " not in each or not _has_other_strides(case)]:
            return found
    return []


@contextlib.contextmanager
def quickly() -> Iterator[None]:
    """Time ops rarely, on one thread each, and hide PyTorch's warnings."""
    before = profiling._PASSES_NS, profiling._MIN_PASSES, torch.get_num_threads()
    links = handover._REPETITIONS, handover._APART_NS
    profiling._PASSES_NS, profiling._MIN_PASSES = 0, 1
    handover._REPETITIONS, handover._APART_NS = 3, 0
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        profiling._PASSES_NS, profiling._MIN_PASSES = before[:2]
        handover._REPETITIONS, handover._APART_NS = links
        torch.set_num_threads(before[2])
        logging.disable(logging.NOTSET)


def smaller(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A case with parts left out as long as it still fails."""
    keep: Sequence[int] = case.keep
    shrunk = True
    while shrunk and len(keep) > 1:
        shrunk = False
        for number in keep:
            other = copy.copy(case)
            other.keep = [each for each in keep if each != number]
            if fails(other):
                case, keep, shrunk = other, other.keep, True
                break
    return case
