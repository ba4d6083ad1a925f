"""Recurrent cells, one step each, and how they run over a sequence; unrolled, every step has ops of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

State = tuple[Tensor, ...]  # the hidden state first, [batch, width] each


class Cell(nn.Module, ABC):
    """One step of a recurrent layer."""

    num_states = 1

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.inputs, self.width = inputs, width

    @abstractmethod
    def forward(self, step: Tensor, state: State) -> State:
        """step: [batch, inputs]; the next state."""

    def start(self, step: Tensor) -> State:
        """A state of zeros."""
        return (step.new_zeros(step.shape[0], self.width),) * self.num_states


class LstmCell(Cell):
    """Hochreiter and Schmidhuber, Long Short-Term Memory, 1997; one product makes the four gates."""

    num_states = 2

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        self.weight = nn.Parameter(torch.randn(inputs + width, 4 * width))
        self.bias = nn.Parameter(torch.randn(4 * width))

    def forward(self, step: Tensor, state: State) -> State:
        hidden, memory = state
        gates = torch.addmm(self.bias, torch.cat([step, hidden], 1), self.weight)  # [batch, 4 width]
        open_gates, candidate = gates.split([3 * self.width, self.width], 1)
        write, keep, show = torch.sigmoid(open_gates).chunk(3, 1)  # [batch, width] each
        memory = keep * memory + write * torch.tanh(candidate)
        return show * torch.tanh(memory), memory


class GruCell(Cell):
    """Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, 2014."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        self.gates = nn.Linear(inputs + width, 2 * width)
        self.candidate = nn.Linear(inputs + width, width)

    def forward(self, step: Tensor, state: State) -> State:
        (hidden,) = state
        reset, update = torch.sigmoid(self.gates(torch.cat([step, hidden], 1))).chunk(2, 1)  # [batch, width] each
        candidate = torch.tanh(self.candidate(torch.cat([step, reset * hidden], 1)))
        return (update * hidden + (1 - update) * candidate,)


def run(cell: Cell, steps: Sequence[Tensor]) -> list[Tensor]:
    """The hidden state after every step, [batch, width] each, from a state of zeros."""
    state, hidden = cell.start(steps[0]), []
    for step in steps:
        state = cell(step, state)
        hidden.append(state[0])
    return hidden
