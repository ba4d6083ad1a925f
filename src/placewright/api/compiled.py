"""A PyTorch module that runs as planned, and how its plans are made.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import copy
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from placewright.api.calibration import Calibration
from placewright.api.functions import plan as make_plan
from placewright.api.measured_placements import Runner, check_solver
from placewright.api.profiles import OpTimes, Profile, first_device, mode_name, of_first_device, write_times
from placewright.api.questions import Answer, Plan, answer
from placewright.costs.measured import with_workspaces
from placewright.execution.comparison import CalibrationRound, RunComparison
from placewright.execution.pytorch.compare import compare_run, inference, training_step
from placewright.execution.pytorch.cuda import places_of
from placewright.execution.pytorch.machine import cores_by_device
from placewright.execution.pytorch.module import Parameters, PlannedModule
from placewright.execution.pytorch.profile import unchanged
from placewright.execution.pytorch.program import TorchProgram, make_program, signature
from placewright.execution.pytorch.step import TorchStep, check_readable
from placewright.execution.workers import Workers
from placewright.graph import Graph
from placewright.importers.torch_stand_in import tensors_of
from placewright.importers.torch_trace import default_loss, flatten_arguments
from placewright.machine import Machine
from placewright.plans.provenance import find_graph
from placewright.plans.record import Plan as PlanRecord
from placewright.support.errors import InputError
from placewright.support.files import write_atomically
from placewright.terminal.run_table import run_table

#: Plans for so many shapes of the arguments are kept, the latest used.
MAX_PLANS = 8


@dataclass(kw_only=True)
class Made:
    """What runs for arguments of one shape.

    alone: the plan of one device. graph: with measured workspaces. rounds: of the calibration, if there was one.
    """

    module: PlannedModule[Any]
    alone: Plan
    graph: Graph
    rounds: tuple[CalibrationRound, ...] = ()


class Compiled:
    """A module that runs as planned. Its worker threads end with it, or with `close`.

    Attributes
    ----------
    plan
        The plan of the latest call.
    num_compiled_regions
        How many runs of its ops Inductor computes.
    """

    plan: Plan
    num_compiled_regions: int

    def __init__(
        self,
        model: nn.Module,
        machine: Machine,
        *,
        training: bool,
        loss: Callable[[Any], Any] | None,
        optimizer: Optimizer | None,
        given: PlanRecord | None,
        measured: Path | None,
        profile: Profile,
        inductor: bool,
        options: Mapping[str, Any],
        measure_placements: bool = False,
    ) -> None:
        self._model = model
        self._machine = machine
        #: The devices that share this process's cores.
        self._local = machine
        self._training = training
        self._loss = loss
        self._optimizer = optimizer
        if given is not None and given.machine.num_devices != machine.num_devices:
            has, named = given.machine.num_devices, machine.num_devices
            raise InputError(f"the plan is for {has} devices, and devices names {named}")
        self._given = given
        self._measured = measured
        self._profile = profile
        self._inductor = inductor
        self._options = options
        self._places = self._local_places = places_of([device.name for device in machine.devices])
        if inductor and any(place.driver is not None for place in self._places):
            raise InputError("inductor compiles ops of CPU devices; leave it out, or the CUDA devices")
        self._measure_placements = measure_placements
        if measure_placements:
            check_solver(options.get("solver", "auto"))
            if any(place.driver is not None for place in self._places):
                raise InputError("placements are measured on CPU devices; leave out measure_placements, or the others")
        self._start()
        self._lock = threading.RLock()
        #: By what the module is called with.
        self._made: OrderedDict[Any, Made] = OrderedDict()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, or one training step, on arguments as the module takes them."""
        made, tensors = self._made_for(args, kwargs)
        return made.module(tensors)

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
        eager = self._without_plan(copy.deepcopy(self._model), args, kwargs)
        compiled = None
        if self._inductor:
            compiled = self._without_plan(torch.compile(copy.deepcopy(self._model)), args, kwargs)
        cores = cores_by_device(self._machine)
        workers = Workers(cores[:1])
        try:
            one_device = TorchStep(planned.step.program, made.alone, workers, self._places[:1])
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
            For a plan that was given to be run as it is, and as `compare` raises it.
        """
        self._refuse_optimizer("calibrate")
        if self._given is not None:
            raise InputError("calibrate plans again, and a plan was given to be run as it is; leave one of them out")
        if len({device.kind for device in self._machine.devices}) > 1:
            raise InputError("calibrate takes op times from a run, which has them for devices of one kind only")
        made, tensors = self._made_for(args, kwargs)
        program, parameters = made.module.step.program, made.module.parameters.now()
        workers = Workers(cores_by_device(self._machine)[:1])
        with self._kept_times() as folder:
            name = mode_name(program.graph)
            try:
                for_one = partial(TorchStep, program, workers=workers, places=self._places[:1])
                one = Calibration(made.graph, for_one, parameters, tensors, folder / f"{name}-alone-run", {}, steps)
                made.alone = one.retimed(one.run(made.alone))
            finally:
                workers.close()
            for_all = partial(TorchStep, program, workers=self._workers, places=self._places)
            files = folder / f"{name}-run"
            every = Calibration(made.graph, for_all, parameters, tensors, files, self._options, steps)
            plan, made.rounds = every.best(Plan.of(made.module.step.plan))
        made.module = self._running(program, plan, parameters, tensors)
        self.plan = plan
        return made.rounds

    def _refuse_optimizer(self, what: str) -> None:
        if self._optimizer is not None:
            raise InputError(f"{what} runs steps that change nothing; compile the module without the optimizer for it")

    def _without_plan(self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], None]:
        if self._training:
            return training_step(model, args, kwargs, self._loss or default_loss)
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
        """Bring parameters and optimizer state up to date on every rank; devices of one process do so by themselves.

        CUDA devices see all changes of parameters but those made through `.data`; after this they see these too.
        """
        with self._lock:
            for made in self._made.values():
                made.module.step.residents.forget()

    def _start(self) -> None:
        self._workers = Workers(cores_by_device(self._machine))

    def close(self) -> None:
        """End the worker threads; a later call starts new ones."""
        self._workers.close()

    def __enter__(self) -> Compiled:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """What a plan is made for, and the tensors among the arguments."""
        leaves, structure = flatten_arguments(self._model, args, kwargs)
        tensors = tensors_of(leaves)
        constants = tuple(repr(leaf) for leaf in leaves if not any(leaf is tensor for tensor in tensors))
        return (signature(tensors), constants, str(structure)), tensors

    def _made_for(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Made, list[Any]]:
        key, tensors = self._key(args, kwargs)
        with self._lock:
            made = self._made.get(key)
            if made is None:
                made = self._made[key] = self._make(args, kwargs, tensors)
                while len(self._made) > MAX_PLANS:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            self.plan = Plan.of(made.module.step.plan)
            self.num_compiled_regions = made.module.step.num_compiled_regions
        return made, tensors

    def _program(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TorchProgram:
        return make_program(
            self._model, args, kwargs, training=self._training, loss=self._loss, optimizer=self._optimizer
        )

    def _make(self, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Any]) -> Made:
        program = self._program(args, kwargs)
        plan, alone, graph = self._plans(program, tensors)
        parameters = Parameters(self._model, list(program.parameters.values())).now()
        return Made(module=self._running(program, plan, parameters, tensors), alone=alone, graph=graph)

    def _plans(self, program: TorchProgram, tensors: Sequence[Any]) -> tuple[Plan, Plan, Graph]:
        """The plan, that of one device, and the graph with measured workspaces."""
        parameters = Parameters(self._model, list(program.parameters.values())).now()
        check_readable(dict(zip(program.parameters.values(), parameters, strict=True)), self._places)
        check_readable({f"argument {number}": tensor for number, tensor in enumerate(tensors)}, self._places)
        with self._kept_times() as folder:
            times = self._times(program, parameters, tensors, folder)
            alone = make_plan(program.graph, first_device(self._machine), measured=times.alone, solver="input-order")
            if self._given is None:
                options = dict(self._options)
                if self._measure_placements:
                    options = Runner(
                        program=program,
                        parameters=parameters,
                        tensors=tensors,
                        optimizer=self._optimizer,
                        workers=self._workers,
                    ).options(options)
                plan = make_plan(program.graph, self._machine, measured=times.shared, **options)
            else:
                find_graph(self._given, program.graph, measured=times.shared)
                plan = Plan.of(self._given)
            return plan, alone, with_workspaces(program.graph, times.shared)

    def _running(
        self, program: TorchProgram, plan: Plan, parameters: Sequence[Any], tensors: Sequence[Any]
    ) -> PlannedModule[TorchStep]:
        module = PlannedModule(TorchStep(program, plan, self._workers, self._places), self._model)
        if self._inductor:
            with unchanged(module.step.overwritten(parameters, tensors), self._optimizer):
                module.step.compile_regions(parameters, tensors)
        return module

    @contextmanager
    def _kept_times(self) -> Iterator[Path]:
        """Where files of op times go: to the profile, where plans find them later, or to a folder for now."""
        if self._profile.folder is not None:
            yield self._profile.folder
            return
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)

    def _times(self, program: TorchProgram, parameters: Sequence[Any], tensors: Sequence[Any], folder: Path) -> OpTimes:
        # A file of times is for the shapes of the first call.
        named = self._measured if not self._made else None
        if named is not None and named.exists():
            return OpTimes(alone=of_first_device(named, self._machine, folder), shared=named)
        found = self._profile.measure(
            program, self._local, parameters, tensors, self._optimizer, self._local_places
        )  # fmt: skip
        times = write_times(found, self._local, folder, mode_name(program.graph))
        if named is not None:
            write_atomically(named, times.shared.read_bytes())
        return times
