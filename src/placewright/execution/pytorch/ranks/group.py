"""The ranks of a process group: who they are, what they agree on, and the machine that they are.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import median
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from placewright.execution.devices import available_cores, cpu_device
from placewright.execution.pytorch.cuda import places_of
from placewright.execution.pytorch.machine import torch_machine
from placewright.execution.pytorch.places import Place
from placewright.execution.pytorch.ranks.messages import Wire
from placewright.execution.workers import Workers
from placewright.machine import Device, Link, Machine
from placewright.support.errors import InputError, RankError, shown

Found = TypeVar("Found")
#: What one rank waits for while another one times ops and plans.
_SETTING_UP_S = 4 * 3600.0
_SMALL, _LARGE, _REPETITIONS = 1, 2**20, 9


@dataclass(frozen=True, kw_only=True)
class _Host:
    """What each rank tells the others of itself."""

    name: str
    cores: tuple[int, ...]
    torch: str


class Ranks:
    """This process among those that run a plan together, with its threads: one computes, and for each other rank one
    sends and one receives.

    timeout_s: how long a rank waits for another one in a step. kinds: of the devices on which the module's tensors lie.
    gpu: whether this rank computes on a GPU. Making it is a matter of all ranks, and so are `agree`, `from_rank` and
    `machine`. Raises InputError without a process group, or without a backend for such devices.
    """

    def __init__(self, timeout_s: float, kinds: Collection[str] = (), *, gpu: bool = False) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise InputError(
                "devices='ranks' needs a process group: start the script with torchrun and call "
                "torch.distributed.init_process_group('gloo') first"
            )
        # What ranks tell each other lies on the host, whatever the module does.
        self._group = dist.new_group(backend=backend_for({"cpu", *kinds}), timeout=timedelta(seconds=_SETTING_UP_S))
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self.peers = [rank for rank in range(self.count) if rank != self.rank]
        self.wires = {peer: Wire(self._group, peer, timeout_s) for peer in self.peers}
        self._timeout_s = timeout_s
        #: Why there can be no further step, once another rank is lost.
        self._lost: str | None = None
        self._interrupted = False
        self._stop: Callable[[], None] | None = None
        self._hosts: list[_Host] = [_host()] * self.count
        dist.all_gather_object(self._hosts, _host(), group=self._group)
        self._check_alike()
        self.place = rank_place(self.rank, int(os.environ.get("LOCAL_RANK", self.rank)) if gpu else None)
        self.cores = cores_of_rank([(host.name, host.cores) for host in self._hosts], self.rank)
        self.workers = Workers([self.cores] * (1 + 2 * len(self.peers)))

    def _check_alike(self) -> None:
        for rank, host in enumerate(self._hosts):
            if host.torch != self._hosts[0].torch:
                raise InputError(f"rank 0 has PyTorch {self._hosts[0].torch}, rank {rank} has {host.torch}")

    def local_count(self) -> int:
        """How many ranks share the cores that this process may use."""
        mine = self._hosts[self.rank]
        return sum((host.name, host.cores) == (mine.name, mine.cores) for host in self._hosts)

    def agree(self, subject: str, refused: Exception | None) -> None:
        """Makes sure that all ranks are about to do the same. subject: what this one is about to do. refused: why it
        cannot. Raises InputError on every rank where they differ or one refuses, and RankError where one is silent."""
        self.check()
        text = str(refused) if refused else subject
        word = torch.tensor([bool(refused), *hashlib.sha256(text.encode()).digest()], dtype=torch.uint8)
        words = self.exchanged(word)
        if refused is None and all(torch.equal(word, other) for other in words.values()):
            return
        texts = {self.rank: text}
        texts |= {peer: bytes(told.tolist()).decode() for peer, told in self.exchanged(_row(text)).items()}
        refusals = {self.rank: bool(refused)} | {peer: bool(other[0]) for peer, other in words.items()}
        if refused is not None:
            raise refused
        if any(refusals.values()):
            rank = next(rank for rank in sorted(refusals) if refusals[rank])
            raise InputError(f"rank {rank} refused: {texts[rank]}")
        rank = next(rank for rank in sorted(texts) if texts[rank] != texts[0])
        raise InputError(f"all ranks must do the same; rank 0 runs {texts[0]}, rank {rank} runs {texts[rank]}")

    def exchanged(self, word: torch.Tensor) -> dict[int, torch.Tensor]:
        """What each other rank tells this one in exchange."""
        told: dict[int, torch.Tensor] = {}
        jobs: list[Callable[[], None]] = [lambda: None]
        for wire in self.wires.values():
            jobs += [_sending(wire, word), _receiving(wire, told)]
        self.run(jobs, lambda: None)
        return told

    @contextmanager
    def setting_up(self) -> Iterator[None]:
        """Ranks wait longer for each other while modules are captured and plans made."""
        for wire in self.wires.values():
            wire.timeout_s = _SETTING_UP_S
        try:
            yield
        finally:
            for wire in self.wires.values():
                wire.timeout_s = self._timeout_s

    def run(self, jobs: Sequence[Callable[[], None]], stop: Callable[[], None]) -> None:
        """Runs jobs on the threads: the computing one, then a sending and a receiving one for each other rank."""
        self.check()
        self._stop = stop
        if self._interrupted:
            stop()
        try:
            self.workers.run(jobs, stop)
        except RankError as error:
            if error.__cause__ is not None:  # The connection failed, not only the step.
                self._lost = str(error)
            raise
        finally:
            self._stop = None

    @contextmanager
    def interrupts_held(self) -> Iterator[None]:
        """Ctrl-C stops the step that runs, on all ranks, and is raised at the end: raised in between, it would leave
        the others with half of a conversation."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            interrupted, self._interrupted = self._interrupted, False
            if interrupted:
                raise KeyboardInterrupt

    def _interrupt(self, *_: object) -> None:
        self._interrupted = True
        if self._stop is not None:
            self._stop()

    def check(self) -> None:
        """Raises RankError when another rank was lost before."""
        if self._lost is not None:
            raise RankError(self._lost)

    def from_rank(self, rank: int, make: Callable[[], Found]) -> Found:
        """What one rank makes, on all of them. Where it raises, all others raise InputError."""
        self.check()
        made: list[Any] = [None, None]
        error: BaseException | None = None
        if self.rank == rank:
            try:
                made[0] = make()
            except BaseException as raised:
                error, made[1] = raised, f"{type(raised).__name__}: {raised}"
        try:
            dist.broadcast_object_list(made, src=rank, group=self._group)
        except RuntimeError as raised:
            self._lost = f"rank {rank} is gone, its connection closed; start all ranks again to run on"
            raise RankError(self._lost) from raised
        if error is not None:
            raise error
        if made[1] is not None:
            raise InputError(f"rank {rank} could not go on: {made[1]}")
        found: Found = made[0]
        return found

    def broadcast(self, tensor: torch.Tensor, rank: int) -> None:
        """Overwrites a tensor with that of one rank."""
        whole = tensor.detach().contiguous()
        if whole.numel():
            dist.broadcast(whole.view(-1).view(torch.uint8), src=rank, group=self._group)
            tensor.detach().copy_(whole)

    def machine(self) -> Machine:
        """The ranks as a machine: "rank:0", "rank:1" and so on, with the links between them as measured now."""
        devices: list[Device] = [cpu_device("", 1)] * self.count
        own = cpu_device(f"rank:{self.rank}", len(self.cores))
        if self.place.driver is not None:
            own = replace(torch_machine(self.place.name).devices[0], name=own.name)
        dist.all_gather_object(devices, own, group=self._group)
        links = self._links()
        return Machine(name=f"{self.count} ranks", devices=tuple(devices), links=links, transfer_model="overlapped")

    def _links(self) -> tuple[tuple[Link, ...], ...]:
        """Measured pair by pair, while the other ranks are idle; the same in both directions."""
        links = [[Link()] * self.count for _ in range(self.count)]
        for low in range(self.count):
            for high in range(low + 1, self.count):
                link = self._link_to(high if self.rank == low else low) if self.rank in (low, high) else Link()
                shared = [link] if self.rank == low else [None]
                dist.broadcast_object_list(shared, src=low, group=self._group)
                assert shared[0] is not None
                links[low][high] = links[high][low] = shared[0]
        return tuple(map(tuple, links))

    def _link_to(self, peer: int) -> Link:
        small, large = (self._one_way_ns(peer, size) for size in (_SMALL, _LARGE))
        return Link(latency_ns=int(small), bandwidth_bytes_per_s=1e9 * _LARGE / max(1.0, large - small))

    def _one_way_ns(self, peer: int, size: int) -> float:
        wire, word = self.wires[peer], torch.zeros(size, dtype=torch.uint8)
        times = []
        for _ in range(_REPETITIONS):
            began = time.perf_counter_ns()
            if self.rank < peer:
                wire.send(word)
                wire.receive()
            else:
                wire.receive()
                wire.send(word)
            times.append((time.perf_counter_ns() - began) / 2)
        return median(times)

    def close(self) -> None:
        """Ends the threads."""
        self.workers.close()


