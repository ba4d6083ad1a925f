"""REGAL's synthetic graphs, appendix A.1.4."""

from __future__ import annotations

import hashlib
from itertools import islice
from pathlib import Path

import pytest

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

GRAPHS = [random_graph(5, index) for index in range(8)]


def test_a_candidate_depends_on_its_seed_and_number_alone() -> None:
    assert random_graph(5, 7) == GRAPHS[7]
    assert random_graph(6, 7) != GRAPHS[7]


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
