"""accelerate's own `dispatch_model` takes the maps and runs the models as they say, with the numbers of the model."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import dispatch_model
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

import placewright
from placewright.datasets.zoo.libraries import import_torchvision
from placewright.export.device_map import Place, device_map


class OnGpu(torch.Tensor):
    """A tensor that says which GPU it is on where there is none: it computes on the CPU, stays where it is put, and
    refuses operands from different devices, as a tensor on a GPU does."""

    place: str

    @staticmethod
    def __new__(cls, data: torch.Tensor, place: str = "cpu", requires_grad: bool = False) -> OnGpu:
        with torch._C.DisableTorchFunctionSubclass():
            made = torch.Tensor._make_subclass(cls, data.detach(), requires_grad)
        made.place = getattr(data, "place", place)
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == torch.Tensor.device.__get__:
            return torch.device(args[0].place)
        if func is torch.Tensor.to and isinstance(args[1], str | torch.device):
            with torch._C.DisableTorchFunctionSubclass():
                return OnGpu(args[0].clone().as_subclass(torch.Tensor), str(args[1]))
        operands = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, OnGpu)]
        with torch._C.DisableTorchFunctionSubclass():
            # PyTorch lets one number on the CPU meet tensors elsewhere.
            places = sorted({operand.place for operand in operands if operand.place != "cpu" or operand.dim()})
            if len(places) > 1:
                raise RuntimeError(f"{func.__name__}: operands on {', '.join(places)}")
            result = func(*args, **(kwargs or {}))

        def mark(leaf: Any) -> Any:
            return OnGpu(leaf, places[0] if places else "cpu") if isinstance(leaf, torch.Tensor) else leaf

        return pytree.tree_map(mark, result)


class OnGpuFromTheStart(TorchFunctionMode):
    """What is made on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if "cuda" in str(given.get("device")) and func is not torch.Tensor.to:
            place = str(given.pop("device"))
            return OnGpu(func(*args, **given), place)
        return func(*args, **given)


def on_gpus(model: nn.Module) -> nn.Module:
    """A copy whose tensors can be moved to GPUs that are not there."""
    moved = copy.deepcopy(model)
    for module in moved.modules():
        for held in (module._parameters, module._buffers):
            held.update({name: OnGpu(tensor.data) for name, tensor in held.items() if tensor is not None})
    return moved


class Residual(nn.Module):
    """Its own code adds what comes in to what its layers make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = x + self.second(torch.relu(self.first(x)))
        return made


class Towers(nn.Module):
    """Its own code adds the results of two towers, and a parameter of its own to its input."""

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
    """Its own code adds up what the layers of a list make; the layers beside them are free."""

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


def dispatched(model: nn.Module, mapping: dict[str, Place], args: tuple[Any, ...]) -> tuple[Any, nn.Module]:
    """What the model computes on two GPUs, and the model. Their numbers are spelt out, since without a GPU PyTorch
    does not take 0 for one."""
    moved = on_gpus(model)
    named = {path: place if place == "cpu" else f"cuda:{place}" for path, place in mapping.items()}
    dispatch_model(moved, named, main_device=min(named.values()), force_hooks=True)
    with torch.no_grad(), OnGpuFromTheStart():
        result = moved(*(OnGpu(argument) for argument in args))
    with torch._C.DisableTorchFunctionSubclass():
        return getattr(result, "logits", result).as_subclass(torch.Tensor), moved


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
    """Real tensors: the second device's layers lie on disk, as a person without a GPU may run them."""
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
    mapping = device_map(placewright.plan(model, "cpu", args=(x,)), None)
    assert mapping == {"": "cpu"}
    wanted = model(x)
    torch.testing.assert_close(dispatch_model(model, mapping, force_hooks=True)(x), wanted, rtol=0, atol=0)
