"""The machine: devices, the links between them, how transfers share time with computing, and who launches work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from placewright.support.errors import InputError, did_you_mean
from placewright.support.quantities import QUANTITY_LIMIT

TransferModel = Literal["blocking", "overlapped"]
LaunchMode = Literal["host-thread", "device-threads", "graphs"]
MAX_DEVICES = 64
#: The kind of a device that represents the host's memory, to which tensors are moved; nothing else runs there.
HOST_KIND = "host"
#: In a PyTorch program, one Python thread launches for all GPUs.
DEFAULT_LAUNCH: LaunchMode = "host-thread"


@dataclass(frozen=True, kw_only=True)
class Device:
    """Runs one op at a time and holds tensors up to its memory.

    Attributes
    ----------
    name
        Unique in its machine: "gpu0".
    kind
        The preset it came from ("h100-sxm"), or any name; measured times are matched by kind.
    memory_bytes
        Capacity; None for no limit.
    peak_flops_per_s
        Peak arithmetic rate in FLOP/s by dtype ("float32", "float16" ...); "default" serves those not listed. Empty for
        a device whose op times are all given with the graph.
    memory_bandwidth_bytes_per_s
        Bandwidth of the device's own memory; None when op times are given.
    launch_overhead_ns
        Time to launch one op or transfer: of a host thread (see `Machine.launch`), or of the device itself where it
        launches its own work.
    kernel_gap_ns
        Time between two ops on the device, however they are launched; the cost model adds it to every op.
    launches_itself
        True if the device, a CPU for instance, launches its own ops, each before it runs it.
    compute_efficiency, bandwidth_efficiency
        Share of the peak that real kernels reach, in (0, 1].

    Raises
    ------
    InputError
        Naming the device, when one of the numbers is impossible.
    """

    name: str
    kind: str
    memory_bytes: int | None = None
    peak_flops_per_s: Mapping[str, float] = field(default_factory=dict)
    memory_bandwidth_bytes_per_s: float | None = None
    launch_overhead_ns: int = 0
    kernel_gap_ns: int = 0
    launches_itself: bool = False
    compute_efficiency: float = 1.0
    bandwidth_efficiency: float = 1.0

    def __post_init__(self) -> None:
        if self.memory_bytes is not None and not 0 < self.memory_bytes < QUANTITY_LIMIT:
            raise InputError(f"device '{self.name}' has an impossible memory of {self.memory_bytes} bytes")
        if not 0 <= self.launch_overhead_ns < QUANTITY_LIMIT:
            raise InputError(f"device '{self.name}' has an impossible launch overhead of {self.launch_overhead_ns} ns")
        if not 0 <= self.kernel_gap_ns < QUANTITY_LIMIT:
            raise InputError(f"device '{self.name}' has an impossible gap of {self.kernel_gap_ns} ns between kernels")
        rates = [*self.peak_flops_per_s.values(), self.memory_bandwidth_bytes_per_s]
        if any(rate is not None and not 0 < rate < float("inf") for rate in rates):
            raise InputError(f"device '{self.name}' has a rate that is not a positive finite number")
        for share in (self.compute_efficiency, self.bandwidth_efficiency):
            if not 0 < share <= 1:
                raise InputError(f"device '{self.name}' has an efficiency of {share}, outside (0, 1]")

    @property
    def family(self) -> str:
        """The name without the number at its end: "gpu" for "gpu0"."""
        return self.name.rstrip("0123456789") or self.name

    @property
    def is_host(self) -> bool:
        """True if the device is the host's memory, to which tensors are moved."""
        return self.kind == HOST_KIND

    @property
    def is_cpu(self) -> bool:
        """True if the device is a processor of the host."""
        return self.family == "cpu" or self.kind == "cpu" or self.kind.startswith("cpu-")


