"""Convolutions over time: WaveNet."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class Causal(nn.Conv1d):
    """A convolution that reads only the past, padded on the left."""

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
