"""`placewright.compile_onnx`: an ONNX model that ONNX Runtime runs as planned."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placewright.support.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from placewright.api.onnx_compiled import OnnxCompiled
    from placewright.plans.record import Plan


def compile_onnx(
    path: str | Path,
    *,
    devices: str | Sequence[str],
    dims: Mapping[str, int] | None = None,
    feeds: Mapping[str, Any] | None = None,
    plan: Plan | None = None,
    measured: str | Path | None = None,
    **options: Any,
) -> OnnxCompiled:
    """Plan an ONNX model for devices of this host, and return it as something to call.

    ONNX Runtime optimises the model, its nodes are timed on this host, the plan is made for what is left of it, and
    each device runs its part in the order of the plan: a session for every part between two transfers, called by a
    thread that is pinned to the device's cores.

    Parameters
    ----------
    path
        An ONNX file.
    devices
        "cpu:0,cpu:1" or a list of such names: they share the cores that this process may use.
    dims
        Sizes of dimensions that the model leaves open, as `load_graph` takes them.
    feeds
        What its nodes are timed with, an array for each input, by name; by default random ones.
    plan
        A plan for this model, optimised or as the file has it, to be run instead of one that is made now. Its devices
        are taken to be `devices`, in their order.
    measured
        A CSV file of op times: read where it exists, else measured and written. None: measured every time.
    options
        As `placewright.plan` takes them: `objective`, `memory_limit`, `time_limit`, `pins` and so on.

    Returns
    -------
    OnnxCompiled
        To be called with an array for each input, by name.

    Raises
    ------
    MissingExtraError
        Without ONNX or ONNX Runtime.
    InputError
        When a device does not exist here, the model cannot be read or run, or the plan is for another one.
    """
    for package, extra in (("onnx", "onnx"), ("onnxruntime", "onnxruntime")):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, extra, "running an ONNX model")
    from placewright.api.onnx_compiled import OnnxCompiled
    from placewright.execution.devices import check_device_count, local_machine

    machine = local_machine(devices)
    if plan is not None:
        check_device_count(plan, machine)
        if plan.reruns or plan.moves:
            raise InputError("ops of the plan run again, and ONNX Runtime runs each node once; plan with keep=['*']")
    return OnnxCompiled(
        Path(path),
        machine,
        dims=dims or {},
        feeds=feeds,
        given=plan,
        measured=None if measured is None else Path(measured),
        options=options,
    )
