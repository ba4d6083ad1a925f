"""The optimizer's step of one parameter, as an op of the graph makes it.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim import optimizer as optimizers

from placewright.execution.pytorch.layout import is_laid_out_for, laid_out_for
from placewright.execution.pytorch.places import Driver
from placewright.support.errors import InputError, shown

#: Settings with which an optimizer keeps one tensor more for each parameter.
_ADD_STATES = ("momentum", "amsgrad")
#: Classes of optimizers, by what the cost model calls them.
_OPTIMIZERS = {torch.optim.SGD: "sgd", torch.optim.Adam: "adam", torch.optim.AdamW: "adamw"}


def optimizer_kind(optimizer: torch.optim.Optimizer | None) -> str | None:
    """The name of an optimizer in OPTIMIZER_STATES, by its class and what any of its groups sets; None without one.
    Raises InputError for one of another class."""
    if optimizer is None:
        return None
    kind = _OPTIMIZERS.get(type(optimizer))
    if kind is None:
        known = ", ".join(known.__name__ for known in _OPTIMIZERS)
        raise InputError(
            f"the optimizer {shown(type(optimizer).__name__)} cannot be planned; {known} can, or leave it out and call "
            "its step yourself"
        )
    added = next((key for key in _ADD_STATES if any(group.get(key) for group in optimizer.param_groups)), None)
    return kind if added is None else f"{kind}-{added}"


class HeldStates(NamedTuple):
    """Bytes of the states that an optimizer has by now, without the numbers of steps.

    planned: as many as the step has for the parameter. beyond: those of parameters that the step leaves alone, of
    settings that are no longer set, and of a wider dtype than the parameter's.
    """

    planned: int
    beyond: int


def held_states(
    optimizer: torch.optim.Optimizer | None, planned: Mapping[Any, int], driver: Driver | None
) -> HeldStates:
    """What lies where the step is computed. planned: bytes of the step's states, by parameter. driver: of the device
    that computes; None for the host."""

    def is_there(value: Any) -> bool:
        if not isinstance(value, torch.Tensor) or not value.dim():
            return False
        return value.device.type == "cpu" if driver is None else driver.holds(value)

    found = HeldStates(0, 0)
    for parameter, state in ({} if optimizer is None else optimizer.state).items():
        held, own = sum(value.nbytes for value in state.values() if is_there(value)), planned.get(parameter, 0)
        found = HeldStates(found.planned + min(held, own), found.beyond + max(0, held - own))
    return found


def check_can_be_stepped(optimizer: Any) -> None:
    """Raises InputError for what is no optimizer, and for one with hooks before its step, which find all gradients in
    place there."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(
            f"the optimizer must be one of torch.optim that holds the module's parameters, and this is a "
            f"{shown(type(optimizer).__name__)}"
        )
    if optimizer._optimizer_step_pre_hooks or optimizers._global_optimizer_pre_hooks:
        raise InputError(
            "the optimizer has a hook before its step, which finds no gradients when the step is planned; remove it, "
            "or leave the optimizer out and call its step yourself"
        )


def call_hooks_after(optimizer: torch.optim.Optimizer) -> None:
    """Calls the hooks that an optimizer has for the end of its step, once for all parameters."""
    for hook in (*optimizer._optimizer_step_post_hooks.values(), *optimizers._global_optimizer_post_hooks.values()):
        hook(optimizer, (), {})


@contextmanager
def optimizer_kept(optimizer: torch.optim.Optimizer | None) -> Iterator[None]:
    """An optimizer's state is put back afterwards, into the same tensors; loading it would call hooks."""
    if optimizer is None:
        yield
        return
    before = {
        parameter: {key: (value, copy.deepcopy(value)) for key, value in state.items()}
        for parameter, state in optimizer.state.items()
    }
    called = getattr(optimizer, "_opt_called", None)
    try:
        yield
    finally:
        optimizer.state.clear()
        with torch.no_grad():
            for parameter, state in before.items():
                optimizer.state[parameter] = {
                    key: value.copy_(was) if isinstance(value, torch.Tensor) else was
                    for key, (value, was) in state.items()
                }
        if called is None:
            vars(optimizer).pop("_opt_called", None)
        else:
            optimizer._opt_called = called


