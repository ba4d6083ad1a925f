"""Graphs whose op times are stated for one device, on machines of other devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.machine import Device, Machine
from placewright.problem import Problem, make_problem
from placewright.support.errors import InputError

#: Limited by arithmetic; all other kinds by the memory's bandwidth.
_ARITHMETIC = frozenset({"matmul", "conv", "conv_backward", "rnn", "rnn_backward", "attention", "attention_backward"})


def on_machine(problem: Problem, machine: Machine, stated_for: Device) -> Problem:
    """The problem's graph on another machine, with the same objective and reading of control dependencies. A stated
    time is divided by how much more than `stated_for` a device does in a second: arithmetic where the op's kind is
    limited by it, else bytes, both at the rate that real kernels reach.

    Raises InputError where a device has no rate.
    """
    made = make_problem(problem.graph, machine, objective=problem.objective, control=problem.control)
    is_arithmetic = np.array([op.kind in _ARITHMETIC for op in problem.graph.ops])
    is_stated = np.array([op.time_ns is not None for op in problem.graph.ops])
    own = np.array(_rates(stated_for))
    factor = np.array([own / _rates(device) for device in machine.devices])
    scale = np.where(is_arithmetic[:, None], factor[:, 0], factor[:, 1])
    scaled = np.rint(made.time_ns * scale).astype(np.int64)
    return replace(made, time_ns=np.where(is_stated[:, None], scaled, made.time_ns))


def _rates(device: Device) -> tuple[float, float]:
    """FLOP/s and bytes/s that kernels reach."""
    if "default" not in device.peak_flops_per_s or device.memory_bandwidth_bytes_per_s is None:
        raise InputError(f"device '{device.name}' has no rate by which a stated time could be scaled")
    arithmetic = device.peak_flops_per_s["default"] * device.compute_efficiency
    return arithmetic, device.memory_bandwidth_bytes_per_s * device.bandwidth_efficiency
