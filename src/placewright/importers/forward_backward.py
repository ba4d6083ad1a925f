"""Whole training steps from one captured forward and backward pass: micro-batches, sums of gradients, the optimizer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from placewright.graph import Graph, Op, Tensor
from placewright.importers.builder import tensor_bytes

#: The optimizers whose states `states_of` knows.
StepOptimizer = Literal["adam", "adam-amsgrad", "adam8bit", "sgd", "sgd-momentum"]
#: How PyTorch takes a step: in one kernel that makes no tensors, for all parameters at once, or for one after another.
Stepping = Literal["fused", "foreach", "each"]

#: bitsandbytes keeps float32 states for parameters with fewer elements, and one float32 constant for each block of this
#: many elements of others: Optimizer2State.init_state of version 0.44 and later (pull request 1365 reduced blocks from
#: 2048).
_LEAST_8BIT, _BLOCK = 4096, 256
_DROPOUT = "aten.native_dropout.default"


@dataclass(frozen=True, kw_only=True)
class ForwardBackward:
    """One forward and backward pass.

    graph: with the gradients as outputs. gradients: (parameter, its gradient), by index of the tensor.
    """

    graph: Graph
    gradients: tuple[tuple[int, int], ...]


def states_of(optimizer: StepOptimizer, parameter: Tensor) -> list[Tensor]:
    """The tensors that an optimizer keeps for a parameter."""
    shape, own = parameter.shape or (), parameter.dtype or "float32"
    count = math.prod(shape)

    def state(name: str, shape: tuple[int, ...] | None, dtype: str, size: int) -> Tensor:
        label = f"{parameter.name}.{name}"
        return Tensor(name=label, size_bytes=size, shape=shape, dtype=dtype, role="parameter")

    if optimizer == "sgd":
        return []
    if optimizer == "sgd-momentum":
        return [state("momentum_buffer", parameter.shape, own, tensor_bytes(shape, own))]
    if optimizer != "adam8bit" or count < _LEAST_8BIT:
        dtype = "float32" if optimizer == "adam8bit" else own
        names = ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if optimizer == "adam-amsgrad" else []))
        return [state(name, parameter.shape, dtype, tensor_bytes(shape, dtype)) for name in names]
    blocks = -(-count // _BLOCK)
    codes = [state(name, parameter.shape, "uint8", count) for name in ("state1", "state2")]
    return [*codes, *(state(name, (blocks,), "float32", 4 * blocks) for name in ("absmax1", "absmax2"))]


def training_step(
    passes: ForwardBackward,
    optimizer: StepOptimizer,
    accumulation: int = 1,
    stepping: Stepping = "fused",
    *,
    in_backward: bool = False,
    offloaded: bool = False,
) -> Graph:
    """A step of several forward and backward passes, whose gradients are added up, and of the optimizer after them.

    accumulation: how many passes. With several, the names of their ops end in "#1", "#2" ..., and all gradients are
    held from the first pass to the end of the step; each further one is added to them as soon as it is made, as in
    autograd and in a planned step. in_backward: whether each parameter is stepped as soon as its gradient is there and
    nothing reads it any more. offloaded: whether states come from the host's memory for that, and those of the next
    parameter meanwhile.
    """
    step = _Step(passes)
    if accumulation == 1:
        step.add_pass("", is_last=True)
    for number in range(1, accumulation + 1) if accumulation > 1 else ():
        step.add_pass(f"#{number}", is_last=number == accumulation)
    return step.done(optimizer, stepping, in_backward=in_backward, offloaded=offloaded)


def last_pass(
    passes: ForwardBackward,
    optimizer: StepOptimizer | None,
    stepping: Stepping = "fused",
    *,
    offloaded: bool = False,
) -> Graph:
    """The last of a step's several passes, with the optimizer: the gradients of the others are held throughout, and its
    own are added to them. Its ops have the names of the pass. Without an optimizer it is an earlier pass."""
    step = _Step(passes)
    step.hold_gradients()
    step.add_pass("", is_last=True)
    return step.done(optimizer, stepping, offloaded=offloaded)


def in_eager(passes: ForwardBackward, *, on_cpu: bool) -> ForwardBackward:
    """The pass with the memory of a loop in eager PyTorch: inputs are held to the end; on CPUs dropout masks are
    numbers of the dtype of their input, where GPUs have one byte each."""
    graph = passes.graph
    tensors = list(graph.tensors)
    for op in graph.ops:
        if op.kind == "input":
            (given,) = op.outputs
            tensors[given] = replace(tensors[given], is_output=True)
        if on_cpu and op.target == _DROPOUT and len(op.outputs) == 2:
            made, mask = (tensors[tensor] for tensor in op.outputs)
            tensors[op.outputs[1]] = replace(mask, dtype=made.dtype, size_bytes=made.size_bytes)
    return replace(passes, graph=replace(graph, tensors=tuple(tensors)))


class _Step:
    """A step under construction.

    now: for each tensor of the pass its counterpart in the latest copy; resident tensors are the same in all copies
    until they are overwritten. total: for each parameter the sum of its gradients so far. base: for each tensor the
    owner of its memory. readers: ops that read an owner's memory. producer: op that made a tensor.
    """

    def __init__(self, passes: ForwardBackward) -> None:
        self.graph = passes.graph
        self.gradients = passes.gradients
        self.ops: list[Op] = []
        self.tensors: list[Tensor] = []
        self.base: list[int] = []
        self.now: dict[int, int] = {}
        self.total: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.producer: dict[int, int] = {}
        self._is_gradient = {gradient for _, gradient in passes.gradients}

    def hold_gradients(self) -> None:
        """Holds the sums of gradients from the beginning."""
        for parameter, gradient in self.gradients:
            like = self.graph.tensors[gradient]
            name = f"{self.graph.tensors[parameter].name}.grad"
            self.total[parameter] = self._tensor(
                Tensor(name=name, size_bytes=like.size_bytes, shape=like.shape, dtype=like.dtype, role="parameter")
            )

    def add_pass(self, suffix: str, *, is_last: bool) -> None:
        """Adds another copy of the pass, and the sums of its gradients with the earlier ones."""
        first = len(self.ops)
        made_of: dict[int, list[int]] = {}
        for parameter, gradient in self.gradients:
            made_of.setdefault(self.graph.producer_of[gradient], []).append(parameter)
        gradient_of, is_further = dict(self.gradients), bool(self.total)
        keeps_indices = not suffix and not self.tensors
        self._add_tensors(suffix, is_last=is_last)
        place: dict[int, int] = {}
        for number, op in enumerate(self.graph.ops):
            place[number] = self._op(
                op
                if keeps_indices
                else replace(
                    op,
                    name=f"{op.name}{suffix}",
                    inputs=tuple(self.now[tensor] for tensor in op.inputs),
                    outputs=tuple(self.now[tensor] for tensor in op.outputs),
                    controls=tuple(place[control] for control in op.controls),
                )
            )
            if is_further:
                self._add_sums(made_of.get(number, ()), gradient_of, suffix)
        if not is_further:
            self.total = {parameter: self.now[gradient] for parameter, gradient in self.gradients}
        assert len(self.ops) > first
        self._overwrite()

    def done(
        self,
        optimizer: StepOptimizer | None,
        stepping: Stepping,
        *,
        in_backward: bool = False,
        offloaded: bool = False,
    ) -> Graph:
        """The graph, with the optimizer's ops at its end, or each as early as it can be."""
        if optimizer is not None:
            parameters = [parameter for parameter, _ in self.gradients]
            if in_backward:
                parameters.sort(key=lambda parameter: max(self._waits_for(parameter)))
            whole = stepping == "foreach" and not (in_backward or offloaded)
            made = self._made_by_steps(optimizer, stepping, parameters)
            workspaces = [sum(made), *[0] * (len(made) - 1)] if whole else made
            if offloaded:
                states = [
                    sum(each.size_bytes for each in states_of(optimizer, self.graph.tensors[parameter]))
                    for parameter in parameters
                ]
                both = zip(states, [*states[1:], 0], strict=True)
                workspaces = [size + sum(pair) for size, pair in zip(workspaces, both, strict=True)]
            first = len(self.ops)
            for parameter, workspace in zip(parameters, workspaces, strict=True):
                self._add_optimizer(optimizer, parameter, workspace, has_states=not offloaded)
            if in_backward:
                self._sort_early(first, [max(self._waits_for(parameter)) for parameter in parameters])
        metadata = {**self.graph.metadata, "mode": "training", "optimizer": optimizer}
        return replace(self.graph, ops=tuple(self.ops), tensors=tuple(self.tensors), metadata=metadata)

    def _made_by_steps(self, optimizer: StepOptimizer, stepping: Stepping, parameters: Sequence[int]) -> list[int]:
        """The bytes of temporary tensors in the step of each parameter."""
        # Adam takes the roots of its second moments; SGD computes in place.
        roots = 0 if stepping == "fused" or not optimizer.startswith("adam") or optimizer == "adam8bit" else 1
        # In steps one after another, a root and the root divided by its correction exist at once.
        count = roots if stepping == "foreach" else 2 * roots
        return [count * self.graph.tensors[parameter].size_bytes for parameter in parameters]

    def _waits_for(self, parameter: int) -> set[int]:
        """Ops before the step of a parameter: those that make its gradient, and those that read it."""
        readers = self.readers.get(self.base[self.now[parameter]], ())
        return {
            self.producer.get(self.total[parameter], -1),
            *(op for op in readers if self.ops[op].kind != "optimizer"),
        }

    def _sort_early(self, first: int, behind: Sequence[int]) -> None:
        """Moves the optimizer's ops, which begin at `first`, behind the given ops."""
        keys = [(op, 0) for op in range(first)] + [(op, 1) for op in behind]
        order = sorted(range(len(self.ops)), key=keys.__getitem__)
        place = {op: index for index, op in enumerate(order)}
        self.ops = [
            replace(self.ops[op], controls=tuple(sorted(place[control] for control in self.ops[op].controls)))
            for op in order
        ]

    def _add_tensors(self, suffix: str, *, is_last: bool) -> None:
        fresh: list[int] = []
        for index, tensor in enumerate(self.graph.tensors):
            if tensor.role != "activation":
                if index not in self.now:
                    self.now[index] = self._tensor(tensor)
                continue
            fresh.append(index)
            self.now[index] = len(self.tensors)
            is_output = tensor.is_output and is_last and index not in self._is_gradient
            is_same = not suffix and is_output == tensor.is_output
            copy = tensor if is_same else replace(tensor, name=f"{tensor.name}{suffix}", is_output=is_output)
            self.tensors.append(copy)
            self.base.append(-1)
        for index in fresh:
            alias = self.graph.tensors[index].alias_of
            if alias is not None and self.now[alias] != alias:
                self.tensors[self.now[index]] = replace(self.tensors[self.now[index]], alias_of=self.now[alias])
        for index in fresh:
            self._base_of(self.now[index])

    def _base_of(self, tensor: int) -> int:
        if self.base[tensor] < 0:
            alias = self.tensors[tensor].alias_of
            self.base[tensor] = tensor if alias is None else self._base_of(alias)
        return self.base[tensor]

    def _overwrite(self) -> None:
        """Maps resident tensors that were overwritten in place to their new versions."""
        for op in self.graph.ops:
            for tensor in op.outputs if op.kind != "view" else ():
                base = self.graph.base_of[tensor]
                if self.graph.tensors[base].role != "activation":
                    self.now[base] = self.now[tensor]

    def _add_sums(self, parameters: Sequence[int], gradient_of: dict[int, int], suffix: str) -> None:
        for parameter in parameters:
            total, new = self.total[parameter], self.now[gradient_of[parameter]]
            like, label = self.tensors[new], self.graph.tensors[parameter].name
            added = self._tensor(
                Tensor(
                    name=f"sum:{label}{suffix}:0",
                    size_bytes=like.size_bytes,
                    shape=like.shape,
                    dtype=like.dtype,
                    alias_of=total,
                )
            )
            self._op(
                Op(
                    name=f"sum:{label}{suffix}",
                    kind="elementwise",
                    target="aten.add_.Tensor",
                    inputs=(total, new),
                    outputs=(added,),
                    attributes={"function": "add"},
                    module=label.rpartition(".")[0],
                    phase="backward",
                )
            )
            self.total[parameter] = added

    def _add_optimizer(
        self, optimizer: StepOptimizer, parameter: int, workspace: int, *, has_states: bool = True
    ) -> None:
        like = self.graph.tensors[parameter]
        states = states_of(optimizer, like)
        old, gradient = self.now[parameter], self.total[parameter]
        inputs = [old, gradient, *(self._tensor(state) for state in states if has_states)]
        result = self._tensor(replace(like, name=f"{optimizer}:{like.name}:0", role="activation", alias_of=old))
        self.tensors[result] = replace(self.tensors[result], is_output=True)
        function = "adam" if optimizer.startswith("adam") else "sgd"
        attributes: dict[str, object] = {"function": function}
        if optimizer not in ("adam", "sgd") or not has_states:
            # The parameter and the states are read and written, the gradient is read.
            both = like.size_bytes + sum(state.size_bytes for state in states)
            attributes["bytes_moved"] = 2 * both + self.tensors[gradient].size_bytes
        computed_from = {self.producer.get(tensor, -1) for tensor in inputs}
        self._op(
            Op(
                name=f"{optimizer}:{like.name}",
                kind="optimizer",
                inputs=tuple(inputs),
                outputs=(result,),
                controls=tuple(sorted(set(self.readers.get(self.base[old], ())) - computed_from)),
                attributes=attributes,
                module=like.name.rpartition(".")[0],
                phase="optimizer",
                workspace_bytes=workspace,
            )
        )

    def _tensor(self, tensor: Tensor) -> int:
        index = len(self.tensors)
        self.tensors.append(tensor)
        self.base.append(index if tensor.alias_of is None else self.base[tensor.alias_of])
        return index

    def _op(self, op: Op) -> int:
        index = len(self.ops)
        self.ops.append(op)
        self.producer.update(dict.fromkeys(op.outputs, index))
        for tensor in op.inputs if op.kind != "view" else ():
            self.readers.setdefault(self.base[tensor], []).append(index)
        return index