class ParameterStep:
    """The optimizer's step for one parameter, computed by the optimizer itself from a group that holds only this one;
    state and settings are its own, so that schedulers, checkpoints and further steps go on from them."""

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, name: str) -> None:
        self.name = name
        self.parameter = model.get_parameter(name)
        self._optimizer = optimizer
        self._place = self._find()
        self._adds_states = "-" in str(optimizer_kind(optimizer))

    def check(self, parameter: Any) -> None:
        """Raises InputError where the module has another parameter than the optimizer by now, or the optimizer keeps
        more states for it than were planned."""
        if parameter is not self.parameter:
            raise InputError(
                f"'{shown(self.name)}' is another parameter than the one that the optimizer holds; compile the module "
                "again, with an optimizer that holds this one"
            )
        # Groups may have changed since; to look through all of them for each parameter would take long.
        group, number = self._place
        groups = self._optimizer.param_groups
        params = groups[group]["params"] if group < len(groups) else []
        if number >= len(params) or params[number] is not self.parameter:
            self._place = self._find()
        added = next((key for key in _ADD_STATES if self._settings.get(key)), None)
        if added is not None and not self._adds_states:
            raise InputError(
                f"the optimizer keeps a state more for '{shown(self.name)}' than when the step was planned, since "
                f"{added} is set by now; compile the module again"
            )

    def _find(self) -> tuple[int, int]:
        """Number of the group that holds the parameter, and its place there."""
        for number, group in enumerate(self._optimizer.param_groups):
            for place, parameter in enumerate(group["params"]):
                if parameter is self.parameter:
                    return number, place
        raise InputError(f"the optimizer does not hold the parameter '{shown(self.name)}', which the loss depends on")

    @property
    def _settings(self) -> dict[str, Any]:
        """Of the parameter's group."""
        group: dict[str, Any] = self._optimizer.param_groups[self._place[0]]
        return group

    def check_no_gradients(self) -> None:
        """Raises InputError where the optimizer holds a parameter that has a gradient already: those of the step would
        not be added to it, and one without any in the step would not be updated."""
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    raise InputError(
                        f"a parameter of shape {tuple(parameter.shape)} has a gradient already, which the planned "
                        "optimizer's step would leave out; call optimizer.zero_grad() first, or compile without the "
                        "optimizer to accumulate gradients"
                    )

    @property
    def settings(self) -> str:
        """What is set, without numbers: an optimizer with momentum takes longer than one without."""
        return ", ".join(key for key, value in self._settings.items() if key not in ("params", "lr") and value)

    def __call__(self, parameter: Any, gradient: Any) -> Any:
        """parameter: the module's own, or a copy of it on the device where the gradient is, whose state goes there."""
        kind, state = type(self._optimizer), self._optimizer.state
        alone = object.__new__(kind)
        vars(alone).update(vars(self._optimizer))
        alone.param_groups = [{**self._settings, "params": [parameter]}]
        if parameter is not self.parameter:
            alone.state = defaultdict(dict, {parameter: _state_on(parameter.device, state[self.parameter])})
        # Fused steps read a gradient as if it lay as its parameter does.
        fits = is_laid_out_for(gradient, parameter)
        before, parameter.grad = parameter.grad, gradient if fits else laid_out_for(gradient, parameter)
        # Not alone.step: a scheduler puts a function there that steps the whole optimizer, and asks whether it ran. Nor
        # kind.step itself, which calls the hooks of a whole step.
        (kind.step.__wrapped__ if getattr(kind.step, "hooked", False) else kind.step)(alone)
        self._optimizer._opt_called = True
        parameter.grad = before
        if parameter is not self.parameter:
            state[self.parameter] = alone.state[parameter]
        return parameter


def _state_on(device: torch.device, state: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer's state of one parameter, on a device but for the number of steps, which stays with the host."""
    return {
        key: value.to(device) if isinstance(value, torch.Tensor) and key != "step" else value
        for key, value in state.items()
    }
