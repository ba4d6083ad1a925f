"""Memory that counts towards a limit where an optimizer steps in backward or has its states at the host."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from outside_host import OutsideHost
from torch import nn

import placewright
from placewright.execution.pytorch import offloaded_states
from placewright.execution.pytorch.memory import allocated_peak
from placewright.execution.pytorch.optimizer_memory import optimizer_memory

WIDTH = 128
#: Bytes of one layer's weights.
LAYER = 4 * WIDTH**2
X = torch.randn(16, WIDTH, generator=torch.Generator().manual_seed(0))


class Parted(nn.Module):
    """Three graphs of two layers each."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(6))

    def part(self, x: torch.Tensor, number: int) -> torch.Tensor:
        for layer in self.layers[2 * number : 2 * number + 2]:
            x = layer(x).tanh()
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.part(x, 0)
        torch._dynamo.graph_break()
        x = self.part(x, 1)
        torch._dynamo.graph_break()
        return self.part(x, 2).square().mean()


def unchanged(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    return optimizer


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(X).backward()
    optimizer.step()
    optimizer.zero_grad()


def test_gradients_of_graphs_whose_backward_is_over_do_not_count() -> None:
    torch._dynamo.reset()
    plain, network = Parted(), Parted()
    ordinary = torch.optim.AdamW(plain.parameters())
    optimizer = placewright.step_in_backward(torch.optim.AdamW(network.parameters()))
    # Six layers with two states each. Two have their gradients, one is stepped with two more temporaries; six gradients
    # and the temporaries are too much.
    limit = int((3 * 6 + 2 + 2 + 1.5) * LAYER)
    model = placewright.fit(network, limit, backend="inductor", optimizer=optimizer)
    for _ in range(3):
        stepped(plain, ordinary)
        stepped(model, optimizer)
    torch.testing.assert_close(dict(plain.named_parameters()), dict(network.named_parameters()), rtol=1e-4, atol=1e-5)
    held = sum(3 * each.nbytes for each in network.parameters()) + X.nbytes
    assert held + allocated_peak(lambda: stepped(model, optimizer)) <= model.peak_bytes <= limit
    with pytest.raises(placewright.InputError, match=r"^the optimizer's step needs at least "):
        placewright.fit(plain, limit, backend="inductor", optimizer=ordinary)


class Mixed(nn.Module):
    """Convolutions, a table, a matrix that is read twice and normalization."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.twice = nn.Embedding(50, 32), nn.Linear(32, 32)
        self.norm, self.out = nn.LayerNorm(32), nn.Linear(32, 1)
        self.convolutions = nn.Sequential(nn.Conv1d(32, 32, 3, padding=1), nn.GELU(), nn.Conv1d(32, 32, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held = self.norm(self.twice(torch.tanh(self.twice(self.table(x)))))
        return self.out(self.convolutions(held.mT).mT).square().mean() + self.table.weight.square().sum()


@pytest.mark.parametrize("seed", range(3))
def test_gradients_within_one_graph_are_stepped_as_behind_it(seed: int) -> None:
    """Inductor compiles the rest to the same code, so results are equal bit by bit."""
    generator, found = torch.Generator().manual_seed(seed), []
    batches = [torch.randint(50, (4, 16), generator=generator) for _ in range(3)]
    for own in (unchanged, placewright.step_in_backward):
        torch._dynamo.reset()
        network = Mixed()
        optimizer = own(torch.optim.AdamW(network.parameters(), fused=seed > 0))
        model = placewright.fit(network, "1GiB", backend="inductor", optimizer=optimizer)
        for batch in batches:
            model(batch).backward()
            optimizer.step()
            optimizer.zero_grad()
        found.append(dict(network.named_parameters()))
    torch.testing.assert_close(*found, rtol=0, atol=0)


class Whole(Parted):
    """One graph."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in range(3):
            x = self.part(x, number)
        return x.square().mean()


def test_within_one_graph_gradients_go_as_they_come() -> None:
    """Two of six gradients are there at once; the other results of the step are not larger."""
    torch._dynamo.reset()
    network = Whole()
    optimizer = placewright.step_in_backward(torch.optim.AdamW(network.parameters(), fused=True))
    model = placewright.fit(network, int((3 * 6 + 3.5) * LAYER), backend="inductor", optimizer=optimizer)
    for _ in range(3):
        stepped(model, optimizer)
    held = sum(3 * each.nbytes for each in network.parameters()) + X.nbytes
    assert model.measured_bytes == model.peak_bytes == held + allocated_peak(lambda: stepped(model, optimizer))
    before = copy.deepcopy(network.state_dict())
    loss = model(X)
    with pytest.raises(
        placewright.InputError, match=r"^Whole is called again before the backward of an earlier call, "
    ):
        model(X)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    loss.backward()
    with pytest.raises(placewright.InputError, match=r"^a parameter has been stepped in backward"):
        model(X).backward()


def test_without_its_optimizer_a_graph_leaves_gradients() -> None:
    torch._dynamo.reset()
    network, plain = Whole(), Whole()
    optimizer = placewright.step_in_backward(torch.optim.SGD(network.parameters(), lr=0.1))
    model = placewright.fit(network, "1GiB", backend="inductor")
    stepped(model, optimizer)
    plain.load_state_dict(network.state_dict())
    del optimizer
    gc.collect()
    for each in (model, plain):
        each(X).backward()
    gradients = [[each.grad for each in one.parameters()] for one in (network, plain)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("steps_before", [0, 1])
@pytest.mark.parametrize("fused", [False, True])
def test_what_a_step_takes_is_that_of_one_parameter(
    fused: bool, steps_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The larger layer has four times as much."""
    monkeypatch.setattr(offloaded_states, "_driver_of", lambda optimizer: OutsideHost())
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 4 * WIDTH, bias=False))
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    for _ in range(steps_before):
        model(X).mean().backward()
        optimizer.step()
    temporaries = 0 if fused else 8 * LAYER
    found = optimizer_memory(placewright.step_in_backward(optimizer))
    assert (found.state_bytes, found.step_bytes, found.gradient_bytes) == (10 * LAYER, temporaries, 4 * LAYER)
    found = optimizer_memory(placewright.offload_states(optimizer))
    assert (found.state_bytes, found.step_bytes, found.gradient_bytes) == (0, 10 * LAYER + temporaries, 4 * LAYER)
