"""Blocks that are compiled once per kind and run many times in one graph: how much each may save.

These are regions of `torch.compiler.nested_compile_region`, and blocks that were compiled by themselves before
`placewright.fit`. PyTorch partitions a region before the graph around it, so the memory of all of them is known only
afterwards. Then the graph is compiled again with regions that save less.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import fx, nn
from torch._dynamo.eval_frame import OptimizedModule
from torch._dynamo.external_utils import wrap_inline

from placewright.api.questions import Plan
from placewright.execution.pytorch.saved import SavingGraph, num_bytes, saved
from placewright.support.errors import InputError, shown

#: The most times that a graph is compiled; the room from which on more may be saved, as a share of the limit; and the
#: least difference between one share and the next.
_MOST_TRIED, _SPARE, _STEP = 6, 0.03, 0.02

_Parts = tuple[fx.GraphModule, fx.GraphModule]


class AgainError(BaseException):
    """Ends a compilation that is to be repeated with regions that save another share. PyTorch lets it through."""


class Regions:
    """The regions of a graph.

    Attributes
    ----------
    plans
        The plan of each kind of region, in the order of compiling, for the latest share.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        #: The share that regions may save now of what PyTorch saves of them by default.
        self._share = 1.0
        self._tried: dict[float, int] = {}
        self._saved: list[int] = []
        self._is_last = False
        self.plans: list[Plan] = []

    def begin(self) -> None:
        """Resets the plans before each compilation."""
        self._saved, self.plans = [], []

    def parted(self, own: _Parts, own_plan: Plan, graph: SavingGraph, planned: Callable[..., Plan]) -> _Parts:
        """The parts of a region. own: those of PyTorch. planned: a plan of a graph within a limit."""
        size = num_bytes(saved(own[0], graph.num_outputs), graph.sizes)
        plan, parts = own_plan, own
        if self._share < 1.0:
            found = planned(graph.saving_at_most(int(self._share * size), graph.peak_bytes), graph.peak_bytes)
            if found.status == "infeasible":
                found = planned(graph.graph, graph.peak_bytes)
            plan, parts = found, graph.parted(found, ())
        self._saved.append(size)
        self.plans.append(plan)
        return parts

    def settle(self, peak_bytes: int, saved_bytes: int) -> None:
        """Raises AgainError where other regions are to be tried.

        peak_bytes: of the graph with these. saved_bytes: what it and they save.
        """
        if not self._saved or self._is_last:
            return
        self._tried[self._share] = peak_bytes
        within = [share for share, peak in self._tried.items() if peak <= self._limit]
        beyond = [share for share, peak in self._tried.items() if peak > self._limit]
        lower, upper = max(within, default=0.0), min(beyond, default=1.0)
        if within and (not beyond or self._limit - self._tried[lower] < _SPARE * self._limit):
            following = lower
        elif within:
            following = (lower + upper) / 2
        else:
            following = max(0.0, self._share * (1 - (peak_bytes - self._limit) / max(1, saved_bytes)) - _STEP)
        if len(self._tried) >= _MOST_TRIED or upper - following < _STEP / 2:
            following = lower
        self._is_last = following in self._tried or following == lower
        if following != self._share:
            self._share = following
            raise AgainError


def compiled(regions: Regions, compile: Callable[[], Any]) -> Any:
    """The result of the last of repeated compilations."""
    while True:
        regions.begin()
        try:
            return compile()
        except AgainError:
            continue


class CompiledBlocks:
    """Blocks of a model that were compiled by themselves, by `block.compile()`: each kind is to be compiled once.

    Dynamo ignores `block.compile()` within a module that is compiled as a whole.
    """

    def __init__(self, model: nn.Module) -> None:
        for name, module in model.named_modules():
            if name and isinstance(module, OptimizedModule):
                raise InputError(
                    f"'{shown(name)}' is what torch.compile returned, with a compiler of its own that knows no limit; "
                    "have the block itself in its place, and call its .compile() before fit"
                )
        self._blocks = [each for each in model.modules() if each is not model and each._compiled_call_impl is not None]
        # FSDP2 breaks the graph around each of its modules.
        regions = [
            each for each in self._blocks if "forward" not in vars(each) and not hasattr(each, "_get_fsdp_state")
        ]
        self._kinds = {type(each) for each in regions}
        # Dynamo leaves frames of PyTorch's own modules, which run by themselves between graph breaks, to eager.
        sharded = any(hasattr(each, "_get_fsdp_state") for each in model.modules())
        kinds = {type(each) for each in model.modules()} - self._kinds if sharded else set()
        self._own_kinds = {kind for kind in kinds if kind.forward.__module__.startswith("torch.nn.")}

    @property
    def dynamic(self) -> bool | None:
        """Dynamo's setting for sizes: False where blocks are compiled once per kind, and planned for each size."""
        return False if self._blocks or self._own_kinds else None

    @contextmanager
    def as_regions(self) -> Iterator[None]:
        """A context in which the model is called.

        PyTorch takes one block's weights for another's where instances, and not their class, define a region.
        """
        with ExitStack() as stack:
            for block in self._blocks:
                stack.enter_context(mock.patch.object(block, "_compiled_call_impl", None))
            for kind in self._own_kinds:
                stack.enter_context(mock.patch.object(kind, "forward", wrap_inline(kind.forward)))
            for kind in self._kinds:
                region = torch.compiler.nested_compile_region(kind.forward)
                stack.enter_context(mock.patch.object(kind, "forward", region))
            yield
