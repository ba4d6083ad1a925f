"""Sets of graphs in one file or one folder."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from instances import graph_of

from placewright.importers import load_graphs, save_graph
from placewright.importers.graph_set import read_graph_set, write_graph_set
from placewright.lab.datasets.synthetic import random_graph
from placewright.support.errors import InputError

GRAPHS = [random_graph(3, index) for index in range(4)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    written = tmp_path / "some.graphs.gz"
    write_graph_set(written, GRAPHS, {"source": "here"})
    return written


def change_line(path: Path, number: int, line: bytes) -> None:
    lines = gzip.decompress(path.read_bytes()).splitlines()
    lines[number - 1] = line
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))


def test_what_is_written_is_read(path: Path) -> None:
    found = read_graph_set(path)
    assert (found.name, found.metadata, len(found)) == ("some", {"source": "here"}, 4)
    assert [found[index] for index in range(4)] == GRAPHS
    assert found.labels == tuple(graph.name for graph in GRAPHS)


def test_of_a_folder_each_file_takes_the_dimensions_it_has(tmp_path: Path) -> None:
    parser = pytest.importorskip("onnx.parser")
    for name, size in (("open.onnx", "batch"), ("fixed.onnx", "2")):
        body = f"g (float[{size}, 3] x) => (float[{size}, 3] y) {{ y = Relu (x) }}"
        model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\n{body}')
        (tmp_path / name).write_bytes(model.SerializeToString())
    save_graph(graph_of({"x": ("", 1)}), tmp_path / "saved.json")
    found = load_graphs(tmp_path, dims={"batch": 4})
    assert [graph.tensors[0].shape for graph in (found[0], found[1], found[2])] == [(2, 3), (4, 3), None]
    assert found.digest != load_graphs(tmp_path, dims={"batch": 5}).digest != load_graphs(tmp_path).digest
    # One file alone must have it.
    assert load_graphs(tmp_path / "open.onnx", dims={"batch": 4})[0].tensors[0].shape == (4, 3)
    with pytest.raises(InputError, match=r"fixed.onnx' has no open dimension 'batch' to set"):
        load_graphs(tmp_path / "fixed.onnx", dims={"batch": 4})[0]


def test_a_set_has_no_dimensions_to_set(path: Path) -> None:
    with pytest.raises(InputError, match=r"some.graphs.gz' holds graphs whose dimensions are set"):
        load_graphs(path, dims={"batch": 4})


def test_a_folder_of_graph_files_is_a_set_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b.json", "a.json.gz"):
        save_graph(graph_of({"x": ("", 1)}), tmp_path / name)
    (tmp_path / ".hidden").write_text("no graph")
    found = load_graphs(tmp_path)
    assert found.labels == ("a.json.gz", "b.json")
    assert found[1].ops[0].name == "x"


def test_the_digest_follows_the_content(path: Path, tmp_path: Path) -> None:
    before = read_graph_set(path).digest
    write_graph_set(path, GRAPHS[:3], {"source": "here"})
    assert read_graph_set(path).digest != before
    folder = tmp_path / "folder"
    folder.mkdir()
    save_graph(GRAPHS[0], folder / "g.json")
    before = load_graphs(folder).digest
    save_graph(GRAPHS[1], folder / "g.json")
    assert load_graphs(folder).digest != before


def test_a_damaged_line_spoils_its_own_graph_only(path: Path) -> None:
    change_line(path, 3, b'{"schema_version": 1, "name": "x", "ops"')
    found = read_graph_set(path)
    assert found.labels[1] == "line 3"
    assert found[2] == GRAPHS[2]
    with pytest.raises(InputError, match=r"'some.graphs.gz, line 3' is not valid JSON"):
        found[1]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"[]", "is not a set of graphs: its first line is not the header of one"),
        (b"\xff", "is not a set of graphs: its first line is not the header of one"),
        (b'{"schema_version": 2, "metadata": {}}', "has schema_version 2; this placewright reads version 1"),
    ],
)
def test_a_wrong_header_is_refused(path: Path, line: bytes, complaint: str) -> None:
    change_line(path, 1, line)
    with pytest.raises(InputError, match=complaint):
        read_graph_set(path)


def test_two_graphs_of_one_name_are_refused(path: Path) -> None:
    with pytest.raises(InputError, match="would hold two graphs named 'synthetic-3-0'"):
        write_graph_set(path, [GRAPHS[0], GRAPHS[0]], {})
    assert len(read_graph_set(path)) == 4
    lines = gzip.decompress(path.read_bytes()).splitlines()
    change_line(path, 5, lines[1])
    with pytest.raises(InputError, match="line 5: an earlier graph is named 'synthetic-3-0' too"):
        read_graph_set(path)


def test_a_file_cut_off_and_an_empty_folder_are_refused(path: Path, tmp_path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="is not a whole gzip file"):
        read_graph_set(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no graph files"):
        load_graphs(tmp_path / "empty")
