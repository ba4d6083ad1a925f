"""Inputs set aside by list methods: inputs that share a device with computing ops should not decide where these run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core


@dataclass(frozen=True, kw_only=True, eq=False)
class Scope:
    """The ops that a list method places.

    suffix: for the names of its candidates. core: the ops to place. aside: the inputs that are left out, if any.
    """

    suffix: str
    core: _core.Problem
    aside: _core.InputsAside | None = None

    def with_inputs(
        self, device_of: NDArray[np.int32], order: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return device and order of all ops, given those of the scope. order: int32 [num ops], or [num steps, 2] of
        ops and transfers."""
        if self.aside is None:
            return device_of, order
        return (self.aside.whole_ops if order.ndim == 1 else self.aside.whole_order)(device_of, order)


def scopes(core: _core.Problem) -> Iterator[Scope]:
    """Yield a scope of all ops; and where inputs share a device with computing ops, two scopes without these inputs.

    An input takes no time on any device, so a method that places one op after another would fix the device of the whole
    group by it, before it knows anything about the computing ops: on a network whose weights are ops, all weights would
    end on one device, and half of the work with them. An input that is set aside follows the op of its group that is
    placed first; or that op and its own first reader, which then share a device.
    """
    yield Scope(suffix="", core=core)
    for suffix, with_first_reader in ((", inputs with first reader", True), (", inputs with group", False)):
        aside = _core.set_inputs_aside(core, with_first_reader)
        if aside is not None:
            yield Scope(suffix=suffix, core=aside.rest, aside=aside)
