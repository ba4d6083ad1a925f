"""An optimizer's step of one parameter alone, and a check that such steps equal its step of all parameters.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves, tree_map_only

from placewright.execution.pytorch.data_parallel import local
from placewright.execution.pytorch.places import first_line
from placewright.support.errors import InputError

#: For the small copies that are stepped for comparison: elements in each dimension, and parameters of each number of
#: dimensions in a group.
_FEW = 2


def own_step(optimizer: Optimizer) -> Callable[[Any], Any]:
    """The step of the optimizer's class, without hooks and without what replaced it."""
    step: Any = type(optimizer).step
    found: Callable[[Any], Any] = getattr(step, "__wrapped__", step)
    return found


def step_alone(optimizer: Optimizer, group: dict[str, Any], parameter: torch.Tensor) -> None:
    """The optimizer's step of one parameter of one of its groups."""
    alone: Any = object.__new__(type(optimizer))
    vars(alone).update(vars(optimizer))
    alone.param_groups = [{**group, "params": [parameter]}]
    own_step(optimizer)(alone)


def each_parameter(optimizer: Optimizer) -> Iterator[tuple[dict[str, Any], torch.Tensor]]:
    """Each parameter, with its group."""
    return ((group, parameter) for group in optimizer.param_groups for parameter in group["params"])


def check_steps_alone(optimizer: Optimizer, what: str) -> None:
    """Raises InputError where steps of single parameters, in another order, would do anything else.

    what: the function that needs such steps. Tried on small copies of the parameters.
    """
    kind = type(optimizer).__name__
    closure = inspect.signature(own_step(optimizer)).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InputError(f"{kind} calls a closure for its step of all parameters; {what} needs another optimizer")
    try:
        is_same = _is_same(optimizer)
    except Exception as error:
        raise InputError(
            f"{kind} does not step a copy of some of its parameters ({first_line(error)}); {what} needs another "
            "optimizer"
        ) from error
    if not is_same:
        raise InputError(
            f"{kind} steps a parameter by what it knows of others or by their order, or keeps its gradient; {what} "
            "needs another optimizer"
        )


def _is_same(optimizer: Optimizer) -> bool:
    devices = {each.device for _, each in each_parameter(optimizer) if each.is_cuda}
    together, apart = _small(optimizer), _small(optimizer)
    settings = [_settings(group) for group in copy.deepcopy(together.param_groups)]
    for seed in (0, 1):
        # Both draw the same random numbers.
        with torch.no_grad(), torch.random.fork_rng([*devices]):
            _draw_gradients(together, seed)
            own_step(together)(together)
        with torch.no_grad(), torch.random.fork_rng([*devices]):
            _draw_gradients(apart, seed)
            for group, parameter in reversed([*each_parameter(apart)]):
                step_alone(apart, group, parameter)
    pairs = zip(each_parameter(together), each_parameter(apart), strict=True)
    changed = any(
        not _equal(before, _settings(group)) for before, group in zip(settings, together.param_groups, strict=True)
    )
    kept = {each.grad.untyped_storage().data_ptr() for _, each in each_parameter(together)}
    states = (each for each in tree_leaves([*together.state.values()]) if isinstance(each, torch.Tensor))
    if any(each.untyped_storage().data_ptr() in kept for each in states):
        return False
    return not changed and all(torch.equal(one, other) for (_, one), (_, other) in pairs)


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        bool(torch.equal(value, other[name])) if isinstance(value, torch.Tensor) else bool(value == other[name])
        for name, value in one.items()
    )


def _small(optimizer: Optimizer) -> Any:
    """The optimizer with copies of parts of some of its parameters, and of their states."""

    def part(tensor: torch.Tensor) -> torch.Tensor:
        cut = local(tensor).detach()[(slice(0, _FEW),) * tensor.dim()]
        return (torch.ones_like(cut, device="cpu") if cut.is_meta else cut).clone()

    small: Any = object.__new__(type(optimizer))
    vars(small).update({name: copy.copy(value) for name, value in vars(optimizer).items()})
    small.param_groups, small.state = [], defaultdict(dict)
    for group in optimizer.param_groups:
        params, taken = [], Counter[int]()
        for parameter in group["params"]:
            taken[parameter.dim()] += 1
            if taken[parameter.dim()] > _FEW:
                continue
            params.append(part(parameter))
            if parameter in optimizer.state:
                small.state[params[-1]] = tree_map_only(torch.Tensor, part, dict(optimizer.state[parameter]))
        small.param_groups.append({**copy.deepcopy(_settings(group)), "params": params})
    return small


def _draw_gradients(optimizer: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in chain.from_iterable(group["params"] for group in optimizer.param_groups):
        dtype = parameter.dtype if parameter.is_complex() else torch.float32
        parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=dtype).to(parameter)
