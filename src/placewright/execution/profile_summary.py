"""Records of what profiling a model found and wrote."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A tensor handed from one CPU device to another.

    Attributes
    ----------
    size_bytes
        The size of the tensor.
    latency_ns
        The time from sending it to the next line of the device that waits for it.
    read_ns, own_read_ns
        The time of the receiver's first op that reads it, and of that op on a tensor that the receiver wrote itself.
    """

    size_bytes: int
    latency_ns: int
    read_ns: int
    own_read_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTimes:
    """All ops of one kind in a model, on one kind of device.

    Attributes
    ----------
    kind
        Its name in `inspect`.
    device
        The kind of device.
    num_ops
        The number of ops.
    alone_ns, shared_ns
        Their total time on one device: while the others are idle, and while all of them compute.
    """

    kind: str
    device: str
    num_ops: int
    alone_ns: int
    shared_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRates:
    """The rates that one device reaches while all of them compute.

    Attributes
    ----------
    name, kind
        Name and kind of the device; op times are for the kind.
    flops_per_s
        The rate of a float32 matrix product.
    bandwidth_bytes_per_s
        The bandwidth of an addition of tensors that no cache holds.
    least_op_ns
        The time of the smallest op.
    """

    name: str
    kind: str
    flops_per_s: int
    bandwidth_bytes_per_s: int
    least_op_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSummary:
    """The record that `profile --json` prints.

    Attributes
    ----------
    schema_version
        1.
    name
        The name of the graph.
    num_timed, num_known
        The number of sorts of ops that were timed now, and that the folder had.
    kinds
        Kinds of ops, the longest first.
    devices
        The devices with their rates.
    link_latency_ns, link_bandwidth_bytes_per_s
        The link between two devices; None for one device, and the bandwidth also where size makes no difference.
    handovers
        The measurements for the link, by size; none where the folder had it.
    files
        The content of each file that was written or updated, by its path.
    """

    schema_version: int
    name: str
    num_timed: int
    num_known: int
    kinds: tuple[KindTimes, ...]
    devices: tuple[DeviceRates, ...]
    link_latency_ns: int | None
    link_bandwidth_bytes_per_s: int | None
    handovers: tuple[Handover, ...]
    files: dict[str, str]
