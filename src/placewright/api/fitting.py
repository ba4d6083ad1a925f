"""`placewright.fit`: training steps of a PyTorch module that keep a memory limit."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from placewright.api.running import check_module, compile
from placewright.support.errors import InputError, MissingExtraError, shown
from placewright.support.quantities import bytes_or_none

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from placewright.api.compiled import Compiled
    from placewright.api.fitted_module import FittedModule

#: Ops are computed by PyTorch's own kernels, or by those that Inductor writes.
BACKENDS = ("eager", "inductor")
#: Elementwise ops that Inductor computes in the kernels that read them take this share of the time for their bytes.
_FUSED_SHARE = 0.02


@overload
def fit(model: nn.Module, args: int | str, *, backend: Literal["inductor"], **options: Any) -> FittedModule: ...
@overload
def fit(model: nn.Module, args: Any = None, memory_limit: int | str | None = None, **options: Any) -> Compiled: ...
def fit(
    model: nn.Module,
    args: Any = None,
    memory_limit: int | str | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    loss: Callable[[Any], Any] | None = None,
    optimizer: Optimizer | None = None,
    backend: str = "eager",
    **options: Any,
) -> Compiled | FittedModule:
    """Keep a training step of a PyTorch module within a memory limit, on the device where the module lies.

    Where the step does not fit, some of its ops run again, so that what they make need not be held meanwhile: those
    that slow the step least. Results and gradients are the module's.

    `fit(model, args, memory_limit)` returns a step to call, which PyTorch's own kernels compute.
    `fit(model, memory_limit, backend="inductor")` returns a module in place of the model for any training loop, and
    Inductor compiles its forward and backward.

    Parameters
    ----------
    model
        All of its parameters and buffers lie on one device: the CPU, or one GPU. A step runs it in training mode.
    args, kwargs
        The arguments with which a step calls it; one tensor means a tuple of it. Without them it is planned at the
        first call. Other shapes are planned when they first occur, and refused as here where nothing fits.
    memory_limit
        Bytes, or text like "8GiB", for parameters, gradients, activations and the states of `optimizer` together; the
        second argument where there are no `args`. Gradients that exist before a step count as well; when they first
        occur, the step is planned anew.
    loss
        Makes a scalar of the module's output for a step; by default its `.loss`, or the scalar it returns, or the sum
        of the means of what it returns.
    optimizer
        An optimizer of any class of `torch.optim` that holds the module's parameters. Its states count, and so does
        the memory of its own step. A step also makes the optimizer's step, and sets the gradients to none. A module
        that Inductor compiles counts any optimizer from its first step on.
    backend
        "eager" or "inductor".
    options
        For "eager" as `placewright.compile` takes them: `keep`, `split`, `profile`, `evaluations` and so on. For
        "inductor": `split`; `keep`, globs over names of nodes and modules that run once; `fused_share`, the share of
        the time for their bytes that elementwise ops, copies and fills take where Inductor computes them inside the
        kernels that read them, 0.02 by default; and `time_limit` and `seed` of the search.

    Returns
    -------
    Compiled or FittedModule
        A call of the first is a training step. It returns the loss and adds to the gradients; `plan.reruns` lists what
        runs again. The second is like the result of `torch.compile`, with `graphs` and `peak_bytes`.

    Raises
    ------
    InputError
        Where no plan is found that fits: one sentence that says what is missing, and whether another one could fit.
        Also as `compile` raises it.
    DeviceError, MissingExtraError
        As `compile` raises them.

    Examples
    --------
    >>> step = placewright.fit(model, (inputs, labels), "8GiB", optimizer=optimizer)  # doctest: +SKIP
    >>> loss = step(inputs, labels)  # doctest: +SKIP
    >>> model = placewright.fit(model, "8GiB", backend="inductor")  # doctest: +SKIP
    """
    if memory_limit is None and isinstance(args, int | str):
        args, memory_limit = None, args
    if (limit := bytes_or_none("memory_limit", memory_limit)) is None:
        raise InputError("memory_limit is None; it must be bytes or a size like '8GiB'")
    if backend not in BACKENDS:
        raise InputError(f"backend is {shown(backend)}; it is one of {', '.join(BACKENDS)}")
    if backend == "inductor":
        if args is not None or kwargs or loss is not None:
            raise InputError(
                "backend='inductor' gives a module that is planned at its first call; leave out args, kwargs and loss"
            )
        return _fitted_module(model, limit, optimizer, **options)
    return compile(
        model,
        args,
        devices=_device_of(model),
        kwargs=kwargs,
        training=True,
        loss=loss,
        optimizer=optimizer,
        memory_limit=limit,
        **options,
    )


def _fitted_module(
    model: nn.Module,
    limit: int,
    optimizer: Optimizer | None,
    *,
    fused_share: float = _FUSED_SHARE,
    keep: Sequence[str] = (),
    split: bool = False,
    **options: Any,
) -> FittedModule:
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("PyTorch", "torch", "running a plan")
    from placewright.api.fitted_graphs import Limit
    from placewright.api.fitted_module import FittedModule
    from placewright.execution.pytorch.machine import torch_machine

    kept = Limit(
        memory_limit=limit,
        machine=torch_machine(_device_of(check_module(model))),
        fused_share=fused_share,
        keep=keep,
        options=options,
        split=split,
    )
    return FittedModule(model, kept, () if optimizer is None else (optimizer,))


def _device_of(model: nn.Module) -> str:
    """The name of the device that holds the module."""
    found = {str(tensor.device) for tensor in (*model.parameters(), *model.buffers())}
    if len(found) > 1:
        raise InputError(f"the module lies on {', '.join(sorted(map(shown, found)))}; fit is for one device")
    device = next(iter(found), "cpu")
    return device if ":" in device else f"{device}:0"
