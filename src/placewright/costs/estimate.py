"""Times of all ops on all devices: stated times, a roofline over FLOPs and bytes, measured overrides.

The roofline: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 2009; with the gap
between kernels added to it, and the launch overhead where the device launches its own work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from placewright.costs.flops import NoFormulaError, count_flops
from placewright.costs.measured import apply_measured
from placewright.costs.traffic import count_bytes
from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device, Machine
from placewright.support.errors import InputError, shown
from placewright.support.garbage import collection_paused
from placewright.support.quantities import QUANTITY_LIMIT

_FREE_KINDS = ("view", "input")
#: Float64 division and multiplication have a relative error near 1e-16; less than this is not another nanosecond.
_ROUNDING_NS = 1e-6
#: The time of an op on a device that has no rate for it, until a measured time replaces it.
_UNKNOWN = -1


class TimeOrigin(IntEnum):
    """The source of an op's time on a device. NONE: it takes no time, as views and graph inputs do."""

    NONE = 0
    STATED = 1
    MEASURED = 2
    ROOFLINE = 3
    GUESSED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSources:
    """Number of ops by the source of their time, each on its device. Views and graph inputs are not counted.

    Attributes
    ----------
    stated
        Number of times that the graph states.
    measured
        Number of measured times.
    roofline
        Number of times that the cost model derived from FLOPs and bytes.
    guessed
        Number of times that it derived from bytes alone, since the FLOPs are unknown.
    """

    stated: int
    measured: int
    roofline: int
    guessed: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Costs:
    """The costs of all ops.

    time_ns: int64 [num_ops, num_devices], on the device; launches by a host thread are not included. flops,
    bytes_moved: int64 [num_ops]. origin: int8 [num_ops, num_devices], a TimeOrigin each. without_formula: names of ops
    whose time is a guess: no formula for their kind, or attributes, shapes or dtypes are absent. The known part of
    their work counts, at least the bytes that they move, and so does the gap between kernels. measured: names of ops
    whose time on some device comes from the file of measured times.
    """

    time_ns: NDArray[np.int64]
    origin: NDArray[np.int8]
    flops: NDArray[np.int64]
    bytes_moved: NDArray[np.int64]
    without_formula: tuple[str, ...]
    measured: tuple[str, ...]


def count_sources(origins: NDArray[np.int8]) -> TimeSources:
    """Count times by their source. origins: a TimeOrigin each, in any shape."""
    counts = np.bincount(origins.ravel(), minlength=len(TimeOrigin)).tolist()
    return TimeSources(
        stated=counts[TimeOrigin.STATED],
        measured=counts[TimeOrigin.MEASURED],
        roofline=counts[TimeOrigin.ROOFLINE],
        guessed=counts[TimeOrigin.GUESSED],
    )


@dataclass(frozen=True, kw_only=True)
class _Work:
    """The work of one op, the same on every device. guessed: True if something that its formula needs is absent."""

    flops: int
    bytes_moved: int
    dtype: str | None
    guessed: bool


def estimate_costs(graph: Graph, machine: Machine, measured: Path | None = None) -> Costs:
    """Estimate the costs of every op on every device of the machine; docs/machines.md states the rules.

    measured: a CSV of measured times, see `apply_measured`.
    Raises InputError when an op has no time and a device no rates, when a number overflows, or when the file of
    measured times is unusable.
    """
    works = _works(graph)
    flops = np.array([work.flops for work in works], dtype=np.int64)
    bytes_moved = np.array([work.bytes_moved for work in works], dtype=np.int64)
    estimated = np.array([op.time_ns is None and op.kind not in _FREE_KINDS for op in graph.ops])
    time_ns = np.zeros((len(graph.ops), machine.num_devices), dtype=np.int64)
    time_ns[:] = np.array([op.time_ns or 0 for op in graph.ops], dtype=np.int64)[:, None]
    dtypes = [work.dtype for work, asked in zip(works, estimated, strict=True) if asked]
    time_ns[estimated] = _roofline_ns(flops[estimated], bytes_moved[estimated], dtypes, machine)
    origin = np.repeat(_origins(graph, works)[:, None], machine.num_devices, axis=1)
    if measured is not None:
        origin[apply_measured(measured, graph, machine, time_ns)] = TimeOrigin.MEASURED
    touched = (origin == TimeOrigin.MEASURED).any(axis=1)
    _check_times(graph, machine, time_ns)
    return Costs(
        time_ns=time_ns,
        origin=origin,
        flops=flops,
        bytes_moved=bytes_moved,
        without_formula=tuple(
            op.name for op, work, asked in zip(graph.ops, works, estimated, strict=True) if asked and work.guessed
        ),
        measured=tuple(graph.ops[index].name for index in np.flatnonzero(touched)),
    )


