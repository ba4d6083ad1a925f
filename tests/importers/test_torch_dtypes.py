"""Tensors have the dtypes that kernels return, also where PyTorch's description of an op says another."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from placewright import from_torch

NORMALIZATIONS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "batch": (lambda: nn.BatchNorm2d(4), (2, 4, 3, 3)),
    "batch without parameters": (lambda: nn.BatchNorm2d(4, affine=False), (2, 4, 3, 3)),
    "batch without running statistics": (lambda: nn.BatchNorm1d(4, track_running_stats=False), (3, 4)),
    "layer": (lambda: nn.LayerNorm(4), (2, 3, 4)),
    "layer without bias": (lambda: nn.LayerNorm(4, bias=False), (2, 3, 4)),
    "layer without parameters": (lambda: nn.LayerNorm(4, elementwise_affine=False), (2, 3, 4)),
    "group": (lambda: nn.GroupNorm(2, 4), (2, 4, 3, 3)),
}


def statistics_of(model: nn.Module, x: torch.Tensor) -> list[tuple[torch.dtype, int]]:
    """Dtype and bytes, as kernels return it, of what a normalization saves for its backward besides its input and
    parameters."""
    saved: list[tuple[torch.dtype, int]] = []
    known = {x.data_ptr(), *(tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers()))}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in known and tensor.numel() < x.numel():
            saved.append((tensor.dtype, tensor.nbytes))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    return saved


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_statistics_of_normalizations_are_those_of_the_kernel(name: str, dtype: torch.dtype) -> None:
    make, shape = NORMALIZATIONS[name]
    model = make().train()
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    graph = from_torch(model, (x,), training=True, loss=lambda output: output.float().sum())
    (op,) = [op for op in graph.ops if op.kind == "normalization"]
    results = [graph.tensors[tensor] for tensor in op.outputs]
    assert str(results[0].dtype) == str(dtype).removeprefix("torch.")
    of_kernel = statistics_of(model, x)
    assert of_kernel
    found = [(str(tensor.dtype), tensor.size_bytes) for tensor in results[1 : 1 + len(of_kernel)]]
    assert found == [(str(each).removeprefix("torch."), size) for each, size in of_kernel]


def test_what_reads_statistics_has_their_dtype() -> None:
    """Float32 of shape [2, 1] as the kernel makes it, seen through a view of shape [2], and doubled."""

    class Mean(nn.Module):
        def forward(self, value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            _, mean, _ = torch.native_layer_norm(value, [3], weight, weight, 1e-5)
            return mean.view(2) * 2

    arguments = torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(3)
    graph = from_torch(Mean(), arguments)
    (result,) = [tensor for tensor in graph.tensors if tensor.is_output]
    assert Mean()(*arguments).dtype == torch.float32
    assert (str(result.dtype), result.size_bytes) == ("float32", 8)
