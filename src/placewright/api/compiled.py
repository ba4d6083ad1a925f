"""A PyTorch module that runs as planned: what `placewright.compile` returns.

PyTorch captures the module and guards what its Python reads; the graphs it captures run as planned. Imported only where
torch is known to be present.
"""

from __future__ import annotations

import builtins
import copy
import re
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch._dynamo.exc import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    InternalTorchDynamoError,
    TorchRuntimeError,
    Unsupported,
    UserError,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from placewright.api.beside_one_device import beside_first_device
from placewright.api.calibration import Calibration
from placewright.api.captured_graphs import compile_graph
from placewright.api.dynamo import RefusedError, passed_through
from placewright.api.measured_placements import check_solver
from placewright.api.planned_graphs import Devices, GraphPlanner, PlannedGraph, PreparedError, Wishes
from placewright.api.profiles import mode_name
from placewright.api.questions import Answer, Plan, answer
from placewright.api.self_check import SelfCheck
from placewright.execution.comparison import RunComparison
from placewright.execution.pytorch.compare import compare_run, inference, training_step
from placewright.execution.pytorch.machine import cores_by_device
from placewright.execution.pytorch.miscaptured import OpenSizesError
from placewright.execution.pytorch.open_sizes import take_marks_off
from placewright.execution.pytorch.optimizer_memory import check_step_fits, needed_bytes, optimizer_memory
from placewright.execution.pytorch.profile import unchanged
from placewright.execution.pytorch.step import TorchStep
from placewright.execution.pytorch.step_in_backward import gradient_of
from placewright.execution.workers import Workers
from placewright.importers.source_lines import source_of_frames
from placewright.importers.torch.arguments import bind, mode_set
from placewright.importers.torch.autocast import without_autocast
from placewright.importers.torch.results import check_loss, default_loss
from placewright.support.errors import InputError, shown
from placewright.terminal.run_table import run_table

#: What PyTorch says of a second derivative.
_TWICE = "does not currently support double backward"
#: What it says of a gradient with respect to a tensor that is made in the same graph as what depends on it.
_UNREACHED = "appears to not have been used in the graph"
#: What is returned where nothing has run.
_NOTHING = object()
#: How often PyTorch may capture a module anew, for other shapes or for other values that its Python reads.
_MOST_CAPTURES = 64


@dataclass(frozen=True, kw_only=True)
class Call:
    """What is called: a module, or a training step of it.

    loss: makes a scalar of what the module returns. optimizer: makes its step after each backward pass.
    """

    model: nn.Module
    training: bool
    loss: Callable[[Any], Any] | None = None
    optimizer: Optimizer | None = None


def _why(error: Any) -> str:
    """What PyTorch's front says, with the line of the user's code."""
    error = getattr(error, "inner_exception", error)
    told = re.search(r"got \w+\((['\"])(.+?)\1\)", str(error))
    what = told[2] if told else str(error).strip().splitlines()[0].rstrip(".")
    files = [(frame.filename, frame.lineno) for frame in getattr(error, "real_stack", None) or ()]
    where = source_of_frames("\n".join(f'File "{file}", line {line}' for file, line in files))
    return f"{what} (in {where})" if where else what


