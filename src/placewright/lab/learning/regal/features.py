"""The features of a problem that a policy sees (REGAL, A.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.decoder import WITH_AFFINITIES, DecoderName
from placewright.lab.learning.regal.actions import uniform_proposal
from placewright.lab.learning.regal.memory_affinity import memory_affinities, num_memory_affinities
from placewright.lab.learning.regal.smoothed_affinity import num_smoothed_affinities, smoothed_affinities
from placewright.lab.peers.brkga import Brkga
from placewright.problem import Problem
from placewright.proposal import Proposal
from placewright.support.arrays import sorted_unique

#: Keeps the search for features and the search after it from drawing the same numbers.
_OWN_SEED = 0x5EED_F0F_FEA7
#: Evaluations of the uniform BRKGA whose individuals are features (A.2).
FEATURE_EVALUATIONS = 400
NUM_EDGE_FEATURES = 3

Float = NDArray[np.float32]
Int = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """A directed multigraph with attributes. Edges are sorted by target.

    op: float32 [num ops, num op features]. edge: float32 [num edges, 3]. source, target: int32 [num edges], ops.
    """

    op: Float
    edge: Float
    source: Int
    target: Int


@dataclass(frozen=True, kw_only=True, eq=False)
class Context:
    """A problem in the form that a policy reads: its features, the op fixed to the first device, and the best keys of
    the search that made the features."""

    features: Features
    fixed_op: int | None
    keys: NDArray[np.uint32]
    objective: int
    bytes_over_limit: int


def num_op_features(objective: str, num_devices: int, with_affinities: bool = False) -> int:
    """Return the number of features of an op: memory has 4, time has 4 where it is the objective, the search one per
    device and one more; affinities, which the paper does not have, come last."""
    counts_time = objective == "step-time"
    own = num_smoothed_affinities(num_devices) if counts_time else num_memory_affinities(num_devices)
    return 4 + (4 if counts_time else 0) + num_devices + 1 + (own if with_affinities else 0)


def context_of(
    problem: Problem, seed: int, decoder: DecoderName = "paper", *, with_affinities: bool = False
) -> Context:
    """Return the features of a problem, after a search of 400 evaluations. with_affinities: add those of
    smoothed_affinity.py or memory_affinity.py."""
    search = search_for_features(problem, seed, decoder)
    search.advance(FEATURE_EVALUATIONS)
    return context_after(problem, search, decoder, with_affinities=with_affinities)


def search_for_features(problem: Problem, seed: int, decoder: DecoderName) -> _core.Brkga:
    """Return the search for features, to be advanced by 400 evaluations."""
    fixed_op = fixed_op_of(problem, decoder)
    proposal = None if fixed_op is None else uniform_proposal(problem, fixed_op, decoder)
    return guided_search(problem, proposal, seed ^ _OWN_SEED, decoder)


def context_after(problem: Problem, search: _core.Brkga, decoder: DecoderName, *, with_affinities: bool) -> Context:
    """Return the context of the problem after that search."""
    share, position = search.mean_decisions()
    source, target, edge = edges_of(problem)
    fixed_op = fixed_op_of(problem, decoder)
    parts: list[NDArray[np.floating[Any]]] = [_memory_features(problem)]
    if problem.objective == "step-time":
        parts.append(_time_features(problem, source, target))
    share = share.reshape(problem.core.num_ops, -1)
    parts += [share, position[:, None]]
    if with_affinities:
        affinity, at = share.astype(np.float64), position.astype(np.float64)
        if problem.objective == "step-time":
            parts.append(smoothed_affinities(source, target, affinity, at))
        else:
            parts.append(memory_affinities(problem.lowered, affinity, at, fixed_op))
    features = Features(op=np.hstack(parts).astype(np.float32), edge=edge, source=source, target=target)
    return Context(
        features=features,
        fixed_op=fixed_op,
        keys=search.best_keys(),
        objective=search.best_objective,
        bytes_over_limit=search.best_bytes_over_limit,
    )


def guided_search(
    problem: Problem,
    proposal: Proposal | None,
    seed: int,
    decoder: DecoderName = "paper",
    seeds: Sequence[NDArray[np.uint32]] = (),
) -> _core.Brkga:
    """Return BRKGA with the settings of Gonçalves & Resende (2011), those of the paper, in one thread. seeds: keys of
    its first individuals; the others are drawn."""
    return Brkga(decoder=decoder).guided_by(proposal).start(problem, seed, proposal, seeds)


def fixed_op_of(problem: Problem, decoder: DecoderName = "paper") -> int | None:
    """Return the op that can be fixed to the first device without loss, as in A.2: the longest, or the one with most
    memory where that is the objective. None where devices differ, so that the first is not as good as any, and where
    the decoder chooses devices itself."""
    if decoder not in WITH_AFFINITIES:
        return None
    machine = problem.machine
    _, allowed = problem.groups
    free = bool((allowed == allowed[0]).all()) and int(allowed[0]).bit_count() == machine.num_devices
    links = {link for source, row in enumerate(machine.links) for to, link in enumerate(row) if source != to}
    equal_times = bool((problem.time_ns == problem.time_ns[:, :1]).all())
    if not (free and equal_times and len(links) <= 1 and len(set(problem.memory_limits_bytes)) == 1):
        return None
    return heaviest_op(problem) if problem.objective == "peak-memory" else longest_op(problem)


def longest_op(problem: Problem) -> int:
    """Return the scheduled op that takes longest, on the first device."""
    return int(np.argmax(problem.time_ns[problem.lowered.graph_op, 0]))


def heaviest_op(problem: Problem) -> int:
    """Return the scheduled op whose inputs, outputs and workspace together are largest."""
    return int(np.argmax(op_bytes(problem).sum(axis=1)))


def op_bytes(problem: Problem) -> NDArray[np.int64]:
    """Return bytes of inputs (including parameters), of outputs and of workspace: int64 [num scheduled ops, 3]."""
    lowered = problem.lowered
    num_ops = len(lowered.graph_op)
    total = np.zeros((num_ops, 3), np.int64)
    for column, op, size in (
        (0, lowered.reader, lowered.transfer_bytes[lowered.inputs]),
        (0, lowered.resident_reader, lowered.resident_bytes[lowered.residents]),
        (1, lowered.producer, lowered.transfer_bytes),
    ):
        np.add.at(total[:, column], op, size)
    total[:, 2] = lowered.workspace_bytes
    return total


def _memory_features(problem: Problem) -> NDArray[np.float64]:
    """Return bytes of inputs, outputs and workspace, each divided by the largest tensor, and a mark of the op with
    most."""
    total = op_bytes(problem)
    largest = max(1, int(problem.lowered.transfer_bytes.max(initial=0)), int(total[:, 2].max()))
    return np.column_stack([total / largest, _one_hot(total.sum(axis=1))])


def _time_features(problem: Problem, source: Int, target: Int) -> NDArray[np.float64]:
    """Return times of predecessors, of successors and of the op itself, divided by the longest, and a mark of the
    longest op. Ops that several tensors join are neighbours once."""
    own = problem.time_ns[problem.lowered.graph_op].mean(axis=1)
    pairs = sorted_unique(source.astype(np.int64) * len(own) + target)
    source, target = np.divmod(pairs, len(own))
    before = np.bincount(target, own[source], len(own))
    after = np.bincount(source, own[target], len(own))
    return np.column_stack([np.column_stack([before, after, own]) / max(1.0, own.max()), _one_hot(own)])


def _one_hot(values: NDArray[np.generic]) -> NDArray[np.float64]:
    marked = np.zeros(len(values))
    marked[np.argmax(values)] = 1
    return marked


def edges_of(problem: Problem) -> tuple[Int, Int, Float]:
    """Return one edge for each (producer, tensor, consumer): source, target and [size, is control, number of the
    tensor], the last two from 0 to 1. Control dependencies without a tensor count as one tensor of size 0 for each op
    that has successors by them."""
    lowered = problem.lowered
    ops = np.arange(len(lowered.graph_op))
    before = np.repeat(ops, np.diff(lowered.control_begin))
    signals, signal_of = np.unique(before, return_inverse=True)
    num_tensors = len(lowered.graph_tensor)
    source = np.concatenate([lowered.producer[lowered.inputs], before])
    target = np.concatenate([lowered.reader, lowered.controls])
    number = np.concatenate([lowered.inputs, num_tensors + signal_of])
    size = np.concatenate([lowered.transfer_bytes[lowered.inputs], np.zeros(len(before))])
    is_control = np.concatenate([lowered.graph_tensor[lowered.inputs] < 0, np.ones(len(before))])
    largest = max(1, int(lowered.transfer_bytes.max(initial=0)))
    edge = np.column_stack([size / largest, is_control, number / max(1, num_tensors + len(signals))])
    order = np.argsort(target, kind="stable")
    return source[order].astype(np.int32), target[order].astype(np.int32), edge[order].astype(np.float32)
