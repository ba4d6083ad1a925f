"""Optimizers that step each parameter within backward, as soon as its gradient is there.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from placewright.execution.pytorch.offloaded_states import is_offloaded, step_parameter
from placewright.execution.pytorch.parameter_steps import check_steps_alone, each_parameter
from placewright.support.errors import InputError


def step_in_backward(optimizer: Optimizer) -> Optimizer:
    """Make an optimizer step each parameter within backward, as soon as its gradient is there, and free the gradient.

    So the gradients of all parameters never exist at once. The loop stays as it is: `optimizer.step()` ends the step,
    and `zero_grad()` finds nothing. Parameters, states and the numbers that learning rate schedulers set are bit by bit
    those of the ordinary loop with the same optimizer. Its `state_dict` is also the same.

    There is one backward pass for each step, and nothing can read gradients between the two: functions that try to,
    such as `torch.nn.utils.clip_grad_norm_`, are refused. Values can be clipped by `register_hook` of each parameter. A
    forward pass between backward and step would read parameters that have been stepped already, as would a backward
    that reads a parameter by `detach()`.

    Parameters
    ----------
    optimizer
        Any optimizer whose step of a parameter needs nothing of the others. It still holds the parameters.

    Returns
    -------
    Optimizer
        The same object.

    Raises
    ------
    InputError
        For optimizers with a closure, as LBFGS, or whose step of a parameter depends on others, and for parameters
        within `DistributedDataParallel`. In backward where a parameter receives a second gradient before
        `optimizer.step()`; in `optimizer.step()` where a `torch.amp.GradScaler` calls it; and where gradients are read
        before it.

    Examples
    --------
    >>> optimizer = placewright.step_in_backward(torch.optim.AdamW(model.parameters()))  # doctest: +SKIP
    """
    if optimizer in _STEPPING:
        raise InputError(f"this {type(optimizer).__name__} steps in backward already; call step_in_backward once")
    if not is_offloaded(optimizer):
        check_steps_alone(optimizer, "a step in backward")
    _check_not_reduced(optimizer)
    _STEPPING[optimizer] = _Stepping(optimizer)
    return optimizer


def is_in_backward(optimizer: Optimizer) -> bool:
    """True if an optimizer steps in backward."""
    return optimizer in _STEPPING


def optimizers_in_backward(parameters: Iterable[torch.Tensor]) -> list[Optimizer]:
    """The optimizers that step any of these parameters in backward."""
    known = {id(each) for each in parameters}
    return [each for each in _STEPPING if any(id(parameter) in known for _, parameter in each_parameter(each))]


class SpentGradient(torch.Tensor):
    """The gradient of a parameter that has been stepped, until the step ends. It takes no memory, and refuses all
    computation: code that finds no gradient at all, such as clipping by norm, would silently go on."""

    @staticmethod
    def __new__(cls, parameter: torch.Tensor) -> SpentGradient:
        made: SpentGradient = torch.Tensor._make_wrapper_subclass(
            cls, parameter.shape, strides=parameter.stride(), dtype=parameter.dtype, device=parameter.device
        )
        return made

    def __repr__(self, **_: Any) -> str:
        return "SpentGradient()"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuses any computation."""
        raise InputError(
            f"a parameter has been stepped in backward, and its gradient is gone, which {func} is to use; call "
            "backward once for each step, and leave out clipping by norm and GradScaler, or leave step_in_backward out"
        )


def gradient_of(parameter: torch.Tensor) -> torch.Tensor | None:
    """The gradient of a parameter, where it takes memory."""
    return None if isinstance(parameter.grad, SpentGradient) else parameter.grad


class _Stepping:
    """The hooks that step the parameters of one optimizer; they live as long as the optimizer.

    stepped: identities of parameters since its last step. groups: by identities of their parameters.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._stepped: set[int] = set()
        self._is_in_step = False
        self._groups: dict[int, dict[str, Any]] = {}
        # With this a GradScaler passes its numbers to any optimizer, not only to fused ones, so that they are seen.
        optimizer._step_supports_amp_scaling = True
        # First of all hooks, before another one uses the gradients.
        begin = optimizer.register_step_pre_hook(self._begin)
        optimizer._optimizer_step_pre_hooks.move_to_end(begin.id, last=False)
        optimizer.register_step_post_hook(self._end)
        # Parameters that are frozen now are stepped by the optimizer's own step.
        trained = [each for _, each in each_parameter(optimizer) if each.requires_grad]
        hooks = [each.register_post_accumulate_grad_hook(self._step) for each in trained]
        weakref.finalize(optimizer, _remove, hooks)

    def _step(self, parameter: torch.Tensor) -> None:
        optimizer = self._optimizer()
        # PyTorch also calls it where a graph has given the gradient to its parameter by itself, and returned none.
        if optimizer is None or gradient_of(parameter) is None:
            return
        if not self._groups:
            _check_not_reduced(optimizer)
        if not self._stepped:
            # `load_state_dict` makes new groups.
            self._groups = {id(each): group for group, each in each_parameter(optimizer)}
        if id(parameter) in self._stepped:
            raise InputError(
                f"a parameter gets a second gradient before {type(optimizer).__name__}.step(), and was stepped by the "
                "first; call backward once for each step, or leave step_in_backward out to accumulate gradients"
            )
        if (group := self._groups.get(id(parameter))) is not None:
            self._stepped.add(id(parameter))
            step_parameter(optimizer, group, parameter)
            # Within a step a closure has called backward, and the optimizer must find no gradient.
            parameter.grad = None if self._is_in_step else SpentGradient(parameter)

    def _begin(self, optimizer: Optimizer, *_: Any) -> None:
        if hasattr(optimizer, "found_inf"):
            raise InputError(
                "GradScaler would scale gradients down that have been used in backward already; leave it out and train "
                "in bfloat16, or leave step_in_backward out"
            )
        self._is_in_step = True
        self._drop(optimizer)

    def _end(self, *_: Any) -> None:
        # Runs after a closure, whose backward belongs to this step.
        self._stepped.clear()
        self._is_in_step = False

    @staticmethod
    def _drop(optimizer: Optimizer) -> None:
        for _, parameter in each_parameter(optimizer):
            if isinstance(parameter.grad, SpentGradient):
                parameter.grad = None


def _remove(hooks: Iterable[Any]) -> None:
    for hook in hooks:
        hook.remove()


_STEPPING: weakref.WeakKeyDictionary[Optimizer, _Stepping] = weakref.WeakKeyDictionary()


def _check_not_reduced(optimizer: Optimizer) -> None:
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    own = {id(parameter) for _, parameter in each_parameter(optimizer)}
    for wrapper in [each for each in gc.get_objects() if issubclass(type(each), DistributedDataParallel)]:
        if any(id(each) in own for each in wrapper.parameters()):
            raise InputError(
                "DistributedDataParallel reduces gradients after a step in backward would have used them; leave "
                "step_in_backward out, or shard by FSDP2"
            )
