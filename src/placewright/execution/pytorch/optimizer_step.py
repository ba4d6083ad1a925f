"""The optimizer's step of one parameter, as an op of the graph makes it.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from placewright.support.errors import InputError, shown

#: Classes of optimizers, by what the cost model calls them.
_OPTIMIZERS = {torch.optim.SGD: "sgd", torch.optim.Adam: "adam", torch.optim.AdamW: "adamw"}


def optimizer_kind(optimizer: torch.optim.Optimizer | None) -> str | None:
    """What the cost model calls an optimizer; None without one. Raises InputError for one that it does not know."""
    if optimizer is None:
        return None
    kind = _OPTIMIZERS.get(type(optimizer))
    if kind is None:
        known = ", ".join(known.__name__ for known in _OPTIMIZERS)
        raise InputError(
            f"the optimizer {shown(type(optimizer).__name__)} cannot be planned; {known} can, or leave it out and call "
            "its step yourself"
        )
    return kind


class ParameterStep:
    """The optimizer's step for one parameter, computed by the optimizer itself from a group that holds only this one;
    state and settings are its own, so that schedulers, checkpoints and further steps go on from them."""

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, name: str) -> None:
        self._optimizer = optimizer
        self._parameter = model.get_parameter(name)
        holding = [
            number
            for number, group in enumerate(optimizer.param_groups)
            if any(parameter is self._parameter for parameter in group["params"])
        ]
        if not holding:
            raise InputError(f"the optimizer does not hold the parameter '{name}', which the loss depends on")
        self._group = holding[0]

    @property
    def settings(self) -> str:
        """What is set, without numbers: an optimizer with momentum takes longer than one without."""
        group = self._optimizer.param_groups[self._group]
        return ", ".join(key for key, value in group.items() if key not in ("params", "lr") and value)

    def __call__(self, parameter: Any, gradient: Any) -> Any:
        """parameter: the module's own, or a copy of it on the device where the gradient is, whose state goes there."""
        kind, state = type(self._optimizer), self._optimizer.state
        alone = object.__new__(kind)
        vars(alone).update(vars(self._optimizer))
        alone.param_groups = [{**self._optimizer.param_groups[self._group], "params": [parameter]}]
        if parameter is not self._parameter:
            alone.state = defaultdict(dict, {parameter: _state_on(parameter.device, state[self._parameter])})
        parameter.grad = gradient
        # Not alone.step: a scheduler puts a function there that steps the whole optimizer, and asks whether it ran.
        kind.step(alone)
        self._optimizer._opt_called = True
        parameter.grad = None
        if parameter is not self._parameter:
            state[self._parameter] = alone.state[parameter]
        return parameter


def _state_on(device: torch.device, state: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer's state of one parameter, on a device but for the number of steps, which stays with the host."""
    return {
        key: value.to(device) if isinstance(value, torch.Tensor) and key != "step" else value
        for key, value in state.items()
    }
