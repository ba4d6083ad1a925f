"""Models that a function in a Python file makes, and what goes wrong in such a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from placewright import cli, examples, load
from placewright.cli.exit_codes import INTERRUPTED
from placewright.importers import load_graph
from placewright.support.errors import InputError

END = "import sys\ndef build():\n    sys.exit({})\n"
AT_IMPORT = "import sys\nsys.exit({})\ndef build(): pass\n"
IN_CAPTURE = "import sys, torch\nclass Net(torch.nn.Module):\n    def forward(self, x): sys.exit({})\n"
IN_CAPTURE += "def build(): return Net(), (torch.ones(2),)\n"


@pytest.mark.parametrize(
    ("text", "place"), [(END, "net.py:3"), (AT_IMPORT, "net.py:2"), (IN_CAPTURE, "net.py:3")], ids=range(3)
)
@pytest.mark.parametrize(("code", "message"), [("0", "0"), ("", "no message"), ("'enough'", "enough")])
def test_code_that_ends_the_process_is_one_sentence(
    text: str,
    place: str,
    code: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if text == IN_CAPTURE:
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(text.format(code))
    commands = [["plan", "net.py:build", "-d", "2xh100", "-o", "p"], ["map", "net.py:build", "--chip", "nnpi"]]
    for command in (*commands, ["inspect", "net.py:build"]):
        assert cli.run(command) == 2
        told = capsys.readouterr().err
        # The effects of forward are read, not carried out.
        how = "PyTorch cannot trace Net" if text == IN_CAPTURE else f" failed: SystemExit: {message}"
        assert how in told
        assert f"{place})" in told
        assert told.count("\n") == 1


def test_ctrl_c_in_such_a_function_is_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("def build():\n    raise KeyboardInterrupt\n")
    assert cli.run(["inspect", "net.py:build"]) == INTERRUPTED
    assert capsys.readouterr().err == "placewright: interrupted\n"


@pytest.fixture
def own_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore sys.path after a test, and forget the module `parts_of_the_net`."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("parts_of_the_net", None)


LABELLED = """
import torch
from parts_of_the_net import width

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)

    def forward(self, x, *, labels=None):
        y = self.layer(x)
        return y if labels is None else ((y - labels) ** 2).mean()

def build():
    return Net(), (torch.ones(4, width),), {"labels": torch.ones(4, width)}

def unnamed():
    return Net(), (torch.ones(4, width),), [torch.ones(4, width)]

def many():
    return Net(), torch.ones(4, width), {}, 1
"""


@pytest.fixture
def labelled(tmp_path: Path, own_imports: None) -> str:
    """A file that imports the one next to it, and is not in the current folder."""
    pytest.importorskip("torch")
    (tmp_path / "labelled.py").write_text(LABELLED)
    (tmp_path / "parts_of_the_net.py").write_text("width = 8\n")
    return f"{tmp_path / 'labelled.py'}:build"


def test_a_file_imports_what_lies_beside_it_and_gives_arguments_by_name(labelled: str) -> None:
    graph = load_graph(labelled)
    assert "mean" in [op.name for op in graph.ops]  # of the loss, which only labels bring


def test_plan_and_inspect_capture_a_training_step(
    labelled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["inspect", labelled, "--json"]) == 0
    forward = json.loads(capsys.readouterr().out)
    assert cli.run(["inspect", labelled, "--json", "--training"]) == 0
    assert json.loads(capsys.readouterr().out)["num_ops"] > 2 * forward["num_ops"]
    path = tmp_path / "plan.json"
    assert cli.run(["plan", labelled, "-d", "h100", "--training", "-o", str(path)]) == 0
    assert {op.phase for op in load(path).ops} == {"forward", "backward", "optimizer"}
    assert cli.run(["check", labelled, str(path)]) == 0  # the plan knows that it is one of the training step


def test_training_of_a_graph_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["inspect", "example:inception-v3-train", "--training"]) == 0
    inference = next(name for name in examples.names() if not name.endswith("-train"))
    for command in (["inspect", f"example:{inference}"], ["plan", f"example:{inference}", "-d", "h100"]):
        assert cli.run([*command, "--training"]) == 2
        assert "is a graph already, and not of a training step" in capsys.readouterr().err


def test_what_a_function_must_return_is_told(labelled: str) -> None:
    with pytest.raises(InputError, match=r"must return a module and its arguments, not 4 things: "):
        load_graph(labelled.replace("build", "many"))
    with pytest.raises(InputError, match=r"holds arguments by name, like \{'labels': y\}, and a list does not"):
        load_graph(labelled.replace("build", "unnamed"))


def test_a_module_of_the_same_name_from_elsewhere_is_not_taken(labelled: str, tmp_path: Path) -> None:
    """Python would give the second file the module that lies next to the first."""
    load_graph(labelled)
    other = tmp_path / "other"
    other.mkdir()
    (other / "net.py").write_text(LABELLED)
    (other / "parts_of_the_net.py").write_text("width = 16\n")
    with pytest.raises(
        InputError, match=r"has a module 'parts_of_the_net' beside it, and .* was imported by that name"
    ):
        load_graph(f"{other / 'net.py'}:build")


def test_the_message_of_a_users_error_is_whole(tmp_path: Path, own_imports: None) -> None:
    text = "raise ImportError('cannot load it: ' + 'very ' * 40 + 'long\\n  for want of a nail')\n"
    (tmp_path / "nail.py").write_text(text)
    with pytest.raises(
        InputError, match=r"ImportError: cannot load it: (very ){40}long for want of a nail \(nail.py:1\)$"
    ):
        load_graph(f"{tmp_path / 'nail.py'}:build")


def test_what_an_error_was_raised_from_is_told(tmp_path: Path, own_imports: None) -> None:
    """Packages that import lazily, as transformers does, hide the cause behind a message of their own."""
    text = (
        "try:\n    try:\n        1 / 0\n    except ZeroDivisionError as error:\n"
        "        raise OSError('half way') from error\n"
        "except OSError as error:\n    raise ImportError('cannot import it') from error\n"
    )
    (tmp_path / "lazy.py").write_text(text)
    caused = r"ImportError: cannot import it \(lazy.py:7\), caused by ZeroDivisionError: division by zero$"
    with pytest.raises(InputError, match=caused):
        load_graph(f"{tmp_path / 'lazy.py'}:build")
