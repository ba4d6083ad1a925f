"""PyTorch's own capture of a module: what it reads, what it leaves as it was, and what it refuses."""

from __future__ import annotations

import inspect
import logging
import random
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch importer needs PyTorch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from placewright.importers.torch.module import from_torch  # noqa: E402
from placewright.support.errors import InputError  # noqa: E402

X = torch.ones(3, 8)
SCALE = torch.ones(8)
LOGGER = logging.getLogger("never")


class Layer(nn.Module):
    """A linear layer, 8 wide, and what `after` makes of its result."""

    def __init__(self, after: Any) -> None:
        super().__init__()
        self.layer, self.after, self.calls = nn.Linear(8, 8), after, 0
        self.seen: list[Any] = []

    def forward(self, x: Any) -> Any:
        self.calls += 1
        self.seen.append(self.calls)
        return self.after(self.layer(x))


def test_what_forward_prints_and_logs_is_left_out() -> None:
    def talking(x: Any) -> Any:
        print("never")
        warnings.warn("never", stacklevel=1)
        LOGGER.warning("never")
        return x * 2

    graph = from_torch(Layer(talking), (X,))
    assert [op.kind for op in graph.ops] == ["input", "view", "matmul", "elementwise"]


def test_a_module_counts_no_call_that_was_none() -> None:
    model = Layer(lambda x: nn.functional.dropout(x))
    generator = torch.get_rng_state()
    from_torch(model, (X,), training=True)
    assert (model.calls, model.seen) == (0, [])
    assert torch.equal(torch.get_rng_state(), generator)


def test_an_argument_that_nothing_reads_is_an_input() -> None:
    class First(nn.Module):
        def forward(self, unread: Any, x: Any) -> Any:
            return x + 1

    graph = from_torch(First(), (X, X))
    assert [op.name for op in graph.ops if op.kind == "input"] == ["input:unread", "input:x"]


def test_an_argument_and_a_buffer_that_are_returned_are_results() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.ones(8))

        def forward(self, x: Any) -> Any:
            return {"x": x, "kept": self.kept, "mean": x.mean()}

    graph = from_torch(Both(), (X,))
    assert {tensor.name for tensor in graph.tensors if tensor.is_output} == {"x", "kept", "mean:0"}


def test_a_tensor_outside_of_the_module_is_a_constant() -> None:
    graph = from_torch(Layer(lambda x: x * SCALE), (X,))
    assert [tensor.name for tensor in graph.tensors if tensor.role == "constant"] == ["SCALE"]


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_would_compute_again_is_one_op(reentrant: bool) -> None:
    def plain(x: Any) -> Any:
        return torch.sin(x)

    def kept(x: Any) -> Any:
        return checkpoint(torch.sin, x, use_reentrant=reentrant)

    graphs = [from_torch(Layer(each), (X,), training=True) for each in (plain, kept)]
    assert [op.target for op in graphs[0].ops] == [op.target for op in graphs[1].ops]


def test_a_layer_of_a_transformer_is_made_of_its_products() -> None:
    graph = from_torch(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (torch.ones(1, 4, 8),))
    assert "warnings" not in graph.metadata
    assert sum(op.kind == "matmul" for op in graph.ops) == 4
    assert torch.backends.mha.get_fastpath_enabled()


def _random(x: Any) -> Any:
    return x * random.random()


def _namespace(x: Any) -> Any:
    return SimpleNamespace(loss=x.sum())


@pytest.mark.parametrize(("function", "message"), [(_random, "random"), (_namespace, "SimpleNamespace")])
def test_what_breaks_the_graph_is_named_with_its_line(function: Any, message: str) -> None:
    line = inspect.getsourcelines(function)[1] + 1
    with pytest.raises(
        InputError, match=rf"cannot trace Layer .*{message}.*\(in test_torch_front\.py:{line}\)$"
    ) as caught:
        from_torch(Layer(function), (X,), training=True)
    assert "\n" not in str(caught.value)
