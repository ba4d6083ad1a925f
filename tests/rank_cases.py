"""What ranks do in tests/execution/pytorch/test_ranks.py: `python rank_cases.py CASE...`, once for each rank."""

from __future__ import annotations

import copy
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from stand_in_gpu import StandIns
from torch import nn
from torch.utils import _pytree as pytree
from torch_modules import Branches, calls
from waiting import wait_until

import placewright
from placewright import RankError
from placewright.api import memory_limits
from placewright.execution.devices import available_cores
from placewright.importers.torch.trace import default_loss
from placewright.lab.datasets.zoo.catalogue import all_networks
from placewright.machine import Link, Machine
from placewright.machines.host import HostMemory

#: Where the modules of `calls` are divided, whatever their ops take.
PINS: dict[str, dict[str, int]] = {
    "branches": {"left.*": 0, "right.*": 1},
    "in place": {"linear": 1},
    "recurrent": {"lstm": 1},
    "returns what it gets": {},
}
#: "ranks", or "ranks:cuda" for stand-ins of GPUs.
DEVICES = os.environ.get("RANK_DEVICES", "ranks")
#: What the op `act` does in this process when it is called, once.
todo: list[Callable[[], None]] = []


def act(x: torch.Tensor) -> torch.Tensor:
    """Returns its input, and does something else when it is told to."""
    while todo:
        todo.pop()()
    return x.clone()


torch.library.custom_op("placewright_tests::act", act, mutates_args=()).register_fake(torch.empty_like)


class ThreeBranches(nn.Module):
    """A branch for each of three ranks, all from one input, with normalization and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Dropout(0.1), nn.Linear(32, 8)) for _ in range(3)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, second, third = (branch(x) for branch in self.branches)
        return first + second * third, third.t()


class Acts(nn.Module):
    """Computes on both ranks, and acts on rank 1."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.after(torch.ops.placewright_tests.act(torch.tanh(self.before(x))))
        return result


ACTS_ON_1: dict[str, Any] = {"pins": {"act": 1, "before": 0, "after": 0}, "solver": "list"}


def acting(**options: Any) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """Compiled for ranks, what it is called with and what it returns."""
    torch.manual_seed(3)
    model, x = Acts().eval(), torch.randn(4, 8)
    with torch.no_grad():
        expected = model(x)
    return placewright.compile(model, x, devices="ranks", **ACTS_ON_1, **options), x, expected


def assert_same(found: Any, expected: Any) -> None:
    leaves, structure = pytree.tree_flatten(found)
    wanted, wanted_structure = pytree.tree_flatten(expected)
    assert structure == wanted_structure
    for leaf, want in zip(leaves, wanted, strict=True):
        assert torch.equal(leaf, want) if isinstance(want, torch.Tensor) else leaf == want


def equal() -> None:
    """Results, gradients, buffers, inputs and random numbers are those of the module, on every rank."""
    for name, training in (
        ("branches", True),
        ("recurrent", True),
        ("in place", False),
        ("returns what it gets", False),
    ):
        model, args, kwargs = calls()[name]()
        reference = copy.deepcopy(model).train(training)
        compiled = placewright.compile(
            model, args, kwargs=kwargs, devices=DEVICES, training=training, pins=PINS[name], solver="list"
        )
        for seed in range(2):
            given, expected_args = copy.deepcopy(args), copy.deepcopy(args)
            torch.manual_seed(seed)
            with torch.set_grad_enabled(training):
                expected = reference(*expected_args, **kwargs)
                if training:
                    expected = default_loss(expected)
                    expected.backward()
            after = torch.rand(1)
            # The numbers of rank 0 count, and where all have drawn they go on alike.
            torch.manual_seed(seed + (dist.get_rank() if training else 0))
            assert_same(compiled(*given, **kwargs), pytree.tree_map(torch.detach, expected))
            assert torch.equal(torch.rand(1), after)
            assert_same(given, expected_args)
            for parameter, want in zip(model.parameters(), reference.parameters(), strict=True):
                assert_same(parameter.grad, want.grad)
            assert_same(dict(model.named_buffers()), dict(reference.named_buffers()))
        if PINS[name]:
            assert {op.device for op in compiled.plan.ops} == {0, 1}
        compiled.close()
    print("equal: as the module")


