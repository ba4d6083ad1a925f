"""Language models, taggers and other recurrent networks, unrolled step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.recurrent_cells import (
    BothWays,
    Cell,
    ElmanCell,
    GruCell,
    HighwayCell,
    LstmCell,
    SimpleCell,
    run,
)

MakeCell = Callable[[int, int], Cell]


class LanguageModel(nn.Module):
    """Layers of one kind of cell over embedded tokens; a residual connection around each layer if asked for."""

    def __init__(self, make: MakeCell, layers: int, width: int, vocabulary: int, *, residual: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.cells = nn.ModuleList(make(width, width) for _ in range(layers))
        self.drop, self.residual = nn.Dropout(0.2), residual
        self.output = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, length] -> [batch, length, vocabulary]
        steps = list(self.drop(self.embedding(tokens)).unbind(1))  # [batch, width] each
        for cell in self.cells:
            hidden = run(cell, steps)
            steps = [old + new for old, new in zip(steps, hidden, strict=True)] if self.residual else hidden
        return self.output(self.drop(torch.stack(steps, 1)))


class CharacterWords(nn.Module):
    """Words from their characters: convolutions of several widths, each maximised over the word, and a highway layer
    (Kim et al., Character-Aware Neural Language Models, 2016, section 2)."""

    def __init__(self, width: int, channels: Sequence[int] = (32, 32, 64, 128, 256)) -> None:
        super().__init__()
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

    def _layers(self, cells: Sequence[Cell], steps: Sequence[Tensor], turn: int) -> list[Tensor]:
        """The input and every layer, each [batch, 20, width] from left to right."""
        found = [torch.stack(list(steps[::turn]), 1)]
        for cell in cells:
            steps = [old + new for old, new in zip(steps, run(cell, steps), strict=True)]
            found.append(torch.stack(list(steps[::turn]), 1))
        return found


class Tagger(nn.Module):
    """Huang et al., Bidirectional LSTM-CRF Models for Sequence Tagging, 2015, with the forward recursion of the CRF."""

    def __init__(self, layers: int, width: int, tags: int = 17) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20000, width)
        self.layers = nn.ModuleList(BothWays(LstmCell, width if i == 0 else 2 * width, width) for i in range(layers))
        self.scores, self.transitions = nn.Linear(2 * width, tags), nn.Parameter(torch.randn(tags, tags))

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, length] -> [batch]: the log of the partition sum
        steps = list(self.embedding(tokens).unbind(1))
        for layer in self.layers:
            steps = layer(steps)
        total, *others = [self.scores(step) for step in steps]  # [batch, tags] each
        for scores in others:
            total = torch.logsumexp(total.unsqueeze(2) + self.transitions, 1) + scores
        return torch.logsumexp(total, 1)


class Siamese(nn.Module):
    """Mueller and Thyagarajan, Siamese Recurrent Architectures for Learning Sentence Similarity, 2016."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding, self.cell = nn.Embedding(20000, width), LstmCell(width, width)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:  # [batch, length] each -> [batch]
        sides = [run(self.cell, self.embedding(side).unbind(1))[-1] for side in (left, right)]
        return -(sides[0] - sides[1]).abs().sum(1)


class ClockworkCell(Cell):
    """Koutnik et al., A Clockwork RNN, 2014: the module of period 2^i moves at every 2^i-th step."""

    def __init__(self, inputs: int, width: int, modules: int = 4) -> None:
        super().__init__(inputs, width)
        self.modules_inputs = nn.ModuleList(
            nn.Linear(inputs + width * (modules - i) // modules, width // modules) for i in range(modules)
        )
        self.time = 0

    def start(self, step: Tensor) -> tuple[Tensor, ...]:
        self.time = 0
        return super().start(step)

    def forward(self, step: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        parts = list(state[0].chunk(len(self.modules_inputs), 1))  # fastest first
        for i, layer in enumerate(self.modules_inputs):
            if self.time % 2**i == 0:
                slower = state[0].chunk(len(parts), 1)[i:]  # a module reads itself and the slower ones
                parts[i] = torch.tanh(layer(torch.cat([step, *slower], 1)))
        self.time += 1
        return (torch.cat(parts, 1),)


class NestedTree(nn.Module):
    """A binary Tree-LSTM over a complete tree (Tai et al., Improved Semantic Representations, 2015, section 3.2)."""

    def __init__(self, width: int, classes: int = 5) -> None:
        super().__init__()
        self.embedding, self.leaf = nn.Embedding(20000, width), nn.Linear(width, 2 * width)
        self.merge, self.output = nn.Linear(2 * width, 5 * width), nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, 2^depth] -> [batch, classes]
        nodes = [tuple(self.leaf(word).chunk(2, 1)) for word in self.embedding(tokens).unbind(1)]
        while len(nodes) > 1:
            nodes = [self._merged(*pair) for pair in zip(nodes[::2], nodes[1::2], strict=True)]
        return self.output(nodes[0][0])

    def _merged(self, left: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        gates = self.merge(torch.cat([left[0], right[0]], 1))  # [batch, 5 width]
        write, keep_left, keep_right, show, candidate = gates.chunk(5, 1)
        kept = torch.sigmoid(keep_left) * left[1] + torch.sigmoid(keep_right) * right[1]
        memory = kept + torch.sigmoid(write) * torch.tanh(candidate)
        return torch.sigmoid(show) * torch.tanh(memory), memory


#: By the name that the table has for them.
CELLS: Mapping[str, MakeCell] = {
    "LSTM": LstmCell,
    "GRU": GruCell,
    "Elman": ElmanCell,
    "highway": HighwayCell,
    "simple": SimpleCell,
    "clockwork": ClockworkCell,
}


def language_model(cell: str, layers: int, width: int, *, residual: bool = False) -> LanguageModel:
    """Layers of one cell over 10,000 words."""
    return LanguageModel(CELLS[cell], layers, width, 10000, residual=residual)
