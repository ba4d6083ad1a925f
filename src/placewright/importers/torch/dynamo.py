"""The code of a module as one graph of calls of PyTorch, as Dynamo reads it, and the meaning of the graph's inputs.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import logging
import re
import threading
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
from torch import nn
from torch._dynamo.convert_frame import CaptureOutput, fullgraph_capture
from torch._dynamo.utils import dynamo_timed, get_metrics_context

from placewright.importers.torch.joint import SourceRole
from placewright.importers.torch.layers import name_layers
from placewright.importers.torch.recurrent import split_layers
from placewright.importers.torch.results import NOTHING_TO_TRAIN, check_loss, loss_of, returned_tensors
from placewright.support.errors import InputError

#: A lock, as Dynamo's settings belong to the whole process.
LOCK = threading.RLock()
#: Sizes are constants, and recurrent layers are allowed.
_SETTINGS = {
    "allow_rnn": True,
    "assume_static_by_default": True,
    "automatic_dynamic_shapes": False,
    "specialize_int": True,
    "specialize_float": True,
}
#: Names of methods of loggers that write something; libraries add their own, such as `warning_once`.
_LOGS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "log"})
_STEPS = re.compile(r"\['?|'?\]|\.")
#: Names of the attributes in which PyTorch keeps the parts of modules.
_KEPT_IN = frozenset({"", "_modules", "_parameters", "_buffers", "__dict__"})


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The calls that a module makes. program: its results are those of the module, or the loss. examples: a tensor for
    each of its inputs. sources: name and role of each of these."""

    program: torch.fx.GraphModule
    examples: Sequence[Any]
    sources: Sequence[tuple[str, SourceRole]]
    fake_mode: Any
    contexts: Any


@torch._dynamo.allow_in_graph  # type: ignore[untyped-decorator]
def _mark(kind: str, count: int, *tensors: Any) -> Any:
    """A marker in the graph for the results of the module, `count` tensors, and its arguments. kind: the type of a loss
    that is no tensor."""
    return torch.empty(0)


def read_calls(
    model: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    tensors: Mapping[str, Any],
    loss: Callable[[Any], Any] | None,
) -> Calls:
    """Read the calls of `model(*args, **kwargs)`, and with it those of its loss.

    tensors: those among the arguments, by their names. Raises Dynamo's errors where it cannot read all of the code.
    """
    given = list(tensors.values())

    def step() -> Any:
        output = model(*args, **kwargs)
        if loss is None:
            results = returned_tensors(output)
            return _mark("", len(results), *results, *given)
        value = loss(output)
        if isinstance(value, torch.Tensor):
            return _mark("", 1, value, *given)
        return _mark("" if value is None else type(value).__name__, 0, *given)

    # The function has its own globals, so that what Dynamo leaves there goes with them.
    own = types.FunctionType(step.__code__, dict(globals()), "step", None, step.__closure__)
    logs = {each for name, each in vars(logging.Logger).items() if name.split("_")[0] in _LOGS}
    settings = torch._dynamo.config.patch(**_SETTINGS, ignore_logging_functions={print, warnings.warn, *logs})
    with settings, get_metrics_context(), dynamo_timed("placewright"):
        captured = fullgraph_capture(own, ())
    return _read(captured, model, tensors, training=loss is not None, own_loss=loss is not loss_of)


def _read(
    captured: CaptureOutput, model: nn.Module, tensors: Mapping[str, Any], *, training: bool, own_loss: bool
) -> Calls:
    found: Any = captured.backend_input
    program, graph = found.graph_module, found.graph_module.graph
    mark = next(node for node in graph.nodes if node.target is _mark)
    kind, count, *rest = mark.args
    results, given = rest[:count], rest[count:]
    if training:
        _check_trains(results, kind, own_loss)
    end = graph.output_node()
    end.args = (tuple(results),)
    graph.erase_node(mark)
    split_layers(graph)
    name_layers(program, model)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    origins = captured.graph_capture_output.output_graph.export_metadata.graph_input_idx_to_local_source
    sources = _sources(found.example_inputs, origins, model, dict(zip(tensors, given, strict=True)), placeholders)
    order = sorted(range(len(placeholders)), key=lambda place: sources[place][0])
    for place in reversed(order):
        first = next(iter(graph.nodes))
        if first is not placeholders[place]:
            first.prepend(placeholders[place])
    return Calls(
        program=program,
        examples=[found.example_inputs[place] for place in order],
        sources=[sources[place][1] for place in order],
        fake_mode=found.fake_mode,
        contexts=found.tensor_to_context,
    )


def _check_trains(results: Sequence[Any], kind: str, own_loss: bool) -> None:
    value = results[0].meta["example_value"] if results else None
    if value is None and not own_loss:
        raise InputError(NOTHING_TO_TRAIN)
    check_loss(value, kind)


def _sources(
    examples: Sequence[Any],
    origins: Mapping[int, Any],
    model: nn.Module,
    given: Mapping[str, Any],
    placeholders: Sequence[Any],
) -> list[tuple[tuple[int, int], tuple[str, SourceRole]]]:
    """The position of each input among all, and its name and role. For a tensor with several names the first counts."""
    names: dict[int, str] = {}
    for name, tensor in (*_parameters(model), *model.named_buffers(remove_duplicate=False)):
        # A shared parameter has the place of its last name, as in programs that PyTorch exports.
        names[id(tensor)] = names.pop(id(tensor), name)
    place_of = {key: place for place, key in enumerate(names)}
    argument = {node: (place, name) for place, (name, node) in enumerate(given.items())}
    found: list[tuple[tuple[int, int], tuple[str, SourceRole]]] = []
    for place, (node, tensor) in enumerate(zip(placeholders, examples, strict=True)):
        if node in argument:
            found.append(((2, argument[node][0]), (argument[node][1], "input")))
        elif id(tensor) in names:
            found.append(((0, place_of[id(tensor)]), (names[id(tensor)], "parameter")))
        else:
            steps = [each for each in _STEPS.split(origins[place].name)[1:] if each not in _KEPT_IN]
            is_own = steps[0] == "model"
            # For objects of another file, Dynamo's name begins with the file.
            name = ".".join(steps[1:] if is_own or steps[0].startswith("__import_") else steps)
            found.append(((1, place), (name, "parameter" if is_own else "constant")))
    return found


def _parameters(model: nn.Module) -> list[tuple[str, Any]]:
    return list(model.named_parameters(remove_duplicate=False))
