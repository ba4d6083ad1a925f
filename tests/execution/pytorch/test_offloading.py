"""Tensors of a module that Inductor compiles within a limit, moved to the host's memory and back.

The device is the CPU with a separate host, whose copies happen as late as they may: when a stream waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
fitted_module = pytest.importorskip("placewright.api.fitted_module")
fitted_graphs = pytest.importorskip("placewright.api.fitted_graphs")

from placewright.execution.pytorch import offloading  # noqa: E402
from placewright.execution.pytorch.memory import allocated_peak  # noqa: E402
from placewright.execution.pytorch.places import on_stream  # noqa: E402
from placewright.machines.specification import as_machine  # noqa: E402

Copies = list[Callable[[], Any]]


class LateHost:
    """A driver of the CPU as if it had memory of its own.

    Host memory is NumPy's, which the allocator does not count; elements that were not copied yet are not a number.
    """

    name = "late"
    device = torch.device("cpu")

    def __init__(self) -> None:
        self.stream: Any = "compute"
        self.waiting: dict[Any, Copies] = {}
        self.num_copies = 0

    def new_stream(self) -> object:
        return object()

    def current_stream(self) -> Any:
        return self.stream

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        before, self.stream = self.stream, stream
        yield
        self.stream = before

    def recorded(self, stream: Any) -> Copies:
        return self.waiting.pop(stream, [])

    def wait(self, _: Any, event: Copies) -> None:
        for copy in event:
            copy()
        event.clear()

    def _copies(self, made: Any, row: Any) -> None:
        self.num_copies += 1
        self.waiting.setdefault(self.stream, []).append(partial(made.copy_, row))

    def sent_home(self, row: Any) -> Any:
        made = torch.from_numpy(np.full(row.nbytes, 255, np.uint8)).view(row.dtype)
        self._copies(made, row)
        return made

    def room_for(self, row: Any) -> Any:
        return torch.full_like(row, torch.nan if row.is_floating_point() else 1)

    def fill(self, room: Any, row: Any) -> None:
        self._copies(room, row)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateHost]:
    torch._dynamo.reset()
    driver = LateHost()
    place = on_stream("late", driver)  # type: ignore[arg-type]
    monkeypatch.setattr(offloading, "place_of", lambda _: place)
    threads = torch.get_num_threads()
    # Convolutions take memory for each thread, which no plan moves.
    torch.set_num_threads(1)
    yield driver
    torch.set_num_threads(threads)


class Feedforward(torch.nn.Module):  # type: ignore[name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(5))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x.square().mean()

    x = staticmethod(lambda: torch.randn(1024, 64))


class Convolutional(torch.nn.Module):  # type: ignore[name-defined]
    """Inductor lays images out with their channels last; statistics and picks are results among others."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(2))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(8) for _ in range(2))

    def forward(self, x: Any) -> Any:
        first = x
        for layer, norm in zip(self.layers, self.norms, strict=True):
            one, other = norm(layer(x)).chunk(2, 1)
            x = torch.cat([torch.tanh(one) + other, first[:, :4].abs()], 1)
        return torch.nn.functional.max_pool2d(x, 2).square().mean()

    x = staticmethod(lambda: torch.randn(4, 8, 32, 32))


class Attention(torch.nn.Module):  # type: ignore[name-defined]
    """Heads are views of what is moved, and masks of dropout are moved though they are drawn once."""

    def __init__(self) -> None:
        super().__init__()
        self.ins, self.outs = (torch.nn.ModuleList(torch.nn.Linear(32, n) for _ in range(2)) for n in (96, 32))

    def forward(self, x: Any) -> Any:
        for into, out in zip(self.ins, self.outs, strict=True):
            query, key, value = (each.unflatten(-1, (4, 8)).transpose(1, 2) for each in into(x).chunk(3, -1))
            scores = torch.softmax(query @ key.transpose(-1, -2), -1)
            x = x + torch.nn.functional.dropout(out((scores @ value).transpose(1, 2).flatten(-2)), 0.5)
        return x.square().mean()

    x = staticmethod(lambda: torch.randn(4, 64, 32))


def step(model: Any, x: Any) -> list[Any]:
    model.zero_grad()
    torch.manual_seed(0)
    loss = model(x)
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize(
    ("network", "keep"),
    [(Feedforward, ["recompute:*"]), (Convolutional, ["recompute:*"]), (Attention, ["recompute:*"]), (Attention, [])],
)
def test_moved_tensors_come_back_as_they_were_and_the_limit_holds(
    host: LateHost, network: Any, keep: list[str]
) -> None:
    torch.manual_seed(0)
    model, x = network(), network.x()
    compiled = torch.compile(model)
    wanted = [step(compiled, x) for _ in range(2)][-1]
    model.zero_grad()
    there = sum(each.nbytes for each in (*model.parameters(), *model.buffers(), x))
    usual = allocated_peak(partial(step, compiled, x)) + there

    limit = fitted_graphs.Limit(
        memory_limit=int(0.8 * usual), machine=as_machine("1xa100-40gb"), fused_share=0.02, keep=keep, options={}
    )
    fitted = fitted_module.FittedModule(model, limit)
    found = [step(fitted, x) for _ in range(3)][-1]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    (graph,) = fitted.graphs
    assert not keep or (graph.plan.moves and not graph.plan.reruns)
    assert host.num_copies == 3 * sum(1 + len(move.returns_before) for move in graph.plan.moves)
    assert not offloading._BEGUN
    model.zero_grad()
    taken = allocated_peak(partial(step, fitted, x)) + there
    assert taken <= graph.peak_bytes <= limit.memory_limit
