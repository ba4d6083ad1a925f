"""Recurrent encoders and decoders with attention, one decoder step after the other."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.gnmt import Attention
from placewright.lab.datasets.zoo.recurrent_cells import BothWays, GruCell, LstmCell, run

VOCABULARY = 20000


class AlignAndTranslate(nn.Module):
    """Bahdanau et al., Neural Machine Translation by Jointly Learning to Align and Translate, 2015: attention is asked
    with the decoder's state before the step, which then reads what it found."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(VOCABULARY, width), nn.Embedding(VOCABULARY, width)
        self.encoder, self.join = BothWays(GruCell, width, width), nn.Linear(2 * width, width)
        self.attention, self.cell = Attention(width), GruCell(2 * width, width)
        self.output = nn.Linear(3 * width, VOCABULARY)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:  # -> [batch, length, vocabulary]
        encoded = torch.stack(self.encoder(self.source(source).unbind(1)), 1)  # [batch, length, 2 width]
        encoded = self.join(encoded)  # [batch, length, width]
        keys, results = self.attention.key(encoded), []
        state = (torch.tanh(encoded[:, 0]),)
        for word in self.target(target).unbind(1):  # [batch, width]
            context = self.attention(state[0], keys, encoded)
            state = self.cell(torch.cat([word, context], 1), state)
            results.append(torch.cat([state[0], context, word], 1))
        return self.output(torch.stack(results, 1))


class InputFeeding(nn.Module):
    """Luong et al., Effective Approaches to Attention-based Neural Machine Translation, 2015: stacked LSTMs, bilinear
    attention after the step, and what it found fed into the next one (section 3.3)."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(VOCABULARY, width), nn.Embedding(VOCABULARY, width)
        self.encoder = nn.ModuleList(LstmCell(width, width) for _ in range(layers))
        self.decoder = nn.ModuleList(LstmCell(2 * width if layer == 0 else width, width) for layer in range(layers))
        self.key, self.attend = nn.Linear(width, width, bias=False), nn.Linear(2 * width, width, bias=False)
        self.output = nn.Linear(width, VOCABULARY)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:  # -> [batch, length, vocabulary]
        steps = list(self.source(source).unbind(1))
        for cell in self.encoder:
            steps = run(cell, steps)
        encoded = torch.stack(steps, 1)  # [batch, length, width]
        keys, fed, results = self.key(encoded), torch.zeros_like(steps[0]), []
        states = [cell.start(steps[0]) for cell in self.decoder]
        for word in self.target(target).unbind(1):
            below = torch.cat([word, fed], 1)
            for layer, cell in enumerate(self.decoder):
                states[layer] = cell(below, states[layer])
                below = states[layer][0]
            fed = self._attended(below, keys, encoded)
            results.append(fed)
        return self.output(torch.stack(results, 1))

    def _attended(self, hidden: Tensor, keys: Tensor, encoded: Tensor) -> Tensor:  # [batch, width]
        weights = torch.softmax(torch.bmm(keys, hidden.unsqueeze(2)), 1)  # [batch, length, 1]
        context = (weights * encoded).sum(1)
        return torch.tanh(self.attend(torch.cat([context, hidden], 1)))


class ListenAttendSpell(nn.Module):
    """Chan et al., Listen, Attend and Spell, 2016: every layer of the listener halves the sequence."""

    def __init__(self, width: int, layers: int = 3, letters: int = 30) -> None:
        super().__init__()
        self.listener = nn.ModuleList(
            BothWays(LstmCell, 40 if layer == 0 else 4 * width, width) for layer in range(layers + 1)
        )
        self.letters, self.bridge = nn.Embedding(letters, width), nn.Linear(2 * width, width)
        self.cells = nn.ModuleList((LstmCell(2 * width, width), LstmCell(width, width)))
        self.attention, self.output = Attention(width), nn.Linear(2 * width, letters)

    def forward(self, sound: Tensor, text: Tensor) -> Tensor:  # [batch, frames, 40], [batch, length]
        steps = self.listener[0](sound.unbind(1))
        for layer in list(self.listener)[1:]:
            steps = layer([torch.cat(pair, 1) for pair in zip(steps[::2], steps[1::2], strict=True)])
        encoded = self.bridge(torch.stack(steps, 1))  # [batch, frames / 8, width]
        keys, context, results = self.attention.key(encoded), torch.zeros_like(encoded[:, 0]), []
        lower, upper = (cell.start(context) for cell in self.cells)
        for letter in self.letters(text).unbind(1):
            lower = self.cells[0](torch.cat([letter, context], 1), lower)
            upper = self.cells[1](lower[0], upper)
            context = self.attention(upper[0], keys, encoded)
            results.append(self.output(torch.cat([upper[0], context], 1)))
        return torch.stack(results, 1)  # [batch, length, letters]


class Pointer(nn.Module):
    """Vinyals et al., Pointer Networks, 2015: every step points at one of the inputs, which is read next."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding, self.encoder, self.decoder = nn.Linear(2, width), LstmCell(width, width), LstmCell(width, width)
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, points: Tensor) -> Tensor:  # [batch, count, 2] -> [batch, count, count]
        embedded = self.embedding(points)  # [batch, count, width]
        keys = self.key(torch.stack(run(self.encoder, embedded.unbind(1)), 1))
        state, step, results = self.decoder.start(embedded[:, 0]), embedded.mean(1), []
        for _ in range(points.shape[1]):
            state = self.decoder(step, state)
            scores = self.score(torch.tanh(keys + self.query(state[0]).unsqueeze(1))).squeeze(2)  # [batch, count]
            results.append(scores)
            step = torch.bmm(torch.softmax(scores, 1).unsqueeze(1), embedded).squeeze(1)
        return torch.stack(results, 1)
