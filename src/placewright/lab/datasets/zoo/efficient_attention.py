"""Transformers whose attention is not that of every position to every other: linear, hashed, by segment."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from placewright.lab.datasets.zoo.attention import Attention, Block, feed_forward, joined, masked, split
from placewright.lab.datasets.zoo.transformer import VOCABULARY, LanguageModel


class LinearAttention(Attention):
    """Attention as a product of features, linear in the length (Katharopoulos et al., Transformers are RNNs, 2020)."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key = nn.functional.elu(query) + 1, nn.functional.elu(key) + 1
        normaliser = query @ key.sum(2).unsqueeze(3)  # [batch, heads, length, 1]
        return query @ (key.transpose(2, 3) @ value) / normaliser


class RandomFeatures(Attention):
    """Choromanski et al., Rethinking Attention with Performers, 2021: softmax by positive random features."""

    def __init__(self, width: int, heads: int, features: int = 128) -> None:
        super().__init__(width, heads)
        self.register_buffer("projection", torch.randn(self.size, features))

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key = self._features(query, 3), self._features(key, 2)
        normaliser = query @ key.sum(2).unsqueeze(3)  # [batch, heads, length, 1]
        return query @ (key.transpose(2, 3) @ value) / normaliser

    def _features(self, heads: Tensor, axis: int) -> Tensor:  # [batch, heads, length, size] -> [..., features]
        heads = heads * self.size**-0.25
        projected = heads @ self.projection
        return (projected - heads.square().sum(3, keepdim=True) / 2 - projected.amax(axis, keepdim=True)).exp() + 1e-6


class SegmentAttention(Attention):
    """Attention over a segment and the one before it, with relative positions (Dai et al., Transformer-XL, 2019)."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__(width, heads, bias=False)
        self.places = nn.Parameter(torch.randn(2 * length, width))
        self.content_bias, self.place_bias = (nn.Parameter(torch.randn(heads, 1, width // heads)) for _ in range(2))

    def forward(self, sequence: Tensor, before: Tensor | None = None) -> Tensor:  # [batch, length, width] each
        memory = sequence if before is None else torch.cat([before.detach(), sequence], 1)
        query = split(self.query(sequence), self.size)  # [batch, heads, length, size]
        key, value = split(self.key(memory), self.size), split(self.value(memory), self.size)
        places = split(self.places[: memory.shape[1]].unsqueeze(0), self.size)
        content = (query + self.content_bias) @ key.transpose(2, 3)  # [batch, heads, length, memory length]
        scores = masked(content + _shifted((query + self.place_bias) @ places.transpose(2, 3)))
        return self.output(joined(torch.softmax(scores * self.size**-0.5, 3) @ value))


def _shifted(scores: Tensor) -> Tensor:  # [batch, heads, length, total] -> the same
    """Row i moved left by length - i - 1: column distances become columns (appendix B of Transformer-XL)."""
    batch, heads, length, total = scores.shape
    padded = torch.cat([scores.new_zeros(batch, heads, length, 1), scores], 3)
    return padded.view(batch, heads, total + 1, length)[:, :, 1:].reshape(batch, heads, length, total)


class TransformerXl(nn.Module):
    """Two segments, one after the other; each layer of the second also sees the first's input to that layer."""

    def __init__(self, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.attentions = nn.ModuleList(SegmentAttention(width, heads, length) for _ in range(layers))
        self.alone = nn.ModuleList(Block(width, feed_forward(width, 4 * width), before=False) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))

    def forward(self, tokens: Tensor) -> Tensor:  # [batch, 2 length] -> [batch, 2 length, vocabulary]
        first, second = self.embedding(tokens).chunk(2, 1)
        for attention, alone, norm in zip(self.attentions, self.alone, self.norms, strict=True):
            seen = first
            first = alone(norm(first + attention(first)))
            second = alone(norm(second + attention(second, seen)))
        return torch.cat([first, second], 1) @ self.embedding.weight.T


