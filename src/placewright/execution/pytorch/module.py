"""A module that runs as planned: its parameters, its gradients, and what it returns.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence, Set
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch.nn.parallel import DistributedDataParallel

from placewright.execution.pytorch.layout import is_laid_out_for, laid_out_for
from placewright.execution.pytorch.optimizer_step import ParameterStep
from placewright.execution.pytorch.program import TorchProgram, describe_signature, overwritten_by
from placewright.execution.pytorch.runnable import AVERAGED, check_gradients_of
from placewright.importers.torch.calls import BACKEND, check_saved_as_they_are
from placewright.importers.torch.graph import added_gradients
from placewright.plans.record import Plan
from placewright.support.errors import InputError, shown


class RunsStep(Protocol):
    """What runs a plan for a program."""

    program: TorchProgram
    plan: Plan

    def run(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> dict[int, Any]:
        """Runs one step and returns the outputs of the graph, by tensor."""


OneStep = TypeVar("OneStep", bound=RunsStep)


class PlannedModule(Generic[OneStep]):
    """A plan for one call of a module, or for one training step of it."""

    def __init__(self, step: OneStep) -> None:
        self.step = step
        self.parameters = Parameters(step.program, trained=step.program.training)
        self._trained = {name: place for place, name in enumerate(step.program.parameters.values())}
        calls = (call.function for call in step.program.calls.values())
        self._updates = [function for function in calls if isinstance(function, ParameterStep)]
        self._sharing = _Sharing(step.program)
        assigned = step.program.assigned
        #: What the module returns, and what it assigns to attributes.
        self._made = [*step.program.results, *(tensor for _, tensors in assigned for tensor in tensors)]
        returned = step.program.differentiable or [False] * len(step.program.results)
        self._differentiable = [*returned, *(one for each, _ in assigned for one in each.differentiable)]
        self._lock = threading.Lock()

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """Runs one step on the tensors that the module is called with, in order.

        Returns what the module returns, or the loss of a training step, whose gradients are added to those that the
        parameters have. Raises InputError when tensors or parameters are not what the plan was made for.
        """
        program = self.step.program
        with self._lock:
            parameters = self.parameters.now()
            self._sharing.check(parameters, tensors)
            for update in self._updates:
                update.check(parameters[self._trained[update.name]])
            if program.training:
                _check_backward_may_run()
                check_saved_as_they_are()
                _check_inputs_of_training(tensors)
                check_gradients_of({name: parameters[place] for name, place in self._trained.items()})
                for update in self._updates[:1]:
                    update.check_no_gradients()
            out = self.step.run(parameters, tensors)
            own = {id(tensor) for tensor in (*parameters, *tensors) if tensor.requires_grad}
            # Gradients of two parameters may be one tensor, or an input.
            shared = {_memory_of(tensor) for tensor in (*parameters, *tensors)} if program.training else set()
            for name, tensor in program.gradients.items():
                _accumulate(parameters[self._trained[name]], out[tensor], shared)
            for place, tensor in program.input_gradients.items():
                _accumulate(tensors[place], out[tensor], shared)
            # What is in two places is one tensor in both.
            found = iter(without_backward([out[one] for one in self._made], self._differentiable, own))
            results = [next(found) for _ in program.results]
            for each, values in program.assigned:
                each.slot.set(each.value.filled([next(found) for _ in values]))
        return program.returned.filled(results)


class Parameters:
    """Parameters and buffers of a module by name, and what else it writes to, as they are when a step begins.

    trained: whether it matters which of them want a gradient.
    """

    def __init__(self, program: TorchProgram, *, trained: bool = False) -> None:
        self._names = list(program.parameters.values())
        self._state = program.state
        self._outside = [each.outside for each in _all_state(program) if each.outside is not None]
        self._trained = trained
        self._expected = [_sort_of(tensor, trained) for tensor in self._read()]

    def now(self) -> list[Any]:
        """In the order of the names. Raises InputError where one is gone, or of another shape, dtype or device than it
        was, of other strides, or frozen since then: `.to()` and `requires_grad_()` change a parameter without replacing
        it; or where a tensor outside of the module has been replaced."""
        for outside in self._outside:
            if not outside.is_there:
                raise InputError(
                    f"'{shown(outside.name or 'a tensor')}', which forward reads outside of the module, has been "
                    "replaced since the plan was made; compile the module again"
                )
        held = self._read()
        found = [_sort_of(tensor, self._trained) for tensor in held]
        if found != self._expected:
            for name, now, before in zip(self._names, found, self._expected, strict=True):
                if _decisive(now) != _decisive(before):
                    one, other = _described(now), _described(before)
                    if one == other and now is not None and before is not None:
                        one, other = f"{one} with strides {now[-1]}", f"strides {before[-1]}"
                    raise InputError(
                        f"'{shown(name)}' is now {one}, and the plan was made for {other}; compile the module again"
                    )
        return held

    def _read(self) -> list[Any]:
        return [each.tensor if each.slot is None else each.slot.get() for each in self._state]


class _Sharing:
    """Finds what a step cannot write to: tensors that share memory, which the plan took to be apart, and those of an
    inference mode."""

    def __init__(self, program: TorchProgram) -> None:
        written = overwritten_by(program.graph)
        places = {place for place, tensor in enumerate(program.parameters) if tensor in written}
        self._inputs = {place: tensor in written for tensor, place in program.inputs.items()}
        self._parameters = [place in places for place in range(len(program.parameters))]
        self._names = list(program.parameters.values())
        # A gradient may come to lie where forward reads a tensor of its own.
        fixed = program.constants if added_gradients(program.graph) else {}
        self._constants = [
            (program.graph.tensors[index].name, tensor, False)
            for index, tensor in fixed.items()
            if tensor.layout == torch.strided
        ]
        self._known: list[int] = []

    def check(self, parameters: Sequence[Any], tensors: Sequence[Any]) -> None:
        """Raises InputError for such a pair."""
        given = [(f"argument {place}", tensors[place], written) for place, written in self._inputs.items()]
        held = list(zip(self._names, parameters, self._parameters, strict=True))
        memory = [_memory_of(tensor) for tensor in parameters] if any(self._parameters) else []
        if memory != self._known:
            _refuse_sharing([*held, *self._constants])
            self._known = memory
        if any(written for _, _, written in given) or not {_memory_of(each) for _, each, _ in given}.isdisjoint(memory):
            _refuse_sharing([*given, *held])


def _refuse_sharing(named: Sequence[tuple[str, Any, bool]]) -> None:
    for name, tensor, written in named:
        if written and tensor.is_inference():
            raise InputError(
                f"'{shown(name)}' was made in torch.inference_mode(), and only there it can be written to, as the step "
                "would in threads of its own; make it outside, or clone it"
            )
    before: list[tuple[int, str, bool]] = []
    for begin, (name, tensor, written) in sorted(((each[1].data_ptr(), each) for each in named), key=itemgetter(0)):
        before = [each for each in before if each[0] > begin]
        for _, other, also in before:
            if written or also:
                only_read = "one of them" if written and also else f"'{shown(name if also else other)}'"
                raise InputError(
                    f"'{shown(other)}' and '{shown(name)}' share memory, and the step writes to one of them; put a "
                    f"clone in the place of {only_read}"
                )
        before.append((begin + _reach(tensor), name, written))


def _reach(tensor: Any) -> int:
    """The bytes from the first element of a tensor to its last."""
    if not tensor.numel():
        return 0
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int((last + 1) * tensor.element_size())


class _WithoutBackward(torch.autograd.Function):
    """Results of an inference, which say so where somebody asks for their gradient."""

    @staticmethod
    def forward(ctx: Any, anchor: Any, *tensors: Any) -> Any:
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise InputError(
            "this tensor was computed by a plan, which keeps nothing for a backward pass of one's own; compile the "
            "module with training=True, or call it in torch.no_grad() where no gradient is meant"
        )


def without_backward(results: Sequence[Any], differentiable: Sequence[bool], own: Set[int]) -> list[Any]:
    """The results, of which those that would have a gradient in the module itself have one that cannot be computed.
    own: identities of the caller's own tensors, which stay what they are."""
    if not any(differentiable) or not torch.is_grad_enabled():
        return list(results)
    # One that is returned twice is one tensor there, too.
    wanted = {
        id(tensor): tensor
        for tensor, is_so in zip(results, differentiable, strict=True)
        if is_so and id(tensor) not in own
    }
    if not wanted:
        return list(results)
    made = _WithoutBackward.apply(torch.empty(0, requires_grad=True), *wanted.values())
    instead = dict(zip(wanted, made, strict=True))
    return [instead.get(id(tensor), tensor) for tensor in results]


