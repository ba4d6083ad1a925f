"""Recurrent networks unrolled as in TensorFlow 1: every step is a separate call, including lookups and softmax."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.lab.datasets.zoo.gnmt import Attention
from placewright.lab.datasets.zoo.recurrent_cells import LstmCell


class Softmax(nn.Module):
    """The prediction of one step and its loss."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, vocabulary)

    def forward(self, hidden: Tensor, label: Tensor) -> Tensor:  # [batch, width], [batch] -> []
        return functional.cross_entropy(self.output(hidden), label)


class UnrolledLanguageModel(nn.Module):
    """The loss of a recurrent language model (Zaremba et al. 2014), whose grid of cells ColocRL and GDP place."""

    def __init__(self, layers: int, width: int, vocabulary: int) -> None:
        super().__init__()
        self.embedding, self.softmax = nn.Embedding(vocabulary, width), Softmax(width, vocabulary)
        self.cells = nn.ModuleList(LstmCell(width, width) for _ in range(layers))

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:  # [batch, length] each -> []
        states: list[tuple[Tensor, ...]] = []
        losses = []
        for token, label in zip(tokens.unbind(1), labels.unbind(1), strict=True):
            below = self.embedding(token)
            states = states or [cell.start(below) for cell in self.cells]
            for layer, cell in enumerate(self.cells):
                states[layer] = cell(below, states[layer])
                below = states[layer][0]
            losses.append(self.softmax(below, label))
        return torch.stack(losses).mean()


class UnrolledTranslation(nn.Module):
    """The loss of translation with attention (Bahdanau et al. 2015) over layers of LSTMs, the NMT of ColocRL and HDP.
    The highest layer queries the attention, which the softmax and the first layer of the next step read."""

    def __init__(self, layers: int, width: int, vocabulary: int) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        self.encoder = nn.ModuleList(LstmCell(width, width) for _ in range(layers))
        self.decoder = nn.ModuleList(LstmCell(2 * width if layer == 0 else width, width) for layer in range(layers))
        self.attention, self.softmax = Attention(width), Softmax(2 * width, vocabulary)

    def forward(self, source: Tensor, target: Tensor, labels: Tensor) -> Tensor:  # [batch, length] each -> []
        encoded, states = self._encoded(source)
        keys, context, losses = self.attention.key(encoded), torch.zeros_like(encoded[:, 0]), []
        for word, label in zip(target.unbind(1), labels.unbind(1), strict=True):
            below = torch.cat([self.target(word), context], 1)
            for layer, cell in enumerate(self.decoder):
                states[layer] = cell(below, states[layer])
                below = states[layer][0]
            context = self.attention(below, keys, encoded)
            losses.append(self.softmax(torch.cat([below, context], 1), label))
        return torch.stack(losses).mean()

    def _encoded(self, source: Tensor) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Return the highest layer's output for every word, [batch, length, width], and the last state of every
        layer."""
        steps = []
        states: list[tuple[Tensor, ...]] = []
        for word in source.unbind(1):
            below = self.source(word)
            states = states or [cell.start(below) for cell in self.encoder]
            for layer, cell in enumerate(self.encoder):
                states[layer] = cell(below, states[layer])
                below = states[layer][0]
            steps.append(below)
        return torch.stack(steps, 1), states
