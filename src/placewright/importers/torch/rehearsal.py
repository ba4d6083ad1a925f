"""A first run of a module on fake tensors, before it is traced: what it reads and changes beside its arguments.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils import _pytree as pytree

from placewright.importers.torch.assigned import Assigned, Change, check_steady
from placewright.importers.torch.calls import BACKEND, Calls, layers_noted, questions_noted, without_checkpoints
from placewright.importers.torch.held import Held, Slot
from placewright.importers.torch.outside import Outside, Place, forget_unreached, outside_of, places_of
from placewright.importers.torch.stand_in import tensors_of
from placewright.support.errors import InputError, shown

#: Calls whose results depend on where in its memory a tensor begins.
_READS_OFFSETS = frozenset({"storage_offset", "as_strided", "as_strided_"})


@dataclass(frozen=True, kw_only=True)
class State:
    """A tensor that a module reads and that is none of its arguments.

    name: dotted path below the module, or what it is called where it was found. tensor: the one that was found. slot:
    where it stands in the module; None for one outside of it. written: whether forward writes to one outside.
    """

    name: str
    tensor: Any
    slot: Slot | None
    outside: Outside | None = None
    written: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether it lies outside the module and is only read."""
        return self.slot is None and not self.written


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the first run found.

    state: the tensors that are read beside the arguments: parameters, buffers, other attributes, tensors from outside.
    assigned: the attributes of the module that hold another value afterwards. trainable: of a training step each
    parameter that requires a gradient, and whether the loss depends on it. differentiable: of each tensor returned by
    an inference, whether it would have a gradient where gradients are on. reads_offsets: whether it depends on where in
    its memory a tensor begins.
    """

    state: Sequence[State]
    assigned: Sequence[Assigned]
    trainable: Mapping[str, bool]
    differentiable: Sequence[bool]
    reads_offsets: bool


class Rehearsal:
    """Runs a module with stand-ins for all tensors that outlive the call, and puts everything back afterwards.

    call: computes the module's output, and the loss of a training step, from the tensors among its arguments.
    to_run: whether a trace will be run in the module's place; then what it cannot stand for is an InputError.
    """

    def __init__(
        self,
        model: nn.Module,
        output: Callable[[Sequence[Any]], Any],
        loss: Callable[[Any], Any] | None,
        *,
        to_run: bool,
    ) -> None:
        self._model = model
        self._output = output
        self._loss = loss
        self._to_run = to_run
        self._held = Held(model)
        #: Of the first run and the traced one, what was called with which values.
        self._calls: list[list[tuple[str, tuple[str, ...]]]] = []
        #: Of the same runs, what forward asked about gradients and was told.
        self._asked: list[list[tuple[str, str, Any]]] = []

    def first(self, inputs: Sequence[Any]) -> Found:
        """Runs the module on fake tensors like these."""
        held = list(self._held.tensors())
        every = [*(tensor for _, tensor in held), *inputs]
        mode = next((tensor.fake_mode for tensor in every if isinstance(tensor, FakeTensor)), None)
        mode = mode or FakeTensorMode(allow_non_fake_inputs=True)
        stand_ins = {id(tensor): mode.from_tensor(tensor) for tensor in every}
        outside: list[tuple[Any, Any, int]] = []
        made: list[weakref.ref[Any]] = []
        if self._to_run:
            for tensor in every:
                _check_plain(tensor)
            for tensor in inputs:
                _check_dense(tensor)
        known = [*self._model.modules(), *(each for _, each in self._held.containers()), self._held.values]
        #: Where forward found tensors outside of the module, before it could put others there.
        places: list[Place] = []

        def unknown(tensor: Any) -> Any:
            if isinstance(tensor, FakeTensor):
                return tensor
            if self._to_run:
                _check_plain(tensor)
            fake = stand_ins[id(tensor)] = mode.from_tensor(tensor)
            outside.append((tensor, fake, fake._version))
            if not isinstance(tensor, nn.Parameter):  # Nobody makes a new one in forward, and looking takes a while.
                places.extend(places_of(tensor, known))
            return fake

        try:
            with _generators_kept(refuse=self._to_run), mode:
                output, loss, changes = self._run(
                    stand_ins, unknown, [stand_ins[id(tensor)] for tensor in inputs], _noting(made)
                )
                if self._to_run and changes:
                    given = [stand_ins[id(tensor)] for tensor in inputs]
                    self._check_steady(changes, stand_ins, unknown, given, _noting(made))
            named = _first_names(held, self._model)
            trainable = _dependence(loss, named, stand_ins, inputs, self._to_run) if self._loss else {}
            differentiable = _require_gradients(output)
            assigned = [Assigned(slot=slot, differentiable=_require_gradients(new)) for slot, _, new in changes]
            if self._to_run:
                names = {id(tensor): f"'{shown(slot.name)}'" for slot, tensor in held}
                for tensor in (*every, *(tensor for tensor, _, _ in outside)):
                    _refuse_another_shape(tensor, stand_ins[id(tensor)], names.get(id(tensor), "a tensor"))
                del output, loss, changes, tensor
                forget_unreached(places)
                _refuse_replaced(places)
                _refuse_kept(made, [*stand_ins.values()])
        finally:
            _restore(places)
        state = [State(name=name, tensor=tensor, slot=slot) for name, tensor, slot in named]
        state += _from_outside(outside, known, {each.name for each in state}, self._to_run)
        reads_offsets = any(name in _READS_OFFSETS for name, _ in self._calls[-1])
        return Found(
            state=state,
            assigned=assigned,
            trainable=trainable,
            differentiable=differentiable,
            reads_offsets=reads_offsets,
        )

    def again(self, found: Found, state: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Runs it with other stand-ins for the state, while a tracer watches: the output, or the loss of a training
        step, and the new values of the attributes that are assigned."""
        stand_ins = {id(each.tensor): tensor for each, tensor in zip(found.state, state, strict=True)}
        constants: list[Any] = []

        def unknown(tensor: Any) -> Any:
            if isinstance(tensor, (FakeTensor, FunctionalTensor)):
                return tensor
            # Made by forward itself, from what is no tensor; a copy, since it may be written to.
            constants.append(tensor)
            stand_ins[id(tensor)] = torch.ops.aten.lift_fresh_copy.default(tensor)
            return stand_ins[id(tensor)]

        output, loss, changes = self._run(stand_ins, unknown, inputs, None)
        assigned: list[Any] = []
        own = set(map(id, (*state, *inputs)))
        if self._to_run:
            if [slot.name for slot, _, _ in changes] != [each.slot.name for each in found.assigned]:
                raise InputError(f"forward changes other attributes whenever it is called; {BACKEND}")
            detached: dict[int, Any] = {}
            for each, (_, _, value) in zip(found.assigned, changes, strict=True):
                assigned += each.read(value, detached, own)
        return (_cut_off(output, own) if self._loss is None else loss), assigned

    def check_repeated(self, inputs: Sequence[Any]) -> None:
        """Raises InputError where runs do not make the same calls: something that no attribute shows has changed in
        between, or it has asked what a tracer answers otherwise. Runs with and without gradients may differ, and
        those on other sorts of fake tensors."""
        for (question, place, answer), (_, _, traced) in zip(*self._asked[:2], strict=False):
            if answer != traced:
                raise InputError(
                    f"forward asks for {question} (in {place}), and the answer depends on whether gradients are on or "
                    f"is another while forward is captured; {BACKEND}"
                )
        if self._calls[0] == self._calls[1]:
            return
        self.first(inputs), self.first(inputs)
        one, other = self._calls[-2:]
        if one != other:
            differing = next((call for call, again in zip(one, other, strict=False) if call != again), ("a call", ()))
            raise InputError(
                f"forward does not call the same whenever it runs ({differing[0]} differs), so something in Python "
                f"changes that no attribute of the module holds; {BACKEND}"
            )

    def _run(
        self,
        stand_ins: dict[int, Any],
        unknown: Callable[[Any], Any],
        inputs: Sequence[Any],
        made: Callable[[Any], None] | None,
        before: Sequence[Change] = (),
    ) -> tuple[Any, Any, list[Change]]:
        """The output, the loss, and what attributes hold afterwards that they did not hold before. before: what a call
        before this one has changed."""
        # An exported program says by itself where its calls come from.
        is_code = not isinstance(self._model, torch.fx.GraphModule)
        trains = self._loss is not None
        calls = Calls(stand_ins, unknown, made, notes_source=is_code, is_strict=self._to_run, trains=trains)
        try:
            for slot, tensor in self._held.tensors():
                if slot.is_settable and id(tensor) in stand_ins:
                    slot.set(stand_ins[id(tensor)])
            for slot, _, value in before:
                slot.set(value)
            during = Held(self._model)
            with ExitStack() as stack:
                written = partial(_written, stand_ins, during) if self._loss is not None and made is not None else None
                stack.enter_context(without_checkpoints(written, is_strict=self._to_run))
                if is_code:
                    stack.enter_context(layers_noted(self._model))
                stack.enter_context(questions_noted(calls.note))
                stack.enter_context(calls)
                output = self._output(inputs)
                loss = None if self._loss is None else self._loss(output)
            self._calls.append(calls.made_with)
            self._asked.append(calls.asked)
            # What no call has read may stand in a tuple, or outside of the module.
            changes = [(slot, old, pytree.tree_map(calls.instead, new)) for slot, old, new in during.changes()]
            return pytree.tree_map(calls.instead, output), loss, changes
        finally:
            self._held.restore()

    def _check_steady(
        self,
        changes: Sequence[Change],
        stand_ins: dict[int, Any],
        unknown: Callable[[Any], Any],
        inputs: Sequence[Any],
        made: Callable[[Any], None],
    ) -> None:
        """Raises InputError where the next call would not do the same with what this one leaves in attributes."""
        check_steady(changes, ())
        _, _, later = self._run(stand_ins, unknown, inputs, made, changes)
        self._asked.pop()
        self._calls.pop()  # With what it found there it may have called less.
        check_steady(changes, later)


