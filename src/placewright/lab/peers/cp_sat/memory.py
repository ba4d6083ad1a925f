"""Peak memory on one device, or on several with blocking transfers, where only the order decides."""

from __future__ import annotations

from ortools.sat.python.cp_model import CpModel

from placewright.lab.peers.cp_sat.placement import Placement
from placewright.lab.peers.cp_sat.structure import (
    Expression,
    Formulation,
    Structure,
    Transfer,
    Value,
    positions_of,
    whole_order,
)
from placewright.search.run.result import Solution

#: Lifetimes beyond which building a model takes longer than it is worth.
MAX_INTERVALS = 10_000


def fits(structure: Structure, warm: Solution | None) -> bool:
    """True if memory follows from the order alone, as without overlapped transfers, and the model is not too large."""
    by_order = structure.num_devices == 1 or structure.problem.machine.transfer_model == "blocking"
    return by_order and (structure.num_ops + 2 * structure.num_tensors) * structure.num_devices <= MAX_INTERVALS


def max_bytes(structure: Structure) -> int:
    """Return an upper bound on the peak of every plan: everything on one device at once."""
    lowered = structure.problem.lowered
    sizes = (lowered.resident_bytes, lowered.copy_bytes, lowered.allocated_bytes, lowered.workspace_bytes)
    return sum(int(own.sum()) for own in sizes)


def formulate(structure: Structure, warm: Solution | None, at_least: int, at_most: int) -> Formulation:
    """Formulate the model. Every step has a place; a step that needs another has a place at least one later. The memory
    used at a place is the sum over all steps there.

    Steps that share a place only add up, so running them one after another never needs more; hence no constraint
    separates them, and every order is a solution too.
    """
    model = CpModel()
    placement = Placement(model, structure)
    building = _Building(model, structure, placement)
    building.add_transfers()
    building.add_lifetimes()
    peak = building.add_peaks(at_least, at_most)
    model.minimize(peak)
    if warm is not None:
        building.hint(warm)
        model.add_hint(peak, at_most)

    def decode(value: Value) -> Solution:
        keys = {at: (value(place),) for at, (place, _) in building.transfers.items()}
        return whole_order(structure, placement.device_of(value), [(value(p),) for p in building.places], keys)

    return Formulation(name="lifetimes", model=model, decode=decode, bounds_all=True)


