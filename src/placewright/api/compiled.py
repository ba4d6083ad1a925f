"""A PyTorch module that runs as planned, and how its plans are made.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from placewright.api.functions import plan as make_plan
from placewright.api.questions import Answer, Plan, answer
from placewright.costs.measured import write_measured
from placewright.execution.compare import compare_run, inference, training_step
from placewright.execution.comparison import RunComparison
from placewright.execution.devices import cores_of
from placewright.execution.profile import measure_ops
from placewright.execution.torch_module import Parameters, PlannedModule
from placewright.execution.torch_program import TorchProgram, make_program, signature
from placewright.execution.torch_step import TorchStep
from placewright.execution.workers import Workers
from placewright.importers.torch_stand_in import tensors_of
from placewright.importers.torch_trace import default_loss, flatten_arguments
from placewright.machine import Machine
from placewright.plans.graph_match import match_graph
from placewright.plans.record import Plan as PlanRecord
from placewright.support.errors import InputError
from placewright.terminal.run_table import run_table

#: Plans for so many shapes of the arguments are kept, the latest used.
_MAX_PLANS = 8


class Compiled:
    """A module that runs as planned. Its worker threads end with it, or with `close`.

    Attributes
    ----------
    plan
        The plan of the latest call.
    """

    plan: Plan

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
        options: Mapping[str, Any],
    ) -> None:

        self._model = model
        self._machine = machine
        self._training = training
        self._loss = loss
        self._optimizer = optimizer
        self._given = given
        self._measured = measured
        self._options = options
        self._workers = Workers(cores_of(machine.num_devices))
        self._steps: OrderedDict[Any, PlannedModule] = OrderedDict()
        self._alone: dict[str, Plan] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, or one training step, on arguments as the module takes them."""
        step, tensors = self._step_for(args, kwargs)
        return step(tensors)

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Capture, time and plan the module for arguments like these, as their first call would."""
        self._step_for(args, kwargs)

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
        if self._optimizer is not None:
            raise InputError("compare runs steps that change nothing; compile the module without the optimizer for it")
        planned, tensors = self._step_for(args, kwargs)
        alone = self._alone[planned.step.plan.graph_fingerprint]
        parameters = planned.parameters.now()
        eager = inference(self._model, args, kwargs)
        if self._training:
            eager = training_step(self._model, args, kwargs, self._loss or default_loss)
        cores = cores_of(self._machine.num_devices)[:1]
        workers = Workers(cores)
        try:
            one_device = TorchStep(planned.step.program, alone, workers)
            found = compare_run(planned.step, one_device, parameters, tensors, eager, len(cores[0]), steps)
        finally:
            workers.close()
        return answer(found, run_table(found))

    def close(self) -> None:
        """End the worker threads; a later call starts new ones."""
        self._workers.close()

    def __enter__(self) -> Compiled:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step_for(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[PlannedModule, list[Any]]:

        leaves, structure = flatten_arguments(self._model, args, kwargs)
        tensors = tensors_of(leaves)
        constants = tuple(repr(leaf) for leaf in leaves if not any(leaf is tensor for tensor in tensors))
        key = (signature(tensors), constants, str(structure))
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = self._made(args, kwargs, tensors)
            while len(self._steps) > _MAX_PLANS:
                self._steps.popitem(last=False)
        self._steps.move_to_end(key)
        self.plan = Plan.of(step.step.plan)
        return step, tensors

    def _made(self, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Any]) -> PlannedModule:

        program = make_program(
            self._model, args, kwargs, training=self._training, loss=self._loss, optimizer=self._optimizer
        )
        parameters = Parameters(self._model, list(program.parameters.values())).now()
        plan, alone = plan_program(
            program, self._machine, parameters, tensors, self._optimizer, measured=self._measured, **self._options
        )
        if self._given is not None:
            if differences := match_graph(self._given, program.graph):
                raise InputError(f"the plan is not a plan for '{program.graph.name}': {'; '.join(differences)}")
            plan = Plan.of(self._given)
        self._alone[plan.graph_fingerprint] = alone
        return PlannedModule(program, plan, self._model, self._workers)


def plan_program(
    program: TorchProgram,
    machine: Machine,
    parameters: Sequence[Any],
    tensors: Sequence[Any],
    optimizer: Optimizer | None = None,
    *,
    measured: Path | None = None,
    **options: Any,
) -> tuple[Plan, Plan]:
    """Measures the ops of a program on this host and plans it; returns also the plan of the first device alone.

    measured: a file of op times, made where none is.
    """
    with tempfile.TemporaryDirectory() as folder:
        times = measured or Path(folder) / "op-times.csv"
        if not times.exists():
            write_measured(times, _measure(program, machine, parameters, tensors, optimizer), machine.devices[0].kind)
        alone = make_plan(program.graph, _first_device(machine), measured=times, solver="input-order")
        return make_plan(program.graph, machine, measured=times, **options), alone


def _measure(
    program: TorchProgram,
    machine: Machine,
    parameters: Sequence[Any],
    tensors: Sequence[Any],
    optimizer: Optimizer | None,
) -> dict[str, int]:
    """Time of each op in ns on the machine's first device, by name."""
    workers = Workers(cores_of(machine.num_devices)[:1])
    try:
        plan = make_plan(program.graph, _first_device(machine), solver="input-order")
        return measure_ops(TorchStep(program, plan, workers), parameters, tensors, optimizer)
    finally:
        workers.close()


def _first_device(machine: Machine) -> Machine:
    return replace(machine, devices=machine.devices[:1], links=(machine.links[0][:1],))
