"""A PyTorch module that runs as planned: what `placewright.compile` returns.

PyTorch captures the module and guards what its Python reads; the graphs it captures run as planned. Imported only where
torch is known to be present.
"""

from __future__ import annotations

import copy
import random
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any, TypeVar, cast

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from placewright.api.calibration import calibrate_graph
from placewright.api.local_devices import Devices
from placewright.api.measured_placements import check_solver
from placewright.api.module_capture import Call, ModuleCapture
from placewright.api.planned_graphs import PlannedGraph, PreparedError, Wishes
from placewright.api.questions import Answer, Plan, answer
from placewright.api.self_check import SelfCheck
from placewright.execution.comparison import RunComparison
from placewright.execution.pytorch.compare import compare_run, inference, training_step
from placewright.execution.pytorch.machine import cores_by_device
from placewright.execution.pytorch.optimizer_memory import needed_bytes, optimizer_memory
from placewright.execution.pytorch.profile import unchanged
from placewright.execution.pytorch.step import TorchStep
from placewright.execution.pytorch.step_in_backward import gradient_of
from placewright.execution.workers import Workers
from placewright.importers.torch.arguments import mode_set
from placewright.importers.torch.results import default_loss
from placewright.support.errors import InputError, shown
from placewright.terminal.run_table import run_table

#: A lock for each module: one call at a time, as a call sets the module's mode and may compare itself with eager's.
_TURNS: weakref.WeakKeyDictionary[nn.Module, threading.RLock] = weakref.WeakKeyDictionary()
_M = TypeVar("_M", bound=Callable[..., Any])


def _in_turn(method: _M) -> _M:
    """A method of `Compiled` for which other threads' calls of the same module wait."""

    @wraps(method)
    def run(self: Compiled, *args: Any, **kwargs: Any) -> Any:
        with self._turn:
            return method(self, *args, **kwargs)

    return cast(_M, run)


