"""The calls behind the ops of a captured module.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from placewright.graph import Graph
from placewright.importers.torch.capture import Capture
from placewright.importers.torch.ops import bodies_of

_ATEN = torch.ops.aten
#: Ops that may take the memory of their first operand, with their in-place variants.
_IN_PLACE = {
    _ATEN.add.Tensor: _ATEN.add_.Tensor,
    _ATEN.mul.Tensor: _ATEN.mul_.Tensor,
    _ATEN.addmm.default: _ATEN.addmm_.default,
    _ATEN.baddbmm.default: _ATEN.baddbmm_.default,
}
#: Marks the node of a recurrent layer whose backward reads the workspace that it makes.
TRAINED = "placewright_trained"


@dataclass(frozen=True, slots=True)
class Value:
    """A placeholder in a call for a tensor of the graph."""

    tensor: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """The call that computes one op: `function(*args, **kwargs)`.

    results: the tensors of the graph that it returns, in order; None for those that nothing reads. several: whether it
    returns a sequence. in_place: whether it writes its result into its first argument.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[int | None, ...]
    several: bool
    in_place: bool = False


def calls_of(graph: Graph, captured: Capture, tensors: Mapping[Any, tuple[int | None, ...]]) -> dict[int, Call]:
    """The call of each op of the graph but inputs. tensors: for each FX node the tensors of the graph that it makes."""
    op_of = {op.name: index for index, op in enumerate(graph.ops)}
    calls = {op_of[node.name]: _traced_call(node, tensors) for node in captured.nodes if node.name in op_of}
    return {index: _in_place(graph, index, call) for index, call in calls.items()}


def _in_place(graph: Graph, op: int, call: Call) -> Call:
    """A sum of gradients that takes the memory of its first operand, as an addition in place; other calls unchanged. An
    op that overwrites a parameter, a buffer or an input may read it in any way, so its result is copied there."""
    function = _IN_PLACE.get(call.function)
    overwritten = graph.tensors[graph.ops[op].outputs[0]].alias_of if function is not None else None
    if overwritten is None or call.args[0] != Value(overwritten):
        return call
    maker = graph.producer_of[graph.base_of[overwritten]]
    if maker < 0 or graph.ops[maker].kind == "input":
        return call
    assert function is not None
    return replace(call, function=function, in_place=True)


def _traced_call(node: Any, tensors: Mapping[Any, tuple[int | None, ...]]) -> Call:
    def value_of(leaf: Any) -> Any:
        if not isinstance(leaf, torch.fx.Node):
            return leaf
        index = tensors[leaf][0]
        assert index is not None
        return Value(index)

    if isinstance(node.target, torch._ops.HigherOrderOperator):
        called = CallWithBodies(node)
        return Call(
            function=called,
            args=tuple(value_of(leaf) for leaf in called.read),
            kwargs={},
            results=tensors[node],
            several=isinstance(node.meta["val"], (tuple, list)),
        )
    return Call(
        function=_function(node),
        args=torch.fx.map_arg(node.args, value_of),
        kwargs=torch.fx.map_arg(node.kwargs, value_of),
        results=tensors[node],
        several=isinstance(node.meta["val"], (tuple, list)),
    )


class CallWithBodies:
    """A callable for an op with code of its own, such as the branches of a torch.cond, on the tensors among its
    arguments.

    read: the nodes of these tensors. settings: distinguishes the op and its code from others.
    """

    def __init__(self, node: Any) -> None:
        bodies = bodies_of(node)
        leaves, self._structure = pytree.tree_flatten((node.args, node.kwargs))
        self._op = node.target
        self._leaves = [bodies.get(leaf, leaf) if isinstance(leaf, torch.fx.Node) else leaf for leaf in leaves]
        self.read = [leaf for leaf in self._leaves if isinstance(leaf, torch.fx.Node)]
        plain = [leaf for leaf in self._leaves if not isinstance(leaf, (torch.fx.Node, torch.fx.GraphModule))]
        code = [module.code for body in bodies.values() for module in _graphs_in(body)]
        self.settings = f"code {hashlib.sha256(repr((plain, code)).encode()).hexdigest()[:16]}"

    def __call__(self, *tensors: Any) -> Any:
        """Makes the call, which autograd must not trace anew."""
        each = iter(tensors)
        leaves = [next(each) if isinstance(leaf, torch.fx.Node) else leaf for leaf in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._structure)
        with torch._C._AutoDispatchBelowAutograd():
            return self._op(*args, **kwargs)


