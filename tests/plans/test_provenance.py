"""Provenance in plans is data: code that it names is not run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from instances import graph_of

import placewright
from placewright import cli
from placewright.importers import save_graph
from placewright.support.errors import InputError

#: Commands that look for what a plan was made from; the last word is for where they name it.
OF_PLANS = (
    ["explain", "plan.json", "--op", "a", "--model"],
    ["export", "plan.json", "--to", "pipelining", "-o", "out"],
    ["export", "plan.json", "--to", "device-map", "-o", "out"],
)
#: Commands that never need it.
WITHOUT = (
    *("show plan.json", "explain plan.json", "diff plan.json plan.json"),
    *("check graph.json plan.json", "export plan.json --to csv -o out"),
)

Change = Callable[[str, str], None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with a plan, next to code that leaves a trace when it is run."""
    monkeypatch.chdir(tmp_path)
    graph = graph_of({"a": ("", 10), "b": ("a", 10)})
    save_graph(graph, "graph.json")
    placewright.plan("graph.json", "2xp100", evaluations=5).save("plan.json")
    Path("net.py").write_text("open('trace', 'a').write('run')\ndef build():\n    raise RuntimeError('built')\n")
    return tmp_path


def record(model: str, **more: object) -> None:
    """Makes the plan say that it was made from the model."""
    document = json.loads(Path("plan.json").read_text())
    document["configuration"] |= {"model": model, **more}
    Path("plan.json").write_text(json.dumps(document))


def said(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[int, str]:
    return cli.run(words), capsys.readouterr().err


@pytest.mark.parametrize("model", ["net.py:build", "net.py", "./net.py:build", "{}/net.py:build", "absent.py:build"])
def test_code_that_a_file_records_is_not_run(model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(model := model.format(folder))
    for command in WITHOUT:
        said(capsys, command.split())
    for words in OF_PLANS:
        code, error = said(capsys, words[:4] if words[0] == "explain" else words)
        assert (code, "Traceback" in error) == (2, False)
    with pytest.raises(InputError, match="code that a file records is never run"):
        placewright.load("plan.json").check()
    assert not Path("trace").exists()


def test_the_sentence_says_how_the_command_at_hand_names_the_code(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record("my net.py:build")
    was = "was made from 'my net.py:build', and code that a file records is never run; name it to have it run: "
    for words, how in (
        (OF_PLANS[0][:-1], "explain PLAN --op NAME --model 'my net.py:build', in Python explain_op(name, 'my net"),
        (OF_PLANS[1], "export PLAN 'my net.py:build' --to pipelining, in Python export_plan(plan, 'pipelining', "),
    ):
        assert was + how in said(capsys, list(words))[1]
    with pytest.raises(InputError, match=r"check 'my net\.py:build' PLAN, in Python check\('my net\.py:build'\)"):
        placewright.load("plan.json").check()


def test_code_that_the_command_names_is_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, words in enumerate(OF_PLANS, 1):
        code, error = said(capsys, [*words, "net.py:build"])
        assert (code, "'net.py:build' failed: RuntimeError: built (net.py:3)" in error) == (2, True)
        assert Path("trace").read_text() == "run" * number


def test_a_recorded_graph_is_read_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This includes a folder whose name ends like that of code, and a graph in it."""
    Path("nets.py").mkdir()
    Path("graph.json").rename("nets.py/x.py")
    for source in ("nets.py", "nets.py:x.py"):
        record(source)
        assert said(capsys, OF_PLANS[0][:-1]) == (0, "")


@pytest.mark.parametrize(
    "more", [{"measured": "net.py"}, {"measured": "\0"}, {"measured": "."}, {"measured": 3}, {"dims": "net.py:build"}]
)
def test_a_recorded_file_of_times_is_data_too(
    more: dict[str, object], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record("graph.json", **more)
    for words in OF_PLANS:
        code, error = said(capsys, words[:4] if words[0] == "explain" else words)
        assert code in (0, 2)
        assert "Traceback" not in error
    assert not Path("trace").exists()
