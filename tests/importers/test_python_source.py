"""Models that a function in a Python file makes, and what goes wrong in such a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright import cli

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
        assert (
            f" failed{' while it was captured' if text == IN_CAPTURE else ''}: SystemExit: {message} ({place})" in told
        )
        assert told.count("\n") == 1


def test_ctrl_c_in_such_a_function_is_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("def build():\n    raise KeyboardInterrupt\n")
    assert cli.run(["inspect", "net.py:build"]) == cli.INTERRUPTED
    assert capsys.readouterr().err == "placewright: interrupted\n"
