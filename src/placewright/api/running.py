"""`placewright.compile`: a PyTorch module that runs as planned."""

from __future__ import annotations

import importlib.util
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placewright.api.functions import plan as make_plan
from placewright.api.questions import Plan
from placewright.costs.measured import write_measured
from placewright.importers.torch_module import positional
from placewright.machine import Machine
from placewright.support.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from placewright.execution.torch_module import PlannedModule
    from placewright.execution.torch_program import TorchProgram

#: Plans for so many shapes of the arguments are kept, the latest used.
_MAX_PLANS = 8


def compile(
    model: nn.Module,
    args: Any = (),
    *,
    devices: str | Sequence[str],
    kwargs: Mapping[str, Any] | None = None,
    training: bool = False,
    loss: Callable[[Any], Any] | None = None,
    optimizer: Optimizer | None = None,
    measured: str | Path | None = None,
    **options: Any,
) -> Compiled:
    """Plan a PyTorch module for devices of this host, and return it as something to call.

    The module is captured, every op of it timed on this host, the plan found, and each device given a worker thread
    that runs its part. What is called returns what the module returns, bit by bit where one device computes an op with
    as many threads; a training step returns the loss and adds to the gradients of the parameters.

    Parameters
    ----------
    model
        Run in evaluation mode, or in training mode with `training`.
    args, kwargs
        What it is called with; other shapes are planned when they first come. One tensor stands for a tuple of it.
    devices
        "cpu:0,cpu:1" or a list of such names: they share the cores that this process may use.
    training
        Whether a call is a training step: forward, backward, and the step of `optimizer` where one is given.
    loss
        Makes a scalar of the module's output; by default its `.loss`, or the scalar it returns, or the sum of the means
        of what it returns.
    optimizer
        An SGD, Adam or AdamW that holds the module's parameters; its step is planned with the rest.
    measured
        A CSV file of op times: read where it exists, else measured and written. None: measured every time.
    options
        As `placewright.plan` takes them: `objective`, `memory_limit`, `time_limit`, `pins` and so on.

    Returns
    -------
    Compiled
        To be called like the module.

    Raises
    ------
    MissingExtraError
        Without PyTorch.
    InputError
        When a device does not exist here, PyTorch cannot trace the module, or an option is wrong.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("PyTorch", "torch", "running a plan")
    from placewright.execution.devices import local_machine

    if training is False and (loss is not None or optimizer is not None):
        raise InputError("a loss and an optimizer are for training steps; training=True makes one")
    compiled = Compiled(
        model,
        local_machine(devices),
        training=training,
        loss=loss,
        optimizer=optimizer,
        measured=None if measured is None else Path(measured),
        options=options,
    )
    compiled.prepare(*positional(args), **(kwargs or {}))
    return compiled


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
        measured: Path | None,
        options: Mapping[str, Any],
    ) -> None:
        from placewright.execution.devices import cores_of
        from placewright.execution.workers import Workers

        self._model = model
        self._machine = machine
        self._training = training
        self._loss = loss
        self._optimizer = optimizer
        self._measured = measured
        self._options = options
        self._workers = Workers(cores_of(machine.num_devices))
        self._steps: OrderedDict[Any, PlannedModule] = OrderedDict()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, or one training step, on arguments as the module takes them."""
        step, tensors = self._step_for(args, kwargs)
        return step(tensors)

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Capture, time and plan the module for arguments like these, as their first call would."""
        self._step_for(args, kwargs)

    def close(self) -> None:
        """End the worker threads; a later call starts new ones."""
        self._workers.close()

    def __enter__(self) -> Compiled:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step_for(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[PlannedModule, list[Any]]:
        from placewright.execution.torch_program import signature
        from placewright.importers.torch_stand_in import tensors_of
        from placewright.importers.torch_trace import flatten_arguments

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
        from placewright.execution.torch_module import Parameters, PlannedModule
        from placewright.execution.torch_program import make_program

        program = make_program(
            self._model, args, kwargs, training=self._training, loss=self._loss, optimizer=self._optimizer
        )
        parameters = Parameters(self._model, list(program.parameters.values())).now()
        plan = plan_program(
            program, self._machine, parameters, tensors, self._optimizer, measured=self._measured, **self._options
        )
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
) -> Plan:
    """Measures the ops of a program on this host and plans it. measured: a file of op times, made where none is."""
    with tempfile.TemporaryDirectory() as folder:
        times = measured or Path(folder) / "op-times.csv"
        if not times.exists():
            write_measured(times, _measure(program, machine, parameters, tensors, optimizer), machine.devices[0].kind)
        return make_plan(program.graph, machine, measured=times, **options)


def _measure(
    program: TorchProgram,
    machine: Machine,
    parameters: Sequence[Any],
    tensors: Sequence[Any],
    optimizer: Optimizer | None,
) -> dict[str, int]:
    """Time of each op in ns on the machine's first device, by name."""
    from placewright.execution.devices import cores_of
    from placewright.execution.profile import measure_ops
    from placewright.execution.torch_step import TorchStep
    from placewright.execution.workers import Workers

    alone = replace(machine, devices=machine.devices[:1], links=(machine.links[0][:1],))
    workers = Workers(cores_of(machine.num_devices)[:1])
    try:
        step = TorchStep(program, make_plan(program.graph, alone, solver="input-order"), workers)
        return measure_ops(step, parameters, tensors, optimizer)
    finally:
        workers.close()