class Hashed(Attention):
    """Kitaev et al., Reformer, 2020: queries are keys, sorted by a random rotation, and look within and one chunk back;
    several rounds are weighted by their normalisers."""

    def __init__(self, width: int, heads: int, chunk: int, rounds: int = 2) -> None:
        super().__init__(width, heads)
        self.chunk, self.rounds = chunk, rounds
        self.register_buffer("rotation", torch.randn(rounds, self.size, 8))

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        found = [self._round(query, value, rotation) for rotation in self.rotation.unbind(0)]
        weights = torch.softmax(torch.stack([normaliser for _, normaliser in found]), 0).unsqueeze(4)
        return (torch.stack([result for result, _ in found]) * weights).sum(0)

    def _round(self, query: Tensor, value: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, heads, length, size] each -> the same and the logarithm of the normaliser [batch, heads, length]."""
        turned = query @ rotation  # [batch, heads, length, 8]
        order = torch.cat([turned, -turned], 3).argmax(3).argsort(2)  # [batch, heads, length]
        places = order.unsqueeze(3).expand_as(query)
        chunks = query.gather(2, places).unflatten(2, (-1, self.chunk))  # [batch, heads, chunks, chunk, size]
        values = value.gather(2, places).unflatten(2, (-1, self.chunk))
        keys, values = (torch.cat([part.roll(1, 2), part], 3) for part in (chunks, values))
        scores = chunks @ keys.transpose(3, 4) * self.size**-0.5  # [batch, heads, chunks, chunk, 2 chunk]
        normaliser = scores.logsumexp(4)  # [batch, heads, chunks, chunk]
        result = ((scores - normaliser.unsqueeze(4)).exp() @ values).flatten(2, 3)
        back = order.argsort(2)
        return result.gather(2, back.unsqueeze(3).expand_as(result)), normaliser.flatten(2).gather(2, back)


class Retention(Attention):
    """Sun et al., Retentive Network, 2023, chunk by chunk: products within, a decaying state between."""

    def __init__(self, width: int, heads: int, chunk: int) -> None:
        super().__init__(width, heads, bias=False)
        self.chunk = chunk
        self.register_buffer("within", torch.randn(heads, chunk, chunk))
        self.register_buffer("since", torch.randn(heads, chunk, 1))
        self.norm = nn.LayerNorm(self.size)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        state = query.new_zeros(*query.shape[:2], self.size, self.size)
        results = []
        for asked, kept, held in zip(*(part.split(self.chunk, 2) for part in (query, key, value)), strict=True):
            inner = (asked @ kept.transpose(2, 3) * self.within) @ held  # [batch, heads, chunk, size]
            results.append(inner + asked @ state * self.since)
            state = state * self.since[:, -1:] + (kept * self.since.flip(1)).transpose(2, 3) @ held
        return self.norm(torch.cat(results, 2))


def _model(width: int, layers: int, make: Callable[[], nn.Module]) -> LanguageModel:
    """Blocks of the made part and a feed-forward part."""
    return LanguageModel(width, [Block(width, make(), feed_forward(width, 4 * width)) for _ in range(layers)])


def linear(width: int, heads: int, layers: int) -> LanguageModel:
    """A transformer with linear attention."""
    return _model(width, layers, lambda: LinearAttention(width, heads))


def performer(width: int, heads: int, layers: int) -> LanguageModel:
    """A transformer with attention by random features."""
    return _model(width, layers, lambda: RandomFeatures(width, heads))


def reformer(width: int, heads: int, layers: int, chunk: int) -> LanguageModel:
    """A transformer with hashed attention."""
    return _model(width, layers, lambda: Hashed(width, heads, chunk))


def retentive(width: int, heads: int, layers: int, chunk: int) -> LanguageModel:
    """A transformer with retention."""
    return _model(width, layers, lambda: Retention(width, heads, chunk))