def trains() -> None:
    """A planned optimizer makes its steps where the parameters are, and brings all ranks up to date when asked to."""
    torch.manual_seed(dist.get_rank())  # The parameters of rank 0 count.
    model, x = Branches(), torch.arange(80.0).view(5, 16) / 80
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = placewright.compile(
        model, x, devices=DEVICES, training=True, optimizer=optimizer, pins=PINS["branches"], solver="list"
    )
    reference = copy.deepcopy(model).train()
    expected_optimizer = torch.optim.Adam(reference.parameters(), lr=0.01)
    for seed in range(3):
        torch.manual_seed(seed)
        loss = default_loss(reference(x))
        expected_optimizer.zero_grad()
        loss.backward()
        expected_optimizer.step()
        torch.manual_seed(seed)
        assert_same(step(x), loss.detach())
    own, other = ("left", "right")[:: 1 if dist.get_rank() == 0 else -1]
    assert torch.equal(getattr(model, own)[4].weight, getattr(reference, own)[4].weight)
    assert not torch.equal(getattr(model, other)[4].weight, getattr(reference, other)[4].weight)
    # What is compiled for ranks brings itself up to date, wherever it places the same parameters.
    swapped = {"left.*": 1, "right.*": 0}
    look = placewright.compile(model, x, devices=DEVICES, pins=swapped, solver="list")
    with torch.no_grad():
        assert_same(look(x), reference.eval()(x))
    assert_same(model.state_dict(), reference.state_dict())
    assert_same(
        [optimizer.state[each] for each in model.parameters()],
        [expected_optimizer.state[each] for each in reference.parameters()],
    )
    step.close()
    look.close()
    print("trains: as the module")


def moves() -> None:
    """Ranks that move tensors to the host's memory and back compute what the module computes."""
    links = (Link(bandwidth_bytes_per_s=1e12),)

    def fast(of: Machine) -> HostMemory:
        return HostMemory(there=links * of.num_devices, back=links * of.num_devices)

    setattr(memory_limits, "usual_host", fast)  # noqa: B010 (it is imported there)
    torch.manual_seed(0)
    model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.Tanh())))
    x = torch.ones(512, 64)
    pins = {str(layer): int(layer >= 6) for layer in range(12)}
    reference = copy.deepcopy(model)
    options: dict[str, Any] = {"devices": DEVICES, "training": True, "pins": pins, "keep": ["recompute:*"]}
    step = placewright.compile(model, x, **options, memory_limit="720KB")
    assert {step.plan.device_of[f"{move.tensor}@leave"] for move in step.plan.moves} == {0, 1}
    loss = default_loss(reference(x))
    loss.backward()
    assert_same(step(x), loss.detach())
    step.synchronize()
    assert_same([each.grad for each in model.parameters()], [each.grad for each in reference.parameters()])
    step.close()
    print("moves: as the module")


def three() -> None:
    """Three ranks, each with a branch: results, gradients, buffers and an optimizer's steps are the module's."""
    pins = {f"branches.{rank}.*": rank for rank in range(3)}
    torch.manual_seed(dist.get_rank())  # The parameters of rank 0 count.
    model, x = ThreeBranches(), torch.arange(80.0).view(5, 16) / 80
    _adds_gradients(model, (x,), pins)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = placewright.compile(
        model, x, devices=DEVICES, training=True, optimizer=optimizer, pins=pins, solver="list"
    )  # fmt: skip
    reference = copy.deepcopy(model).train()
    expected_optimizer = torch.optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
    for seed in range(3):
        torch.manual_seed(seed)
        loss = default_loss(reference(x))
        expected_optimizer.zero_grad()
        loss.backward()
        expected_optimizer.step()
        torch.manual_seed(seed)
        assert_same(step(x), loss.detach())
    own, other = (f"branches.{(dist.get_rank() + away) % 3}.0.weight" for away in range(2))
    assert torch.equal(model.state_dict()[own], reference.state_dict()[own])
    assert not torch.equal(model.state_dict()[other], reference.state_dict()[other])
    step.synchronize()
    assert_same(model.state_dict(), reference.state_dict())
    assert {op.device for op in step.plan.ops} == {0, 1, 2}
    step.close()
    print("three: as the module")


def network() -> None:
    """A training step of ResNet-18, whose second half is on rank 1."""
    torch.manual_seed(0)
    model, _ = next(each for each in all_networks() if each.name == "resnet18").build()
    pins = {"model.features.stage[12].*": 0, "model.features.stage[34].*": 1, "model.output": 1}
    _adds_gradients(model, (torch.randn(2, 3, 224, 224),), pins)
    print("network: as the module")


