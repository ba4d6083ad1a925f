"""Suites as files state them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from placewright.bench.suite import read_suite, spread
from placewright.datasets.graph_set import write_graph_set
from placewright.datasets.synthetic import random_graph
from placewright.errors import InputError
from placewright.machines import load_machine, machine_to_json


@pytest.fixture
def graphs(tmp_path: Path) -> Path:
    path = tmp_path / "some.graphs.gz"
    write_graph_set(path, [random_graph(3, index) for index in range(3)], {})
    return path


def suite_file(folder: Path, text: str) -> Path:
    path = folder / "suite.toml"
    path.write_text(text)
    return path


def test_a_graph_set_alone_gets_the_papers_machine(graphs: Path) -> None:
    suite = read_suite(graphs)
    problem = suite.problem(suite.graph(0))
    assert (problem.objective, problem.control, problem.machine.transfer_model) == ("step-time", "order", "blocking")
    assert suite.labels == ["synthetic-3-0", "synthetic-3-1", "synthetic-3-2"]


def test_a_file_states_machine_objective_and_copies(graphs: Path) -> None:
    path = suite_file(
        graphs.parent,
        'graphs = "some.graphs.gz"\ndevices = "3xideal/free"\nobjective = "peak-memory"\ncontrol = "transfer"\n'
        'memory_limit = "10KiB"\ncopies = 2\npaper = "tf-peak-memory"\n',
    )
    suite = read_suite(path)
    assert suite.labels[:4] == ["synthetic-3-0", "synthetic-3-0~1", "synthetic-3-0~2", "synthetic-3-1"]
    problem = suite.problem(suite.graph(4))
    assert problem.memory_limits_bytes == (10240, 10240, 10240)
    assert (problem.objective, problem.control, suite.paper) == ("peak-memory", "transfer", "tf-peak-memory")
    original, copy = suite.graph(3), suite.graph(4)
    assert copy.name == "synthetic-3-1~1"
    assert [op.inputs for op in copy.ops] == [op.inputs for op in original.ops]
    assert [op.time_ns for op in copy.ops] != [op.time_ns for op in original.ops]


def test_the_digest_tells_apart_what_would_give_other_rows(graphs: Path) -> None:
    texts = ["", 'control = "signal"', 'objective = "peak-memory"', 'devices = "3xideal/free"', 'memory_limit = "9KiB"']
    digests = {read_suite(suite_file(graphs.parent, f'graphs = "some.graphs.gz"\n{text}')).digest for text in texts}
    assert len(digests) == 5


def test_the_digest_tells_apart_machines_of_one_name(graphs: Path) -> None:
    digests = set()
    for speed in (1, 2):
        machine = graphs.parent / "machine.json"
        stated = machine_to_json(load_machine("2xideal/free"))
        stated["link_latency_ns"] = [[0, speed], [speed, 0]]
        machine.write_text(json.dumps(stated))
        suite = read_suite(suite_file(graphs.parent, f'graphs = "some.graphs.gz"\ndevices = "{machine}"'))
        assert suite.machine.name == "2xideal/free"
        digests.add(suite.digest)
    assert len({*digests, read_suite(graphs).digest}) == 3


def test_a_graph_that_is_named_like_a_copy_is_refused(tmp_path: Path) -> None:
    graph = random_graph(3, 0)
    write_graph_set(tmp_path / "some.graphs.gz", [graph, replace(graph, name=f"{graph.name}~1")], {})
    with pytest.raises(InputError, match="a graph and a noisy copy of another would both be named 'synthetic-3-0~1'"):
        read_suite(suite_file(tmp_path, 'graphs = "some.graphs.gz"\ncopies = 1'))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "graphs is missing"),
        ('graphs = "none.graphs.gz"', "cannot read"),
        ('graphs = "some.graphs.gz"\nobjectiv = "step-time"', "unknown key 'objectiv'; did you mean objective"),
        ('graphs = "some.graphs.gz"\ncontrol = "sometimes"', "control is 'sometimes'"),
        ('graphs = "some.graphs.gz"\ncopies = -1', "copies is -1; it must be a whole number from 0 to 1,000"),
        ('graphs = "some.graphs.gz"\ncopies = 99999999', "copies is 99999999; it must be"),
        (f'graphs = "{"a" * 300}"', "File name too long"),
        ('graphs = "some.graphs.gz"\ndevices = "2xq100"', "unknown device 'q100'"),
        ("graphs = ", "suite.toml"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(graphs: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_suite(suite_file(graphs.parent, text))


def test_taken_instances_are_spread_over_the_suite() -> None:
    assert list(spread(10, 4)) == [0, 2, 5, 7]
    assert list(spread(3, 9)) == [0, 1, 2]
    assert list(spread(3, None)) == [0, 1, 2]
