"""Modules for tests on stand-ins for GPUs, and helpers that move them into the memory of one."""

from __future__ import annotations

import copy
from typing import Any

import torch
from stand_in_gpu import Device
from torch import nn
from torch_modules import captured

import placewright
from placewright.execution.pytorch.machine import torch_machine
from placewright.importers.torch.results import default_loss
from placewright.problem import make_problem


class Tower(nn.Module):
    """A chain of small ops, some of which have no kernel where a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        self.seen.add_(hidden.detach().mean(0))
        result: torch.Tensor = self.second(torch.cumsum(hidden, 1))
        return result


def tower() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(2)
    return Tower(), torch.randn(3, 8)


def spread(model: nn.Module, args: Any, kwargs: Any, devices: str, **how: Any) -> dict[str, int]:
    """Pins that put every op on another device than the op before it, except ops that must share a device."""
    model, args, count = copy.deepcopy(model), copy.deepcopy(args), len(devices.split(","))
    with placewright.compile(model, args, kwargs=kwargs, devices=devices, solver="input-order", **how) as compiled:
        graph = captured(compiled, *args, **kwargs)[0].graph
    problem = make_problem(graph, torch_machine(devices))
    ops, groups = problem.lowered.graph_op.tolist(), problem.groups[0].tolist()
    modules = {op.module for op in graph.ops}
    pins = {graph.ops[op].name: group % count for op, group in zip(ops, groups, strict=True)}
    # A name that a module has too would pin the whole module.
    return {name: place for name, place in pins.items() if name not in modules}


def brought_to(there: Device, model: nn.Module, *tensors: torch.Tensor) -> list[torch.Tensor]:
    """Puts parameters and buffers into a device's memory; returns tensors there."""
    moved: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            for name, tensor in list(held.items()):
                if tensor is None:
                    continue
                if id(tensor) not in moved:
                    copied = there.brought(tensor.detach().reshape(-1)).reshape(tensor.shape)
                    moved[id(tensor)] = nn.Parameter(copied) if isinstance(tensor, nn.Parameter) else copied
                held[name] = moved[id(tensor)]
    given = [there.brought(each.reshape(-1)).reshape(each.shape) for each in tensors]
    there.finish(there.recorded(there.default))
    return given


def check_steps(
    compiled: Any,
    model: nn.Module,
    plain: nn.Module,
    args: Any,
    kwargs: dict[str, Any],
    *,
    training: bool,
    **tolerance: float,
) -> None:
    """Compares steps on several inputs with those of `plain`, a copy of `model`: results, buffers and gradients.
    tolerance: of gradients, as `assert_close` takes it."""
    for factor in (1, 2, 3, 4):
        given = tuple(each * factor if each.is_floating_point() else each for each in args)
        found = compiled(*given, **kwargs)
        with torch.set_grad_enabled(training):
            expected = plain(*given, **kwargs)
        if training:
            expected = default_loss(expected)
            expected.backward()
            expected = expected.detach()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(dict(model.named_buffers()), dict(plain.named_buffers()))
        for own, other in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(own.grad, other.grad, **tolerance)
