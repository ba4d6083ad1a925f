"""What profiling a model found and wrote: the records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A tensor handed from one CPU device to another.

    Attributes
    ----------
    size_bytes
        Of the tensor.
    latency_ns
        From the moment it is sent to the next line of the device that waits for it.
    read_ns, own_read_ns
        What the receiver's first op takes that reads it, and what that op takes on what the receiver wrote itself.
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
        As `inspect` calls it.
    device
        The kind of device.
    num_ops
        How many there are.
    alone_ns, shared_ns
        What they take together on one device: while the others are idle, and while all of them compute.
    """

    kind: str
    device: str
    num_ops: int
    alone_ns: int
    shared_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRates:
    """What one device reaches while all of them compute.

    Attributes
    ----------
    name, kind
        Of the device; op times are for the kind.
    flops_per_s
        Of a float32 matrix product.
    bandwidth_bytes_per_s
        Of an addition of tensors that no cache holds.
    least_op_ns
        What the smallest op takes.
    """

    name: str
    kind: str
    flops_per_s: int
    bandwidth_bytes_per_s: int
    least_op_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSummary:
    """What `profile --json` prints.

    Attributes
    ----------
    schema_version
        1.
    name
        Of the graph.
    num_timed, num_known
        How many sorts of ops were timed now, and how many the folder had.
    kinds
        The longest first.
    devices
        With their rates.
    link_latency_ns, link_bandwidth_bytes_per_s
        Between two devices; None for one device, and the bandwidth also where size makes no difference.
    handovers
        What the link was made of, by size; none where the folder had it.
    files
        What each file holds that was written or brought up to date, by its path.
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
