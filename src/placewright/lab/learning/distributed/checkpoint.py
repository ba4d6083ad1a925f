"""What a training by several controllers keeps, in memory and in a file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from placewright.lab.learning.distributed.controller import ControllerState
from placewright.lab.learning.placers.colocrl_settings import ColocRlSettings
from placewright.lab.learning.placers.placer import Task
from placewright.lab.learning.state_file import check_settings, read_state, write_state

_NAME = "colocrl.pt"


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best placement so far. fitness: as of `Trials`; devices: of each unit."""

    fitness: tuple[int, int, int]
    devices: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept:
    """Between two updates. server: the parameter server's state. controllers: of each what its next step begins from;
    a step that is under way has not been. evaluations: spent so far."""

    server: dict[str, Any]
    controllers: tuple[ControllerState, ...]
    evaluations: int = 0
    best: Best | None = None


class Checkpoint:
    """folder: None where nothing is written."""

    def __init__(self, folder: Path | None, method: ColocRlSettings, task: Task) -> None:
        self._path = None if folder is None else folder / _NAME
        self._settings = {**method.settings, "seed": task.seed, **_digests(task)}

    def write(self, kept: Kept) -> None:
        if self._path is None:
            return
        best = kept.best
        state = {
            "settings": self._settings,
            "server": kept.server,
            "controllers": [_state_of(each) for each in kept.controllers],
            "evaluations": kept.evaluations,
            "best": None if best is None else {"fitness": list(best.fitness), "devices": list(best.devices)},
        }
        write_state(self._path, state)

    def read(self) -> Kept | None:
        """None where nothing is written yet. Raises InputError where the file is damaged or another training's."""
        if self._path is None or not self._path.exists():
            return None
        found: list[Kept] = []
        read_state(self._path, lambda state: found.append(self._kept(state)))
        return found[0]

    def _kept(self, state: dict[str, Any]) -> Kept:
        assert self._path is not None
        check_settings(self._path, state["settings"], self._settings)
        best = state["best"]
        return Kept(
            server=state["server"],
            controllers=tuple(_controller_of(each) for each in state["controllers"]),
            evaluations=state["evaluations"],
            best=best and Best(fitness=tuple(best["fitness"]), devices=tuple(best["devices"])),
        )


def _state_of(state: ControllerState) -> dict[str, Any]:
    generator = torch.tensor(np.frombuffer(state.generator, np.uint8))
    return {"steps": state.steps, "baseline": state.baseline, "generator": generator}


def _controller_of(state: dict[str, Any]) -> ControllerState:
    return ControllerState(
        steps=state["steps"], baseline=state["baseline"], generator=state["generator"].numpy().tobytes()
    )


def _digests(task: Task) -> dict[str, str]:
    """Of all of the problem that decides what placements cost and which there are."""
    problem, units = task.problem, task.units
    machine = hashlib.sha256(repr((problem.machine, problem.memory_limits_bytes, problem.control)).encode())
    machine.update(problem.time_ns.tobytes())
    groups = hashlib.sha256(units.of_op.tobytes() + units.allowed.tobytes())
    return {
        "graph": problem.graph.fingerprint,
        "machine": machine.hexdigest(),
        "objective": problem.objective,
        "groups": groups.hexdigest(),
    }
