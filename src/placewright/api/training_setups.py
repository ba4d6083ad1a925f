"""`alternatives`: what a person would try to fit a training step into a memory limit, side by side."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placewright.analysis.alternatives import Alternatives, TrainingSetup, ranked
from placewright.analysis.basis import basis_words
from placewright.api.arguments import budget, globs, whole_number
from placewright.api.functions import as_machine
from placewright.api.memory_limits import host_and_limits
from placewright.api.questions import Answer, answer
from placewright.bounds import least_limit
from placewright.costs import count_sources
from placewright.costs.estimate import TimeSources
from placewright.graph import Graph
from placewright.importers import builder
from placewright.importers.forward_backward import (
    ForwardBackward,
    StepOptimizer,
    held_at_peak,
    last_pass,
    training_step,
)
from placewright.machine import Device, Machine
from placewright.machines.topology import only
from placewright.problem import Problem, make_problem
from placewright.problem.objective import Metrics
from placewright.rematerialization.proofs import some_may_run_again
from placewright.rematerialization.reruns import Rerun
from placewright.rematerialization.solve import (
    in_order,
    in_other_order,
    ops_of,
    order_of_least_memory,
    rematerialize,
    rerun_evaluations,
    with_reruns,
)
from placewright.search.run.budget import UNLIMITED, Budget, Interrupted, OnProgress
from placewright.search.run.result import measure
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError, shown
from placewright.support.interruption import until_interrupted

if TYPE_CHECKING:
    from torch import nn

#: Passes of a step that are tried, as far as they divide the batch.
_ACCUMULATIONS = (1, 2, 4, 8)
#: What each optimizer is called, and how one is made.
_OPTIMIZERS: Mapping[StepOptimizer, tuple[str, str]] = {
    "adam": ("Adam", "torch.optim.Adam(model.parameters())"),
    "adam8bit": ("8-bit Adam", "bitsandbytes.optim.Adam8bit(model.parameters())"),
    "sgd": ("SGD", "torch.optim.SGD(model.parameters())"),
    "sgd-momentum": ("SGD with momentum", "torch.optim.SGD(model.parameters(), momentum=0.9)"),
}
_GPUS_ONLY = "adam8bit"
#: Dtypes of parameters that bitsandbytes has kernels for.
_8_BIT_OF = ("float32", "float16", "bfloat16")


def alternatives(
    model: nn.Module,
    devices: Machine | str | Path | Sequence[str],
    *,
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    loss: Callable[[Any], Any] | None = None,
    memory_limit: int | str | Mapping[str | int, int | str] | Sequence[int | str | None] | None = None,
    optimizers: Sequence[StepOptimizer] = ("adam", "adam8bit", "sgd"),
    keep: Sequence[str] = (),
    evaluations: int | None = None,
    time_limit: float | str = 60.0,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    on_stage: Callable[[str], None] | None = None,
    interrupted: Interrupted | None = None,
) -> Answer[Alternatives]:
    """Tell which ways to run a training step fit into a memory limit, and how long each takes for a sample.

    Tried are the batch as it is and in 2, 4 and 8 passes whose gradients are accumulated; the module's own dtype and
    bfloat16 autocast; several optimizers; and where that does not fit, ops that run again; each on every sort of device
    of the machine. Every batch and dtype is captured anew, and every step simulated whole.

    Parameters
    ----------
    model
        A module. Nothing is computed.
    devices
        A machine, as `plan` takes it. Each of its devices is looked at alone, equal ones once.
    args, kwargs
        What the module is called with. The batch is the first dimension of the first tensor, and of all others that
        have as much of it.
    loss
        Makes a scalar of the module's output, as in `from_torch`.
    memory_limit
        As `plan` takes it; by default what the devices have.
    optimizers
        Which are tried, first the one that you have: "adam", "adam8bit" (of bitsandbytes, on GPUs, for
        parameters in float32, float16 or bfloat16), "sgd", "sgd-momentum".
    keep
        Globs over names of ops or modules: these run once.
    evaluations
        Budget of each search for ops that run again. By default a quarter of a second's worth.
    time_limit
        Seconds in all, or text like "30s", after which no other is begun; `left_out` says which these are.
    seed
        Of all random choices.
    on_progress
        Called now and then with the best so far of a search.
    on_stage
        Called with words for what is captured now.
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

    began = time.perf_counter()
    machine = as_machine(devices)
    # Nothing is moved, so that any limit of the host is kept.
    limits = host_and_limits(memory_limit, machine)[1] or {}
    unknown = [name for name in optimizers if name not in _OPTIMIZERS]
    if unknown or isinstance(optimizers, str) or not optimizers:
        raise InputError(f"optimizers is {optimizers!r}; it must be a list of {', '.join(_OPTIMIZERS)}")
    seconds = budget(None, time_limit, default_evaluations=1).seconds
    search = _Search(
        places=list(_places(machine, limits)),
        optimizers=tuple(optimizers),
        keep=globs("keep", keep),
        evaluations=None if evaluations is None else whole_number("evaluations", evaluations, 1, UNLIMITED),
        seed=whole_number("seed", seed, 0, 2**64 - 1),
        on_progress=on_progress,
        on_stage=on_stage,
        interrupted=interrupted,
    )
    found = search.found(PassCaptures(model, args, kwargs or {}, loss), machine, began + (seconds or 0))
    return answer(found, alternatives_table(found))


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A device that is looked at. machine: of it alone. name: its kind, or where several have the same, its own."""

    machine: Machine
    limit_bytes: int
    name: str

    @property
    def autocast(self) -> str:
        """Whose rules autocast has there."""
        return "cpu" if self.machine.devices[0].is_cpu else "gpu"


def _places(machine: Machine, limits: Mapping[str, int]) -> Iterator[_Place]:
    """Each sort of device once. Raises InputError for one whose memory is not known."""
    seen: list[tuple[Device, int]] = []
    found: list[tuple[int, int]] = []
    for index, device in enumerate(machine.devices):
        sizes = [size for size in (limits.get(device.name), device.memory_bytes) if size is not None]
        if not sizes:
            raise InputError(f"what memory '{shown(device.name)}' has is not known; give a memory limit")
        if (sort := (replace(device, name=""), min(sizes))) not in seen:
            seen.append(sort)
            found.append((index, min(sizes)))
    kinds = [machine.devices[index].kind for index, _ in found]
    for index, limit in found:
        device = machine.devices[index]
        name = device.kind if kinds.count(device.kind) == 1 else device.name
        yield _Place(machine=only(machine, index), limit_bytes=limit, name=name)


def is_torch_module(model: Any) -> bool:
    """Whether it is a module, which nobody has without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


