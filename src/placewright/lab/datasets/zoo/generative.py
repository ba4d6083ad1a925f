"""Networks that make images: DCGAN and variational autoencoders."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.lab.datasets.zoo.layers import Sum
from placewright.lab.datasets.zoo.objectives import binary_cross_entropy


class Adversaries(nn.Module):
    """A generator and its discriminator; the step updates both, the discriminator from the generated and the given
    image."""

    def __init__(self, generator: nn.Module, judge: nn.Module) -> None:
        super().__init__()
        self.generator, self.judge = generator, judge

    def forward(self, noise: Tensor, image: Tensor) -> Tensor:  # noise, [batch, 3, h, w] -> generated, or []
        made = self.generator(noise)
        if not self.training:
            return made
        first, second, third = (self.judge(shown) for shown in (made, made.detach(), image))
        return binary_cross_entropy(first) + binary_cross_entropy(second) + binary_cross_entropy(third)


def _up(inputs: int, outputs: int, stride: int = 2, padding: int = 1) -> nn.Sequential:
    made = nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False)
    return nn.Sequential(made, nn.BatchNorm2d(outputs), nn.ReLU())


def _down(inputs: int, outputs: int, stride: int = 2) -> nn.Sequential:
    made = nn.Conv2d(inputs, outputs, 4, stride, 1, bias=False)
    return nn.Sequential(made, nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2))


def dcgan() -> Adversaries:
    """Radford et al., Unsupervised Representation Learning with DCGANs, ICLR 2016, figure 1: 64x64, batch 128."""
    wide = _up(100, 1024, 1, 0), _up(1024, 512), _up(512, 256), _up(256, 128)
    generator = nn.Sequential(*wide, nn.ConvTranspose2d(128, 3, 4, 2, 1), nn.Tanh())
    narrow = _down(128, 256), _down(256, 512), _down(512, 1024)
    judge = nn.Sequential(nn.Conv2d(3, 128, 4, 2, 1), nn.LeakyReLU(0.2), *narrow, nn.Conv2d(1024, 1, 4), nn.Flatten())
    return Adversaries(generator, judge)


class Variational(nn.Module):
    """Kingma & Welling, Auto-Encoding Variational Bayes, 2014, with convolutions on 64x64 images, batch 100."""

    def __init__(self, latent: int = 128) -> None:
        super().__init__()
        down = _down(3, 32), _down(32, 64), _down(64, 128), _down(128, 256), nn.Flatten()
        self.encoder = nn.Sequential(*down)
        self.mean, self.spread = nn.Linear(4096, latent), nn.Linear(4096, latent)
        up = _up(256, 128), _up(128, 64), _up(64, 32), nn.ConvTranspose2d(32, 3, 4, 2, 1)
        self.decoder = nn.Sequential(nn.Linear(latent, 4096), nn.Unflatten(1, (256, 4, 4)), *up)

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 64, 64] -> the same, or []
        features = self.encoder(image)  # [batch, 4096]
        mean, spread = self.mean(features), self.spread(features)  # [batch, latent] each, the second as a logarithm
        made = self.decoder(mean + torch.exp(0.5 * spread) * torch.randn_like(mean))
        if not self.training:
            return made
        divergence = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean()
        return functional.binary_cross_entropy_with_logits(made, image.sigmoid()) + divergence


class Quantised(nn.Module):
    """van den Oord et al., Neural Discrete Representation Learning (VQ-VAE), NIPS 2017, section 4.1: batch 128."""

    def __init__(self, width: int = 256, codes: int = 512) -> None:
        super().__init__()

        def residual() -> Sum:
            layers = nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 1)
            return Sum(nn.Identity(), nn.Sequential(*layers))

        down = nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1)
        self.encoder = nn.Sequential(*down, residual(), residual())
        self.codes = nn.Embedding(codes, width)
        up = nn.ConvTranspose2d(width, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1)
        self.decoder = nn.Sequential(residual(), residual(), *up)

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 32, 32] -> the same, or []
        encoded = self.encoder(image)  # [batch, width, 8, 8]
        rows = encoded.permute(0, 2, 3, 1).reshape(-1, encoded.shape[1])  # [batch * 64, width]
        table = self.codes.weight  # [codes, width]
        distance = rows.square().sum(1, keepdim=True) - 2 * rows @ table.t() + table.square().sum(1)
        nearest = self.codes(distance.argmin(1)).view(encoded.shape[0], 8, 8, -1).permute(0, 3, 1, 2)
        made = self.decoder(encoded + (nearest - encoded).detach())
        if not self.training:
            return made
        committed = functional.mse_loss(nearest, encoded.detach()) + 0.25 * functional.mse_loss(
            encoded, nearest.detach()
        )
        return functional.mse_loss(made, image) + committed
