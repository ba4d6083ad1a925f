"""Recurrent cells, one step each, and how they run over a sequence; unrolled, every step has ops of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

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


class ElmanCell(Cell):
    """Elman, Finding Structure in Time, 1990."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        self.from_input = nn.Linear(inputs, width)
        self.from_hidden = nn.Linear(width, width, bias=False)

    def forward(self, step: Tensor, state: State) -> State:
        return (torch.tanh(self.from_input(step) + self.from_hidden(state[0])),)


class HighwayCell(Cell):
    """Zilly et al., Recurrent Highway Networks, 2017: several gated layers within one step."""

    def __init__(self, inputs: int, width: int, depth: int = 5) -> None:
        super().__init__(inputs, width)
        self.from_input = nn.Linear(inputs, 2 * width)
        self.layers = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(depth))

    def forward(self, step: Tensor, state: State) -> State:
        (hidden,) = state
        for depth, layer in enumerate(self.layers):
            both = layer(hidden) + self.from_input(step) if depth == 0 else layer(hidden)  # [batch, 2 width]
            candidate, gate = both.chunk(2, 1)
            gate = torch.sigmoid(gate)
            hidden = torch.tanh(candidate) * gate + hidden * (1 - gate)
        return (hidden,)


class SimpleCell(Cell):
    """Lei et al., Simple Recurrent Units for Highly Parallelizable Recurrence, 2018: products need no earlier step."""

    num_states = 2

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        self.products = nn.Linear(inputs, 4 * width)
        self.peephole = nn.Parameter(torch.randn(2, width))

    def forward(self, step: Tensor, state: State) -> State:
        memory = state[1]
        candidate, keep, show, skip = self.products(step).chunk(4, 1)  # [batch, width] each
        keep = torch.sigmoid(keep + self.peephole[0] * memory)
        show = torch.sigmoid(show + self.peephole[1] * memory)
        memory = keep * memory + (1 - keep) * candidate
        return show * memory + (1 - show) * skip, memory


def run(cell: Cell, steps: Sequence[Tensor]) -> list[Tensor]:
    """The hidden state after every step, [batch, width] each, from a state of zeros."""
    state, hidden = cell.start(steps[0]), []
    for step in steps:
        state = cell(step, state)
        hidden.append(state[0])
    return hidden


class BothWays(nn.Module):
    """One cell from the left and one from the right (Schuster and Paliwal, Bidirectional RNNs, 1997)."""

    def __init__(self, make: Callable[[int, int], Cell], inputs: int, width: int) -> None:
        super().__init__()
        self.forwards, self.backwards = make(inputs, width), make(inputs, width)

    def forward(self, steps: Sequence[Tensor]) -> list[Tensor]:  # [batch, inputs] each -> [batch, 2 width] each
        pairs = zip(run(self.forwards, steps), run(self.backwards, steps[::-1])[::-1], strict=True)
        return [torch.cat(pair, 1) for pair in pairs]