def _all_state(program: TorchProgram) -> Sequence[Any]:
    return (*program.state, *program.constant_state)


def _check_backward_may_run() -> None:
    """Raises InputError where a training step is called as no module could be trained, or all gradients would not be
    averaged."""
    if not torch.is_grad_enabled():
        raise InputError(
            "a call of what was compiled is a training step, and gradients are switched off here, as by "
            "torch.no_grad(); call the module itself to evaluate it"
        )
    if DistributedDataParallel._active_ddp_module is not None:
        raise InputError(f"DistributedDataParallel would not average the gradients of a planned step; {AVERAGED}")


def _check_inputs_of_training(tensors: Sequence[Any]) -> None:
    for number, tensor in enumerate(tensors):
        if not tensor.requires_grad:
            continue
        if not tensor.is_leaf:
            raise InputError(
                f"argument {number} was computed from something that wants a gradient, and a planned step ends at its "
                f"arguments; pass it detached, or call backward yourself: {BACKEND}"
            )
        check_gradients_of({f"argument {number}": tensor})


#: Shape, dtype, device, of a training step whether it wants a gradient, and how it lies in memory: in strides, or in
#: another layout.
_Sort = tuple[tuple[int, ...], Any, Any, bool, Any]


def _sort_of(tensor: Any, trained: bool) -> _Sort | None:
    if not isinstance(tensor, torch.Tensor):
        return None
    lies = tensor.stride() if tensor.layout == torch.strided else tensor.layout
    return tensor.shape, tensor.dtype, tensor.device, trained and tensor.requires_grad, lies


