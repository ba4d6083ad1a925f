"""The code to paste for a way to run a training step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.api.pass_captures import LORA_RANK, Trained
from placewright.api.step_optimizers import OwnOptimizer


def prepared(trained: Trained, blocks: Sequence[str], autocast: str, optimizer: OwnOptimizer) -> Iterator[str]:
    """Yield the code before the first step.

    blocks: names of modules that are checkpointed. autocast: the device whose rules it has; empty without autocast.
    """
    if trained == "bfloat16":
        yield "model = model.to(torch.bfloat16)"
        yield "batch = tuple(each.bfloat16() if each.is_floating_point() else each for each in batch)"
    if trained == "lora":
        yield "import peft"
        yield "layers = [name for name, each in model.named_modules() if type(each) is torch.nn.Linear]"
        yield f"model = peft.get_peft_model(model, peft.LoraConfig(r={LORA_RANK}, target_modules=layers))"
    if blocks:
        yield "import functools"
        yield "from torch.utils.checkpoint import checkpoint"
        yield f"for name in {_names(blocks)}:"
        yield "    block = model.get_submodule(name)"
        yield "    block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)"
    if autocast:
        yield f'model.forward = torch.autocast("{autocast}", dtype=torch.bfloat16)(model.forward)'
    if optimizer.made_by.startswith("bitsandbytes"):
        yield "import bitsandbytes"
    yield f"optimizer = {optimizer.code}"


def _names(blocks: Sequence[str]) -> str:
    """An expression for these names."""
    parents = {name.rpartition(".")[0] for name in blocks}
    if len(parents) == 1 and [name.rpartition(".")[2] for name in blocks] == [str(n) for n in range(len(blocks))]:
        (parent,) = parents
        return f'[f"{parent}{"." if parent else ""}{{number}}" for number in range({len(blocks)})]'
    return f"({', '.join(map(repr, blocks))},)"


def plain_step(count: int) -> Iterator[str]:
    """A step of so many passes."""
    if count == 1:
        yield "model(*batch).backward()"
    else:
        yield _parts(count)
        yield f"    (model(*part) / {count}).backward()"
    yield "optimizer.step()"
    yield "optimizer.zero_grad()"


def planned_step(count: int, limit: int, *, with_optimizer: bool, split: bool) -> Iterator[str]:
    """The code of a step by `placewright.fit`.

    limit: in bytes. with_optimizer: whether the plan includes its step. split: whether ops may run in parts.
    """
    in_parts = ", split=True" if split else ""
    if with_optimizer:
        yield f"step = placewright.fit(model, batch, {limit}, optimizer=optimizer{in_parts})"
        yield "step(*batch)"
        return
    yield f"first = tuple(each.chunk({count})[0] for each in batch)"
    yield f"step = placewright.fit(model, first, {limit}, loss=lambda loss: loss / {count}{in_parts})"
    yield _parts(count)
    yield "    step(*part)"
    yield "optimizer.step()"
    yield "optimizer.zero_grad()"


def _parts(count: int) -> str:
    return f"for part in zip(*(each.chunk({count}) for each in batch)):"
