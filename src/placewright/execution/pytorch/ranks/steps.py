"""The steps of a plan for ranks: results go to every rank, random numbers are those of one generator, and the ranks end
a step together.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.steps import HandOver, Receive, Release, Run, Send, Signal, Step, Steps, TakeOver, Wait
from placewright.graph import Graph


@dataclass(frozen=True, kw_only=True)
class RankSteps:
    """What the ranks do, and what is where afterwards.

    everywhere: the tensors that every rank has at the end. updated: of each buffer and input that the step overwrites,
    its last version, which every rank has, and the rank that wrote it. optimized: of each parameter that an optimizer
    overwrites, its new version and the rank that made it; no other has its value.
    """

    steps: Steps
    everywhere: frozenset[int]
    updated: Mapping[int, tuple[int, int]]
    optimized: Mapping[int, tuple[int, int]]

    def of_rank(self, rank: int) -> Steps:
        """The steps with the outputs that a rank has."""
        own = {tensor for tensor, maker in self.optimized.values() if maker == rank}
        return replace(self.steps, output_device=dict.fromkeys(sorted(self.everywhere | own), rank))


def steps_over_ranks(steps: Steps, program: TorchProgram) -> RankSteps:
    """The steps of a plan, whose devices are ranks."""
    graph = program.graph
    made_on = {
        tensor: rank
        for rank, own in enumerate(steps.of_device)
        for step in own
        if isinstance(step, Run)
        for tensor in graph.ops[step.op].outputs
    }
    last, optimized = _overwritten(graph)
    updated = {base: (tensor, made_on[tensor]) for base, tensor in last.items()}
    outputs = set(steps.output_device) - set(optimized.values()) | set(last.values())
    weaver = _Weaver(steps, graph)
    weaver.hand_generator_over(program.random)
    for tensor in sorted(outputs):
        if graph.producer_of[tensor] >= 0:
            weaver.spread(tensor, made_on[tensor] if tensor in last.values() else steps.output_device[tensor])
    weaver.end_together()
    return RankSteps(
        steps=Steps(of_device=tuple(map(tuple, weaver.of_rank)), num_channels=weaver.num_channels, output_device={}),
        everywhere=frozenset(outputs),
        updated=updated,
        optimized={base: (tensor, made_on[tensor]) for base, tensor in optimized.items()},
    )


def messages(steps: Steps, source: int, destination: int) -> list[Send | Signal | HandOver]:
    """What one rank sends another during a step, in order."""
    return [
        step
        for step in steps.of_device[source]
        if isinstance(step, Send | Signal | HandOver) and step.destination == destination
    ]


def _overwritten(graph: Graph) -> tuple[dict[int, int], dict[int, int]]:
    """By parameter, buffer or input its last version: of those that the program overwrites, and those that an optimizer
    does."""
    last: dict[int, int] = {}
    optimized: dict[int, int] = {}
    for op in graph.ops:
        for tensor in op.outputs:
            base = graph.base_of[tensor]
            maker = graph.producer_of[base]
            is_found = maker < 0 or graph.ops[maker].kind == "input"
            if op.kind != "view" and graph.tensors[tensor].alias_of is not None and is_found:
                (optimized if op.kind == "optimizer" else last)[base] = tensor
    return last, optimized


class _Weaver:
    """Steps of ranks, into which more are woven."""

    def __init__(self, steps: Steps, graph: Graph) -> None:
        self.graph = graph
        self.of_rank: list[list[Step]] = [list(own) for own in steps.of_device]
        self.num_channels = steps.num_channels

    def hand_generator_over(self, random: Sequence[int]) -> None:
        """Ops that draw random numbers do so from the generator of rank 0, which goes with them from rank to rank, and
        in the end to all."""
        if not random:
            return
        rank_of = {
            step.op: rank for rank, own in enumerate(self.of_rank) for step in own if isinstance(step, Run)
        }  # fmt: skip
        here, after = 0, None
        for op in random:
            if rank_of[op] != here:
                self._hand_over(here, after, rank_of[op], op)
            here, after = rank_of[op], op
        for rank in range(len(self.of_rank)):
            if rank != here:
                self._hand_over(here, after, rank, None)

    def _hand_over(self, source: int, after: int | None, destination: int, before: int | None) -> None:
        """after, before: ops, or None for the begin and the end of the step."""
        channel = self._new_channel()
        sender, receiver = self.of_rank[source], self.of_rank[destination]
        sender.insert(0 if after is None else sender.index(Run(after)) + 1, HandOver(destination, channel))
        receiver.insert(len(receiver) if before is None else receiver.index(Run(before)), TakeOver(source, channel))

    def spread(self, tensor: int, holder: int) -> None:
        """Gives every rank a tensor that it has at the end; it leaves as soon as it is made."""
        for rank, own in enumerate(self.of_rank):
            if rank == holder:
                continue
            if any(isinstance(step, Receive) and step.tensor == tensor for step in own):
                self.of_rank[rank] = list(_never_released(own, tensor))
                continue
            channel = self._new_channel()
            self.of_rank[holder].insert(self._made_at(tensor, holder) + 1, Send(tensor, rank, channel))
            own.append(Receive(tensor, holder, channel))

    def _made_at(self, tensor: int, rank: int) -> int:
        producer = self.graph.producer_of[tensor]
        for place, step in enumerate(self.of_rank[rank]):
            if isinstance(step, Run) and step.op == producer:
                return place
            if isinstance(step, Receive) and step.tensor == tensor:
                return place
        raise AssertionError(f"rank {rank} never has tensor {tensor}")

    def end_together(self) -> None:
        """No rank ends the step before every other has said that it went well."""
        ranks = range(len(self.of_rank))
        pairs = [(source, destination) for source in ranks for destination in ranks if source != destination]
        channels = {pair: self._new_channel() for pair in pairs}
        for (source, destination), channel in channels.items():
            self.of_rank[source].append(Signal(destination, channel))
        for (source, destination), channel in channels.items():
            self.of_rank[destination].append(Wait(source, channel))

    def _new_channel(self) -> int:
        self.num_channels += 1
        return self.num_channels - 1


def _never_released(steps: Iterable[Step], tensor: int) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Release) and tensor in step.tensors:
            others = tuple(each for each in step.tensors if each != tensor)
            if others:
                yield replace(step, tensors=others)
        else:
            yield step
