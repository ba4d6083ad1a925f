"""One's own graphs as a set that a benchmark runs over and a policy learns from."""

from dataclasses import replace
from pathlib import Path

import pytest
from instances import graph_of

from placewright.costs import estimate_costs
from placewright.importers import load_graphs, save_graph
from placewright.importers.graph_set import write_graph_set
from placewright.lab.datasets.pack import pack
from placewright.lab.datasets.problem_set import PAPER_MACHINE
from placewright.lab.datasets.synthetic import random_graph
from placewright.machines import load_machine
from placewright.support.errors import InputError


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Five graph files of 1 to 5 ops, all of one name, as exporters write them."""
    folder = tmp_path / "own"
    folder.mkdir()
    for size in range(1, 6):
        chain = {f"op{i}": ("" if i == 0 else f"op{i - 1}", 2**20) for i in range(size)}
        save_graph(replace(graph_of(chain), name="main_graph"), folder / f"net{size}.json")
    return folder


def test_graphs_are_split_into_parts_by_size(own: Path, tmp_path: Path) -> None:
    counts = pack([own], tmp_path / "set", "p100")
    parts = {path.name: [graph.name for graph in load_graphs(path)] for path in counts}
    # The 2nd of five neighbours in size is for validation, the 4th for tests; graphs of one name get their file's.
    assert parts == {
        "train.graphs.gz": ["net1.json", "net3.json", "net5.json"],
        "valid.graphs.gz": ["net2.json"],
        "test.graphs.gz": ["net4.json"],
    }
    assert list(counts.values()) == [3, 1, 1]


def test_ops_without_a_time_get_that_of_the_device_and_its_launch(own: Path, tmp_path: Path) -> None:
    graph = load_graphs(own)[4]
    with pytest.raises(InputError, match=r"states no time and device 'device0' .* like 2xp100/free"):
        estimate_costs(graph, load_machine(PAPER_MACHINE))
    pack([own], tmp_path / "all.graphs.gz", "v100")
    packed = load_graphs(tmp_path / "all.graphs.gz")[4]
    # The papers' machine launches nothing, so an op's time holds its launch of 5 us in place of the gap of 1.5 us.
    on_device = estimate_costs(graph, load_machine("v100")).time_ns[:, 0].tolist()
    assert [op.time_ns for op in packed.ops] == [time and time + 5_000 - 1_500 for time in on_device]
    estimate_costs(packed, load_machine(PAPER_MACHINE))


def test_stated_times_stay(tmp_path: Path) -> None:
    write_graph_set(tmp_path / "a.graphs.gz", [random_graph(3, 0)], {})
    pack([tmp_path / "a.graphs.gz"], tmp_path / "b.graphs.gz", "p100")
    assert load_graphs(tmp_path / "b.graphs.gz")[0] == random_graph(3, 0)


def test_sources_of_several_kinds_become_one_set(own: Path, tmp_path: Path) -> None:
    write_graph_set(tmp_path / "a.graphs.gz", [random_graph(3, 0), random_graph(3, 1)], {})
    sources: list[str | Path] = [own / "net1.json", tmp_path / "a.graphs.gz", f"{own}:net2.json"]
    assert pack(sources, tmp_path / "b.graphs.gz", "p100") == {tmp_path / "b.graphs.gz": 4}
    assert load_graphs(tmp_path / "b.graphs.gz").labels == ("net1.json", "synthetic-3-0", "synthetic-3-1", "net2.json")


def test_too_few_graphs_are_not_split(own: Path, tmp_path: Path) -> None:
    few = [own / f"net{size}.json" for size in (1, 2, 3)]
    with pytest.raises(InputError, match=r"3 graphs are too few to split .*; --out NAME.graphs.gz keeps them together"):
        pack(few, tmp_path / "set", "p100")
    assert not (tmp_path / "set").exists()
    counts = pack([*few, own / "net4.json"], tmp_path / "set", "p100")
    assert min(counts.values()) == 1


def test_one_graph_twice_is_refused(own: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"two graphs are named 'net1.json', and so are their files"):
        pack([own / "net1.json", own / "net1.json"], tmp_path / "b.graphs.gz", "p100")
