"""Choosing the importer."""

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from reference_data import FOLDER, needs_reference_data

from placewright import cli, examples
from placewright.importers import load_graph, save_graph
from placewright.importers.formats import FORMATS, known_suffixes
from placewright.support.errors import InputError

DOCUMENT = json.dumps({"schema_version": 1, "name": "g", "tensors": [], "ops": [{"name": "a", "kind": "other"}]})
COSTGRAPH = '# a comment\n node { name: "a" compute_cost: 3 }'
HLO = "HloModule m\n\nENTRY %e (p: f32[4]) -> f32[4] {\n  ROOT %p = f32[4] parameter(0)\n}\n"
STABLEHLO = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
STG = "0\n 0 0 0\n 1 0 1 0\n"


@pytest.mark.parametrize(
    ("name", "content", "first_op"),
    [
        ("g.json", DOCUMENT.encode(), "a"),
        ("g.json.gz", gzip.compress(DOCUMENT.encode(), mtime=0), "a"),
        ("g.JSON", DOCUMENT.encode(), "a"),
        ("no_suffix", DOCUMENT.encode(), "a"),
        ("no_suffix", gzip.compress(DOCUMENT.encode(), mtime=0), "a"),
        ("g.pbtxt", COSTGRAPH.encode(), "a"),
        ("g.costgraph", COSTGRAPH.encode(), "a"),
        ("g.txt", COSTGRAPH.encode(), "a"),
        ("g.stg", STG.encode(), "task_0"),
    ],
)
def test_the_format_is_told_by_suffix_or_content(tmp_path: Path, name: Any, content: Any, first_op: Any) -> None:
    (tmp_path / name).write_bytes(content)
    assert load_graph(tmp_path / name).ops[0].name == first_op


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("g.json", DOCUMENT),
        ("no_suffix", DOCUMENT),
        ("g.pbtxt", COSTGRAPH),
        ("no_suffix", COSTGRAPH),
        ("g.stg", STG),
        ("g.hlo", HLO),
        ("no_suffix", HLO),
        ("g.mlir", STABLEHLO),
    ],
)
def test_a_byte_order_mark_before_a_text_is_left_out(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    plain = load_graph(tmp_path / name)
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    assert load_graph(tmp_path / name) == plain


def test_an_unknown_format_lists_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_bytes(b"hello")
    with pytest.raises(InputError, match=r"g.txt' has a format placewright does not know \(known: .onnx, .hlo, .mlir"):
        load_graph(tmp_path / "g.txt")


def test_help_and_documents_name_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["inspect", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"A file ({known_suffixes()}), " in told
    documented = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    for each in FORMATS:
        assert any(
            f"`{each.suffixes[0]}`" in row and each.title in row
            for row in documented.splitlines()
            if row.startswith("| `.")
        ), each.title


@pytest.mark.parametrize("suffix", [".onnx", ".json", ".json.gz", ".pbtxt", ".pb", ".costgraph", ".stg", ""])
def test_an_empty_file_is_called_empty(tmp_path: Path, suffix: Any) -> None:
    (tmp_path / f"g{suffix}").write_bytes(b"")
    with pytest.raises(InputError, match=r"' is empty"):
        load_graph(tmp_path / f"g{suffix}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read '.*nothing.onnx': No such file"):
        load_graph(tmp_path / "nothing.onnx")


def test_dimensions_can_be_set_for_onnx_models_only(tmp_path: Path) -> None:
    (tmp_path / "g.stg").write_text(STG)
    with pytest.raises(InputError, match=r"g.stg' is no ONNX model, so it has no open dimension 'batch' to set"):
        load_graph(tmp_path / "g.stg", dims={"batch": 8})


def test_examples_are_found_by_name_and_the_nearest_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny-net.json.gz").write_bytes(gzip.compress(DOCUMENT.encode(), mtime=0))
    monkeypatch.setattr(examples, "_FOLDER", tmp_path)
    assert load_graph("example:tiny-net").name == "g"
    with pytest.raises(InputError, match=r"no example 'tiny_net'; did you mean 'tiny-net'\? \(known: tiny-net\)"):
        load_graph("example:tiny_net")


def test_every_example_that_ships_loads() -> None:
    for name in examples.names():
        assert load_graph(f"example:{name}").ops


def test_the_files_of_another_format_under_a_wrong_suffix_are_refused(tmp_path: Path) -> None:
    contents = {".json": DOCUMENT, ".pbtxt": COSTGRAPH, ".stg": STG}
    for suffix in (".onnx", ".json", ".pb", ".pbtxt", ".stg"):
        for real, content in contents.items():
            if real[:3] != suffix[:3]:
                (tmp_path / f"g{suffix}").write_text(content)
                with pytest.raises(InputError, match=f"g{suffix}'"):
                    load_graph(tmp_path / f"g{suffix}")


@needs_reference_data
def test_a_copy_of_the_reference_cost_graph_loads_under_any_of_its_suffixes(tmp_path: Path) -> None:
    source = FOLDER / "regal" / "example.pbtxt"
    for suffix in (".pbtxt", ".costgraph", ".txt"):
        shutil.copy(source, tmp_path / f"g{suffix}")
        assert len(load_graph(tmp_path / f"g{suffix}").ops) == 5


def test_what_is_wrong_with_a_graph_is_said_once_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(DOCUMENT.replace('"tensors": []', '"tensors": [{"name": "t", "size_bytes": 1}]'))
    with pytest.raises(InputError) as caught:
        load_graph(tmp_path / "a.json")
    assert str(caught.value).startswith(f"'{tmp_path / 'a.json'}': graph 'g': tensor 't'")
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(InputError, match=r"^'b.json' is not valid JSON"):
        load_graph(tmp_path / "b.json")


def test_a_pipe_is_no_graph(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "g.json")
    with pytest.raises(InputError, match="is not a regular file"):
        load_graph(tmp_path / "g.json")


def test_a_file_name_that_is_no_text_is_spelled_out(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.stg"
    Path(os.fsdecode(path)).write_text(STG)
    graph = load_graph(os.fsdecode(path))
    assert graph.name == "\\udcff.stg"
    save_graph(graph, tmp_path / "saved.json")
    assert load_graph(tmp_path / "saved.json").name == graph.name
