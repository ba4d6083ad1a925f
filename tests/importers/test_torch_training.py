"""A training step holds the backward and optimizer ops of every parameter its loss depends on, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch importer needs PyTorch")

from torch import nn  # noqa: E402

from placewright.graph import Graph  # noqa: E402
from placewright.importers.torch.module import from_torch  # noqa: E402
from placewright.support.errors import InputError  # noqa: E402

X = torch.zeros(2, 4)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.second(self.between(self.first(x)))

    def between(self, hidden: Any) -> Any:
        return hidden


class Detached(Pair):
    def between(self, hidden: Any) -> Any:
        return hidden.detach()


class Unused(Pair):
    def forward(self, x: Any) -> Any:
        return self.second(x)


class HalfFixed(Pair):
    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            hidden = self.first(x)
        return self.second(hidden)


class WithoutLossGradient(Pair):
    def forward(self, x: Any) -> Any:
        return super().forward(x).mean().detach()


class AllFixed(Pair):
    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def forward(self, x: Any) -> Any:
        return super().forward(x)


def optimizer_ops(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops if op.kind == "optimizer"]


@pytest.fixture
def op_without_backward() -> Iterator[Any]:
    library = torch.library.Library("placewright_test", "FRAGMENT")
    library.define("opaque(Tensor x) -> Tensor")
    library.impl("opaque", torch.empty_like, "Meta")
    library.impl("opaque", torch.empty_like, "CPU")
    yield torch.ops.placewright_test.opaque
    library._destroy()


@pytest.mark.parametrize("exported", [False, True], ids=["module", "exported program"])
def test_a_step_without_a_gradient_that_the_loss_needs_is_refused_naming_the_parameter(
    op_without_backward: Any, exported: bool
) -> None:
    class Opaque(Pair):
        def between(self, hidden: Any) -> Any:
            return op_without_backward(hidden)

    model = torch.export.export(Opaque().train(), (X,)) if exported else Opaque()
    with pytest.raises(InputError, match=r"no gradient of the parameter 'first\.weight' and 1 more") as caught:
        from_torch(model, (X,), training=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", [Detached, Unused, HalfFixed])
@pytest.mark.parametrize("exported", [False, True], ids=["module", "exported program"])
def test_parameters_that_the_loss_does_not_depend_on_are_named_in_a_warning(model: Any, exported: bool) -> None:
    traced = torch.export.export(model().train(), (X,)) if exported else model()
    graph = from_torch(traced, (X,), training=True)
    assert optimizer_ops(graph) == ["adam:second.weight", "adam:second.bias"]
    assert graph.metadata["warnings"] == [
        "the loss does not depend on 2 of the parameters (first.weight, first.bias), so nothing updates them"
    ]


@pytest.mark.parametrize("model", [WithoutLossGradient, AllFixed, lambda: Pair().requires_grad_(False)])
def test_a_loss_that_no_parameter_moves_is_no_training_step(model: Any) -> None:
    with pytest.raises(InputError, match="so there is nothing to train"):
        from_torch(model(), (X,), training=True)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_callers_own_gradient_mode_does_not_matter(mode: Any) -> None:
    model = Pair()
    with mode():
        graph = from_torch(model, (X,), training=True, name="step")
    assert graph.fingerprint == from_torch(model, (X,), training=True, name="step").fingerprint
    assert len(optimizer_ops(graph)) == 4


def test_a_backward_written_by_hand_is_traced() -> None:
    class StraightThrough(torch.autograd.Function):  # type: ignore[name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.round()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient.clamp(-1, 1)

    class Rounded(Pair):
        def between(self, hidden: Any) -> Any:
            return StraightThrough.apply(hidden)

    graph = from_torch(Rounded(), (X,), training=True)
    assert len(optimizer_ops(graph)) == 4
    # Rounding has a gradient of zeros; that of its own backward is limited instead.
    backward = [op.target for op in graph.ops if op.phase == "backward"]
    assert "aten.clamp.default" in backward
    assert "aten.zeros_like.default" not in backward


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_scripted_module_is_refused_with_the_way_on() -> None:
    traced = torch.jit.trace(Pair(), (X,))
    with pytest.raises(InputError, match=r"Pair is a TorchScript module.*torch\.export\.export"):
        from_torch(traced, (X,))


def test_a_parameter_without_a_shape_is_named() -> None:
    with pytest.raises(InputError, match="the parameter 'weight' of LazyLinear has no shape yet"):
        from_torch(nn.LazyLinear(3), (X,))
