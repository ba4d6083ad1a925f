"""Training loops whose steps Inductor compiles within a memory limit, and processes that average their gradients."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from acts import todo
from ports import free_port
from test_limits_in_training import COLUMNS, OPTIMIZERS, ROWS, Net, batch, eager_step, fitted, square
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import placewright
from placewright.api.fitted_module import FittedModule
from placewright.support.errors import InputError

pytestmark = pytest.mark.heavy


class Layers(nn.Module):
    """Products with shortcuts and normalizations, without anything that draws."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(COLUMNS, COLUMNS), nn.GELU(), nn.LayerNorm(COLUMNS)) for _ in range(4)
        )
        self.last = nn.Linear(COLUMNS, 3)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)


def compiled(model: nn.Module, limit: int | str) -> FittedModule:
    """The module within a limit."""
    torch._dynamo.reset()
    return placewright.fit(model, limit, backend="inductor")


#: Three quarters of what a step of `Layers` on 256 rows takes by PyTorch's own choice.
ROWS_HERE, LIMIT = 4 * ROWS, 170_000


def assert_close(model: nn.Module, reference: nn.Module, tolerance: float = 1e-5) -> None:
    for (name, found), wanted in zip(model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(
            found, wanted, rtol=tolerance, atol=tolerance, msg=lambda text, at=name: f"{at} {text}"
        )
        assert (found.grad is None) == (wanted.grad is None)
        if wanted.grad is not None:
            torch.testing.assert_close(found.grad, wanted.grad, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("kind", "set_to_none"), [("momentum", True), pytest.param("adam", False, marks=pytest.mark.long)]
)
def test_loops_with_accumulation_validation_and_a_last_batch_train_as_in_eager(kind: str, set_to_none: bool) -> None:
    model, reference = Layers(), Layers()
    call = compiled(model, LIMIT)
    for each, step in ((model, call), (reference, reference)):
        make = OPTIMIZERS[kind]
        assert make is not None
        optimizer = make(each.parameters())
        for number in range(6):
            rows = ROWS_HERE if number < 5 else 24
            eager_step(step, batch(number, rows), lambda out: square(out) / 2)
            if number % 2:
                optimizer.step()
                optimizer.zero_grad(set_to_none=set_to_none)
                each.eval()
                with torch.no_grad():
                    torch.testing.assert_close(step(batch(9)), each(batch(9)))
                each.train()
    assert_close(model, reference)
    assert call.graphs[0].plan.reruns
    assert call.peak_bytes <= LIMIT
    assert all(graph.peak_bytes <= LIMIT for graph in call.graphs)


@pytest.mark.long
@pytest.mark.parametrize("inside", [False, True])
def test_autocast_around_the_call_and_in_forward_stays_within_its_tolerance(inside: bool) -> None:
    class Half(Layers):
        def forward(self, x: Any) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return super().forward(x)

    model = Half() if inside else Layers()
    reference = copy.deepcopy(model)
    call = compiled(model, int(0.8 * LIMIT))
    for each, step in ((model, call), (reference, reference)):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for number in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not inside):
                loss = square(step(batch(number, ROWS_HERE)))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert_close(model, reference, 5e-2)
    assert call.graphs[0].plan.reruns


@pytest.mark.long
def test_limits_that_nothing_keeps_are_refused_at_each_call() -> None:
    model = Layers()
    before = copy.deepcopy(model)
    call = compiled(model, "1KiB")
    for _ in range(2):
        with pytest.raises(InputError, match=r"no plan was found for a training step within 1\.00 KiB"):
            call(batch(0))
    assert call.graphs == ()
    assert_close(model, before, 0.0)


class Acting(Layers):
    """Layers before an op that raises on request. No rerun repeats it as long as all fits next to it."""

    def forward(self, x: Any) -> Any:
        return torch.ops.placewright_tests.act(super().forward(x))


def fail() -> None:
    raise RuntimeError("no more")


@pytest.mark.long
def test_a_step_that_raises_leaves_the_next_one_right_and_a_copy_trains_on_its_own() -> None:
    model = Acting()
    reference, x = copy.deepcopy(model), batch(0, ROWS_HERE)
    call = compiled(model, LIMIT)
    eager_step(call, x)
    assert call.graphs[0].plan.reruns
    other = copy.deepcopy(call)
    other.zero_grad()
    model.zero_grad()
    todo[:] = [fail]
    with pytest.raises(RuntimeError, match="no more"):
        eager_step(call, x)
    assert all(parameter.grad is None for parameter in model.parameters())
    for each in (call, other, reference):
        eager_step(each, x)
    assert_close(model, reference)
    assert_close(other._orig_mod, reference)


def gradients_of(model: nn.Module) -> list[torch.Tensor]:
    found = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    return found


def own_executor(rank: int) -> None:
    """DistributedDataParallel of a planned step has its gradients, and so have those that are averaged by hand."""
    torch.set_num_threads(1)
    reference = DistributedDataParallel(Net(1))
    torch.manual_seed(rank)
    loss = eager_step(reference, batch(rank))
    wanted = gradients_of(reference)
    model = Net(1)
    step, _ = fitted(model, batch(0))
    with step:
        torch.manual_seed(rank)
        assert torch.equal(step(batch(rank)), loss)
        for parameter, average in zip(model.parameters(), wanted, strict=True):
            dist.all_reduce(parameter.grad.div_(dist.get_world_size()))
            assert torch.equal(parameter.grad, average)


def with_torch_compile(rank: int) -> None:
    """Inductor within a limit, inside of DistributedDataParallel and around it, has its gradients."""
    reference = DistributedDataParallel(Layers())
    eager_step(reference, batch(rank, ROWS_HERE))
    wanted = gradients_of(reference)
    for around in (False, True):
        model = Layers()
        fitted = compiled(DistributedDataParallel(model) if around else model, LIMIT)
        eager_step(fitted if around else DistributedDataParallel(fitted), batch(rank, ROWS_HERE))
        assert fitted.graphs[0].plan.reruns
        for gradient, average in zip(gradients_of(model), wanted, strict=True):
            torch.testing.assert_close(gradient, average)


def on_rank(rank: int, port: int, cases: Sequence[Callable[[int], None]]) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    try:
        for case in cases:
            case(rank)
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("case", [own_executor, pytest.param(with_torch_compile, marks=pytest.mark.long)])
def test_two_processes_have_the_gradients_of_distributed_data_parallel(case: Callable[[int], None]) -> None:
    torch.multiprocessing.spawn(on_rank, (free_port(), [case]), 2)
