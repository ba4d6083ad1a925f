"""The order of what torch.compile compiles: `placewright.inductor_pass`."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from placewright.support.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from placewright.api.inductor import InductorPass
    from placewright.plans.record import Plan


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
