"""A window of a schedule with overlapped transfers as a model: ops that start within it are free, all others stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ortools.sat.python.cp_model import CpModel

from placewright.lab.peers.cp_sat.placement import device_literals
from placewright.lab.peers.cp_sat.structure import Expression, Transfer, Value, whole_order
from placewright.lab.peers.cp_sat.timed import Timed
from placewright.search.run.result import Solution

#: Transfers of later ops modelled on a link after the last that the window's ops send over it.
_TRANSFERS_BEHIND = 3


class Window:
    """A model that minimises the step time over devices and times of the ops at positions [first, first + num_ops) by
    start.

    Ops before the window keep their times. Ops after it keep devices and order, so their inputs may come as late as
    their tail allows. Transfers from ops before to ops before stay; others on links that the window's ops use are free
    to move. Those of later ops start no earlier than if everything after the window moved earlier by the gain in step
    time. The current solution satisfies the model. A solution of the model may take longer than its step time where a
    link that the window does not use is delayed; so the simulation decides.
    """

    def __init__(self, timed: Timed, first: int, num_ops: int) -> None:
        self.timed, self.structure, self.model = timed, timed.structure, CpModel()
        self.before, self.after = timed.ops[:first], timed.ops[first + num_ops :]
        self.inside = timed.ops[first : first + num_ops]
        self._phase = dict.fromkeys(self.before, 0) | dict.fromkeys(self.inside, 1) | dict.fromkeys(self.after, 2)
        self._ready = [0] * self.structure.num_devices
        for op in self.before:
            d = timed.device_of[op]
            self._ready[d] = max(self._ready[d], timed.finish[op, -1])
        self._opens, self._earliest = timed.start[self.inside[0], -1], min(self._ready)
        self._busy: dict[object, list[Expression]] = defaultdict(list)
        self._used_from: dict[tuple[int, int], int] = {}
        self.times: dict[int, tuple[Expression, Expression]] = {}
        self.transfers: dict[Transfer, tuple[Expression, Expression]] = {}
        self.step_time = self._new_time(0, timed.step_time_ns)
        self._place()
        self._add_ops()
        self._add_controls()
        made = {tensor for tensor, maker in enumerate(self.structure.producer) if self._phase[maker] == 1}
        for tensor in sorted({t for op in self.inside for t in self.structure.inputs[op]} | made):
            self._add_tensor(tensor)
        self._add_other_transfers()
        for intervals in self._busy.values():
            self.model.add_no_overlap(intervals)
        self.model.minimize(self.step_time)

    def _new_time(self, least: int, hint: int | None) -> Expression:
        time_ns = self.model.new_int_var(least, self.timed.step_time_ns, "")
        if hint is not None:
            self.model.add_hint(time_ns, hint)
        return time_ns

    def _place(self) -> None:
        """Make literals by device for the ops inside; a group with a member outside keeps its device."""
        structure, timed = self.structure, self.timed
        stays = {structure.group[op] for op in (*self.before, *self.after)}
        of_group: dict[int, dict[int, Expression]] = {}
        for op in self.inside:
            group, now = structure.group[op], timed.device_of[op]
            if group not in of_group:
                of_group[group] = own = device_literals(self.model, [now] if group in stays else structure.allowed[op])
                for d in sorted(own)[1:]:
                    self.model.add_hint(own[d], d == now)
        self.on = {op: of_group[structure.group[op]] for op in self.inside}

    def _homes(self, op: int) -> dict[int, Expression]:
        """Return the literals of any op, as `on` does for the ops inside; True for the device of an op outside."""
        return self.on[op] if op in self.on else {self.timed.device_of[op]: True}

    def _add_ops(self) -> None:
        timed = self.timed
        after_on = {timed.device_of[op]: timed.tail[op, -1] for op in reversed(self.after)}
        for op in self.inside:
            start = self._new_time(self._earliest, timed.start[op, -1])
            finish = self._new_time(self._earliest, timed.finish[op, -1])
            self.times[op] = start, finish
            for d, here in self.on[op].items():
                time_ns = self.structure.time_ns[op][d]
                self._busy[d].append(self.model.new_optional_interval_var(start, time_ns, finish, here, ""))
                self.model.add(start >= self._ready[d]).only_enforce_if(here)
                self.model.add(finish + after_on.get(d, 0) <= self.step_time).only_enforce_if(here)

    def _finish(self, op: int) -> Expression:
        return self.times[op][1] if op in self.times else self.timed.finish[op, -1]

    def _wait(self, op: int, until: Expression, conditions: Sequence[Expression]) -> None:
        """Constrain `op`, inside or after, to start no earlier than `until`."""
        if op in self.times:
            self.model.add(until <= self.times[op][0]).only_enforce_if(conditions)
        else:
            self.model.add(until + self.timed.tail[op, -1] <= self.step_time).only_enforce_if(conditions)

    def _add_controls(self) -> None:
        """Add control dependencies; across devices, one delays only as a signal."""
        signals, links = self.structure.problem.control == "signal", self.structure.problem.machine.links
        for before, after in self.structure.controls:
            if 1 not in (self._phase[before], self._phase[after]):
                continue
            for source, there in self._homes(before).items():
                for d, here in self._homes(after).items():
                    if source == d or signals:
                        delay_ns = 0 if source == d else links[source][d].latency_ns
                        self._wait(after, self._finish(before) + delay_ns, (there, here))

    def _add_tensor(self, tensor: int) -> None:
        maker = self.structure.producer[tensor]
        readers = [reader for reader in self.structure.readers[tensor] if self._phase[reader] > 0]
        for reader in readers:
            if self._phase[maker] == 1 and reader in self.times:
                self.model.add(self._finish(maker) <= self.times[reader][0])
                continue
            for d, here in self._homes(reader).items():
                if d in self._homes(maker):
                    self._wait(reader, self._finish(maker), (self._homes(maker)[d], here))
        for d in sorted({d for reader in readers for d in self._homes(reader)}):
            sources = [source for source in self._homes(maker) if source != d]
            here = [reader for reader in readers if d in self._homes(reader)]
            if self._stays(tensor, d):
                for reader in here:
                    self._wait(reader, self.timed.finish[tensor, d], (self._homes(reader)[d],))
            elif sources:
                self._add_transfer(tensor, d, sources, here)

    def _stays(self, tensor: int, d: int) -> bool:
        """True if the transfer exists whatever the window does and keeps its time: the tensor is made before the
        window, and read before it, or read after it and transferred before the window opens."""
        if (tensor, d) not in self.timed.start or self._phase[self.structure.producer[tensor]] > 0:
            return False
        phases = {self._phase[reader] for reader in self.timed.readers_on(tensor, d)}
        return 0 in phases or (2 in phases and self.timed.start[tensor, d] < self._opens)

    def _add_transfer(self, tensor: int, d: int, sources: Sequence[int], readers: Sequence[int]) -> None:
        timed, maker = self.timed, self.structure.producer[tensor]
        now = timed.start.get((tensor, d))
        least = max(self._earliest, 0 if maker in self.times else timed.finish[maker, -1])
        least = least if now is None else min(least, now)
        start = self._new_time(least, now)
        finish = self._new_time(least, timed.finish.get((tensor, d)))
        self.transfers[tensor, d] = start, finish
        if maker in self.times:
            self.model.add(self.times[maker][1] <= start)
        for source in sources:
            there, moves = self._homes(maker)[source], self.model.new_bool_var("")
            self.model.add_hint(moves, now is not None and timed.device_of[maker] == source)
            self.model.add_implication(moves, there)
            for reader in readers:
                here = self._homes(reader)[d]
                self.model.add(moves == 1).only_enforce_if(there, here)
                self._wait(reader, finish, (moves, here))
            time_ns = self.structure.transfer_ns(tensor, source, d)
            self._busy[source, d].append(self.model.new_optional_interval_var(start, time_ns, finish, moves, ""))
            self._used_from[source, d] = min(self._used_from.get((source, d), least), least)

    def _add_other_transfers(self) -> None:
        """Add transfers whose producers and readers are outside, on the links that the window uses."""
        timed, num_behind = self.timed, defaultdict[tuple[int, int], int](int)
        last = max((timed.finish[at] for at in self.transfers if at in timed.finish), default=self._opens)
        for at in [at for at in timed.place if at[1] >= 0 and at not in self.transfers]:
            link, time_ns = timed.link_of(at), timed.finish[at] - timed.start[at]
            if link not in self._used_from or timed.finish[at] <= self._used_from[link] or time_ns == 0:
                continue
            if self._stays(*at) or timed.start[at] < self._opens:
                self._busy[link].append(self.model.new_fixed_size_interval_var(timed.start[at], time_ns, ""))
                continue
            num_behind[link] += timed.start[at] >= last
            if num_behind[link] <= _TRANSFERS_BEHIND:
                self._add_movable(at, link, time_ns)

    def _add_movable(self, at: Transfer, link: tuple[int, int], time_ns: int) -> None:
        timed, maker = self.timed, self.structure.producer[at[0]]
        start = self._new_time(0, timed.start[at])
        made_ns = timed.finish[maker, -1]
        if self._phase[maker] == 0:
            self.model.add(start >= min(timed.start[at], max(made_ns, self._used_from[link])))
        else:
            self.model.add(start >= made_ns - (timed.step_time_ns - self.step_time))
        self._busy[link].append(self.model.new_fixed_size_interval_var(start, time_ns, ""))
        for reader in timed.readers_on(*at):
            self._wait(reader, start + time_ns, ())
        self.transfers[at] = start, start + time_ns

    def decode(self, value: Value) -> Solution:
        """Return the order of the model's times; steps outside the model move earlier by the gain."""
        structure, timed = self.structure, self.timed
        device_of = list(timed.device_of)
        for op, homes in self.on.items():
            device_of[op] = next(d for d, here in homes.items() if value(here))
        gained = timed.step_time_ns - value(self.step_time)
        start = {op: timed.start[op, -1] for op in self.before} | {op: value(s) for op, (s, _) in self.times.items()}
        finish = {op: timed.finish[op, -1] for op in self.before} | {op: value(f) for op, (_, f) in self.times.items()}
        clock = [
            max((finish[op] for op in self.inside if device_of[op] == d), default=0) for d in range(len(self._ready))
        ]
        for op in self.after:
            d = device_of[op]
            start[op] = max(timed.start[op, -1] - gained, clock[d], *self._arrivals(op, device_of, finish, value), 0)
            finish[op] = clock[d] = start[op] + structure.time_ns[op][d]
        # A step that takes no time comes before steps that start at its time on its device or link and take time.
        op_key = [(start[op], finish[op], self._phase[op], timed.place[op, -1]) for op in range(structure.num_ops)]
        keys = {}
        for at in structure.needed_transfers(device_of):
            maker = structure.producer[at[0]]
            if at in self.transfers:
                begin, end = map(value, self.transfers[at])
                earliest, place = begin, 0
            else:
                begin, end, place = timed.start[at], timed.finish[at], timed.place[at]
                earliest = begin if self._phase[maker] == 0 else begin - gained
            leaves = max(finish[maker], earliest)
            keys[at] = (leaves, leaves + end - begin, 0, place)
        return whole_order(structure, device_of, op_key, keys)

    def _arrivals(self, op: int, device_of: Sequence[int], finish: dict[int, int], value: Value) -> list[int]:
        """Return when the inputs of an op after the window arrive, as far as the model knows."""
        arrivals = []
        for tensor in self.structure.inputs[op]:
            maker, at = self.structure.producer[tensor], (tensor, device_of[op])
            if device_of[maker] == device_of[op]:
                arrivals.append(finish[maker])
            elif at in self.transfers:
                arrivals.append(value(self.transfers[at][1]))
        return arrivals
