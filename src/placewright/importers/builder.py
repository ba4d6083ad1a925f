"""A builder that collects ops and tensors in any order and makes a valid Graph of them; all importers use it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np

from placewright.graph import Graph, Op, Phase, Tensor, TensorRole, in_topological_order
from placewright.support.errors import InputError, shown

logger = logging.getLogger(__name__)

_DTYPES_OF_BITS = {
    2: "int2 uint2",
    4: "int4 uint4 float4_e2m1fn",
    6: "float6_e2m3fn float6_e3m2fn",
    8: "int8 uint8 bool float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float8_e4m3 "
    "float8_e3m4 float8_e4m3b11fnuz",
    16: "int16 uint16 float16 bfloat16",
    32: "int32 uint32 float32 complex32",
    64: "int64 uint64 float64 complex64",
    128: "complex128",
}
#: Bits of one element of each dtype, by the name placewright uses for it.
DTYPE_BITS: Mapping[str, int] = MappingProxyType(
    {dtype: bits for bits, dtypes in _DTYPES_OF_BITS.items() for dtype in dtypes.split()}
)


def tensor_bytes(shape: Sequence[int], dtype: str) -> int:
    """Bytes of a dense tensor, rounded up to a whole byte. Raises InputError when the dtype has no known width."""
    if dtype not in DTYPE_BITS:
        raise InputError(f"a tensor has the dtype '{shown(dtype)}', whose width is unknown")
    bits = DTYPE_BITS[dtype]
    for extent in shape:
        bits *= extent
    return -(-bits // 8)


def plain_data(value: Any) -> Any:
    """A JSON value of an op's attribute as a framework states it: numbers and arrays of numpy and JAX become numbers
    and lists, dtypes and enumerations their names. Raises TypeError for anything else."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): plain_data(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(entry) for entry in value]
    if isinstance(value, np.dtype | type) and (name := np.dtype(value).name) != "object":
        return name
    if hasattr(value, "tolist"):
        numbers = value.tolist()
        # For a long double `tolist` returns a long double.
        return plain_data(numbers) if type(numbers) is not type(value) else float(numbers)
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


class GraphBuilder:
    """A graph under construction.

    Names are kept as given: two ops or two tensors of one name are an error at `build`, never renamed silently. Ops may
    be added before those they depend on; `build` sorts them, keeping the order of addition where it can.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.warnings: list[str] = []

    def add_tensor(
        self,
        name: str,
        *,
        size_bytes: int,
        shape: tuple[int, ...] | None = None,
        dtype: str | None = None,
        role: TensorRole = "activation",
        alias_of: int | None = None,
        is_output: bool = False,
        memory_bytes: int | None = None,
    ) -> int:
        """Adds a tensor and returns its index; the fields are those of Tensor."""
        self.tensors.append(
            Tensor(
                name=name,
                size_bytes=size_bytes,
                shape=shape,
                dtype=dtype,
                role=role,
                alias_of=alias_of,
                is_output=is_output,
                memory_bytes=memory_bytes,
            )
        )
        return len(self.tensors) - 1

    def add_op(
        self,
        name: str,
        kind: str,
        *,
        inputs: Sequence[int] = (),
        outputs: Sequence[int] = (),
        controls: Sequence[int] = (),
        target: str = "",
        attributes: Mapping[str, Any] | None = None,
        module: str = "",
        source: str = "",
        phase: Phase = "",
        time_ns: int | None = None,
        workspace_bytes: int = 0,
    ) -> int:
        """Adds an op and returns its index at the moment of addition, by which `controls` of others name it."""
        self.ops.append(
            Op(
                name=name,
                kind=kind,
                target=target,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                controls=tuple(controls),
                attributes=self._plain(name, attributes or {}),
                module=module,
                source=source,
                phase=phase,
                time_ns=time_ns,
                workspace_bytes=workspace_bytes,
            )
        )
        return len(self.ops) - 1

    def _plain(self, op: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {key: plain_data(value) for key, value in attributes.items()}
        except (TypeError, ValueError) as error:
            raise InputError(f"'{shown(self.name)}': an attribute of op '{shown(op)}': {error}") from error

    def change_tensor(self, index: int, **changes: Any) -> None:
        """Replaces fields of a tensor added earlier (an alias or an output found out later)."""
        self.tensors[index] = replace(self.tensors[index], **changes)

    def change_op(self, index: int, **changes: Any) -> None:
        """Replaces fields of an op added earlier."""
        if "attributes" in changes:
            changes["attributes"] = self._plain(self.ops[index].name, changes["attributes"])
        self.ops[index] = replace(self.ops[index], **changes)

    def warn(self, message: str) -> None:
        """Logs a warning about the source and keeps it for metadata["warnings"]."""
        logger.warning("%s: %s", self.name, message)
        self.warnings.append(message)

    def build(self, metadata: Mapping[str, Any] | None = None) -> Graph:
        """The immutable graph, ops sorted. Raises InputError naming a cycle, a repeated name or an impossible size."""
        kept = dict(metadata or {})
        if self.warnings:
            kept["warnings"] = list(self.warnings)
        ops = in_topological_order(self.ops, self.tensors, self.name)
        return Graph(name=self.name, ops=tuple(ops), tensors=tuple(self.tensors), metadata=kept)
