"""placewright's own graph files."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from placewright.graph import Graph, Op, Tensor
from placewright.importers import load_graph, save_graph
from placewright.importers.json_graph import parse_json_graph
from placewright.support.errors import InputError

EVERYTHING = Graph(
    name="everything",
    metadata={"framework": "none", "warnings": ["ünïcode"], "nested": {"x": [1, 2.5, None, True]}},
    tensors=(
        Tensor(name="x", size_bytes=8, shape=(2,), dtype="float32"),
        Tensor(name="w", size_bytes=2**62 - 1, role="parameter"),
        Tensor(name="c", size_bytes=0, shape=(), dtype="int64", role="constant"),
        Tensor(name="v", size_bytes=8, shape=(1, 2), dtype="float32", alias_of=0, is_output=True, memory_bytes=6),
    ),
    ops=(
        Op(name="in", kind="input", outputs=(0,)),
        Op(name="look", kind="view", inputs=(0,), outputs=(3,)),
        Op(
            name="work",
            kind="matmul",
            target="aten.mm.default",
            inputs=(0, 1, 2, 0),
            controls=(1, 0),
            attributes={"m": 1, "bias": False, "shape": [1, 2]},
            module="layer.0",
            source="model.py:3",
            phase="backward",
            time_ns=0,
            workspace_bytes=7,
        ),
    ),
)


def minimal(**changes: Any) -> dict[str, Any]:
    """One op that makes one tensor."""
    return {
        "schema_version": 1,
        "name": "g",
        "tensors": [{"name": "t", "size_bytes": 4}],
        "ops": [{"name": "a", "kind": "fill", "outputs": ["t"]}],
    } | changes


def complaint(document: object) -> str:
    with pytest.raises(InputError) as caught:
        parse_json_graph(json.dumps(document).encode(), "g.json")
    return str(caught.value)


@pytest.mark.parametrize("name", ["g.json", "g.json.gz"])
def test_what_is_saved_comes_back_equal(tmp_path: Path, name: Any) -> None:
    save_graph(EVERYTHING, tmp_path / name)
    assert load_graph(tmp_path / name) == EVERYTHING
    assert load_graph(tmp_path / name).fingerprint == EVERYTHING.fingerprint


def test_the_same_graph_gives_the_same_bytes_wherever_it_is_saved(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    save_graph(EVERYTHING, tmp_path / "a.json.gz")
    save_graph(EVERYTHING, tmp_path / "other" / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "other" / "b.json.gz").read_bytes()


def test_what_stands_at_its_default_is_not_written(tmp_path: Path) -> None:
    plain = parse_json_graph(json.dumps(minimal()).encode(), "g.json")
    save_graph(plain, tmp_path / "g.json")
    written = json.loads((tmp_path / "g.json").read_text())
    assert written == minimal(metadata={})


def test_ops_in_any_order_are_sorted(tmp_path: Path) -> None:
    document = minimal(
        ops=[
            {"name": "b", "kind": "copy", "inputs": ["t"], "controls": ["c"]},
            {"name": "a", "kind": "fill", "outputs": ["t"]},
            {"name": "c", "kind": "other"},
        ]
    )
    graph = parse_json_graph(json.dumps(document).encode(), "g.json")
    # a comes before b by the tensor, c by the control dependency; a and c keep their order.
    assert [op.name for op in graph.ops] == ["a", "c", "b"]
    assert graph.ops[2].controls == (1,)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ([], "'g.json' is not a graph: a JSON object was expected"),
        (minimal(tensor=[]), "'g.json' has the unknown key 'tensor'; did you mean 'tensors'?"),
        (minimal(schema_version=2), "'g.json' has schema_version 2; this placewright reads version 1"),
        ({"schema_version": 1, "name": "g", "tensors": []}, "'g.json' lacks the key 'ops'"),
        (minimal(ops=[], tensors=[]), "graph 'g' has no ops"),
        (minimal(ops=[3]), "'g.json': op number 0 must be a JSON object"),
        (minimal(ops=[{"kind": "fill"}]), "'g.json': op number 0 lacks the key 'name'"),
        (
            minimal(ops=[{"name": "a", "kind": "fill", "input": []}]),
            "'g.json': op 'a' has the unknown key 'input'; did you mean 'inputs'?",
        ),
        (
            minimal(ops=[{"name": "a", "kind": "fill", "outputs": ["tt"]}]),
            "'g.json': op 'a' names the tensor 'tt', which does not exist; did you mean 't'?",
        ),
        (
            minimal(ops=[{"name": "a", "kind": "fill", "time_ns": -1}]),
            "'g.json': op 'a': 'time_ns' must be a whole number from 0 to 2**62 - 1, not -1",
        ),
        (
            minimal(tensors=[{"name": "t", "size_bytes": 2**62}]),
            f"'g.json': tensor 't': 'size_bytes' must be a whole number from 0 to 2**62 - 1, not {2**62}",
        ),
        (
            minimal(tensors=[{"name": "t", "size_bytes": True}]),
            "'g.json': tensor 't': 'size_bytes' must be a whole number from 0 to 2**62 - 1, not true",
        ),
        (minimal(tensors=[{"name": "t", "size_bytes": 4}] * 2), "'g.json' has two tensors named 't'"),
        (
            minimal(ops=[{"name": "a", "kind": "fill", "outputs": ["t"]}, {"name": "a", "kind": "copy"}]),
            "two ops named",
        ),
        (minimal(ops=[{"name": "a", "kind": "filll", "outputs": ["t"]}]), "op 'a' has the unknown kind 'filll'"),
        (
            minimal(ops=[{"name": "a", "kind": "fill", "outputs": ["t"], "controls": ["a"]}]),
            "graph 'g' has a cycle: a -> a",
        ),
    ],
)
def test_a_wrong_document_is_named_in_one_sentence(document: Any, expected: Any) -> None:
    assert expected in complaint(document)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(number: Any) -> None:
    text = json.dumps(minimal(metadata={"x": 12345})).replace("12345", number)
    with pytest.raises(InputError, match=rf"'g.json' holds the number {number}; every number must be finite"):
        parse_json_graph(text.encode(), "g.json")


@pytest.mark.parametrize(
    "data",
    [b"{", b"\xff\xfe", b'{"a":1,"a":2}', b"[" * 100_000, b'{"name": "\\ud800"}', b"nonsense", b"1" * 5000],
    ids=["cut off", "not UTF-8", "a key twice", "too deep", "half a surrogate pair", "no JSON", "huge number"],
)
def test_what_is_not_json_is_refused(data: Any) -> None:
    with pytest.raises(InputError, match=r"'g.json' is not (valid JSON|a graph)"):
        parse_json_graph(data, "g.json")


def test_a_cut_off_or_damaged_gzip_file_is_refused() -> None:
    whole = gzip.compress(json.dumps(minimal()).encode(), mtime=0)
    damaged = whole[:20] + bytes([whole[20] ^ 0xFF]) + whole[21:]
    for data in (whole[:-1], whole[:12], damaged):
        with pytest.raises(InputError, match=r"'g.json.gz' is not a whole gzip file"):
            parse_json_graph(data, "g.json.gz")


def test_a_graph_with_attributes_json_cannot_hold_is_not_saved(tmp_path: Path) -> None:
    graph = Graph(name="g", tensors=(), ops=(Op(name="a", kind="other", attributes={"x": float("nan")}),))
    with pytest.raises(InputError, match=r"graph 'g' cannot be saved: "):
        save_graph(graph, tmp_path / "g.json")
    assert list(tmp_path.iterdir()) == []


def test_the_example_in_the_documentation_is_a_graph() -> None:
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    example = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    assert example is not None
    assert [op.name for op in parse_json_graph(example[1].encode(), "formats.md").ops] == ["feed", "product"]


def test_a_number_of_thousands_of_digits_is_named_in_our_words() -> None:
    with pytest.raises(InputError, match=r"'g\.json' is not valid JSON: it holds a whole number of thousands"):
        parse_json_graph(b'{"schema_version": ' + b"1" * 5000 + b"}", "g.json")


def test_a_huge_name_is_cut() -> None:
    with pytest.raises(InputError) as caught:
        parse_json_graph(b'{"' + b"k" * 10**6 + b'": 1}', "g.json")
    assert len(str(caught.value)) < 400
