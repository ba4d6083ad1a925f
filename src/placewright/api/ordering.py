"""Plans for what torch.compile compiles: `placewright.inductor_pass`, `placewright.inductor_options`."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from placewright.api.arguments import bytes_or_none
from placewright.api.functions import as_machine
from placewright.support.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from placewright.api.inductor import InductorPass
    from placewright.plans.record import Plan

#: Inductor would put some nodes that read the same into one kernel, from which on all lives that they make; hold memory
#: that nothing is in until something of the same size comes; and compute what is read twice where it is read, so that
#: what it is made of lives until then. Only what the plan runs again is to be computed again.
AS_PLANNED = {"cpp.max_horizontal_fusion_size": 1, "allow_buffer_reuse": False, "realize_reads_threshold": 2}

#: What share of the time for their bytes elementwise ops take that Inductor computes in the kernels that read them.
FUSED_SHARE = 0.02


def inductor_pass(plan: Plan | None = None, *, devices: Any = "cpu", **options: Any) -> InductorPass:
    """Make a pass that brings the graphs of `torch.compile` into the order of a plan.

    It goes to Inductor's hook for passes of one's own:
    `torch.compile(model, options={"post_grad_custom_post_pass": placewright.inductor_pass()})`. Inductor then lowers
    and fuses the nodes as it would have; its scheduler keeps their order unless it finds another one with a lower peak,
    or, with the option `reorder_for_peak_memory` off, in any case.

    Parameters
    ----------
    plan
        Of the module that is compiled. Nodes are put in the order of its ops by layer, line of source and pass, since
        Inductor takes ops apart. None: each graph is planned when Inductor compiles it, node by node.
    devices
        Without a plan: the machine that graphs are planned for. An order is for one device.
    options
        Without a plan: as `placewright.plan` takes them; by default for the least peak memory.

    Returns
    -------
    InductorPass
        Its `graphs` tell how many nodes of each graph were planned.

    Raises
    ------
    MissingExtraError
        Without PyTorch.
    InputError
        Where options are given beside a plan, which is made already.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("PyTorch", "torch", "a pass for Inductor")
    if plan is not None and options:
        raise InputError(f"the plan is made already; leave out {', '.join(options)}")
    from placewright.api.inductor import InductorPass

    return InductorPass(plan, devices, options if plan is not None else {"objective": "peak-memory", **options})


def inductor_options(
    *,
    memory_limit: int | str,
    devices: Any = "cpu",
    fused_share: float = FUSED_SHARE,
    keep: Sequence[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """Make options of `torch.compile` with which a training step keeps a memory limit.

    `torch.compile(model, options=placewright.inductor_options(memory_limit="8GiB"))`. Each graph of forward and
    backward that PyTorch captures is planned as Inductor gets it: which results are saved for backward, and which are
    computed again, and when. Where what PyTorch would choose keeps the limit, it is left at that. Graphs without a
    backward pass stay as they are.

    Parameters
    ----------
    memory_limit
        Bytes, or a size like "8GiB", for parameters, arguments, what forward saves, gradients and results of a graph.
        An optimizer's state is not part of it.
    devices
        The machine that graphs are planned for, of one device.
    fused_share
        What share of the time for their bytes ops take that Inductor computes inside of the kernels that read them:
        elementwise ops, copies and fills. 1 is a clock for kernels of their own.
    keep
        Globs over names of nodes and modules: these run once.
    options
        As `placewright.plan` takes them: `time_limit`, `seed`.

    Returns
    -------
    dict
        `custom_partitioner_fn`, a `MemoryPartitioner`, whose `graphs` hold the plans, and what keeps Inductor to their
        order.

    Raises
    ------
    MissingExtraError
        Without PyTorch.
    InputError
        For a limit or devices that are none. From the compiled module, where no plan keeps the limit, sizes are open,
        or an op does something beside what it returns.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("PyTorch", "torch", "options for Inductor")
    from placewright.api.inductor_memory import MemoryPartitioner

    machine = as_machine(devices)
    if machine.num_devices != 1:
        raise InputError(f"Inductor compiles for one device; devices names {machine.num_devices}")
    if (limit := bytes_or_none("memory_limit", memory_limit)) is None:
        raise InputError("memory_limit is None; it must be bytes or a size like '8GiB'")
    partitioner = MemoryPartitioner(machine, limit, fused_share, keep, options)
    return {"custom_partitioner_fn": partitioner, **AS_PLANNED}
