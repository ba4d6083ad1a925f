"""The meaning of a traced PyTorch step's nodes: inputs, parameters, gradients, updates and results.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch._aot_autograd import descriptors

from placewright.importers.torch.dtypes import correct_dtypes
from placewright.importers.torch.joint import Joint, SourceRole
from placewright.importers.torch.ops import bodies_of, draws_random_numbers, sentence_on_effects
from placewright.support.errors import InputError, shown


@dataclass(frozen=True, kw_only=True)
class Capture:
    """A functional graph of ATen calls, in the order of tracing: forward, then backward.

    nodes: the call nodes that anything below depends on, and those that draw random numbers, since later draws depend
    on them. sources: name and role of each node that is not computed. outputs: what the model returns
    (training: the loss). updates: (parameter, buffer or input that is overwritten, its new value). gradients:
    (parameter, its gradient). input_gradients: (input, its gradient). seeded: the output each seed is the gradient of,
    where it is one. warnings: what is not in the graph although the model's code says so.
    """

    nodes: tuple[Any, ...]
    sources: Mapping[Any, tuple[str, SourceRole]]
    outputs: tuple[Any, ...]
    updates: tuple[tuple[Any, Any], ...]
    gradients: tuple[tuple[Any, Any], ...]
    input_gradients: tuple[tuple[Any, Any], ...]
    seeded: Mapping[Any, Any]
    warnings: tuple[str, ...]


def capture(trace: Joint, *, keep_draws: bool = True) -> Capture:
    """Reads the meaning of every placeholder and result from its descriptor, and drops what nothing depends on.

    keep_draws: true to keep ops that draw random numbers although nothing reads them.
    """
    nodes = list(trace.graph.nodes)
    _check_effects(nodes)
    check_writes(nodes)
    correct_dtypes(nodes)
    placeholders = {node.meta["desc"]: node for node in nodes if node.op == "placeholder"}
    returned = _returned(trace, placeholders, nodes)
    updates = {placeholders[desc.mutated_input]: node for desc, node in returned.items() if _is_update(desc)}
    gradients = {
        placeholders[desc.grad_of]: node
        for desc, node in returned.items()
        if isinstance(desc, descriptors.GradAOTOutput)
    }
    of_inputs = tuple((of, node) for of, node in gradients.items() if _role_of(of, trace) == "input")
    of_parameters = tuple((of, node) for of, node in gradients.items() if _role_of(of, trace) != "input")
    plain = {desc.idx: node for desc, node in returned.items() if isinstance(desc, descriptors.PlainAOTOutput)}
    results = [plain[number] for number in sorted(plain)]
    _check_gradients(trace, {_name_of(parameter, trace) for parameter, _ in of_parameters})
    needed = ancestors(list(returned.values())) | set(updates)
    if keep_draws:
        needed |= ancestors(_draws(nodes))
    sources = _sources(trace, nodes, updates)
    return Capture(
        nodes=tuple(node for node in nodes if node.op == "call_function" and node in needed),
        sources={node: source for node, source in sources.items() if node in needed or source[1] == "input"},
        outputs=tuple(results[: trace.num_results]),
        updates=tuple(updates.items()),
        gradients=of_parameters,
        input_gradients=of_inputs,
        seeded={
            placeholder: returned[desc.output]
            for desc, placeholder in placeholders.items()
            if isinstance(desc, descriptors.TangentAOTInput) and desc.output in returned
        },
        warnings=tuple(_warnings(trace)),
    )


def _returned(trace: Joint, placeholders: Mapping[Any, Any], nodes: Sequence[Any]) -> dict[Any, Any]:
    """The results of the step, by descriptor, without gradients of anything but the loss."""
    end = trace.graph.output_node()
    idle = _not_from_the_loss(placeholders, nodes)
    return {
        desc: node
        for node, desc in zip(end.args[0], end.meta["desc"], strict=True)
        if node is not None and not (isinstance(desc, descriptors.GradAOTOutput) and node in idle)
    }


def _sources(trace: Joint, nodes: Sequence[Any], updates: Iterable[Any]) -> dict[Any, tuple[str, SourceRole]]:
    """Name and role of each node that is not computed."""
    sources: dict[Any, tuple[str, SourceRole]] = {
        node: (_name_of(node, trace), _role_of(node, trace))
        for node in nodes
        if "val" in node.meta and node.op in ("placeholder", "get_attr")
    }
    # A write through `.data` shows in the trace alone.
    return sources | {node: (_name_of(node, trace), "parameter") for node in updates if sources[node][1] == "constant"}


def capture_graph(graph: Any, is_parameter: Sequence[bool], labels: Mapping[str, str] | None = None) -> Capture:
    """Captures a functional graph without descriptors: placeholders that are needed are sources, results are outputs.

    is_parameter: per placeholder, true if it stays from step to step. labels: the name to give a placeholder, by its
    name in the graph, which is the default.
    """
    named = labels or {}
    _check_effects(graph.nodes)
    correct_dtypes(graph.nodes)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    outputs = tuple(node for node in graph.output_node().args[0] if isinstance(node, torch.fx.Node))
    needed = ancestors([*outputs, *_draws(graph.nodes)])
    sources: dict[Any, tuple[str, SourceRole]] = {
        node: (named.get(node.name, node.name), "parameter" if stays else "input")
        for node, stays in zip(placeholders, is_parameter, strict=True)
        if node in needed
    }
    bodies = {body for node in graph.nodes if node.op == "call_function" for body in bodies_of(node)}
    constants = [node for node in graph.nodes if node.op == "get_attr" and node in needed - bodies]
    return Capture(
        nodes=tuple(node for node in graph.nodes if node.op == "call_function" and node in needed),
        sources={**sources, **{node: (node.name.lstrip("_"), "constant") for node in constants}},
        outputs=outputs,
        updates=(),
        gradients=(),
        input_gradients=(),
        seeded={},
        warnings=(),
    )


def _check_effects(nodes: Iterable[Any]) -> None:
    """Raises InputError for a call that does something besides computing its results, such as raising an error."""
    for node in nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator) and node.target.name() == "with_effects":
            raise InputError(sentence_on_effects(node.args[1]))


def check_writes(nodes: Iterable[Any]) -> None:
    """Raises InputError for a write to a placeholder, which only a user's own backward leaves in a functional graph."""
    for node in nodes:
        is_op = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
        if is_op and node.target._schema.is_mutable and getattr(node.args[0], "op", "") == "placeholder":
            raise InputError(
                "the backward of an autograd.Function writes to a tensor that it has not made, such as a buffer, and a "
                "planned step would not; write to it in forward"
            )