def _origins(graph: Graph, works: list[_Work]) -> NDArray[np.int8]:
    """Return per op the TimeOrigin of its time on a device without a measurement."""

    def origin(op: Op, work: _Work) -> TimeOrigin:
        if op.kind == "view":
            return TimeOrigin.NONE
        if op.time_ns is not None:
            return TimeOrigin.STATED
        if op.kind in _FREE_KINDS:
            return TimeOrigin.NONE
        return TimeOrigin.GUESSED if work.guessed else TimeOrigin.ROOFLINE

    return np.array([origin(op, work) for op, work in zip(graph.ops, works, strict=True)], np.int8)


@collection_paused()
def _works(graph: Graph) -> list[_Work]:
    """Compute the work of every op, once for ops that differ only in names, as those of repeated layers do."""
    looks: dict[tuple[object, ...], int] = {}
    look_of = [looks.setdefault((t.size_bytes, t.shape, t.dtype), len(looks)) for t in graph.tensors]
    known: dict[tuple[object, ...], _Work] = {}
    works = []
    for op in graph.ops:
        same = None if len(set(op.inputs)) == len(op.inputs) else tuple(map(op.inputs.index, op.inputs))
        inputs, outputs = (tuple([look_of[index] for index in indices]) for indices in (op.inputs, op.outputs))
        key = (op.kind, repr(op.attributes), inputs, same, outputs)
        work = known.get(key)
        if work is None:
            work = known[key] = _work(op, graph)
        works.append(work)
    return works


def _work(op: Op, graph: Graph) -> _Work:
    tensors = graph.tensors
    inputs = [tensors[index] for index in dict.fromkeys(op.inputs)]
    outputs = [tensors[index] for index in op.outputs]
    bytes_moved = count_bytes(op, inputs, outputs)
    try:
        flops, guessed = count_flops(op, [tensors[index] for index in op.inputs], outputs), False
    except NoFormulaError:
        flops, guessed = 0, True
    if flops >= QUANTITY_LIMIT or bytes_moved >= QUANTITY_LIMIT:
        label = f"graph '{shown(graph.name)}': op '{shown(op.name)}'"
        raise InputError(f"{label} is too large: {shown(flops)} operations, {shown(bytes_moved)} bytes")
    dtype = compute_dtype(op, inputs, outputs)
    return _Work(flops=flops, bytes_moved=bytes_moved, dtype=dtype, guessed=guessed or (flops > 0 and dtype is None))


def _roofline_ns(
    flops: NDArray[np.int64], bytes_moved: NDArray[np.int64], dtypes: list[str | None], machine: Machine
) -> NDArray[np.int64]:
    """Compute max(compute, memory), rounded up, plus the device's fixed time per op.

    It is int64 [num_ops, num_devices], _UNKNOWN without a rate.
    """
    distinct = list(dict.fromkeys(dtypes))
    row_of = {dtype: row for row, dtype in enumerate(distinct)}
    rows = np.array([row_of[dtype] for dtype in dtypes], dtype=np.int64)
    times = np.empty((len(flops), machine.num_devices), dtype=np.int64)
    for column, device in enumerate(machine.devices):
        if device.is_host:
            times[:, column] = 0  # nothing runs there that takes time
            continue
        peaks = np.array([peak_flops_per_s(device, dtype) or np.nan for dtype in distinct])
        bandwidth = (device.memory_bandwidth_bytes_per_s or np.nan) * device.bandwidth_efficiency
        compute_ns = np.where(flops > 0, flops * 1e9 / (peaks[rows] * device.compute_efficiency), 0)
        busy_ns = np.maximum(compute_ns, bytes_moved * 1e9 / bandwidth)
        whole_ns = np.ceil(np.clip(busy_ns - _ROUNDING_NS, 0, QUANTITY_LIMIT))
        known = ~np.isnan(whole_ns)
        beside_ns = device.kernel_gap_ns + (device.launch_overhead_ns if device.launches_itself else 0)
        times[:, column] = np.where(known, np.where(known, whole_ns, 0).astype(np.int64) + beside_ns, _UNKNOWN)
    return times


