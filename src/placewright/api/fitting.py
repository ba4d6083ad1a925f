"""`placewright.fit`: a training step of a PyTorch module that keeps a memory limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from placewright.api.arguments import bytes_or_none
from placewright.api.running import compile
from placewright.support.errors import InputError, shown

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from placewright.api.compiled import Compiled


def fit(
    model: nn.Module,
    args: Any,
    memory_limit: int | str,
    *,
    kwargs: Mapping[str, Any] | None = None,
    loss: Callable[[Any], Any] | None = None,
    optimizer: Optimizer | None = None,
    **options: Any,
) -> Compiled:
    """Compile a training step of a PyTorch module that stays within a memory limit, on the device where it lies.

    Where the step does not fit, some of its ops run again, so that what they make need not be held meanwhile: those
    for which the step gets least slower. Results and gradients are the module's.

    Parameters
    ----------
    model
        Run in training mode. All of its parameters and buffers lie on one device: the CPU, or one GPU.
    args, kwargs
        What it is called with; one tensor stands for a tuple of it. Other shapes are planned when they first come, and
        refused as here where nothing fits.
    memory_limit
        Bytes, or text like "8GiB", for parameters, gradients, activations and the states of `optimizer` together.
        Gradients that are there before a step count as well; where they come first, the step is planned anew.
    loss
        Makes a scalar of the module's output; by default its `.loss`, or the scalar it returns, or the sum of the means
        of what it returns.
    optimizer
        Of any class of `torch.optim`, that holds the module's parameters: a call makes its step and sets the gradients
        to none. Its states count, and so do those of its own step.
    options
        As `placewright.compile` takes them: `keep`, `profile`, `evaluations` and so on.

    Returns
    -------
    Compiled
        A call is a training step. It returns the loss and adds to the gradients; `plan.reruns` are what runs again.

    Raises
    ------
    InputError
        Where no plan is found that fits: one sentence that says what is missing, and whether another one could fit. As
        `compile` raises it, too.
    DeviceError, MissingExtraError
        As `compile` raises them.

    Examples
    --------
    >>> step = placewright.fit(model, (inputs, labels), "8GiB", optimizer=optimizer)  # doctest: +SKIP
    >>> loss = step(inputs, labels)  # doctest: +SKIP
    """
    if (limit := bytes_or_none("memory_limit", memory_limit)) is None:
        raise InputError("memory_limit is None; it must be bytes or a size like '8GiB'")
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


def _device_of(model: nn.Module) -> str:
    """The name of the device that holds the module."""
    found = {str(tensor.device) for tensor in (*model.parameters(), *model.buffers())}
    if len(found) > 1:
        raise InputError(f"the module lies on {', '.join(sorted(map(shown, found)))}; fit is for one device")
    device = next(iter(found), "cpu")
    return device if ":" in device else f"{device}:0"
