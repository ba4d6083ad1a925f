"""Memory in use besides a graph of a module, and how often a graph of a block runs, within what one call compiles.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.multiprocessing.reductions import StorageWeakRef

from placewright.api.inductor_memory import FittedGraph
from placewright.execution.pytorch.data_parallel import Sharded, local_bytes
from placewright.execution.pytorch.open_sizes import Sizes
from placewright.execution.pytorch.optimizer_memory import optimizer_memory
from placewright.execution.pytorch.parameter_steps import each_parameter
from placewright.execution.pytorch.step_in_backward import optimizers_in_backward
from placewright.support.errors import InputError


@dataclass(kw_only=True, eq=False)
class CompiledGraph:
    """One graph that Inductor compiled.

    read: identities of parameters and buffers of the module among its arguments. fitted: empty for a graph without a
    backward pass. peak_bytes: the largest peak of its runs, with other memory in use, but without optimizer states,
    buckets and gradients that exist before a step. runs: how often it may run in one call. call: runs it. inputs: its
    numbers, of which some are open sizes. sizes: of the first call. known: for which sizes it keeps the limit.
    """

    read: frozenset[int]
    fitted: list[FittedGraph]
    peak_bytes: int
    runs: int
    call: Callable[..., Any]
    inputs: Sequence[Any]
    sizes: Sizes
    known: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def run(self, call: Call, sizes: Sizes, name: str, arguments: Sequence[Any]) -> Any:
        """Runs it within a call of the module of such a name."""
        call.check(self, name)
        results = self.call(*arguments)
        call.note(self, sum(each.saved_with(sizes) for each in self.fitted), (*arguments, *results))
        return results


@dataclass(eq=False)
class Call:
    """One call of a module.

    given: its arguments. ran: graphs, in their order, repeatedly where they run again. saved_bytes: what these keep for
    their backward. seen: their arguments and results, with sizes.
    """

    given: Sequence[torch.Tensor] = ()
    ran: list[CompiledGraph] = field(default_factory=list)
    saved_bytes: int = 0
    seen: list[tuple[StorageWeakRef, int]] = field(default_factory=list)

    def note(self, graph: CompiledGraph, saved_bytes: int, tensors: Iterable[Any]) -> None:
        """A graph has run, with such arguments and results."""
        self.ran.append(graph)
        self.saved_bytes += saved_bytes
        for each in tensors:
            if isinstance(each, torch.Tensor) and not isinstance(each, nn.Parameter):
                storage = each.untyped_storage()
                self.seen.append((StorageWeakRef(storage), storage.nbytes()))

    def check(self, graph: CompiledGraph, name: str) -> None:
        """Raises InputError before a graph runs more often than what it keeps was counted for. name: of the module."""
        if graph.fitted and torch.is_grad_enabled() and self.ran.count(graph) >= graph.runs:
            raise InputError(
                f"a part of {name} between two graph breaks runs more than {graph.runs} times in a "
                "call, and what it keeps for backward was not counted so often; leave out the graph breaks"
            )


class Beside(NamedTuple):
    """The memory in use besides a graph.

    size: bytes. read: identities of tensors of the module that it reads. runs: how often it runs in a call.
    gradient_bytes: of what each further run reads.
    """

    size: int
    read: frozenset[int]
    runs: int
    gradient_bytes: int


def beside(model: nn.Module, example_inputs: Sequence[Any], call: Call) -> Beside:
    """Find the memory in use besides a graph, at the present point of a call.

    It consists of the tensors of the module and arguments that the graph does not read, what earlier graphs keep for
    their backward, their arguments and results that are still there, gradients of later graphs, whose backward comes
    first, and what is gathered and reduced meanwhile. Gradients of the graph's own further runs appear as what these
    runs keep is freed. Gradients of parameters that are stepped in backward are gone by then; the memory that such a
    step takes is added.
    """
    sharded = Sharded(model)
    held = [*model.parameters(), *model.buffers()]
    given = {id(value) for value in example_inputs if isinstance(value, torch.Tensor)}
    read = frozenset(sharded.identity(each) for each in held if id(each) in given)
    before = frozenset[int]().union(*(graph.read for graph in call.ran))
    others = further_blocks(model, read, before, sharded)
    unread = sum(local_bytes(each) for each in (*held, *call.given) if id(each) not in given)
    counted = [each for each in (*held, *call.given, *example_inputs) if isinstance(each, torch.Tensor)]
    stepping = optimizers_in_backward(held)
    gone = {id(parameter) for optimizer in stepping for _, parameter in each_parameter(optimizer)}
    kept = [each for each in held if each.requires_grad and id(each) not in gone]
    gradients = {sharded.identity(each): local_bytes(each) for each in kept}
    own, passed = frozenset[int]().union(*others), read | before
    later = sum(size for each, size in gradients.items() if each not in passed | own)
    return Beside(
        size=unread
        + sum(map(sharded.shard_bytes, held))
        + (later if torch.is_grad_enabled() else 0)
        + call.saved_bytes
        + _still_there(call, counted)
        + sharded.bytes_beside
        + max((optimizer_memory(each).step_bytes for each in stepping), default=0),
        read=read,
        runs=1 + len(others),
        gradient_bytes=max((sum(gradients.get(each, 0) for each in other) for other in others), default=0),
    )


def _still_there(call: Call, counted: Iterable[torch.Tensor]) -> int:
    """Bytes that graphs of a call were given or returned, other than of tensors that count otherwise."""
    known = {each.untyped_storage()._cdata for each in counted if not hasattr(each, "to_local")}
    alive = {seen.cdata: size for seen, size in call.seen if not seen.expired()}
    return sum(size for storage, size in alive.items() if storage not in known)


def further_blocks(
    model: nn.Module, read: frozenset[int], before: frozenset[int], sharded: Sharded
) -> list[frozenset[int]]:
    """Return the parameters that a graph will read in each further run, as identities.

    One set for each block with parameters like those of the block it reads now, of which nothing was read before.
    """
    parts = {
        module: {sharded.identity(each): tuple(each.shape) for each in module.parameters()}
        for module in model.modules()
    }
    own = {each for each in read if each in parts[model]}
    owner = min((part for part in parts if own <= parts[part].keys()), key=lambda part: len(parts[part]))
    if not own or len(parts[owner]) == len(parts[model]):
        return []
    taken, found = {*before, *parts[owner]}, list[frozenset[int]]()
    for module, part in parts.items():
        alike = type(module) is type(owner) and list(part.values()) == list(parts[owner].values())
        if alike and taken.isdisjoint(part):
            taken |= part.keys()
            found.append(frozenset(part))
    return found


def check_weights(model: nn.Module, module: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Raises InputError where PyTorch has put the weights of one block into the place of another's.

    Its nested regions do so where the forward of each instance is a region of its own, and not that of the class.
    """
    sharded = Sharded(model)
    given = zip(module.graph.find_nodes(op="placeholder"), example_inputs, strict=True)
    weights = {node: sharded.identity(value) for node, value in given if isinstance(value, nn.Parameter)}
    regions = module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.invoke_subgraph)
    calls = [frozenset(weights[each] for each in node.args if each in weights) for node in regions]
    for call in {call for call in calls if call and calls.count(call) > 1}:
        if further_blocks(model, call, frozenset(weights.values()) - call, sharded):
            raise InputError(
                f"PyTorch takes the weights of one block of {type(model).__name__} for another's; leave out what "
                "makes its blocks regions: .compile() of each, or torch.compiler.nested_compile_region"
            )