def held_at_peak(graph: Graph) -> tuple[int, set[int]]:
    """The most bytes held while the ops of a graph run one by one in its order on one device, and the tensors that own
    them."""
    lives = list(_lives(graph))
    change = [0] * (len(graph.ops) + 1)
    for tensor, begin, end in lives:
        change[begin] += graph.tensors[tensor].held_bytes
        change[end + 1] -= graph.tensors[tensor].held_bytes
    held, peak, at = 0, -1, 0
    for index, op in enumerate(graph.ops):
        held += change[index]
        if held + op.workspace_bytes > peak:
            peak, at = held + op.workspace_bytes, index
    return peak, {tensor for tensor, begin, end in lives if begin <= at <= end}


def _lives(graph: Graph) -> Iterator[tuple[int, int, int]]:
    """Each tensor that owns memory, with the first and the last op during which it is held."""
    base, last_op = graph.base_of, len(graph.ops) - 1
    last: dict[int, int] = {}
    for index, op in enumerate(graph.ops):
        # A view holds nothing by itself, only its readers do.
        for tensor in (*op.inputs, *op.outputs) if op.kind != "view" else ():
            last[base[tensor]] = index
    for tensor, record in enumerate(graph.tensors):
        if record.is_output:
            last[base[tensor]] = last_op
    for tensor, record in enumerate(graph.tensors):
        if record.alias_of is None:
            resident = graph.producer_of[tensor] < 0
            yield tensor, (0 if resident else graph.producer_of[tensor]), (last_op if resident else last[tensor])
