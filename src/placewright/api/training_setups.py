"""`alternatives` and `fits`: what a person would try to fit a training step into a memory limit, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placewright.analysis.alternatives import Alternatives, Fit, fit_words
from placewright.api.arguments import budget, globs
from placewright.api.pass_captures import PassCaptures
from placewright.api.questions import Answer, answer
from placewright.api.setup_search import SetupSearch
from placewright.api.setup_ways import Place
from placewright.api.step_optimizers import optimizers_to_try
from placewright.machine import Device, Machine
from placewright.machines.limits import host_and_limits
from placewright.machines.specification import as_machine
from placewright.machines.topology import only
from placewright.search.run.budget import UNLIMITED, Interrupted, OnProgress
from placewright.support.errors import InputError, shown
from placewright.support.quantities import whole_number

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

#: Memory of a GPU that CUDA's context and its libraries take before the first tensor: 0.6 GiB.
CONTEXT_BYTES = 6 * 2**30 // 10


def alternatives(
    model: nn.Module,
    devices: Machine | str | Path | Sequence[str],
    *,
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    loss: Callable[[Any], Any] | None = None,
    optimizer: Optimizer | str | None = None,
    memory_limit: int | str | Mapping[str | int, int | str] | Sequence[int | str | None] | None = None,
    keep: Sequence[str] = (),
    evaluations: int | None = None,
    time_limit: float | str = 20.0,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    on_stage: Callable[[str], None] | None = None,
    interrupted: Interrupted | None = None,
) -> Answer[Alternatives]:
    """Find ways to run a training step that fit into a memory limit, and how long each takes per sample.

    It tries the batch as it is, in 2, 4 and 8 passes whose gradients are accumulated, and smaller and larger batches;
    the module's own dtype and bfloat16 autocast; its blocks checkpointed; the optimizer as it is, fused, in backward,
    and with its states at the host of a GPU; and, where a step could be the fastest and does not fit, a plan in which
    ops run again. Ways that train something else rank last: states in 8 bits, weights in bfloat16, and low-rank
    adapters where peft is installed. All are tried on every sort of device of the machine; every step is simulated
    whole.

    Parameters
    ----------
    model
        A module. Nothing is computed.
    devices
        A machine, as `plan` takes it. Each of its devices is considered alone, equal ones once.
    args, kwargs
        The arguments of the module. The batch is the first dimension of the first tensor, and of all others whose first
        dimension is as large.
    loss
        Makes a scalar of the module's output, as in `from_torch`.
    optimizer
        Yours: an Adam, AdamW or SGD of `torch.optim`, or "adamw" (the default), "adam", "adam8bit" (of bitsandbytes, on
        GPUs), "sgd" or "sgd-momentum".
    memory_limit
        As `plan` takes it; by default the memory of the devices, less 0.6 GiB on GPUs for the context of CUDA.
    keep
        Globs over names of ops or modules: these run once.
    evaluations
        Budget of each search for a plan. By default a quarter of a second's worth.
    time_limit
        Seconds of processor time in all, or text like "30s", after which no other way is tried; `left_out` lists those
        that were not.
    seed
        Seed of all random choices.
    on_progress
        Called now and then with the best so far of a search.
    on_stage
        Called with a description of what is captured now.
    interrupted
        Asked now and then; True ends the search with what it has.

    Returns
    -------
    Answer
        `facts` hold the setups, the best first, each with the code to write.

    Raises
    ------
    InputError
        For bad input, and where the step cannot be captured as it is.

    Examples
    --------
    >>> print(placewright.alternatives(model, "h100", args=batch, memory_limit="8GiB"))  # doctest: +SKIP
    """
    from placewright.terminal.alternatives_table import alternatives_table

    began = time.process_time()
    machine = as_machine(devices)
    captures = PassCaptures(model, args, kwargs or {}, loss)
    places, reserved = _places(machine, memory_limit, optimizer, captures)
    search = SetupSearch(
        captures=captures,
        places=places,
        keep=globs("keep", keep),
        evaluations=None if evaluations is None else whole_number("evaluations", evaluations, 1, UNLIMITED),
        seed=whole_number("seed", seed, 0, 2**64 - 1),
        until=began + (budget(None, time_limit, default_evaluations=1).seconds or 0),
        on_progress=on_progress,
        on_stage=on_stage,
        interrupted=interrupted,
    )
    found = search.everything(machine, reserved)
    return answer(found, alternatives_table(found))


@dataclass(frozen=True, slots=True, repr=False)
class FitAnswer(Answer[Fit]):
    """The answer of `fits`: one line, and true where the step fits."""

    def __bool__(self) -> bool:
        return self.facts.fits


def fits(
    model: nn.Module,
    args: Any,
    devices: Machine | str | Path | Sequence[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    loss: Callable[[Any], Any] | None = None,
    optimizer: Optimizer | str | None = None,
    memory_limit: int | str | None = None,
) -> FitAnswer:
    """Tell in one line whether a training step fits a device as it is.

    Parameters
    ----------
    model, args, kwargs, loss, optimizer, memory_limit
        As `alternatives` takes them.
    devices
        A machine of one device, as `plan` takes it.

    Returns
    -------
    FitAnswer
        Printed, it is the line; it is true where the step fits; `facts` hold what the step needs.

    Raises
    ------
    InputError
        For bad input, for a machine of several devices, and where the step cannot be captured.

    Examples
    --------
    >>> print(placewright.fits(model, batch, "a100"))  # doctest: +SKIP
    """
    machine = as_machine(devices)
    if machine.num_devices > 1:
        raise InputError(f"'{shown(machine.name)}' has {machine.num_devices} devices; fits is asked of one, as in h100")
    captures = PassCaptures(model, args, kwargs or {}, loss)
    places, reserved = _places(machine, memory_limit, optimizer, captures)
    search = SetupSearch(captures=captures, places=places)
    setup = search.as_it_is()[0]
    found = Fit(schema_version=1, fits=setup.fits, reserved_bytes=reserved, setup=setup)
    return FitAnswer(found, fit_words(found))


def _places(machine: Machine, memory_limit: Any, optimizer: Any, captures: PassCaptures) -> tuple[list[Place], int]:
    """Each sort of device once, and the bytes left to CUDA on GPUs whose limit was not given.

    Raises InputError for a device whose memory is not known.
    """
    limits = host_and_limits(memory_limit, machine)[1]
    seen: list[tuple[Device, int]] = []
    found: list[tuple[int, int]] = []
    reserved = 0
    for index, device in enumerate(machine.devices):
        limit = (limits or {}).get(device.name)
        if limit is None and device.memory_bytes is None:
            raise InputError(f"what memory '{shown(device.name)}' has is not known; give a memory limit")
        if limit is None and device.memory_bytes is not None:
            kept = 0 if device.is_cpu else CONTEXT_BYTES
            limit, reserved = max(0, device.memory_bytes - kept), max(reserved, kept)
        assert limit is not None
        limit = min(limit, device.memory_bytes or limit)
        if (sort := (replace(device, name=""), limit)) not in seen:
            seen.append(sort)
            found.append((index, limit))
    return list(_each_place(machine, found, optimizer, captures)), reserved


def _each_place(
    machine: Machine,
    found: Sequence[tuple[int, int]],
    optimizer: Any,
    captures: PassCaptures,
) -> Iterator[Place]:
    kinds = [machine.devices[index].kind for index, _ in found]
    for index, limit in found:
        device = machine.devices[index]
        yield Place(
            machine=only(machine, index),
            limit_bytes=limit,
            name=device.kind if kinds.count(device.kind) == 1 else device.name,
            optimizers=tuple(optimizers_to_try(optimizer, on_cpu=device.is_cpu, dtypes=captures.trained_dtypes)),
        )
