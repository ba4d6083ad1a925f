"""Graphs from whatever a user names: the same for a file, a folder, a set, a part of one, an example."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from placewright.importers import load_graph, load_graphs, save_graph
from placewright.importers.graph_set import write_graph_set
from placewright.importers.sources import test_part as part_of
from placewright.lab.datasets.synthetic import random_graph
from placewright.support.errors import InputError

GRAPHS = [random_graph(3, index) for index in range(3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set, the same graphs as files, and a split set."""
    write_graph_set(tmp_path / "some.graphs.gz", GRAPHS, {})
    (tmp_path / "files").mkdir()
    (tmp_path / "split").mkdir()
    for index, graph in enumerate(GRAPHS):
        save_graph(graph, tmp_path / "files" / f"{index}.json")
        write_graph_set(tmp_path / "split" / f"{('train', 'valid', 'test')[index]}.graphs.gz", [graph], {})
    return tmp_path


def names(source: str | Path) -> list[str]:
    return [graph.name for graph in load_graphs(source)]


def test_every_kind_of_source_is_a_set(folder: Path) -> None:
    every = [graph.name for graph in GRAPHS]
    assert names(folder / "some.graphs.gz") == every
    assert names(folder / "files") == every
    assert names(folder / "files" / "1.json") == every[1:2]
    assert names(f"{folder}/some.graphs.gz:{every[1]}") == every[1:2]
    assert names(f"{folder}/files:1.json") == every[1:2]
    assert names(Path("example:resnet50-onnx")) == [load_graph("example:resnet50-onnx").name]


def test_of_a_split_set_the_test_part_is_taken(folder: Path) -> None:
    assert names(folder / "split") == [GRAPHS[2].name]
    assert load_graphs(folder / "split").name == "split-test"
    assert part_of(folder / "split") == folder / "split" / "test.graphs.gz"
    assert part_of(folder / "files") is None
    assert names(folder / "split" / "train.graphs.gz") == [GRAPHS[0].name]


def test_one_graph_of_a_set_or_folder_is_named_behind_a_colon(folder: Path) -> None:
    assert load_graph(f"{folder}/some.graphs.gz:{GRAPHS[1].name}") == GRAPHS[1]
    assert load_graph(f"{folder}/files:2.json") == GRAPHS[2]
    assert load_graph(f"{folder}/split/valid.graphs.gz") == GRAPHS[1]  # the only one there
    assert load_graph(folder / "split") == GRAPHS[2]


def test_a_set_without_a_name_lists_those_it_has(folder: Path) -> None:
    first, second, third = (graph.name for graph in GRAPHS)
    path = folder / "some.graphs.gz"
    with pytest.raises(InputError) as error:
        load_graph(path)
    assert str(error.value) == (
        f"'{path}' holds 3 graphs; name one, as in {path}:{first} (known: {first}, {second}, {third})"
    )
    with pytest.raises(InputError, match=r"holds 3 graphs; name one, as in .*files:0.json"):
        load_graph(folder / "files")
    with pytest.raises(InputError, match="holds no graph 'synthetic-3-O'; did you mean synthetic-3-"):
        load_graph(f"{path}:synthetic-3-O")
    with pytest.raises(InputError, match="holds no graph '@'; known are synthetic-3-0, synthetic-3-1"):
        load_graph(f"{path}:@")


def test_a_long_list_of_names_is_cut(tmp_path: Path) -> None:
    many = [replace(GRAPHS[0], name=f"g{index:03}") for index in range(100)]
    write_graph_set(tmp_path / "m.graphs.gz", many, {})
    with pytest.raises(InputError, match=r"\(known: g000, .*, g007 and 92 more\)$"):
        load_graph(tmp_path / "m.graphs.gz")


def test_names_with_colons_are_names(tmp_path: Path) -> None:
    graph = replace(GRAPHS[0], name="a:b")
    write_graph_set(tmp_path / "s.graphs.gz", [graph, GRAPHS[1]], {})
    assert load_graph(f"{tmp_path}/s.graphs.gz:a:b") == graph
    save_graph(GRAPHS[1], tmp_path / "x:y.json")
    assert load_graph(tmp_path / "x:y.json") == GRAPHS[1]


def test_a_set_is_known_by_its_content_too(tmp_path: Path) -> None:
    for name in ("packed.gz", "renamed"):
        write_graph_set(tmp_path / name, GRAPHS, {})
        assert len(load_graphs(tmp_path / name)) == 3
    # One line of JSON is a graph.
    save_graph(GRAPHS[0], tmp_path / "g.json.gz")
    assert len(load_graphs(tmp_path / "g.json.gz")) == 1


def test_a_folder_of_sets_asks_for_one_of_them(folder: Path) -> None:
    (folder / "split" / "test.graphs.gz").unlink()
    with pytest.raises(InputError, match=r"holds graph sets, not graphs; name one of them: train.graphs.gz, valid"):
        load_graphs(folder / "split")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    for missing in ("nothing.json", "nothing.graphs.gz", "nothing.graphs.gz:a"):
        with pytest.raises(InputError, match=r"cannot read .*No such file"):
            load_graph(tmp_path / missing)
    with pytest.raises(InputError, match="there is no example 'nothing'"):
        load_graphs("example:nothing")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match="cannot read"):
        load_graph(tmp_path / "pipe.json")


def test_only_models_have_open_dimensions(folder: Path) -> None:
    for source in (f"{folder}/some.graphs.gz:{GRAPHS[0].name}", f"{folder}/files:0.json"):
        with pytest.raises(InputError, match="is no ONNX model, so it has no open dimension"):
            load_graph(source, dims={"batch": 8})


def test_a_graph_of_a_set_has_a_digest_of_its_own(folder: Path) -> None:
    path = folder / "some.graphs.gz"
    digests = {load_graphs(f"{path}:{graph.name}").digest for graph in GRAPHS} | {load_graphs(path).digest}
    assert len(digests) == 4
