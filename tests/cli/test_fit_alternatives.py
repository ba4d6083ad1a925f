"""`placewright fit` of a module: what it prints, draws and refuses."""

import json
from pathlib import Path

import pytest
from command_line import Placewright

pytest.importorskip("torch")

NET = """
import torch

class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))

    def forward(self, x):
        return self.layers(x).pow(2).mean()

def build():
    return Loss(), torch.randn(256, 64)
"""
QUICK = ("--memory-limit", "1MiB", "--evaluations", "5")


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NET)
    return f"{tmp_path / 'net.py'}:build"


def test_the_first_lines_are_the_answer_and_its_code(placewright: Placewright, net: str, tmp_path: Path) -> None:
    page = tmp_path / "fit.html"
    outcome = placewright("fit", net, "-d", "h100", *QUICK, "--report", page)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].startswith("fastest of the ")
    assert any(line.startswith("    optimizer = torch.optim.AdamW(model.parameters(), fused=True)") for line in lines)
    assert any(line.startswith("no plan of one pass with each op whole needs less than ") for line in lines)
    assert any(line.split()[:3] == ["batch", "dtype", "optimizer"] for line in lines)
    text = page.read_text()
    assert "What to write" in text
    assert text.count('<details class="way') == int(lines[0].split()[3])
    assert "http" not in text.replace("http-equiv", "")


def test_the_command_prints_the_same_as_json(placewright: Placewright, net: str) -> None:
    printed = json.loads(placewright("fit", net, "-d", "cpu+h100", "--optimizer", "sgd", *QUICK, "--json").out)
    assert (printed["schema_version"], printed["samples"], printed["optimizer"]) == (1, 256, "SGD")
    assert {each["device"] for each in printed["setups"]} == {"cpu", "h100"}


def test_limits_are_a_question_of_their_own(placewright: Placewright, net: str) -> None:
    options = ("-d", "h100", "--limits", "--evaluations", "5", "--json")
    printed = json.loads(placewright("fit", net, "--training", *options).out)
    whole = [each["accumulation"] for each in printed["rivals"] if each["parts"] == 1]
    assert whole[-2:] == [2, 4]
    # Without --training it is the module's forward pass.
    assert json.loads(placewright("fit", net, *options).out)["peak_bytes"] < printed["peak_bytes"]


def test_a_warning_is_printed_once(placewright: Placewright, net: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        NET.replace(
            "        super().__init__()\n",
            "        super().__init__()\n        self.w = torch.nn.Parameter(torch.ones(3))\n",
        )
    )
    outcome = placewright("fit", net, "-d", "h100", *QUICK)
    assert outcome.code == 0
    assert len(outcome.err.splitlines()) == 1
    assert "the loss does not depend on 1 of the parameters (w)" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("example:inception-v3-train", "--memory-limit", "1GiB"), "--memory-limit is for modules of PyTorch"),
        (("example:inception-v3-train", "--time-limit", "1s"), "--time-limit is for modules of PyTorch"),
        (("NET", "--limits", "--optimizer", "sgd"), "--optimizer is for modules of PyTorch"),
        (("NET", "--measured", "times.csv"), "--measured is for tables of limits; add --limits"),
        (("NET", "--memory-limit", "much"), "much"),
        (("NET", "--optimizer", "lion"), "optimizer is 'lion'; it must be one of adamw, adam"),
    ],
)
def test_bad_commands_are_refused(
    placewright: Placewright, net: str, arguments: tuple[str, ...], sentence: str
) -> None:
    outcome = placewright("fit", *(net if each == "NET" else each for each in arguments), "-d", "h100")
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert len(outcome.err.splitlines()) == 1
