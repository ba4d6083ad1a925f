"""Networks that make images: DCGAN, pix2pix, variational autoencoders, coupling flows."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.lab.datasets.zoo.layers import Sum
from placewright.lab.datasets.zoo.objectives import binary_cross_entropy


class Adversaries(nn.Module):
    """A generator and its judge; the step updates both, the judge from what was generated and from the image."""

    def __init__(self, generator: nn.Module, judge: nn.Module, *, conditional: bool) -> None:
        super().__init__()
        self.generator = generator
        self.judge = judge
        self.conditional = conditional

    def forward(
        self, given: Tensor, image: Tensor
    ) -> Tensor:  # noise or an image, [batch, 3, h, w] -> generated, or []
        made = self.generator(given)
        if not self.training:
            return made
        beside = [given] if self.conditional else []
        verdicts = [self.judge(torch.cat([*beside, shown], dim=1)) for shown in (made, made.detach(), image)]
        loss = binary_cross_entropy(verdicts[0]) + binary_cross_entropy(verdicts[1]) + binary_cross_entropy(verdicts[2])
        return loss + 100 * functional.l1_loss(made, image) if self.conditional else loss


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
    return Adversaries(generator, judge, conditional=False)


class Translator(nn.Module):
    """The U-Net of pix2pix, section 6.1.1: eight halvings, eight doublings, skips between equal sizes."""

    def __init__(self) -> None:
        super().__init__()
        widths = (64, 128, 256, 512, 512, 512, 512, 512)
        inner = (_down(a, b) for a, b in pairwise(widths[:-1]))
        self.down = nn.ModuleList([nn.Conv2d(3, 64, 4, 2, 1), *inner, nn.Conv2d(512, 512, 4, 2, 1)])
        inputs = (512, 1024, 1024, 1024, 1024, 512, 256)
        self.up = nn.ModuleList(_up(before, after) for before, after in zip(inputs, widths[-2::-1], strict=True))
        self.last = nn.Sequential(nn.ConvTranspose2d(128, 3, 4, 2, 1), nn.Tanh())

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 256, 256] -> the same
        kept = []
        for down in self.down:
            image = down(image)
            kept.append(image)
        image = kept.pop()
        for up in self.up:
            image = torch.cat([functional.dropout(up(image), 0.5, self.training), kept.pop()], dim=1)
        return self.last(image)


def pix2pix() -> Adversaries:
    """Isola et al., Image-to-Image Translation with Conditional Adversarial Networks, CVPR 2017: one image per step."""
    narrow = _down(64, 128), _down(128, 256), _down(256, 512, 1)
    judge = nn.Sequential(nn.Conv2d(6, 64, 4, 2, 1), nn.LeakyReLU(0.2), *narrow, nn.Conv2d(512, 1, 4, 1, 1))
    return Adversaries(Translator(), judge, conditional=True)


def cycle_generator(blocks: int = 9) -> nn.Sequential:
    """Zhu et al., Unpaired Image-to-Image Translation (CycleGAN), ICCV 2017, appendix 7.2: the generator."""

    def layer(inputs: int, outputs: int, kernel: int, stride: int = 1, *, active: bool = True) -> nn.Sequential:
        padded = nn.ReflectionPad2d(kernel // 2), nn.Conv2d(inputs, outputs, kernel, stride), nn.InstanceNorm2d(outputs)
        return nn.Sequential(*padded, *([nn.ReLU()] if active else []))

    def up(inputs: int, outputs: int) -> nn.Sequential:
        made = nn.ConvTranspose2d(inputs, outputs, 3, 2, 1, 1)
        return nn.Sequential(made, nn.InstanceNorm2d(outputs), nn.ReLU())

    residual = (
        Sum(nn.Identity(), nn.Sequential(layer(256, 256, 3), layer(256, 256, 3, active=False))) for _ in range(blocks)
    )
    down = layer(3, 64, 7), layer(64, 128, 3, 2), layer(128, 256, 3, 2)
    last = nn.ReflectionPad2d(3), nn.Conv2d(64, 3, 7), nn.Tanh()
    return nn.Sequential(*down, *residual, up(256, 128), up(128, 64), *last)


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


class GlowStep(nn.Module):
    """Scaling, a 1x1 convolution and an affine coupling; the state is the image and the log-determinant."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.shift, self.scale = (nn.Parameter(torch.zeros(1, channels, 1, 1)) for _ in range(2))
        self.mix = nn.Parameter(torch.zeros(channels, channels))
        body = nn.Conv2d(channels // 2, hidden, 3, 1, 1), nn.ReLU(), nn.Conv2d(hidden, hidden, 1), nn.ReLU()
        self.body = nn.Sequential(*body, nn.Conv2d(hidden, channels, 3, 1, 1))

    def forward(self, image: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:  # [batch, channels, h, w], [batch]
        places = image.shape[2] * image.shape[3]
        image = functional.conv2d((image + self.shift) * self.scale.exp(), self.mix[:, :, None, None])
        kept, changed = image.chunk(2, dim=1)
        scale, shift = self.body(kept).chunk(2, dim=1)
        scale = torch.sigmoid(scale + 2)
        gain = gain + places * self.scale.sum() + scale.log().sum((1, 2, 3))
        return torch.cat([kept, (changed + shift) * scale], dim=1), gain


class Glow(nn.Module):
    """Kingma & Dhariwal, Glow, NeurIPS 2018, figure 2, the mixing matrices orthogonal: CIFAR-10, batch 64."""

    def __init__(self, levels: int, steps: int, hidden: int = 512) -> None:
        super().__init__()
        self.levels = nn.ModuleList(
            nn.ModuleList(GlowStep(12 * 2**level, hidden) for _ in range(steps)) for level in range(levels)
        )

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, 32, 32] -> [batch] negative log-likelihoods
        gain, energy = image.new_zeros(image.shape[0]), image.new_zeros(image.shape[0])
        for level, steps in enumerate(self.levels):
            image = functional.pixel_unshuffle(image, 2)
            for step in steps:
                image, gain = step(image, gain)
            if level < len(self.levels) - 1:
                image, finished = image.chunk(2, dim=1)
                energy = energy + finished.square().sum((1, 2, 3))
        return 0.5 * (energy + image.square().sum((1, 2, 3)) + 3 * 32 * 32 * math.log(2 * math.pi)) - gain
