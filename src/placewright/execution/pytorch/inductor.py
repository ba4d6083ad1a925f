"""Regions compiled by Inductor, where that is measured to be faster than their ops one by one.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
import torch._inductor

from placewright.execution.comparison import times_in_turn
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.pytorch.regions import traced
from placewright.execution.steps import Region

_REPETITIONS = 7
#: A compiled region is kept if it takes at most this share of the time of its ops; a smaller gain would be noise.
_MOST = 0.95
#: Inductor keeps settings and caches for the whole process, so devices compile one after the other.
_COMPILING = threading.Lock()


class Trial:
    """A trial of a region in one step: computes it op by op, compiles it, and measures both on the given inputs.

    compiled: the compiled region, if it is faster than its ops; None if not, or if its results have other strides.
    Inductor copies what the ops return as a view of a larger tensor, and regions that read it are compiled for the
    view's strides.
    """

    def __init__(self, region: Region, program: TorchProgram) -> None:
        self._module = traced(region, program)
        self.compiled: Callable[..., Sequence[Any]] | None = None

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        plain = self._module.forward
        with _COMPILING:
            compiled = torch._inductor.compile(self._module, list(inputs), {"cpp.threads": torch.get_num_threads()})
            taken = _times([plain, compiled], inputs)
            result: Sequence[Any] = plain(*inputs)
            alike = _strides(result) == _strides(compiled(*inputs))
        if alike and taken[1] < _MOST * taken[0]:
            self.compiled = compiled
        return result


def _strides(tensors: Sequence[Any]) -> list[tuple[int, ...]]:
    return [tensor.stride() for tensor in tensors]


def _times(ways: Sequence[Callable[..., Any]], inputs: Sequence[Any]) -> list[float]:
    """The median time of each way in ns, all run in turn."""
    return [median(times) for times in times_in_turn([partial(way, *inputs) for way in ways], _REPETITIONS)]
