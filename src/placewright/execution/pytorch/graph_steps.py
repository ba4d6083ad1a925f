"""Steps of parameters within a backward that Inductor compiles: each behind the op that makes its gradient.

AOTAutograd returns all gradients of a graph at once. Here an op takes a gradient as soon as it is there, and the graph
returns none for it. Imported only where torch is known to be present.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn

from placewright.execution.pytorch.layout import is_laid_out_for, laid_out_for
from placewright.execution.pytorch.step_in_backward import gradient_of, optimizers_in_backward

#: Ops whose results always have memory of their own, so that a later op forces no further copy of them.
_WHOLE = (
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten.convolution_backward.default,
)

_parameters: dict[int, weakref.ref[nn.Parameter]] = {}
_numbers = itertools.count()


def _take_gradient(gradient: torch.Tensor, behind: Sequence[torch.Tensor], number: int) -> None:
    """Gives a parameter its gradient, as autograd would. behind: results of the ops that read the parameter."""
    parameter = _parameters[number]()
    if parameter is None:
        return
    if not is_laid_out_for(gradient, parameter):
        gradient = laid_out_for(gradient, parameter)
    with torch.no_grad():
        parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
    for hook in [*(parameter._post_accumulate_grad_hooks or {}).values()]:
        hook(parameter)
    if (left := gradient_of(parameter)) is not None:
        # The graph writes other results to this memory. The parameter was not stepped: its optimizer is gone.
        parameter.grad = left.clone()


# An op that changes nothing and returns nothing would be left out.
_TAKE = torch.library.custom_op(
    "placewright::take_gradient", _take_gradient, mutates_args=("gradient",), tags=(torch.Tag.cudagraph_unsafe,)
)
_TAKE.register_fake(lambda gradient, behind, number: None)


def can_be_taken(argument: Any) -> bool:
    """True for a parameter that is stepped in backward and whose gradient nothing else uses."""
    if type(argument) is not nn.Parameter or argument.dim() < 2 or not optimizers_in_backward([argument]):
        return False
    return not argument._backward_hooks and len(argument._post_accumulate_grad_hooks or {}) == 1


def number_of(parameter: nn.Parameter) -> int:
    """The number by which the op refers to a parameter."""
    number = next(_numbers)
    _parameters[number] = weakref.ref(parameter, lambda _: _parameters.pop(number, None))
    return number


def with_steps(
    forward: fx.GraphModule, backward: fx.GraphModule, numbers: Mapping[int, int]
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The parts, where backward gives the gradients of some arguments away within itself. numbers: of parameters, by
    the place of the argument."""
    if not numbers:
        return forward, backward
    results, readers = backward.graph.output_node().args[0], _readers(forward, backward)
    taken = {
        index: number
        for index, number in numbers.items()
        if _is_made(results[index])
        and results.count(results[index]) == 1
        and all(each.target in _WHOLE for each in readers[index])
    }
    if not taken:
        return forward, backward
    graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
    left = list(graph.graph_copy(backward.graph, made))
    place = {node: index for index, node in enumerate(graph.nodes)}
    for index, number in taken.items():
        gradient, left[index] = left[index], None
        behind = [made[each] for reader in readers[index] for each in _parts_of(reader)]
        with graph.inserting_after(max([gradient, *behind], key=place.__getitem__)):
            graph.call_function(torch.ops.placewright.take_gradient.default, (gradient, behind, number))
    graph.output(tuple(left)).meta.update(backward.graph.output_node().meta)
    return forward, fx.GraphModule(backward, graph)


def _is_made(result: Any) -> bool:
    """True if backward computes a gradient, and does not pass on an input."""
    while isinstance(result, fx.Node) and _is_view(result):
        result = result.args[0]
    return isinstance(result, fx.Node) and result.op == "call_function"


def _readers(forward: fx.GraphModule, backward: fx.GraphModule) -> dict[int, list[fx.Node]]:
    """The nodes of backward that read the memory of an argument, by the place of the argument."""
    arguments = [_memory(node) for node in forward.graph.find_nodes(op="placeholder")]
    memory = {node.name: _memory(node) for node in forward.graph.nodes}
    found: dict[int, list[fx.Node]] = {index: [] for index in range(len(arguments))}
    for saved in backward.graph.find_nodes(op="placeholder"):
        own = memory.get(saved.name)
        for index, argument in enumerate(arguments):
            if own is not None and argument == own:
                found[index] += _reading(saved)
    return found


def _memory(node: fx.Node) -> int | None:
    """An identity of a tensor's memory."""
    value = node.meta.get("val")
    return int(value.untyped_storage()._cdata) if isinstance(value, torch.Tensor) else None


def _reading(node: fx.Node) -> Iterator[fx.Node]:
    for user in node.users:
        if _is_view(user):
            yield from _reading(user)
        else:
            yield user


def _parts_of(node: fx.Node) -> Sequence[fx.Node]:
    """Results of an op that has several."""
    return [user for user in node.users if user.target is operator.getitem] or [node]


def _is_view(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and bool(node.target.is_view)
