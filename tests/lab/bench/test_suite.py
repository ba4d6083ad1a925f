"""Suites as files state them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from placewright.importers.graph_set import write_graph_set
from placewright.lab.bench.suite import read_suite
from placewright.lab.datasets.problem_set import spread
from placewright.lab.datasets.synthetic import random_graph
from placewright.machines import load_machine, machine_to_json
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError


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


def test_the_suite_that_a_document_states_for_deepminds_graphs_reads_a_folder_of_them(tmp_path: Path) -> None:
    document = (Path(__file__).parents[3] / "benchmarks" / "README.md").read_text()
    (text,) = re.findall(r"^    (graphs = .*?)\n\n", document, flags=re.M | re.S)
    # The example of their README, without most of its nodes.
    graph = """
        node { name: "_SOURCE" }
        node { name: "node_2" id: 3 output_info { size: 52 alias_input_port: -1 } control_input: 0 compute_cost: 47 }
        node { name: "node_3" id: 4 input_info { preceding_node: 3 } control_input: 3 compute_cost: 58 }
    """
    (tmp_path / "test").mkdir()
    for name in ("graph_0a.pbtxt", "graph_1b.pbtxt"):
        (tmp_path / "test" / name).write_text(graph)
    suite = read_suite(suite_file(tmp_path, text.replace("\n    ", "\n")))
    problem = suite.problem(suite.graph(1))
    assert (len(suite.labels), problem.control, problem.machine.transfer_model) == (2, "signal", "blocking")
    assert INPUT_ORDER.solve(problem, SearchRun()).metrics.step_time_ns == 105
    assert suite.paper == "synthetic-runtime"


def test_a_share_of_memory_is_that_of_the_captured_order_on_one_device(graphs: Path) -> None:
    text = 'graphs = "some.graphs.gz"\ndevices = "2xideal/free"\nobjective = "peak-memory"\n'
    suite = read_suite(suite_file(graphs.parent, text))
    graph = suite.graph(0)
    problem = replace(suite, machine=load_machine("1xideal/free")).problem(graph)
    peak = INPUT_ORDER.solve(problem, SearchRun()).metrics.peak_memory_bytes
    shared = read_suite(suite_file(graphs.parent, text + "memory_share = 0.25"))
    assert shared.problem(graph).memory_limits_bytes == (peak // 4, peak // 4)
    least = read_suite(suite_file(graphs.parent, text + 'memory_share = 1\nmemory_limit = "9B"'))
    assert least.problem(graph).memory_limits_bytes == (9, 9)


def test_optima_are_read_by_graph(graphs: Path) -> None:
    (graphs.parent / "best.csv").write_text("graph,optimum\nsynthetic-3-1,17\nsynthetic-3-0,4\n")
    suite = read_suite(suite_file(graphs.parent, 'graphs = "some.graphs.gz"\noptima = "best.csv"'))
    assert suite.optima == {"synthetic-3-0": 4, "synthetic-3-1": 17}


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("synthetic-3-0,4.5", "line 2: not a graph, named once, and its optimum"),
        ("synthetic-3-0", "line 2: not a graph"),
        ("synthetic-3-0,1\nsynthetic-3-0,1", "line 3: not a graph"),
        ("synthetic-3-0," + "9" * 19, "line 2: not a graph"),
        ("someone,4", "optima names 'someone', which is not among the instances"),
    ],
)
def test_what_is_wrong_with_optima_is_named(graphs: Path, lines: str, complaint: str) -> None:
    (graphs.parent / "best.csv").write_text(f"graph,optimum\n{lines}\n")
    with pytest.raises(InputError, match=complaint):
        read_suite(suite_file(graphs.parent, 'graphs = "some.graphs.gz"\noptima = "best.csv"'))


def test_the_digest_tells_apart_what_would_give_other_rows(graphs: Path) -> None:
    (graphs.parent / "best.csv").write_text("graph,optimum\nsynthetic-3-1,17\n")
    texts = ["", 'control = "signal"', 'objective = "peak-memory"', 'devices = "3xideal/free"', 'memory_limit = "9KiB"']
    texts += ["memory_share = 0.5", "memory_share = 0.6", 'optima = "best.csv"']
    digests = {read_suite(suite_file(graphs.parent, f'graphs = "some.graphs.gz"\n{text}')).digest for text in texts}
    assert len(digests) == 8


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
        ('graphs = "some.graphs.gz"\nmemory_share = 0', "memory_share is 0; it must be a number above 0"),
        ('graphs = "some.graphs.gz"\nmemory_share = 1.5', "memory_share is 1.5"),
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
