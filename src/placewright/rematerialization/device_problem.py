"""One of several devices as a problem of its own, in which the search for a single device decides the reruns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.machines.host import HostMemory
from placewright.machines.topology import only
from placewright.problem.lowering import Lowered
from placewright.problem.problem import core_of
from placewright.rematerialization.placed_problem import DeviceRewrites, PlacedSchedule
from placewright.rematerialization.solve import NAME, moves_of, pieces_of, reruns_of, search_beside
from placewright.search.run.drive import drive
from placewright.search.run.search_run import SearchRun

Int32 = NDArray[np.int32]
#: The kinds of a device's steps: a copy arrives, a tensor's last transfer ends, the device waits, or an op runs.
_ARRIVES, _SENT, _WAITS, _RUNS = range(4)


class Step(NamedTuple):
    """A step of a device. place: the op before which it happens, counted on the device. item: the op or tensor of the
    whole problem; for a wait, its nanoseconds."""

    place: int
    kind: int
    item: int


class DeviceProblem:
    """One device's part of a schedule, as a problem of one device: its ops in the order of the graph, copies at the
    start of their transfers, and the end of each sent tensor's last transfer. Arriving copies can be neither made again
    nor moved."""

    def __init__(self, whole: PlacedSchedule, device: int) -> None:
        start = whole.start
        self.problem, self.device = start.problem, device
        self.own = np.flatnonzero(start.device_of == device)
        self.until, self.movable = start.until[self.own], start.movable
        waits = self._waits(start.once) if start.host is not None else ()
        self.steps = sorted(chain(self._steps(whole, start.device_of), waits))
        self.kinds = np.array([step.kind for step in self.steps])
        self.made = [self._made(step) for step in self.steps]
        #: The results of the steps, in the numbers of the whole problem, and whether each is an arriving copy.
        self.tensors = np.array(list(chain.from_iterable(self.made)), np.int32)
        self.arrived = np.repeat(self.kinds == _ARRIVES, list(map(len, self.made)))
        self.lowered = self._lower()

    def _made(self, step: Step) -> list[int]:
        if step.kind == _RUNS:
            return list(range(*self.problem.lowered.output_begin[step.item : step.item + 2].tolist()))
        return [step.item] if step.kind == _ARRIVES else []

    def _read(self, step: Step) -> list[int]:
        lowered = self.problem.lowered
        if step.kind == _RUNS:
            row = slice(*lowered.input_begin[step.item : step.item + 2].tolist())
            return [tensor for tensor in lowered.inputs[row].tolist() if lowered.graph_tensor[tensor] >= 0]
        return [step.item] if step.kind == _SENT else []

    def _resident(self, step: Step) -> list[int]:
        if step.kind != _RUNS:
            return []
        row = slice(*self.problem.lowered.resident_begin[step.item : step.item + 2].tolist())
        found: list[int] = self.problem.lowered.residents[row].tolist()
        return found

    def search(self, run: SearchRun, limit: int, host: HostMemory | None) -> tuple[DeviceRewrites, bool]:
        """Return the search's result for a limit, and True if the result keeps it."""
        num_steps, place_of = len(self.steps), np.flatnonzero(self.kinds == _RUNS)
        # The place after the last op here that comes before any op that overwrites an input of the op.
        last = np.searchsorted(self.own, self.until) - 1
        again_until = np.full(num_steps, -1, np.int32)
        again_until[place_of] = np.where(self.until < 0, -1, place_of[np.maximum(last, 0)] + 1)
        time_ns = np.zeros((num_steps, 1), np.int64)
        time_ns[place_of, 0] = self.problem.time_ns[self.problem.lowered.graph_op[self.own], self.device]
        time_ns[self.kinds == _WAITS, 0] = [step.item for step in self.steps if step.kind == _WAITS]
        groups = np.zeros(num_steps, np.int32), np.ones(num_steps, np.uint64)
        core = core_of(self.lowered, only(self.problem.machine, self.device), time_ns, groups, (limit,))
        movable = None if host is None else np.where(self.arrived, 0, self.movable[self.tensors]).astype(np.uint8)
        search = search_beside(core, again_until, run.seed, host, movable)
        drive(run, search, NAME)
        runs, bits, moved = self._in_whole(*(each.tolist() for each in search.best()))
        is_run = runs >= 0
        reruns = tuple(reruns_of(self.problem, runs[is_run], bits[is_run]))
        moves = tuple(moves_of(self.problem, runs, bits, moved))
        return DeviceRewrites(reruns=reruns, moves=moves), search.best_bytes_over_limit == 0

    def _in_whole(self, runs: list[int], bits: list[int], moved: list[int]) -> tuple[Int32, NDArray[np.uint64], Int32]:
        """Convert the runs and moves of the core to the numbers of the whole problem.

        Until a tensor's last transfer ends, the result of the first run is held: before that, it is neither made again
        nor brought back, and it leaves only then.
        """
        sent_at = {
            int(self.problem.lowered.storage[self.steps[place].item]): at
            for at, place in enumerate(runs)
            if place >= 0 and self.steps[place].kind == _SENT
        }
        leave_when_sent: dict[int, list[int]] = {}
        #: (op, bits of the given results, tensor): an op runs; or, with -1 for the op, a tensor leaves or is back.
        events: list[tuple[int, int, int]] = []
        has_run: set[int] = set()
        for at, (place, given, tensor) in enumerate(zip(runs, bits, moved, strict=True)):
            if place < 0:
                tensor = int(self.tensors[tensor])
                if sent_at.get(tensor, -1) < at:
                    events.append((-1, given, tensor))
                elif not given:
                    leave_when_sent.setdefault(sent_at[tensor], []).append(tensor)
                continue
            step = self.steps[place]
            events += ((-1, 0, tensor) for tensor in leave_when_sent.pop(at, ()))
            if step.kind == _RUNS:
                if place in has_run:
                    given &= ~self._still_sent(step.item, sent_at, at)
                if given or place not in has_run:
                    events.append((step.item, given, -1))
                has_run.add(place)
        returned = {tensor for op, given, tensor in events if op < 0 and given}
        events = [each for each in events if each[0] >= 0 or each[2] in returned]
        ops, bits, tensors = (list(column) for column in zip(*events, strict=True)) if events else ([], [], [])
        return np.array(ops, np.int32), np.array(bits, np.uint64), np.array(tensors, np.int32)

    def _still_sent(self, op: int, sent_at: Mapping[int, int], at: int) -> int:
        """Return a bit for each result of an op whose last transfer ends after a run."""
        pieces = enumerate(pieces_of(self.problem.lowered, op))
        return sum(1 << number for number, piece in pieces if sent_at.get(piece, -1) > at)

    def _steps(self, whole: PlacedSchedule, device_of: Int32) -> Iterator[Step]:
        """Yield the ops of the device, copies that arrive for them, and the ends of sent tensors' last transfers, in a
        schedule."""
        graph, lowered, own = self.problem.graph, self.problem.lowered, self.own
        of_ops, of_transfers = whole.times
        spans = np.array([of_ops[graph.ops[op].name] for op in lowered.graph_op[own]], np.int64).reshape(-1, 2)
        begins, ends = spans.T
        yield from (Step(place, _RUNS, op) for place, op in enumerate(own.tolist()))
        readers: dict[int, list[int]] = {}
        for tensor, reader in zip(lowered.inputs.tolist(), lowered.reader.tolist(), strict=True):
            readers.setdefault(tensor, []).append(reader)
        for tensor, read_by in readers.items():
            # An empty tensor that only signals the end of an op takes no memory.
            if (named := int(lowered.graph_tensor[tensor])) < 0:
                continue
            maker, devices = int(lowered.producer[tensor]), {int(device_of[reader]) for reader in read_by}
            if device_of[maker] == self.device:
                if sent := [of_transfers[named, each][1] for each in devices - {self.device}]:
                    place = max(np.searchsorted(begins, max(sent), "left"), np.searchsorted(own, maker) + 1)
                    yield Step(int(place), _SENT, tensor)
            elif self.device in devices:
                first = min(reader for reader in read_by if device_of[reader] == self.device)
                arrives = np.searchsorted(ends, of_transfers[named, self.device][0], "right")
                yield Step(int(min(arrives, np.searchsorted(own, first))), _ARRIVES, tensor)

    def _waits(self, once: PlacedSchedule) -> Iterator[Step]:
        """Yield the idle times of the device if each op runs once: the links may then carry moves."""
        of_ops, _ = once.times
        graph, lowered = self.problem.graph, self.problem.lowered
        done = 0
        for place, op in enumerate(lowered.graph_op[self.own].tolist()):
            begin, end = of_ops[graph.ops[op].name]
            if begin > done:
                yield Step(place, _WAITS, begin - done)
            done = end

    def _lower(self) -> Lowered:
        """Lower the steps as ops of one device, in their order."""
        lowered = self.problem.lowered
        read, resident = list(map(self._read, self.steps)), list(map(self._resident, self.steps))
        tensors, arrived, kinds = self.tensors, self.arrived, self.kinds
        place_of = np.zeros(len(lowered.graph_tensor), np.int32)
        place_of[tensors] = np.arange(len(tensors))
        residents = np.unique(np.array(list(chain.from_iterable(resident)), np.int32))
        graph_op, workspace = np.full(len(kinds), -1, np.int32), np.zeros(len(kinds), np.int64)
        graph_op[kinds == _RUNS] = lowered.graph_op[self.own]
        workspace[kinds == _RUNS] = lowered.workspace_bytes[self.own]
        return Lowered(
            graph_op=graph_op,
            graph_tensor=lowered.graph_tensor[tensors],
            output_begin=_begins(self.made),
            allocated_bytes=np.where(arrived, lowered.copy_bytes[tensors], lowered.allocated_bytes[tensors]),
            transfer_bytes=lowered.transfer_bytes[tensors],
            copy_bytes=lowered.copy_bytes[tensors],
            storage=place_of[np.where(arrived, tensors, lowered.storage[tensors])],
            live_out=np.where(arrived, 0, lowered.live_out[tensors]).astype(np.uint8),
            input_begin=_begins(read),
            inputs=place_of[list(chain.from_iterable(read))].astype(np.int32),
            control_begin=np.zeros(len(self.steps) + 1, np.int32),
            controls=np.zeros(0, np.int32),
            resident_begin=_begins(resident),
            residents=np.searchsorted(residents, list(chain.from_iterable(resident))).astype(np.int32),
            graph_resident=lowered.graph_resident[residents],
            resident_bytes=lowered.resident_bytes[residents],
            workspace_bytes=workspace,
            together=(),
        )


def _begins(rows: Sequence[Sequence[int]]) -> Int32:
    return np.cumsum([0, *map(len, rows)], dtype=np.int32)
