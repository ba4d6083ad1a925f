"""Regions: what one call may compute, and that Inductor's code for it computes the same."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch_modules import captured

import placewright
from placewright.execution.devices import available_cores
from placewright.execution.pytorch import inductor
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.pytorch.regions import with_regions
from placewright.execution.steps import Region, Run, steps_of

needs_two_cores = pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each")


class Noisy(nn.Module):
    """Elementwise ops before and after dropout, and a buffer that counts calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        kept = nn.functional.dropout(self.linear(x).tanh().square(), 0.5, self.training)
        return (kept.sigmoid() + self.calls).exp()


def program_of(model: nn.Module, *args: Any, training: bool = False) -> TorchProgram:
    with placewright.compile(model, args, devices="cpu:0", training=training) as compiled:
        program: TorchProgram = captured(compiled, *args)[0].program
        return program


def regions_on_one_device(program: TorchProgram) -> list[Region]:
    steps = steps_of(placewright.plan(program.graph, "1xv100", solver="input-order"), program.graph)
    (device,) = with_regions(steps, program).of_device
    return [step for step in device if isinstance(step, Region)]


def test_a_module_without_side_effects_is_one_region() -> None:
    program = program_of(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Sigmoid()), torch.ones(2, 4))
    (region,) = regions_on_one_device(program)
    assert len(region.ops) == 4  # the weight is transposed, then product, tanh, sigmoid
    assert region.outputs == program.results
    # weight, bias and the input of the module
    assert len(region.inputs) == 3


def test_random_numbers_and_buffers_end_a_region() -> None:
    program = program_of(Noisy(), torch.ones(2, 8), training=True)
    regions = regions_on_one_device(program)
    inside = [op for region in regions for op in region.ops]
    outside = {op.name for index, op in enumerate(program.graph.ops) if index not in inside}
    assert len(regions) > 1
    assert len(inside) == len(set(inside))
    for op in program.graph.ops:
        overwrites = op.kind != "view" and any(program.graph.tensors[t].alias_of is not None for t in op.outputs)
        if overwrites or op.target == "aten.native_dropout.default":
            assert op.name in outside


def test_what_runs_is_every_op_once_with_regions_or_without() -> None:
    program = program_of(Noisy(), torch.ones(2, 8), training=True)
    steps = steps_of(placewright.plan(program.graph, "1xv100", solver="input-order"), program.graph)
    assert with_regions(steps, program, ()) == steps

    def ops(merged: Any) -> list[int]:
        runs = (
            step.ops if isinstance(step, Region) else (step.op,) for step in merged if isinstance(step, Run | Region)
        )
        return [op for run in runs for op in run]

    assert ops(with_regions(steps, program).of_device[0]) == ops(steps.of_device[0])


def always(kept: bool) -> Any:
    def times(ways: Sequence[Any], inputs: Sequence[Any]) -> list[float]:
        return [2.0, 1.0] if kept else [1.0, 2.0]

    return times


@needs_two_cores
@pytest.mark.parametrize("training", [pytest.param(False, marks=pytest.mark.long), True])
def test_compiled_regions_compute_what_the_module_computes(monkeypatch: pytest.MonkeyPatch, training: bool) -> None:
    monkeypatch.setattr(inductor, "_times", always(True))
    torch.manual_seed(0)
    model, x = Noisy(), torch.randn(4, 8)
    reference = copy.deepcopy(model).train(training)
    compiled = placewright.compile(
        model, x, devices="cpu:0,cpu:1", training=training, inductor=True, solver="list", evaluations=20
    )
    with compiled:
        for seed in range(2):
            torch.manual_seed(seed)
            found = compiled(x)
            torch.manual_seed(seed)
            expected = reference(x)
            if training:
                expected = expected.mean()
                expected.backward()
            torch.testing.assert_close(found, expected.detach())
        assert compiled.num_compiled_regions > 0
    torch.testing.assert_close(model.calls, reference.calls)
    if training:
        torch.testing.assert_close(model.linear.weight.grad, reference.linear.weight.grad)


def test_a_region_that_gains_nothing_runs_op_by_op(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductor, "_times", always(False))
    model, x = nn.Sequential(nn.Tanh(), nn.Sigmoid()).eval(), torch.randn(4, 8)
    with placewright.compile(model, x, devices="cpu:0", inductor=True) as compiled:
        assert torch.equal(compiled(x), model(x))
        assert compiled.num_compiled_regions == 0


def test_the_backend_of_torch_compile_takes_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductor, "_times", always(True))
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Sigmoid()).eval(), torch.randn(2, 4)
    options = {"devices": "cpu:0", "inductor": True}
    compiled = torch.compile(copy.deepcopy(model), backend="placewright", options=options, dynamic=False)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


class Transposed(nn.Module):
    """Passes a tensor that is not contiguous across the counter, which separates two regions."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = x.transpose(0, 1).tanh().sigmoid()
        self.calls += 1
        return (before.exp() + self.calls).cos()


def test_a_region_whose_results_would_lie_otherwise_in_memory_runs_op_by_op(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor does so with some views of NASNet; the next region was compiled for the strides of the ops."""
    monkeypatch.setattr(inductor, "_times", always(True))

    def copying(module: nn.Module, inputs: Sequence[Any], options: Any) -> Any:
        return lambda *tensors: [tensor.contiguous() for tensor in module.forward(*tensors)]

    monkeypatch.setattr(torch._inductor, "compile", copying)
    model, x = Transposed().eval(), torch.randn(2, 6)
    reference = copy.deepcopy(model)
    with placewright.compile(model, x, devices="cpu:0", inductor=True, solver="input-order") as compiled:
        torch.testing.assert_close(compiled(x), reference(x))
        assert compiled.num_compiled_regions == 0
