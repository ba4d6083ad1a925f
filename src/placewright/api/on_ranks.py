"""A PyTorch module that several processes run as planned, each as one device.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import hashlib
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from placewright.api.compiled import Compiled, Made
from placewright.api.module_planner import ModulePlanner
from placewright.api.questions import Plan
from placewright.execution.pytorch.module import PlannedModule
from placewright.execution.pytorch.program import TorchProgram, attribute, describe_signature, signature
from placewright.execution.pytorch.ranks.group import Ranks
from placewright.execution.pytorch.ranks.step import RankStep
from placewright.machine import Machine
from placewright.machines.topology import only
from placewright.plans.file import read_plan, write_plan
from placewright.support.errors import InputError

_TIMEOUT_S = 300.0
#: All in this process, in the order in which every rank made them.
_MADE: list[weakref.ref[CompiledOnRanks]] = []


def compiled_on_ranks(
    model: nn.Module, timeout: float | None, *, gpus: bool, inductor: bool, **given: Any
) -> CompiledOnRanks:
    """Brings the module of every rank to what that of rank 0 is, and makes it run on all of them.

    timeout: in seconds, of a step; None for the default. given: what `ModulePlanner` takes. Raises InputError on every
    rank where they differ or one cannot go on.
    """
    timeout = _TIMEOUT_S if timeout is None else timeout
    if not timeout > 0:
        raise InputError(f"timeout is {timeout!r}; it must be a number of seconds above 0")
    ranks = Ranks(float(timeout), {tensor.device.type for tensor in _held_by(model)}, gpu=gpus)
    refused = InputError("ranks compute op by op; leave inductor out") if inductor else None
    try:
        with ranks.setting_up():
            ranks.agree(_description(model), refused)
            _bring_all_up_to_date()
            for tensor in _held_by(model):
                ranks.broadcast(tensor, 0)
            machine = ranks.machine()
        return CompiledOnRanks(_planner(model, machine, ranks, given), ranks)
    except BaseException:
        ranks.close()
        raise


class CompiledOnRanks(Compiled):
    """A module whose plan's devices are the ranks of a process group.

    Every rank makes the same calls in the same order, with arguments of the same shapes.

    Attributes
    ----------
    plan
        The plan of the latest call.
    """

    def __init__(self, planner: ModulePlanner, ranks: Ranks) -> None:
        self._ranks = ranks
        #: The parameters that an optimizer has changed, and the rank that alone has their values.
        self._ahead: dict[str, int] = {}
        super().__init__(planner, inductor=False)
        _MADE.append(weakref.ref(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, or one training step, together with all other ranks.

        Parameters
        ----------
        args, kwargs
            As the module takes them. Each input is read on the rank where the plan puts it, which is rank 0 unless
            `pins` say otherwise; on the others its shape is all that counts.

        Returns
        -------
        object
            What the module returns, or the loss, on every rank.

        Raises
        ------
        InputError
            On every rank, when one of them does something else, or its arguments or parameters do not fit.
        RankError
            When another rank failed, is gone, or does not answer in time.
        """
        with self._lock, self._ranks.interrupts_held():
            made, tensors = self._agreed(args, kwargs)
            returned = made.module(tensors)
            self._ahead.update(made.module.step.optimized)
            return returned

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Capture, time and plan the module for arguments like these, as their first call would."""
        with self._lock, self._ranks.setting_up():
            self._agreed(args, kwargs)

    def __getstate__(self) -> dict[str, Any]:
        """Refused: the ranks are those of this process."""
        raise InputError("what is compiled for ranks cannot be copied or pickled; compile the copy of the module")

    def compare(self, *_: Any, **__: Any) -> Any:
        """Refused: it times devices of one process."""
        raise InputError("compare times devices of one process; name them, as in devices='cpu:0,cpu:1'")

    def calibrate(self, *_: Any, **__: Any) -> Any:
        """Refused: it times devices of one process."""
        raise InputError("calibrate times devices of one process; name them, as in devices='cpu:0,cpu:1'")

    def synchronize(self) -> None:
        """Bring parameters and optimizer state up to date on every rank.

        After a step with an optimizer, each parameter is up to date on the rank that holds it. Call this on every rank
        before a checkpoint is written or the module is used without the plan. What `compile` has made for ranks does
        so by itself.

        Raises
        ------
        RankError
            When another rank is gone.
        """
        self._ranks.check()
        optimizer = self._planner.optimizer
        for name, rank in sorted(self._ahead.items()):
            parameter = attribute(self._planner.model, name)
            self._ranks.broadcast(parameter, rank)
            if optimizer is not None:
                optimizer.state[parameter] = self._ranks.from_rank(rank, partial(optimizer.state.get, parameter))
        self._ahead = {}

    def close(self) -> None:
        """End the threads of this rank; a later call starts new ones."""
        self._ranks.close()

    def _start(self) -> None:
        pass  # The ranks have their threads.

    def _agreed(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Made, list[Any]]:
        """What is made for the arguments, once all ranks are about to run the same."""
        subject, refused = "", None
        try:
            key, tensors = self._key(args, kwargs)
            subject = f"{type(self._planner.model).__name__} with inputs {describe_signature(signature(tensors))}"
            known = self._made.get(key)
            if known is not None:
                known.module.parameters.now()
            elif self._made:
                subject += " for the first time"
            elif self._num_changes:
                subject += " anew, as something in it has changed"
        except Exception as error:
            refused = error
        self._ranks.agree(subject, refused)
        if known is None or len(self._made) > 1:
            self.synchronize()
        _bring_all_up_to_date(but=self)
        return self._made_for(args, kwargs)

    def _make(self, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Any]) -> Made:
        with self._ranks.setting_up():
            return self._made_now(args, kwargs, tensors)

    def _made_now(self, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Any]) -> Made:
        program, refused = None, None
        try:
            program = self._planner.program(args, kwargs)
            if beyond := [each.name for each in program.state if each.slot is None]:
                raise InputError(
                    f"forward writes to '{beyond[0]}' outside of the module, of which every rank has its own"
                )
        except Exception as error:
            refused = error
        self._ranks.agree("" if program is None else f"the graph {program.graph.fingerprint}", refused)
        assert program is not None
        plan = _unpacked(self._ranks.from_rank(0, lambda: _packed(self._planned(program, tensors))))
        step = RankStep(program, plan, self._ranks)
        return Made(program=program, module=PlannedModule(step), alone=plan, graph=program.graph)

    def _planned(self, program: TorchProgram, tensors: Sequence[Any]) -> Plan:
        # The arguments of rank 0 count, so that it is the one to hand them out.
        inputs = {op.name: 0 for op in program.graph.ops if op.kind == "input"}
        options = self._planner.options
        return self._planner.plans(program, tensors, {**options, "pins": inputs | dict(options.get("pins") or {})}).plan


def _planner(model: nn.Module, machine: Machine, ranks: Ranks, given: Mapping[str, Any]) -> ModulePlanner:
    """Times ops on the devices that share this rank's cores: its GPU, or all ranks on them."""
    planner = ModulePlanner(model, machine, **given)
    planner.places[ranks.rank] = ranks.place
    local = ranks.local_count()
    named = tuple(replace(machine.devices[0], name=f"cpu:{place}") for place in range(local))
    planner.local = replace(machine, devices=named, links=tuple(row[:local] for row in machine.links[:local]))
    planner.local_places = []
    if ranks.place.driver is not None:
        own = replace(machine.devices[ranks.rank], name=ranks.place.name)
        planner.local = replace(only(machine, ranks.rank), devices=(own,))
        planner.local_places = [ranks.place]
    return planner


def _bring_all_up_to_date(but: CompiledOnRanks | None = None) -> None:
    """What others have changed on one rank only is what this one may read on another."""
    for reference in list(_MADE):
        compiled = reference()
        if compiled is None:
            _MADE.remove(reference)
        elif compiled is not but and compiled._ahead:
            compiled.synchronize()


def _held_by(model: nn.Module) -> list[Any]:
    return [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor is not None]


def _description(model: nn.Module) -> str:
    held = repr([(name, *signature([tensor])) for name, tensor in model.state_dict().items()])
    return f"{type(model).__name__} with parameters {hashlib.sha256(held.encode()).hexdigest()[:12]}"


def _packed(plan: Plan) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json.gz"
        write_plan(plan, path)
        return path.read_bytes()


def _unpacked(data: bytes) -> Plan:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json.gz"
        path.write_bytes(data)
        return Plan.of(read_plan(path))