@dataclass(frozen=True, kw_only=True)
class Link:
    """One direction between two devices.

    Attributes
    ----------
    bandwidth_bytes_per_s
        Rate of one large copy while nothing else uses the link; None for infinite.
    latency_ns
        Time added to every transfer.

    Raises
    ------
    InputError
        When the latency or the bandwidth is impossible.
    """

    bandwidth_bytes_per_s: float | None = None
    latency_ns: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.latency_ns < QUANTITY_LIMIT:
            raise InputError(f"a link has an impossible latency of {self.latency_ns} ns")
        if self.bandwidth_bytes_per_s is not None and not 1 <= self.bandwidth_bytes_per_s < float("inf"):
            raise InputError(f"a link has an impossible bandwidth of {self.bandwidth_bytes_per_s} bytes/s")

    @property
    def inverse_bandwidth(self) -> int:
        """Time per byte in units of 2**-32 ns, rounded to nearest, so that transfer times are exact integers."""
        if self.bandwidth_bytes_per_s is None:
            return 0
        return round(2**32 * 1e9 / self.bandwidth_bytes_per_s)

    def transfer_time_ns(self, size_bytes: int) -> int:
        """Compute latency + size / bandwidth, rounded up to a whole nanosecond.

        Parameters
        ----------
        size_bytes
            Size of the transfer.
        """
        return self.latency_ns + -(-size_bytes * self.inverse_bandwidth // 2**32)


@dataclass(frozen=True, kw_only=True, repr=False)
class Machine:
    """A machine: its devices and the links between them.

    Attributes
    ----------
    name
        Its name in plans and reports.
    devices
        One to 64, with different names.
    links
        [source][destination], one row per device; the diagonal is never used.
    transfer_model
        "blocking" (a transfer occupies both devices) or "overlapped" (links work in parallel with the devices).
    launch
        How work is launched for devices that do not launch it themselves: "host-thread" (one thread for all of them,
        as in a PyTorch program), "device-threads" (a thread for each) or "graphs" (recorded beforehand, no thread).

    Raises
    ------
    InputError
        Naming the machine, when names repeat, links are missing, or a mode is unknown.
    """

    name: str
    devices: tuple[Device, ...]
    links: tuple[tuple[Link, ...], ...]
    transfer_model: TransferModel = "overlapped"
    launch: LaunchMode = DEFAULT_LAUNCH

    def __post_init__(self) -> None:
        count = len(self.devices)
        if not 1 <= count <= MAX_DEVICES:
            raise InputError(f"machine '{self.name}' has {count} devices; placewright plans for 1 to {MAX_DEVICES}")
        if len({device.name for device in self.devices}) != count:
            raise InputError(f"machine '{self.name}' has two devices of one name")
        if len(self.links) != count or any(len(row) != count for row in self.links):
            raise InputError(f"machine '{self.name}' needs {count} x {count} links")
        if self.transfer_model not in ("blocking", "overlapped"):
            raise InputError(f"machine '{self.name}' has the unknown transfer model '{self.transfer_model}'")
        if self.launch not in get_args(LaunchMode):
            known = did_you_mean(str(self.launch), get_args(LaunchMode))
            raise InputError(f"machine '{self.name}' has the unknown way to launch '{self.launch}'{known}")

    def __repr__(self) -> str:
        kinds = Counter(device.kind for device in self.devices)
        sorts = ", ".join(kind if count == 1 else f"{count} x {kind}" for kind, count in kinds.items())
        return f"Machine({self.name!r}: {sorts}, {self.transfer_model} transfers)"

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.devices)

    @cached_property
    def hosts(self) -> tuple[int, ...]:
        """The host thread that launches each device's work; -1 where none does, or where launching takes no time."""
        launched = [device.launch_overhead_ns > 0 and not device.launches_itself for device in self.devices]
        if self.launch == "graphs":
            return (-1,) * len(launched)
        one = self.launch == "host-thread"
        return tuple((0 if one else index) if asks else -1 for index, asks in enumerate(launched))

    def launcher(self, source: int, destination: int) -> int:
        """Find the device whose host thread launches a transfer.

        Parameters
        ----------
        source, destination
            Indices of devices.

        Returns
        -------
        int
            The source, else the destination, or -1 where no host launches for either.
        """
        return next((device for device in (source, destination) if self.hosts[device] >= 0), -1)
