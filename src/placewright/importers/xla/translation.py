"""Instructions as ops of a graph under construction: values, views, folded constants, in-place updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from placewright.graph import Phase, TensorRole
from placewright.importers.builder import GraphBuilder, tensor_bytes
from placewright.importers.xla.attributes import describe
from placewright.importers.xla.kinds import (
    COLLECTIVES,
    DROPS_FOLDED,
    FOLDED_KINDS,
    MOVING_VIEWS,
    UPDATING_OPCODES,
)
from placewright.importers.xla.program import (
    MAX_DEPTH,
    MAX_INSTRUCTIONS,
    Array,
    Body,
    Computation,
    Environment,
    Folded,
    Instruction,
    Program,
    Value,
    folded,
    leaves,
    like,
    look_up,
)
from placewright.importers.xla.scopes import module_of
from placewright.support.errors import InputError, shown

#: Returns the value of an instruction, from the values of its operands and the prefix of its name.
Rule: TypeAlias = "Callable[[Translation, Instruction, Sequence[Value], str], Value]"


@dataclass
class Shared:
    """State that the translation of a program shares with those of its bodies.

    materialised, scopes_nest: see Program. rule_of: returns the rule of an instruction that is more, or less, than one
    op; None for any other. notes: warnings, with {count} in them, and how often each applies. bodies: by identity of
    the computation, so that one that is called often is measured once.
    """

    materialised: bool
    scopes_nest: bool
    rule_of: Callable[[Instruction], Rule | None]
    notes: Counter[str] = field(default_factory=Counter)
    bodies: dict[tuple[int, bool], Body] = field(default_factory=dict)
    num_instructions: int = 0


class Translation:
    """A graph under construction.

    arrays, owner: per tensor, its type and the tensor whose memory it shares. readers: per owner, the ops other than
    views that read its memory. producer: per tensor, the op that made it. opcodes, scopes: per op. kept: ops that have
    effects besides their results. entry: the tensors of the program's parameters. in_place: op, result and operand of
    loops and partial updates, which may overwrite that operand. parts_of: per whole array, the views of one device's
    part, each with its sharding. part_of: per view of a whole array, the part and its sharding. early: per op that must
    move ahead of ops added before it, the op that it follows; -1 for the beginning.
    """

    def __init__(self, builder: GraphBuilder, shared: Shared, *, depth: int = 0, is_fused: bool = False) -> None:
        self.builder, self.shared, self.depth = builder, shared, depth
        self.is_real = shared.materialised and not is_fused
        self.arrays: list[Array] = []
        self.owner: list[int] = []
        self.readers: dict[int, list[int]] = {}
        self.producer: dict[int, int] = {}
        self.opcodes: list[str] = []
        self.scopes: list[str] = []
        self.kept: set[int] = set()
        self.entry: list[int] = []
        self.in_place: list[tuple[int, int, int]] = []
        self.early: dict[int, int] = {}
        self.pieces: dict[tuple[int, int], int] = {}
        self.parts_of: dict[int, list[tuple[int, str]]] = {}
        self.part_of: dict[int, tuple[int, str]] = {}
        self._place = ("", "")
        self._made: dict[str, tuple[range, Value]] = {}
        self._constants: dict[int, int] = {}
        self._used: set[str] = set()
        self._numbers: Counter[str] = Counter()

    def add_arguments(self, program: Program) -> list[Value]:
        """Adds weights, and graph inputs with an op each; returns the values of the entry's parameters."""
        arrays = leaves(tuple(program.entry.parameters.values()))
        for position, (label, array) in enumerate(zip(program.labels, arrays, strict=True)):
            is_weight = position in program.weights
            tensor = self.add_tensor(self.unique(label), array, role="parameter" if is_weight else "activation")
            self.entry.append(tensor)
            if not is_weight:
                self.add_op(f"input:{self.builder.tensors[tensor].name}", "input", outputs=[tensor])
        places = iter(self.entry)
        return [like(kind, places) for kind in program.entry.parameters.values()]

    def run(
        self,
        computation: Computation,
        arguments: Sequence[Value],
        prefix: str = "",
        caller: Instruction | None = None,
    ) -> Value:
        """Adds a computation's ops and returns the value of its root.

        caller: the instruction that calls it; where scopes nest, its scope encloses those of the ops. Ops without a
        source line take the caller's.
        """
        if self.depth + prefix.count("/") > MAX_DEPTH:
            raise InputError(f"'{shown(computation.name)}' is nested too deeply")
        if len(arguments) != len(computation.parameters):
            given = f"{len(computation.parameters)} parameters and is called with {len(arguments)} values"
            raise InputError(f"'{shown(computation.name)}' has {given}")
        self.shared.num_instructions += 1 + len(computation.instructions)
        if self.shared.num_instructions > MAX_INSTRUCTIONS:
            raise InputError(f"'{shown(computation.name)}' unfolds to more than {MAX_INSTRUCTIONS:,} instructions")
        outside = self._place
        if caller is not None:
            self._place = self._scope_of(caller), caller.source or outside[1]
        environment: Environment = dict(zip(computation.parameters, arguments, strict=True))
        for instruction in computation.instructions:
            environment[instruction.name] = self._value(instruction, environment, prefix)
        self._place = outside
        return look_up(environment, computation.root, computation.name)

    def _scope_of(self, instruction: Instruction) -> str:
        outside = self._place[0] if self.shared.scopes_nest else ""
        return f"{outside}/{instruction.scope}" if outside and instruction.scope else instruction.scope or outside

    def _value(self, instruction: Instruction, environment: Environment, prefix: str) -> Value:
        operands = [look_up(environment, operand, instruction.name) for operand in instruction.operands]
        rule, first = self.shared.rule_of(instruction), len(self.builder.ops)
        value = (rule or Translation.plain)(self, instruction, operands, prefix)
        if instruction.controls and instruction.opcode != "tuple" and first == len(self.builder.ops):
            value = self._waiting(instruction, value, prefix)
        self._made[instruction.name] = range(first, len(self.builder.ops)), value
        return value

    def _ops_before(self, instruction: Instruction) -> list[int]:
        """The ops of an instruction's control predecessors. For one without ops, such as the second half of an
        asynchronous pair: the ops that make its value."""
        before: set[int] = set()
        for name in instruction.controls:
            ops, value = self._made.get(name, (range(0), None))
            before.update(ops or [self.producer[leaf] for leaf in leaves(value) if leaf in self.producer])
        return sorted(before)

    def _waiting(self, instruction: Instruction, value: Value, prefix: str) -> Value:
        """Views of the value of an instruction without ops, so that its readers wait for its control predecessors."""
        if isinstance(value, tuple):
            return tuple([self._waiting(instruction, part, prefix) for part in value])
        before = self._ops_before(instruction)
        if not isinstance(value, int) or self._stands_behind(value, before):
            return value
        return self.view(prefix + instruction.name, self.arrays[value], value, instruction=instruction, controls=before)

    def _stands_behind(self, tensor: int, before: Sequence[int]) -> bool:
        """True if a tensor is made only after all these ops have ended."""
        seen: set[int] = set()
        waiting = [self.producer.get(tensor, -1)] if before else []
        while waiting:
            op = waiting.pop()
            if op >= before[0] and op not in seen:
                seen.add(op)
                waiting += [self.producer.get(each, -1) for each in self.builder.ops[op].inputs]
                waiting += self.builder.ops[op].controls
        return seen.issuperset(before)

    def plain(self, instruction: Instruction, operands: Sequence[Value], prefix: str) -> Value:
        """One op, a view, or a folded constant."""
        flat: Sequence[Any] = [leaf for operand in operands for leaf in leaves(operand) if leaf is not None]
        kind, attributes = describe(instruction, [self.array_of(leaf) for leaf in flat])
        if kind in FOLDED_KINDS and self._folds(instruction, flat):
            return folded(instruction.type)
        if kind == "view" and not (self.is_real and instruction.opcode in MOVING_VIEWS):
            return self._view(instruction, flat, prefix)
        kind = "copy" if kind == "view" else kind
        if kind == "gather":
            kind, flat, attributes = self._rows(instruction, flat)
        if kind == "other":
            self._note_unknown(instruction)
        if kind == "copy" and self._goes_over_link(instruction, flat):
            self.shared.notes["{count} copies to the host's memory or back: the time of their link is not known"] += 1
        return self.emit(instruction, kind, flat, prefix, attributes)

    def emit(
        self,
        instruction: Instruction,
        kind: str,
        flat: Sequence[Value],
        prefix: str,
        attributes: Mapping[str, Any],
        workspace_bytes: int = 0,
    ) -> Value:
        """Adds the op of an instruction, which reads these leaves."""
        name = self.unique(prefix + instruction.name)
        drops_all = kind in DROPS_FOLDED or instruction.opcode == "fusion"
        inputs = [
            self.as_tensor(leaf, name)
            for leaf in flat
            if not (isinstance(leaf, Folded) and (drops_all or leaf.array.shape == ()))
        ]
        if not inputs and kind in ("copy", "elementwise"):
            kind = "fill"
        arrays = list(leaves(instruction.type))
        scratch = [arrays.pop()] if instruction.details.get("ends_in_scratch") else []
        names = [name] if len(arrays) == 1 else [f"{name}:{position}" for position in range(len(arrays))]
        outputs = list(map(self.add_tensor, names, arrays))
        op = self.add_op(
            name,
            kind,
            instruction=instruction,
            inputs=inputs,
            outputs=outputs,
            controls=self._ops_before(instruction),
            attributes=attributes,
            workspace_bytes=workspace_bytes + sum(array.size_bytes for array in scratch),
        )
        if instruction.opcode in UPDATING_OPCODES and kind == "gather" and len(inputs) > 1:
            beside = {self.owner[tensor] for tensor in inputs[1:]}
            if self.owner[inputs[0]] not in beside:
                self.in_place.append((op, outputs[0], inputs[0]))
        if instruction.has_effect:
            self.kept.add(op)
        return like(instruction.type, iter([*outputs, *(None for _ in scratch)]))

    def constant(self, instruction: Instruction) -> Value:
        """The value of a constant. Scalars, and arrays of one value, are folded; other arrays are constants of the
        graph, each added once even if its computation is called several times."""
        kind = instruction.type
        assert isinstance(kind, Array)
        if instruction.details.get("is_splat") or kind.shape == ():
            return Folded(kind, instruction.details.get("number"))
        key: int = instruction.details.get("array", id(instruction))
        if key not in self._constants:
            self._constants[key] = self.add_tensor(self.unique(instruction.name), kind, role="constant")
        return self._constants[key]

    def array_of(self, leaf: Any) -> Array:
        """Type of a leaf."""
        return leaf.array if isinstance(leaf, Folded) else self.arrays[leaf]

    def as_tensor(self, leaf: Any, reader: str) -> int:
        """The tensor of a leaf; a folded array is filled by an op of its own."""
        return self.make(f"{reader}/fill", "fill", leaf.array) if isinstance(leaf, Folded) else int(leaf)

    def as_output(self, leaf: Any) -> int:
        """The tensor of a leaf of the root: copied in full if it is stretched; one device's part after a shard_map."""
        tensor = self.as_tensor(Folded(Array((0,), "bool", 0)) if leaf is None else leaf, "output")
        while tensor in self.part_of:
            tensor = self.part_of[tensor][0]
        array = self.arrays[tensor]
        if not array.is_stretched:
            return tensor
        whole = replace(array, size_bytes=tensor_bytes(array.shape, array.dtype))
        return self.make(f"copy:{self.builder.tensors[tensor].name}", "copy", whole, [tensor])

    def piece(self, leaf: Any, step: int, array: Array, name: str) -> Value:
        """The view of an array, stacked along its first axis, that one step of an unrolled loop reads."""
        if isinstance(leaf, Folded):
            return Folded(array)
        if (leaf, step) not in self.pieces:
            self.pieces[leaf, step] = self.make(f"{name}[{step}]", "view", array, [leaf], alias_of=leaf)
        return self.pieces[leaf, step]

    def join(self, parts: Sequence[Any], array: Array, name: str) -> Value:
        """The results of all steps of an unrolled loop, as one array."""
        if all(isinstance(part, Folded) for part in parts):
            return Folded(array)
        label = self.unique(f"{name}/stack")
        tensor = self.add_tensor(label, array)
        inputs = [self.as_tensor(part, label) for part in parts]
        self.add_op(label, "copy", inputs=inputs, outputs=[tensor])
        return tensor

    def _folds(self, instruction: Instruction, flat: Sequence[Value]) -> bool:
        """True if it is made of constants alone and can be folded; after scheduling only scalars can."""
        if instruction.has_effect or not all(isinstance(leaf, Folded) for leaf in flat):
            return False
        return not self.is_real or all(array.shape == () for array in leaves(instruction.type))

    def _view(self, instruction: Instruction, flat: Sequence[Value], prefix: str) -> Value:
        base = flat[0] if flat else None
        array = next(leaves(instruction.type))
        if not isinstance(base, int):
            return Folded(array, base.number if isinstance(base, Folded) else None)
        controls = self._ops_before(instruction)
        tensor = self.view(prefix + instruction.name, array, base, instruction=instruction, controls=controls)
        return like(instruction.type, iter([tensor] * len(list(leaves(instruction.type)))))

    def _rows(self, instruction: Instruction, flat: Sequence[Any]) -> tuple[str, Sequence[Any], dict[str, Any]]:
        """Kind, operands and attributes of a gather or scatter. Rows looked up in a parameter are an embedding; rows
        added to a constant, such as zeros, are its gradient. Inside a body a dynamic-update-slice writes in place."""
        opcode, table = instruction.opcode, flat[0] if flat else None
        if opcode == "gather" and isinstance(table, int) and len(self.arrays[table].shape) == 2:
            is_parameter = self.builder.tensors[self.owner[table]].role == "parameter"
            whole_rows = tuple(instruction.details.get("slice_sizes", ())) == (1, self.arrays[table].shape[1])
            if is_parameter and whole_rows and self.depth == 0:
                return "embedding", flat, {}
        adds = opcode == "scatter-add" or (opcode == "scatter" and instruction.details.get("function") == "add")
        if adds and isinstance(table, Folded) and len(flat) == 3 and len(table.array.shape) == 2:
            return "embedding_backward", [flat[2], flat[1]], {}
        if self.depth and opcode == "dynamic-update-slice" and len(flat) > 1:
            return "gather", flat, {"bytes_moved": 2 * self.array_of(flat[1]).size_bytes}
        return "gather", flat, {}

    def _goes_over_link(self, instruction: Instruction, flat: Sequence[Any]) -> bool:
        made = [each.is_at_host for each in leaves(instruction.type)]
        return len(made) == len(flat) == 1 and made[0] != self.array_of(flat[0]).is_at_host

    def _note_unknown(self, instruction: Instruction) -> None:
        if instruction.opcode in COLLECTIVES:
            note = f"{{count}} of {instruction.opcode}: the time to reach the other partitions is not known"
        else:
            note = f"{{count}} of {shown(instruction.target)}, whose meaning is not known"
        self.shared.notes[note] += 1

    def add_tensor(
        self, name: str, array: Array, *, role: TensorRole = "activation", alias_of: int | None = None
    ) -> int:
        index = self.builder.add_tensor(
            name, size_bytes=array.size_bytes, shape=array.shape, dtype=array.dtype, role=role, alias_of=alias_of
        )
        self.arrays.append(array)
        self.owner.append(index if alias_of is None else self.owner[alias_of])
        return index

    def add_op(
        self,
        name: str,
        kind: str,
        *,
        instruction: Instruction | None = None,
        inputs: Sequence[int] = (),
        outputs: Sequence[int] = (),
        phase: Phase = "",
        **fields: Any,
    ) -> int:
        scope = self._scope_of(instruction) if instruction else ""
        op = self.builder.add_op(
            name,
            kind,
            inputs=inputs,
            outputs=outputs,
            target=instruction.target if instruction else "",
            module=module_of(scope),
            source=instruction.source or self._place[1] if instruction else "",
            phase=phase,
            **fields,
        )
        self.opcodes.append(instruction.opcode if instruction else "")
        self.scopes.append(scope)
        self.producer.update(dict.fromkeys(outputs, op))
        for tensor in inputs if kind != "view" else ():
            self.readers.setdefault(self.owner[tensor], []).append(op)
        return op

    def make(
        self, label: str, kind: str, array: Array, inputs: Sequence[int] = (), *, alias_of: int | None = None, **op: Any
    ) -> int:
        """Adds a tensor, and the op of the same name that makes it. op: further fields of the op."""
        name = self.unique(label)
        tensor = self.add_tensor(name, array, alias_of=alias_of)
        self.add_op(name, kind, inputs=inputs, outputs=[tensor], **op)
        return tensor

    def view(self, label: str, array: Array, base: int, **op: Any) -> int:
        """Adds a view of a tensor, with the type of an array but no more bytes than the tensor has."""
        seen = replace(array, size_bytes=min(array.size_bytes, self.arrays[base].size_bytes))
        return self.make(label, "view", seen, [base], alias_of=base, **op)

    def live_ops(self, wanted: set[int], without: Collection[int] = ()) -> list[int]:
        """Input ops, and ops that are kept or lead to a wanted tensor, in order. Adds what they read to `wanted`."""
        live = []
        for index in range(len(self.builder.ops) - 1, -1, -1):
            op = self.builder.ops[index]
            is_live = op.kind == "input" or index in self.kept or not wanted.isdisjoint(op.outputs)
            if is_live and index not in without:
                wanted.update(op.inputs)
                live.append(index)
        return live[::-1]

    def unique(self, name: str) -> str:
        """The name, with a number where it is taken. An op and its result share a name, so both get the same number."""
        if name not in self._used:
            self._used.add(name)
            return name
        while (numbered := f"{name}#{self._numbers[name] + 1}") in self._used:
            self._numbers[name] += 1
        self._numbers[name] += 1
        self._used.add(numbered)
        return numbered
