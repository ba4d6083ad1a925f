"""A traced PyTorch step as a Graph: tensors, aliases, in-place updates and the optimizer."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

import torch
from torch.utils import _pytree as pytree

from placewright.graph import Graph, TensorRole
from placewright.importers.builder import GraphBuilder
from placewright.importers.optimizers import OPTIMIZER_STATES
from placewright.importers.source_lines import module_of, phase_of, source_of
from placewright.importers.torch.attributes import part_bytes, results_of
from placewright.importers.torch.capture import Capture
from placewright.importers.torch.marks import IN_PLACE
from placewright.importers.torch.ops import describe, draws_random_numbers
from placewright.support.errors import InputError


def translate(
    captured: Capture,
    name: str,
    optimizer: str | None,
    *,
    random_in_order: bool = True,
    copies: bool = True,
    sums_in_place: bool = False,
) -> tuple[Graph, Mapping[Any, tuple[int | None, ...]]]:
    """The graph of a capture, and for each FX node the tensors of the graph for its results, None for results that the
    call leaves out. With an optimizer it has one op per parameter that has a gradient; without, the gradients are
    outputs. random_in_order: whether ops that draw random numbers keep their order. copies: whether copies are ops
    although PyTorch, run op by op, makes none. sums_in_place: whether gradients of one tensor are added in place, as in
    PyTorch; this keeps ops on one device that several could share."""
    translation = _Translation(name, random_in_order, frozenset() if copies else _needless_copies(captured))
    for node, (label, role) in captured.sources.items():
        translation.add_source(node, label, role)
    for node in captured.nodes:
        for seed in node.all_input_nodes:
            translation.add_seed(seed, captured.seeded.get(seed))
        translation.add_call(node)
    for target, value in captured.updates:
        translation.add_update(value, target)
    for parameter, gradient in captured.gradients if optimizer else ():
        translation.add_optimizer(parameter, gradient, str(optimizer))
    for node in (*captured.outputs, *(gradient for _, gradient in captured.input_gradients)):
        translation.builder.change_tensor(translation.tensor_of(node), is_output=True)
    for _, gradient in captured.gradients if not optimizer else ():
        translation.builder.change_tensor(translation.tensor_of(gradient), is_output=True)
    for node in captured.nodes:
        if IN_PLACE in node.meta or (sums_in_place and _is_sum_of_gradients(node)):
            translation.add_in_place(node)
    for warning in captured.warnings:
        translation.builder.warn(warning)
    mode = {"mode": "training" if captured.gradients else "inference"}
    return translation.finish({**mode, "optimizer": optimizer} if optimizer else mode), translation.tensors


#: Kinds of ops whose results no other op overwrites, as they may share other memory. A recurrent layer's backward
#: returns one tensor as the gradients of both of its biases.
_NOT_OVERWRITTEN = frozenset({"input", "view", "control_flow", "rnn", "rnn_backward", "other"})


class _Translation:
    """A graph under construction and the FX nodes behind its tensors.

    left_out: copies that are replaced by what they copy. tensors: for each node the tensors of its results, None where
    a call leaves a result out. owner: for each tensor the one whose memory it shares; sharing: the reverse. readers:
    ops, without views, that read an owner's memory. producer: op that made each tensor. last_random: the latest op that
    draws from the generator of random numbers.
    """

    def __init__(self, name: str, random_in_order: bool, left_out: Set[Any]) -> None:
        self.builder = GraphBuilder(name)
        self.tensors: dict[Any, tuple[int | None, ...]] = {}
        self.owner: list[int] = []
        self.sharing: dict[int, list[int]] = {}
        self.readers: dict[int, list[int]] = {}
        self.producer: dict[int, int] = {}
        self.random_in_order = random_in_order
        self.left_out = left_out
        self.last_random: int | None = None
        self.unknown: Counter[str] = Counter()

    def tensor_of(self, node: Any) -> int:
        """The index of the one tensor of a node."""
        index = self.tensors[node][0]
        assert index is not None
        return index

    def add_source(self, node: Any, label: str, role: str) -> None:
        """Adds a parameter or constant, which no op produces, or a graph input."""
        if role == "seed":
            return
        roles: dict[str, TensorRole] = {"parameter": "parameter", "constant": "constant"}
        index = self._add_tensor(label, node.meta["val"], role=roles.get(role, "activation"))
        self.tensors[node] = (index,)
        if role == "input":
            self._add_op(f"input:{label}", "input", outputs=[index], phase=phase_of(node))

    def add_seed(self, node: Any, of: Any | None) -> None:
        """Adds the gradient of the loss by itself, from which the backward pass starts."""
        if node in self.tensors or node.op != "placeholder":
            return
        index = self._add_tensor(f"{node.name}:0", node.meta["val"])
        self.tensors[node] = (index,)
        inputs = [self.tensor_of(of)] if of is not None else []
        self._add_op(
            node.name, "fill", inputs=inputs, outputs=[index], target="aten.ones_like.default", phase="backward"
        )

    def add_call(self, node: Any) -> None:
        """Adds one traced call; a getitem only names one result of the call before it."""
        if node.target is operator.getitem:
            source, position = node.args
            self.tensors[node] = (self.tensors[source][position],)
            return
        if node in self.left_out:
            self.tensors[node] = self.tensors[node.args[0]]
            return
        kind, attributes = describe(node)
        if kind in ("other", "control_flow"):
            self.unknown[str(node.target)] += 1
        inputs = [self.tensor_of(leaf) for leaf in pytree.tree_leaves((node.args, node.kwargs)) if leaf in self.tensors]
        if kind == "view" and not inputs:
            raise InputError(f"'{node.name}' ({node.target}) shows a number, which is no tensor of the module")
        shown = inputs[0] if kind == "view" else None
        self.tensors[node] = tuple(
            self._add_tensor(f"{node.name}:{position}", result, alias_of=shown) if result is not None else None
            for position, result in enumerate(results_of(node))
        )
        op = self._add_op(
            node.name,
            kind,
            inputs=inputs,
            outputs=[tensor for tensor in self.tensors[node] if tensor is not None],
            target=str(node.target),
            attributes=attributes,
            module=module_of(node),
            source=source_of(node),
            phase=phase_of(node),
        )
        if self.random_in_order and draws_random_numbers(node):
            # They share one generator, so in another order they would draw each other's numbers.
            if self.last_random is not None:
                self.builder.change_op(op, controls=(self.last_random,))
            self.last_random = op

    def add_update(self, value: Any, target: Any) -> None:
        """Adds the update of a parameter, buffer or input during the step.

        The op that computes the new value writes it in place, if everything else that reads the old one comes before
        it; otherwise a copy at the end does.
        """
        new, old = self.tensor_of(value), self.tensor_of(target)
        before = self.readers.get(self.owner[old], [])
        op = self.producer.get(new, -1)
        tensor = self.builder.tensors[new]
        fits = tensor.alias_of is None and tensor.size_bytes == self.builder.tensors[old].size_bytes
        computed = op >= 0 and self.builder.ops[op].kind not in ("input", "view")
        if fits and computed and all(reader <= op for reader in before):
            self._overwrite(op, new, old)
            self._count_part(op, value)
            return
        label = self.builder.tensors[old].name
        result = self._add_tensor(f"copy:{label}:0", target.meta["val"])
        copy = self._add_op(f"copy:{label}", "copy", inputs=[new], outputs=[result], target="aten.copy_.default")
        self._overwrite(copy, result, old)

    def add_optimizer(self, parameter: Any, gradient: Any, function: str) -> None:
        """Adds the op that updates one parameter in place from its gradient and the optimizer's state. function: a name
        of OPTIMIZER_STATES."""
        old = self.tensor_of(parameter)
        label = self.builder.tensors[old].name
        states = [
            self._add_tensor(f"{label}.{state}", parameter.meta["val"], role="parameter")
            for state in OPTIMIZER_STATES[function]
        ]
        function, _, added = function.partition("-")
        attributes: dict[str, object] = {"function": function}
        if added:
            # The parameter and the states are read and written, the gradient is read.
            attributes["bytes_moved"] = (2 * (1 + len(states)) + 1) * self.builder.tensors[old].size_bytes
        result = self._add_tensor(f"{function}:{label}:0", parameter.meta["val"])
        op = self._add_op(
            f"{function}:{label}",
            "optimizer",
            inputs=[old, self.tensor_of(gradient), *states],
            outputs=[result],
            attributes=attributes,
            module=label.rpartition(".")[0],
            phase="optimizer",
        )
        self._overwrite(op, result, old)

    def add_in_place(self, node: Any) -> None:
        """Makes a sum take the memory of its first operand, if that is all of a result that nothing else needs later.
        PyTorch does so with gradients of one tensor. Earlier readers stay before it."""
        result, first = self.tensor_of(node), self.tensor_of(node.args[0])
        others = {self.owner[self.tensor_of(each)] for each in node.args[1:] if isinstance(each, torch.fx.Node)}
        owner, op = self.owner[first], self.producer[result]
        is_new = self.builder.tensors[result].alias_of is None
        if is_new and owner not in others and self._is_free_after(op, owner, first):
            self.builder.change_op(op, controls=self._after_readers(op, owner))
            self.builder.change_tensor(result, alias_of=first)
            self._share(result, owner)

    def finish(self, mode: Mapping[str, str]) -> Graph:
        """The graph; warns of calls of unknown meaning, once per target."""
        for target, count in sorted(self.unknown.items()):
            self.builder.warn(f"{count} of the op {target}, whose meaning is not known")
        return self.builder.build({"framework": "torch", **mode})

    def _overwrite(self, op: int, new: int, old: int) -> None:
        """Makes a result share the memory of `old`, after every other op that reads that memory."""
        self.builder.change_op(op, controls=self._after_readers(op, self.owner[old]))
        self.builder.change_tensor(new, alias_of=old, is_output=True)
        self._share(new, self.owner[old])

    def _count_part(self, op: int, node: Any) -> None:
        """Counts only the part that is written for a call that overwrites a part of a tensor."""
        inputs = self.builder.ops[op].inputs
        if node.op != "call_function" or not inputs or self.owner[inputs[0]] != self.owner[self.tensor_of(node)]:
            return
        part = part_bytes(node) if isinstance(node.target, torch._ops.OpOverload) else None
        if part is not None:
            read = sum(self.builder.tensors[tensor].size_bytes for tensor in set(inputs[1:]))
            self.builder.change_op(op, attributes={**self.builder.ops[op].attributes, "bytes_moved": part + read})

    def _share(self, new: int, owner: int) -> None:
        """Moves all tensors in a result's own memory to another memory, where they are read from now on."""
        self.readers.setdefault(owner, []).extend(self.readers.pop(new, []))
        shown = self.sharing.pop(new)
        self.sharing[owner] += shown
        for tensor in shown:
            self.owner[tensor] = owner

    def _is_free_after(self, op: int, owner: int, shown: int) -> bool:
        """True if a memory is that of an op's own result, a tensor shows all of it, and nothing needs it after `op`."""
        tensors, maker = self.builder.tensors, self.producer.get(owner, -1)
        if maker < 0 or self.builder.ops[maker].kind in _NOT_OVERWRITTEN:
            return False
        if (
            not self.builder.ops[maker].target.startswith("aten.")
            or tensors[shown].size_bytes != tensors[owner].size_bytes
        ):
            return False
        return max(self.readers[owner]) <= op and not any(tensors[each].is_output for each in self.sharing[owner])

    def _after_readers(self, op: int, owner: int) -> tuple[int, ...]:
        """The controls of an op that will overwrite a memory: those it has, and all readers of the memory."""
        before = [reader for reader in self.readers.get(owner, []) if reader != op]
        computed_from = {self.producer.get(tensor, -1) for tensor in self.builder.ops[op].inputs}
        return tuple(sorted({*self.builder.ops[op].controls, *before} - computed_from))

    def _add_tensor(
        self, name: str, value: Any, *, role: TensorRole = "activation", alias_of: int | None = None
    ) -> int:
        if not isinstance(value, torch.Tensor):
            raise InputError(
                f"graph '{self.builder.name}': '{name}' is a {type(value).__name__} known only at run time"
            )
        shape = tuple(value.shape)
        if not all(isinstance(extent, int) for extent in shape):
            raise InputError(
                f"graph '{self.builder.name}': tensor '{name}' has the open shape {tuple(map(str, shape))}"
            )
        index = self.builder.add_tensor(
            name,
            size_bytes=_distinct_elements(value) * value.element_size(),
            shape=shape,
            dtype=str(value.dtype).removeprefix("torch."),
            role=role,
            alias_of=alias_of,
        )
        self.owner.append(index if alias_of is None else self.owner[alias_of])
        self.sharing.setdefault(self.owner[index], []).append(index)
        return index

    def _add_op(
        self, name: str, kind: str, *, inputs: Sequence[int] = (), outputs: Sequence[int], **fields: Any
    ) -> int:
        index = self.builder.add_op(name, kind, inputs=inputs, outputs=outputs, **fields)
        self.producer.update(dict.fromkeys(outputs, index))
        for tensor in inputs if kind != "view" else ():
            self.readers.setdefault(self.owner[tensor], []).append(index)
        return index


