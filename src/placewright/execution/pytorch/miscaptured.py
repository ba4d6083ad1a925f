"""Refusals of captured graphs that would not do what the module does, before they run.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx, nn

from placewright.importers.torch.capture import ancestors
from placewright.importers.torch.ops import only_acts, sentence_on_effects
from placewright.support.errors import InputError

_EXPANDS = ("expand", "expand_as", "broadcast_to")
#: Views, through which a write reaches the tensor they view.
_SHOWS = (
    *("view", "view_as", "reshape", "unsqueeze", "squeeze", "transpose", "permute", "t", "select", "narrow", "detach"),
    *("flatten", "unflatten", "chunk", "split", "movedim", "swapaxes", "getitem", *_EXPANDS),
)


class OpenSizesError(InputError):
    """A graph has sizes that depend on values of tensors."""


def check_captured(module: Any, *, may_train: bool) -> None:
    """Raises InputError where a graph captured by Dynamo has effects besides its results, or AOTAutograd would compute
    it otherwise. may_train: whether it may have a backward pass."""
    graphs = [each.graph for each in module.modules() if isinstance(each, fx.GraphModule)]
    if any(_moves_an_input(node) for node in module.graph.nodes):
        raise InputError(
            "'.data =' gives a tensor that outlives the call other memory, which a plan cannot do; write to it by "
            "copy_ under torch.no_grad()"
        )
    if any(_depends_on_values(node) for node in module.graph.nodes):
        raise OpenSizesError("sizes in the captured graph depend on values of tensors, which no plan knows")
    for node in (node for graph in graphs for node in graph.nodes if node.op in ("call_function", "call_method")):
        if may_train and _gives_a_sparse_gradient(node):
            raise InputError(
                f"{_name_of(node)} with sparse=True has a gradient of layout sparse_coo, and plans run dense tensors "
                "only; leave sparse=True out"
            )
        if node.op == "call_function" and only_acts(node.target):
            raise InputError(sentence_on_effects(node.target))
        if _reads_what_it_wrote(node):
            raise InputError(
                f"{_name_of(node)} reads in a later entry what it writes in an earlier one, which PyTorch computes "
                "otherwise when it is captured; call it for these entries one after the other"
            )
        if any(_writes_through_expand(written) for written in _written_by(node)):
            raise InputError(
                f"{_name_of(node)} writes to a tensor through an expand that changes no size, which PyTorch computes "
                "otherwise when it is captured; leave out the expand, or clone its result"
            )


def _gives_a_sparse_gradient(node: fx.Node) -> bool:
    """True for a call of `embedding` or `embedding_bag` with sparse=True, of a weight that has a gradient."""
    if node.target not in (nn.functional.embedding, nn.functional.embedding_bag) or not torch.is_grad_enabled():
        return False
    given = inspect.signature(node.target).bind(*node.args, **node.kwargs).arguments
    return bool(given.get("sparse")) and given["weight"].meta["example_value"].requires_grad


def return_unread_draws(module: fx.GraphModule) -> int:
    """Makes a captured graph return random tensors that nothing reads, and returns their number. AOTAutograd would
    leave them out, so that the generator would end in another state than eager's. They follow the other results."""
    output = module.graph.output_node()
    read, found = ancestors(output.all_input_nodes), list[fx.Node]()
    for node in module.graph.nodes:
        own = node.args[0] if _name_of(node).endswith("_") and node.args else node
        if node not in read and own not in read and _draws(node) and _base_of(own).op != "placeholder":
            found.append(node)
    with module.graph.inserting_before(output):
        for node in found:
            detached = module.graph.call_method("detach", (node,))
            detached.meta["example_value"] = node.meta["example_value"].detach()
            output.args = ((*output.args[0], detached),)
    return len(found)


def _draws(node: fx.Node) -> bool:
    """True if a call gives a tensor, and is of a function that may take numbers from the generator."""
    packet = getattr(torch.ops.aten, _name_of(node), None) if node.op.startswith("call_") else None
    is_random = packet is not None and any(
        torch.Tag.nondeterministic_seeded in getattr(packet, name).tags for name in packet.overloads()
    )
    return is_random and isinstance(node.meta.get("example_value"), torch.Tensor)


def _moves_an_input(node: fx.Node) -> bool:
    """True if a call is what PyTorch makes of `.data =`, on a tensor that existed before."""
    return _name_of(node) == "set_" and isinstance(node.args[0], fx.Node) and node.args[0].op == "placeholder"


def _name_of(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_method" else str(getattr(node.target, "__name__", ""))


def _reads_what_it_wrote(node: fx.Node) -> bool:
    """True if an op on lists of tensors writes to one that it reads as a later entry."""
    name = _name_of(node)
    if not (name.startswith("_foreach_") and name.endswith("_")) or not isinstance(node.args[0], (list, tuple)):
        return False
    written = [_base_of(entry) for entry in node.args[0]]
    others = [*node.args[1:], *node.kwargs.values()]
    return any(
        _base_of(entry) in written[:place]
        for entries in others
        if isinstance(entries, (list, tuple))
        for place, entry in enumerate(entries)
    )


def _written_by(node: fx.Node) -> Iterator[Any]:
    """The tensors that a call writes to."""
    name = _name_of(node)
    in_place = name.endswith("_") and not name.endswith("__")
    by_operator = node.op == "call_function" and (
        node.target is operator.setitem or (node.target in vars(operator).values() and name.startswith("i"))
    )
    if node.args and (in_place or (by_operator and name not in ("is_", "is_not", "index", "indexOf", "inv", "invert"))):
        yield node.args[0]
    if isinstance(out := node.kwargs.get("out"), fx.Node):
        yield out


def _writes_through_expand(value: Any) -> bool:
    """True if a tensor is a view of an expand that changes no size."""
    while isinstance(value, fx.Node) and value.op in ("call_method", "call_function"):
        name = _name_of(value)
        if name not in _SHOWS or not value.args:
            return False
        source = value.args[0]
        if name in _EXPANDS and isinstance(source, fx.Node) and _size(source) == _size(value):
            return True
        value = source
    return False


def _base_of(value: Any) -> Any:
    while isinstance(value, fx.Node) and value.op != "placeholder" and _name_of(value) in _SHOWS and value.args:
        value = value.args[0]
    return value


def _depends_on_values(node: fx.Node) -> bool:
    """True if a call gives a size, or a tensor with one, that PyTorch knows only when it has run."""
    value = node.meta.get("example_value")
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    return node.op != "placeholder" and any(
        isinstance(size, torch.SymInt) and any(str(symbol).startswith("u") for symbol in size.node.expr.free_symbols)
        for size in sizes
    )


def _size(node: fx.Node) -> Any:
    value = node.meta.get("example_value")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None
