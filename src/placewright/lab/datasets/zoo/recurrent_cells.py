"""LSTM cells, one step each, and a function that runs them over a sequence; unrolled, every step has ops of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

State = tuple[Tensor, Tensor]  # hidden state and memory, [batch, width] each


class LstmCell(nn.Module):
    """Hochreiter and Schmidhuber, Long Short-Term Memory, 1997; one product makes the four gates."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.randn(inputs + width, 4 * width))
        self.bias = nn.Parameter(torch.randn(4 * width))

    def forward(self, step: Tensor, state: State) -> State:  # [batch, inputs] -> the next state
        hidden, memory = state
        gates = torch.addmm(self.bias, torch.cat([step, hidden], 1), self.weight)  # [batch, 4 width]
        open_gates, candidate = gates.split([3 * self.width, self.width], 1)
        write, keep, show = torch.sigmoid(open_gates).chunk(3, 1)  # [batch, width] each
        memory = keep * memory + write * torch.tanh(candidate)
        return show * torch.tanh(memory), memory

    def start(self, step: Tensor) -> State:
        """A state of zeros."""
        return (step.new_zeros(step.shape[0], self.width),) * 2


def run(cell: LstmCell, steps: Sequence[Tensor]) -> list[Tensor]:
    """Return the hidden state after every step, [batch, width] each, from a state of zeros."""
    state, hidden = cell.start(steps[0]), []
    for step in steps:
        state = cell(step, state)
        hidden.append(state[0])
    return hidden