def _first_names(held: Sequence[tuple[Slot, Any]], model: nn.Module) -> list[tuple[str, Any, Slot]]:
    """Each tensor once, by the first of its names. A shared parameter stands where its last name does, as it does in
    programs that PyTorch exports."""
    registered = {id(module._parameters) for module in model.modules()}
    first: dict[int, tuple[str, Any, Slot]] = {}
    for slot, tensor in held:
        known = first.get(id(tensor), (slot.name, tensor, slot))
        if id(slot.container) in registered:
            first.pop(id(tensor), None)
        first[id(tensor)] = known
    return list(first.values())


def _written(stand_ins: Mapping[int, Any], held: Held) -> tuple[Any, ...]:
    """What has been written to tensors that outlive the call, and to plain values of the module."""
    versions = {key: tensor._version for key, tensor in stand_ins.items() if tensor._version}
    values = [(slot.name, new) for slot, _, new in held.changes() if isinstance(new, int | float | str)]
    return versions, values


def _cut_off(tree: Any, own: Set[int]) -> Any:
    """The same, without the gradients that forward may have asked for: an inference has no backward pass. own: by
    identity the tensors of the module and the arguments, which stay what they are."""
    cut: dict[int, Any] = {}

    def without_graph(tensor: Any) -> Any:
        return cut.setdefault(id(tensor), tensor if tensor.is_leaf or id(tensor) in own else tensor.detach())

    return pytree.tree_map_only(torch.Tensor, without_graph, tree)