def _check_gradients(trace: Joint, trained: set[str]) -> None:
    """Raises InputError when the traced step lacks the gradient of a parameter that the loss depends on."""
    lost = [name for name, needed_by_loss in trace.trainable.items() if needed_by_loss and name not in trained]
    if lost:
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise InputError(
            f"the traced step has no gradient of the parameter '{shown(lost[0])}'{others}, though the loss depends on "
            "it: an op on the way has no backward formula"
        )


def _warnings(trace: Joint) -> Iterator[str]:
    if idle := [name for name, needed_by_loss in trace.trainable.items() if not needed_by_loss]:
        few = ", ".join(idle[:3]) + (", ..." if len(idle) > 3 else "")
        yield f"the loss does not depend on {len(idle)} of the parameters ({few}), so nothing updates them"


def _not_from_the_loss(placeholders: Mapping[Any, Any], nodes: Sequence[Any]) -> set[Any]:
    """The nodes that backward computes from gradients of tensors that forward writes to, and not from that of the loss:
    they are no gradients of the loss. Autograd takes those tensors for results, too."""
    seeds = {desc: node for desc, node in placeholders.items() if isinstance(desc, descriptors.TangentAOTInput)}
    of_loss = {node for desc, node in seeds.items() if isinstance(desc.output, descriptors.PlainAOTOutput)}
    others = set(seeds.values()) - of_loss
    return descendants(others, nodes) - descendants(of_loss, nodes) if others else set()


def _is_update(meaning: Any) -> bool:
    """True if a result is the new value of a parameter, buffer or input."""
    return isinstance(meaning, descriptors.InputMutationAOTOutput)


def _draws(nodes: Iterable[Any]) -> list[Any]:
    return [node for node in nodes if node.op == "call_function" and draws_random_numbers(node)]


def ancestors(roots: Sequence[Any]) -> set[Any]:
    """The given nodes and all that they are computed from."""
    seen = set(roots)
    waiting = list(roots)
    while waiting:
        for node in waiting.pop().all_input_nodes:
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return seen


def descendants(roots: Collection[Any], nodes: Iterable[Any]) -> set[Any]:
    """The given nodes and all that are computed from them. nodes: all nodes, in the order of their graph."""
    found = set(roots)
    for node in nodes:
        if not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def _role_of(node: Any, trace: Joint) -> SourceRole:
    meaning = node.meta.get("desc")
    source = trace.source_of(meaning)
    if source is not None:
        return source[1]
    if isinstance(meaning, descriptors.TangentAOTInput):
        return "seed"
    if node.op == "get_attr":
        return "constant"
    raise InputError(f"the traced module has an input of the unknown kind {type(meaning).__name__}")


def _name_of(node: Any, trace: Joint) -> str:
    source = trace.source_of(node.meta.get("desc"))
    return str(node.name).lstrip("_") if source is None else source[0]
