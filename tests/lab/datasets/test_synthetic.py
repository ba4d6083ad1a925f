"""REGAL's synthetic graphs, appendix A.1.4."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from placewright.graph import Graph
from placewright.importers.graph_set import read_graph_set
from placewright.lab.datasets.synthetic import interesting_graphs, is_interesting, random_graph, write_synthetic
from placewright.lab.peers.brkga import Brkga
from placewright.machines import load_machine
from placewright.problem import make_problem
from placewright.problem.objective import ControlMode
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.support.files import locked_folder

GRAPHS = [random_graph(5, index) for index in range(150)]


def test_a_candidate_depends_on_its_seed_and_number_alone() -> None:
    assert random_graph(5, 7) == GRAPHS[7]
    assert random_graph(6, 7) != GRAPHS[7]


def test_graphs_have_50_to_200_nodes_between_a_source_and_a_sink_without_cost() -> None:
    for graph in GRAPHS:
        assert 52 <= len(graph.ops) <= 202
        source, sink = graph.ops[0], graph.ops[-1]
        assert (source.name, source.time_ns, source.outputs) == ("source", 0, ())
        assert (sink.name, sink.time_ns, sink.inputs) == ("sink", 0, ())
    sizes = sorted(len(graph.ops) for graph in GRAPHS)
    assert sizes[15] < 85
    assert sizes[-15] > 170


def test_heads_follow_the_source_and_tails_precede_the_sink() -> None:
    for graph in GRAPHS[:40]:
        followed = {before for op in graph.ops[:-1] for before in _predecessors(graph, op.inputs, op.controls)}
        assert set(graph.ops[-1].controls) == set(range(1, len(graph.ops) - 1)) - followed
        for op in graph.ops[1:-1]:
            before = _predecessors(graph, op.inputs, op.controls)
            assert before
            assert 0 not in before or before == [0]


def _predecessors(graph: Graph, inputs: tuple[int, ...], controls: tuple[int, ...]) -> list[int]:
    return [*(graph.producer_of[tensor] for tensor in inputs), *controls]


def test_ops_have_no_one_or_two_outputs_in_the_ratio_1_8_1() -> None:
    counts = Counter(len(op.outputs) for graph in GRAPHS for op in graph.ops[1:-1])
    total = sum(counts.values())
    # About 19,000 ops: the deviation of a share of 0.1 is 0.0022.
    assert [abs(counts[number] / total - share) < 0.012 for number, share in ((0, 0.1), (1, 0.8), (2, 0.1))] == [
        True
    ] * 3


def test_one_dependency_in_five_is_a_control_where_the_producer_has_an_output() -> None:
    by_tensor = by_control = 0
    for graph in GRAPHS:
        for op in graph.ops[1:-1]:
            by_tensor += len(op.inputs)
            by_control += sum(bool(graph.ops[before].outputs) for before in op.controls)
    # Tens of thousands of dependencies: the deviation of the share is below 0.003.
    assert abs(by_control / (by_control + by_tensor) - 0.2) < 0.015


def test_sizes_have_mean_50_and_deviation_10() -> None:
    sizes = [tensor.size_bytes for graph in GRAPHS for tensor in graph.tensors]
    mean = sum(sizes) / len(sizes)
    assert abs(mean - 50) < 0.5
    assert abs((sum((size - mean) ** 2 for size in sizes) / len(sizes)) ** 0.5 - 10) < 0.5


def test_an_op_takes_the_size_of_what_it_reads_and_writes_give_or_take_a_tenth() -> None:
    ratios = []
    for graph in GRAPHS:
        for op in graph.ops[1:-1]:
            total = sum(graph.tensors[tensor].size_bytes for tensor in (*op.inputs, *op.outputs))
            assert op.time_ns is not None
            if total:
                ratios.append(op.time_ns / total - 1)
            else:
                assert op.time_ns == 0
    mean = sum(ratios) / len(ratios)
    assert abs(mean) < 0.005
    assert abs((sum((ratio - mean) ** 2 for ratio in ratios) / len(ratios)) ** 0.5 - 0.1) < 0.01


@pytest.mark.parametrize("control", ["order", "signal"])
def test_the_filter_is_the_gain_of_brkga_10k_over_brkga_1k(control: ControlMode) -> None:
    verdicts = []
    for graph in GRAPHS[:8]:
        problem = make_problem(graph, load_machine("2xideal/free"), control=control)
        few, many = (
            Brkga().solve(problem, SearchRun(Budget(evaluations=count))).metrics.step_time_ns
            for count in (1_000, 10_000)
        )
        verdicts.append(1 - many / few >= 0.18)
        assert is_interesting(graph, control) == verdicts[-1]
    assert {True, False} == set(verdicts)


def test_no_two_graphs_that_are_kept_have_one_topology() -> None:
    kept = list(islice(interesting_graphs(5), 12))
    assert len({tuple(sorted(len(op.inputs) + len(op.controls) for op in graph.ops)) for graph in kept}) == 12
    assert [graph.name for graph in kept][:1] == ["synthetic-5-" + kept[0].name.rpartition("-")[2]]


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    files = write_synthetic(tmp_path, count=13, seed=4)
    assert {split: len(read_graph_set(path)) for split, path in files.items()} == {"train": 11, "valid": 1, "test": 1}
    again = write_synthetic(tmp_path, count=13, seed=4)
    digests = {split: hashlib.sha256(path.read_bytes()).hexdigest() for split, path in files.items()}
    assert digests == {split: hashlib.sha256(path.read_bytes()).hexdigest() for split, path in again.items()}


def test_a_folder_for_which_graphs_are_made_is_refused_to_others(tmp_path: Path) -> None:
    with locked_folder(tmp_path, "test holds"), pytest.raises(InputError, match="another process makes graphs for"):
        write_synthetic(tmp_path, count=12, seed=4)


def test_graphs_that_cannot_be_split_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1,000,000,000,000 graphs are too many: at most 120,000 can be made"):
        write_synthetic(tmp_path / "absent", count=10**12, seed=5)
    assert not (tmp_path / "absent").exists()
    with pytest.raises(InputError, match="11 graphs cannot be split 10 : 1 : 1; at least 12 can"):
        write_synthetic(tmp_path, count=11, seed=4)