def _require_gradients(tree: Any) -> tuple[bool, ...]:
    """Of each tensor whether it does."""
    return tuple(bool(tensor.requires_grad) for tensor in tensors_of(tree))


def _noting(made: list[weakref.ref[Any]]) -> Callable[[Any], None]:
    def note(result: Any) -> None:
        made.extend(weakref.ref(tensor) for tensor in tensors_of(result))

    return note


def _dependence(
    loss: Any, named: Sequence[tuple[str, Any, Slot]], stand_ins: Mapping[int, Any], inputs: Sequence[Any], to_run: bool
) -> dict[str, bool]:
    """Which parameters autograd reaches from the loss."""
    leaves = {id(node.variable) for node in _reached(loss.grad_fn) if node.name() == "torch::autograd::AccumulateGrad"}
    trainable = {
        name: id(stand_ins[id(tensor)]) in leaves
        for name, tensor, _ in named
        if isinstance(tensor, nn.Parameter) and tensor.requires_grad
    }
    known = {id(stand_ins[id(tensor)]) for _, tensor, _ in named if isinstance(tensor, nn.Parameter)}
    known |= {id(stand_ins[id(tensor)]) for tensor in inputs}
    if to_run and leaves - known:
        raise InputError(
            "the loss depends on a tensor that requires a gradient and is neither a parameter of the module nor one of "
            f"its arguments, so nothing would add to its gradient; {BACKEND}"
        )
    return trainable


def _reached(start: Any) -> set[Any]:
    """The nodes of the autograd graph behind one of them, itself included."""
    seen = {start}
    waiting = [start]
    while waiting:
        behind = {node for node, _ in waiting.pop().next_functions if node is not None} - seen
        seen |= behind
        waiting += behind
    return seen


def _refuse_kept(made: Sequence[weakref.ref[Any]], stand_ins: Sequence[Any]) -> None:
    """Raises InputError where a tensor that forward made is alive when nothing of the call is left: it has been put
    somewhere by Python, which a plan would not do."""
    ours = {id(tensor) for tensor in stand_ins}

    def kept() -> Any:
        """One of them, and nothing else that refers to it."""
        return next((tensor for each in made if (tensor := each()) is not None and id(tensor) not in ours), None)

    if kept() is not None:
        gc.collect()
    if (tensor := kept()) is not None:
        holders = [
            type(holder).__name__ for holder in gc.get_referrers(tensor) if isinstance(holder, (dict, list, set))
        ]
        where = f" in a {holders[0]}" if holders else ""
        raise InputError(
            f"forward keeps a tensor of shape {tuple(tensor.shape)} that it computed{where} outside of the module, "
            f"which a plan would not do; {BACKEND}"
        )


