"""A plan whose devices are ranks: what this rank does of a step, over and over.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from placewright.execution.channels import Channels, StoppedError
from placewright.execution.pytorch.code import DeviceCode, device_code
from placewright.execution.pytorch.fallback import Fallbacks
from placewright.execution.pytorch.handing import Handing
from placewright.execution.pytorch.places import Place
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.pytorch.ranks.group import Ranks
from placewright.execution.pytorch.ranks.messages import Wire
from placewright.execution.pytorch.ranks.steps import messages, steps_over_ranks
from placewright.execution.pytorch.rematerialized import rewritten_program
from placewright.execution.pytorch.residents import Residents
from placewright.execution.pytorch.sites import Site, Sites
from placewright.execution.pytorch.step import check_inputs, naming_the_op
from placewright.execution.steps import HandOver, Send, Signal, steps_of
from placewright.machines.host import parted
from placewright.plans.record import Plan
from placewright.support.errors import InputError

Code = tuple[Channels, DeviceCode]
Message = Send | Signal | HandOver


class RankStep:
    """Runs this rank's part of a plan. The channels of the plan's steps that lead to other ranks are emptied and filled
    by threads that send and receive."""

    def __init__(self, program: TorchProgram, plan: Plan, ranks: Ranks) -> None:
        program = rewritten_program(program, plan)
        self.program = program
        self.plan = plan
        self._ranks = ranks
        self._steps = steps_over_ranks(steps_of(plan, program.graph), program)
        self._sent = {peer: messages(self._steps.steps, ranks.rank, peer) for peer in ranks.peers}
        self._received = {peer: messages(self._steps.steps, peer, ranks.rank) for peer in ranks.peers}
        #: To this rank all others are threads of its host, which send and receive.
        places = [Place(name=device.name) for device in parted(plan.machine)[0].devices]
        places[ranks.rank] = ranks.place
        own = self._steps.of_rank(ranks.rank)
        alone = tuple(steps if rank == ranks.rank else () for rank, steps in enumerate(own.of_device))
        self.residents = Residents(program, replace(own, of_device=alone), places)
        self._fallbacks = Fallbacks(program)
        self._sites = Sites(program, places, self.residents, self._fallbacks)
        self._code = self._write()

    @property
    def num_compiled_regions(self) -> int:
        """Ranks compute op by op."""
        return 0

    @property
    def fallbacks(self) -> dict[str, str]:
        """The ops of this rank that ran on its host since its GPU has no kernel for them."""
        return dict(self._fallbacks.reasons)

    @property
    def optimized(self) -> dict[str, int]:
        """The parameters that an optimizer changes, and the rank that alone has their values."""
        return {self.program.parameters[base]: rank for base, (_, rank) in self._steps.optimized.items()}

    def run(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> dict[int, Any]:
        """Runs one step together with all other ranks; returns the outputs of the graph, by tensor.

        Where one rank fails, all raise: that one what happened, the others a RankError. Afterwards another step may be
        run, unless a rank is lost.
        """
        channels, code = self._code
        out: dict[int, Any] = {}
        why: list[str] = []

        place, rank = self._ranks.place, self._ranks.rank
        held = self.residents.on_each(parameters, tensors)[rank]
        begun = None if place.driver is None else place.driver.recorded(place.driver.current_stream())
        jobs: list[Callable[[], None]] = [partial(self._compute, code, begun, held, tensors, out, why)]
        for peer in self._ranks.peers:
            there, back = self._sites.handing(rank, peer), self._sites.handing(peer, rank)
            jobs.append(partial(_send, self._ranks.wires[peer], self._sent[peer], channels, why, there))
            jobs.append(partial(_receive, self._ranks.wires[peer], self._received[peer], channels, why, back))
        try:
            self._ranks.run(jobs, channels.stop)
        except BaseException:
            self._code = self._write()
            self.residents.forget()
            raise
        if channels.stopped:  # Ctrl-C came when all was done. It must not stop the next step.
            self._code = self._write()
        self.residents.deliver(parameters, tensors, out)
        self._bring_up_to_date(parameters, tensors, out)
        return out

    def _compute(
        self,
        code: DeviceCode,
        begun: Any,
        held: tuple[Sequence[Any], list[Any]],
        tensors: Sequence[Any],
        out: dict[int, Any],
        why: list[str],
    ) -> None:
        place = self._ranks.place
        try:
            check_inputs(self.program, tensors, [place])
            with naming_the_op(code, self.program, self.plan), place.in_step(begun):
                code.function(*held, out)
        except BaseException as error:
            if not isinstance(error, StoppedError):
                why.append("; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]))
            raise

    def _bring_up_to_date(self, parameters: Sequence[Any], tensors: Sequence[Any], out: dict[int, Any]) -> None:
        """Buffers and inputs that another rank has overwritten."""
        place = {tensor: number for number, tensor in enumerate(self.program.parameters)}
        with torch.no_grad():
            for base, (tensor, rank) in self._steps.updated.items():
                if rank != self._ranks.rank:
                    old = parameters[place[base]] if base in place else tensors[self.program.inputs[base]]
                    old.copy_(out[tensor])

    def _write(self) -> Code:
        rank = self._ranks.rank
        channels = Channels(self._steps.steps.num_channels)
        held = list(self.program.parameters)
        site = Site(self._sites, rank)
        return channels, device_code(self.program, self._steps.of_rank(rank), rank, channels, held, site=site)


def _send(wire: Wire, sent: Sequence[Message], channels: Channels, why: list[str], what: Handing) -> None:
    """Sends what the device hands over, in its order; a word of why, when this rank stops."""
    for message in sent:
        channels.locks[message.channel].acquire()
        if channels.stopped:
            wire.send_stop(why[0] if why else "it was interrupted")
            return
        value, channels.box[message.channel] = channels.box[message.channel], None
        try:
            wire.send(_taken(message, value, what))
        except InputError as error:
            why.append(str(error))
            wire.send_stop(str(error))
            raise


def _taken(message: Message, value: Any, what: Handing) -> Any:
    """What there is to send, once it is there."""
    if isinstance(message, Send):
        return value if what.take is None else what.take(value)
    if isinstance(message, Signal) and what.heed is not None:
        what.heed(value)
        return None
    return value


def _receive(wire: Wire, received: Sequence[Message], channels: Channels, why: list[str], what: Handing) -> None:
    """Hands the device what comes. When this rank has stopped, it still takes all that the other one sends."""
    for message in received:
        try:
            value = wire.receive()
        except BaseException as error:
            why.append(str(error))
            raise
        if isinstance(message, Send) and what.send is not None:
            value = what.send(value)
        channels.hand(message.channel, value)
