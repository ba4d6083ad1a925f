"""What a traced PyTorch step is made of: which nodes are inputs, parameters, gradients, updates and results.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch._functorch._aot_autograd import descriptors

from placewright.importers.torch_trace import LIFTED, MODEL_ATTRIBUTE, Trace
from placewright.support.errors import InputError, shown

#: What an FX node that no op computes stands for; a "seed" is the gradient of the loss by itself, ones.
SourceRole = Literal["input", "parameter", "constant", "seed"]


@dataclass(frozen=True, kw_only=True)
class Capture:
    """A functional graph of ATen calls, in the order of tracing: forward, then backward.

    nodes: the call nodes anything below depends on. sources: name and role of each node that is not computed.
    outputs: what the model returns (training: the loss) and gradients of inputs.
    updates: (parameter, buffer or input that is overwritten, its new value).
    gradients: (parameter, its gradient). seeded: the output each seed is the gradient of, where it is one.
    warnings: what is not in the graph although the model's code says so.
    module: what the graph does not tell of the module's parameters, buffers and layers, as its metadata keep it
    (docs/formats.md); None where there is no module.
    module_prefix: what stands before a layer's path in the nodes' own metadata.
    """

    nodes: tuple[Any, ...]
    sources: Mapping[Any, tuple[str, SourceRole]]
    outputs: tuple[Any, ...]
    updates: tuple[tuple[Any, Any], ...]
    gradients: tuple[tuple[Any, Any], ...]
    seeded: Mapping[Any, Any]
    warnings: tuple[str, ...]
    module: Mapping[str, Mapping[str, Any]] | None
    module_prefix: str


def capture(trace: Trace) -> Capture:
    """Reads the meaning of every placeholder and result from its descriptor, and drops what nothing depends on."""
    nodes = list(trace.graph.nodes)
    placeholders = {node.meta["desc"]: node for node in nodes if node.op == "placeholder"}
    end = trace.graph.output_node()
    returned = {desc: node for node, desc in zip(end.args[0], end.meta["desc"], strict=True) if node is not None}
    updates = {placeholders[desc.mutated_input]: node for desc, node in returned.items() if _is_update(desc)}
    gradients = {placeholders[desc.grad_of]: node for desc, node in returned.items() if _is_gradient(desc)}
    _check_gradients(trace, {_name_of(parameter, trace) for parameter in gradients})
    needed = _ancestors(list(returned.values())) | set(updates)
    sources: dict[Any, tuple[str, SourceRole]] = {
        node: (_name_of(node, trace), _role_of(node))
        for node in nodes
        if "val" in node.meta and node.op in ("placeholder", "get_attr")
    }
    kept = {node: source for node, source in sources.items() if node in needed or source[1] == "input"}
    return Capture(
        nodes=tuple(node for node in nodes if node.op == "call_function" and node in needed),
        sources=kept,
        outputs=tuple(node for desc, node in returned.items() if not (_is_update(desc) or _is_gradient(desc))),
        updates=tuple(updates.items()),
        gradients=tuple(gradients.items()),
        seeded={
            placeholder: returned[desc.output]
            for desc, placeholder in placeholders.items()
            if isinstance(desc, descriptors.TangentAOTInput) and desc.output in returned
        },
        warnings=tuple(_warnings(trace)),
        module=_beside_the_graph(trace, sources, {name for name, _ in kept.values()}),
        module_prefix=trace.module_prefix,
    )


def capture_graph(graph: Any, is_parameter: Sequence[bool]) -> Capture:
    """Of a functional graph without descriptors: every placeholder is read, every result is an output.

    is_parameter: of each placeholder, whether it stays from step to step.
    """
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    outputs = tuple(node for node in graph.output_node().args[0] if isinstance(node, torch.fx.Node))
    needed = _ancestors(outputs)
    sources: dict[Any, tuple[str, SourceRole]] = {
        node: (node.name, "parameter" if stays else "input")
        for node, stays in zip(placeholders, is_parameter, strict=True)
        if node in needed
    }
    constants = [node for node in graph.nodes if node.op == "get_attr" and node in needed]
    return Capture(
        nodes=tuple(node for node in graph.nodes if node.op == "call_function" and node in needed),
        sources={**sources, **{node: (node.name.lstrip("_"), "constant") for node in constants}},
        outputs=outputs,
        updates=(),
        gradients=(),
        seeded={},
        warnings=(),
        module=None,
        module_prefix="",
    )


def _beside_the_graph(
    trace: Trace, sources: Mapping[Any, tuple[str, SourceRole]], read: set[str]
) -> dict[str, Mapping[str, Any]]:
    """Other names of parameters, buffers and layers, each with the first, and bytes of those that no op reads."""
    return {
        "other_names": {name: first for name, first in trace.parameter_names.items() if name != first},
        "other_paths": {path: first for path, first in trace.module_paths.items() if path != first},
        "unread": {
            name: node.meta["val"].numel() * node.meta["val"].element_size()
            for node, (name, role) in sources.items()
            if role == "parameter" and name not in read
        },
    }


def _check_gradients(trace: Trace, trained: set[str]) -> None:
    """Raises InputError when the traced step lacks the gradient of a parameter that the loss depends on."""
    lost = [name for name, needed_by_loss in trace.trainable.items() if needed_by_loss and name not in trained]
    if lost:
        others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise InputError(
            f"the traced step has no gradient of the parameter '{shown(lost[0])}'{others}, though the loss depends on "
            "it: an op on the way has no backward formula"
        )


def _warnings(trace: Trace) -> Iterator[str]:
    if idle := [name for name, needed_by_loss in trace.trainable.items() if not needed_by_loss]:
        few = ", ".join(idle[:3]) + (", ..." if len(idle) > 3 else "")
        yield f"the loss does not depend on {len(idle)} of the parameters ({few}), so nothing updates them"
    for function in trace.custom_gradients:
        yield f"the gradient of {function} is that of its forward ops, since its own backward is not traced"


def _is_update(meaning: Any) -> bool:
    """Whether a result is the new value of a parameter, buffer or input."""
    return isinstance(meaning, descriptors.InputMutationAOTOutput)


def _is_gradient(meaning: Any) -> bool:
    """Whether a result is the gradient of a parameter."""
    return isinstance(meaning, descriptors.GradAOTOutput) and isinstance(meaning.grad_of, descriptors.ParamAOTInput)


def _ancestors(roots: Sequence[Any]) -> set[Any]:
    seen = set(roots)
    waiting = list(roots)
    while waiting:
        for node in waiting.pop().all_input_nodes:
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return seen


def _role_of(node: Any) -> SourceRole:
    meaning = node.meta.get("desc")
    if isinstance(meaning, descriptors.PlainAOTInput):
        return "input"
    if isinstance(meaning, descriptors.TangentAOTInput):
        return "seed"
    if isinstance(meaning, (descriptors.ParamAOTInput, descriptors.BufferAOTInput)):
        return "constant" if LIFTED in meaning.target else "parameter"
    if node.op == "get_attr":
        return "constant"
    raise InputError(f"the traced module has an input of the unknown kind {type(meaning).__name__}")


def _name_of(node: Any, trace: Trace) -> str:
    meaning = node.meta.get("desc")
    if isinstance(meaning, descriptors.PlainAOTInput):
        return str(trace.input_names[meaning.idx])
    if isinstance(meaning, (descriptors.ParamAOTInput, descriptors.BufferAOTInput)):
        name: str = meaning.target.removeprefix(f"{MODEL_ATTRIBUTE}.")
        return trace.parameter_names.get(name, name)
    return str(node.name).lstrip("_")