class Compiled:
    """A module that runs as planned. Its worker threads end with it, or with `close`.

    Attributes
    ----------
    plans
        Of the graphs that ran in the latest call, in their order; before a first call, those that are prepared.
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
        self._lock = threading.RLock()
        weakref.finalize(self, self._devices.workers.close)
        #: Each made where the plans of those before it had no room for the gradients that were there.
        self._variants: list[_Variant] = []
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
        """What a step of one device holds at the most, with the optimizer's states and its step."""
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
        """How many runs of ops Inductor computes."""
        return sum(part.step.num_compiled_regions for part in self._parts() if part.step is not None)

    @property
    def fallbacks(self) -> dict[str, str]:
        """The ops that ran on the CPU since their device has no kernel for them.

        Returns
        -------
        dict
            Of all plans so far, by name of the op: the device and what PyTorch said.
        """
        found: dict[str, str] = {}
        for part in self._parts():
            found |= part.step.fallbacks if part.step is not None else {}
        return found

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
        """What the module has and this has not, such as `state_dict`, `parameters` and `eval`, is the module's."""
        call = vars(self).get("_call")
        if call is None or name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        found = getattr(call.model, name)
        return partial(self._call_of_module, found) if getattr(found, "__self__", None) is call.model else found

    def _call_of_module(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a method of the module returns; this, where it returns the module."""
        result = method(*args, **kwargs)
        return self if result is self._call.model else result

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made of: the module and how it is planned. A copy makes plans of its own.

        Raises InputError for a step with an optimizer, whose copy nobody but the copied step would know.
        """
        self._refuse_optimizer("copying or pickling")
        kept = ("_call", "_devices", "_wishes", "_verify", "plans", "_peaks")
        return {name: vars(self)[name] for name in kept}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Starts anew."""
        vars(self).update(state)
        self._start()

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Capture, time and plan the module for arguments like these, as their first call would.

        Of a module that is captured as several graphs it is the first.
        """
        variant = self._variant(args, kwargs)
        with suppress(PreparedError):
            variant.run(args, kwargs, prepare=True)
        self.plans, self._peaks = variant.plans, variant.peaks

    def compare(self, *args: Any, steps: int = 20, **kwargs: Any) -> Answer[RunComparison]:
        """Run the module as planned, on one device and without a plan, and tell how long each takes.

        Parameters
        ----------
        args, kwargs
            What the module is called with.
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

    def calibrate(self, *args: Any, steps: int = 20, **kwargs: Any) -> tuple[Any, ...]:
        """Run the plan, plan again with what was measured in the run, and keep the plan whose steps took least.

        Ends when planned and measured agree within 3%, or after two plans more. The plan that is kept has the op times
        and links of its own run, which are what a step takes with all devices at work.

        Parameters
        ----------
        args, kwargs
            What the module is called with.
        steps
            How many steps each plan is run.

        Returns
        -------
        tuple of CalibrationRound
            One for each plan, with what was planned and what measured.

        Raises
        ------
        InputError
            For a plan that was given to be run as it is or whose ops run again, and as `compare` raises it.
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
        program, planner = graph.program, self._variant(args, kwargs).planner
        parameters, tensors = program.split(values)
        workers = Workers(cores_by_device(devices.machine)[:1])
        with planner.kept_times() as folder:
            name = mode_name(program.graph)
            try:
                for_one = partial(TorchStep, program, workers=workers, places=devices.places[:1])
                one = Calibration(graph.graph, for_one, parameters, tensors, folder / f"{name}-alone-run", {}, steps)
                graph.alone = one.retimed(one.run(graph.alone))
            finally:
                workers.close()
            for_all = partial(TorchStep, program, workers=devices.workers, places=devices.places)
            files = folder / f"{name}-run"
            every = Calibration(graph.graph, for_all, parameters, tensors, files, planner.options_beside(), steps)
            plan, graph.rounds = every.best(graph.plan)
        planner.run_by(graph, Plan.of(beside_first_device(plan, graph.alone)))
        self.plans, self._peaks = (graph.plan,), (graph.plan.peak_bytes[0] + graph.beside,)
        return graph.rounds

    def captured(self, what: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[PlannedGraph, list[Any]]:
        """The graph that runs for these arguments, and the values of its placeholders.

        Raises InputError, which says what for, where there are several.
        """
        try:
            self._variant(args, kwargs).run(args, kwargs, prepare=True)
        except PreparedError as prepared:
            if prepared.graph.is_whole:
                return prepared.graph, prepared.values
        raise InputError(f"{what} is for modules that PyTorch captures as one graph")

    def _variant(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Variant:
        """What runs beside the gradients that are there now, for arguments that share memory as these do."""
        call, gradient_bytes, sharing = self._call, 0, _sharing(args, kwargs)
        if call.training and self._wishes.options.get("memory_limit") is not None:
            there = (gradient for each in call.model.parameters() if (gradient := gradient_of(each)) is not None)
            gradients = {id(gradient): gradient for gradient in there}
            gradient_bytes = sum(gradient.nbytes for gradient in gradients.values() if not gradient.is_sparse)
        with self._lock:
            own = (each for each in self._variants if each.sharing == sharing)
            found = next((each for each in own if each.has_room(gradient_bytes)), None)
            if found is None:
                found = _Variant(call, self._devices, self._wishes, sharing, verifies=self._verify)
                self._variants.append(found)
        found.make_room(gradient_bytes)
        return found

    def _may_check(self, variant: _Variant) -> bool:
        """Whether there is room for a step of eager's: always on the host."""
        return self._devices.on_host or variant.planner.limit is None

    def _checked(self, variant: _Variant, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
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


class _Variant:
    """The module as `torch.compile` runs it, with plans of its graphs.

    sharing: of each tensor among the arguments the first that lies in its memory, which PyTorch guards only where some
    do.
    """

    def __init__(
        self, call: Call, devices: Devices, wishes: Wishes, sharing: tuple[int, ...], *, verifies: bool
    ) -> None:
        self.sharing = sharing
        self._call = call
        self._now = threading.local()
        held = [*call.model.parameters(), *call.model.buffers()]
        self.planner = GraphPlanner(
            devices,
            wishes,
            name=type(call.model).__name__,
            names=partial(_names, weakref.ref(call.model), self._now),
            held=held,
            arguments=partial(_arguments, self._now),
            may_train=call.training,
            is_step=call.training,
            verifies=verifies,
        )
        #: Of the optimizer's states.
        self._state_bytes = 0
        if call.optimizer is not None and self.planner.limit is not None:
            self._state_bytes = self._room_for(call.optimizer, self.planner.limit)
        #: While PyTorch captures all of the call as one graph; otherwise the same with several.
        self.is_whole = True
        self._compiled = self._captured_by_pytorch()
        has_recurrent = any(isinstance(module, nn.RNNBase) for module in call.model.modules())
        self._settings = {
            # By default PyTorch takes it that hooks of submodules stay what they are.
            "skip_nnmodule_hook_guards": False,
            # By default it draws from its own generator where NumPy is asked for random numbers.
            "use_numpy_random_stream": True,
            "fail_on_recompile_limit_hit": True,
            "recompile_limit": _MOST_CAPTURES,
            **({"allow_rnn": True} if has_recurrent else {}),
        }

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Of the graphs that ran since the latest call began, or all where none has."""
        return tuple(graph.plan for graph in self._ran)

    @property
    def peaks(self) -> tuple[int, ...]:
        """Bytes in use at the most while each of them runs, beside the optimizer's states."""
        return tuple(graph.plan.peak_bytes[0] + graph.beside for graph in self._ran)

    @property
    def _ran(self) -> Sequence[PlannedGraph]:
        return getattr(self._now, "ran", None) or self.planner.graphs

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, prepare: bool = False) -> Any:
        """Makes the call. prepare: instead raises PreparedError before the first graph runs, where it is one graph."""
        call, now = self._call, self._now
        now.call, now.ran, now.loss = (args, kwargs), [], None
        try:
            with (
                torch._dynamo.config.patch(self._settings),
                self.planner.noting(now.ran, prepare=prepare),
                mode_set(call.model, call.training),
            ):
                result = self._called(args, kwargs, prepare=prepare)
                if not call.training or result is _NOTHING:
                    return result
                check_loss(result)
                with without_autocast():
                    result.backward()
                now.loss = result
                return result.detach()
        except FailOnRecompileLimitHit as error:
            raise InputError(
                f"the module was captured anew {_MOST_CAPTURES} times, since something that its Python reads changes "
                'from call to call; torch.compile(model, backend="placewright", ...) runs such a module'
            ) from error
        except RuntimeError as error:
            if _TWICE in str(error):
                raise InputError(
                    f"{type(call.model).__name__} takes a gradient of a gradient, which no graph that PyTorch compiles "
                    "has; leave the part that does so out of what is planned, by torch.compiler.disable"
                ) from error
            if _UNREACHED in str(error):
                raise InputError(
                    f"{type(call.model).__name__} takes a gradient in its forward, of a tensor that PyTorch compiles "
                    "together with what depends on it; leave that part out of what is planned, by "
                    "torch.compiler.disable"
                ) from error
            if "found no compiled frames" in str(error):
                raise InputError(
                    "PyTorch compiles nothing inside of a TorchDispatchMode, such as a counter of FLOPs; call the "
                    "module itself there"
                ) from error
            if not isinstance(error, (BackendCompilerFailed, InternalTorchDynamoError, TorchRuntimeError, Unsupported)):
                raise
            raise InputError(f"PyTorch cannot capture {type(call.model).__name__}: {_why(error)}") from error
        finally:
            now.call = None

    @property
    def loss(self) -> Any:
        """What the backward pass of this thread's latest call began at; None where there was none."""
        return getattr(self._now, "loss", None)

    def _called(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, prepare: bool) -> Any:
        take_marks_off((args, kwargs))
        if self.is_whole:
            try:
                return self._compiled(*args, **kwargs)
            except (Unsupported, UserError, GuardOnDataDependentSymNode, RefusedError) as error:
                if isinstance(error, RefusedError) and not isinstance(error.error, OpenSizesError):
                    raise
                if self.planner.limit is not None:
                    warnings.warn(
                        f"{type(self._call.model).__name__} is captured as several graphs, which are planned one after "
                        f"the other in the first call, and a later one is refused where it does not fit: {_why(error)}",
                        stacklevel=5,
                    )
                # Nothing has run so far. What several graphs compute is autograd's to put together.
                self.is_whole = False
                self.planner.may_train, self.planner.is_step = True, False
                self._compiled = self._captured_by_pytorch()
        return _NOTHING if prepare else self._compiled(*args, **kwargs)

    def _captured_by_pytorch(self) -> Callable[..., Any]:
        backend = _backend_of(self.planner)
        compiled: Callable[..., Any] = torch.compile(
            self._step(), backend=backend, dynamic=False, fullgraph=self.is_whole
        )
        return compiled

    def _step(self) -> Callable[..., Any]:
        model, loss = self._call.model, self._call.loss or default_loss

        def inference(*args: Any, **kwargs: Any) -> Any:
            return model(*args, **kwargs)

        def training(*args: Any, **kwargs: Any) -> Any:
            return loss(model(*args, **kwargs))

        step = training if self._call.training else inference
        # PyTorch keeps what it captured with the code and its globals, which are to be of this module alone.
        own = {"__name__": __name__, "__builtins__": builtins}
        return FunctionType(step.__code__.replace(), own, step.__name__, None, step.__closure__)

    def has_room(self, gradient_bytes: int) -> bool:
        """Whether all plans keep the limit beside so many bytes of gradients."""
        limit, beside = self.planner.limit, self._state_bytes + gradient_bytes
        if limit is None:
            return True
        return all(graph.plan.peak_bytes[0] + graph.beside + beside <= limit for graph in self.planner.graphs)

    def make_room(self, gradient_bytes: int) -> None:
        """Plans that are made from now on are for a step that finds so many bytes of gradients."""
        self.planner.beside = self._state_bytes + gradient_bytes

    def _room_for(self, optimizer: Optimizer, limit: int) -> int:
        """Bytes of the optimizer's states. Raises InputError where its step alone does not fit."""
        found = optimizer_memory(optimizer)
        check_step_fits(self._call.model, optimizer, limit, found)
        return found.state_bytes


def _sharing(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """Of each tensor among the arguments the place of the first that lies in the same memory; empty where none do."""
    leaves = (leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))
    first: dict[int, int] = {}
    found = tuple(
        first.setdefault(leaf.untyped_storage()._cdata, place)
        for place, leaf in enumerate(leaves)
        if leaf.layout == torch.strided and not leaf.is_nested
    )
    return found if len(first) < len(found) else ()


def _backend_of(planner: GraphPlanner) -> Callable[..., Any]:
    """What PyTorch calls with the graphs that it captures; PyTorch keeps it for good, and the planner not with it."""
    known = weakref.ref(planner)

    def backend(module: Any, example_inputs: Sequence[Any]) -> Any:
        found = known()
        assert found is not None
        with passed_through():
            return compile_graph(found, module, example_inputs)

    return backend


def _arguments(now: threading.local) -> list[Any]:
    """The tensors that this thread's call was given."""
    return [leaf for leaf in pytree.tree_leaves(getattr(now, "call", None)) if isinstance(leaf, torch.Tensor)]


def _names(known: weakref.ref[nn.Module], now: threading.local) -> dict[int, str]:
    """What the module's tensors and the arguments of this thread's call are called, by identity."""
    call, model = getattr(now, "call", None), known()
    if model is None:
        return {}
    names: dict[int, str] = {}
    for path, leaf in [] if call is None else pytree.tree_flatten_with_path(dict(bind(model, *call).arguments))[0]:
        name = ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", "")))) for key in path)
        names.setdefault(id(leaf), name)
    held = (*model.named_parameters(), *model.named_buffers())
    return {**names, **{id(tensor): name for name, tensor in held}}
