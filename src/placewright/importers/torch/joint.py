"""A traced PyTorch step: a functional FX graph of ATen calls, and the meaning of its placeholders and results.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

#: The role of an FX node that no op computes; a "seed" is the gradient of the loss by itself, ones.
SourceRole = Literal["input", "parameter", "constant", "seed"]


@dataclass(frozen=True, kw_only=True)
class Joint:
    """A trace.

    graph: placeholders and results carry descriptors of AOTAutograd. sources: by descriptor, the name and role of each
    placeholder but the seeds. trainable: for a training step each parameter that requires a gradient, and whether the
    loss depends on it. num_results: how many of its plain results the model returns.
    """

    graph: Any
    sources: Mapping[Any, tuple[str, SourceRole]]
    trainable: Mapping[str, bool]
    num_results: int

    def source_of(self, descriptor: Any) -> tuple[str, SourceRole] | None:
        """The name and role of a placeholder; None for a seed."""
        return self.sources.get(descriptor)

    def inputs(self) -> list[Any]:
        """The placeholders of the module's arguments."""
        placeholders = self.graph.find_nodes(op="placeholder")
        return [node for node in placeholders if (self.source_of(node.meta["desc"]) or ("", ""))[1] == "input"]
