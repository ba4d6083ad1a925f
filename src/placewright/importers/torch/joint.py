"""A traced PyTorch step: a functional FX graph of ATen calls, and what its placeholders and results stand for.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

#: What an FX node that no op computes stands for; a "seed" is the gradient of the loss by itself, ones.
SourceRole = Literal["input", "parameter", "constant", "seed"]


class Traced(Protocol):
    """What `capture` reads of a trace.

    graph: placeholders and results carry descriptors of AOTAutograd. num_results: how many of its plain results the
    model returns; the new values of assigned attributes come after them. trainable: of a training step each parameter
    that requires a gradient, and whether the loss depends on it.
    """

    @property
    def graph(self) -> Any: ...
    @property
    def num_results(self) -> int: ...
    @property
    def trainable(self) -> Mapping[str, bool]: ...

    def source_of(self, descriptor: Any) -> tuple[str, SourceRole] | None:
        """Name and role of what a placeholder stands for; None where it is neither an argument nor read beside them."""

    def state_of(self, descriptor: Any) -> Any:
        """Where that lies when the graph is run; None where nobody runs it."""


@dataclass(frozen=True, kw_only=True)
class Joint:
    """A trace to plan with. sources: by descriptor, the name and role of each placeholder but the seeds."""

    graph: Any
    sources: Mapping[Any, tuple[str, SourceRole]]
    trainable: Mapping[str, bool]
    num_results: int

    def source_of(self, descriptor: Any) -> tuple[str, SourceRole] | None:
        """Name and role of what a placeholder stands for."""
        return self.sources.get(descriptor)

    def state_of(self, descriptor: Any) -> None:
        """Nothing, since nobody runs it."""
