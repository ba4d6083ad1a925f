"""accelerate's own `dispatch_model` takes the maps and runs the models as they say, with the numbers of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import dispatch_model, infer_auto_device_map
from dispatching import dispatched
from torch import nn

import placewright
from placewright.export.device_map import Place, device_map
from placewright.export.map_cost import judge_map, objections
from placewright.lab.datasets.zoo.libraries import import_torchvision


class Residual(nn.Module):
    """A block whose own code adds its input to what its layers make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = x + self.second(torch.relu(self.first(x)))
        return made


class Towers(nn.Module):
    """A model whose own code adds the results of two towers, and a parameter to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.ones(16))
        self.left, self.right = nn.Linear(16, 16), nn.Sequential(nn.Linear(16, 16), nn.Tanh())
        self.head = nn.Sequential(Residual(), nn.Linear(16, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.start
        result: torch.Tensor = self.head(self.left(x) + self.right(x))
        return result


class Chain(nn.Module):
    """A model whose own code sums the results of one list's layers; the layers of the other list are free."""

    def __init__(self) -> None:
        super().__init__()
        self.added, self.free = (nn.ModuleList(nn.Linear(16, 16) for _ in range(3)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = self.free[0](x)
        for added, free in zip(self.added, self.free, strict=True):
            total = total + added(torch.tanh(free(total)))
        return total


def gpt2() -> nn.Module:
    import_torchvision()
    import transformers

    torch.manual_seed(0)
    sizes = {
        "n_layer": 4,
        "n_embd": 32,
        "n_head": 2,
        "n_positions": 16,
        "vocab_size": 64,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    config = transformers.GPT2Config(**sizes, use_cache=False)
    return transformers.GPT2LMHeadModel(config).eval()


def placed(model: nn.Module, args: tuple[Any, ...], pins: dict[str, int]) -> dict[str, Place]:
    graph = placewright.from_torch(model, args)
    plan = placewright.plan(graph, "2xp100", pins=pins, evaluations=1)
    return device_map(plan, graph)


def test_gpt2_runs_on_two_gpus_as_mapped() -> None:
    model, tokens = gpt2(), torch.arange(12).reshape(1, 12)
    pins = {"transformer.h.0.*": 0, "transformer.h.1.*": 0, "transformer.h.2.*": 1, "transformer.h.3.*": 1}
    mapping = placed(model, (tokens,), {**pins, "transformer.w?e": 0, "transformer.ln_f": 1})
    assert [mapping[f"transformer.h.{layer}"] for layer in range(4)] == [0, 0, 1, 1]
    logits, moved = dispatched(model, mapping, (tokens,))
    torch.testing.assert_close(logits, model(tokens).logits, rtol=0, atol=0)
    assert str(moved.get_submodule("transformer.h.3.mlp.c_fc").weight.device) == "cuda:1"
    assert str(moved.get_submodule("transformer.h.1.mlp.c_fc").weight.device) == "cuda:0"


def test_layers_whose_results_meet_in_the_code_above_them_stay_together() -> None:
    """left and right are added at the top: they go where two of their three ops are. The block stays whole, where two
    of its three ops are."""
    torch.manual_seed(1)
    model, x = Towers(), torch.randn(3, 16)
    mapping = placed(
        model, (x,), {"left": 0, "right.*": 1, "head.0": 0, "head.0.first": 0, "head.0.second": 1, "head.1": 1}
    )
    assert mapping == {"start": 0, "left": 1, "right": 1, "head.0": 0, "head.1": 1}
    result, _ = dispatched(model, mapping, (x,))
    torch.testing.assert_close(result, model(x), rtol=0, atol=0)


def test_layers_of_a_list_that_the_code_above_adds_up_share_a_device() -> None:
    """The sum begins with what free.0 makes. Of its four layers one is pinned elsewhere; free.1 and free.2 are free."""
    torch.manual_seed(2)
    model, x = nn.Sequential(Chain(), nn.Linear(16, 4)), torch.randn(3, 16)
    pins = {"0.added.0": 0, "0.added.[12]": 1, "0.free.0": 1, "0.free.1": 1, "0.free.2": 0, "1": 1}
    mapping = placed(model, (x,), pins)
    assert mapping == {f"0.added.{n}": 1 for n in range(3)} | {"0.free.0": 1, "0.free.1": 1, "0.free.2": 0, "1": 1}
    result, _ = dispatched(model, mapping, (x,))
    torch.testing.assert_close(result, model(x), rtol=0, atol=0)


def test_what_no_hook_can_divide_fails_in_accelerate_as_it_would_on_gpus() -> None:
    """The block divided by hand: what comes in is on GPU 0, what its second layer makes on GPU 1."""
    model, x = nn.Sequential(Residual(), nn.Linear(16, 4)), torch.randn(3, 16)
    with pytest.raises(RuntimeError, match="operands on cuda:0, cuda:1"):
        dispatched(model, {"0.first": 0, "0.second": 1, "1": 1}, (x,))
    assert placed(model, (x,), {"0": 0, "0.first": 0, "0.second": 1, "1": 1}) == {"0": 0, "1": 1}


def test_a_map_with_weights_on_disk_computes_what_the_model_does(tmp_path: Path) -> None:
    """The tensors are real and the second device's layers lie on disk, as a person without a GPU may run them."""
    model, tokens = gpt2(), torch.arange(12).reshape(1, 12)
    mapping = placed(model, (tokens,), {"transformer.h.2.*": 1, "transformer.h.3.*": 1, "transformer.h.0.*": 0})
    assert set(mapping.values()) == {0, 1}
    wanted = model(tokens).logits
    offloaded = {path: "disk" if place == 1 else "cpu" for path, place in mapping.items()}
    dispatch_model(model, offloaded, main_device="cpu", offload_dir=tmp_path)
    assert model.transformer.h[3].mlp.c_fc.weight.is_meta
    torch.testing.assert_close(model(tokens).logits, wanted, rtol=0, atol=0)


def test_a_map_of_one_device_is_taken() -> None:
    model, x = nn.Sequential(nn.Linear(16, 16), Residual()), torch.randn(3, 16)
    graph = placewright.from_torch(model, (x,))
    mapping = device_map(placewright.plan(graph, "cpu"), graph)
    assert mapping == {"": "cpu"}
    wanted = model(x)
    torch.testing.assert_close(dispatch_model(model, mapping, force_hooks=True)(x), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("limit", [26_000, 34_000, 45_000])
def test_where_weights_of_the_host_are_sooner_on_the_gpu_the_map_of_accelerate_is_told(limit: int) -> None:
    """Ten layers of 4,096 + 128 bytes, and a batch that takes 8,192 bytes before and behind a layer: what accelerate
    leaves at the host of a GPU with so much less memory comes over the link before the layer runs."""
    model, x = nn.Sequential(*(nn.Linear(32, 32) for _ in range(10))), torch.ones(64, 32)
    graph = placewright.from_torch(model, x)
    plan = placewright.plan(graph, "cpu+rtx3090", memory_limit=[None, limit], evaluations=50)
    found = judge_map(plan, graph).streamed
    assert found is not None
    left = infer_auto_device_map(model, {0: limit - 2 * x.nbytes, "cpu": 10**9})
    layers = sum(left[str(layer)] == "cpu" for layer in range(10))
    assert 0 < layers < 10
    assert found.size_bytes == layers * 4 * (32 * 32 + 32)
    alone = placewright.plan(graph, "rtx3090", solver="input-order")
    link = plan.machine.links[0][1]
    brought = layers * (link.transfer_time_ns(4 * 32 * 32) + link.transfer_time_ns(4 * 32))
    assert found.one_at_a_time_ns == pytest.approx(alone.step_time_ns + brought, rel=0.01)


def test_a_map_of_weights_at_the_host_is_told_of_where_it_is_faster_and_possible() -> None:
    model, x = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))), torch.ones(1024, 512)
    graph = placewright.from_torch(model, x)
    told = []
    for limit in ("1MiB", "8MiB", "64MiB"):
        plan = placewright.plan(graph, "cpu+rtx3090", memory_limit=[None, limit], evaluations=50)
        told.append([words for words in objections(plan, judge_map(plan, graph)) if "infer_auto_device_map" in words])
    assert [len(each) for each in told] == [0, 1, 0]
    assert " of weights brought from the host as their modules run" in told[1][0]
    trained = placewright.from_torch(model, x, training=True)
    plan = placewright.plan(trained, "cpu+rtx3090", memory_limit=[None, "30MiB"], evaluations=50)
    assert judge_map(plan, trained).streamed is None
