"""`placewright.compile`, a PyTorch module that runs as planned, and `placewright.profile`, its times on this host."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placewright.importers.torch.module import positional
from placewright.support.errors import InputError, MissingExtraError, shown

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from placewright.api.compiled import Compiled
    from placewright.api.questions import Answer
    from placewright.execution.profile_summary import ProfileSummary
    from placewright.plans.record import Plan


def compile(
    model: nn.Module,
    args: Any = (),
    *,
    devices: str | Sequence[str],
    kwargs: Mapping[str, Any] | None = None,
    training: bool = False,
    loss: Callable[[Any], Any] | None = None,
    optimizer: Optimizer | None = None,
    plan: Plan | None = None,
    measured: str | Path | None = None,
    profile: str | Path | None = None,
    inductor: bool = False,
    cuda_graph: bool = False,
    measure_placements: bool = False,
    split: bool = False,
    verify: bool = True,
    **options: Any,
) -> Compiled:
    """Plan a PyTorch module for devices of this host, and return it as something to call.

    PyTorch captures the module, every op of it is timed on this host, the plan is found, and each device gets a worker
    thread that runs its part; a single CPU device computes in the calling thread. A call returns what the module
    returns, bit by bit where one device computes an op with as many threads; a training step returns the loss and adds
    to the gradients of the parameters. PyTorch guards what the module's Python reads: after a change it captures the
    module anew. Where PyTorch captures several graphs, these are planned one after the other.

    Parameters
    ----------
    model
        Run in evaluation mode, or in training mode with `training`.
    args, kwargs
        Its arguments; other shapes are planned when they first occur. One tensor means a tuple of it. None for `args`:
        planned at the first call.
    devices
        "cpu:0,cpu:1" or a list of such names: they share the cores that this process may use. "cuda:0" is a GPU, and
        "cuda:0/0" and "cuda:0/1" are streams of one; they may be combined with CPU devices.
    training
        Whether a call is a training step: forward, backward, and the step of `optimizer` where one is given.
    loss
        Makes a scalar of the module's output; by default its `.loss`, or the scalar it returns, or the sum of the means
        of what it returns.
    optimizer
        Its `step` and `zero_grad` are called after each backward pass. Its states count towards a `memory_limit`.
    plan
        A plan for this module and these arguments, to be run instead of one that is made now. Its devices are taken to
        be `devices`, in their order.
    measured
        A CSV file of op times: read where it exists, else measured and written. None: measured every time.
    profile
        A folder of `placewright.profile`: ops it has are not timed again, and new times are kept there.
    inductor
        Whether Inductor compiles ops that one device runs without waiting in between, where that is measured to be
        faster. It takes a second or more for each such region, needs a C++ compiler, and gives other last bits.
    cuda_graph
        Whether a step on streams of one GPU is recorded once, as a CUDA graph, and then launched at once: no op waits
        for its launch, and a call returns when the step has been launched. The module must be on that GPU.
    measure_placements
        Whether a solver that tries placements (`post`, `colocrl`, `annealed-placement` and so on) runs each of them
        here and learns from the time it takes, instead of simulating it: ten steps, the first of which does not count.
        For small networks, on CPU devices, and with `evaluations` or `time_limit`.
    split
        Whether a stretch of a training step, such as the loss, may run in parts, part after part, where that takes less
        memory than running ops again, or less time. Sums over parts have other last bits. For one device and a
        `memory_limit`.
    verify
        Whether the first call is compared with eager's on a copy of the module, where there is room for one: results
        that are rounded otherwise are warned of, other results are refused.
    options
        As `placewright.plan` takes them: `objective`, `memory_limit`, `time_limit`, `pins` and so on. Where no plan
        keeps a given `memory_limit`, the module is refused, now or when other shapes occur; a plan over its limit runs
        as `plan`.

    Returns
    -------
    Compiled
        To be called like the module.

    Raises
    ------
    MissingExtraError
        Without PyTorch.
    InputError
        When a device does not exist here, PyTorch cannot trace the module, an option is wrong, or no plan is found that
        keeps a memory limit.
    DeviceError
        When a device has too little memory, or a GPU fails; steps raise it too.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("PyTorch", "torch", "running a plan")
    # Some library draws from Python's generator when it is imported.
    drawn = random.getstate()
    from placewright.api.compiled import Compiled
    from placewright.api.local_devices import Devices
    from placewright.api.module_capture import Call
    from placewright.api.planned_graphs import Wishes
    from placewright.api.profiles import Profile

    random.setstate(drawn)
    if not training and (loss is not None or optimizer is not None):
        raise InputError("a loss and an optimizer are for training steps; training=True makes one")
    if cuda_graph and optimizer is not None:
        raise InputError("the optimizer's step is not part of a CUDA graph; leave the optimizer or cuda_graph out")
    known = Profile(None if profile is None else Path(profile))
    wishes = Wishes(
        options=options,
        given=plan,
        measured=None if measured is None else Path(measured),
        inductor=inductor,
        measure_placements=measure_placements,
        split=split,
    )
    machine = known.machine(devices, recorded=cuda_graph)[0]
    call = Call(model=check_module(model), training=training, loss=loss, optimizer=optimizer)
    compiled = Compiled(call, Devices(machine, known), wishes, verify=verify)
    try:
        if args is not None:
            compiled.prepare(*positional(args), **(kwargs or {}))
    except BaseException:
        compiled.close()
        raise
    return compiled


def check_module(model: Any) -> Any:
    """Return the module. Raises InputError for what PyTorch cannot capture."""
    import torch

    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise InputError(
            f"a {type(model).__name__} cannot be compiled, only an nn.Module can: pass the module that it was made "
            "from, or program.module() of an ExportedProgram"
        )
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise InputError(
                f"the module '{shown(name)}' is a TorchScript module, whose code PyTorch does not capture; put the "
                "module it was made from in its place"
            )
    return model


def profile(
    model: nn.Module,
    args: Any = (),
    *,
    devices: str | Sequence[str],
    folder: str | Path,
    kwargs: Mapping[str, Any] | None = None,
    training: bool = False,
    loss: Callable[[Any], Any] | None = None,
    cuda_graph: bool = False,
) -> Answer[ProfileSummary]:
    """Time the ops of a PyTorch module and the links between devices of this host, and keep that in a folder.

    Ops are timed at their place in a step: on one device while the others are idle, and while all devices compute. An
    op that the folder knows by its shapes, strides and settings, from whatever model, is not timed again.

    Parameters
    ----------
    model, args, kwargs, training, loss, cuda_graph
        As `compile` takes them. Parameters, buffers and arguments stay as they are.
    devices
        "cpu:0,cpu:1", "cuda:0" or a list of such names.
    folder
        Receives `devices.toml`, which `plan` takes as devices; the graph, as NAME-MODE.json.gz; its op times, as
        NAME-MODE.csv, which `plan` takes as measured; and `op-library.csv`, the times of all models so far. With
        `cuda_graph` devices and op times go to `devices-recorded.toml` and NAME-MODE-recorded.csv.

    Returns
    -------
    Answer
        `facts` are what `placewright profile --json` prints.

    Raises
    ------
    MissingExtraError
        Without PyTorch.
    InputError
        As `compile` raises it, and when the folder cannot be written or holds something else.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("PyTorch", "torch", "timing ops")
    from placewright.api.profiling import profile_model

    return profile_model(
        model,
        positional(args),
        kwargs or {},
        devices=devices,
        folder=Path(folder),
        training=training,
        loss=loss,
        cuda_graph=cuda_graph,
    )
