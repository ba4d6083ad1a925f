"""Optimizer states that lie in the host's memory, and come to the device for the step of their parameter.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch.optim import Optimizer

from placewright.execution.pytorch import cuda
from placewright.execution.pytorch.layout import moved
from placewright.execution.pytorch.moves import Copied, Moves, moves
from placewright.execution.pytorch.parameter_steps import check_steps_alone, each_parameter, step_alone
from placewright.execution.pytorch.places import Driver, on_stream
from placewright.support.errors import InputError, shown

#: The state that an optimizer keeps for one parameter.
State = dict[Any, Any]


def offload_states(optimizer: Optimizer) -> Optimizer:
    """Keep the states of an optimizer in the host's memory, except during the step of their parameter.

    `optimizer.step()` steps one parameter after another: its states come from pinned memory during the step of the
    previous one, and go back during that of the next, on streams of their own. So the GPU holds the states of at most
    two parameters. With `step_in_backward` they come and go within backward. Parameters and states are bit by bit those
    of the unchanged optimizer. `state_dict` holds tensors of the host, and `load_state_dict` takes whatever it took
    before.

    Parameters
    ----------
    optimizer
        Any optimizer whose step of a parameter needs nothing of the others, with all parameters on one GPU.

    Returns
    -------
    Optimizer
        The same object.

    Raises
    ------
    InputError
        For parameters in the host's memory or on several GPUs, and as `step_in_backward` for optimizers. In
        `optimizer.step()` where a hook before the step was registered later, which would see no gradients.

    Examples
    --------
    >>> optimizer = placewright.offload_states(torch.optim.AdamW(model.parameters()))  # doctest: +SKIP
    """
    kind = type(optimizer).__name__
    if optimizer in _OFFLOADED:
        raise InputError(f"the states of this {kind} are at the host already; call offload_states once")
    driver = _driver_of(optimizer)
    check_steps_alone(optimizer, "offload_states")
    _OFFLOADED[optimizer] = _Offloaded(optimizer, driver)
    return optimizer


def is_offloaded(optimizer: Optimizer) -> bool:
    """True if the optimizer's states lie in the host's memory."""
    return optimizer in _OFFLOADED


def step_parameter(optimizer: Optimizer, group: dict[str, Any], parameter: torch.Tensor) -> None:
    """The optimizer's step of one parameter, whose states are fetched where they are at the host."""
    offloaded = _OFFLOADED.get(optimizer)
    if offloaded is None:
        step_alone(optimizer, group, parameter)
    else:
        offloaded.step(optimizer, group, parameter)


def _driver_of(optimizer: Optimizer) -> Driver:
    devices = {parameter.device for _, parameter in each_parameter(optimizer)}
    if len(devices) > 1 or next(iter(devices)).type != "cuda":
        names = ", ".join(sorted(shown(str(device)) for device in devices))
        raise InputError(
            f"the parameters of {type(optimizer).__name__} lie on {names}; offload_states brings states from the "
            "host's memory to one GPU"
        )
    (device,) = devices
    return cuda.Gpus.driver(torch.cuda.current_device() if device.index is None else device.index)


@dataclass(frozen=True)
class _AtHost:
    """A state that is being loaded: PyTorch would bring a tensor to the device of its parameter."""

    tensor: torch.Tensor


