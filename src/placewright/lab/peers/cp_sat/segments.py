"""Step time on two devices with blocking transfers, as a sequence of segments between barriers."""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python.cp_model import CpModel, LinearExpr

from placewright.lab.peers.cp_sat.placement import Placement
from placewright.lab.peers.cp_sat.structure import Expression, Formulation, Structure, Transfer, Value, whole_order
from placewright.search.run.result import Solution

#: Literals of a model of all segments that an optimal plan can need; beyond, only about as many as the hint has. With
#: 12,000 (70 to 85 ops) a minute left gaps of 2 to 6 %, and no bound rose above those known without CP-SAT. Without a
#: hint all segments are modelled.
MAX_LITERALS = 2_000
#: Literals beyond which building and presolving a model takes longer than it is worth.
LITERALS_THAT_FIT = 300_000


def fits(structure: Structure, warm: Solution | None) -> bool:
    """True if the step time is a sum over segments (every transfer stops both devices, and no signal stops one) and the
    segments of the warm start, or all segments without one, do not make the model too large."""
    problem = structure.problem
    signals = problem.control == "signal" and structure.controls
    if structure.num_devices != 2 or problem.machine.transfer_model != "blocking" or signals:
        return False
    num_segments, _ = _num_segments(structure, warm)
    return 2 * num_segments * structure.num_ops <= LITERALS_THAT_FIT


def formulate(structure: Structure, warm: Solution | None, at_least: int, at_most: int) -> Formulation:
    """Formulate the model. Each op is in one segment on one device. A segment takes as long as its fuller device; a
    transfer takes its own time between segments. An op's inputs from the other device are made in earlier segments;
    those from its own device, and its control predecessors, in an earlier or the same segment, within which the order
    is free.

    With fewer segments than an optimal plan may need, the model gives no bound.
    """
    model = CpModel()
    placement = Placement(model, structure)
    num_segments, is_exact = _num_segments(structure, warm)
    stands = [
        {(k, d): model.new_bool_var("") for k in range(num_segments) for d in placement.on[op]}
        for op in range(structure.num_ops)
    ]
    for op, own in enumerate(stands):
        model.add_exactly_one(own.values())
        for d, literal in placement.on[op].items():
            model.add(sum(own[k, d] for k in range(num_segments)) == literal)
    segments = [LinearExpr.weighted_sum(list(own.values()), [k for k, _ in own]) for own in stands]
    _add_precedences(model, structure, placement, segments)
    lengths = [_add_length(model, structure, stands, k, at_most) for k in range(num_segments)]
    moves, costs = _add_transfers(model, structure, placement)
    step_time = LinearExpr.sum(lengths) + LinearExpr.weighted_sum(moves, costs)
    model.add(step_time >= at_least)
    model.add(step_time <= at_most)
    model.minimize(step_time)
    if warm is not None:
        device_of, segment_of = placement.hint(model, warm.device_of.tolist()), hinted_segments(structure, warm)
        for op, own in enumerate(stands):
            for at, literal in own.items():
                model.add_hint(literal, at == (segment_of[op], device_of[op]))

    def decode(value: Value) -> Solution:
        found = [next(k for (k, _), literal in own.items() if value(literal)) for own in stands]
        return in_segments(structure, placement.device_of(value), found)

    return Formulation(name="segments", model=model, decode=decode, bounds_all=is_exact)


def in_segments(structure: Structure, device_of: Sequence[int], segment_of: Sequence[int]) -> Solution:
    """Return the order that takes one segment after another, with transfers at the end of the segment that makes their
    tensor."""
    transfers = structure.needed_transfers(device_of)
    transfer_key: dict[Transfer, tuple[int, ...]] = {
        (t, d): (segment_of[structure.producer[t]], 1) for t, d in transfers
    }
    return whole_order(structure, device_of, [(segment, 0) for segment in segment_of], transfer_key)


def hinted_segments(structure: Structure, solution: Solution) -> list[int]:
    """Return the segment of each op in an order on two devices. Neighbouring segments that no tensor joins are merged,
    which never takes longer."""
    device_of = solution.device_of.tolist()
    between_barriers: list[list[int]] = [[]]
    for index, destination in solution.order.tolist():
        if destination < 0:
            between_barriers[-1].append(index)
        elif between_barriers[-1]:
            between_barriers.append([])
    segment_of, current = [-1] * structure.num_ops, 0
    for ops in between_barriers:
        makers = {(structure.producer[t], op) for op in ops for t in structure.inputs[op]}
        current += any(segment_of[maker] == current and device_of[maker] != device_of[op] for maker, op in makers)
        for op in ops:
            segment_of[op] = current
    return segment_of


def _num_segments(structure: Structure, warm: Solution | None) -> tuple[int, bool]:
    """Return the number of segments to model, and True if some optimal plan needs no more. Two segments that no tensor
    joins may be merged; so every barrier has a maker of its own before it and a reader of its own after it."""
    makers = {maker for maker, _ in structure.data_edges}
    readers = {reader for _, reader in structure.data_edges}
    enough = min(len(makers), len(readers)) + 1
    if warm is None or enough * 2 * structure.num_ops <= MAX_LITERALS:
        return enough, True
    hinted = max(hinted_segments(structure, warm)) + 1
    some = hinted + 2 + hinted // 4
    return min(enough, some), enough <= some


def _add_precedences(
    model: CpModel, structure: Structure, placement: Placement, segments: Sequence[Expression]
) -> None:
    for before, after in structure.data_edges:
        first, second = (LinearExpr.sum([placement.on[op].get(1, 0)]) for op in (before, after))
        if structure.group[before] == structure.group[after]:
            model.add(segments[before] <= segments[after])
            continue
        model.add(segments[before] + (second - first) <= segments[after])
        model.add(segments[before] + (first - second) <= segments[after])
    for before, after in structure.controls:
        model.add(segments[before] <= segments[after])


def _add_length(
    model: CpModel, structure: Structure, stands: Sequence[dict[tuple[int, int], Expression]], k: int, at_most: int
) -> Expression:
    length = model.new_int_var(0, at_most, "")
    for d in range(structure.num_devices):
        here = [op for op in range(structure.num_ops) if (k, d) in stands[op]]
        load = LinearExpr.weighted_sum([stands[op][k, d] for op in here], [structure.time_ns[op][d] for op in here])
        model.add(load <= length)
    return length


def _add_transfers(model: CpModel, structure: Structure, placement: Placement) -> tuple[list[Expression], list[int]]:
    """Return a literal and a time for every transfer that takes time."""
    moves, costs = [], []
    for tensor, maker in enumerate(structure.producer):
        for d in structure.destinations(tensor):
            cost, home = structure.transfer_ns(tensor, 1 - d, d), placement.on[maker].get(1 - d)
            if cost == 0 or home is None:
                continue
            moves.append(model.new_bool_var(""))
            costs.append(cost)
            for reader in structure.readers[tensor]:
                if d in placement.on[reader]:
                    model.add_bool_or([~home, ~placement.on[reader][d], moves[-1]])
    return moves, costs
