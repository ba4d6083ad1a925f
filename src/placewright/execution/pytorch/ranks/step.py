"""A plan whose devices are ranks: what this rank does of a step, over and over.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from placewright.execution.channels import Channels, StoppedError
from placewright.execution.pytorch.code import DeviceCode, device_code
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.pytorch.ranks.group import Ranks
from placewright.execution.pytorch.ranks.messages import Wire
from placewright.execution.pytorch.ranks.steps import messages, steps_over_ranks
from placewright.execution.pytorch.step import check_inputs, naming_the_op
from placewright.execution.steps import HandOver, Send, Signal, steps_of
from placewright.plans.record import Plan
from placewright.support.errors import InputError

Code = tuple[Channels, DeviceCode]
Message = Send | Signal | HandOver


class RankStep:
    """Runs this rank's part of a plan. The channels of the plan's steps that lead to other ranks are emptied and filled
    by threads that send and receive."""

    def __init__(self, program: TorchProgram, plan: Plan, ranks: Ranks) -> None:
        self.program = program
        self.plan = plan
        self._ranks = ranks
        self._steps = steps_over_ranks(steps_of(plan, program.graph), program)
        self._sent = {peer: messages(self._steps.steps, ranks.rank, peer) for peer in ranks.peers}
        self._received = {peer: messages(self._steps.steps, peer, ranks.rank) for peer in ranks.peers}
        self._code = self._write()

    @property
    def num_compiled_regions(self) -> int:
        """Ranks compute op by op."""
        return 0

    @property
    def optimized(self) -> dict[str, int]:
        """The parameters that an optimizer changes, and the rank that alone has their values."""
        return {self.program.parameters[base]: rank for base, rank in self._steps.optimized.items()}

    def run(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> dict[int, Any]:
        """Runs one step together with all other ranks; returns the outputs of the graph, by tensor.

        Where one rank fails, all raise: that one what happened, the others a RankError. Afterwards another step may be
        run, unless a rank is lost.
        """
        channels, code = self._code
        out: dict[int, Any] = {}
        why: list[str] = []

        jobs: list[Callable[[], None]] = [partial(self._compute, code, parameters, tensors, out, why)]
        for peer in self._ranks.peers:
            jobs.append(partial(_send, self._ranks.wires[peer], self._sent[peer], channels, why))
            jobs.append(partial(_receive, self._ranks.wires[peer], self._received[peer], channels, why))
        try:
            self._ranks.run(jobs, channels.stop)
        except BaseException:
            self._code = self._write()
            raise
        if channels.stopped:  # Ctrl-C came when all was done. It must not stop the next step.
            self._code = self._write()
        self._bring_up_to_date(parameters, tensors, out)
        return out

    def _compute(
        self, code: DeviceCode, parameters: Sequence[Any], tensors: Sequence[Any], out: dict[int, Any], why: list[str]
    ) -> None:
        try:
            check_inputs(self.program, tensors)
            with naming_the_op(code, self.program, self.plan):
                code.function(parameters, list(tensors), out)
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
        return channels, device_code(self.program, self._steps.of_rank(rank), rank, channels, held)


def _send(wire: Wire, sent: Sequence[Message], channels: Channels, why: list[str]) -> None:
    """Sends what the device hands over, in its order; a word of why, when this rank stops."""
    for message in sent:
        channels.locks[message.channel].acquire()
        if channels.stopped:
            wire.send_stop(why[0] if why else "it was interrupted")
            return
        value, channels.box[message.channel] = channels.box[message.channel], None
        try:
            wire.send(value)
        except InputError as error:
            why.append(str(error))
            wire.send_stop(str(error))
            raise


def _receive(wire: Wire, received: Sequence[Message], channels: Channels, why: list[str]) -> None:
    """Hands the device what comes. When this rank has stopped, it still takes all that the other one sends."""
    for message in received:
        try:
            value = wire.receive()
        except BaseException as error:
            why.append(str(error))
            raise
        channels.hand(message.channel, value)
