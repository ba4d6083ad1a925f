"""Equal blocks of a module that Inductor compiles within a limit: compiled once, counted as often as they run."""

from __future__ import annotations

from functools import partial
from types import MethodType
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import placewright
from placewright.execution.pytorch.memory import allocated_peak


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        return y


class Blocks(nn.Module):
    """Includes the loss: no plan covers what a loop allocates outside of the module."""

    def __init__(self, number: int = 3, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(width) for _ in range(number))

    def layer(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = layer(x)
        return y

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.layer(layer, x)
        return x.square().mean()


class Finite(Blocks):
    """A value asked for safety, which breaks the graph behind each block."""

    def layer(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = layer(x)
        return x if x.isfinite().all() else x.clamp(-1e4, 1e4)


class Checked(Blocks):
    def layer(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        torch._assert_async(x.abs().max() < 1e4, "too large")
        y: torch.Tensor = layer(x)
        return y


class Shared(Finite):
    """Runs its only block again and again."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = self.layer(self.layers[0], x)
        return x.square().mean()


X = torch.randn(512, 32, generator=torch.Generator().manual_seed(0))


def made(kind: type[Blocks] = Blocks) -> Blocks:
    torch.manual_seed(0)
    return kind()


def measured(module: nn.Module, call: nn.Module) -> tuple[int, list[torch.Tensor]]:
    """Bytes of a step after the first, and its gradients."""
    call(X).backward()
    module.zero_grad()
    held = sum(each.nbytes for each in (*module.parameters(), X))
    peak = held + allocated_peak(lambda: call(X).backward())
    gradients = [each.grad for each in module.parameters() if each.grad is not None]
    module.zero_grad()
    return peak, gradients


def compiled(module: Blocks) -> tuple[int, list[torch.Tensor]]:
    torch._dynamo.reset()
    return measured(module, torch.compile(module, dynamic=False))


def assert_within(limit: int, module: Blocks, wanted: list[torch.Tensor]) -> Any:
    torch._dynamo.reset()
    model = placewright.fit(module, limit, backend="inductor")
    peak, gradients = measured(module, model)
    assert peak <= model.peak_bytes <= limit
    torch.testing.assert_close(gradients, wanted)
    return model


def test_blocks_that_were_compiled_by_themselves_are_compiled_once_and_all_count() -> None:
    """The limit is much lower than any that one plan of the whole is found for: the blocks share what must be saved."""
    base, wanted = compiled(made())
    module = made()
    for layer in module.layers:
        layer.compile()
    model = assert_within(int(0.6 * base), module, wanted)
    assert len(model.graphs) == 1
    assert model.graphs[0].regions
    assert all(plan.reruns for plan in model.graphs[0].regions)


def test_blocks_between_graph_breaks_share_a_graph_and_each_counts() -> None:
    base, wanted = compiled(made(Finite))
    model = assert_within(int(0.7 * base), made(Finite), wanted)
    assert len(model.graphs) == 2


def test_a_block_that_runs_more_often_than_was_counted_is_refused() -> None:
    with pytest.raises(placewright.InputError, match=r"^a part of Shared .* runs more than .* leave out the graph bre"):
        measured(module := made(Shared), placewright.fit(module, "64MiB", backend="inductor"))


def test_checks_of_values_stay() -> None:
    base, wanted = compiled(made(Checked))
    model = assert_within(int(0.7 * base), made(Checked), wanted)
    with pytest.raises(RuntimeError, match="too large"):
        model(1e6 * X)


def test_weights_that_pytorch_takes_for_others_are_refused() -> None:
    """`torch.compile` alone trains the third block with the weights of the second, and gives the third no gradient."""
    module = made()
    region = torch.compiler.nested_compile_region(Block.forward)
    for layer in module.layers:
        vars(layer)["forward"] = MethodType(region, layer)
    torch._dynamo.reset()
    with pytest.raises(placewright.InputError, match=r"^PyTorch takes the weights of one block of Blocks for another"):
        placewright.fit(module, "64MiB", backend="inductor")(X)


def saves_products(_: Any, op: Any, *args: Any, **options: Any) -> CheckpointPolicy:
    """Save matrix products and prefer to recompute all else, as torchtitan's policy does."""
    products = (torch.ops.aten.addmm.default, torch.ops.aten.mm.default)
    return CheckpointPolicy.MUST_SAVE if op in products else CheckpointPolicy.PREFER_RECOMPUTE


def fixes_all(_: Any, op: Any, *args: Any, **options: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_RECOMPUTE


class Selective(Blocks):
    def layer(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        contexts = partial(create_selective_checkpoint_contexts, saves_products)
        y: torch.Tensor = checkpoint(layer, x, use_reentrant=False, context_fn=contexts)
        return y


class Fixed(Blocks):
    def layer(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        contexts = partial(create_selective_checkpoint_contexts, fixes_all)
        y: torch.Tensor = checkpoint(layer, x, use_reentrant=False, context_fn=contexts)
        return y


def test_policies_of_checkpoints_hold_or_are_named() -> None:
    base, wanted = compiled(made(Selective))
    assert_within(int(1.05 * base), made(Selective), wanted)
    for kind, sentence in (
        (
            Selective,
            r"; MUST_SAVE of create_selective_checkpoint_contexts has results saved; split=True may run ops in parts$",
        ),
        (
            Fixed,
            r"^what create_selective_checkpoint_contexts says .* return PREFER_RECOMPUTE, or leave the policy out$",
        ),
    ):
        torch._dynamo.reset()
        with pytest.raises(placewright.InputError, match=sentence):
            placewright.fit(made(kind), int(0.5 * base), backend="inductor")(X)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.split, self.join = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.split(x).unflatten(1, (3, 4, 8)).unflatten(0, (8, 64)).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return x + self.join(found.transpose(1, 2).flatten(2).flatten(0, 1))


def test_checkpointed_attention_runs_again_with_the_state_of_the_generator() -> None:
    """PyTorch saves that, and names nodes of the parts as other nodes of the joint graph."""

    class Own(Blocks):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Attention() for _ in range(3))

        def layer(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = checkpoint(layer, x, use_reentrant=False)
            return y

    base, wanted = compiled(made(Own))
    assert_within(base, made(Own), wanted)


def test_checkpoints_of_the_users_own_stay() -> None:
    class Own(Blocks):
        def layer(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = checkpoint(layer, x, use_reentrant=False)
            return y

    base, wanted = compiled(made(Own))
    assert_within(base, made(Own), wanted)
