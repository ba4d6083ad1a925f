"""A PyTorch module that runs as planned, and how its plans are made.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import copy
import enum
import sys
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from placewright.api.beside_one_device import beside_first_device
from placewright.api.calibration import Calibration
from placewright.api.measured_placements import Runner, check_solver
from placewright.api.module_planner import ModulePlanner
from placewright.api.profiles import mode_name
from placewright.api.questions import Answer, Plan, answer
from placewright.execution.comparison import CalibrationRound, RunComparison
from placewright.execution.pytorch.accumulation import FoundGradients
from placewright.execution.pytorch.compare import compare_run, inference, training_step
from placewright.execution.pytorch.guard import Guard
from placewright.execution.pytorch.machine import cores_by_device
from placewright.execution.pytorch.module import PlannedModule
from placewright.execution.pytorch.optimizer_step import call_hooks_after
from placewright.execution.pytorch.profile import unchanged
from placewright.execution.pytorch.program import TorchProgram, signature
from placewright.execution.pytorch.step import TorchStep
from placewright.execution.workers import Workers
from placewright.graph import Graph
from placewright.importers.torch.calls import BACKEND
from placewright.importers.torch.graph import bytes_added_to
from placewright.importers.torch.stand_in import tensors_of
from placewright.importers.torch.trace import default_loss, flatten_arguments
from placewright.support.errors import InputError, shown
from placewright.terminal.run_table import run_table

#: Arguments that are known by what is written of them.
_PLAIN = (
    bool, int, float, complex, str, bytes, slice, range, enum.Enum, np.generic,
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
)  # fmt: skip
#: What says how PyTorch computes attention, which a plan's ops are chosen by.
_ATTENTION = (
    torch.backends.cuda.flash_sdp_enabled,
    torch.backends.cuda.mem_efficient_sdp_enabled,
    torch.backends.cuda.cudnn_sdp_enabled,
    torch.backends.cuda.math_sdp_enabled,
    torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed,
)
#: Half of it has fewer digits than other numbers.
_SMALLEST = sys.float_info.min
#: Plans for so many shapes of the arguments are kept, the latest used.
MAX_PLANS = 8


@dataclass(kw_only=True)
class Made:
    """What runs for arguments of one shape.

    program: without what plans run again. alone: the plan of one device. graph: with measured workspaces. rounds: of
    the calibration, if there was one.
    """

    program: TorchProgram
    module: PlannedModule[Any]
    alone: Plan
    graph: Graph
    rounds: tuple[CalibrationRound, ...] = ()


class Compiled:
    """A module that runs as planned. Its worker threads end with it, or with `close`.

    Attributes
    ----------
    plan
        The plan of the latest call; of a copy that has not been called, that of what it was copied from.
    num_compiled_regions
        How many runs of its ops Inductor computes.
    """

    plan: Plan
    num_compiled_regions: int

    def __init__(self, planner: ModulePlanner, *, inductor: bool, measure_placements: bool = False) -> None:
        on_host = all(place.driver is None for place in planner.places)
        if inductor and not on_host:
            raise InputError("inductor compiles ops of CPU devices; leave it out, or the CUDA devices")
        if measure_placements:
            check_solver(planner.options.get("solver", "auto"))
            if not on_host:
                raise InputError("placements are measured on CPU devices; leave out measure_placements, or the others")
        self._planner = planner
        self._inductor = inductor
        self._measure_placements = measure_placements
        self._workers = Workers(cores_by_device(planner.machine))
        #: Whether the threads take numbers that are too small for zeros, as that which started them did then.
        self._flushes = _flushes_denormals()
        self._lock = threading.RLock()
        #: By what the module is called with.
        self._made: OrderedDict[Any, Made] = OrderedDict()
        self._guard: Guard | None = None
        self._num_changes = 0
        #: Whether a plan so far depends on where in its memory an argument begins.
        self._reads_offsets = False
        #: Whether the module has been in training mode since it is planned.
        self._was_in_training = planner.model.training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, or one training step, on arguments as the module takes them."""
        made, tensors = self._made_for(args, kwargs)
        result = made.module(tensors)
        if self._planner.optimizer is not None:
            call_hooks_after(self._planner.optimizer)
        return result

    def __getattr__(self, name: str) -> Any:
        """What the module has and this has not, such as `state_dict`, `parameters` and `eval`, is the module's."""
        planner = vars(self).get("_planner")
        if planner is None or name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        found = getattr(planner.model, name)
        return partial(self._call_of_module, found) if getattr(found, "__self__", None) is planner.model else found

    def _call_of_module(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a method of the module returns; this, where it returns the module."""
        result = method(*args, **kwargs)
        return self if result is self._planner.model else result

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made of: the module and how it is planned. A copy makes plans of its own.

        Raises InputError for a step with an optimizer, whose copy nobody but the copied step would know.
        """
        self._refuse_optimizer("copying or pickling")
        return {
            "planner": self._planner,
            "inductor": self._inductor,
            "measure_placements": self._measure_placements,
            "latest": (self.plan, self.num_compiled_regions),
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Starts anew."""
        given = dict(state)
        self.plan, self.num_compiled_regions = given.pop("latest")
        Compiled.__init__(self, **given)

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Capture, time and plan the module for arguments like these, as their first call would."""
        self._made_for(args, kwargs)

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
            For a training step with an optimizer, which cannot be run without changing its state.
        """
        self._refuse_optimizer("compare")
        made, tensors = self._made_for(args, kwargs)
        planned = made.module
        parameters = planned.parameters.now()
        eager = self._without_plan(copy.deepcopy(self._planner.model), args, kwargs)
        compiled = None
        if self._inductor:
            compiled = self._without_plan(torch.compile(copy.deepcopy(self._planner.model)), args, kwargs)
        cores = cores_by_device(self._planner.machine)
        workers = Workers(cores[:1])
        try:
            one_device = TorchStep(made.program, made.alone, workers, self._planner.places[:1])
            if self._planner.is_recorded:
                self._record(one_device, parameters, tensors)
            found = compare_run(planned.step, one_device, parameters, tensors, eager, cores, steps, compiled)
        finally:
            workers.close()
        found = replace(found, rounds=made.rounds)
        return answer(found, run_table(found))

    def calibrate(self, *args: Any, steps: int = 20, **kwargs: Any) -> tuple[CalibrationRound, ...]:
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
        if self._planner.is_recorded:
            raise InputError("calibrate is for steps that are launched op by op; leave it or cuda_graph out")
        if self._planner.given is not None:
            raise InputError("calibrate plans again, and a plan was given to be run as it is; leave one of them out")
        if len({device.kind for device in self._planner.machine.devices}) > 1:
            raise InputError("calibrate takes op times from a run, which has them for devices of one kind only")
        made, tensors = self._made_for(args, kwargs)
        if made.module.step.plan.reruns:
            raise InputError("calibrate plans with the times of ops in a run, which ops that run again have several of")
        program, parameters = made.program, made.module.parameters.now()
        beside = self._bytes_beside(program, self._planner.found_gradients(tensors))
        options = self._planner.options_beside(beside)
        workers = Workers(cores_by_device(self._planner.machine)[:1])
        with self._planner.kept_times() as folder:
            name = mode_name(program.graph)
            try:
                for_one = partial(TorchStep, program, workers=workers, places=self._planner.places[:1])
                one = Calibration(made.graph, for_one, parameters, tensors, folder / f"{name}-alone-run", {}, steps)
                made.alone = one.retimed(one.run(made.alone))
            finally:
                workers.close()
            for_all = partial(TorchStep, program, workers=self._workers, places=self._planner.places)
            files = folder / f"{name}-run"
            every = Calibration(made.graph, for_all, parameters, tensors, files, options, steps)
            plan, made.rounds = every.best(Plan.of(made.module.step.plan))
            plan = beside_first_device(plan, made.alone)
        made.module = self._running(program, plan, parameters, tensors)
        self.plan = plan
        return made.rounds

    def _check_mode(self) -> None:
        """Raises InputError for a training step of a module that was set to evaluation since it is planned."""
        if not self._planner.training:
            return
        if self._was_in_training and not self._planner.model.training:
            raise InputError(
                "the module is in evaluation mode by now, and a call of what was compiled is a training step; call the "
                "module itself to evaluate it, and train() before the next step"
            )
        self._was_in_training = self._planner.model.training

    def _refuse_optimizer(self, what: str) -> None:
        if self._planner.optimizer is not None:
            raise InputError(f"{what} runs steps that change nothing; compile the module without the optimizer for it")

    def _without_plan(self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], None]:
        if self._planner.training:
            return training_step(model, args, kwargs, self._planner.loss or default_loss)
        return inference(model, args, kwargs)

    @property
    def fallbacks(self) -> dict[str, str]:
        """The ops that ran on the CPU since their device has no kernel for them.

        Returns
        -------
        dict
            Of all plans so far, by name of the op: the device and what PyTorch said.
        """
        found: dict[str, str] = {}
        for made in list(self._made.values()):
            found |= made.module.step.fallbacks
        return found

    def synchronize(self) -> None:
        """Let CUDA devices see what was changed through `.data`; other changes of parameters they see by themselves."""
        with self._lock:
            for made in self._made.values():
                made.module.step.residents.forget()

    def close(self) -> None:
        """End the worker threads; a later call starts new ones."""
        self._workers.close()

    def __enter__(self) -> Compiled:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """What a plan is made for, and the tensors among the arguments.

        Raises InputError for an argument that may hold tensors, or whatever else a plan would have to look at, and for
        a training step in evaluation mode.
        """
        planner = self._planner
        self._check_mode()
        with self._lock:
            self._forget_what_changed()
        leaves, structure = flatten_arguments(planner.model, args, kwargs)
        tensors = tensors_of(leaves)
        constants = tuple(_constant(leaf) for leaf in leaves if not isinstance(leaf, torch.Tensor))
        modes = tuple(module.training for module in planner.model.modules())
        if modes[0] != planner.training:
            modes = ()
        return (
            signature(tensors),
            _seen_by_forward(tensors, offsets=self._reads_offsets),
            constants,
            str(structure),
            modes,
            _context(),
            planner.found_gradients(tensors),
        ), tensors

    def _bytes_beside(self, program: TorchProgram, found: FoundGradients) -> int:
        """Bytes of gradients and of the optimizer's states that are there before a step, and not in the program."""
        return found.num_bytes - bytes_added_to(program.graph) + self._planner.held_states(program).beyond

    def _with_room(self, key: Any) -> Made | None:
        """What was made for a call without gradients, where its plan has room for those of this one."""
        limit, beside = self._planner.limit, key[-1].num_bytes
        made = self._made.get((*key[:-1], FoundGradients())) if beside else None
        if made is None or limit is None or made.module.step.plan.peak_bytes[0] + beside > limit:
            return None
        return made

    def _forget_what_changed(self) -> None:
        """Plans of what the module or the loss was before a layer, a hook or a value in it changed are made anew.

        Raises InputError where that happens at call after call.
        """
        change = None if self._guard is None else self._guard.change()
        if change is None:
            self._num_changes = 0 if self._guard is None else self._num_changes
            return
        self._made.clear()
        self._num_changes += 1
        if self._num_changes > MAX_PLANS:
            raise InputError(
                f"'{shown(change)}' of the module changes from call to call, and each time a plan is made anew; "
                f"{BACKEND}"
            )

    def _made_for(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Made, list[Any]]:
        key, tensors = self._key(args, kwargs)
        with self._lock:
            if self._flushes != _flushes_denormals():
                self.close()  # New threads do as this one.
                self._flushes = _flushes_denormals()
            made = self._made.get(key)
            if made is None and (made := self._with_room(key)) is not None:
                self._made[key] = made
            if made is None:
                # Other threads write to tensors that are made meanwhile.
                with torch.inference_mode(False):
                    made = self._make(args, kwargs, tensors)
                if made.module.step.program.reads_offsets and not self._reads_offsets:
                    self._reads_offsets = True
                    key, _ = self._key(args, kwargs)
                self._made[key] = made
                self._guard = self._guard or Guard(self._planner.model, self._planner.loss)
                while len(self._made) > MAX_PLANS:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            self.plan = Plan.of(made.module.step.plan)
            self.num_compiled_regions = made.module.step.num_compiled_regions
        return made, tensors

    def _make(self, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Any]) -> Made:
        planner = self._planner
        found = planner.found_gradients(tensors)
        program = planner.program(args, kwargs, inductor=self._inductor, added_to=found.addable)
        parameters = planner.parameters(program)
        beside = self._bytes_beside(program, found)
        options = planner.options_beside(beside)
        if self._measure_placements and planner.given is None:
            options = Runner(
                program=program,
                parameters=parameters,
                tensors=tensors,
                optimizer=planner.optimizer,
                workers=self._workers,
            ).options(dict(options))

        def bytes_above(plan: Plan) -> int:
            """By how much a step takes more than the limit.

            A GPU's allocator leaves ends of blocks unused; on the host each draw that runs again keeps the state of
            the generator.
            """
            step = TorchStep(program, plan, self._workers, planner.places)
            if planner.limit is None or planner.is_recorded:
                return 0
            if step.places[0].driver is None:
                drawn = {program.graph.ops[op].name for op in program.random}
                states = len(drawn & {rerun.op for rerun in plan.reruns}) * torch.get_rng_state().nbytes
                return plan.peak_bytes[0] + states - (planner.limit - beside) if states else 0
            # What the optimizer has before the step is not counted there.
            there = planner.held_states(program).planned
            with unchanged(step.overwritten(parameters, tensors), planner.optimizer, step.places):
                return step.peak_bytes(parameters, tensors) + there - (planner.limit - beside)

        plans = planner.plans(program, tensors, options, beside, bytes_above)
        module = self._running(program, plans.plan, parameters, tensors)
        return Made(program=program, module=module, alone=plans.alone, graph=plans.graph)

    def _running(
        self, program: TorchProgram, plan: Plan, parameters: Sequence[Any], tensors: Sequence[Any]
    ) -> PlannedModule[TorchStep]:
        module = PlannedModule(TorchStep(program, plan, self._workers, self._planner.places))
        if self._inductor:
            with unchanged(module.step.overwritten(parameters, tensors), self._planner.optimizer):
                module.step.compile_regions(parameters, tensors)
        if self._planner.is_recorded:
            self._record(module.step, parameters, tensors)
        return module

    def _record(self, step: TorchStep, parameters: Sequence[Any], tensors: Sequence[Any]) -> None:
        with unchanged(step.overwritten(parameters, tensors), places=step.places):
            step.record(parameters, tensors)


def _constant(leaf: Any) -> Any:
    """What an argument that is no tensor is known by: its type and value.

    Raises InputError for one that has no value of its own, since what it holds may be others at the next call.
    """
    if isinstance(leaf, np.ndarray) and leaf.dtype != object:
        return (str(leaf.dtype), leaf.shape, leaf.tobytes())
    if leaf is None or isinstance(leaf, _PLAIN):
        return type(leaf), repr(leaf)
    if isinstance(leaf, types.FunctionType | types.BuiltinFunctionType | type):
        return leaf
    raise InputError(
        f"an argument is a {type(leaf).__name__}, and a plan cannot see what such an object holds at the next call; "
        f"pass its tensors and numbers as arguments, or leave it to the backend: {BACKEND}"
    )


def _seen_by_forward(tensors: Sequence[Any], *, offsets: bool) -> tuple[Any, ...]:
    """What forward may branch on beside shapes and dtypes: layouts, gradients, and which arguments are one tensor.

    offsets: whether it reads where in its memory a tensor begins, too.
    """
    place = {id(tensor): number for number, tensor in reversed(list(enumerate(tensors)))}
    return tuple(
        (
            tensor.stride(),
            tensor.storage_offset() if offsets else 0,
            tensor.requires_grad,
            type(tensor),
            place[id(tensor)],
        )
        if tensor.layout == torch.strided
        else None
        for tensor in tensors
    )


def _context() -> tuple[Any, ...]:
    """What the caller has a say in: dtypes that PyTorch casts to, that of new tensors, and the kernels of attention."""
    casts = tuple((kind, torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind))
    return (*casts, torch.get_default_dtype(), *(is_on() for is_on in _ATTENTION))


def _flushes_denormals() -> bool:
    """Whether this thread takes numbers that are too small for zeros: torch.set_flush_denormal."""
    return _SMALLEST / 2 == 0.0
