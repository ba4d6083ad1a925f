"""How plans of a PyTorch module are made: captured, its ops timed on this host, planned.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from placewright.analysis.advice import shortage_words
from placewright.api.arguments import globs
from placewright.api.beside_one_device import OpTimes, plan_beside_one_device
from placewright.api.functions import plan as make_plan
from placewright.api.memory_limits import host_and_limits
from placewright.api.profiles import Profile, first_device, of_first_device, times_name, write_times
from placewright.api.questions import Plan
from placewright.costs.measured import with_workspaces
from placewright.execution.devices import check_device_count
from placewright.execution.pytorch.accumulation import FoundGradients, also_read, found_gradients
from placewright.execution.pytorch.cuda import places_of
from placewright.execution.pytorch.module import Parameters
from placewright.execution.pytorch.optimizer_step import HeldStates, check_can_be_stepped, held_states
from placewright.execution.pytorch.program import TorchProgram, make_program
from placewright.execution.pytorch.recorded import check_recordable, the_driver
from placewright.execution.pytorch.residents import what_stays
from placewright.execution.pytorch.runnable import check_module
from placewright.execution.pytorch.step import check_readable
from placewright.graph import Graph
from placewright.importers.torch.graph import added_gradients, bytes_added_to
from placewright.importers.torch.stand_in import tensors_of
from placewright.importers.torch.trace import flatten_arguments
from placewright.machine import Machine
from placewright.plans.provenance import match_graph, require_match, with_planned_workspaces
from placewright.plans.record import Plan as PlanRecord
from placewright.rematerialization.reruns import rewritten
from placewright.support.errors import InputError
from placewright.support.files import write_atomically
from placewright.support.quantities import format_bytes
from placewright.verification.order import require_order
from placewright.verification.reruns import about_devices, about_reruns

#: How often it is planned anew for a GPU whose allocator takes more than the plan, and the most that this may be as a
#: share of the limit.
_MOST_ATTEMPTS, _MOST_UNPLANNED = 3, 0.1


@dataclass(frozen=True, kw_only=True)
class Plans:
    """What was planned for arguments of one shape.

    plan: for all devices. alone: with all ops on the first one. graph: with measured workspaces.
    """

    plan: Plan
    alone: Plan
    graph: Graph


class ModulePlanner:
    """Makes a program of a module, and plans for it, whenever arguments of other shapes come.

    machine: the devices of its plans; places: where these compute. given: a plan that is taken instead of one that is
    made. measured: a file of op times. options: as `placewright.plan` takes them.
    """

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
        options: Mapping[str, Any],
    ) -> None:
        if given is not None:
            check_device_count(given, machine)
        check_module(model, training=training)
        host_and_limits(options.get("memory_limit"), machine)
        if optimizer is not None:
            check_can_be_stepped(optimizer)
        self.model = model
        self.machine = machine
        self.places = places_of([device.name for device in machine.devices])
        self.training = training
        self.loss = loss
        self.optimizer = optimizer
        self.given = given
        stays = what_stays([*model.parameters(), *model.buffers()], self.places, recorded=self.is_recorded)
        self.options = {**options, "keep": [*globs("keep", options.get("keep", ())), *stays]} if stays else options
        self._measured = measured
        self._profile = profile

    def __getstate__(self) -> dict[str, Any]:
        """Without the places, which a process has for itself."""
        return {key: value for key, value in vars(self).items() if key != "places"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Finds the places of these devices in this process."""
        vars(self).update(state)
        self.places = places_of([device.name for device in self.machine.devices])

    @property
    def limit(self) -> int | None:
        """The memory limit of a plan of one device that is made here, in bytes; None where there is none."""
        asked = self.options.get("memory_limit")
        if asked is None or self.given is not None or self.machine.num_devices > 1:
            return None
        return next(iter((host_and_limits(asked, self.machine)[1] or {}).values()), None)

    def options_beside(self, held: int) -> Mapping[str, Any]:
        """The options of a plan of one device for a step that finds gradients of so many bytes."""
        if not held or self.limit is None:
            return self.options
        host, limited = host_and_limits(self.options["memory_limit"], self.machine)
        on_host = {} if host is None or host.memory_bytes is None else {"host": host.memory_bytes}
        return {**self.options, "memory_limit": {name: max(0, self.limit - held) for name in limited or {}} | on_host}

    @property
    def is_recorded(self) -> bool:
        """Whether steps are replays of a CUDA graph."""
        return self.machine.launch == "graphs"

    def found_gradients(self, tensors: Sequence[Any]) -> FoundGradients:
        """Those that a training step within a memory limit finds, when the module is called with these tensors."""
        if not self.training or self.optimizer is not None or self.limit is None:
            return FoundGradients()
        return found_gradients(self.model, tensors, self.places[0].driver)

    def held_states(self, program: TorchProgram) -> HeldStates:
        """Of the optimizer, on the first device."""
        return held_states(self.optimizer, program.planned_states, self.places[0].driver)

    def program(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        inductor: bool = False,
        added_to: Sequence[str] = (),
    ) -> TorchProgram:
        """The module as a program for such arguments. Raises InputError where PyTorch cannot trace it.

        inductor: whether Inductor compiles parts of it, which end where something is overwritten. added_to: parameters
        whose gradients, which are there when a step begins, the step adds to where it can.
        """
        held = (*self.model.named_parameters(), *self.model.named_buffers())
        check_readable({name: tensor for name, tensor in held if tensor.is_meta}, self.places)
        made = partial(make_program, self.model, args, kwargs, training=self.training, loss=self.loss)
        if self.machine.num_devices > 1:
            return made(optimizer=self.optimizer)
        # The caller holds what lies there already; the rest is copied, and freed after its last reader.
        driver, tensors = self.places[0].driver, tensors_of(flatten_arguments(self.model, args, kwargs)[0])
        stay = driver is None or all(driver.holds(tensor) for tensor in tensors)
        # A recorded step would be recorded anew for each gradient that the caller replaces.
        added = frozenset(() if inductor or self.is_recorded else added_to)
        one = partial(made, optimizer=self.optimizer, sums_in_place=not inductor, inputs_stay=stay)
        program = one(added_to=added)
        if apart := self._read_elsewhere(program):
            program = one(added_to=added - apart)
        if self.given and match_graph(self.given, with_planned_workspaces(program.graph, self.given)):
            # A graph that was planned before it was to be run knows neither.
            return made(optimizer=self.optimizer)
        return program

    def _read_elsewhere(self, program: TorchProgram) -> frozenset[str]:
        """Parameters to whose gradients it adds, and whose memory it reads as an attribute or from outside, too."""
        added = {program.parameters[tensor]: name for name, tensor in added_gradients(program.graph).items()}
        now = dict(zip(program.parameters.values(), self.parameters(program), strict=True))
        others = [tensor for name, tensor in now.items() if name not in added]
        return also_read({name: now[slot] for slot, name in added.items()}, [*others, *program.constants.values()])

    def parameters(self, program: TorchProgram) -> list[Any]:
        """The module's parameters and buffers as they are now, in the order of the program's."""
        return Parameters(program).now()

    def plans(
        self,
        program: TorchProgram,
        tensors: Sequence[Any],
        options: Mapping[str, Any] | None = None,
        beside: int = 0,
        bytes_above: Callable[[Plan], int] = lambda _: 0,
    ) -> Plans:
        """Plans with times that are measured now, unless they are known.

        options: instead of the planner's own. beside: bytes of gradients for which these leave room. bytes_above: by
        how much a plan takes more than the limit when it runs; for a little it is planned anew.

        Raises InputError where the plan that was given is for another module or other shapes, a tensor lies where no
        device can read it, or no plan is found that keeps the memory limit.
        """
        parameters = self.parameters(program)
        check_readable(dict(zip(program.parameters.values(), parameters, strict=True)), self.places)
        check_readable({f"argument {number}": tensor for number, tensor in enumerate(tensors)}, self.places)
        if self.is_recorded:
            if self.given is not None and self.given.moves:
                raise InputError(
                    "the plan moves tensors to the host's memory, and a CUDA graph records the GPU's own; leave out "
                    "cuda_graph, or plan with keep=['move:*']"
                )
            check_recordable(program, parameters, the_driver(self.places))
        graph, options = program.graph, self.options if options is None else options
        if self.given is not None:
            planned = with_planned_workspaces(graph, self.given)
            require_match(self.given, planned, source=graph.name)
            # The fingerprint says that these are the plan's reruns, not that they compute what the graph does.
            found = rewritten(planned, self.given.reruns, self.given.moves, self.given.device_of)
            for problem in (*about_reruns(planned, found), *about_devices(self.given)):
                raise InputError(f"the plan cannot be run as it is: {problem}")
            require_order(self.given, found.graph)
        with self.kept_times() as folder:
            times = self._times(program, parameters, tensors, folder)
            # The plan of one device knows no other kind than the first.
            of_first = of_first_device(times.alone, self.machine, folder)
            alone = make_plan(graph, first_device(self.machine), measured=of_first, solver="input-order")
            plan = self.given or plan_beside_one_device(graph, self.machine, times, options)
            if plan is not self.given and options.get("memory_limit") is not None and plan.status == "infeasible":
                there = beside + bytes_added_to(graph)
                what = "gradients that are there before"
                if self.optimizer is not None:
                    what = "states that the optimizer holds beside those of this step"
                also = f"; {format_bytes(there)} of {what} count, too" if there else ""
                raise InputError(f"{shortage_words(plan)}{also}")
            plan = Plan.of(plan)
            if self.given is None and self.limit is not None:
                plan = self._within(graph, plan, times.shared, beside, bytes_above)
            # The file that was named is for the shapes that came first.
            self._measured = None
            return Plans(plan=plan, alone=alone, graph=with_workspaces(graph, times.shared))

    def _within(self, graph: Graph, plan: Plan, times: Path, beside: int, bytes_above: Callable[[Plan], int]) -> Plan:
        """A plan that keeps the limit when it runs, or the one at hand where none is found, or it takes far more."""
        assert self.limit is not None
        unplanned = 0
        for _ in range(_MOST_ATTEMPTS):
            over = bytes_above(plan)
            if not 0 < over <= _MOST_UNPLANNED * self.limit:
                break
            unplanned += over
            again = make_plan(graph, self.machine, measured=times, **self.options_beside(beside + unplanned))
            if again.status == "infeasible":
                break
            plan = again
        return plan

    @contextmanager
    def kept_times(self) -> Iterator[Path]:
        """Where files of op times go: to the profile, where plans find them later, or to a folder for now."""
        if self._profile.folder is not None:
            yield self._profile.folder
            return
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)

    def _times(self, program: TorchProgram, parameters: Sequence[Any], tensors: Sequence[Any], folder: Path) -> OpTimes:
        named = self._measured
        if named is not None and named.exists():
            return OpTimes(alone=named, shared=named)
        found = self._profile.measure(
            program, self.machine, parameters, tensors, self.optimizer, self.places, memory_limit=self.limit
        )
        times = write_times(found, self.machine, folder, times_name(program.graph, self.machine))
        if named is not None:
            write_atomically(named, times.shared.read_bytes())
        return times
