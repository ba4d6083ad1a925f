"""Advice of `placewright fit` for networks on GPUs, and whether its first line is the fastest of all that was tried.

Prints a table; the networks hold no memory, so that any host can answer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import placewright
from placewright.analysis.alternatives import Alternatives, answer_words
from placewright.lab.datasets.zoo.libraries import import_torchvision

GPUS = (("rtx3090", "11.4GiB"), ("rtx3090", None), ("a100", None))


class Trained(nn.Module):
    """A network with its loss."""

    def __init__(self, network: nn.Module, loss: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self, given: Any, wanted: Any) -> Any:
        return self.loss(self.network(given), wanted)


class Tokens(nn.Module):
    """A language model of transformers, which is called without its cache."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, given: Any) -> Any:
        return self.network(given, use_cache=False).logits.flatten(0, 1)


def llama(scale: int) -> tuple[nn.Module, Any]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=2048 // scale,
        num_hidden_layers=max(2, 16 // scale),
        num_attention_heads=32 // scale,
        num_key_value_heads=max(1, 8 // scale),
        intermediate_size=8192 // scale,
        vocab_size=32000 // scale,
    )
    return of_tokens(LlamaForCausalLM(config), 1, 2048 // scale, config.vocab_size)


def gpt(scale: int) -> tuple[nn.Module, Any]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=max(2, 12 // scale), n_embd=768 // scale, n_head=12 // scale, vocab_size=50257 // scale)
    return of_tokens(GPT2LMHeadModel(config), 8, 1024 // scale, config.vocab_size)


def of_tokens(network: nn.Module, batch: int, length: int, vocabulary: int) -> tuple[nn.Module, Any]:
    tokens = torch.zeros(batch, length, dtype=torch.long, device="meta")
    model = Trained(Tokens(network), lambda logits, wanted: nn.functional.cross_entropy(logits, wanted.flatten()))
    return model, (tokens, tokens.clone())


def resnet(scale: int) -> tuple[nn.Module, Any]:
    from torchvision.models import resnet18, resnet50

    network = resnet50() if scale == 1 else resnet18()
    side, batch = 224 // scale, 128 // scale
    given = torch.empty(batch, 3, side, side, device="meta")
    return Trained(network, nn.functional.cross_entropy), (given, torch.zeros(batch, dtype=torch.long, device="meta"))


def segmentation(scale: int) -> tuple[nn.Module, Any]:
    from torchvision.models.segmentation import fcn_resnet50, lraspp_mobilenet_v3_large

    network = fcn_resnet50(weights_backbone=None) if scale == 1 else lraspp_mobilenet_v3_large(weights_backbone=None)
    side, batch = 512 // scale, 16 // scale
    given = torch.empty(batch, 3, side, side, device="meta")
    wanted = torch.zeros(batch, side, side, dtype=torch.long, device="meta")
    return Trained(network, lambda out, y: nn.functional.cross_entropy(out["out"], y)), (given, wanted)


NETWORKS = {"llama": llama, "gpt2": gpt, "resnet": resnet, "segmentation": segmentation}


def is_fastest(found: Alternatives) -> bool:
    """True if the first row is the fastest setup that fits and trains the same; where none does, the fastest that fits;
    or if none fits."""
    fits = [each for each in found.setups if each.fits]
    counted = [each for each in fits if not each.changes] or fits
    first = found.setups[0]
    return not fits or (
        first in counted and first.time_per_sample_ns == min(each.time_per_sample_ns for each in counted)
    )


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    options.add_argument("--scale", type=int, default=1, help="Divides all sizes: 4 for a try.")
    options.add_argument("--time-limit", default="20s", help="Of each answer.")
    return options


def main() -> None:
    options = parser().parse_args()
    import_torchvision()
    right = total = 0
    print("| network | GPU | seconds | fastest | answer |\n|---|---|---:|---|---|")
    for name in options.networks:
        with torch.device("meta"):
            model, args = NETWORKS[name](options.scale)
        for gpu, limit in GPUS:
            began = time.process_time()
            found = placewright.alternatives(
                model, gpu, args=args, memory_limit=limit, time_limit=options.time_limit
            ).facts
            seconds = time.process_time() - began
            right, total = right + is_fastest(found), total + 1
            card = f"{gpu} {limit}" if limit else gpu
            print(
                f"| {name} | {card} | {seconds:.1f} | {'yes' if is_fastest(found) else 'no'} | {answer_words(found)} |"
            )
    print(f"\nthe first line is the fastest of all that was tried in {right} of {total}")


if __name__ == "__main__":
    main()
