"""Decoders other than the paper's, against the reference, and what holds for all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference_decoders
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from instances import graph_of, machine_of, problem_of
from reference import rule_broken_by
from strategies import chromosomes, problems

import placewright._core as _core
from placewright.decoder import DECODERS, WITH_AFFINITIES, DecoderName
from placewright.lab.peers.annealing import Annealing
from placewright.lab.peers.brkga import Brkga
from placewright.lab.peers.random_search import RandomSearch
from placewright.problem import Problem
from placewright.problem.constraints import placement_groups
from placewright.proposal import Proposal
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

every_decoder = pytest.mark.parametrize("decoder", DECODERS)


def ungrouped_by_time(problem: Problem) -> Problem:
    """Return the problem without what the reference of segment-fill leaves out."""
    limits = (None,) * problem.machine.num_devices
    plain = replace(problem, memory_limits_bytes=limits, objective="step-time")
    group, _ = placement_groups(plain.graph, plain.lowered, plain.machine, plain.constraints)
    assume(list(group) == list(range(len(group))))
    return plain


def steps(order: np.ndarray) -> list[tuple[int, int]]:
    return [(index, destination) for index, destination in order.tolist()]


@pytest.mark.parametrize("decoder", [name for name in DECODERS if name != "paper"])
@given(data=st.data())
def test_placement_and_order_equal_the_reference(decoder: DecoderName, data: st.DataObject) -> None:
    problem = data.draw(problems(max_devices=4))
    if decoder == "segment-fill":
        problem = ungrouped_by_time(problem)
    if decoder == "evict":  # Overlapped, the peak that sets the target is the core's guess.
        problem = replace(problem, machine=replace(problem.machine, transfer_model="blocking"))
    keys = data.draw(chromosomes(problem.core.num_keys_of(decoder)))
    device_of, order = problem.core.decode(keys, decoder)
    assert (device_of.tolist(), steps(order)) == reference_decoders.decode(problem, keys, decoder)


@every_decoder
@settings(max_examples=40)
@given(data=st.data())
def test_what_any_keys_mean_is_a_valid_order(decoder: DecoderName, data: st.DataObject) -> None:
    problem = data.draw(problems())
    device_of, order = problem.core.decode(data.draw(chromosomes(problem.core.num_keys_of(decoder))), decoder)
    assert rule_broken_by(problem, device_of.tolist(), steps(order)) is None


@every_decoder
@settings(max_examples=40)
@given(data=st.data())
def test_encoding_keeps_the_order_of_ops_and_affinities_the_devices(decoder: DecoderName, data: st.DataObject) -> None:
    problem = data.draw(problems())
    device_of, order = problem.core.decode(data.draw(chromosomes(problem.core.num_keys)))
    keys = problem.core.encode(device_of, order, decoder)
    again, decoded = problem.core.decode(keys, decoder)
    if decoder in WITH_AFFINITIES:
        assert again.tolist() == device_of.tolist()
    if decoder != "segment-fill":
        assert [op for op, mark in steps(decoded) if mark < 0] == [op for op, mark in steps(order) if mark < 0]


@given(problems())
def test_bottom_levels_as_keys_make_segment_fill_what_it_is_without_keys(problem: Problem) -> None:
    keys = np.zeros(problem.core.num_ops, np.uint32)
    keys[_core.bottom_level_order(problem.core)] = np.arange(problem.core.num_ops, 0, -1)
    device_of, order = problem.core.decode(keys, "segment-fill")
    expected_devices, expected_order = _core.segment_fill(problem.core, True)
    assert np.array_equal(device_of, expected_devices)
    assert np.array_equal(order, expected_order)


def small(objective: str = "step-time") -> Problem:
    graph = graph_of({"a": ("", 4), "b": ("", 5), "c": ("a", 1), "d": ("a b", 1)})
    return problem_of(graph, machine_of(2, transfer_model="blocking"), 10, objective=objective)


def keys_for(devices: list[int]) -> np.ndarray:
    """Ops as captured, on these devices; evictions and transfers with keys of 0."""
    keys = np.zeros(small().core.num_keys, np.uint32)
    keys[[2 * op + device for op, device in enumerate(devices)]] = 9
    keys[8:12] = [4, 3, 2, 1]
    return keys


def test_lazy_transfers_wait_for_their_first_use_and_leave_together() -> None:
    # c, on device 1, wants a; b waits for d on device 1 as well and goes along: one barrier, then c and d.
    _, order = small().core.decode(keys_for([0, 0, 1, 1]), "lazy")
    assert steps(order) == [(0, -1), (1, -1), (0, 1), (1, 1), (2, -1), (3, -1)]


def test_lazy_transfers_leave_one_by_one_where_memory_is_the_objective() -> None:
    _, order = small("peak-memory").core.decode(keys_for([0, 0, 1, 1]), "lazy")
    assert steps(order) == [(0, -1), (1, -1), (0, 1), (2, -1), (1, 1), (3, -1)]


def test_an_early_free_transfer_leaves_with_the_last_local_reader() -> None:
    # a: c reads it here, then it goes to d at once; b is read on device 1 only and leaves as soon as it is made.
    _, order = small().core.decode(keys_for([0, 0, 0, 1]), "early-free")
    assert steps(order) == [(0, -1), (1, -1), (1, 1), (2, -1), (0, 1), (3, -1)]


def test_a_decoder_has_its_own_number_of_keys() -> None:
    core = small().core
    assert core.num_keys_of("paper") == core.num_keys == core.num_keys_of("lazy") == 4 * 2 + 4 + 4 * 2
    assert core.num_keys_of("segment-fill") == core.num_keys_of("earliest-finish") == 4
    with pytest.raises(ValueError, match="length"):
        core.decode(np.zeros(core.num_keys, np.uint32), "segment-fill")
    with pytest.raises(ValueError, match="no decoder 'best'"):
        core.num_keys_of("best")


@every_decoder
@pytest.mark.parametrize("method", [Brkga, Annealing, RandomSearch])
def test_searches_return_what_the_decoder_makes_of_their_best_keys(
    method: type[Brkga | Annealing | RandomSearch], decoder: DecoderName
) -> None:
    result = method(decoder=decoder).solve(small(), SearchRun(Budget(evaluations=200), seed=1))
    # Two ops of 10 ns on each device.
    assert result.metrics.step_time_ns == 20
    assert result.trace[-1].best == 20


@pytest.mark.parametrize("method", [Brkga, Annealing, RandomSearch])
def test_a_decoder_nobody_knows_is_refused(method: type[Brkga | Annealing | RandomSearch]) -> None:
    with pytest.raises(InputError, match=r"no decoder 'lasy'; did you mean lazy\?"):
        method(decoder="lasy")  # type: ignore[arg-type]


@pytest.mark.parametrize("first", [0, 1])
def test_a_proposal_applies_to_the_keys_the_decoder_has(first: int) -> None:
    # Two ops that are ready at once: the one whose priority is drawn near 1 is scheduled first, on device 0.
    problem = problem_of(graph_of({"a": ("", 4), "b": ("", 4)}), machine_of(2, transfer_model="blocking"), 10)
    row = np.array([0, 1] if first == 0 else [1, 0], np.uint16)
    proposal = Proposal(alpha=np.array([1e5, 1.0]), beta=np.array([1.0, 1e5]), row=row)
    drawn = RandomSearch(decoder="segment-fill").solve(
        problem, SearchRun(Budget(evaluations=1), seed=3, guide=proposal)
    )
    assert drawn.solution.device_of.tolist() == ([0, 1] if first == 0 else [1, 0])
    with pytest.raises(InputError, match="the proposal is for 2 keys, decoder 'lazy' has 10"):
        RandomSearch(decoder="lazy").solve(problem, SearchRun(Budget(evaluations=1), seed=3, guide=proposal))