def _check_plain(tensor: Any) -> None:
    """Raises InputError for a tensor of a class with rules of its own for calls of PyTorch."""
    kind = type(tensor)
    has_rules = (
        kind.__torch_function__ is not torch._C._disabled_torch_function_impl
        or kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    )
    if has_rules and kind is not torch.Tensor and not issubclass(kind, FakeTensor):
        raise InputError(
            f"a {kind.__name__} is among the tensors that forward reads, and its own rules for calls of PyTorch are "
            "none of a plan's; give it tensor.as_subclass(torch.Tensor)"
        )


def _check_dense(tensor: Any) -> None:
    if tensor.layout != torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        raise InputError(f"an argument has the layout {layout}, and plans run dense tensors only; {BACKEND}")


def _refuse_another_shape(tensor: Any, fake: Any, name: str) -> None:
    """Raises InputError where a stand-in does not lie as its tensor any more."""
    if tensor.layout == torch.strided and (fake.shape, fake.stride()) != (tensor.shape, tensor.stride()):
        raise InputError(
            f"forward changes the shape or the strides of {name} in place, as unsqueeze_ and t_ do, which a planned "
            f"step would not do; {BACKEND}"
        )


def _refuse_replaced(places: Sequence[Place]) -> None:
    """Raises InputError where another tensor stands outside of the module where forward has read one."""
    for place in places:
        if not place.is_there:
            what = f"'{shown(place.name)}'" if place.name else "a tensor"
            raise InputError(
                f"forward puts another tensor in the place of {what} outside of the module, which a plan would not "
                f"do; {BACKEND}"
            )


def _restore(places: list[Place]) -> None:
    """Puts back what forward has replaced outside of the module, and forgets it."""
    for place in places:
        if not place.is_there:
            place.restore()
    places.clear()


def _from_outside(
    outside: list[tuple[Any, Any, int]], known: Sequence[Any], names: set[str], to_run: bool
) -> Iterator[State]:
    """The tensors that are none of the module's and live on after the call; the list is emptied."""
    met = [(weakref.ref(tensor), fake._version != before) for tensor, fake, before in outside]
    outside.clear()
    # Others forward made itself, from what is no tensor.
    written = [is_written for reference, is_written in met if reference() is not None]
    tensors = [tensor for reference, _ in met if (tensor := reference()) is not None]
    if not tensors:
        return
    for number, (where, is_written) in enumerate(zip(outside_of(tensors, known), written, strict=True)):
        name = where.name or f"outside{number}"
        while name in names:
            name += "_"
        names.add(name)
        tensor = where.tensor
        if to_run and tensor.requires_grad and torch.is_grad_enabled():
            raise InputError(f"forward reads '{shown(name)}', which requires a gradient and is no parameter; {BACKEND}")
        yield State(name=name, tensor=tensor, slot=None, outside=where, written=is_written)


@contextmanager
def _generators_kept(*, refuse: bool) -> Iterator[None]:
    """Python's, NumPy's and PyTorch's generators of random numbers are left as they were. Raises InputError where
    forward has used them from Python, which a traced call cannot show."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    states: list[str] = []
    try:
        with _noting_states(states):
            yield
        python, numpy, generator = random.getstate(), np.random.get_state(), torch.get_rng_state()
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])
    changed = [
        name
        for name, is_changed in (
            ("draws from Python's random", python != before[0]),
            ("draws from numpy.random", any(np.any(one != other) for one, other in zip(numpy, before[1], strict=True))),
            ("seeds PyTorch's generator", "set_rng_state" in states or not torch.equal(generator, before[2])),
            ("reads the state of PyTorch's generator", bool(states)),
        )
        if is_changed
    ]
    if changed and refuse:
        raise InputError(f"forward {changed[0]}, which a plan would do only once; {BACKEND}")


@contextmanager
def _noting_states(found: list[str]) -> Iterator[None]:
    """Notes what reads or sets the state of PyTorch's generator in this thread, as `torch.random.fork_rng` does."""
    thread = threading.get_ident()
    before = {name: getattr(torch, name) for name in ("get_rng_state", "set_rng_state")}

    def noted(name: str, *given: Any) -> Any:
        if threading.get_ident() == thread:
            found.append(name)
        return before[name](*given)

    for name in before:
        setattr(torch, name, partial(noted, name))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(torch, name, function)