class PassCaptures:
    """Passes of a module, each captured once.

    samples: of the batch that it is called with. dtype: of its parameters. trained_dtypes: of those that are trained.
    """

    def __init__(
        self, model: Any, args: Any, kwargs: Mapping[str, Any], loss: Callable[[Any], Any] | None = None
    ) -> None:
        if not is_torch_module(model):
            raise InputError(
                "alternatives are of a PyTorch module, which can be captured for other batches, and this is a "
                f"{shown(type(model).__name__)}"
            )
        import torch
        from torch.utils import _pytree as pytree

        from placewright.importers.torch.module import positional

        self.model = model
        self._loss = loss
        self._leaves, self._structure = pytree.tree_flatten((positional(args), dict(kwargs)))
        sizes = [leaf.shape[0] for leaf in self._leaves if isinstance(leaf, torch.Tensor) and leaf.dim()]
        if not sizes:
            raise InputError("no argument of the module is a tensor with a batch dimension")
        self.samples = int(sizes[0])
        floating = [each.dtype for each in model.parameters() if each.dtype.is_floating_point]
        self.dtype = str(floating[0] if floating else torch.float32).removeprefix("torch.")
        trained = {str(each.dtype).removeprefix("torch.") for each in model.parameters() if each.requires_grad}
        self.trained_dtypes = sorted(trained)
        self._known: dict[tuple[int, str | None], ForwardBackward] = {}
        self._warned: set[str] = set()

    @property
    def accumulations(self) -> list[int]:
        """Numbers of passes that the batch can be taken in."""
        return [count for count in _ACCUMULATIONS if self.samples % count == 0]

    def get(self, count: int, autocast: str | None) -> ForwardBackward:
        """One of `count` passes. Raises InputError where PyTorch cannot trace it."""
        import torch
        from torch.utils import _pytree as pytree

        from placewright.importers.torch.forward_backward import forward_backward

        key = count, autocast
        if key not in self._known:
            size = self.samples // count
            leaves = [
                leaf[:size] if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == self.samples else leaf
                for leaf in self._leaves
            ]
            args, kwargs = pytree.tree_unflatten(leaves, self._structure)
            with _each_warning_once(self._warned):
                self._known[key] = forward_backward(self.model, args, kwargs, loss=self._loss, autocast=autocast)
        return self._known[key]