def _check_times(graph: Graph, machine: Machine, time_ns: NDArray[np.int64]) -> None:
    for index, column in np.argwhere((time_ns == _UNKNOWN) | (time_ns >= QUANTITY_LIMIT)):
        op, device = graph.ops[index], machine.devices[column]
        label = f"graph '{shown(graph.name)}': op '{shown(op.name)}'"
        if time_ns[index, column] == _UNKNOWN:
            lack = f"states no time and device '{device.name}' ({device.kind}) has no rates for it"
            raise InputError(f"{label} {lack}; on devices with rates, like 2xp100/free, times are estimated")
        raise InputError(f"{label} takes impossibly long on device '{device.name}' ({device.kind})")


_FLOATING = ("float", "bfloat", "complex")
#: cuDNN runs these on tensor cores in TF32 by default when their data is float32; matrix products do not use TF32.
_CUDNN_KINDS = frozenset({"conv", "conv_backward", "rnn", "rnn_backward"})
_INTEGER_MATRIX_KINDS = frozenset({"matmul", "conv"})


def compute_dtype(op: Op, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str | None:
    """Find the key of `Device.peak_flops_per_s` for the op; None when no tensor states a dtype.

    It is the dtype that a fusion, a loop or a conditional states for its body; else the dtype of the first floating
    input, or else output, or else of any tensor: integers count as the device's default. A matrix product or
    convolution whose first input has 8 bits computes in int8.
    """
    if "compute_dtype" in op.attributes:
        return _stated_dtype(op)
    if op.kind in _INTEGER_MATRIX_KINDS and inputs and inputs[0].dtype in ("int8", "uint8"):
        return "int8"
    known = [tensor.dtype for tensor in (*inputs, *outputs) if tensor.dtype is not None]
    dtype = next((dtype for dtype in known if dtype.startswith(_FLOATING)), known[0] if known else None)
    if dtype == "float32" and op.kind in _CUDNN_KINDS:
        return "tfloat32"
    if dtype is not None and dtype.startswith("float8"):
        return "float8"
    return dtype


def _stated_dtype(op: Op) -> str:
    stated = op.attributes["compute_dtype"]
    if not isinstance(stated, str):
        label = f"op '{shown(op.name)}' has compute_dtype = {shown(repr(stated))}"
        raise InputError(f"{label}, which is not the name of a dtype")
    return stated


def dearest_dtype(flops_by_dtype: Mapping[str | None, int], tensors: Iterable[Tensor]) -> dict[str, str]:
    """Return the attribute that states the dtype in which most FLOPs of a body are computed.

    Empty without FLOPs, and if the body's tensors have no other floating dtype, which makes it evident.
    """
    dearest = max(flops_by_dtype, key=lambda dtype: flops_by_dtype[dtype], default=None)
    if dearest is None or not flops_by_dtype[dearest]:
        return {}
    floating = {tensor.dtype for tensor in tensors if tensor.dtype is not None and tensor.dtype.startswith(_FLOATING)}
    return {} if floating == {dearest} else {"compute_dtype": dearest}


def peak_flops_per_s(device: Device, dtype: str | None) -> float | None:
    """Return the device's peak for the dtype; "default" for those it does not list; None if it lists neither.

    tfloat32 is only an option for float32 data, so a device without it uses its float32 rate.
    """
    peaks = device.peak_flops_per_s
    if dtype == "tfloat32" and dtype not in peaks:
        dtype = "float32"
    return peaks.get(dtype or "default", peaks.get("default"))
