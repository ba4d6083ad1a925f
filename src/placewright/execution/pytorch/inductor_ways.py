"""Ways in which Inductor compiles the parts of a step: its own, and others that hold less.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch._inductor.config as inductor_config
from torch._inductor.choices import InductorChoices
from torch._inductor.virtualized import V

from placewright.version import VERSION

#: The largest distance in the order of the graph between nodes that become one kernel. With 4 and 16 the peaks agree
#: within 2% of eager's (cells of an LSTM, ALBERT).
_NEAR = 16


class NearFusion(InductorChoices):
    """Fuses only nodes that are near each other in the order of the graph.

    A kernel runs where the last of its nodes may, and until then all their inputs stay alive. So nodes that run again
    just before they are read must not be fused with nodes of forward that read the same tensors.
    """

    @staticmethod
    def can_fuse(scheduler: Any, node1: Any, node2: Any, shared_data_score: int) -> bool:
        """True if two nodes may become one kernel."""
        apart = max(abs(node1.min_order - node2.max_order), abs(node2.min_order - node1.max_order))
        return apart <= _NEAR and bool(InductorChoices.can_fuse(scheduler, node1, node2, shared_data_score))

    def uuid(self) -> str:
        """Distinguishes its compiled code in PyTorch's caches."""
        return f"placewright {VERSION}: nodes within {_NEAR} places"


@dataclass(frozen=True, kw_only=True)
class Way:
    """Settings of Inductor, and the class that decides which nodes become one kernel; None for Inductor's own."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    choices: type[InductorChoices] | None = None

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """A context in which Inductor compiles in this way."""
        settings = dict(self.settings)
        with ExitStack() as stack:
            if self.choices is not None:
                # First, as it asks for the previous handler, which the settings create where there was none.
                stack.enter_context(V.set_choices_handler(self.choices()))
                # The setting is for the key of the cache; a thread reads it only once.
                settings["inductor_choices_class"] = self.choices
            stack.enter_context(inductor_config.patch(settings))
            yield


#: Inductor's own way fuses some nodes that read the same tensors; keeps free memory until something of the same size
#: needs it; computes what is read twice where it is read, so that its inputs stay alive until then; and on a CPU adds
#: up to twelve tensors in one kernel, so that all of them stay alive until then.
_NEARER_TO_PLAN = {
    "cpp.max_horizontal_fusion_size": 1,
    "allow_buffer_reuse": False,
    "realize_reads_threshold": 2,
    "realize_acc_reads_threshold": 3,
}
#: It also keeps copies of weights and images in the layout of convolutions until backward, next to the originals; and
#: computes a product where it is added to something, so that its inputs stay alive until then: to the end of backward
#: for a weight that is read at both ends of the network.
_NEAREST_TO_PLAN = _NEARER_TO_PLAN | {"layout_optimization": False, "pattern_matcher": False}
#: All ways, the fastest first.
WAYS = (
    Way(),
    Way(settings=_NEARER_TO_PLAN),
    Way(settings=_NEARER_TO_PLAN, choices=NearFusion),
    Way(settings=_NEAREST_TO_PLAN, choices=NearFusion),
)