@contextmanager
def _each_warning_once(known: set[str]) -> Iterator[None]:
    """Meanwhile captures do not log what is in `known`, to which goes what they do log."""
    logger = logging.getLogger(builder.__name__)

    def is_new(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if message in known:
            return False
        known.add(message)
        return True

    logger.addFilter(is_new)
    try:
        yield
    finally:
        logger.removeFilter(is_new)


@dataclass(frozen=True, kw_only=True)
class _Way:
    """What is common to setups of one capture."""

    place: _Place
    passes: ForwardBackward
    batch: int
    accumulation: int
    dtype: str
    autocast: bool


@dataclass(kw_only=True)
class _Search:
    """Setups tried one by one."""

    places: Sequence[_Place]
    optimizers: tuple[StepOptimizer, ...]
    keep: Sequence[str]
    evaluations: int | None
    seed: int
    on_progress: OnProgress | None
    on_stage: Callable[[str], None] | None
    interrupted: Interrupted | None
    setups: list[TrainingSetup] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    sources: TimeSources | None = None

    def found(self, captures: PassCaptures, machine: Machine, until: float) -> Alternatives:
        """All that is found until a time."""
        asked = _OPTIMIZERS[self.optimizers[0]][0]
        if _GPUS_ONLY in self.optimizers and (without := set(captures.trained_dtypes).difference(_8_BIT_OF)):
            reason = (
                f"{_OPTIMIZERS[_GPUS_ONLY][0]}: bitsandbytes has none for parameters of {', '.join(sorted(without))}"
            )
            self.optimizers = tuple(optimizer for optimizer in self.optimizers if optimizer != _GPUS_ONLY)
            if not self.optimizers:
                raise InputError(f"no optimizer is left to try; {reason}")
            self.left_out.append(reason)
        dtypes = (False, True) if captures.dtype == "float32" else (False,)
        ways = [(count, autocast) for count in captures.accumulations for autocast in dtypes]
        for number, (count, autocast) in enumerate(ways, 1):
            dtype = "bfloat16" if autocast else captures.dtype
            words = f"batch {captures.samples // count}{f' x {count}' if count > 1 else ''}, {dtype}"
            first = not self.setups
            if (self.interrupted and self.interrupted()) or (not first and time.perf_counter() > until):
                self.left_out.append(f"{words}: there was no time for it")
                continue
            if self.on_stage is not None:
                self.on_stage(f"capturing {number} of {len(ways)}: {words}")
            try:
                with until_interrupted(self.interrupted):
                    self._try(captures, count, autocast, dtype)
            except InputError as error:
                if first:
                    raise
                self.left_out.append(f"{words}: {error}")
        if not self.setups:
            raise KeyboardInterrupt
        return Alternatives(
            schema_version=1,
            model=type(captures.model).__name__,
            machine=machine.name,
            samples=captures.samples,
            optimizer=asked,
            basis=basis_words(self.sources, machine),
            setups=ranked(self.setups),
            left_out=tuple(self.left_out),
            seed=self.seed,
        )

    def _try(self, captures: PassCaptures, count: int, autocast: bool, dtype: str) -> None:
        for place in self.places:
            way = _Way(
                place=place,
                passes=captures.get(count, place.autocast if autocast else None),
                batch=captures.samples // count,
                accumulation=count,
                dtype=dtype,
                autocast=autocast,
            )
            for optimizer in self.optimizers:
                if optimizer != _GPUS_ONLY or not place.machine.devices[0].is_cpu:
                    self._try_optimizer(way, optimizer)

    def _try_optimizer(self, way: _Way, optimizer: StepOptimizer) -> None:
        problem = self._problem(training_step(way.passes, optimizer, way.accumulation), way)
        if self.sources is None and problem.time_origin is not None:
            self.sources = count_sources(problem.time_origin)
        plain = _setup(way, optimizer, problem)
        self.setups.append(plain)
        if not plain.fits and (planned := self._planned(way, optimizer)) is not None:
            self.setups.append(planned)

    def _planned(self, way: _Way, optimizer: StepOptimizer) -> TrainingSetup | None:
        """The step with ops that run again or, if `fit` knows its optimizer, in another order.

        None where nothing may run again, the search finds nothing to do, or the least that is needed is proven to be
        too much. What steps outside of the plan stays behind the passes, so gradients are held until then.
        """
        several = way.accumulation > 1
        graph = last_pass(way.passes, optimizer) if several else training_step(way.passes, optimizer)
        one = self._problem(graph, way)
        if least_limit(one)[0] > way.place.limit_bytes or not some_may_run_again(one, self.keep):
            return None
        evaluations = self.evaluations or max(12, rerun_evaluations(one) // 4)
        run = SearchRun(
            Budget(evaluations=evaluations),
            seed=self.seed,
            on_progress=self.on_progress,
            interrupted=self.interrupted,
        )
        if not _fit_knows(way, optimizer):
            reruns = rematerialize(one, run, self.keep).reruns
            if several:
                reruns = tuple(_in_each_pass(reruns, way.passes.graph, graph, way.accumulation))
                one = self._problem(training_step(way.passes, optimizer, way.accumulation), way)
            else:
                passed = {op.name for op in way.passes.graph.ops}
                reruns = tuple(rerun for rerun in reruns if rerun.before in passed)
            return _setup(way, optimizer, with_reruns(one, reruns), reruns) if reruns else None
        again = rematerialize(one, run, self.keep, orders=[order_of_least_memory(one)])
        order = ops_of(again.result.solution.order)
        if not again.reruns and bool((order == np.arange(len(order))).all()):
            return None
        return _setup(way, optimizer, in_other_order(again.problem, order), again.reruns)

    def _problem(self, graph: Graph, way: _Way) -> Problem:
        return replace(make_problem(graph, way.place.machine), memory_limits_bytes=(way.place.limit_bytes,))


def _in_each_pass(reruns: Sequence[Rerun], graph: Graph, last: Graph, count: int) -> Iterator[Rerun]:
    """The reruns of the last pass, which adds gradients, in each of several. What comes behind a pass needs none."""
    own = {op.name for op in graph.ops}
    # Of each op of the last pass, itself or what follows it in every pass.
    before: dict[str, str] = {}
    following = ""
    for op in reversed(last.ops):
        following = op.name if op.name in own else following
        before[op.name] = following
    for number in range(1, count + 1):
        for rerun in reruns:
            if before[rerun.before]:
                at = rerun.name.rindex("@")
                yield Rerun(
                    name=f"{rerun.op}#{number}{rerun.name[at:]}",
                    op=f"{rerun.op}#{number}",
                    before=f"{before[rerun.before]}#{number}",
                    tensors=tuple(f"{tensor}#{number}" for tensor in rerun.tensors),
                )


def _setup(
    way: _Way, optimizer: StepOptimizer, problem: Problem, reruns: tuple[Rerun, ...] | None = None
) -> TrainingSetup:
    """problem: with each run as an op, in the order of the step. reruns: of a plan, if there is one."""
    metrics, graph = measure(problem, in_order(problem)), problem.graph
    sizes = _held(way, graph, metrics)
    samples = way.batch * way.accumulation
    limit = way.place.limit_bytes
    return TrainingSetup(
        batch=way.batch,
        accumulation=way.accumulation,
        dtype=way.dtype,
        autocast=way.autocast,
        optimizer=_OPTIMIZERS[optimizer][0],
        planned=reruns is not None,
        num_reruns=len(reruns or ()) // way.accumulation,
        device=way.place.name,
        limit_bytes=limit,
        fits=metrics.peak_memory_bytes <= limit,
        peak_bytes=metrics.peak_memory_bytes,
        **sizes,
        step_time_ns=metrics.step_time_ns,
        time_per_sample_ns=metrics.step_time_ns / samples,
        code=_code(way, optimizer, sizes, planned=reruns is not None),
    )


def _held(way: _Way, graph: Graph, metrics: Metrics) -> dict[str, int]:
    """What the peak is made of."""
    tensors, base_of = graph.tensors, graph.base_of
    own = {tensor.name for tensor in way.passes.graph.tensors if tensor.role != "activation"}
    resident = [tensor for tensor in tensors if tensor.role != "activation"]
    parameters = sum(tensor.held_bytes for tensor in resident if tensor.name in own)
    states = sum(tensor.held_bytes for tensor in resident if tensor.name not in own)
    # Each op of the optimizer reads a parameter, then the sum of its gradients.
    sums = {base_of[op.inputs[1]] for op in graph.ops if op.kind == "optimizer"}
    _, alive = held_at_peak(graph)
    gradients = sum(tensors[tensor].held_bytes for tensor in sums & alive)
    return {
        "parameter_bytes": parameters,
        "gradient_bytes": gradients,
        "optimizer_bytes": states,
        "activation_bytes": metrics.peak_memory_bytes - parameters - states - gradients,
    }


def _fit_knows(way: _Way, optimizer: StepOptimizer) -> bool:
    """Whether a plan by `fit` has the steps of the optimizer in it."""
    return way.accumulation == 1 and optimizer != "adam8bit"


def _code(way: _Way, optimizer: StepOptimizer, sizes: Mapping[str, int], *, planned: bool) -> str:
    """What to write, by lines."""
    count = way.accumulation
    lines = []
    if way.autocast:
        kind = "cpu" if way.place.machine.devices[0].is_cpu else "cuda"
        lines.append(f'model.forward = torch.autocast("{kind}", dtype=torch.bfloat16)(model.forward)')
    lines.append(f"optimizer = {_OPTIMIZERS[optimizer][1]}")
    parts = f"for part in zip(*(each.chunk({count}) for each in batch)):"
    if planned and _fit_knows(way, optimizer):
        lines.append(f"step = placewright.fit(model, batch, {way.place.limit_bytes}, optimizer=optimizer)")
        lines.append("step(*batch)")
        return "\n".join(lines)
    if planned:
        # The states of an optimizer that steps outside of the plan come on top of what `fit` counts.
        rest = way.place.limit_bytes - sizes["optimizer_bytes"]
        if count == 1:
            lines += [f"step = placewright.fit(model, batch, {rest})", "step(*batch)"]
        else:
            lines += [
                f"first = tuple(each.chunk({count})[0] for each in batch)",
                f"step = placewright.fit(model, first, {rest}, loss=lambda loss: loss / {count})",
                parts,
                "    step(*part)",
            ]
    elif count == 1:
        lines.append("model(*batch).backward()")
    else:
        lines += [parts, f"    (model(*part) / {count}).backward()"]
    return "\n".join([*lines, "optimizer.step()", "optimizer.zero_grad()"])
