"""What a loss depends on, as autograd knows it when the model's own code runs, however that is traced afterwards.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.autograd.function import BackwardCFunction


class Dependence:
    """Filled while a loss is computed. It is no attribute of the module that is traced: the tracer sets those back.

    custom_gradients: the autograd functions with a backward of their own that the loss depends on.
    """

    def __init__(self) -> None:
        self.custom_gradients: list[str] = []
        self._found: dict[str, bool] = {}

    def read(self, loss: Any, model: Any) -> None:
        """Notes which parameters of the model autograd reaches from the loss."""
        nodes = _reached(loss.grad_fn)
        leaves = {id(node.variable) for node in nodes if node.name() == "torch::autograd::AccumulateGrad"}
        self._found = {
            name: id(parameter) in leaves or parameter.grad_fn in nodes
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        }
        custom = {node.name().removesuffix("Backward") for node in nodes if isinstance(node, BackwardCFunction)}
        self.custom_gradients = sorted(custom)

    def by_first_name(self, names: Mapping[str, str]) -> dict[str, bool]:
        """Each parameter that requires a gradient, and whether the loss depends on it by any of its names."""
        trainable: dict[str, bool] = {}
        for name, found in self._found.items():
            first = names.get(name, name)
            trainable[first] = trainable.get(first, False) or found
        return trainable


def _reached(start: Any) -> set[Any]:
    """The nodes of the autograd graph behind one of them, itself included."""
    seen = {start}
    waiting = [start]
    while waiting:
        behind = {node for node, _ in waiting.pop().next_functions if node is not None} - seen
        seen |= behind
        waiting += behind
    return seen
