"""Memory that compiled forwards keep until their backward has run, and the allocator's peak over both.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from placewright.execution.pytorch.memory import PeakWatch
from placewright.support.errors import InputError
from placewright.support.quantities import format_bytes

#: Autograd's name for the backward of a graph that AOTAutograd compiled.
_COMPILED = "CompiledFunctionBackward"


class StepWatch:
    """A watch on the steps of one module: what waits for backward, and once the memory of a whole step.

    memory_limit: bytes. measured_bytes: of the step that was watched, None before.
    """

    def __init__(self, memory_limit: int) -> None:
        self._memory_limit = memory_limit
        self._kept: dict[int, tuple[StorageWeakRef, int]] = {}
        self._watch: PeakWatch | None = None
        self._before = 0
        self._has_backward = self._is_over = False
        self.measured_bytes: int | None = None

    def pending_bytes(self) -> int:
        """Bytes kept now for a backward that has not run, without arguments and parameters."""
        self._kept = {key: kept for key, kept in self._kept.items() if not kept[0].expired()}
        return sum(size for _, size in self._kept.values())

    def begin(self, module: nn.Module, given: Any, beside: int) -> None:
        """Begins before forward. given: its arguments. beside: bytes in use besides them and the module's tensors."""
        held = [*module.parameters(), *module.buffers()]
        is_trained, self._has_backward = self._has_backward, False
        if not is_trained or self.measured_bytes is not None or not PeakWatch.can_begin(held[0].device):
            return
        sizes = {each._cdata: each.nbytes() for each in _storages((*held, *tree_leaves(given)))}
        self._before = beside + sum(sizes.values())
        self._watch, self._is_over = PeakWatch(held[0].device), False

    def finish(self) -> None:
        """Ends the watch after a step, or without one: something is compiled, or backward does not follow."""
        watch, self._watch = self._watch, None
        if watch is None:
            return
        found = self._before + watch.peak_bytes()
        if not self._is_over:
            return
        self.measured_bytes = found
        if (over := found - self._memory_limit) > 0:
            warnings.warn(
                f"a step has taken {format_bytes(found)}, {format_bytes(over)} more than its limit; what the loop "
                "itself makes counts here, such as a loss outside of the module: put that into the module, or ask for "
                "a lower limit",
                stacklevel=4,
            )

    def forget(self) -> None:
        """Makes it watch another step."""
        self.measured_bytes = None

    def note(self, results: Any, arguments: Iterable[Any]) -> None:
        """Notes a graph that has run, and makes it refuse `backward(retain_graph=True)`, which would keep memory to be
        freed."""
        given = {storage._cdata for storage in _storages(arguments)}
        leaves = [leaf for leaf in tree_leaves(results) if isinstance(leaf, torch.Tensor)]
        # Tensors moved to the host take no memory of the device.
        devices = {leaf.device for leaf in leaves}
        for node in {_compiled(leaf.grad_fn) for leaf in leaves}:
            if node is None:
                continue
            node.register_prehook(self._begin_backward)
            for storage in _storages((*node.saved_tensors, *node._tensors_no_vc_check)):
                if storage._cdata not in given and storage.device in devices:
                    self._kept[storage._cdata] = StorageWeakRef(storage), storage.nbytes()

    def _begin_backward(self, _: Any) -> None:
        if torch._C._autograd._get_current_graph_task_keep_graph():
            raise InputError(
                "backward(retain_graph=True) keeps what a memory limit needs to be freed; add the losses and call "
                "backward once, or call the module once for each"
            )
        self._has_backward = True
        if self._watch is not None:
            torch.autograd.Variable._execution_engine.queue_callback(self._end)

    def _end(self) -> None:
        """Ends the measurement when backward is over."""
        if self._watch is not None:
            self._watch.end()
            self._is_over = True


def _compiled(node: Any) -> Any:
    """The node of a compiled graph, behind a view of its result; None if there is none."""
    while node is not None and node.name() != _COMPILED:
        following = node.next_functions
        node = following[0][0] if following else None
    return node


def _storages(values: Iterable[Any]) -> Iterator[Any]:
    return (value.untyped_storage() for value in values if isinstance(value, torch.Tensor))
