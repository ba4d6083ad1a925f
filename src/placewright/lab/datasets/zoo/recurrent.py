"""Recurrent language models, unrolled step by step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.recurrent_cells import LstmCell, run


class LanguageModel(nn.Module):
    """Layers of cells over 10,000 words, embedded."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10000, width)
        self.cells = nn.ModuleList(LstmCell(width, width) for _ in range(layers))
        self.drop = nn.Dropout(0.2)
        self.output = nn.Linear(width, 10000)

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, length] -> [batch, length, vocabulary]
        steps = list(self.drop(self.embedding(tokens)).unbind(1))  # [batch, width] each
        for cell in self.cells:
            steps = run(cell, steps)
        return self.output(self.drop(torch.stack(steps, 1)))


class CharacterWords(nn.Module):
    """Words from their characters: convolutions of several widths, each maximised over the word, and a highway layer
    (Kim et al., Character-Aware Neural Language Models, 2016, section 2)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        channels = (32, 32, 64, 128, 256)
        self.embedding = nn.Embedding(262, 16)
        self.convolutions = nn.ModuleList(nn.Conv1d(16, count, span) for span, count in enumerate(channels, start=1))
        total = sum(channels)
        self.candidate, self.gate, self.output = (
            nn.Linear(total, total),
            nn.Linear(total, total),
            nn.Linear(total, width),
        )

    def forward(self, words: Tensor) -> Tensor:  # [batch * length, characters] -> [batch * length, width]
        letters = self.embedding(words).transpose(1, 2)  # [batch * length, 16, characters]
        word = torch.cat([torch.relu(layer(letters)).amax(2) for layer in self.convolutions], 1)
        gate = torch.sigmoid(self.gate(word))
        return self.output(gate * torch.relu(self.candidate(word)) + (1 - gate) * word)


class Elmo(nn.Module):
    """Peters et al., Deep Contextualized Word Representations, 2018: two language models, one per direction, over
    words made of characters, and a learned mixture of their layers."""

    def __init__(self, layers: int = 2, width: int = 512, vocabulary: int = 10000) -> None:
        super().__init__()
        self.words = CharacterWords(width)
        self.directions = nn.ModuleList(
            nn.ModuleList(LstmCell(width, width) for _ in range(layers)) for _ in ("forwards", "backwards")
        )
        self.mixture = nn.Parameter(torch.randn(layers + 1))
        self.output = nn.Linear(2 * width, vocabulary)

    def forward(self, words: Tensor) -> Tensor:  # [batch * 20, characters] -> [batch, 20, vocabulary]
        steps = list(self.words(words).unflatten(0, (-1, 20)).unbind(1))  # [batch, width] each
        right, left = (
            self._layers(cells, steps[::turn], turn) for cells, turn in zip(self.directions, (1, -1), strict=True)
        )
        weights = torch.softmax(self.mixture, 0).unbind(0)
        both = [torch.cat(pair, 2) for pair in zip(right, left, strict=True)]  # [batch, 20, 2 width] each
        return self.output(torch.stack([weight * layer for weight, layer in zip(weights, both, strict=True)]).sum(0))

    def _layers(self, cells: Sequence[LstmCell], steps: Sequence[Tensor], turn: int) -> list[Tensor]:
        """The input and every layer, each [batch, 20, width] from left to right."""
        found = [torch.stack(list(steps[::turn]), 1)]
        for cell in cells:
            steps = [old + new for old, new in zip(steps, run(cell, steps), strict=True)]
            found.append(torch.stack(list(steps[::turn]), 1))
        return found