class _Building:
    """The model under construction. places[op]; transfers: place and presence by (tensor, destination)."""

    def __init__(self, model: CpModel, structure: Structure, placement: Placement) -> None:
        self.model, self.structure, self.placement, self.on = model, structure, placement, placement.on
        transfers = sum(len(self._possible_destinations(tensor)) for tensor in range(structure.num_tensors))
        self.num_places = structure.num_ops + transfers
        self.places = [self._new_place() for _ in range(structure.num_ops)]
        self.transfers: dict[Transfer, tuple[Expression, Expression]] = {}
        self.ends: dict[tuple[int, int | None], Expression] = {}
        self.held: list[list[tuple[Expression, int]]] = [[] for _ in range(structure.num_devices)]
        for before, after in structure.data_edges + structure.controls:
            model.add(self.places[before] < self.places[after])

    def _possible_destinations(self, tensor: int) -> list[int]:
        """Return the devices where a reader may be placed without the maker."""
        maker = self.structure.producer[tensor]
        apart = [r for r in self.structure.readers[tensor] if self.structure.group[r] != self.structure.group[maker]]
        return sorted({d for reader in apart for d in self.on[reader] if set(self.on[maker]) != {d}})

    def _new_place(self) -> Expression:
        return self.model.new_int_var(0, self.num_places - 1, "")

    def add_transfers(self) -> None:
        for tensor, maker in enumerate(self.structure.producer):
            for d in self._possible_destinations(tensor):
                place, moves = self._new_place(), self.model.new_bool_var("")
                self.transfers[tensor, d] = place, moves
                self.model.add(self.places[maker] < place)
                at_home = self.on[maker].get(d)
                if at_home is not None:
                    self.model.add_implication(moves, ~at_home)
                for reader in self._readers_on(tensor, d):
                    here = self.on[reader][d]
                    self.model.add_bool_or([moves, ~here] if at_home is None else [moves, ~here, at_home])
                    self.model.add(place < self.places[reader]).only_enforce_if(moves, here)

    def _readers_on(self, tensor: int, d: int) -> list[int]:
        return [reader for reader in self.structure.readers[tensor] if d in self.on[reader]]

    def add_lifetimes(self) -> None:
        lowered = self.structure.problem.lowered
        for op, place in enumerate(self.places):
            workspace = int(lowered.workspace_bytes[op])
            for d, here in self.on[op].items() if workspace else ():
                interval = self.model.new_optional_fixed_size_interval_var(place, 1, here, "")
                self.held[d].append((interval, workspace))
        for tensor, size_bytes in enumerate(lowered.allocated_bytes.tolist()):
            if size_bytes:
                self._add_home(tensor, size_bytes)
        for (tensor, d), (place, moves) in self.transfers.items():
            size_bytes = int(lowered.copy_bytes[tensor])
            if size_bytes:
                end = self._new_end(tensor, d)
                for reader in self._readers_on(tensor, d):
                    self.model.add(self.places[reader] < end).only_enforce_if(moves, self.on[reader][d])
                self._hold(d, place, end, moves, size_bytes)

    def _new_end(self, tensor: int, d: int | None) -> Expression:
        """Return a variable for the first place at which a tensor at home (d is None), or its copy on d, is freed."""
        self.ends[tensor, d] = self.model.new_int_var(1, self.num_places, "")
        return self.ends[tensor, d]

    def _hold(self, d: int, place: Expression, end: Expression, present: Expression, size_bytes: int) -> None:
        size = self.model.new_int_var(1, self.num_places, "")
        self.held[d].append((self.model.new_optional_interval_var(place, size, end, present, ""), size_bytes))

    def _add_home(self, tensor: int, size_bytes: int) -> None:
        lowered, maker = self.structure.problem.lowered, self.structure.producer[tensor]
        end = self._new_end(tensor, None)
        if lowered.live_out[tensor]:
            self.model.add(end == self.num_places)
        for shared in (lowered.storage == tensor).nonzero()[0].tolist():
            for d, here in self.on[maker].items():
                for reader in self._readers_on(shared, d):
                    self.model.add(self.places[reader] < end).only_enforce_if(here, self.on[reader][d])
            for d in self._possible_destinations(shared):
                leaves, moves = self.transfers[shared, d]
                self.model.add(leaves < end).only_enforce_if(moves)
        for d, here in self.on[maker].items():
            self._hold(d, self.places[maker], end, here, size_bytes)

    def add_peaks(self, at_least: int, at_most: int) -> Expression:
        """Return the largest peak, and restrict each device's memory to the room that its residents leave."""
        peak = self.model.new_int_var(at_least, at_most, "")
        for d, limit in enumerate(self.structure.problem.memory_limits_bytes):
            room, residents = self.model.new_int_var(0, at_most, ""), self._residents_on(d)
            self.model.add(room + residents <= peak)
            if limit is not None:
                self.model.add(room + residents <= limit)
            self.model.add_cumulative([i for i, _ in self.held[d]], [size for _, size in self.held[d]], room)
        return peak

    def _residents_on(self, d: int) -> Expression:
        """Return the bytes of the residents that ops on the device read."""
        sizes = self.structure.problem.lowered.resident_bytes.tolist()
        here = {resident: self.model.new_bool_var("") for resident in range(len(sizes))}
        for op, own in enumerate(self.structure.residents):
            for resident in own if d in self.on[op] else ():
                self.model.add_implication(self.on[op][d], here[resident])
        return sum(sizes[resident] * literal for resident, literal in here.items())

    def hint(self, warm: Solution) -> None:
        """Hint the devices and places of the warm start."""
        device_of = self.placement.hint(self.model, warm.device_of.tolist())
        new_name = dict(zip(warm.device_of.tolist(), device_of, strict=True))
        place_of = {(index, new_name.get(d, -1)): place for (index, d), place in positions_of(warm).items()}
        for op, place in enumerate(self.places):
            self.model.add_hint(place, place_of[op, -1])
        for at, (place, moves) in self.transfers.items():
            self.model.add_hint(moves, at in place_of)
            if at in place_of:
                self.model.add_hint(place, place_of[at])
