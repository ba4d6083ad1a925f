"""Code that the readers of HLO and StableHLO text share: numbered lines, nested calls of computations, the graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from placewright.graph import Graph
from placewright.importers.xla.graph import build_graph
from placewright.importers.xla.program import MAX_DEPTH, Computation, Program, leaves, named_weights
from placewright.support.errors import InputError, shown

Part = TypeVar("Part")


class Lines:
    """Goes through the lines of a file. at: the index of the next line."""

    def __init__(self, text: str, file: str) -> None:
        self.lines, self.file, self.at = text.splitlines(), file, 0

    def error(self, problem: str, line: int | None = None) -> InputError:
        return InputError(f"'{self.file}', line {self.at if line is None else line}: {problem}")

    def next(self) -> str:
        self.at += 1
        return self.lines[self.at - 1].strip()


class Conversion(ABC, Generic[Part]):
    """A module under conversion. parts: its computations by name, as read. known: those that are converted, open: those
    that are being converted. what: the word for one in error messages."""

    what = "computation"

    def __init__(self, file: str, parts: Mapping[str, Part]) -> None:
        self.file, self.parts = file, parts
        self.known: dict[str, Computation] = {}
        self.open: list[str] = []

    def error(self, problem: str, line: int) -> InputError:
        return InputError(f"'{self.file}', line {line}: {problem}")

    def computation(self, name: str, line: int) -> Computation:
        """The computation of this name, converted once. line: of the call."""
        if name not in self.known:
            if name not in self.parts:
                raise self.error(f"the {self.what} '{shown(name)}' is called and does not exist", line)
            if name in self.open or len(self.open) > MAX_DEPTH:
                raise self.error(f"the {self.what} '{shown(name)}' calls itself, or is nested too deeply", line)
            self.open.append(name)
            self.known[name] = self.converted(self.parts[name])
            self.open.pop()
        return self.known[name]

    @abstractmethod
    def converted(self, part: Part) -> Computation:
        """Converts a computation; those that it calls come from `computation`."""

    def graph_of(
        self, entry: Computation, labels: list[str], updates: dict[int, int], metadata: dict[str, Any], **flags: bool
    ) -> Graph:
        """The graph of the entry computation. Weights are the updated parameters or, without updates, those that
        `named_weights` finds. flags: fields of Program."""
        kinds = list(leaves(tuple(entry.parameters.values())))
        named, warning = (set(), "") if updates else named_weights(labels, kinds)
        weights = frozenset(named) | frozenset(updates.values())
        program = Program(entry=entry, labels=tuple(labels), weights=weights, updates=updates, **flags)
        return build_graph(program, self.file, metadata, warning=warning)
