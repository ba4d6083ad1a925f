"""Peak memory of training steps that Inductor compiles: by default, within PyTorch's budgets, and as planned.

python benchmarks/fit_inductor.py prints a table for each network, measured in a process of its own. "Measured" is what
PyTorch's allocator hands out, "process" every malloc of the process; both hold parameters and arguments. Limits are
shares of what eager takes by the allocator. One thread, so that times are processor times.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from run_process_memory import LIBRARY, MIB, counting_environment, process_peak
from torch import nn
from zoo_modules import module_of

import placewright
from placewright.execution.pytorch.memory import allocated_peak
from placewright.lab.datasets.zoo.libraries import import_torchvision

Network = tuple[nn.Module, tuple[torch.Tensor, ...]]
BUDGETS = (0.5, 0.3, 0.1)
LIMITS = (0.7, 0.5, 0.35, 0.25)


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(inner)))


def residual_cnn() -> Network:
    """Six residual blocks of 32 channels, 8 pictures of 64 x 64."""
    layers = [nn.Conv2d(3, 32, 3, padding=1), *(Block(32) for _ in range(6)), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(32, 10)), (torch.randn(8, 3, 64, 64),)


class UNet(nn.Module):
    """Three levels with group normalisation and skip connections."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64)) -> None:
        super().__init__()
        pairs = list(zip((3, *widths), widths, strict=False))
        self.down = nn.ModuleList(self._level(before, after) for before, after in pairs)
        self.up = nn.ModuleList(self._level(after + before, before) for before, after in pairs[:0:-1])
        self.end = nn.Conv2d(widths[0], 3, 1)

    def _level(self, before: int, after: int) -> nn.Sequential:
        convolutions = (nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1))
        parts = ((convolution, nn.GroupNorm(8, after), nn.SiLU()) for convolution in convolutions)
        return nn.Sequential(*(layer for part in parts for layer in part))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = []
        for level in self.down:
            x = level(x)
            skipped.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = skipped.pop()
        for level in self.up:
            x = nn.functional.interpolate(x, scale_factor=2.0)
            x = level(torch.cat((x, skipped.pop()), 1))
        result: torch.Tensor = self.end(x)
        return result


def unet() -> Network:
    """A U-Net, 8 pictures of 64 x 64."""
    return UNet(), (torch.randn(8, 3, 64, 64),)


def two_layers() -> Network:
    """Two layers, which are compiled in seconds."""
    return nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)), (torch.randn(64, 64),)


def gpt2() -> Network:
    """GPT-2 with 4 layers of 256 and no dropout, whose numbers eager would draw otherwise; 4 texts of 256 tokens."""
    import_torchvision()
    from transformers import GPT2Config, GPT2LMHeadModel

    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = GPT2Config(n_layer=4, n_embd=256, n_head=4, n_positions=256, vocab_size=1000, use_cache=False, **drops)
    return GPT2LMHeadModel(config), (torch.randint(0, 1000, (4, 256)),)


NETWORKS: dict[str, Callable[[], Network]] = {
    "residual_cnn": residual_cnn,
    "resnet18": partial(module_of, "resnet18", 8),
    "unet": unet,
    "gpt2": gpt2,
}
TINY = {"two_layers": two_layers}


class WithLoss(nn.Module):
    """A network and its loss, so that both are compiled."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.network(x)
        return getattr(found, "logits", found).square().mean()


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("networks", nargs="*", default=list(NETWORKS), metavar="NETWORK")
    options.add_argument("--budgets", nargs="*", type=float, default=BUDGETS)
    options.add_argument("--limits", nargs="*", type=float, default=LIMITS)
    return options


def measured(model: nn.Module, call: Any, args: tuple[torch.Tensor, ...]) -> tuple[int, int, float, list[torch.Tensor]]:
    """Bytes by the allocator and of the process, median processor time of three steps, and the gradients."""

    def step() -> None:
        call(*args).backward()

    def anew(measure: Callable[[Callable[[], None]], Any]) -> Any:
        model.zero_grad()
        return measure(step)

    held = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers(), *args))
    for _ in range(2):
        anew(lambda step: step())
    taken, process = anew(allocated_peak), anew(process_peak)
    times = [anew(_processor_time) for _ in range(3)]
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return held + taken, held + process, statistics.median(times), gradients


def _processor_time(call: Callable[[], None]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def rows(name: str, budgets: list[float], limits: list[float]) -> Iterator[str]:
    """Each way to run one network."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network, args = (NETWORKS | TINY)[name]()
    original = WithLoss(network).train()
    eager = copy.deepcopy(original)
    base, process, seconds, expected = measured(eager, eager, args)
    yield f"| {name} | eager | | {base / MIB:.1f} | {process / MIB:.1f} | | {seconds * 1e3:.0f} ms | |"

    def row(way: str, limit: int | None = None) -> str:
        torch._dynamo.reset()
        model = copy.deepcopy(original)
        if limit is None:
            compiled = torch.compile(model, dynamic=False)
        else:
            compiled = placewright.fit(model, limit, backend="inductor")
        taken, whole, taken_s, gradients = measured(model, compiled, args)
        largest = max(float(gradient.abs().max()) for gradient in expected)
        off = max(float((one - other).abs().max()) for one, other in zip(gradients, expected, strict=True)) / largest
        planned, again = "", ""
        if limit is not None:
            (fitted,) = compiled.graphs
            planned, again = f"{fitted.plan.peak_bytes[0] / base:.3f}", str(len(fitted.plan.reruns))
        sizes = f"{planned} | {taken / base:.3f} | {whole / process:.3f} | {again} | {taken_s / seconds:.2f}"
        return f"| {name} | {way} | {sizes} | {off:.1e} |"

    with (
        torch._functorch.config.patch(enable_autograd_cache=False),
        torch._inductor.config.patch(fx_graph_cache=False),
    ):
        yield row("compiled")
        for budget in budgets:
            with torch._functorch.config.patch(activation_memory_budget=budget):
                yield row(f"budget {budget}")
        for limit in limits:
            try:
                yield row(f"limit {limit}", int(limit * base))
            except placewright.InputError as error:
                yield f"| {name} | limit {limit} | {str(error).splitlines()[0]} |"


def main() -> None:
    arguments = parser().parse_args()
    if LIBRARY in os.environ:
        for name in arguments.networks:
            for line in rows(name, arguments.budgets, arguments.limits):
                print(line, flush=True)
        return
    print("| network | way | planned | measured | process | runs again | processor time | gradients off |")
    print("|---|---|" + "---:|" * 6, flush=True)
    ways = ["--budgets", *map(str, arguments.budgets), "--limits", *map(str, arguments.limits)]
    with tempfile.TemporaryDirectory() as folder:
        environment = counting_environment(Path(folder))
        for name in arguments.networks:
            subprocess.run([sys.executable, __file__, name, *ways], check=True, env=environment)


if __name__ == "__main__":
    main()
