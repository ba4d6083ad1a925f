"""PyTorch models that `plan` takes, and what it says of those that it does not take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the models are PyTorch's")

from torch import nn  # noqa: E402

import placewright  # noqa: E402
from placewright.support.errors import InputError  # noqa: E402

X = torch.zeros(2, 4)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any, *, scale: Any) -> Any:
        return self.linear(x) * scale


def fingerprint_of(model: Any, **arguments: Any) -> str:
    return placewright.plan(model, "2xp100", evaluations=20, **arguments).graph_fingerprint


def test_a_module_takes_its_arguments_by_place_and_by_name() -> None:
    by_both = fingerprint_of(Scaled(), args=(X,), kwargs={"scale": X})
    assert by_both == fingerprint_of(Scaled(), kwargs={"x": X, "scale": X})
    assert by_both == fingerprint_of(Scaled(), args=X, kwargs={"scale": X})


@pytest.mark.parametrize("training", [False, True])
def test_an_exported_program_needs_no_arguments(training: bool) -> None:
    program = torch.export.export(Scaled().train(training), (X,), {"scale": X})
    given = fingerprint_of(program, args=(X,), kwargs={"scale": X}, training=training)
    assert fingerprint_of(program, training=training) == given


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"args": X}, "args and kwargs are for a module or function, and 'resnet50-onnx' is a graph already"),
        ({"kwargs": {"x": X}}, "args and kwargs are for a module or function"),
        ({"training": True}, "'resnet50-onnx' is a graph already, and not of a training step"),
    ],
)
def test_a_graph_takes_neither_arguments_nor_training(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fingerprint_of("example:resnet50-onnx", **arguments)


def test_a_saved_program_is_not_loaded_since_that_would_run_code_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(nn.Linear(4, 4), (X,)), path)
    with pytest.raises(InputError, match=r"model\.pt2' is a program .* placewright\.plan\(torch\.export\.load"):
        fingerprint_of(path)
    assert fingerprint_of(torch.export.load(path)) == fingerprint_of(torch.export.export(nn.Linear(4, 4), (X,)))


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".safetensors"])
def test_a_file_of_weights_is_said_to_hold_no_graph(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"weights{suffix}").write_bytes(b"anything")
    with pytest.raises(InputError, match="holds weights and no graph"):
        fingerprint_of(tmp_path / f"weights{suffix}")
