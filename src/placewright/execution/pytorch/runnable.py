"""What of a module a planned step would not do as the module does: refused, each in one sentence, before anything runs.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.modules import module as every_module
from torch.nn.parallel import DataParallel, DistributedDataParallel

from placewright.importers.torch.calls import BACKEND, layers_noted
from placewright.importers.torch.ops import attribute_of
from placewright.support.errors import InputError, shown

#: Attributes of a module that hold hooks, and what a sentence calls them.
HOOKS = {
    "_forward_pre_hooks": "forward hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward hook",
    "_backward_hooks": "backward hook",
}
_GLOBAL_HOOKS = tuple(f"_global{attribute}" for attribute in HOOKS)
#: Ops that hold code of their own, and compute their results from their arguments alone.
_WITH_BODIES = frozenset(
    {
        *("cond", "while_loop", "scan", "map_impl", "associative_scan", "flex_attention", "invoke_subgraph"),
        *("auto_functionalized", "auto_functionalized_v2"),
    }
)
_WRAPPERS = (DataParallel, DistributedDataParallel, FullyShardedDataParallel)
#: What to do instead where several processes train.
AVERAGED = (
    "plan the module without it, and average the gradients after each step yourself, or let it wrap what torch.compile "
    "makes of the module"
)


def check_module(model: Any, *, training: bool) -> None:
    """Raises InputError for a module that a plan cannot stand for, naming what it has: hooks of the user's, gradients
    that other processes exchange, or no code that can be traced."""
    if not isinstance(model, nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise InputError(
            f"a {type(model).__name__} cannot be compiled, only an nn.Module can: pass the module that it was made "
            "from, or program.module() of an ExportedProgram"
        )
    for path, module in model.named_modules():
        where = f"the module '{shown(path)}'" if path else "the module"
        if isinstance(module, torch.jit.ScriptModule):
            raise InputError(
                f"{where} is a TorchScript module, whose code PyTorch does not trace; put the module it was made from "
                "in its place"
            )
        if isinstance(module, _WRAPPERS):
            raise InputError(
                f"{where} is a {type(module).__name__}, whose exchange of tensors is no part of a planned step; "
                f"{AVERAGED if training else 'compile the module in it'}"
            )
        for attribute, kind in HOOKS.items():
            for hook in getattr(module, attribute).values():
                if not _is_pure(hook) and (training or "forward" in kind):
                    raise InputError(f"{where} has a {kind}, which planned steps do not call; {BACKEND}")
    for attribute in _GLOBAL_HOOKS:
        if any(not _is_pure(hook) for hook in getattr(every_module, attribute).values()):
            raise InputError(f"all modules have a hook ({attribute}), which planned steps do not call; remove it")
    if training:
        check_gradients_of(dict(model.named_parameters()))
        _check_not_wrapped(model)


def _check_not_wrapped(model: nn.Module) -> None:
    """Raises InputError where a DistributedDataParallel holds a parameter of the module: what it does to gradients is
    known to no tensor and no module but itself."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    own = {id(parameter) for parameter in model.parameters()}

    def is_wrapped() -> bool:
        wrappers = (each for each in gc.get_objects() if issubclass(type(each), DistributedDataParallel))
        return any(not own.isdisjoint(map(id, wrapper.parameters())) for wrapper in wrappers)

    if is_wrapped():
        gc.collect()  # Nobody may hold it any more.
        if is_wrapped():
            raise InputError(
                "the module is in a DistributedDataParallel, which would not average the gradients of a planned step; "
                f"{AVERAGED}"
            )


def check_gradients_of(tensors: dict[str, Any]) -> None:
    """Raises InputError for a tensor whose gradient goes through a hook, or may have another dtype than the tensor."""
    for name, tensor in tensors.items():
        # PyTorch says of leaves alone what their gradients may be.
        if tensor.is_leaf and (wanted := getattr(tensor, "grad_dtype", tensor.dtype)) != tensor.dtype:
            dtype = "any dtype" if wanted is None else wanted
            raise InputError(
                f"the gradient of '{shown(name)}' may be {dtype} (its grad_dtype), and that of a planned step is "
                f"{tensor.dtype}, as the parameter is; {BACKEND}"
            )
        if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
            raise InputError(f"'{shown(name)}' has a hook on its gradient, which planned steps do not call; {BACKEND}")


def check_calls(nodes: Sequence[Any]) -> None:
    """Raises InputError for a traced call that a planned step cannot make."""
    for node in nodes:
        name = str(node.target)
        if isinstance(node.target, torch._ops.HigherOrderOperator) and node.target.name() not in _WITH_BODIES:
            raise InputError(
                f"the op {name} holds code of its own, such as branches or a loop's body, and plans cannot run it"
            )
        for value in _values(node):
            if value.layout != torch.strided:
                layout = str(value.layout).removeprefix("torch.")
                raise InputError(f"the op {name} makes a tensor of layout {layout}, and plans run dense tensors only")
        held = [attribute_of(each) for each in node.all_input_nodes if each.op == "get_attr"]
        if not all(isinstance(value, (torch.Tensor, torch.Generator, torch.fx.GraphModule)) for value in held):
            raise InputError(f"the op {name} reads an object that is no tensor, which planned steps do not keep")
        if any(isinstance(value, torch.Generator) for value in (*node.args, *node.kwargs.values(), *held)):
            raise InputError(
                f"the op {name} draws from a generator of its own, and planned steps use PyTorch's default one"
            )


def _values(node: Any) -> Iterator[Any]:
    value = node.meta.get("val")
    yield from (each for each in torch.utils._pytree.tree_leaves(value) if isinstance(each, torch.Tensor))


def _is_pure(hook: Any) -> bool:
    """Whether a hook is one of those that are traced with the module and do nothing else: PyTorch's own, such as weight
    normalization's, and the tracer's."""
    module = str(getattr(hook, "__module__", None) or type(hook).__module__)
    return (
        module.startswith(("torch.nn.utils.", "torch.export.", "torch._export.")) or module == layers_noted.__module__
    )