def _decisive(sort: _Sort | None) -> Any:
    """Without the strides that say nothing, those of a single element."""
    if sort is None or not isinstance(sort[-1], tuple):
        return sort
    shape, *others, strides = sort
    return shape, *others, [stride for extent, stride in zip(shape, strides, strict=True) if extent > 1]


def _described(sort: _Sort | None) -> str:
    if sort is None:
        return "gone"
    shape, dtype, device, trained, _ = sort
    where = "" if device.type == "cpu" else f" on {device}"
    return f"{describe_signature([(tuple(shape), dtype)])}{where}{', with a gradient' if trained else ''}"


def _accumulate(parameter: Any, gradient: Any, shared: set[int]) -> None:
    """Adds a gradient to that of a parameter, which gets memory of its own, laid out as the parameter is. shared: what
    memory is in use; that of the gradient comes to it."""
    if parameter.grad is not None:
        with torch.no_grad():
            if parameter.grad.is_sparse:
                parameter.grad = gradient + parameter.grad
            else:
                parameter.grad += gradient
        return
    whole = gradient.untyped_storage().nbytes() == gradient.numel() * gradient.element_size()
    if whole and is_laid_out_for(gradient, parameter) and _memory_of(gradient) not in shared:
        parameter.grad = gradient
    else:
        parameter.grad = laid_out_for(gradient, parameter)
    shared.add(_memory_of(gradient))


def _memory_of(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())
