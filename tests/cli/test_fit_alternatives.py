"""`placewright fit --alternatives`: what it prints, draws and refuses."""

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


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NET)
    return f"{tmp_path / 'net.py'}:build"


def test_the_command_prints_both_tables_and_the_code(placewright: Placewright, net: str, tmp_path: Path) -> None:
    page = tmp_path / "fit.html"
    options = ("--alternatives", "--memory-limit", "1MiB", "--evaluations", "5", "--report", page)
    outcome = placewright("fit", net, "-d", "h100", *options)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].startswith("Loss on h100: ")
    assert any(line.startswith("fastest that fits in 1.00 MiB: batch 256, ") for line in lines)
    assert any(line.split()[:3] == ["batch", "dtype", "optimizer"] for line in lines)
    assert "    model(*batch).backward()" in lines
    text = page.read_text()
    assert "What else fits" in text
    assert text.count("<details>") == 24
    assert "http" not in text.replace("http-equiv", "")


def test_the_command_prints_the_same_as_json(placewright: Placewright, net: str) -> None:
    options = ("--alternatives", "--memory-limit", "1MiB", "--evaluations", "5", "--json")
    printed = json.loads(placewright("fit", net, "-d", "h100", *options).out)
    assert printed["schema_version"] == printed["alternatives"]["schema_version"] == 1
    assert printed["alternatives"]["samples"] == 256
    several = json.loads(placewright("fit", net, "-d", "cpu+h100", *options).out)
    assert {each["device"] for each in several["setups"]} == {"cpu", "h100"}


def test_a_warning_is_printed_once(placewright: Placewright, net: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        NET.replace(
            "        super().__init__()\n",
            "        super().__init__()\n        self.w = torch.nn.Parameter(torch.ones(3))\n",
        )
    )
    options = ("--alternatives", "--memory-limit", "1MiB", "--evaluations", "5")
    outcome = placewright("fit", net, "-d", "h100", *options)
    assert outcome.code == 0
    assert len(outcome.err.splitlines()) == 1
    assert "the loss does not depend on 1 of the parameters (w)" in outcome.err


def test_a_jax_function_is_refused(placewright: Placewright, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def build():\n    return (lambda x: (x * x).sum()), (1.0,)\n")
    outcome = placewright("fit", f"{tmp_path / 'net.py'}:build", "-d", "h100", "--alternatives")
    assert (outcome.code, outcome.out) == (2, "")
    assert "alternatives are of a PyTorch module" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("example:inception-v3-train", "--alternatives"), "it needs FILE.py:FUNCTION"),
        (("example:inception-v3-train", "--memory-limit", "1GiB"), "--memory-limit is for --alternatives"),
        (("example:inception-v3-train", "--time-limit", "1s"), "--time-limit is for --alternatives"),
        (("NET", "--alternatives", "--memory-limit", "much"), "much"),
    ],
)
def test_bad_commands_are_refused(
    placewright: Placewright, net: str, arguments: tuple[str, ...], sentence: str
) -> None:
    outcome = placewright("fit", *(net if each == "NET" else each for each in arguments), "-d", "h100")
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert len(outcome.err.splitlines()) == 1