def _needless_copies(captured: Capture) -> Set[Any]:
    """Copies of a tensor with its layout that are indistinguishable from it, since no result shows them. PyTorch traces
    a dropout that drops nothing as a copy, but passes on the tensor itself when it runs one."""
    kept = {value for _, value in (*captured.updates, *captured.gradients, *captured.input_gradients)}
    kept.update(captured.outputs)
    copies = set()
    for node in reversed(captured.nodes):
        if node.target is torch.ops.aten.clone.default:
            if node not in kept and _is_laid_out_as(node.meta["val"], node.args[0].meta["val"]):
                copies.add(node)
        elif node in kept and (node.target is operator.getitem or describe(node)[0] == "view"):
            kept.add(node.args[0])
    return copies


def _is_laid_out_as(result: Any, operand: Any) -> bool:
    """True if a result can replace an operand, or take its memory."""
    alike = [(each.shape, each.dtype, each.device, each.layout) for each in (result, operand)]
    if alike[0] != alike[1] or result.layout != torch.strided or result.stride() != operand.stride():
        return False
    if operand.is_conj() or operand.is_neg():
        return False
    return bool(torch.ops.aten.is_non_overlapping_and_dense.default(operand))


def _is_sum_of_gradients(node: Any) -> bool:
    """True for a sum by which autograd adds two gradients of one tensor with the same layout."""
    if not node.meta.get("is_gradient_acc") or node.target is not torch.ops.aten.add.Tensor or node.kwargs:
        return False
    if not all(isinstance(operand, torch.fx.Node) for operand in node.args):
        return False
    result, first, second = (each.meta["val"] for each in (node, *node.args))
    return second.shape == result.shape and second.dtype == result.dtype and _is_laid_out_as(result, first)


def _distinct_elements(value: Any) -> int:
    """The number of distinct elements of a tensor: an expanded axis repeats them, overlapping windows share them."""
    if value.numel() == 0 or value.layout != torch.strided:
        return int(value.numel())
    reach = 1 + sum((extent - 1) * stride for extent, stride in zip(value.shape, value.stride(), strict=True))
    kept = 1
    for extent, stride in zip(value.shape, value.stride(), strict=True):
        kept *= extent if stride else 1
    return int(min(kept, reach))
