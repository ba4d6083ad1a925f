"""Convolutions over time: WaveNet, temporal convolutional network, Conv-TasNet."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from placewright.lab.datasets.zoo.layers import Sum


class Causal(nn.Conv1d):
    """A convolution that sees only the past, padded on the left."""

    def forward(self, signal: Tensor) -> Tensor:  # [batch, inputs, length] -> [batch, outputs, length]
        return super().forward(functional.pad(signal, ((self.kernel_size[0] - 1) * self.dilation[0], 0)))


class WaveNet(nn.Module):
    """van den Oord et al., WaveNet, 2016, figures 2-4: dilations 1, 2, ..., 512, repeated; one second at 8 kHz."""

    def __init__(self, layers: int, width: int = 64, skip: int = 256, levels: int = 256) -> None:
        super().__init__()
        dilations = [2 ** (place % 10) for place in range(layers)]
        self.enter = Causal(levels, width, 2)
        self.filters = nn.ModuleList(Causal(width, width, 2, dilation=dilation) for dilation in dilations)
        self.gates = nn.ModuleList(Causal(width, width, 2, dilation=dilation) for dilation in dilations)
        self.residuals = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in dilations[1:])
        self.skips = nn.ModuleList(nn.Conv1d(width, skip, 1) for _ in dilations)
        self.leave = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, levels, 1))

    def forward(self, signal: Tensor) -> Tensor:  # [batch, levels, length] one-hot -> the same, logits
        signal, total = self.enter(signal), None
        for place, (filtered, gate, skip) in enumerate(zip(self.filters, self.gates, self.skips, strict=True)):
            active = filtered(signal).tanh() * gate(signal).sigmoid()  # [batch, width, length]
            total = skip(active) if total is None else total + skip(active)
            if place < len(self.residuals):
                signal = signal + self.residuals[place](active)
        return self.leave(total)


def temporal_network(levels: int = 8, width: int = 25) -> nn.Sequential:
    """Bai et al., An Empirical Evaluation of Generic Convolutional and Recurrent Networks, 2018, figure 1: pixels."""

    def block(inputs: int, dilation: int) -> nn.Sequential:
        def half(before: int) -> nn.Sequential:
            return nn.Sequential(Causal(before, width, 7, dilation=dilation), nn.ReLU(), nn.Dropout(0.05))

        shortcut = nn.Identity() if inputs == width else nn.Conv1d(inputs, width, 1)
        return nn.Sequential(Sum(nn.Sequential(half(inputs), half(width)), shortcut), nn.ReLU())

    blocks = (block(width if place else 1, 2**place) for place in range(levels))
    return nn.Sequential(*blocks, nn.Conv1d(width, 10, 1))


class TasNet(nn.Module):
    """Luo & Mesgarani, Conv-TasNet, 2019, figure 1 and table II: two speakers, four seconds at 8 kHz."""

    def __init__(self, filters: int = 512, width: int = 128, repeats: int = 3, blocks: int = 8) -> None:
        super().__init__()
        self.filters = filters
        self.encoder = nn.Conv1d(1, filters, 16, 8, bias=False)
        self.enter = nn.Sequential(nn.GroupNorm(1, filters), nn.Conv1d(filters, width, 1))
        self.blocks = nn.ModuleList(self._block(width, filters, 2**n) for _ in range(repeats) for n in range(blocks))
        self.residuals = nn.ModuleList(nn.Conv1d(filters, width, 1) for _ in self.blocks[1:])
        self.skips = nn.ModuleList(nn.Conv1d(filters, width, 1) for _ in self.blocks)
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(width, 2 * filters, 1), nn.Sigmoid())
        self.decoder = nn.ConvTranspose1d(filters, 1, 16, 8, bias=False)

    @staticmethod
    def _block(width: int, hidden: int, dilation: int) -> nn.Sequential:
        first = nn.Conv1d(width, hidden, 1), nn.PReLU(), nn.GroupNorm(1, hidden)
        second = nn.Conv1d(hidden, hidden, 3, 1, dilation, dilation, hidden), nn.PReLU(), nn.GroupNorm(1, hidden)
        return nn.Sequential(*first, *second)

    def forward(self, mixture: Tensor) -> Tensor:  # [batch, 1, 32000] -> [batch, 2, 32000]
        encoded = self.encoder(mixture)  # [batch, filters, 3999]
        features, total = self.enter(encoded), None
        for place, (block, skip) in enumerate(zip(self.blocks, self.skips, strict=True)):
            hidden = block(features)
            total = skip(hidden) if total is None else total + skip(hidden)
            if place < len(self.residuals):
                features = features + self.residuals[place](hidden)
        masks = self.mask(total).unflatten(1, (2, self.filters))  # [batch, 2, filters, 3999]
        apart = (masks * encoded[:, None]).flatten(0, 1)  # [batch * 2, filters, 3999]
        return self.decoder(apart).unflatten(0, (-1, 2))[:, :, 0]
