"""`compile` with a solver that runs every placement it tries, on a network of two branches."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="what is run is a PyTorch module")

import torch

import placewright
from placewright.execution.devices import available_cores
from placewright.execution.pytorch.step import TorchStep
from placewright.support.errors import InputError

pytestmark = pytest.mark.skipif(len(available_cores()) < 2, reason="two devices need a core each")


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        return self.left(x).relu() + self.right(x).tanh()


def compiled(model: Any, **options: Any) -> Any:
    return placewright.compile(model, torch.ones(2, 8), devices="cpu:0,cpu:1", measure_placements=True, **options)


def test_every_placement_is_run_ten_times_and_leaves_the_module_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, x = Branches(), torch.ones(2, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    placements: list[TorchStep] = []
    run = TorchStep.run

    def noted(step: TorchStep, *rest: Any, **how: Any) -> Any:
        if step.plan.solver == "placement":
            placements.append(step)
        return run(step, *rest, **how)

    monkeypatch.setattr(TorchStep, "run", noted)
    options: dict[str, Any] = {"solver": "random-placement", "evaluations": 6, "settings": {"colocation": ()}}
    with compiled(model, training=True, optimizer=optimizer, **options) as step:
        assert [placements.count(each) for each in dict.fromkeys(placements)] == [10] * 6
        assert step.plan.configuration["method"]["environment"] == "measured"
        assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
        step(x)
        assert not torch.equal(before[0], next(model.parameters()))


def test_what_cannot_be_measured_is_refused_in_a_sentence() -> None:
    with pytest.raises(InputError, match="solver 'auto' tries no placements that could be measured; these do: post"):
        compiled(Branches())