class _Offloaded:
    """The states of one optimizer; it lives as long as the optimizer.

    arriving: states that were fetched ahead, by identity of their parameter. leaving: copies on their way to the host.
    held: tensors being copied there. following: for each parameter the one that was stepped after it. last: the
    parameter stepped last. hidden: gradients that the optimizer's own step must not see.
    """

    def __init__(self, optimizer: Optimizer, driver: Driver) -> None:
        self._driver = driver
        self._place = on_stream(driver.name, driver)
        self._arriving: dict[int, dict[Any, Copied]] = {}
        self._leaving: list[Copied] = []
        self._held: list[torch.Tensor] = []
        self._following: dict[int, weakref.ref[torch.Tensor]] = {}
        self._last: int | None = None
        self._hidden: list[tuple[torch.Tensor, torch.Tensor]] = []
        for _, parameter in each_parameter(optimizer):
            if parameter in optimizer.state:
                self._leave(optimizer.state[parameter])
                self._left()
        self.finish()
        optimizer.register_step_pre_hook(self._step_all)
        optimizer.register_step_post_hook(self._end)
        optimizer.register_state_dict_pre_hook(self.finish)
        optimizer.register_load_state_dict_pre_hook(self._load)
        optimizer.register_load_state_dict_post_hook(self._loaded)

    def step(self, optimizer: Optimizer, group: dict[str, Any], parameter: torch.Tensor) -> None:
        """Steps one parameter. The states of the one that followed it in the last step are fetched ahead."""
        self._left()
        calls, state = self._moves(), optimizer.state.get(parameter, {})
        fetched = self._arriving.pop(id(parameter), None) or self._fetched(state)
        if self._last is not None:
            self._following[self._last] = weakref.ref(parameter)
        self._last = id(parameter)
        if id(parameter) in self._following and not self._arriving:
            following = self._following[id(parameter)]()
            if following is not None and following in optimizer.state:
                self._arriving[id(following)] = self._fetched(optimizer.state[following])
        state.update({name: calls.arrived(copied) for name, copied in fetched.items()})
        step_alone(optimizer, group, parameter)
        self._leave(optimizer.state.get(parameter, {}))

    def finish(self, *_: Any) -> None:
        """Waits until all states are in the host's memory."""
        self._left()
        for copied in [each for fetched in self._arriving.values() for each in fetched.values()]:
            self._moves().arrived(copied)
        self._arriving.clear()
        self._last = None
        self._driver.finish(self._driver.recorded(self._place.copies))

    def _moves(self) -> Moves:
        """The moves on the stream that ops are launched on now."""
        return moves(replace(self._place, stream=self._driver.current_stream()))

    def _fetched(self, state: State) -> dict[Any, Copied]:
        calls = self._moves()
        return {
            name: calls.fetch((value, None))
            for name, value in state.items()
            if _is_moved(value) and not self._driver.holds(value)
        }

    def _leave(self, state: State) -> None:
        calls = self._moves()
        for name, value in state.items():
            if _is_moved(value) and self._driver.holds(value):
                copied = calls.leave(value)
                self._leaving.append(copied)
                self._held.append(value)
                state[name] = copied[0]

    def _left(self) -> None:
        """Frees the memory of states that are leaving, for what is launched from now on."""
        calls = self._moves()
        for copied in self._leaving:
            calls.left(copied)
        self._leaving.clear()
        self._held.clear()

    def _step_all(self, optimizer: Optimizer, given: Any, settings: Any) -> Any:
        """Makes all steps before the optimizer's own step, which then finds no gradient."""
        if next(reversed(optimizer._optimizer_step_pre_hooks.values())) != self._step_all:
            raise InputError(
                "a hook before the step was registered after offload_states, and would see no gradients; call "
                "register_step_pre_hook first"
            )
        given, settings, loss = [*given], {**settings}, None
        closure = given.pop(1) if len(given) > 1 else settings.pop("closure", None)
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
            settings["closure"] = lambda: loss
        steps = [each for each in each_parameter(optimizer) if each[1].grad is not None]
        for (_, parameter), (_, following) in pairwise(steps):
            self._following[id(parameter)] = weakref.ref(following)
        try:
            for group, parameter in steps:
                self.step(optimizer, group, parameter)
        finally:
            self._hidden = [(parameter, parameter.grad) for _, parameter in steps if parameter.grad is not None]
        for parameter, _ in self._hidden:
            parameter.grad = None
        return (*given,), settings

    def _end(self, *_: Any) -> None:
        for parameter, gradient in self._hidden:
            parameter.grad = gradient
        self._hidden = []
        self.finish()

    def _load(self, _: Optimizer, saved: Mapping[str, Any]) -> dict[str, Any]:
        states = {
            key: {name: _AtHost(value) if _is_moved(value) else value for name, value in state.items()}
            for key, state in saved["state"].items()
            if isinstance(state, dict)
        }
        return {**saved, "state": {**saved["state"], **states}}

    def _loaded(self, optimizer: Optimizer) -> None:
        for _, parameter in each_parameter(optimizer):
            state = optimizer.state.get(parameter, {})
            for name, value in state.items():
                if isinstance(value, _AtHost):
                    # The same cast as PyTorch's.
                    dtype = parameter.dtype if parameter.is_floating_point() else value.tensor.dtype
                    state[name] = moved(value.tensor.to("cpu", dtype), self._driver.pinned)


_OFFLOADED: weakref.WeakKeyDictionary[Optimizer, _Offloaded] = weakref.WeakKeyDictionary()


def _is_moved(value: Any) -> bool:
    """True if a state goes to the host: a tensor that is not a step count."""
    return isinstance(value, torch.Tensor) and value.dim() > 0