def backend_for(kinds: Collection[str]) -> str:
    """The backend of a process group whose tensors lie on devices of some kinds: gloo for the host, NCCL for GPUs, and
    each for its own where there are both. Raises InputError where PyTorch has none."""
    found = {}
    for kind in sorted(kinds):
        if kind not in _BACKENDS:
            raise InputError(f"ranks cannot send tensors from the device {shown(kind)}; they can from cpu and cuda")
        backend, is_there = _BACKENDS[kind]
        if not is_there():
            raise InputError(
                f"ranks with tensors on {kind} devices need {backend}, which this PyTorch, {torch.__version__}, is "
                "built without"
            )
        found[kind] = backend
    return next(iter(found.values())) if len(found) == 1 else ",".join(f"{kind}:{each}" for kind, each in found.items())


_BACKENDS = {"cpu": ("gloo", dist.is_gloo_available), "cuda": ("nccl", dist.is_nccl_available)}


def rank_place(rank: int, gpu: int | None) -> Place:
    """Where a rank computes: on the GPU of this number, or on the host. Raises InputError without that GPU."""
    if gpu is None:
        return Place(name=f"rank:{rank}")
    (place,) = places_of([f"cuda:{gpu}"])
    return place


def cores_of_rank(hosts: Sequence[tuple[str, tuple[int, ...]]], rank: int) -> frozenset[int]:
    """The cores of a rank: all it may use, in equal shares where ranks of one host may use the same ones.

    hosts: by rank, name of the host and the cores that it may use. Raises InputError when there are too few.
    """
    name, cores = hosts[rank]
    sharing = [other for other, host in enumerate(hosts) if host == (name, cores)]
    share = len(cores) // len(sharing)
    if share == 0:
        raise InputError(f"{len(sharing)} ranks on {name} need a core each, and may use {len(cores)}")
    place = sharing.index(rank)
    return frozenset(cores[place * share : (place + 1) * share])


def _host() -> _Host:
    return _Host(
        name=socket.gethostname(),
        cores=tuple(available_cores()),
        torch=torch.__version__,
    )


def _row(text: str) -> torch.Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def _sending(wire: Wire, word: torch.Tensor) -> Callable[[], None]:
    return lambda: wire.send(word)


def _receiving(wire: Wire, told: dict[int, torch.Tensor]) -> Callable[[], None]:
    def receive() -> None:
        word = wire.receive()
        assert word is not None
        told[wire.peer] = word

    return receive
