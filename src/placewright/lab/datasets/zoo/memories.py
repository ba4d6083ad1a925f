"""Networks that read and write a memory of their own."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.lab.datasets.zoo.recurrent_cells import LstmCell


class Addressing(nn.Module):
    """Weights over the rows of a memory: by content, interpolated, shifted, sharpened (Graves et al. 2014, 3.3)."""

    def __init__(self, inputs: int, word: int) -> None:
        super().__init__()
        self.word, self.parameters_of = word, nn.Linear(inputs, word + 6)

    def forward(self, hidden: Tensor, memory: Tensor, before: Tensor) -> Tensor:
        """hidden: [batch, inputs]; memory: [batch, rows, word]; before and the result: [batch, rows]."""
        key, strength, gate, shift, sharpness = self.parameters_of(hidden).split([self.word, 1, 1, 3, 1], 1)
        likeness = functional.cosine_similarity(key.unsqueeze(1), memory, 2)
        content = torch.softmax(functional.softplus(strength) * likeness, 1)
        mixed = torch.lerp(before, content, torch.sigmoid(gate))
        left, stay, right = torch.softmax(shift, 1).chunk(3, 1)  # [batch, 1] each
        shifted = left * mixed.roll(-1, 1) + stay * mixed + right * mixed.roll(1, 1)
        sharp = (shifted + 1e-6) ** (1 + functional.softplus(sharpness))
        return sharp / sharp.sum(1, keepdim=True)


class TuringMachine(nn.Module):
    """Graves et al., Neural Turing Machines, 2014: an LSTM with heads that read and write 128 rows."""

    def __init__(self, bits: int = 9, width: int = 100, rows: int = 128, word: int = 20, heads: int = 1) -> None:
        super().__init__()
        self.memory, self.controller = nn.Parameter(torch.randn(rows, word)), LstmCell(bits + heads * word, width)
        self.readers = nn.ModuleList(Addressing(width, word) for _ in range(heads))
        self.writers = nn.ModuleList(Addressing(width, word) for _ in range(heads))
        self.erase_and_add = nn.ModuleList(nn.Linear(width, 2 * word) for _ in range(heads))
        self.output = nn.Linear(width + heads * word, bits)

    def forward(self, sequence: Tensor) -> Tensor:  # [batch, length, bits] -> the same
        batch = sequence.shape[0]
        memory = self.memory.expand(batch, -1, -1)  # [batch, rows, word]
        start = memory.new_zeros(batch, memory.shape[1])
        looks = [start for _ in self.readers]
        writes = [start for _ in self.writers]
        found, results = [torch.zeros_like(memory[:, 0]) for _ in self.readers], []
        state = self.controller.start(sequence[:, 0])
        for step in sequence.unbind(1):
            state = self.controller(torch.cat([step, *found], 1), state)
            for head, (address, change) in enumerate(zip(self.writers, self.erase_and_add, strict=True)):
                writes[head] = address(state[0], memory, writes[head])
                memory = self._written(memory, writes[head], change(state[0]))
            for head, address in enumerate(self.readers):
                looks[head] = address(state[0], memory, looks[head])
                found[head] = torch.bmm(looks[head].unsqueeze(1), memory).squeeze(1)  # [batch, word]
            results.append(self.output(torch.cat([state[0], *found], 1)))
        return torch.stack(results, 1)

    def _written(self, memory: Tensor, weights: Tensor, change: Tensor) -> Tensor:  # change: [batch, 2 word]
        erase, add = change.chunk(2, 1)
        outer = weights.unsqueeze(2)  # [batch, rows, 1]
        return memory * (1 - outer * torch.sigmoid(erase).unsqueeze(1)) + outer * torch.tanh(add).unsqueeze(1)


class EndToEndMemory(nn.Module):
    """Sukhbaatar et al., End-To-End Memory Networks, 2015, with adjacent weight sharing between hops."""

    def __init__(self, hops: int, width: int = 50, vocabulary: int = 180) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(vocabulary, width) for _ in range(hops + 1))
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, story: Tensor, question: Tensor) -> Tensor:  # [batch * 50, words], [batch, words]
        sentences = [table(story).sum(1).unflatten(0, (-1, 50)) for table in self.tables]  # [batch, 50, width] each
        state = self.tables[0](question).sum(1)  # [batch, width]
        for asked, answered in pairwise(sentences):
            weights = torch.softmax(torch.bmm(asked, state.unsqueeze(2)), 1)  # [batch, 50, 1]
            state = state + (weights * answered).sum(1)
        return self.output(state)


class NeuralStack(nn.Module):
    """A stack whose items are partly there (Grefenstette et al., Learning to Transduce with Unbounded Memory, 2015):
    strengths are pushed and popped, and every read mixes what is left of the top."""

    def __init__(self, width: int, word: int, vocabulary: int = 128) -> None:
        super().__init__()
        self.embedding, self.cell = nn.Embedding(vocabulary, width), LstmCell(width + word, width)
        self.control, self.value = nn.Linear(width, 2), nn.Linear(width, word)
        self.output = nn.Linear(width + word, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, length] -> [batch, length, vocabulary]
        steps = self.embedding(tokens).unbind(1)
        state, read = self.cell.start(steps[0]), steps[0].new_zeros(steps[0].shape[0], self.value.out_features)
        values: list[Tensor] = []  # [batch, word] each
        strengths: list[Tensor] = []  # [batch, 1] each
        results = []
        for step in steps:
            state = self.cell(torch.cat([step, read], 1), state)
            push, pop = torch.sigmoid(self.control(state[0])).chunk(2, 1)  # [batch, 1] each
            strengths = [*_taken(strengths, pop)[0], push]
            values.append(torch.tanh(self.value(state[0])))
            shares = _taken(strengths, torch.ones_like(push))[1]
            read = torch.stack([share * value for share, value in zip(shares, values, strict=True)]).sum(0)
            results.append(self.output(torch.cat([state[0], read], 1)))
        return torch.stack(results, 1)


def _taken(strengths: list[Tensor], amount: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """What is left of each strength and what was taken of it when `amount` comes off the top; [batch, 1] each."""
    left, taken = [], []
    for strength in reversed(strengths):
        share = torch.minimum(strength, amount)
        amount = amount - share
        taken.append(share)
        left.append(strength - share)
    return left[::-1], taken[::-1]
