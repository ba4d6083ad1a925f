"""How long every op of a program takes on this host, and how much memory it needs for itself.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch

from placewright.costs.measured import MeasuredOp
from placewright.execution.torch_step import TorchStep

_WARM_UP, _REPETITIONS = 2, 7


def measure_ops(
    step: TorchStep, parameters: Sequence[Any], tensors: Sequence[Any], optimizer: Any = None
) -> dict[str, MeasuredOp]:
    """Of each op the median time over several steps on the device that the step's plan puts all ops on, and its
    workspace in one of them; views are left out.

    parameters, tensors: what the step runs on. Parameters, buffers, inputs, the optimizer's state and the generator of
    random numbers are afterwards as they were.
    """
    samples: list[list[int]] = []
    with unchanged(step.overwritten(parameters, tensors), optimizer):
        for _ in range(_WARM_UP + _REPETITIONS):
            samples.append(step.timed(parameters, tensors))
        workspaces = step.workspaces(parameters, tensors)
    return {
        op.name: MeasuredOp(
            int(median(sample[2 * index + 1] - sample[2 * index] for sample in samples[_WARM_UP:])), workspaces[index]
        )
        for index, op in enumerate(step.program.graph.ops)
        if op.kind != "view"
    }


@contextmanager
def unchanged(changed: Sequence[Any], optimizer: Any = None) -> Iterator[None]:
    """What steps change is put back afterwards. changed: tensors."""
    before = [tensor.detach().clone() for tensor in changed]
    state = copy.deepcopy(optimizer.state_dict()) if optimizer is not None else None
    random = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(random)
        if optimizer is not None:
            optimizer.load_state_dict(state)
        with torch.no_grad():
            for tensor, value in zip(changed, before, strict=True):
                tensor.copy_(value)