def _adds_gradients(model: nn.Module, args: tuple[torch.Tensor, ...], pins: dict[str, int]) -> None:
    """Two training steps, on every rank of the pins."""
    compiled = placewright.compile(model, args, devices=DEVICES, training=True, pins=pins, solver="list")
    reference = copy.deepcopy(model).train()
    for seed in range(2):
        torch.manual_seed(seed)
        expected = default_loss(reference(*args))
        expected.backward()
        torch.manual_seed(seed)
        assert_same(compiled(*args), expected.detach())
        for parameter, want in zip(model.parameters(), reference.parameters(), strict=True):
            assert_same(parameter.grad, want.grad)
        assert_same(dict(model.named_buffers()), dict(reference.named_buffers()))
    model.zero_grad()
    assert {op.device for op in compiled.plan.ops} == set(pins.values())
    compiled.close()


def survives() -> None:
    """What goes wrong on one rank is said on both, and the next step is as if nothing had been."""
    rank = dist.get_rank()
    compiled, x, expected = acting(timeout=200)

    def fails() -> None:
        raise ValueError("something is wrong with 3")

    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(lambda: bool(compiled._ranks._interrupted))

    for what in (fails, interrupted):
        todo[:] = [what] if rank == 1 else []
        try:
            compiled(x)
        except (ValueError, RankError, KeyboardInterrupt) as error:
            print(what.__name__, type(error).__name__, error, *getattr(error, "__notes__", ()), sep=": ")
        assert_same(compiled(x), expected)
    if rank == 1:
        interrupt_after_next_step(compiled._ranks)
    try:
        assert_same(compiled(x), expected)
    except KeyboardInterrupt:
        print("late: KeyboardInterrupt")
    assert_same(compiled(x), expected)
    for shape in ((4, 8), (5, 8)):
        try:
            print(compiled(torch.zeros(shape) if rank == 0 else x).shape)
        except placewright.InputError as error:
            print("shapes:", error)
    model = compiled._planner.model
    kept = model.after.bias
    if rank == 1:
        model.after.bias = nn.Parameter(torch.zeros(9))
    try:
        compiled(x)
    except placewright.InputError as error:
        print("parameter:", error)
    model.after.bias = kept
    for changed in (1, 0):
        if rank == changed:
            model.flag = True
        try:
            assert_same(compiled(x), expected)
        except placewright.InputError as error:
            print("changed:", error)
    try:
        placewright.compile(model, x, devices="ranks", pins={"nobody": 1})
    except placewright.InputError as error:
        print("planning:", error)
    assert_same(compiled(x), expected)
    compiled.close()
    print("threads left:", threads())


def interrupt_after_next_step(ranks: Any) -> None:
    """Ctrl-C comes when the step is done, before the call returns."""
    run = ranks.workers.run

    def run_and_interrupt(jobs: Any, stop: Callable[[], None]) -> None:
        run(jobs, stop)
        if stop.__name__ == "stop":  # What ranks agree on beforehand is not stopped.
            ranks.workers.run = run
            ranks._interrupt()

    ranks.workers.run = run_and_interrupt


def threads() -> int:
    """Of placewright, in this process."""
    return sum(thread.name == "placewright device" for thread in threading.enumerate())


def killed() -> None:
    """Rank 1 dies in the midst of a step."""
    compiled, x, expected = acting(timeout=200)
    todo[:] = [lambda: os.kill(os.getpid(), signal.SIGKILL)] if dist.get_rank() == 1 else []
    _is_lost(compiled, x, expected)


def silent() -> None:
    """Rank 1 stops in the midst of a step, and lives."""
    compiled, x, expected = acting(timeout=8)
    todo[:] = [lambda: os.kill(os.getpid(), signal.SIGSTOP)] if dist.get_rank() == 1 else []
    _is_lost(compiled, x, expected)


def _is_lost(compiled: Any, x: torch.Tensor, expected: torch.Tensor) -> None:
    for _ in range(2):
        try:
            compiled(x)
        except RankError as error:
            print(error)
    with torch.no_grad():
        assert_same(compiled._planner.model(x), expected)
    compiled.close()
    print("threads left:", threads(), flush=True)
    os._exit(0)  # Without a word to the group, of which a member is gone.


def _on_a_host_of_its_own(rank: int) -> None:
    """Ranks of one host need a core each; what seem to be hosts may have the same one."""
    cores = available_cores()
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    socket.gethostname = lambda: f"host-{rank}"


if __name__ == "__main__":
    if int(os.environ["WORLD_SIZE"]) > len(available_cores()):
        _on_a_host_of_its_own(int(os.environ["RANK"]))
    torch.set_num_threads(1)
    if DEVICES == "ranks:cuda":
        StandIns(2).install(setattr)
    dist.init_process_group("gloo")
    for case in sys.argv[1:]:
        globals()[case]()
    dist.destroy_process_group()
