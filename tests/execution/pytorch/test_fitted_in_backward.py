"""What is counted towards a limit where an optimizer steps in backward, or has its states at the host."""

from __future__ import annotations

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
