"""A program that PyTorch has exported, or another FX graph of calls, as one functional graph with its backward.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import nn
from torch._functorch._aot_autograd import descriptors
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.utils.stateless import _reparametrize_module

from placewright.importers.torch.joint import Joint, SourceRole
from placewright.importers.torch.joint_graph import check_known, check_no_backward, functional_graph, reached_from
from placewright.importers.torch.results import NOTHING_TO_TRAIN, check_loss, loss_of, returned_tensors, tensors_of
from placewright.support.errors import InputError

#: The name of the placeholders of a program's state, each followed by its number.
_STATE = "state"


class _Step(nn.Module):
    """A module that takes the tensors among the arguments one by one and returns only tensors; its parameters and
    buffers are the program's, each once."""

    def __init__(self, program: torch.fx.GraphModule, leaves: Sequence[Any], structure: Any, loss: Any) -> None:
        super().__init__()
        self._program, self._leaves, self._structure, self._loss = [program], leaves, structure, loss
        names: dict[int, list[str]] = {}
        tensors: dict[int, Any] = {}
        for name, tensor in _named(program):
            # A shared parameter has the place of its last name, as in programs that PyTorch exports.
            names[id(tensor)] = [*names.pop(id(tensor), []), name]
            tensors[id(tensor)] = tensor
        self.names = [names[key] for key in names]
        for number, key in enumerate(names):
            held = self._parameters if isinstance(tensors[key], nn.Parameter) else self._buffers
            held[f"{_STATE}{number}"] = tensors[key]
        self.num_results = 0

    def forward(self, *tensors: Any) -> Any:
        """Returns the results of the program, or the loss."""
        program, each = self._program[0], iter(tensors)
        leaves = [next(each) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        state = [getattr(self, f"{_STATE}{number}") for number in range(len(self.names))]
        by_name = {name: tensor for names, tensor in zip(self.names, state, strict=True) for name in names}
        with _reparametrize_module(program, by_name):
            flat = torch.fx.Interpreter(program).run(*leaves, enable_io_processing=False)
        output = program.graph.process_outputs(flat)
        if self._loss is None:
            results = returned_tensors(output)
            self.num_results = len(results)
            return tuple(results)
        value = self._loss(output)
        if value is None and self._loss is loss_of:
            raise InputError(NOTHING_TO_TRAIN)
        check_loss(value)
        self.num_results = 1
        return (value,)


def joint_of_program(
    program: torch.fx.GraphModule,
    leaves: Sequence[Any],
    structure: Any,
    names: Sequence[str],
    loss: Callable[[Any], Any] | None,
) -> Joint:
    """Traces a graph of calls, and with a loss also its backward.

    leaves: of the arguments, whose tensors have the names.
    """
    step = _Step(program, leaves, structure, loss)
    inputs = tensors_of(list(leaves))
    tensors = [*step.parameters(), *step.buffers(), *inputs]
    mode = next((each.fake_mode for each in tensors if isinstance(each, FakeTensor)), None)
    mode = mode or FakeTensorMode(allow_non_fake_inputs=True)
    inputs = [each if isinstance(each, FakeTensor) else mode.from_tensor(each) for each in inputs]
    graph = functional_graph(step, inputs, TracingContext(mode))
    if loss is None:
        check_no_backward(graph)
    check_known(graph, program)
    sources: dict[Any, tuple[str, SourceRole]] = {
        descriptors.PlainAOTInput(place): (name, "input") for place, name in enumerate(names)
    }
    for number, (name, *_) in enumerate(step.names):
        of = descriptors.ParamAOTInput if f"{_STATE}{number}" in step._parameters else descriptors.BufferAOTInput
        sources[of(f"{_STATE}{number}")] = name, "parameter"
    trainable = {} if loss is None else _trainable(step, inputs, mode)
    return Joint(graph=graph, sources=sources, trainable=trainable, num_results=step.num_results)


def _trainable(step: _Step, inputs: Sequence[Any], mode: FakeTensorMode) -> dict[str, bool]:
    """Each parameter that requires a gradient, and whether the loss depends on it."""
    state = {name: mode.from_tensor(each) for name, each in (*step.named_parameters(), *step.named_buffers())}
    with mode:
        (loss,) = torch.func.functional_call(step, state, tuple(inputs))
    reached = reached_from(loss)
    return {
        names[0]: id(state[f"{_STATE}{number}"]) in reached
        for number, names in enumerate(step.names)
        if (parameter := step._parameters.get(f"{_STATE}{number}")) is not None and parameter.requires_grad
    }


def _named(program: torch.fx.GraphModule) -> list[tuple[str, Any]]:
    """The parameters and buffers with all of their names, and the other tensors that calls read."""
    named = [*program.named_parameters(remove_duplicate=False), *program.named_buffers(remove_duplicate=False)]
    known = {name for name, _ in named}
    read = [node.target for node in program.graph.nodes if node.op == "get_attr" and node.target not in known]
    others = [(name, attrgetter(name)(program)) for name in dict.fromkeys(read)]
    return [*named, *((name, value) for name, value in others if isinstance(value, torch.Tensor))]
