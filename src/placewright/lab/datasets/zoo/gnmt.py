"""A translation network like GNMT (Wu et al., Google's Neural Machine Translation System, 2016), unrolled in time."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.lab.datasets.zoo.recurrent_cells import LstmCell, run


class Encoder(nn.Module):
    """A bidirectional first layer, then layers in one direction; residual connections from the third layer on."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.forward_cell, self.backward_cell = LstmCell(width, width), LstmCell(width, width)
        self.cells = nn.ModuleList(LstmCell(2 * width if layer == 0 else width, width) for layer in range(layers - 1))

    def forward(self, steps: list[Tensor]) -> Tensor:  # [batch, width] each -> [batch, length, width]
        backward = run(self.backward_cell, steps[::-1])[::-1]
        both = zip(run(self.forward_cell, steps), backward, strict=True)
        steps = [torch.cat(pair, 1) for pair in both]
        for layer, cell in enumerate(self.cells):
            hidden = run(cell, steps)
            steps = hidden if layer == 0 else [new + old for new, old in zip(hidden, steps, strict=True)]
        return torch.stack(steps, 1)


class Attention(nn.Module):
    """Additive attention (Bahdanau et al., 2015) of one decoder step over all encoder steps."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, hidden: Tensor, keys: Tensor, encoded: Tensor) -> Tensor:
        """Return the context, [batch, width]. hidden: [batch, width]; keys, encoded: [batch, length, width]."""
        scores = self.score(torch.tanh(self.query(hidden).unsqueeze(1) + keys))  # [batch, length, 1]
        weights = torch.softmax(scores, 1).transpose(1, 2)  # [batch, 1, length]
        return torch.bmm(weights, encoded).squeeze(1)


class Decoder(nn.Module):
    """A decoder whose first layer's output queries the attention; every layer above reads the context at the same
    step."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.first, self.attention = LstmCell(width, width), Attention(width)
        self.cells = nn.ModuleList(LstmCell(2 * width, width) for _ in range(layers - 1))

    def forward(self, steps: list[Tensor], encoded: Tensor) -> Tensor:  # -> [batch, length, width]
        keys = self.attention.key(encoded)
        steps = run(self.first, steps)
        contexts = [self.attention(hidden, keys, encoded) for hidden in steps]
        for layer, cell in enumerate(self.cells):
            hidden = run(cell, [torch.cat(pair, 1) for pair in zip(steps, contexts, strict=True)])
            steps = hidden if layer == 0 else [new + old for new, old in zip(hidden, steps, strict=True)]
        return torch.stack(steps, 1)


class Translation(nn.Module):
    """The loss of translating `source` to `target`, token by token; the target is its own input, shifted by one
    step."""

    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        self.encoder, self.decoder = Encoder(width, layers), Decoder(width, layers)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, source: Tensor, target: Tensor, label: Tensor) -> Tensor:  # [batch, length] each
        encoded = self.encoder(list(self.source(source).unbind(1)))
        decoded = self.decoder(list(self.target(target).unbind(1)), encoded)  # [batch, length, width]
        return functional.cross_entropy(self.output(decoded).flatten(0, 1), label.flatten())