class Compiled:
    """A module that runs as planned. Its worker threads end with it, or with `close`.

    Attributes
    ----------
    plans
        The plans of the graphs that ran in the latest call, in their order; before a first call, of those prepared.
    """

    plans: tuple[Plan, ...]

    def __init__(self, call: Call, devices: Devices, wishes: Wishes, *, verify: bool = True) -> None:
        if wishes.inductor and not devices.on_host:
            raise InputError("inductor compiles ops of CPU devices; leave it out, or the CUDA devices")
        if wishes.measure_placements:
            check_solver(wishes.options.get("solver", "auto"))
            if not devices.on_host:
                raise InputError("placements are measured on CPU devices; leave out measure_placements, or the others")
        if call.optimizer is not None and not isinstance(call.optimizer, Optimizer):
            raise InputError(
                "the optimizer must be one of torch.optim that holds the module's parameters, and this is a "
                f"{shown(type(call.optimizer).__name__)}"
            )
        self._call = call
        self._devices = devices
        self._wishes = wishes
        self._verify = verify
        self.plans = ()
        self._peaks: tuple[int, ...] = ()
        self._start()

    def _start(self) -> None:
        self._turn = _TURNS.setdefault(self._call.model, threading.RLock())
        weakref.finalize(self, self._devices.workers.close)
        #: Captures; each was made where the plans of the earlier ones had no room for the gradients at that time.
        self._variants: list[ModuleCapture] = []
        self._is_checked = not self._verify
        #: Whether the module has been in training mode since it is planned.
        self._was_in_training = self._call.model.training

    @property
    def plan(self) -> Plan:
        """The plan of the latest call. Raises InputError where the module is captured as several graphs."""
        if len(self.plans) != 1:
            raise InputError(
                f"the module runs as {len(self.plans)} graphs, and each has a plan; `plans` are all of them"
            )
        return self.plans[0]

    @property
    def peak_bytes(self) -> int:
        """The most memory that a step of one device holds, in bytes, with the optimizer's states and its step."""
        call = self._call
        peaks = self._peaks
        if not peaks:
            raise InputError("PyTorch captures the module as several graphs, which are planned at the first call")
        if call.optimizer is None:
            return max(peaks)
        found = optimizer_memory(call.optimizer)
        return max(*(peak + found.state_bytes for peak in peaks), needed_bytes(call.model, call.optimizer, found))

    @property
    def num_compiled_regions(self) -> int:
        """The number of regions of ops that Inductor computes."""
        return sum(part.step.num_compiled_regions for part in self._parts() if part.step is not None)

    @property
    def fallbacks(self) -> dict[str, str]:
        """The ops that ran on the CPU since their device has no kernel for them.

        Returns
        -------
        dict
            The device and PyTorch's message by name of the op, for all plans so far.
        """
        found: dict[str, str] = {}
        for part in self._parts():
            found |= part.step.fallbacks if part.step is not None else {}
        return found

    @_in_turn
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, or one training step, on arguments as the module takes them."""
        self._check_mode()
        self._devices.compute_as_caller()
        variant = self._variant(args, kwargs)
        if self._is_checked or not self._may_check(variant):
            result = variant.run(args, kwargs)
        else:
            result = self._checked(variant, args, kwargs)
        self.plans, self._peaks = variant.plans, variant.peaks
        optimizer = self._call.optimizer
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return result

    def __getattr__(self, name: str) -> Any:
        """Look up on the module what this object lacks, such as `state_dict`, `parameters` and `eval`."""
        call = vars(self).get("_call")
        if call is None or name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        found = getattr(call.model, name)
        return partial(self._call_of_module, found) if getattr(found, "__self__", None) is call.model else found

    def _call_of_module(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return the result of a method of the module; this object, where it is the module."""
        result = method(*args, **kwargs)
        return self if result is self._call.model else result

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy: the module and how it is planned. A copy makes plans of its own.

        Raises InputError for a step with an optimizer, since only the copied step would have the optimizer's copy.
        """
        self._refuse_optimizer("copying or pickling")
        kept = ("_call", "_devices", "_wishes", "_verify", "plans", "_peaks")
        return {name: vars(self)[name] for name in kept}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Starts anew."""
        vars(self).update(state)
        self._start()

    @_in_turn
    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Capture, time and plan the module for arguments like these, as their first call would.

        Where the module is captured as several graphs, this prepares the first.
        """
        variant = self._variant(args, kwargs)
        # What forward draws from Python's generator is drawn before its first graph; PyTorch 2.14 leaves it drawn.
        drawn = random.getstate()
        try:
            variant.run(args, kwargs, prepare=True)
        except PreparedError:
            random.setstate(drawn)
        self.plans, self._peaks = variant.plans, variant.peaks

    @_in_turn
    def compare(self, *args: Any, steps: int = 20, **kwargs: Any) -> Answer[RunComparison]:
        """Run the module as planned, on one device and without a plan, and tell how long each takes.

        Parameters
        ----------
        args, kwargs
            The arguments of the module.
        steps
            How many steps of each sort are run.

        Returns
        -------
        Answer
            `facts` are what `placewright run --json` prints. Parameters, buffers and arguments are as they were.

        Raises
        ------
        InputError
            For a training step with an optimizer, which cannot be run without changing its state, and for a module that
            is captured as several graphs.
        """
        self._refuse_optimizer("compare")
        graph, values = self.captured("compare", args, kwargs)
        parameters, tensors = graph.program.split(values)
        places, cores = self._devices.places, cores_by_device(self._devices.machine)
        eager = self._without_plan(copy.deepcopy(self._call.model), args, kwargs)
        compiled = None
        if self._wishes.inductor:
            compiled = self._without_plan(torch.compile(copy.deepcopy(self._call.model)), args, kwargs)
        workers = Workers(cores[:1])
        try:
            planned = TorchStep(graph.program, graph.plan, self._devices.workers, places)
            one_device = TorchStep(graph.program, graph.alone, workers, places[:1])
            if self._wishes.inductor:
                planned.compile_regions(parameters, tensors)
            for step in (planned, one_device) if self._devices.is_recorded else ():
                with unchanged(step.overwritten(parameters, tensors), places=step.places):
                    step.record(parameters, tensors)
            found = compare_run(planned, one_device, parameters, tensors, eager, cores, steps, compiled)
        finally:
            workers.close()
        found = replace(found, rounds=graph.rounds)
        return answer(found, run_table(found))

    @_in_turn
    def calibrate(self, *args: Any, steps: int = 20, **kwargs: Any) -> tuple[Any, ...]:
        """Run the plan, plan again with the times measured in the run, and keep the plan with the fastest steps.

        Ends when planned and measured agree within 3%, or after two plans more. The plan that is kept has the op times
        and links of its own run, which are what a step takes with all devices at work.

        Parameters
        ----------
        args, kwargs
            The arguments of the module.
        steps
            How many steps each plan is run.

        Returns
        -------
        tuple of CalibrationRound
            One for each plan, with planned and measured times.

        Raises
        ------
        InputError
            For a plan that was given to be run as it is, for one whose ops run again, and as `compare` raises it.
        """
        self._refuse_optimizer("calibrate")
        devices = self._devices
        if devices.is_recorded:
            raise InputError("calibrate is for steps that are launched op by op; leave it or cuda_graph out")
        if self._wishes.given is not None:
            raise InputError("calibrate plans again, and a plan was given to be run as it is; leave one of them out")
        if len({device.kind for device in devices.machine.devices}) > 1:
            raise InputError("calibrate takes op times from a run, which has them for devices of one kind only")
        graph, values = self.captured("calibrate", args, kwargs)
        if graph.plan.reruns:
            raise InputError("calibrate plans with the times of ops in a run, which ops that run again have several of")
        calibrate_graph(graph, values, self._variant(args, kwargs).planner, steps)
        self.plans, self._peaks = (graph.plan,), (graph.plan.peak_bytes[0] + graph.beside,)
        return graph.rounds

    def captured(self, what: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[PlannedGraph, list[Any]]:
        """The graph that runs for these arguments, and the values of its placeholders.

        Raises InputError where there are several. what: the purpose, which the error names.
        """
        try:
            self._variant(args, kwargs).run(args, kwargs, prepare=True)
        except PreparedError as prepared:
            if prepared.graph.is_whole:
                return prepared.graph, prepared.values
        raise InputError(f"{what} is for modules that PyTorch captures as one graph")

    def _variant(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> ModuleCapture:
        """The capture that has room for the present gradients, for arguments that share memory as these do."""
        call, gradient_bytes, sharing = self._call, 0, _sharing(args, kwargs)
        if call.training and self._wishes.options.get("memory_limit") is not None:
            there = (gradient for each in call.model.parameters() if (gradient := gradient_of(each)) is not None)
            gradients = {id(gradient): gradient for gradient in there}
            gradient_bytes = sum(gradient.nbytes for gradient in gradients.values() if not gradient.is_sparse)
        own = (each for each in self._variants if each.sharing == sharing)
        found = next((each for each in own if each.has_room(gradient_bytes)), None)
        if found is None:
            found = ModuleCapture(call, self._devices, self._wishes, sharing, verifies=self._verify)
            self._variants.append(found)
        found.make_room(gradient_bytes)
        return found

    def _may_check(self, variant: ModuleCapture) -> bool:
        """True if there is room for a step in eager: on the host, or without a limit."""
        return self._devices.on_host or variant.planner.limit is None

    def _checked(self, variant: ModuleCapture, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The first call, compared with eager's."""
        cores = cores_by_device(self._devices.machine)
        # An op on one of several devices has fewer threads, which adds in another order.
        check = SelfCheck(len(cores[0]) if len(cores) > 1 else torch.get_num_threads())
        call, planner = self._call, variant.planner

        def eager(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            with mode_set(model, call.training):
                result = model(*args, **kwargs)
                return (call.loss or default_loss)(result) if call.training else result

        if variant.is_whole and planner.graphs and planner.can_be_copied:
            result = check.run_call((call.model, args, kwargs), eager, lambda: variant.run(args, kwargs))
            check.compare(result if call.training else None)
        else:
            with planner.checked_by(check):
                result = variant.run(args, kwargs)
            check.compare(variant.loss if variant.is_whole else None)
        self._is_checked = True
        return result

    def _check_mode(self) -> None:
        """Raises InputError where the module has been set to the other mode, or for training without gradients."""
        if not self._call.training:
            if self._call.model.training and not self._was_in_training:
                raise InputError(
                    "the module is in training mode by now, and what was compiled runs it in evaluation mode; call "
                    "eval() first, or compile it with training=True"
                )
            return
        if self._was_in_training and not self._call.model.training:
            raise InputError(
                "the module is in evaluation mode by now, and a call of what was compiled is a training step; call the "
                "module itself to evaluate it, and train() before the next step"
            )
        if not torch.is_grad_enabled():
            raise InputError(
                "a call of what was compiled is a training step, and gradients are switched off here, as by "
                "torch.no_grad(); call the module itself to evaluate it"
            )
        self._was_in_training = self._call.model.training

    def _refuse_optimizer(self, what: str) -> None:
        if self._call.optimizer is not None:
            raise InputError(f"{what} runs steps that change nothing; compile the module without the optimizer for it")

    def _without_plan(self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], None]:
        if self._call.training:
            return training_step(model, args, kwargs, self._call.loss or default_loss)
        return inference(model, args, kwargs)

    def synchronize(self) -> None:
        """Bring copies of parameters on CUDA devices up to date.

        They see all changes but those made through `.data`.
        """
        for part in self._parts():
            if part.step is not None:
                part.step.residents.forget()

    def _parts(self) -> list[Any]:
        return [
            part for variant in self._variants for graph in variant.planner.graphs for part in graph.parts
        ]  # fmt: skip

    def close(self) -> None:
        """End the worker threads; a later call starts new ones."""
        self._devices.workers.close()

    def __enter__(self) -> Compiled:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _sharing(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """The position, for each tensor argument, of the first one in the same memory; empty where none share memory."""
    leaves = (leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))
    first: dict[int, int] = {}
    found = tuple(
        first.setdefault(leaf.untyped_storage()._cdata, place)
        for place, leaf in enumerate(leaves)
        if leaf.layout == torch.strided and not leaf.is_nested
    )
    return found if len(first) < len(found) else ()
