"""The memory that an optimizer holds and takes for its step, found by such a step on other tensors.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

from placewright.execution.pytorch.data_parallel import local
from placewright.execution.pytorch.offloaded_states import is_offloaded
from placewright.execution.pytorch.parameter_steps import each_parameter, own_step, step_alone
from placewright.execution.pytorch.step_in_backward import is_in_backward
from placewright.support.errors import InputError
from placewright.support.quantities import format_bytes


@dataclass(frozen=True, kw_only=True)
class OptimizerMemory:
    """The memory of an optimizer. state_bytes: of the states that it has, or will have after its first step, without
    those in the host's memory. step_bytes: the most that its step has in use besides parameters, gradients and states.
    gradient_bytes: of the gradients that exist at once."""

    state_bytes: int
    step_bytes: int
    gradient_bytes: int


def optimizer_memory(optimizer: torch.optim.Optimizer) -> OptimizerMemory:
    """The memory that the optimizer holds and takes. A step that needs values is made on zeros in the host's memory;
    for one that needs more than that, such as a closure, only the present states count."""
    gradients = [each.nbytes for _, each in each_parameter(optimizer)]
    gradient_bytes = max(gradients) if is_in_backward(optimizer) else sum(gradients)
    for device in ("meta", "cpu"):
        try:
            states, step_bytes = _of_steps(optimizer, _alone(optimizer, device))
        except Exception:
            continue
        return OptimizerMemory(state_bytes=states, step_bytes=step_bytes, gradient_bytes=gradient_bytes)
    return OptimizerMemory(state_bytes=state_bytes(optimizer), step_bytes=0, gradient_bytes=gradient_bytes)


def _of_steps(optimizer: torch.optim.Optimizer, alone: torch.optim.Optimizer) -> tuple[int, int]:
    """Bytes of states, and what the step takes besides, found by another optimizer: of each parameter by itself where
    the optimizer steps so."""
    all_fused = all(group.get("fused") for group in optimizer.param_groups)

    def taken(step: Callable[..., Any], *given: Any) -> int:
        before = _bytes_of(alone.state.values())
        with torch.no_grad(), _Counting() as counted:
            step(*given)
        made = _bytes_of(alone.state.values()) - before
        return 0 if all_fused else max(0, counted.most - max(0, made))

    if not (is_offloaded(optimizer) or is_in_backward(optimizer)):
        step_bytes = taken(own_step(optimizer), alone)
        return _bytes_of(alone.state.values()), step_bytes
    steps = [taken(step_alone, alone, group, parameter) for group, parameter in each_parameter(alone)]
    states = [_bytes_of([alone.state.get(parameter, {})]) for _, parameter in each_parameter(alone)]
    if not is_offloaded(optimizer):
        return sum(states), max(steps)
    # States of another parameter arrive while one is stepped; in backward the order differs.
    two = sum(sorted(states)[-2:])
    return 0, max(step + min(two, own + max(states)) for step, own in zip(steps, states, strict=True))


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the states that the optimizer has now, without those in the host's memory."""
    return 0 if is_offloaded(optimizer) else _bytes_of(optimizer.state.values())


def needed_bytes(model: nn.Module, optimizer: torch.optim.Optimizer, found: OptimizerMemory) -> int:
    """Bytes in use in the optimizer's step: what the module holds, gradients, states and temporaries."""
    held: dict[int, int] = {id(each): each.nbytes for each in (*model.parameters(), *model.buffers())}
    return sum(held.values()) + found.gradient_bytes + found.state_bytes + found.step_bytes


def check_step_fits(model: nn.Module, optimizer: torch.optim.Optimizer, limit: int, found: OptimizerMemory) -> None:
    """Raises InputError where the optimizer's step alone exceeds a limit."""
    if (needed := needed_bytes(model, optimizer, found)) > limit:
        raise InputError(
            f"the optimizer's step needs at least {format_bytes(needed)}, for parameters, their gradients, its states "
            f"and what it computes with, and the limit is {format_bytes(limit)}"
        )


def _alone(optimizer: torch.optim.Optimizer, device: str) -> torch.optim.Optimizer:
    """The optimizer with parameters, gradients and states of its own on a device; step counts stay the same."""
    known: dict[int, Any] = {}

    def other(tensor: Any) -> Any:
        if not tensor.dim() and tensor.device.type == "cpu":
            return tensor.clone()
        return known.setdefault(id(tensor), torch.zeros_like(tensor, device=device, requires_grad=False))

    alone = object.__new__(type(optimizer))
    vars(alone).update({name: copy.copy(value) for name, value in vars(optimizer).items()})
    alone.param_groups = []
    alone.state = defaultdict(dict)
    for group in optimizer.param_groups:
        params = [other(parameter) for parameter in group["params"]]
        for parameter, own in zip(group["params"], params, strict=True):
            own.grad = torch.zeros_like(own) if parameter.requires_grad else None
            if parameter in optimizer.state:
                alone.state[own] = tree_map_only(torch.Tensor, other, dict(optimizer.state[parameter]))
        # A fused step makes no tensors besides its results, and has no kernel for tensors without memory.
        foreach = False if group.get("fused") else _foreach(group)
        settings = {"foreach": foreach, "fused": False} if "fused" in group else {"foreach": foreach}
        alone.param_groups.append({**group, **(settings if "foreach" in group else {}), "params": params})
    return alone


def _foreach(group: dict[str, Any]) -> bool:
    """True if a group is stepped all at once, which PyTorch does by default on GPUs."""
    asked = group.get("foreach")
    return bool(any(parameter.is_cuda for parameter in group["params"]) if asked is None else asked)


def _bytes_of(states: Any) -> int:
    storages = {
        leaf.untyped_storage()._cdata: int(leaf.untyped_storage().nbytes())
        for state in states
        for leaf in map(local, tree_leaves(dict(state)))
        if isinstance(leaf, torch.Tensor) and leaf.dim()
    }
    return sum(storages.values())


class _Counting(TorchDispatchMode):
    """Counts the bytes of tensors that ops make and that are alive, and their maximum."""

    def __init__(self) -> None:
        super().__init__()
        self._alive = WeakIdKeyDictionary()
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Makes the call and counts."""
        given = {id(leaf.untyped_storage()) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                if id(storage) not in given:
                    self._alive[storage] = int(storage.nbytes())
        self.most = max(self.most, sum(self._alive.values()))
        return result