def _graphs_in(body: torch.fx.GraphModule) -> Iterator[torch.fx.GraphModule]:
    yield from (module for module in body.modules() if isinstance(module, torch.fx.GraphModule))


def _function(node: Any) -> Callable[..., Any]:
    """The function that runs for a traced call, where it differs from the traced one.

    PyTorch traces a recurrent layer as if nothing were trained, so that its forward makes no workspace for backward.
    Traced tensors can have other strides than those that kernels make, and a view of these may need a copy. The op that
    is traced for dropout on the CPU multiplies twice, which changes the last bits for some probabilities. Some losses
    return their one number in memory as large as what they have summed.
    """
    if node.target in _DROPOUT and next(each for each in node.args if hasattr(each, "meta")).meta["val"].is_cpu:
        return _DROPOUT[node.target]
    if node.target is torch.ops.aten.bernoulli.p:
        return _bernoulli
    if node.target in _LOSSES and node.meta["val"].numel() < node.args[0].meta["val"].numel():
        return _LOSSES[node.target]
    if node.target is torch.ops.aten.view.default:
        reshape: Callable[..., Any] = torch.ops.aten.reshape.default
        return reshape
    forward, backward = torch.ops.aten.mkldnn_rnn_layer.default, torch.ops.aten.mkldnn_rnn_layer_backward.default
    if node.target is backward or (node.target is forward and node.meta.get(TRAINED)):
        names = [argument.name for argument in node.target._schema.arguments]
        return partial(_recurrent_in_training, node.target, names.index("train"))
    function: Callable[..., Any] = node.target
    return function


def _dropped(value: Any, probability: float, train: bool | None) -> tuple[Any, Any]:
    """Dropout as on the CPU: the result, and which elements were kept."""
    if probability == 1:  # Nothing is drawn.
        return value * torch.zeros((), dtype=value.dtype), torch.zeros_like(value, dtype=torch.bool)
    noise = torch.empty_like(value).bernoulli_(1 - probability)
    kept = noise.bool()
    return value * noise.div_(1 - probability), kept


def _bernoulli(value: Any, probability: float, **generator: Any) -> Any:
    """Draws like `bernoulli_`, in memory order. The traced op would draw row by row."""
    return torch.empty_like(value).bernoulli_(probability, **generator)


def _dropped_backward(gradient: Any, kept: Any, scale: float) -> Any:
    return gradient * (kept.to(gradient.dtype).div_(1 / scale) if scale else 0.0)


_DROPOUT = {
    torch.ops.aten.native_dropout.default: _dropped,
    torch.ops.aten.native_dropout_backward.default: _dropped_backward,
}


def _in_own_memory(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs).clone()

    return call


_LOSSES = {
    loss: _in_own_memory(loss)
    for loss in (
        torch.ops.aten.mse_loss.default,
        torch.ops.aten.smooth_l1_loss.default,
        torch.ops.aten.soft_margin_loss.default,
        torch.ops.aten.binary_cross_entropy.default,
    )
}


def _recurrent_in_training(function: Callable[..., Any], place_of_train: int, *args: Any) -> Any:
    # It makes a workspace only where gradients are enabled; autograd itself must not record it.
    with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd():
        return function(*args[:place_of_train], True, *args[place_of_train + 1 :])
